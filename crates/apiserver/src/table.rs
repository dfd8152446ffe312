//! Objects as rows for people: the Tables that `kubectl get` prints. Pure, but for what others add.

use std::sync::Arc;

use deltaplane_api::time::Time;
use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::kinds::custom::{Column, Definition};
use crate::kinds::{Kind, Source};
use crate::options::Query;
use crate::seams::{Resource, TableColumn, TableColumns};
use crate::server::Inner;
use crate::typepack::cells::age;
use crate::{present, typepack, value};

/// How much of each object a row carries beside its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    None,
    Metadata,
    Object,
}

/// Columns that others add to the Tables of a kind, and that stay the same for one answer.
pub(crate) struct Extras(Vec<(Arc<dyn TableColumns>, Vec<TableColumn>)>);

/// Renders objects of a kind as a Table and its rows.
#[derive(Clone, Copy)]
pub(crate) struct Table<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) extras: &'a Extras,
    pub(crate) version: &'static str,
    pub(crate) include: Include,
    pub(crate) now: Time,
}

// === impl Include ===

impl Include {
    pub(crate) fn parse(query: &Query) -> Result<Self, Error> {
        match query.get("includeObject") {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(Error::bad_request(format!(
                "Invalid value: {other:?}: includeObject: must be None, Metadata or Object"
            ))),
        }
    }
}

// === impl Extras ===

impl Extras {
    pub(crate) fn of(server: &Inner, kind: &Kind) -> Self {
        let all = server.config.columns.iter();
        let those = all.map(|one| {
            let columns = one.columns(&kind.group, &kind.plural).to_vec();
            (Arc::clone(one), columns)
        });
        Self(those.filter(|(_, columns)| !columns.is_empty()).collect())
    }

    fn columns(&self) -> impl Iterator<Item = Value> {
        self.0
            .iter()
            .flat_map(|(_, columns)| columns)
            .map(|column| {
                json!({
                    "name": column.name,
                    "type": column.r#type,
                    "format": "",
                    "description": column.description,
                    "priority": column.priority,
                })
            })
    }

    /// As many cells as there are columns, whatever others make of the object. A bookmark is none.
    fn add_cells(&self, kind: &Kind, object: &Value, row: &mut Vec<Value>) {
        let resource = Resource {
            group: &kind.group,
            version: &kind.version,
            kind: &kind.kind,
            plural: &kind.plural,
            subresource: "",
            namespace: value::text(object, "metadata.namespace"),
            name: value::text(object, "metadata.name"),
        };
        for (one, columns) in &self.0 {
            let mut cells = match resource.name {
                "" => Vec::new(),
                _ => one.cells(resource, object),
            };
            cells.resize(columns.len(), Value::Null);
            row.append(&mut cells);
        }
    }
}

// === impl Table ===

impl Table<'_> {
    /// The row of an object.
    pub(crate) fn row(&self, object: &Value) -> Value {
        let mut cells = match &self.kind.source {
            Source::BuiltIn(row) => typepack::cells::cells(row, object, self.now),
            Source::Custom(definition) => self.custom_cells(definition, object),
        };
        self.extras.add_cells(self.kind, object, &mut cells);
        let mut row = Map::from_iter([("cells".to_owned(), Value::Array(cells))]);
        match self.include {
            Include::None => {}
            Include::Metadata => {
                row.insert("object".to_owned(), present::partial(object, self.version));
            }
            Include::Object => {
                row.insert("object".to_owned(), object.clone());
            }
        }
        Value::Object(row)
    }

    /// The Table of one object, at the revision of that.
    pub(crate) fn of_one(&self, object: &Value, revision: &str) -> Value {
        json!({
            "kind": "Table",
            "apiVersion": format!("meta.k8s.io/{}", self.version),
            "metadata": {"resourceVersion": revision},
            "columnDefinitions": self.columns(),
            "rows": [self.row(object)],
        })
    }

    /// The text of a Table of a list up to its first row, with the metadata of the list.
    pub(crate) fn head(&self, metadata: Map<String, Value>) -> String {
        format!(
            "{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/{}\",\"metadata\":{},\"columnDefinitions\":{},\"rows\":[",
            self.version,
            Value::Object(metadata),
            Value::Array(self.columns()),
        )
    }

    fn columns(&self) -> Vec<Value> {
        let mut columns = match &self.kind.source {
            Source::BuiltIn(row) => row.columns.iter().map(builtin_column).collect(),
            Source::Custom(definition) => custom_columns(definition, &self.kind.version),
        };
        columns.extend(self.extras.columns());
        columns
    }

    fn custom_cells(&self, definition: &Definition, object: &Value) -> Vec<Value> {
        let mut cells = vec![json!(value::text(object, "metadata.name"))];
        match definition
            .columns
            .get(&self.kind.version)
            .map(Vec::as_slice)
        {
            Some([]) | None => {
                let created = value::text(object, "metadata.creationTimestamp");
                cells.push(json!(age(created, self.now)));
            }
            Some(columns) => {
                cells.extend(columns.iter().map(|column| cell(column, object, self.now)));
            }
        }
        cells
    }
}

fn builtin_column(column: &typepack::Column) -> Value {
    json!({
        "name": column.name,
        "type": column.r#type,
        "format": column.format,
        "description": "",
        "priority": column.priority,
    })
}

fn custom_columns(definition: &Definition, version: &str) -> Vec<Value> {
    let name = json!({
        "name": "Name", "type": "string", "format": "name", "description": "", "priority": 0,
    });
    let age = json!({
        "name": "Age", "type": "date", "format": "", "description": "", "priority": 0,
    });
    match definition.columns.get(version).map(Vec::as_slice) {
        Some([]) | None => vec![name, age],
        Some(columns) => {
            let column = |column: &Column| {
                json!({
                    "name": column.name,
                    "type": column.kind,
                    "format": column.format,
                    "description": column.description,
                    "priority": column.priority,
                })
            };
            std::iter::once(name)
                .chain(columns.iter().map(column))
                .collect()
        }
    }
}

fn cell(column: &Column, object: &Value, now: Time) -> Value {
    let Some(found) = column.path.first(object).filter(|found| !found.is_null()) else {
        return Value::Null;
    };
    match (column.kind.as_str(), found) {
        ("date", Value::String(time)) => json!(age(time, now)),
        ("integer", Value::Number(number)) => {
            #[expect(clippy::cast_possible_truncation, reason = "a column shows what fits")]
            let truncated = number.as_f64().map(|float| float as i64);
            json!(number.as_i64().or(truncated))
        }
        ("number", Value::Number(_))
        | ("boolean", Value::Bool(_))
        | ("string", Value::String(_)) => found.clone(),
        ("string", other) => json!(other.to_string()),
        _ => Value::Null,
    }
}
