//! PATCH: JSON patch, merge patch, strategic merge patch, and server-side apply.

mod effort;

use std::sync::Arc;

use deltaplane_api::field;
use deltaplane_api::json::Parsed;
use deltaplane_schema::{Schema, TooDeep, managed, strategic, too_deep, too_deep_at};
use http::StatusCode;
use serde_json::{Value, json};

use self::effort::PatchEffort;
use super::create::{self, New};
use super::update::{self, Changed};
use super::write::{self, Section};
use crate::context::{Answer, Cx};
use crate::decode::{self, essence};
use crate::error::{Cause, Error};
use crate::options::{FieldValidation, Options, WriteOptions};
use crate::value;

/// As many operations as one JSON patch may have.
const MAX_OPERATIONS: usize = 10_000;
/// As much as the copies of one JSON patch may add.
const MAX_COPIED: usize = 3 << 20;

pub(super) const SUPPORTED: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
const SUPPORTED_CUSTOM: [&str; 3] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
];

pub(super) const DECODING: &str = "error decoding patch: ";

/// A parsed patch.
enum Patch {
    Json(json_patch::Patch),
    Merge(Value),
    Strategic(Value),
}

pub(crate) async fn patch(cx: &mut Cx, section: Section) -> Result<Answer, Error> {
    let content_type = essence(cx.content_type()).to_owned();
    if content_type == "application/apply-patch+yaml" {
        return apply(cx, section).await;
    }
    let options = WriteOptions::parse(Options::Patch, &cx.query, cx.user_agent())?;
    let (patch, duplicates) = parse(cx, &content_type)?;
    let written = update::change(cx, section, &options, |cx, live| {
        let mut object = patch.apply(cx, live)?;
        finish(cx, &mut object, live, &duplicates, &options)?;
        Ok(Changed {
            object,
            tracked: false,
        })
    })
    .await?;
    create::respond(cx, &written, StatusCode::OK)
}

/// A merge patch of either sort: an object.
pub(super) fn document(body: &[u8], prefix: &str) -> Result<Parsed, Error> {
    let refused = |fault: &str| Error::bad_request(format!("{prefix}{fault}"));
    let parsed = deltaplane_api::json::parse(body)
        .map_err(|error| refused(&decode::json_fault(body, &error)))?;
    match value::type_name(&parsed.value) {
        "object" => Ok(parsed),
        found => Err(refused(&not_an_object(found))),
    }
}

fn not_an_object(found: &str) -> String {
    format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}")
}

/// A JSON patch: a list of operations.
pub(super) fn operations(body: &[u8]) -> Result<json_patch::Patch, Error> {
    let refused = |fault: &str| Error::bad_request(format!("{DECODING}{fault}"));
    let parsed: Value =
        serde_json::from_slice(body).map_err(|error| refused(&decode::json_fault(body, &error)))?;
    let found = value::type_name(&parsed);
    if found != "array" {
        let fault =
            format!("json: cannot unmarshal {found} into Go value of type []handlers.jsonPatchOp");
        return Err(refused(&fault));
    }
    let patch: json_patch::Patch =
        serde_json::from_value(parsed).map_err(|error| rejected(&error))?;
    check_operations(&patch)?;
    Ok(patch)
}

fn parse(cx: &Cx, content_type: &str) -> Result<(Patch, Vec<String>), Error> {
    match content_type {
        "application/json-patch+json" => Ok((Patch::Json(operations(&cx.body)?), Vec::new())),
        "application/merge-patch+json" => document(&cx.body, DECODING)
            .map(|parsed| (Patch::Merge(parsed.value), parsed.duplicates)),
        "application/strategic-merge-patch+json" if !cx.kind.is_custom() => {
            document(&cx.body, "").map(|parsed| (Patch::Strategic(parsed.value), parsed.duplicates))
        }
        _ if cx.kind.is_custom() => Err(Error::unsupported_media_type(&SUPPORTED_CUSTOM)),
        _ => Err(Error::unsupported_media_type(&SUPPORTED)),
    }
}

fn check_operations(patch: &json_patch::Patch) -> Result<(), Error> {
    match patch.0.len() > MAX_OPERATIONS {
        true => Err(Error::too_large_object(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            patch.0.len()
        ))),
        false => Ok(()),
    }
}

// === impl Patch ===

impl Patch {
    fn apply(&self, cx: &Cx, live: &Value) -> Result<Value, Error> {
        let mut object = live.clone();
        match self {
            Self::Json(patch) => apply_json_patch(patch, &mut object)?,
            Self::Merge(patch) => json_patch::merge(&mut object, patch),
            Self::Strategic(patch) => {
                object = strategic::apply(&cx.kind.schema, live, patch)
                    .map_err(|error| Error::bad_request(error.to_string()))?;
            }
        }
        match object.is_object() && !too_deep(&object) {
            true => Ok(object),
            false => Err(Error::unprocessable(
                "the patched object is not an object, or too deep",
            )),
        }
    }
}

/// The patch is one, but cannot be carried out.
fn rejected(error: &dyn std::fmt::Display) -> Error {
    Error::unprocessable(format!(
        "the server rejected our request due to an error in our request: {error}"
    ))
}

/// RFC 6902 as Kubernetes reads it: testing for null finds what is not there, and there are bounds
/// on what copies can add and on the work of all operations.
pub fn apply_json_patch(patch: &json_patch::Patch, object: &mut Value) -> Result<(), Error> {
    // Step by step, so that copies of copies cannot grow without end, nor copying take for ever.
    let mut copied = 0;
    let mut effort = PatchEffort::new();
    for operation in &patch.0 {
        if tests_for_absence(operation, object) {
            continue;
        }
        effort.count(operation, object)?;
        if nests_too_deep(operation, object) {
            return Err(rejected(&TooDeep));
        }
        if let json_patch::PatchOperation::Copy(copy) = operation {
            let value = object.pointer(copy.from.as_str());
            copied += value.map_or(0, |value| value.to_string().len());
            if copied > MAX_COPIED {
                return Err(Error::too_large_object(format!(
                    "Unable to complete the copy, the accumulated size increase of copy is over {MAX_COPIED}"
                )));
            }
        }
        json_patch::patch(object, std::slice::from_ref(operation))
            .map_err(|error| rejected(&error))?;
    }
    Ok(())
}

/// Whether the operation would nest the object too deeply. Asked before it is carried out, since
/// whatever walks a value that is too deep ends the process.
fn nests_too_deep(operation: &json_patch::PatchOperation, object: &Value) -> bool {
    use json_patch::PatchOperation::{Add, Copy, Move, Remove, Replace, Test};
    let (path, inserted) = match operation {
        Add(add) => (&add.path, Some(&add.value)),
        Replace(replace) => (&replace.path, Some(&replace.value)),
        Copy(copy) => (&copy.path, object.pointer(copy.from.as_str())),
        Move(move_) => (&move_.path, object.pointer(move_.from.as_str())),
        Remove(_) | Test(_) => return false,
    };
    inserted.is_some_and(|inserted| too_deep_at(path.count(), inserted))
}

/// Whether this tests for null a field that its object does not have.
fn tests_for_absence(operation: &json_patch::PatchOperation, object: &Value) -> bool {
    let json_patch::PatchOperation::Test(test) = operation else {
        return false;
    };
    let parent = test.path.split_back().map(|(parent, _)| parent);
    let holder = parent.and_then(|parent| object.pointer(parent.as_str()));
    test.value.is_null()
        && object.pointer(test.path.as_str()).is_none()
        && holder.is_some_and(Value::is_object)
}

/// What a patched object must still be: of this kind, at this address, with known fields.
fn finish(
    cx: &mut Cx,
    object: &mut Value,
    live: &Value,
    duplicates: &[String],
    options: &WriteOptions,
) -> Result<(), Error> {
    let identity = ["apiVersion", "kind"];
    if identity.iter().any(|field| object[*field] != live[*field]) {
        let message = "apiVersion and kind cannot be changed by a patch";
        return Err(Error::bad_request(message));
    }
    let schema = cx.kind.schema.clone();
    fit(cx, &schema, object, duplicates, options.field_validation)?;
    write::check_address(cx, object)
}

/// What a patch makes must be of this shape, as strictly as the client asked.
pub(super) fn fit(
    cx: &mut Cx,
    schema: &Schema,
    object: &mut Value,
    duplicates: &[String],
    validation: FieldValidation,
) -> Result<(), Error> {
    let decoded = schema.decode(object).map_err(|error| error.to_string());
    let fits = decoded.and_then(|()| {
        write::strictness(cx, schema, object, duplicates, validation)
            .map_err(|faults| format!("strict decoding error: {faults}"))
    });
    fits.map_err(|fault| {
        let patch: String = String::from_utf8_lossy(&cx.body)
            .chars()
            .take(1024)
            .collect();
        let error = field::Error::invalid(field::Path::new("patch"), patch, fault);
        Error::invalid("", "", "", &[error])
    })
}

/// Server-side apply: the object is created if it is not there.
async fn apply(cx: &mut Cx, section: Section) -> Result<Answer, Error> {
    let options = WriteOptions::parse(Options::Apply, &cx.query, cx.user_agent())?;
    let kind = Arc::clone(&cx.kind);
    let config = configuration(cx, &options, (&kind.api_version, &kind.kind))?;
    let key = cx
        .server
        .key(&cx.kind, &cx.target.namespace, &cx.target.name)?;
    if cx.server.store.get(&key).is_none() {
        return apply_new(cx, section, &config, &options).await;
    }
    let written = update::change(cx, section, &options, |cx, live| {
        let applied = write::with_managed(cx, &options, section, |managed| {
            managed::apply(managed, Some(live), &config, options.force)
        });
        Ok(Changed {
            object: applied.map_err(apply_error)?,
            tracked: true,
        })
    })
    .await?;
    create::respond(cx, &written, StatusCode::OK)
}

/// The configuration in the body of an apply, which is to be of this `apiVersion` and `kind`.
pub(super) fn configuration(
    cx: &mut Cx,
    options: &WriteOptions,
    wanted: (&str, &str),
) -> Result<Value, Error> {
    let parsed = decode::yaml(&cx.body).map_err(|why| {
        Error::bad_request(format!(
            "error decoding YAML: error converting YAML to JSON: {why}"
        ))
    })?;
    if !parsed.duplicates.is_empty() {
        duplicates_in_apply(cx, &parsed.duplicates, options.field_validation)?;
    }
    let mut config = parsed.value;
    check_config(cx, &mut config, wanted)?;
    Ok(config)
}

async fn apply_new(
    cx: &mut Cx,
    section: Section,
    config: &Value,
    options: &WriteOptions,
) -> Result<Answer, Error> {
    let named_uid = !value::text(config, "metadata.uid").is_empty();
    if section != Section::Main || named_uid {
        return Err(Error::not_found(cx.kind.about(&cx.target.name)));
    }
    crate::auth::authorize_create(cx)?;
    let applied = write::with_managed(cx, options, section, |managed| {
        managed::apply(managed, None, config, true)
    });
    let object = applied.map_err(apply_error)?;
    let new = New {
        object,
        tracked: true,
    };
    create::answer_new(cx, new, options).await
}

fn duplicates_in_apply(
    cx: &mut Cx,
    duplicates: &[String],
    validation: FieldValidation,
) -> Result<(), Error> {
    let fields = duplicates
        .iter()
        .map(|path| format!("duplicate field {path:?}"));
    match validation {
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Warn => {
            fields.for_each(|fault| cx.warn(fault));
            Ok(())
        }
        FieldValidation::Strict => {
            let lines = decode::duplicate_lines(&cx.body).join("\n  ");
            let message = format!("error strict decoding YAML: yaml: unmarshal errors:\n  {lines}");
            Err(Error::bad_request(message))
        }
    }
}

/// An applied configuration names its kind and is meant for this address.
fn check_config(cx: &Cx, config: &mut Value, wanted: (&str, &str)) -> Result<(), Error> {
    let found = value::type_name(config);
    if !matches!(found, "object" | "null") {
        return Err(Error::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: {}",
            not_an_object(found)
        )));
    }
    let (api_version, kind) = (
        value::text(config, "apiVersion"),
        value::text(config, "kind"),
    );
    if (api_version, kind) != wanted {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        return Err(Error::bad_request(format!(
            "invalid object type: {group}/{version}, Kind={kind}"
        )));
    }
    if !value::list(config, "metadata.managedFields").is_empty() {
        return Err(Error::bad_request("metadata.managedFields must be nil"));
    }
    if value::text(config, "metadata.name").is_empty() {
        value::set_at(config, "metadata.name", json!(cx.target.name));
    }
    write::check_address(cx, config)
}

pub(super) fn apply_error(error: managed::ApplyError) -> Error {
    match error {
        managed::ApplyError::BadRequest(message) => Error::bad_request(message),
        managed::ApplyError::Invalid(message) => Error::unprocessable(message),
        managed::ApplyError::Conflicts(conflicts) => {
            let causes = conflicts.causes().map(|cause| Cause {
                reason: "FieldManagerConflict".to_owned(),
                message: cause.message,
                field: cause.field,
            });
            Error::apply_conflict(conflicts.message(), causes.collect())
        }
    }
}
