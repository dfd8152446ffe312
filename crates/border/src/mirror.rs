//! Applies what came across the border to an API, as a client of it.
//!
//! It never writes a status, and never touches what was authored here: neither by name nor by
//! deletion.

mod along;
mod attempt;
mod drift;

pub use attempt::{ServedKind, served_kind};
pub use drift::{Stamp, Told};

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_client::discovery::discover;
use deltaplane_client::request::{self, Patch, RequestError};
use deltaplane_client::{ObjectKey, Pace, Resource};
use deltaplane_sync::{
    AUTHORED_HERE, Arrival, CHANGED_HERE, Crossing, DISPLAY_NAME, Declined, Item, Known, MANAGER,
    Mirrored, ORIGIN, ORPHANED, ORPHANED_AS, ObjectName, Origin, Outcome, Position, Refusal,
    SOURCE, SyncKind, VERSION, Version, ZONE, applied_version, has_its_content, is_named_by_labels,
    likeness, may_take, mirrored_name,
};
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::catalog::{definitions, namespaces};
use crate::receiving::Target;
use drift::Marked;

/// What a mirror is given.
pub struct MirrorConfig {
    /// As sync.
    pub client: Client,
    pub pace: Pace,
    /// Where it is.
    pub place: Origin,
    /// Whose objects come: a zone's, or the hub's.
    pub sender: Origin,
    /// Whether the API itself keeps sync from what was authored here. Otherwise it is looked
    /// before.
    pub guarded: bool,
}

/// What came across the border, in one API.
pub struct Mirror {
    config: MirrorConfig,
    state: Mutex<State>,
}

/// An object that is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub version: Version,
    /// Where the sender's store was.
    pub source: Option<Position>,
    /// How it was when it was applied, as far as that is known.
    pub stamp: Option<Stamp>,
}

/// What one API calls a kind, and has of it.
#[derive(Default)]
struct State {
    plurals: BTreeMap<SyncKind, String>,
    held: BTreeMap<SyncKind, BTreeMap<ObjectName, Held>>,
    /// What was here already and does as well: it is somebody else's, and needed nevertheless.
    yielded: BTreeMap<SyncKind, BTreeSet<ObjectName>>,
}

/// Whether what others manage is overwritten.
#[derive(Clone, Copy)]
enum Force {
    Yes,
    No,
}

// === impl Mirror ===

impl Mirror {
    pub fn new(config: MirrorConfig) -> Self {
        let mirror = Self {
            config,
            state: Mutex::default(),
        };
        mirror.learn(&namespaces(), "namespaces");
        mirror.learn(&definitions(), "customresourcedefinitions");
        mirror
    }

    /// What a kind is called in paths.
    pub fn learn(&self, kind: &SyncKind, plural: &str) {
        let mut state = self.state.lock();
        state.plurals.insert(kind.clone(), plural.to_owned());
    }

    /// What of a kind is here already.
    pub fn holds(&self, kind: &SyncKind, held: BTreeMap<ObjectName, Held>) {
        self.state.lock().held.insert(kind.clone(), held);
    }

    /// The versions that are here, and the stores that they are from.
    pub fn versions(&self, kind: &SyncKind) -> Known {
        let state = self.state.lock();
        let held = state.held.get(kind);
        let held = || held.into_iter().flatten();
        let mut furthest: BTreeMap<_, u64> = BTreeMap::new();
        for source in held().filter_map(|(_, held)| held.source.as_ref()) {
            let revision = furthest.entry(source.epoch.clone()).or_default();
            *revision = source.revision.max(*revision);
        }
        let sources = furthest.into_iter();
        Known::Versions {
            held: held()
                .map(|(name, held)| (name.clone(), held.version))
                .collect(),
            sources: sources
                .map(|(epoch, revision)| Position { epoch, revision })
                .collect(),
        }
    }

    /// The version that is here of an object.
    pub fn version(&self, kind: &SyncKind, name: &ObjectName) -> Option<Version> {
        let state = self.state.lock();
        Some(state.held.get(kind)?.get(name)?.version)
    }

    /// Looks which objects of a kind are here, as an API says whose labels are to be trusted.
    pub async fn list(&self, kind: &SyncKind) -> Result<(), String> {
        let Some(resource) = self.served(kind).await? else {
            self.holds(kind, BTreeMap::new());
            return Ok(());
        };
        let selector = match &self.config.sender {
            Origin::Hub => ORIGIN.to_owned(),
            Origin::Zone(zone) => format!("{ZONE}={zone}"),
        };
        let held = attempt::list(&self.config.client, &resource, &selector).await?;
        let held = held.iter().filter_map(|object| {
            let mirrored = Mirrored::of(object)?;
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
            let name = match &self.config.sender {
                Origin::Hub => object["metadata"]["name"].as_str()?,
                Origin::Zone(_) => Mirrored::authored_as(object),
            };
            let name = ObjectName::new(namespace, name).ok()?;
            let Mirrored {
                version, source, ..
            } = mirrored;
            let stamp = None;
            let held = Held {
                version,
                source,
                stamp,
            };
            Some((name, held))
        });
        self.holds(kind, held.collect());
        Ok(())
    }

    /// Where objects of a kind are, if they are served at all: the API knows its plural better than
    /// whoever named it.
    pub async fn served(&self, kind: &SyncKind) -> Result<Option<Resource>, String> {
        let Some(plural) = self.state.lock().plurals.get(kind).cloned() else {
            return Ok(None);
        };
        let client = &self.config.client;
        let served = attempt::served_kind(client, kind, &plural).await?;
        Ok(served.map(|ServedKind { plural, version }| {
            // Whether there are namespaces in the path does not matter to all that follows.
            Resource::cluster(kind.group(), &version, &plural, kind.kind())
        }))
    }

    /// The path of an object, in the version that it has.
    fn path(&self, kind: &SyncKind, object: &Value) -> Result<String, String> {
        let state = self.state.lock();
        let plural = state.plurals.get(kind);
        let plural = plural.ok_or_else(|| format!("{kind} is not synced"))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let api_version = text(&object["apiVersion"]);
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        if group != kind.group() || object["kind"] != kind.kind() {
            return Err(format!(
                "it is a {} of {api_version}, and not of {kind}",
                object["kind"]
            ));
        }
        let (namespace, name) = (
            text(&object["metadata"]["namespace"]),
            text(&object["metadata"]["name"]),
        );
        let resource = Resource {
            namespaced: !namespace.is_empty(),
            ..Resource::cluster(group, version, plural, kind.kind())
        };
        Ok(resource.object_path(&ObjectKey::new(&namespace, &name)))
    }

    /// What an object is called here.
    fn local_name(&self, kind: &SyncKind, name: &ObjectName) -> String {
        match &self.config.sender {
            Origin::Hub => name.name().to_owned(),
            Origin::Zone(zone) => mirrored_name(zone, name.name(), is_named_by_labels(kind)),
        }
    }

    /// Where it says that it is from, if it may say so.
    fn origin(&self, item: &Item) -> Result<(Origin, Option<String>), String> {
        match (&self.config.sender, &item.relayed) {
            (sender, None) => Ok((sender.clone(), None)),
            (Origin::Zone(zone), Some(relayed)) => Err(format!(
                "zone {zone} may send its own objects only, and not those of zone {}",
                relayed.zone
            )),
            (Origin::Hub, Some(relayed)) => {
                let origin = Origin::Zone(relayed.zone.clone());
                match origin == self.config.place {
                    true => Err("it is this zone's own".to_owned()),
                    false => Ok((origin, Some(relayed.name.to_string()))),
                }
            }
        }
    }

    async fn put(&self, kind: &SyncKind, name: &ObjectName, item: &Item, at: &Position) -> Outcome {
        let object = serde_json::from_slice(&item.body);
        let object = object.map_err(|error| format!("it is no object: {error}"))?;
        let crossing = Crossing::received(object, name, item.version);
        let crossing = crossing.map_err(|smuggled| smuggled.to_string())?;
        let (origin, authored_as) = self.origin(item)?;
        let local = self.local_name(kind, name);
        let object = crossing.arriving(Arrival {
            name: &local,
            origin: &origin,
            authored_as: authored_as.as_deref().unwrap_or(name.name()),
            source: at,
        });
        let path = self.path(kind, &object)?;
        let known = self.version(kind, name).is_some();
        if !known && !self.config.guarded {
            self.look_before(&path)
                .await?
                .or_else(|reason| self.declines((kind, name), reason))?;
        }
        let applied = match known {
            true => self.apply_object(&path, &object).await,
            false => self.take(&path, &object).await,
        };
        let applied = match applied {
            Err(reason) if is_theirs(&reason) && (!known || is_shared(kind)) => {
                return self.declines((kind, name), reason);
            }
            applied => applied?,
        };
        let applied = match applied.is_left() {
            true => self.unmark(&path).await?,
            false => applied,
        };
        let stamp = applied.stamp(self.config.guarded);
        let held = |version| Held {
            version,
            source: Some(at.clone()),
            stamp: Some(stamp),
        };
        if *kind == definitions() {
            let Self { config, .. } = self;
            let established = attempt::established(&config.client, &config.pace, &path).await;
            if let Err(reason) = established {
                // It is here, and must go when it is not wanted any more.
                self.hold(kind, name, held(Version::altered()));
                return Err(reason.into());
            }
        }
        self.hold(kind, name, held(item.version));
        Ok(())
    }

    fn hold(&self, kind: &SyncKind, name: &ObjectName, held: Held) {
        let mut state = self.state.lock();
        state.forget(kind, name);
        let of_kind = state.held.entry(kind.clone()).or_default();
        of_kind.insert(name.clone(), held);
    }

    /// There is one that is somebody else's. Of some kinds that is all that is needed; how it is, is
    /// the owner's business.
    fn declines(&self, (kind, name): (&SyncKind, &ObjectName), reason: String) -> Outcome {
        if !is_shared(kind) {
            return Err(Declined::foreign(reason));
        }
        let mut state = self.state.lock();
        let yielded = state.yielded.entry(kind.clone()).or_default();
        yielded.insert(name.clone());
        Err(Declined::own(match reason.contains(CHANGED_HERE) {
            true => KEPT_AS_CHANGED,
            false => KEPT,
        }))
    }

    /// Applies what sync has not here. What others have set meanwhile is not overwritten.
    async fn take(&self, path: &str, object: &Value) -> Result<Marked, String> {
        let conflict = match self.try_apply(path, object, Force::No).await? {
            Ok(applied) => return Ok(applied),
            Err(conflict) => conflict,
        };
        let found = attempt::get(&self.config.client, &self.config.pace, path).await?;
        let Some(found) = found else {
            return Err(conflict);
        };
        let ours = match may_take(&found) {
            // What came before, and nobody said so, is still sync's.
            Ok(()) => Origin::of(&found).is_some() || has_its_content(&found),
            Err(Refusal::ChangedHere) => false,
            Err(refusal) => return Err(refusal.to_string()),
        };
        match ours {
            true => self.apply_object(path, object).await,
            false => Err(format!("{CHANGED_HERE}: {conflict}")),
        }
    }

    async fn apply_object(&self, path: &str, object: &Value) -> Result<Marked, String> {
        self.try_apply(path, object, Force::Yes).await?
    }

    /// Applies it, or says which fields others manage.
    async fn try_apply(
        &self,
        path: &str,
        object: &Value,
        force: Force,
    ) -> Result<Result<Marked, String>, String> {
        let Self { config, .. } = self;
        let path = format!("{path}?fieldManager={MANAGER}&force={}", force.word());
        let namespace = match &config.sender {
            Origin::Zone(zone) => object["metadata"]["namespace"].as_str().zip(Some(zone)),
            Origin::Hub => None,
        };
        let applied = attempt::repeat(&config.pace, || async {
            let applied = request::apply(&config.client, &path, object).await;
            let applied = match (applied, namespace) {
                // Zones have namespaces that the hub does not know.
                (Err(error), Some((namespace, zone))) if lacks(&error, namespace) => {
                    attempt::create_namespace(&config.client, namespace, zone).await?;
                    request::apply(&config.client, &path, object).await
                }
                (applied, _) => applied,
            };
            match applied {
                Err(RequestError::Refused(refusal)) if refusal.is_about_managers() => {
                    Ok(Err(refusal.message))
                }
                applied => applied.map(Ok),
            }
        });
        Ok(match applied.await? {
            Ok(applied) => Ok(attempt::stays(applied)?),
            Err(conflict) => Err(conflict),
        })
    }

    /// Whether somebody here has an object that sync may not touch, and why not.
    async fn look_before(&self, path: &str) -> Result<Result<(), String>, String> {
        let found = attempt::get(&self.config.client, &self.config.pace, path).await?;
        let may = found.map_or(Ok(()), |object| may_take(&object));
        Ok(may.map_err(|refusal| refusal.to_string()))
    }

    /// What was taken back is not left here any more.
    async fn unmark(&self, path: &str) -> Result<Marked, String> {
        let Self { config, .. } = self;
        let change = json!({"metadata": {"annotations": {ORPHANED: null, ORPHANED_AS: null}}});
        let patch = || request::patch(&config.client, path, Patch::Merge, &change);
        attempt::repeat(&config.pace, patch).await
    }

    /// The path and the content of an object that came across, if it is here.
    async fn find(
        &self,
        kind: &SyncKind,
        name: &ObjectName,
    ) -> Result<Option<(String, Value)>, String> {
        let Some(resource) = self.served(kind).await? else {
            return Ok(None);
        };
        let resource = Resource {
            namespaced: !name.namespace().is_empty(),
            ..resource
        };
        let local = self.local_name(kind, name);
        let path = resource.object_path(&ObjectKey::new(name.namespace(), &local));
        let found = attempt::get(&self.config.client, &self.config.pace, &path).await?;
        let ours = found.filter(|object| {
            Origin::of(object).is_some_and(|origin| match &self.config.sender {
                // The hub relays objects of other zones.
                Origin::Hub => true,
                sender @ Origin::Zone(_) => origin == *sender,
            })
        });
        Ok(ours.map(|object| (path, object)))
    }

    async fn leave(&self, kind: &SyncKind, name: &ObjectName) -> Outcome {
        if let Some((path, object)) = self.find(kind, name).await? {
            let likeness = likeness(&self.as_applied(kind, &object).await?);
            let was = object["metadata"]["labels"][ORIGIN].clone();
            let change = json!({"metadata": {
                "labels": {ORIGIN: null, ZONE: null},
                "annotations": {
                    VERSION: null, SOURCE: null, DISPLAY_NAME: null,
                    ORPHANED: was, ORPHANED_AS: likeness,
                },
            }});
            let Self { config, .. } = self;
            attempt::repeat(&config.pace, || async {
                let patched: Result<Value, _> =
                    request::patch(&config.client, &path, Patch::Merge, &change).await;
                patched.map(drop)
            })
            .await?;
        }
        self.forget(kind, name);
        Ok(())
    }

    /// An object in the version in which it was applied, as it will be when it comes back.
    async fn as_applied(&self, kind: &SyncKind, object: &Value) -> Result<Value, String> {
        let version = applied_version(object).map(Value::from);
        let version = version.filter(|version| *version != object["apiVersion"]);
        let Some(version) = version else {
            return Ok(object.clone());
        };
        let mut there = object.clone();
        there["apiVersion"] = version;
        let path = self.path(kind, &there)?;
        let found = attempt::get(&self.config.client, &self.config.pace, &path).await?;
        Ok(found.unwrap_or_else(|| object.clone()))
    }

    async fn remove(&self, kind: &SyncKind, name: &ObjectName) -> Outcome {
        if let Some((path, object)) = self.find(kind, name).await? {
            let uid = &object["metadata"]["uid"];
            let options = json!({
                "apiVersion": "v1", "kind": "DeleteOptions",
                "propagationPolicy": "Background", "preconditions": {"uid": uid},
            });
            let Self { config, .. } = self;
            attempt::repeat(&config.pace, || async {
                match request::delete(&config.client, &path, &options).await {
                    Err(error) if error.is_not_found() => Ok(()),
                    deleted => deleted,
                }
            })
            .await?;
        }
        self.forget(kind, name);
        Ok(())
    }

    /// How many objects are in namespaces, or are of definitions.
    async fn goes_along(&self, kind: &SyncKind, names: &[ObjectName]) -> Result<u64, String> {
        let Self { config, .. } = self;
        let served = discover(&config.client).await;
        let served = served.map_err(|error| along::unknown(kind, &error))?;
        let mut count = 0;
        for name in names {
            let local = self.local_name(kind, name);
            count += along::count(&config.client, &served, kind, &local).await?;
        }
        Ok(count)
    }

    fn forget(&self, kind: &SyncKind, name: &ObjectName) {
        self.state.lock().forget(kind, name);
    }
}

// === impl Force ===

impl Force {
    fn word(self) -> &'static str {
        match self {
            Self::Yes => "true",
            Self::No => "false",
        }
    }
}

// === impl State ===

impl State {
    fn forget(&mut self, kind: &SyncKind, name: &ObjectName) {
        if let Some(of_kind) = self.held.get_mut(kind) {
            of_kind.remove(name);
        }
        if let Some(yielded) = self.yielded.get_mut(kind) {
            yielded.remove(name);
        }
    }
}

impl Target for Mirror {
    fn apply<'a>(
        &'a self,
        kind: &'a SyncKind,
        name: &'a ObjectName,
        item: &'a Item,
        at: &'a Position,
    ) -> BoxFuture<'a, Outcome> {
        self.put(kind, name, item, at).boxed()
    }

    fn orphan<'a>(&'a self, kind: &'a SyncKind, name: &'a ObjectName) -> BoxFuture<'a, Outcome> {
        self.leave(kind, name).boxed()
    }

    fn delete<'a>(&'a self, kind: &'a SyncKind, name: &'a ObjectName) -> BoxFuture<'a, Outcome> {
        self.remove(kind, name).boxed()
    }

    fn count(&self, kind: &SyncKind) -> u64 {
        let state = self.state.lock();
        state.held.get(kind).map_or(0, |held| held.len() as u64)
    }

    /// A store of ours makes many durable together; an API elsewhere has other clients as well.
    fn parallel(&self) -> usize {
        match self.config.guarded {
            true => 128,
            false => 32,
        }
    }

    fn along<'a>(
        &'a self,
        kind: &'a SyncKind,
        names: &'a [ObjectName],
    ) -> BoxFuture<'a, Result<u64, String>> {
        match is_shared(kind) {
            true => self.goes_along(kind, names).boxed(),
            false => ready(Ok(0)).boxed(),
        }
    }
}

fn lacks(error: &RequestError, namespace: &str) -> bool {
    let refusal = error.refusal();
    refusal.is_some_and(|refusal| refusal.lacks_namespace(namespace))
}

/// What is said of one that is there already.
const KEPT: &str =
    "there is one here that was not made by sync: it is left as it is, and serves what needs it";

/// What is said of one that was left, and is somebody's since.
const KEPT_AS_CHANGED: &str =
    "the one that was left here was changed since: it is left as it is, and serves what needs it";

/// Whether sync was refused because of whose it is.
fn is_theirs(reason: &str) -> bool {
    [AUTHORED_HERE, CHANGED_HERE]
        .iter()
        .any(|theirs| reason.contains(theirs))
}

/// Kinds that hub and zones need alike: one that is there already is left as it is.
fn is_shared(kind: &SyncKind) -> bool {
    *kind == namespaces() || *kind == definitions()
}
