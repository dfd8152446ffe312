//! A ResourceGraphDefinition, read: of the right shape and size, and not looked into yet.
//!
//! Beyond kro's there are `spec.serviceAccountName`, `spec.deletionBudget`, `spec.propagateWhen`,
//! `spec.orderBy`, and the latter two for each resource.

mod read;

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_propagation::stages::BudgetSpec;
use deltaplane_schema::plural;
use serde_json::Value as Json;

use crate::graph::Version;
use crate::hash;
use crate::kinds::Gvk;
use crate::problem::Problems;

/// A definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    pub(crate) name: String,
    pub(crate) schema: Instance,
    pub(crate) resources: Vec<Resource>,
    pub(crate) gate: GateText,
    pub(crate) service_account: Option<String>,
    pub(crate) deletion_budget: BudgetSpec,
    /// All of it, as written.
    pub(crate) spec: Json,
}

/// The kind that is defined: `spec.schema`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Instance {
    pub kind: String,
    /// `apiVersion`, which has no group.
    pub version: String,
    pub group: String,
    /// Under which plural the kind is served, if it is served already.
    pub plural: Option<String>,
    pub namespaced: bool,
    /// SimpleSchema, as are the types.
    pub spec: Json,
    pub types: Json,
    /// What the status is made of.
    pub status: Json,
    pub columns: Vec<Json>,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    /// Of the CustomResourceDefinition; nothing when there is no `metadata`.
    pub metadata: Option<Metadata>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

/// One of `spec.resources`.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    pub id: String,
    pub body: Body,
    pub ready_when: Vec<String>,
    pub include_when: Vec<String>,
    /// Names of iterators and what they go through.
    pub for_each: Vec<(String, String)>,
    pub gate: GateText,
}

/// What a resource is.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    Template(Json),
    External(Reference),
}

/// Objects of others.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    pub api_version: String,
    pub kind: String,
    pub namespace: Option<String>,
    pub target: Target,
}

/// Which objects of others.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    Name(String),
    Selector(Json),
}

/// `propagateWhen` and `orderBy`, as written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GateText {
    /// Nothing was said, or an empty list: all at once.
    pub when: Option<Vec<String>>,
    pub order_by: Option<String>,
}

// === impl Definition ===

impl Definition {
    /// Reads a whole object.
    pub fn read(object: &Json) -> Result<Self, Problems> {
        read::definition(object)
    }

    /// The same definition, whose kind is served under this plural.
    #[must_use]
    pub fn served_as(mut self, plural: Option<String>) -> Self {
        self.schema.plural = plural;
        self
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn schema(&self) -> &Instance {
        &self.schema
    }

    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    pub fn gate(&self) -> &GateText {
        &self.gate
    }

    /// The service account that instances act as, if the definition names one.
    pub fn service_account(&self) -> Option<&str> {
        self.service_account.as_deref()
    }

    /// How many objects of instances a version may delete without approval.
    pub fn deletion_budget(&self) -> BudgetSpec {
        self.deletion_budget
    }

    /// The version of what instances make: [`Graph::content_version`](crate::Graph::content_version),
    /// which follows from the definition alone.
    pub fn content_version(&self) -> Version {
        let (_, content) = hash::versions(self);
        content
    }

    /// As written.
    pub fn spec(&self) -> &Json {
        &self.spec
    }

    /// The kinds that must be known before it can be compiled.
    pub fn kinds(&self) -> BTreeSet<Gvk> {
        self.resources.iter().filter_map(Resource::gvk).collect()
    }
}

// === impl Instance ===

impl Instance {
    /// The plural of the kind: under which it is served, or kro's.
    pub fn plural(&self) -> String {
        let known = self.plural.clone();
        known.unwrap_or_else(|| plural::pluralize(&self.kind))
    }
}

// === impl Resource ===

impl Resource {
    /// Its kind. Nothing when that is not written as it should be.
    pub fn gvk(&self) -> Option<Gvk> {
        let (api_version, kind) = match &self.body {
            Body::Template(object) => (
                object.get("apiVersion")?.as_str()?,
                object.get("kind")?.as_str()?,
            ),
            Body::External(reference) => (&*reference.api_version, &*reference.kind),
        };
        if api_version.contains("${") || kind.contains("${") {
            return None;
        }
        Gvk::parse(api_version, kind)
    }
}
