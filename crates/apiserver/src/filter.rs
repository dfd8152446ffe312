//! Which objects a list or watch wants.

use deltaplane_api::selector::{FieldSelector, LabelSelector};
use deltaplane_store::Object;
use serde_json::Value;

use crate::error::Error;
use crate::kinds::Kind;
use crate::options::ListOptions;
use crate::{present, value};

/// A label and a field selector, checked against the kind.
pub(crate) struct Filter {
    labels: LabelSelector,
    fields: FieldSelector,
    /// Whether a field is asked for that only the object's body can tell.
    needs_body: bool,
}

// === impl Filter ===

impl Filter {
    /// Refuses fields that the kind does not offer.
    pub(crate) fn new(kind: &Kind, options: &ListOptions) -> Result<Self, Error> {
        let mut needs_body = false;
        for term in &options.fields.terms {
            match term.field.as_str() {
                "metadata.name" => {}
                "metadata.namespace" if kind.namespaced => {}
                field if kind.selectable.iter().any(|one| one == field) => needs_body = true,
                field => return Err(unsupported(kind, field)),
            }
        }
        Ok(Self {
            labels: options.labels.clone(),
            fields: options.fields.clone(),
            needs_body,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The only name that can match, if there is one.
    pub(crate) fn name(&self) -> Option<&str> {
        self.fields.exact("metadata.name")
    }

    /// The only namespace that can match, if there is one.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.fields.exact("metadata.namespace")
    }

    pub(crate) fn matches(&self, kind: &Kind, object: &Object) -> bool {
        if !self.labels.matches(|key| object.header().labels().get(key)) {
            return false;
        }
        if self.fields.is_empty() {
            return true;
        }
        let body = match self.needs_body {
            true => present::value(kind, object),
            false => Value::Null,
        };
        self.fields.matches(|field| match field {
            "metadata.name" => object.key().name().to_owned(),
            "metadata.namespace" => object.key().namespace().to_owned(),
            field => body_field(&body, field),
        })
    }
}

/// The words depend on whether the kind has fields of its own to select by.
fn unsupported(kind: &Kind, field: &str) -> Error {
    Error::bad_request(match kind.selectable.is_empty() {
        true => format!(
            "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        ),
        false => format!("field label not supported: {field}"),
    })
}

/// A field's value as selectors compare it.
fn body_field(body: &Value, field: &str) -> String {
    let found = match field {
        "name" => value::at(body, "metadata.name"),
        "source" if value::text(body, "source.component").is_empty() => {
            value::at(body, "reportingComponent")
        }
        "source" => value::at(body, "source.component"),
        field => value::at(body, field),
    };
    match found.as_str() {
        Some(text) => text.to_owned(),
        None if found.is_null() => default_of(field).to_owned(),
        None => found.to_string(),
    }
}

/// Numbers and flags of built-in kinds have a value when they are absent.
fn default_of(field: &str) -> &'static str {
    match field {
        "status.replicas" | "status.successful" => "0",
        "spec.unschedulable" | "spec.hostNetwork" => "false",
        _ => "",
    }
}
