//! `metadata.managedFields`: Kubernetes' conventions around the owners of fields.
//!
//! [`track_update`] records who changed what, for every write but apply; [`apply`] is server-side
//! apply. Both are functions of the stored object, the new one and the time.
//!
//! Conventions kept here: an entry per manager, operation, version and subresource; metadata that
//! nobody owns; `before-first-apply` for what was there before the first apply; at most ten
//! updaters, older ones merged into `ancient-changes`; the hand-over from `kubectl apply`'s own
//! bookkeeping; times that only change with their entry.
//!
//! Not here: the merging itself (`updater`), defaulting and validating the outcome (the caller).

mod cap;
mod checks;
mod conflict;
mod entries;
mod last_applied;

use deltaplane_api::time::Time;
use serde_json::{Map, Value};

use crate::depth;
use crate::fieldset::{Filter, Set};
use crate::node::Schema;
use crate::order;
use crate::typed::{self, Duplicates};
use crate::updater::{Change, Owned, UpdateError, Updater};

pub use crate::updater::{Conversion, Versions};
pub use checks::{manager_from_user_agent, validate_field_manager, validate_managed_fields};
pub use conflict::{Cause, Conflicts};
use entries::{Managed, ManagerInfo, Operation};

/// What is being done, by whom, to which kind.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The kind.
    pub versions: &'a dyn Versions,
    /// The version of the request, such as `apps/v1`; the objects are at this version.
    pub api_version: &'a str,
    pub kind: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// The field manager.
    pub manager: &'a str,
    /// The fields that this request can change; others have no owner here.
    pub fields: &'a Filter,
    pub now: Time,
}

/// A kind with a single version.
#[derive(Clone, Copy, Debug)]
pub struct SingleVersion<'a> {
    pub api_version: &'a str,
    pub schema: &'a Schema,
}

/// Why nothing was applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The request makes no sense (400).
    #[error("{0}")]
    BadRequest(String),
    /// Others own the fields (409).
    #[error("{}", .0.message())]
    Conflicts(Conflicts),
    /// The configuration does not fit the schema.
    #[error("{0}")]
    Invalid(String),
}

/// Stands for the manager until its fields are known.
const CURRENT_OPERATION: &str = "current-operation";
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

// === impl SingleVersion ===

impl Versions for SingleVersion<'_> {
    fn schema(&self, api_version: &str) -> Option<&Schema> {
        (api_version == self.api_version).then_some(self.schema)
    }
}

/// Records who owns what after `new` has replaced `live` (nothing, when the object is created).
/// Managed fields that the user sent in `new` are taken, or cleared if the user says so, except on
/// subresources.
///
/// It cannot fail: an object whose owners cannot be computed has none.
pub fn track_update(cx: &Context<'_>, live: Option<&Value>, new: &mut Value) {
    let managed = starting_point(cx, live, new);
    remove_managed_fields(new);
    let exists = live.is_some_and(|live| {
        metadata(live, "uid")
            .and_then(Value::as_str)
            .is_some_and(|uid| !uid.is_empty())
    });
    // Whoever has cleared the owners of an object does not want them tracked.
    if managed.is_empty() && exists {
        return;
    }
    let empty = Value::Object(Map::new());
    if let Ok(managed) = update(cx, live.unwrap_or(&empty), new, managed, cx.manager) {
        set_managed_fields(new, managed);
    }
}

/// Applies `patch` to `live`, or creates the object. The outcome is neither defaulted nor
/// validated.
pub fn apply(
    cx: &Context<'_>,
    live: Option<&Value>,
    patch: &Value,
    force: bool,
) -> Result<Value, ApplyError> {
    check_patch(cx, patch)?;
    let nothing = cx.empty_object();
    let stored = live.unwrap_or(&nothing);
    let managed = match metadata(stored, "managedFields") {
        Some(fields) => Managed::decode(fields).map_err(|error| {
            ApplyError::Invalid(format!("failed to decode managed fields: {error}"))
        })?,
        None => Managed::default(),
    };
    let (object, managed) = apply_with_history(cx, stored, patch, managed, force)?;
    let mut object = object.unwrap_or_else(|| {
        let mut same = stored.clone();
        remove_managed_fields(&mut same);
        same
    });
    last_applied::refresh(cx.manager, &mut object, patch);
    set_managed_fields(&mut object, managed);
    if let Some(live) = live {
        keep_timestamps(live, &mut object);
    }
    Ok(object)
}

/// Gives `new` the times of `old` if it differs in nothing but the times of its managed fields, so
/// that writing it changes nothing.
pub fn keep_timestamps(old: &Value, new: &mut Value) {
    let entries = |object: &Value| {
        metadata(object, "managedFields")
            .and_then(Value::as_array)
            .cloned()
    };
    let (Some(old_entries), Some(new_entries)) = (entries(old), entries(new)) else {
        return;
    };
    if old_entries == new_entries || !entries::same_but_times(&old_entries, &new_entries) {
        return;
    }
    if same_but_managed_fields(old, new)
        && let Some(fields) = new.pointer_mut("/metadata/managedFields")
    {
        *fields = Value::Array(old_entries);
    }
}

// === impl Context ===

impl Context<'_> {
    fn empty_object(&self) -> Value {
        let mut object = Map::new();
        object.insert("apiVersion".to_owned(), self.api_version.into());
        object.insert("kind".to_owned(), self.kind.into());
        Value::Object(object)
    }

    fn info(&self, manager: &str, operation: Operation) -> ManagerInfo {
        let manager = if manager.is_empty() {
            "unknown"
        } else {
            manager
        };
        ManagerInfo {
            manager: manager.into(),
            operation,
            api_version: self.api_version.into(),
            subresource: self.subresource.into(),
        }
    }

    /// The object in words, for messages.
    fn describe(&self, object: &Value) -> String {
        let word = |key| {
            metadata(object, key)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        format!(
            "{}/{}; {}",
            word("namespace"),
            word("name"),
            group_version_kind(self.api_version, self.kind)
        )
    }
}

/// A kind as Go prints it: `apps/v1, Kind=Deployment`, `/v1, Kind=Pod`.
fn group_version_kind(api_version: &str, kind: &str) -> String {
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={kind}")
}

fn metadata<'v>(object: &'v Value, key: &str) -> Option<&'v Value> {
    object
        .get("metadata")?
        .get(key)
        .filter(|value| !value.is_null())
}

fn remove_managed_fields(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

fn set_managed_fields(object: &mut Value, managed: Managed) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    let encoded = managed.encode();
    let metadata = object
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    let Some(metadata) = metadata.as_object_mut() else {
        return;
    };
    match encoded.is_empty() {
        true => drop(metadata.remove("managedFields")),
        false => drop(metadata.insert("managedFields".to_owned(), Value::Array(encoded))),
    }
}

/// The owners from which an update starts: those that the user sent, else the stored ones.
fn starting_point(cx: &Context<'_>, live: Option<&Value>, new: &Value) -> Managed {
    let stored = || {
        let fields = live.and_then(|live| metadata(live, "managedFields"));
        fields
            .and_then(|fields| Managed::decode(fields).ok())
            .unwrap_or_default()
    };
    if !cx.subresource.is_empty() {
        return stored();
    }
    match metadata(new, "managedFields") {
        None => stored(),
        Some(fields) if entries::is_reset(fields) => Managed::default(),
        Some(fields) => match Managed::decode(fields) {
            Ok(sent) if !sent.is_empty() => sent,
            Ok(_) | Err(_) => stored(),
        },
    }
}

/// What no manager owns.
fn unowned() -> &'static Set {
    static UNOWNED: std::sync::OnceLock<Set> = std::sync::OnceLock::new();
    UNOWNED.get_or_init(|| {
        let metadata = [
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        ];
        let mut set = Set::of_fields(&[&["apiVersion"], &["kind"], &["metadata"]]);
        for name in metadata {
            set = set.union(&Set::of_fields(&[&["metadata", name]]));
        }
        set
    })
}

fn strip(managed: &mut Managed, id: &str) {
    if let Some(owned) = managed.owners.get_mut(id) {
        owned.set.subtract(unowned());
        if owned.set.is_empty() {
            managed.owners.remove(id);
        }
    }
}

/// The owners after `manager` has changed `live` to `new`.
fn update(
    cx: &Context<'_>,
    live: &Value,
    new: &Value,
    managed: Managed,
    manager: &str,
) -> Result<Managed, UpdateError> {
    let Managed { owners, infos } = managed;
    let filter = |_: &str| cx.fields;
    let updater = Updater {
        versions: cx.versions,
        filter: &filter,
    };
    let owners = updater.update(
        Change {
            live,
            new,
            api_version: cx.api_version,
            manager: CURRENT_OPERATION,
        },
        owners,
    )?;
    let mut managed = Managed { owners, infos };
    strip(&mut managed, CURRENT_OPERATION);
    if let Some(owned) = managed.owners.remove(CURRENT_OPERATION) {
        let info = cx.info(manager, Operation::Update);
        let id = info.id();
        let owned = match managed.owners.remove(&id) {
            Some(previous) => Owned {
                set: owned.set.union(&previous.set),
                ..owned
            },
            None => owned,
        };
        managed.owners.insert(id.clone(), owned);
        managed.infos.insert(id, (info, Some(cx.now)));
    }
    cap::limit_updaters(&mut managed);
    Ok(managed)
}

fn check_patch(cx: &Context<'_>, patch: &Value) -> Result<(), ApplyError> {
    depth::check(patch).map_err(|error| ApplyError::BadRequest(error.to_string()))?;
    let word = |key: &str| patch.get(key).and_then(Value::as_str).unwrap_or_default();
    if word("apiVersion") != cx.api_version || word("kind") != cx.kind {
        let found = group_version_kind(word("apiVersion"), word("kind"));
        return Err(ApplyError::BadRequest(format!(
            "invalid object type: {found}"
        )));
    }
    if metadata(patch, "managedFields").is_some() {
        return Err(ApplyError::BadRequest(
            "metadata.managedFields must be nil".to_owned(),
        ));
    }
    let schema = cx.versions.schema(cx.api_version);
    let Some(schema) = schema else {
        return Err(ApplyError::BadRequest(format!(
            "version {:?} is not served",
            cx.api_version
        )));
    };
    typed::check(patch, schema.root(), Duplicates::Refused).map_err(|errors| {
        ApplyError::Invalid(format!(
            "failed to create typed patch object ({}): {errors}",
            cx.describe(patch)
        ))
    })
}

/// Applies, with owners made up for objects that have none, and with the conflicts forgiven that
/// come from `kubectl apply` being used in both of its ways.
fn apply_with_history(
    cx: &Context<'_>,
    live: &Value,
    patch: &Value,
    managed: Managed,
    force: bool,
) -> Result<(Option<Value>, Managed), ApplyError> {
    let managed = match managed.is_empty() {
        false => managed,
        true => {
            update(cx, &cx.empty_object(), live, managed, BEFORE_FIRST_APPLY).map_err(|error| {
                ApplyError::Invalid(format!(
                    "failed to create manager for existing fields: {error}"
                ))
            })?
        }
    };
    let id = cx.info(cx.manager, Operation::Apply).id();
    let (infos, again) = (
        managed.infos.clone(),
        last_applied::may_forgive(cx, live).then(|| managed.clone()),
    );
    let conflicts = match merge(cx, live, patch, managed, &id, force) {
        Ok(outcome) => return Ok(outcome),
        Err(UpdateError::Conflicts(conflicts)) => conflicts,
        Err(error) => return Err(ApplyError::Invalid(error.to_string())),
    };
    let Some(managed) = again else {
        return Err(ApplyError::Conflicts(Conflicts::new(&infos, conflicts)));
    };
    let remaining = last_applied::not_forgiven(cx, live, conflicts);
    if !remaining.is_empty() {
        return Err(ApplyError::Conflicts(Conflicts::new(&infos, remaining)));
    }
    merge(cx, live, patch, managed, &id, true)
        .map_err(|error| ApplyError::Invalid(error.to_string()))
}

fn merge(
    cx: &Context<'_>,
    live: &Value,
    patch: &Value,
    managed: Managed,
    id: &str,
    force: bool,
) -> Result<(Option<Value>, Managed), UpdateError> {
    let filter = |_: &str| cx.fields;
    let updater = Updater {
        versions: cx.versions,
        filter: &filter,
    };
    let (object, owners) = updater.apply(
        Change {
            live,
            new: patch,
            api_version: cx.api_version,
            manager: id,
        },
        managed.owners,
        force,
    )?;
    let mut managed = Managed {
        owners,
        infos: managed.infos,
    };
    strip(&mut managed, id);
    let time = match managed.infos.remove(id) {
        Some((_, time)) if object.is_none() => time,
        Some(_) | None => object.is_some().then_some(cx.now),
    };
    managed
        .infos
        .insert(id.to_owned(), (cx.info(cx.manager, Operation::Apply), time));
    Ok((object, managed))
}

/// Whether two objects are equal but for their managed fields.
fn same_but_managed_fields(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else {
        return false;
    };
    let same_metadata = |old: &Value, new: &Value| {
        let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else {
            return false;
        };
        let same = |(key, old): (&String, &Value)| {
            key == "managedFields" || new.get(key).is_some_and(|new| order::equal(old, new))
        };
        old.len() == new.len() && old.iter().all(same)
    };
    let same = |(key, old): (&String, &Value)| match (key.as_str(), new.get(key)) {
        (_, None) => false,
        ("metadata", Some(new)) => same_metadata(old, new),
        (_, Some(new)) => order::equal(old, new),
    };
    old.len() == new.len() && old.iter().all(same)
}

#[cfg(test)]
mod tests;
