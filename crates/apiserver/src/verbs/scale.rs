//! The `scale` subresource: one shape for everything that has replicas.

use deltaplane_api::field;
use deltaplane_api::json::Parsed;
use deltaplane_schema::{Schema, managed};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::patch;
use super::update::{self, Changed};
use super::write::{self, Section, Written};
use crate::context::{Answer, Cx, json as answer};
use crate::decode::{self, essence};
use crate::error::Error;
use crate::kinds::{Kind, Scale, ScaleSelector, builtin};
use crate::options::{Options, WriteOptions};
use crate::request::Verb;
use crate::{encode, negotiate, present, value};

const API_VERSION: &str = "autoscaling/v1";
const KIND: &str = "Scale";
/// More fit into nothing that counts them.
const MAX_REPLICAS: i64 = i32::MAX as i64;

pub(crate) async fn scale(cx: &mut Cx, scale: Scale) -> Result<Answer, Error> {
    negotiate::plain(&cx.headers)?;
    let object = match cx.target.verb {
        Verb::Get => current(cx, &scale)?,
        Verb::Update => put(cx, &scale).await?,
        Verb::Patch => change(cx, &scale).await?,
        verb
        @ (Verb::List | Verb::Watch | Verb::Create | Verb::Delete | Verb::DeleteCollection) => {
            return Err(Error::method_not_allowed(cx.target.about(), verb.as_str()));
        }
    };
    Ok(answer(StatusCode::OK, encode::bytes(&object)))
}

fn current(cx: &Cx, scale: &Scale) -> Result<Value, Error> {
    let key = cx
        .server
        .key(&cx.kind, &cx.target.namespace, &cx.target.name)?;
    let stored = cx.server.store.get(&key);
    let stored = stored.ok_or_else(|| Error::not_found(cx.kind.about(&cx.target.name)))?;
    show(&cx.kind, scale, &present::value(&cx.kind, &stored))
}

async fn put(cx: &mut Cx, scale: &Scale) -> Result<Value, Error> {
    let options = WriteOptions::parse(Options::Update, &cx.query, cx.user_agent())?;
    let parsed = decode::object(cx.content_type(), &cx.body, KIND)?;
    let wanted = intake(cx, parsed, &options)?;
    store(cx, scale, &options, move |_, _| Ok(wanted.clone())).await
}

/// The `Scale` in a body.
fn intake(cx: &mut Cx, parsed: Parsed, options: &WriteOptions) -> Result<Value, Error> {
    let mut wanted = parsed.value;
    // Typed clients may leave out what the path says.
    let said = |field: &str, default| match value::text(&wanted, field) {
        "" => default,
        said => said,
    };
    match (said("apiVersion", API_VERSION), said("kind", KIND)) {
        (API_VERSION, KIND) => {}
        // Older shapes of it.
        (other @ ("extensions/v1beta1" | "apps/v1beta1" | "apps/v1beta2"), KIND) => {
            return Err(Error::bad_request(format!(
                "the API version in the data ({other}) does not match the expected API version ({API_VERSION})"
            )));
        }
        (version, kind) => return Err(write::other_kind(("autoscaling", KIND), version, kind)),
    }
    let unreadable = |why: String| {
        Error::bad_request(format!(
            "{KIND} in version \"v1\" cannot be handled as a {KIND}: {why}"
        ))
    };
    let schema = shape();
    schema
        .decode(&mut wanted)
        .map_err(|error| unreadable(error.to_string()))?;
    let validation = options.field_validation;
    write::strictness(cx, &schema, &mut wanted, &parsed.duplicates, validation)
        .map_err(|faults| unreadable(format!("strict decoding error: {faults}")))?;
    write::check_address(cx, &mut wanted)?;
    Ok(wanted)
}

/// What a `Scale` consists of.
fn shape() -> Schema {
    let shape = builtin::definitions().get("io.k8s.api.autoscaling.v1.Scale");
    shape.expect("the type pack's definitions are complete")
}

async fn change(cx: &mut Cx, scale: &Scale) -> Result<Value, Error> {
    let content_type = essence(cx.content_type()).to_owned();
    if content_type == "application/apply-patch+yaml" {
        return apply(cx, scale).await;
    }
    let options = WriteOptions::parse(Options::Patch, &cx.query, cx.user_agent())?;
    match content_type.as_str() {
        "application/json-patch+json" => {
            let patch = patch::operations(&cx.body)?;
            store(cx, scale, &options, |cx, current| {
                let mut wanted = current.clone();
                patch::apply_json_patch(&patch, &mut wanted)?;
                finish(cx, wanted, current, &[], &options)
            })
            .await
        }
        "application/merge-patch+json" | "application/strategic-merge-patch+json" => {
            let patch = patch::document(&cx.body, patch::DECODING)?;
            store(cx, scale, &options, |cx, current| {
                let mut wanted = current.clone();
                json_patch::merge(&mut wanted, &patch.value);
                finish(cx, wanted, current, &patch.duplicates, &options)
            })
            .await
        }
        _ => Err(Error::unsupported_media_type(&patch::SUPPORTED)),
    }
}

/// What a patched `Scale` must still be.
fn finish(
    cx: &mut Cx,
    mut wanted: Value,
    current: &Value,
    duplicates: &[String],
    options: &WriteOptions,
) -> Result<Value, Error> {
    let identity = ["apiVersion", "kind"];
    let same = identity
        .iter()
        .all(|field| wanted[*field] == current[*field]);
    if !wanted.is_object() || !same {
        let message = "apiVersion and kind cannot be changed by a patch";
        return Err(Error::bad_request(message));
    }
    let validation = options.field_validation;
    patch::fit(cx, &shape(), &mut wanted, duplicates, validation)?;
    write::check_address(cx, &mut wanted)?;
    Ok(wanted)
}

/// Stores the replicas of the scale that `make` computes from the current one.
async fn store(
    cx: &mut Cx,
    scale: &Scale,
    options: &WriteOptions,
    make: impl Fn(&mut Cx, &Value) -> Result<Value, Error>,
) -> Result<Value, Error> {
    let path = scale.spec_replicas.clone();
    let written = update::change(cx, Section::Scale, options, |cx, live| {
        let current = show(&cx.kind, scale, live)?;
        let wanted = make(cx, &current)?;
        let replicas = replicas(&cx.kind, &wanted, &cx.target.name)?;
        let mut object = live.clone();
        value::set_at(&mut object, &path, json!(replicas));
        name_version(&wanted, &mut object);
        Ok(Changed {
            object,
            tracked: false,
        })
    })
    .await?;
    written_scale(cx, scale, &written)
}

/// Server-side apply: the replicas are the only field that a `Scale` can own.
async fn apply(cx: &mut Cx, scale: &Scale) -> Result<Value, Error> {
    let options = WriteOptions::parse(Options::Apply, &cx.query, cx.user_agent())?;
    let mut config = patch::configuration(cx, &options, (API_VERSION, KIND))?;
    let schema = shape();
    let decoded = schema.decode(&mut config);
    decoded.map_err(|error| Error::bad_request(error.to_string()))?;
    if let Some(unknown) = schema.prune_reporting(&mut config).first() {
        let why = format!(".{unknown}: field not declared in schema");
        return Err(Error::unprocessable(why));
    }
    let wanted = match value::at(&config, "spec.replicas").is_null() {
        true => None,
        false => Some(replicas(&cx.kind, &config, &cx.target.name)?),
    };
    let path = scale.spec_replicas.clone();
    let written = update::change(cx, Section::Scale, &options, |cx, live| {
        show(&cx.kind, scale, live)?;
        let mut own = json!({"metadata": {"name": cx.target.name}});
        cx.kind.stamp(&mut own);
        if let Some(replicas) = wanted {
            value::set_at(&mut own, &path, json!(replicas));
        }
        let applied = write::with_managed(cx, &options, Section::Scale, |managed| {
            managed::apply(managed, Some(live), &own, options.force)
        });
        let mut object = applied.map_err(patch::apply_error)?;
        let annotations = value::at(live, "metadata.annotations").clone();
        value::set(&mut object["metadata"], "annotations", annotations);
        // What a `Scale` does not say is zero.
        if value::at(&object, &path).is_null() {
            value::set_at(&mut object, &path, json!(0));
        }
        name_version(&config, &mut object);
        Ok(Changed {
            object,
            tracked: true,
        })
    })
    .await?;
    written_scale(cx, scale, &written)
}

/// The object that a `Scale` says it is of, for the preconditions of the change.
fn name_version(scale: &Value, object: &mut Value) {
    for field in ["resourceVersion", "uid"] {
        let said = &scale["metadata"][field];
        if said.as_str().is_some_and(|said| !said.is_empty()) {
            object["metadata"][field] = said.clone();
        }
    }
}

fn written_scale(cx: &Cx, scale: &Scale, written: &Written) -> Result<Value, Error> {
    match written {
        Written::Stored(object) => show(&cx.kind, scale, &present::value(&cx.kind, object)),
        Written::DryRun(object) => show(&cx.kind, scale, object),
    }
}

/// What is wrong with the fields of a custom object that `scale` shows.
pub(crate) fn validate(scale: &Scale, object: &Value) -> Vec<field::Error> {
    let mut errors = Vec::new();
    for path in [&scale.spec_replicas, &scale.status_replicas] {
        let found = value::at(object, path);
        let (shown, detail) = match (found.is_null(), found.as_i64()) {
            (true, _) | (false, Some(0..=MAX_REPLICAS)) => continue,
            (false, Some(count @ ..0)) => (count, "should be a non-negative integer".to_owned()),
            (false, Some(count)) => {
                let detail = format!("should be less than or equal to {MAX_REPLICAS}");
                (count, detail)
            }
            (false, None) => (0, accessor_error(path, found, "int64")),
        };
        errors.push(field::Error::invalid(dotted(path), shown, detail));
    }
    if let Some(ScaleSelector::Text(path)) = &scale.selector {
        let found = value::at(object, path);
        if !matches!(found, Value::Null | Value::String(_)) {
            let detail = accessor_error(path, found, "string");
            errors.push(field::Error::invalid(dotted(path), "", detail));
        }
    }
    errors
}

/// The path as the definition writes it.
fn dotted(path: &str) -> field::Path {
    field::Path::new(&format!(".{path}"))
}

fn accessor_error(path: &str, found: &Value, expected: &str) -> String {
    let (shown, of) = match found {
        Value::Null => ("<nil>".to_owned(), "<nil>"),
        Value::Bool(flag) => (flag.to_string(), "bool"),
        Value::Number(number) if number.is_i64() => (number.to_string(), "int64"),
        Value::Number(number) => (number.to_string(), "float64"),
        Value::String(text) => (text.clone(), "string"),
        Value::Array(_) => (found.to_string(), "[]interface {}"),
        Value::Object(_) => (found.to_string(), "map[string]interface {}"),
    };
    format!(".{path} accessor error: {shown} is of the type {of}, expected {expected}")
}

/// The replicas that a `Scale` asks for. Custom objects are checked as a whole.
fn replicas(kind: &Kind, scale: &Value, name: &str) -> Result<i64, Error> {
    let path = field::Path::new("spec").child("replicas");
    let wanted = value::at(scale, "spec.replicas");
    let replicas = match wanted.is_null() {
        true => Some(0),
        false => wanted
            .as_i64()
            .filter(|count| i32::try_from(*count).is_ok()),
    };
    match replicas {
        Some(replicas) if replicas >= 0 || kind.is_custom() => Ok(replicas),
        other => {
            let detail = "must be greater than or equal to 0";
            let error = field::Error::invalid(path, json!(other), detail);
            Err(Error::invalid("autoscaling", "Scale", name, &[error]))
        }
    }
}

/// An object as a `Scale`.
fn show(kind: &Kind, scale: &Scale, object: &Value) -> Result<Value, Error> {
    let replicas = value::at(object, &scale.spec_replicas);
    if replicas.is_null() && kind.is_custom() {
        return Err(Error::internal(format!(
            "the spec replicas field \".{}\" does not exist",
            scale.spec_replicas
        )));
    }
    let metadata = &object["metadata"];
    let mut shown = Map::new();
    for field in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        if !metadata[field].is_null() {
            shown.insert(field.to_owned(), metadata[field].clone());
        }
    }
    let mut status =
        json!({"replicas": value::at(object, &scale.status_replicas).as_i64().unwrap_or(0)});
    let selector = scale
        .selector
        .as_ref()
        .map(|selector| selector_text(selector, object));
    if let Some(text) = selector.filter(|text| !text.is_empty()) {
        status["selector"] = json!(text);
    }
    Ok(json!({
        "kind": KIND,
        "apiVersion": API_VERSION,
        "metadata": shown,
        "spec": {"replicas": replicas.as_i64().unwrap_or(0)},
        "status": status,
    }))
}

fn selector_text(selector: &ScaleSelector, object: &Value) -> String {
    match selector {
        ScaleSelector::Text(path) => value::text(object, path).to_owned(),
        ScaleSelector::Labels(path) => labels_text(value::at(object, path)).join(","),
        ScaleSelector::Object(path) => {
            let selector = value::at(object, path);
            let mut terms = labels_text(&selector["matchLabels"]);
            terms.extend(
                value::list(selector, "matchExpressions")
                    .iter()
                    .map(expression_text),
            );
            terms.join(",")
        }
    }
}

fn labels_text(labels: &Value) -> Vec<String> {
    let labels = labels.as_object().into_iter().flatten();
    labels
        .map(|(key, text)| format!("{key}={}", text.as_str().unwrap_or_default()))
        .collect()
}

fn expression_text(expression: &Value) -> String {
    let key = value::text(expression, "key");
    let values: Vec<&str> = value::texts(expression, "values").collect();
    match value::text(expression, "operator") {
        "In" => format!("{key} in ({})", values.join(",")),
        "NotIn" => format!("{key} notin ({})", values.join(",")),
        "DoesNotExist" => format!("!{key}"),
        _ => key.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_counts() {
        let scale = Scale {
            spec_replicas: "spec.size".to_owned(),
            status_replicas: "status.size".to_owned(),
            selector: Some(ScaleSelector::Text("status.selector".to_owned())),
        };
        let check = |object: Value, expected: &[&str]| {
            let errors = validate(&scale, &object);
            let texts: Vec<String> = errors.iter().map(field::Error::to_string).collect();
            assert_eq!(texts, expected);
        };
        check(json!({}), &[]);
        check(
            json!({"spec": {"size": 7}, "status": {"selector": "a=b"}}),
            &[],
        );
        check(
            json!({"spec": {"size": -1}, "status": {"size": 3_000_000_000_u32}}),
            &[
                ".spec.size: Invalid value: -1: should be a non-negative integer",
                ".status.size: Invalid value: 3000000000: should be less than or equal to 2147483647",
            ],
        );
        check(
            json!({"spec": {"size": "x"}, "status": {"selector": 1}}),
            &[
                ".spec.size: Invalid value: 0: .spec.size accessor error: x is of the type string, expected int64",
                ".status.selector: Invalid value: \"\": .status.selector accessor error: 1 is of the type int64, expected string",
            ],
        );
    }

    #[test]
    fn selectors_are_written_as_queries() {
        let object = json!({"spec": {"selector": {
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["a", "b"]},
                {"key": "old", "operator": "DoesNotExist"},
            ],
        }}});
        let selector = ScaleSelector::Object("spec.selector".to_owned());
        assert_eq!(
            selector_text(&selector, &object),
            "app=web,tier in (a,b),!old"
        );
    }
}
