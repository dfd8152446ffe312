//! The kinds that a definition's resources are of, as the caller knows them.

use std::fmt;
use std::sync::{Arc, OnceLock};

use deltaplane_expr::{Absent, Decl, Exposure, Reading};
use deltaplane_schema::Schema;

/// A group, a version and a kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvk {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
}

/// A kind that is served. Made once for a kind and shared by all definitions that use it, as are
/// the types of its fields, which unfold when an expression first asks for them.
#[derive(Debug)]
pub struct Known {
    gvk: Gvk,
    plural: String,
    namespaced: bool,
    schema: Schema,
    decl: OnceLock<Decl>,
}

/// What is known of a kind.
#[derive(Clone, Debug)]
pub enum Lookup {
    Known(Arc<Known>),
    /// It is not served.
    Absent,
    /// It cannot be told now; why.
    Unavailable(String),
}

/// How objects are read: what is not there may come.
pub(crate) const READING: Reading = Reading {
    absent: Absent::Waits,
    exposure: Exposure::Open,
    resource: true,
};

// === impl Gvk ===

impl Gvk {
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        }
    }

    /// From `apps/v1` and `Deployment`. Nothing when the first is not a version.
    pub fn parse(api_version: &str, kind: &str) -> Option<Self> {
        let parsed: deltaplane_api::kind::ApiVersion = api_version.parse().ok()?;
        let known = !parsed.version.is_empty() && !kind.is_empty();
        known.then(|| Self::new(&parsed.group, &parsed.version, kind))
    }

    /// As objects write it.
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.api_version(), self.kind)
    }
}

// === impl Known ===

impl Known {
    /// `schema` describes whole objects. Kinds without one have [`Schema::deduced`].
    pub fn new(gvk: Gvk, plural: &str, namespaced: bool, schema: Schema) -> Self {
        Self {
            gvk,
            plural: plural.to_owned(),
            namespaced,
            schema,
            decl: OnceLock::new(),
        }
    }

    pub fn gvk(&self) -> &Gvk {
        &self.gvk
    }

    pub fn plural(&self) -> &str {
        &self.plural
    }

    pub fn namespaced(&self) -> bool {
        self.namespaced
    }

    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// What expressions see of an object.
    pub fn decl(&self) -> &Decl {
        self.decl.get_or_init(|| {
            let name = format!("{}.{}", self.gvk.api_version(), self.gvk.kind);
            Decl::of_schema(&self.schema, &name, READING)
                .unwrap_or_else(|| Decl::dynamic(Absent::Waits).clone())
        })
    }
}
