//! Who may write which part of an object, where.
//!
//! One function judges every write, of users and of controllers alike, whichever way it takes: the
//! main resource, a subresource, any patch, a forced apply, a dry run.

use std::fmt;

use serde_json::{Map, Value};

use crate::crossing::{
    DISPLAY_NAME, MADE_FOR, Mirrored, ORIGIN, ORPHANED, Origin, SOURCE, VERSION, ZONE,
};
use crate::left;
use crate::names::{SyncKind, ZoneName, is_mirrored_label, is_named_by_labels};

/// In which direction a kind's objects cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    HubToZone,
    ZoneToHub,
    Both,
}

/// Who computes the status of a kind's objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatusWriters {
    /// Zones only: they consume the objects.
    #[default]
    Zones,
    /// Every control plane its own.
    Each,
}

/// What crosses of a kind, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synced {
    pub direction: Direction,
    pub status: StatusWriters,
}

/// A field that controllers of the origin compute: `spec.state`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Computed(Box<[Box<str>]>);

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The sync of this control plane, by its identity: no field manager's name makes one.
    Sync,
    /// Its own controllers, which end namespaces and definitions with all that is in them.
    Controllers,
    Other,
}

/// Which part of an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Main,
    Status,
    Computed,
}

/// A write, as it would be stored.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// Where.
    pub place: &'a Origin,
    pub synced: Option<Synced>,
    /// Whether the kind may have its status in the main resource, for want of a subresource.
    pub custom: bool,
    pub computed: &'a [Computed],
    pub writer: Writer,
    pub part: Part,
    /// Nothing when it is created.
    pub old: Option<&'a Value>,
    /// Nothing when it is deleted.
    pub new: Option<&'a Value>,
    pub zones: &'a [ZoneName],
}

/// Why a write is refused: the rule, the owner, and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(
        "status is computed where an object is consumed: in zones, and not at the hub; write it in the zone, and read it at /zones/<zone>/…"
    )]
    StatusAtHub,
    #[error("status is never written by sync")]
    StatusBySync,
    #[error("{AUTHORED_HERE}")]
    AuthoredHere,
    #[error("{CHANGED_HERE}")]
    ChangedHere,
    #[error("the object was authored in {0}, and the hub does not make it its own")]
    OriginRemoved(Owner),
    #[error("an object of this name belongs to {0}; rename one of them")]
    OthersName(Owner),
    #[error("the object is managed by {owner} and read-only here; edit it {instead}")]
    Mirrored { owner: Owner, instead: String },
    #[error("{0} says where an object is from and is written by sync alone; leave it as it is")]
    Forged(String),
    #[error(
        "names that begin with \"{zone}.\" are those of zone {zone}'s objects; choose another name"
    )]
    ZonesName { zone: ZoneName },
    #[error(
        "names that begin with \"{zone}-\" and end with a dash and ten hex digits are those of zone {zone}'s objects; choose another name"
    )]
    ZonesLabel { zone: ZoneName },
    #[error("{field} is computed by controllers; they write it through the /computed subresource")]
    ComputedField { field: Computed },
    #[error("only computed fields are written through /computed, and {0} is none")]
    NotComputed(String),
}

/// Whose an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner(Origin);

/// Why something does not come in: its place is taken.
pub const AUTHORED_HERE: &str =
    "an object of this name was authored here, and sync does not overwrite it; rename one of them";
/// Why something does not come back: it was left, and is somebody's since.
pub const CHANGED_HERE: &str = "the object was left here and changed since, and sync does not overwrite that; change it back, or delete it, to have it as it is where it comes from";
/// The keys that sync alone writes.
pub const SYNCS_LABELS: [&str; 2] = [ORIGIN, ZONE];
pub const SYNCS_ANNOTATIONS: [&str; 3] = [VERSION, DISPLAY_NAME, SOURCE];
/// The field manager of what sync applies.
pub const MANAGER: &str = "deltaplane-sync";

/// Whether a write may be made.
pub fn judge(write: &Write<'_>) -> Result<(), Refusal> {
    match (write.writer, write.part) {
        (Writer::Sync, Part::Main) => untouched(write),
        (Writer::Sync, Part::Status | Part::Computed) => Err(Refusal::StatusBySync),
        // Refusing would leave what holds it terminating for ever.
        (Writer::Controllers, Part::Main) if write.new.is_none() || is_ending(write) => Ok(()),
        (Writer::Other | Writer::Controllers, Part::Status) => {
            status(write)?;
            // It may carry labels and annotations, too.
            mirrored(write)?;
            forged(write)
        }
        (Writer::Other | Writer::Controllers, Part::Main | Part::Computed) => {
            // Where an object is from is no news to whoever may not change it at all.
            mirrored(write)?;
            forged(write)?;
            named(write)?;
            computed(write)?;
            match write.custom && status_changes(write) {
                true => status(write),
                false => Ok(()),
            }
        }
    }
}

/// Restores computed fields that a write of the whole object leaves out, with the objects that hold
/// them: whoever replaces an object by a manifest means the fields that are theirs. Null counts as
/// left out, as in a merge patch. A write that has something else where such an object belongs is
/// left to [`judge`].
pub fn restore_computed(fields: &[Computed], new: &mut Value, old: &Value) {
    for field in fields {
        if field.of(new).is_none_or(Value::is_null)
            && let Some(value) = field.of(old)
        {
            field.insert(new, value.clone());
        }
    }
}

/// Whether an object is going already.
fn is_ending(write: &Write<'_>) -> bool {
    let ending = |object: &Value| object["metadata"].get("deletionTimestamp").is_some();
    write.old.is_some_and(ending)
}

/// Sync leaves alone what was authored where it writes, and what came from elsewhere.
fn untouched(write: &Write<'_>) -> Result<(), Refusal> {
    let Some(old) = write.old else {
        return Ok(());
    };
    may_take(old)?;
    let (was, becomes) = (Origin::of(old), write.new.and_then(Origin::of));
    match (was, becomes) {
        (Some(was), Some(becomes)) if was != becomes => Err(Refusal::OthersName(Owner(was))),
        // In a zone sync orphans what the hub withdraws. At the hub an object of a zone would become
        // the hub's own, and go to all zones.
        (Some(was), None) if write.new.is_some() && *write.place == Origin::Hub => {
            Err(Refusal::OriginRemoved(Owner(was)))
        }
        (_, _) => Ok(()),
    }
}

/// Whether sync may write an object. One that is of the control plane where it is, because it
/// neither came from elsewhere nor was left there, it may not; nor one that was changed there since.
pub fn may_take(object: &Value) -> Result<(), Refusal> {
    if Origin::of(object).is_some() {
        return Ok(());
    }
    match object["metadata"]["annotations"].get(ORPHANED) {
        None => Err(Refusal::AuthoredHere),
        Some(_) if left::is_changed(object) => Err(Refusal::ChangedHere),
        Some(_) => Ok(()),
    }
}

/// Whether a write of the main resource changes the status.
fn status_changes(write: &Write<'_>) -> bool {
    let of = |object: &Value| {
        object
            .get("status")
            .filter(|status| !is_nothing(status))
            .cloned()
    };
    let new = write.new.map(of);
    new.is_some_and(|new| new != write.old.and_then(of))
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty)
}

fn status(write: &Write<'_>) -> Result<(), Refusal> {
    let zones_only = write
        .synced
        .is_some_and(|synced| synced.status == StatusWriters::Zones);
    match write.place {
        Origin::Hub if zones_only => Err(Refusal::StatusAtHub),
        Origin::Hub | Origin::Zone(_) => Ok(()),
    }
}

/// Labels and annotations that sync alone writes must be as they were.
fn forged(write: &Write<'_>) -> Result<(), Refusal> {
    let Some(new) = write.new else {
        return Ok(());
    };
    let keys = SYNCS_LABELS.map(|key| ("labels", key));
    let keys = keys
        .into_iter()
        .chain(SYNCS_ANNOTATIONS.map(|key| ("annotations", key)));
    for (place, key) in keys {
        let of = |object: &Value| object["metadata"][place].get(key).cloned();
        if of(new) != write.old.and_then(of) {
            return Err(Refusal::Forged(key.to_owned()));
        }
    }
    // It counts against the quota of a zone; anybody may take it away.
    let made_for = |object: &Value| object["metadata"]["labels"].get(MADE_FOR).cloned();
    let claimed = made_for(new).filter(|zone| write.old.and_then(made_for).as_ref() != Some(zone));
    if *write.place == Origin::Hub && claimed.is_some() {
        return Err(Refusal::Forged(MADE_FOR.to_owned()));
    }
    Ok(())
}

/// Where it is mirrored, an object is read; local controllers may keep notes on it.
fn mirrored(write: &Write<'_>) -> Result<(), Refusal> {
    let Some((old, owner)) = write.old.and_then(|old| Some((old, Origin::of(old)?))) else {
        return Ok(());
    };
    let unchanged = write.new.is_some_and(|new| is_local(old, new)) && forged(write).is_ok();
    if write.new.is_none() && is_left_behind(write, &owner) {
        return Ok(());
    }
    if owner == *write.place || (write.part != Part::Computed && unchanged) {
        return Ok(());
    }
    let name = Mirrored::authored_as(old);
    let instead = match &owner {
        Origin::Hub => format!("at the hub, as {name}"),
        Origin::Zone(zone) => format!("in zone {zone}, as {name}"),
    };
    Err(Refusal::Mirrored {
        owner: Owner(owner),
        instead,
    })
}

/// Whether nobody will ever take it away from the hub: its zone is gone, or its kind does not cross
/// any more.
fn is_left_behind(write: &Write<'_>, owner: &Origin) -> bool {
    match (write.place, owner) {
        (Origin::Hub, Origin::Zone(zone)) => {
            let comes = |synced: Synced| synced.direction != Direction::HubToZone;
            !write.synced.is_some_and(comes) || !write.zones.contains(zone)
        }
        (Origin::Hub | Origin::Zone(_), _) => false,
    }
}

/// Whether a change leaves all as it is that came from elsewhere.
fn is_local(old: &Value, new: &Value) -> bool {
    let rest = |object: &Value| -> Option<Map<String, Value>> {
        let mut object = object.as_object()?.clone();
        object.remove("metadata");
        // Of whoever consumes the object.
        object.remove("status");
        Some(object)
    };
    let kept = |place: &str| {
        let keys = synced_keys(old, place);
        let of = |object: &Value, key: &str| object["metadata"][place].get(key).cloned();
        keys.iter().all(|key| of(old, key) == of(new, key))
    };
    let forgotten = is_managed(old) && resets_managers(new) && !is_managed(new);
    let same_content = rest(old) == rest(new) && kept("labels") && kept("annotations");
    same_content && !forgotten && !adds_owner(old, new)
}

/// Returns true if a change gives the object another owner: the garbage collector deletes an object
/// whose owners are gone.
fn adds_owner(old: &Value, new: &Value) -> bool {
    let owners = |object: &Value| {
        let owners = object["metadata"]["ownerReferences"].as_array();
        owners.cloned().unwrap_or_default()
    };
    let before = owners(old);
    owners(new).iter().any(|owner| !before.contains(owner))
}

/// Whether it says what sync applied.
fn is_managed(object: &Value) -> bool {
    let entries = object["metadata"]["managedFields"].as_array();
    entries.into_iter().flatten().any(is_managed_entry)
}

/// Whether it is what sync applied.
pub(crate) fn is_managed_entry(entry: &Value) -> bool {
    entry["manager"] == MANAGER
}

/// Whether a write says who manages what; one that says nothing leaves it as it is.
fn resets_managers(object: &Value) -> bool {
    let entries = object["metadata"]["managedFields"].as_array();
    entries.is_some_and(|entries| !entries.is_empty())
}

/// The labels or annotations that sync applied.
pub(crate) fn synced_keys(object: &Value, place: &str) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array();
    let entries = entries.into_iter().flatten();
    let ours = entries.filter(|entry| is_managed_entry(entry));
    let field = format!("f:{place}");
    let keys = ours.filter_map(|entry| entry["fieldsV1"]["f:metadata"][&field].as_object());
    let keys = keys.flat_map(Map::keys);
    keys.filter_map(|key| key.strip_prefix("f:"))
        .map(str::to_owned)
        .collect()
}

/// Hub users leave the names of zones' objects alone.
fn named(write: &Write<'_>) -> Result<(), Refusal> {
    let comes_up = write
        .synced
        .is_some_and(|synced| synced.direction != Direction::HubToZone);
    let (Origin::Hub, true, None, Some(new)) = (write.place, comes_up, write.old, write.new) else {
        return Ok(());
    };
    let name = new["metadata"]["name"].as_str().unwrap_or_default();
    let prefix = name.split_once('.').map(|(prefix, _)| prefix);
    let zone = write
        .zones
        .iter()
        .find(|zone| prefix == Some(zone.as_str()));
    if let Some(zone) = zone {
        return Err(Refusal::ZonesName { zone: zone.clone() });
    }
    let mut zones = write.zones.iter();
    match zones.find(|zone| is_label_kind(new) && is_mirrored_label(zone, name)) {
        Some(zone) => Err(Refusal::ZonesLabel { zone: zone.clone() }),
        None => Ok(()),
    }
}

/// Whether zones' objects of this kind have names without a dot.
fn is_label_kind(object: &Value) -> bool {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let group = text("apiVersion")
        .split_once('/')
        .map_or("", |(group, _)| group);
    SyncKind::new(group, text("kind")).is_ok_and(|kind| is_named_by_labels(&kind))
}

fn computed(write: &Write<'_>) -> Result<(), Refusal> {
    let Some(new) = write.new else {
        return Ok(());
    };
    let changed = |field: &&Computed| field.of(new) != write.old.and_then(|old| field.of(old));
    if write.part == Part::Main {
        let touched = write.computed.iter().find(changed);
        return touched.map_or(Ok(()), |field| {
            let field = field.clone();
            Err(Refusal::ComputedField { field })
        });
    }
    let without = |object: &Value| {
        let mut object = object.clone();
        for field in write.computed {
            field.remove(&mut object);
        }
        object["metadata"] = Value::Null;
        object
    };
    let (old, new) = (write.old.map(without).unwrap_or_default(), without(new));
    match differing(&old, &new) {
        Some(field) => Err(Refusal::NotComputed(field)),
        None => Ok(()),
    }
}

/// The first field in which two objects differ.
fn differing(old: &Value, new: &Value) -> Option<String> {
    if old == new {
        return None;
    }
    let (Value::Object(a), Value::Object(b)) = (old, new) else {
        return Some(String::new());
    };
    let key = a
        .keys()
        .chain(b.keys())
        .find(|key| a.get(*key) != b.get(*key))?;
    let inner = differing(
        a.get(key).unwrap_or(&Value::Null),
        b.get(key).unwrap_or(&Value::Null),
    );
    Some(match inner {
        Some(inner) if !inner.is_empty() => format!("{key}.{inner}"),
        Some(_) | None => key.clone(),
    })
}

// === impl Computed ===

impl Computed {
    /// The fields of a definition's annotation: `spec.state,spec.identities`.
    pub fn list(text: &str) -> Vec<Self> {
        let fields = text
            .split(',')
            .map(str::trim)
            .filter(|field| !field.is_empty());
        fields
            .map(|field| Self(field.split('.').map(Into::into).collect()))
            .collect()
    }

    fn of<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.0
            .iter()
            .try_fold(object, |value, key| value.get(&**key))
    }

    /// Removes the field, and the objects that hold nothing without it.
    fn remove(&self, object: &mut Value) {
        remove_path(object, &self.0);
    }

    /// Sets the field, with the objects that hold it.
    fn insert(&self, object: &mut Value, value: Value) {
        let Some((last, path)) = self.0.split_last() else {
            return;
        };
        let parent = path.iter().try_fold(object, |value, key| {
            let child = value.as_object_mut()?.entry(&**key).or_insert(Value::Null);
            if child.is_null() {
                *child = Map::new().into();
            }
            Some(child)
        });
        if let Some(parent) = parent.and_then(Value::as_object_mut) {
            parent.insert((**last).to_owned(), value);
        }
    }
}

fn remove_path(value: &mut Value, path: &[Box<str>]) {
    let (Some((key, rest)), Some(parent)) = (path.split_first(), value.as_object_mut()) else {
        return;
    };
    let Some(child) = parent.get_mut(&**key) else {
        return;
    };
    remove_path(child, rest);
    let is_empty = child.as_object().is_some_and(Map::is_empty);
    if rest.is_empty() || is_empty {
        parent.remove(&**key);
    }
}

impl fmt::Display for Computed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

// === impl Owner ===

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Origin::Hub => f.write_str("the hub"),
            Origin::Zone(zone) => write!(f, "zone {zone}"),
        }
    }
}

#[cfg(test)]
mod tests;
