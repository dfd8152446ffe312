//! Table columns, as a kube-apiserver of the release gives them.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::discovery::Kind;
use crate::cluster::Cluster;
use crate::proxy::TABLE;

/// Column definitions by (group, version, kind): `[name, type, format, priority]`.
pub(super) type Columns = BTreeMap<(String, String, String), Vec<Value>>;

/// Asks for an empty list of every listable kind as a Table.
pub(super) fn read(kinds: &[Kind], cluster: &Cluster) -> Result<Columns> {
    let mut columns = Columns::new();
    for kind in kinds
        .iter()
        .filter(|kind| kind.verbs.iter().any(|verb| verb == "list"))
    {
        let root = if kind.group.is_empty() {
            "/api".to_owned()
        } else {
            format!("/apis/{}", kind.group)
        };
        let path = format!("{root}/{}/{}?limit=1", kind.version, kind.plural);
        let table = cluster
            .get(&path, TABLE)?
            .ok()
            .with_context(|| format!("listing {path}"))?;
        let definitions = table.get("columnDefinitions").and_then(Value::as_array);
        let definitions = definitions.with_context(|| format!("{path} has no columns"))?;
        columns.insert(kind.key(), definitions.iter().map(column).collect());
    }
    Ok(columns)
}

fn column(definition: &Value) -> Value {
    let text = |name: &str| {
        definition
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let priority = definition
        .get("priority")
        .and_then(Value::as_i64)
        .unwrap_or_default();
    json!([text("name"), text("type"), text("format"), priority])
}
