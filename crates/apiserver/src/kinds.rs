//! Kinds as rows: everything the generic paths need to know to serve one.
//!
//! Not here: how requests are carried out (`verbs`), what single kinds do beyond the generic
//! (`strategy`). Invariant: a [`Kind`] never changes; a changed definition makes a new one.

use std::sync::Arc;

use deltaplane_api::kind::ApiVersion;
use deltaplane_expr::rules::Rules;
use deltaplane_runtime::Stop;
use deltaplane_schema::Schema;
use serde_json::Value;

use crate::error::About;
use crate::strategy::Strategy;
use crate::{typepack, value};

pub(crate) mod builtin;
pub(crate) mod custom;
pub(crate) mod registry;

/// One kind in one version, as it is served.
pub(crate) struct Kind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// `v1`, `apps/v1`.
    pub(crate) api_version: String,
    /// The part of the store's key that all versions (and groups, for events) share.
    pub(crate) collection: String,
    /// The `apiVersion` of stored bytes.
    pub(crate) stored_as: String,
    /// Stored bytes with this tag are exactly what this kind serves; others must be converted.
    pub(crate) tag: u64,
    pub(crate) schema: Schema,
    /// What else its objects must obey.
    pub(crate) rules: Option<Rules>,
    pub(crate) status: bool,
    pub(crate) scale: Option<Scale>,
    /// The fields that `computed` writes: paths such as `spec.state`.
    pub(crate) computed: Vec<String>,
    /// Fields that a selector may name, besides `metadata.name` and `metadata.namespace`.
    pub(crate) selectable: Vec<String>,
    pub(crate) storage_hash: String,
    /// What clients of this version are warned of.
    pub(crate) deprecation: Option<String>,
    pub(crate) strategy: &'static Strategy,
    pub(crate) source: Source,
}

/// Where a kind comes from.
pub(crate) enum Source {
    BuiltIn(&'static typepack::Kind),
    Custom(Arc<custom::Definition>),
}

/// Where a kind keeps what `scale` shows: paths such as `spec.replicas`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    pub(crate) spec_replicas: String,
    pub(crate) status_replicas: String,
    pub(crate) selector: Option<ScaleSelector>,
}

/// How a kind writes the selector of what it scales.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScaleSelector {
    /// A `LabelSelector` object at this path.
    Object(String),
    /// A map of labels at this path (ReplicationController).
    Labels(String),
    /// Text at this path (custom resources).
    Text(String),
}

// === impl Kind ===

impl Kind {
    /// What errors about the object `name` of this kind say.
    pub(crate) fn about<'a>(&'a self, name: &'a str) -> About<'a> {
        About {
            group: &self.group,
            resource: &self.plural,
            name,
        }
    }

    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    /// The group that objects are stored in, which errors about fields name.
    pub(crate) fn stored_group(&self) -> &str {
        match self.stored_as.split_once('/') {
            Some((group, _)) => group,
            None => "",
        }
    }

    pub(crate) fn is_custom(&self) -> bool {
        matches!(self.source, Source::Custom(_))
    }

    /// Pulled when this kind is not served like this any more.
    pub(crate) fn retired(&self) -> Option<Stop> {
        match &self.source {
            Source::BuiltIn(_) => None,
            Source::Custom(definition) => Some(definition.retired.subscribe()),
        }
    }

    /// Sets `apiVersion` and `kind` to this kind's.
    pub(crate) fn stamp(&self, object: &mut Value) {
        object["apiVersion"] = self.api_version.as_str().into();
        object["kind"] = self.kind.as_str().into();
    }

    /// Applies the kind's defaults.
    pub(crate) fn default(&self, object: &mut Value) {
        match &self.source {
            Source::BuiltIn(row) => typepack::defaults::apply(typepack::load(), row, object),
            Source::Custom(_) => self.schema.default(object),
        }
    }

    /// Applies the kind's defaults, but not to computed fields: admission control must see whether a
    /// client wrote them, and a default is nothing that a client wrote. Null counts as left out.
    /// [`Kind::default`] completes the object afterwards.
    pub(crate) fn default_for_admission(&self, object: &mut Value) {
        if self.computed.is_empty() {
            return self.default(object);
        }
        let mut sent = object.clone();
        for path in &self.computed {
            value::take_null_at(&mut sent, path);
        }
        self.default(object);
        for path in &self.computed {
            value::copy_at(object, &sent, path);
        }
    }

    /// From the form that is stored to the form that this kind serves.
    pub(crate) fn serve_stored(&self, mut object: Value) -> Value {
        if let Some(convert) = self.strategy.from_stored {
            convert(self, &mut object);
        }
        self.stamp(&mut object);
        if self.is_custom() {
            self.schema.prune(&mut object);
            self.schema.default(&mut object);
        }
        object
    }

    /// From the form that this kind serves to the form that is stored.
    pub(crate) fn make_stored(&self, object: &mut Value) {
        if let Some(convert) = self.strategy.to_stored {
            convert(self, object);
        }
        object["apiVersion"] = self.stored_as.as_str().into();
    }

    /// The tag under which objects written through this kind are stored.
    pub(crate) fn write_tag(&self) -> u64 {
        match self.api_version == self.stored_as {
            true => self.tag,
            false => NEVER,
        }
    }
}

/// A tag that no kind serves as is.
const NEVER: u64 = u64::MAX;

/// Which versions there are, for server-side apply.
pub(crate) struct KindVersions<'a>(pub(crate) &'a Kind);

impl deltaplane_schema::managed::Versions for KindVersions<'_> {
    fn schema(&self, api_version: &str) -> Option<&Schema> {
        if api_version == self.0.api_version {
            return Some(&self.0.schema);
        }
        let Source::Custom(definition) = &self.0.source else {
            return None;
        };
        let version: ApiVersion = api_version.parse().ok()?;
        match version.group == self.0.group {
            true => definition.schemas.get(&version.version),
            false => None,
        }
    }
}
