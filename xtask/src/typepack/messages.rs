//! Protobuf messages: field numbers and kinds with Go's JSON names and omission rules.
//!
//! A Go program of ours reads them off the published types; every number and name is then compared
//! with the published `.proto` files.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::SERVED;
use super::proto::{self, Messages};
use crate::{golang, process};

/// A section of the pack.
type Entries = Vec<(String, Value)>;

#[derive(Deserialize)]
struct Walked {
    kinds: BTreeMap<String, String>,
    messages: BTreeMap<String, Vec<Field>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Field {
    number: u32,
    name: String,
    json: String,
    r#type: String,
    pointer: bool,
    omit_empty: bool,
    omit_zero: bool,
}

/// (`group/version/Kind` to message, message to fields).
pub(super) fn tables() -> Result<(Entries, Entries)> {
    let module = golang::kubernetes_module()?;
    module.package("typepack", include_str!("../../go/typepack/main.go"))?;
    let mut command = module.go()?;
    command.args(["run", "./typepack"]);
    for (group, versions) in SERVED {
        for version in versions {
            command.arg(if group.is_empty() {
                (*version).to_owned()
            } else {
                format!("{group}/{version}")
            });
        }
    }
    let walked: Walked =
        serde_json::from_slice(&process::output(&mut command)?).context("reading the Go types")?;
    let published = proto::read()?;
    let checked = walked
        .messages
        .iter()
        .map(|(name, fields)| agree(name, fields, &published))
        .sum::<Result<usize>>()?;
    eprintln!(
        "{} messages, {checked} fields agree with the .proto files",
        walked.messages.len()
    );
    let objects = walked
        .kinds
        .into_iter()
        .map(|(kind, message)| (kind, json!(message)));
    let messages = walked.messages.into_iter().map(|(name, mut fields)| {
        fields.sort_by_key(|field| field.number);
        (name, fields.iter().map(entry).collect())
    });
    Ok((objects.collect(), messages.collect()))
}

/// `[number, json name, type, flags]`; flags: `p` pointer, `e` omitempty, `z` omitzero.
fn entry(field: &Field) -> Value {
    let flags: String = [
        (field.pointer, 'p'),
        (field.omit_empty, 'e'),
        (field.omit_zero, 'z'),
    ]
    .iter()
    .filter_map(|(set, flag)| set.then_some(*flag))
    .collect();
    json!([field.number, field.json, field.r#type, flags])
}

/// Compares one message with its `.proto` file; gives the number of fields compared.
fn agree(name: &str, fields: &[Field], published: &Messages) -> Result<usize> {
    let expected = published
        .get(name)
        .with_context(|| format!("{name} is in no .proto file"))?;
    ensure!(
        expected.len() == fields.len(),
        "{name}: {} fields, published {}",
        fields.len(),
        expected.len()
    );
    for field in fields {
        let published = expected
            .get(&field.number)
            .with_context(|| format!("{name}: no field {}", field.number))?;
        // An embedded struct may have no name in its tag.
        let named = field.name.is_empty() || field.name == published.name;
        if !named || !same_type(&field.r#type, &published.r#type) {
            bail!(
                "{name}.{} is {} here, {} {} published",
                field.name,
                field.r#type,
                published.r#type,
                published.name
            );
        }
    }
    Ok(fields.len())
}

/// Does the `.proto` type say the same as ours?
fn same_type(ours: &str, published: &str) -> bool {
    let (ours_shape, ours) = shape(ours);
    let (shape, published) = match published.strip_prefix("map<string,") {
        Some(rest) => (Shape::Map, rest.trim_end_matches('>')),
        None => published
            .strip_prefix("repeated ")
            .map_or((Shape::One, published), |rest| (Shape::List, rest)),
    };
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let same = match ours {
        "time" => last(published) == "Time",
        "microtime" => last(published) == "MicroTime",
        "fields" => last(published) == "FieldsV1",
        "quantity" => last(published) == "Quantity",
        "int-or-string" => last(published) == "IntOrString",
        "raw" => last(published) == "RawExtension",
        "json" => last(published) == "JSON",
        "schema-or-array" => last(published) == "JSONSchemaPropsOrArray",
        "schema-or-bool" => last(published) == "JSONSchemaPropsOrBool",
        "schema-or-strings" => last(published) == "JSONSchemaPropsOrStringArray",
        "strings" => ["ExtraValue", "Verbs"].contains(&last(published).as_str()),
        message if message.starts_with('@') => last(published) == last(message),
        scalar => published == scalar,
    };
    same && ours_shape == shape
}

#[derive(PartialEq)]
enum Shape {
    One,
    List,
    Map,
}

fn shape(ours: &str) -> (Shape, &str) {
    match (ours.strip_prefix("[]"), ours.strip_prefix("map:")) {
        (Some(item), _) => (Shape::List, item),
        (None, Some(item)) => (Shape::Map, item),
        (None, None) => (Shape::One, ours),
    }
}
