//! The entries of `metadata.managedFields`.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use deltaplane_api::time::Time;
use serde_json::{Map, Value};

use crate::fieldset::{ParseError, Set};
use crate::updater::{Managers, Owned};

/// All entries of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Managed {
    /// Who owns what; the keys are those of `infos`.
    pub(super) owners: Managers,
    pub(super) infos: Infos,
}

/// What identifies each entry, and its time.
pub(super) type Infos = BTreeMap<String, (ManagerInfo, Option<Time>)>;

/// What identifies an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ManagerInfo {
    pub(super) manager: Box<str>,
    pub(super) operation: Operation,
    pub(super) api_version: Box<str>,
    pub(super) subresource: Box<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// Why entries cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DecodeError {
    #[error("managedFields must be a list of objects")]
    NotAList,
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    #[error("apiVersion must not be empty")]
    ApiVersion,
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    #[error("invalid fieldsType {1:?} in managed fields entry {0}")]
    FieldsType(usize, String),
    #[error("invalid time {1:?} in managed fields entry {0}")]
    Time(usize, String),
    #[error("error decoding set of managed fields entry {index}")]
    Set { index: usize, source: ParseError },
}

// === impl ManagerInfo ===

impl ManagerInfo {
    /// The text that identifies the entry. An applier has one entry for all versions.
    pub(super) fn id(&self) -> String {
        // The order of keys decides how entries sort, so it is spelled out.
        let mut text = String::with_capacity(96);
        let mut field = |name: &str, value: &str| {
            if !value.is_empty() {
                text.push(if text.is_empty() { '{' } else { ',' });
                text.push('"');
                text.push_str(name);
                text.push_str("\":");
                match value.bytes().any(|c| c < b' ' || matches!(c, b'"' | b'\\')) {
                    true => text.push_str(&Value::from(value).to_string()),
                    false => text.extend(["\"", value, "\""]),
                }
            }
        };
        field("manager", &self.manager);
        field("operation", self.operation.name());
        if self.operation == Operation::Update {
            field("apiVersion", &self.api_version);
        }
        field("subresource", &self.subresource);
        text.push('}');
        text
    }
}

// === impl Operation ===

impl Operation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

// === impl Managed ===

impl Managed {
    pub(super) fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// Reads `metadata.managedFields`.
    pub(super) fn decode(fields: &Value) -> Result<Self, DecodeError> {
        let mut managed = Self::default();
        let entries = fields.as_array().ok_or(DecodeError::NotAList)?;
        for (index, entry) in entries.iter().enumerate() {
            let entry = entry.as_object().ok_or(DecodeError::NotAList)?;
            let (info, owned, time) = decode_entry(index, entry)?;
            let id = info.id();
            managed.owners.insert(id.clone(), owned);
            managed.infos.insert(id, (info, time));
        }
        Ok(managed)
    }

    /// The wire form, in the order that Kubernetes gives the entries.
    pub(super) fn encode(self) -> Vec<Value> {
        let Self { owners, mut infos } = self;
        let mut entries = Vec::with_capacity(owners.len());
        for (id, owned) in owners {
            let Some((info, time)) = infos.remove(&id) else {
                continue;
            };
            entries.push((
                ManagerInfo {
                    api_version: owned.api_version,
                    ..info
                },
                time,
                owned.set,
            ));
        }
        entries.sort_by(|(a, a_time, _), (b, b_time, _)| order(a, *a_time, b, *b_time));
        entries
            .into_iter()
            .map(|(info, time, set)| encode_entry(&info, time, &set))
            .collect()
    }
}

fn order(a: &ManagerInfo, a_time: Option<Time>, b: &ManagerInfo, b_time: Option<Time>) -> Ordering {
    let seconds = |time: Option<Time>| time.map_or(0, Time::unix);
    a.operation
        .cmp(&b.operation)
        .then_with(|| seconds(a_time).cmp(&seconds(b_time)))
        .then_with(|| a.manager.cmp(&b.manager))
        .then_with(|| a.api_version.cmp(&b.api_version))
        .then_with(|| a.subresource.cmp(&b.subresource))
}

fn decode_entry(
    index: usize,
    entry: &Map<String, Value>,
) -> Result<(ManagerInfo, Owned, Option<Time>), DecodeError> {
    let word = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
    let operation = match word("operation") {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return Err(DecodeError::Operation),
    };
    if word("apiVersion").is_empty() {
        return Err(DecodeError::ApiVersion);
    }
    match word("fieldsType") {
        "FieldsV1" => {}
        "" => return Err(DecodeError::NoFieldsType(index)),
        other => return Err(DecodeError::FieldsType(index, other.to_owned())),
    }
    let time = match word("time") {
        "" => None,
        time => Some(
            time.parse()
                .map_err(|_| DecodeError::Time(index, time.to_owned()))?,
        ),
    };
    let set = match entry.get("fieldsV1") {
        Some(fields) => {
            Set::from_fields_v1(fields).map_err(|source| DecodeError::Set { index, source })?
        }
        None => Set::new(),
    };
    let info = ManagerInfo {
        manager: word("manager").into(),
        operation,
        api_version: word("apiVersion").into(),
        subresource: word("subresource").into(),
    };
    let owned = Owned {
        set,
        api_version: info.api_version.clone(),
        applied: operation == Operation::Apply,
    };
    Ok((info, owned, time))
}

fn encode_entry(info: &ManagerInfo, time: Option<Time>, set: &Set) -> Value {
    let mut entry = Map::new();
    let mut put = |key: &str, value: Value| drop(entry.insert(key.to_owned(), value));
    put("apiVersion", (&*info.api_version).into());
    put("fieldsType", "FieldsV1".into());
    put("fieldsV1", set.to_fields_v1());
    if !info.manager.is_empty() {
        put("manager", (&*info.manager).into());
    }
    put("operation", info.operation.name().into());
    if !info.subresource.is_empty() {
        put("subresource", (&*info.subresource).into());
    }
    if let Some(time) = time {
        put("time", time.to_value());
    }
    Value::Object(entry)
}

/// Whether a user asks for the owners to be forgotten: `[]` or `[{}]`.
pub(super) fn is_reset(fields: &Value) -> bool {
    match fields.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([one]) => one.as_object().is_some_and(Map::is_empty),
        Some(_) | None => false,
    }
}

/// Whether the entries differ in nothing but their times.
pub(super) fn same_but_times(a: &[Value], b: &[Value]) -> bool {
    let timeless = |entry: &Value| {
        entry
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, _)| *key != "time")
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect::<BTreeMap<_, _>>()
    };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| timeless(a) == timeless(b))
}
