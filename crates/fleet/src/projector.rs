//! From the store's ordered log to what zones should have.
//!
//! One task reads everything that is written, in its order, and brings the catalog and what is
//! known of kinds and zones from one revision to the next, each time as a whole.

mod batch;
pub(crate) mod place;
mod policies;
mod zones;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use deltaplane_border::{Audience, Held, Shared, definitions, graphs, namespaces};
use deltaplane_runtime::{Clock, Stop};
use deltaplane_store::{
    Batch as WatchBatch, Collection, Event, Key, ListQuery, Object, ReadError, Revision, Scope,
    Store, Watch, WatchError,
};
use deltaplane_sync::{
    COMPUTED_FIELDS, Computed, ORIGIN, ObjectName, SyncKind, Withdrawal, ZoneName,
};
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::sync::watch;

use crate::governing::{Entries, Governing, Journal};
use crate::graphs::not_accepted;
use crate::kinds::{GROUP, KindError, SyncedKind, TENANT, is_everywhere, synced_kinds};
use crate::known::Known;
use crate::losses::LossListeners;
use crate::made_namespaces::MadeNamespaces;

use batch::{Batch, OriginChange, Outlived};

/// What came from zones, by zone and kind, under the names that it has there.
pub(crate) type FromZones = BTreeMap<(ZoneName, SyncKind), BTreeMap<ObjectName, Held>>;

/// Reads the log.
pub(crate) struct Projector {
    store: Store,
    clock: Clock,
    catalog: Arc<Shared>,
    published: watch::Sender<Arc<Known>>,
    from_zones: Arc<RwLock<FromZones>>,
    losses: Arc<LossListeners>,
    made_namespaces: Arc<RwLock<MadeNamespaces>>,
    known: Known,
    /// By collection.
    synced: BTreeMap<String, SyncedKind>,
    /// `synced` as of the last batch that was published.
    published_synced: BTreeMap<String, SyncedKind>,
    /// How many objects zones should have in a namespace.
    used: BTreeMap<String, u64>,
    /// The last approval of each zone, and when it was seen.
    approvals: BTreeMap<ZoneName, (u64, Duration)>,
    governing: Arc<Mutex<Governing>>,
    journal: Journal,
    /// What the catalog has of each policy.
    governed: BTreeMap<String, Entries>,
    /// Counts what concerns policies.
    stirred: watch::Sender<u64>,
}

/// Where a projector puts what it finds.
pub(crate) struct Outlets {
    pub(crate) catalog: Arc<Shared>,
    pub(crate) known: watch::Sender<Arc<Known>>,
    pub(crate) from_zones: Arc<RwLock<FromZones>>,
    pub(crate) losses: Arc<LossListeners>,
    pub(crate) made_namespaces: Arc<RwLock<MadeNamespaces>>,
    pub(crate) governing: Arc<Mutex<Governing>>,
    pub(crate) stirred: watch::Sender<u64>,
}

/// Why the log cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProjectorError {
    #[error("failed to read objects")]
    Read(#[from] ReadError),
    #[error("failed to read the log")]
    Watch(#[from] WatchError),
    #[error("a collection has a name that is not legal")]
    Name(#[from] deltaplane_store::KeyError),
}

// === impl ProjectorError ===

impl ProjectorError {
    /// Whether something was read at a revision that is not retained any more.
    fn is_compacted(&self) -> bool {
        match self {
            Self::Read(ReadError::Compacted { .. }) | Self::Watch(WatchError::Resync { .. }) => {
                true
            }
            Self::Read(_) | Self::Watch(_) | Self::Name(_) => false,
        }
    }
}

/// How a batch of events ended.
enum BatchOutcome {
    Published,
    /// The process stops; nothing was published.
    Stopped,
}

/// Events taken at once.
const BATCH: usize = 1024;
/// How long to wait before the store is asked again.
const RETRY: Duration = Duration::from_secs(1);
const ZONES: &str = "fleet.deltaplane.io/zones";
const KINDS: &str = "fleet.deltaplane.io/syncedkinds";
const POLICIES: &str = "fleet.deltaplane.io/propagationpolicies";
const RELEASES: &str = "fleet.deltaplane.io/releases";
const APPROVALS: &str = "fleet.deltaplane.io/approvals";
const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";
const NAMESPACES: &str = "namespaces";

// === impl Projector ===

impl Projector {
    pub(crate) fn new(store: Store, clock: Clock, outlets: Outlets) -> Self {
        Self {
            store: store.clone(),
            clock,
            catalog: outlets.catalog,
            published: outlets.known,
            from_zones: outlets.from_zones,
            losses: outlets.losses,
            made_namespaces: outlets.made_namespaces,
            known: Known::default(),
            synced: BTreeMap::new(),
            published_synced: BTreeMap::new(),
            used: BTreeMap::new(),
            approvals: BTreeMap::new(),
            governing: outlets.governing,
            journal: Journal::new(store.clone()),
            governed: BTreeMap::new(),
            stirred: outlets.stirred,
        }
    }

    /// Takes in everything that is there, and follows from that revision on.
    pub(crate) async fn load(&mut self) -> Result<Watch, ProjectorError> {
        let at = self.store.revision();
        let mut batch = Batch::new(&self.catalog);
        self.begin_load();
        batch.knows_more = true;
        batch.undecided = Some(false);
        self.governing.lock().begin();
        // Until somebody says that they cross.
        batch.retire(namespaces(), Withdrawal::Orphan);
        batch.retire(definitions(), Withdrawal::Orphan);
        batch.declare(synced_kinds(), None);
        for object in self.list(ZONES, at).await? {
            self.zone(&object, true);
        }
        for object in self.list(DEFINITIONS, at).await? {
            self.computed(&object, true);
        }
        self.load_namespaces(at).await?;
        self.load_policies(at).await?;
        self.journal.recall(&mut self.governing.lock());
        let kinds = self.list(KINDS, at).await?;
        // Some may have been deleted.
        self.known.synced_at = at.get();
        self.replay(&kinds, at).await?;
        let named: BTreeSet<String> = kinds.iter().map(|kind| kind.key().name().into()).collect();
        let before: Vec<String> = self.synced.keys().cloned().collect();
        for collection in before {
            if !named.contains(&self.synced[&collection].name()) {
                self.drop_kind(&mut batch, &collection, at).await?;
            }
        }
        for object in kinds {
            self.synced_kind(&mut batch, (&object, true), at).await?;
        }
        // Of kinds that cannot be read nobody knows that they do not cross any more.
        if self.known.unreadable.is_empty() {
            let declared = self.synced.values().map(|synced| synced.kind.clone());
            self.governing
                .lock()
                .forget_kinds_but(&declared.collect(), at.get());
        }
        self.govern(&mut batch, at).await?;
        self.withdraw_again(&mut batch, at, &|_| true);
        self.write_loaded_journal(at).await;
        self.governing.lock().loading = false;
        self.publish(batch, at);
        Ok(self.store.watch(Scope::everything(), at)?)
    }

    /// Follows the log until told to stop.
    pub(crate) async fn run(mut self, mut watch: Watch, stop: Stop) -> Result<(), ProjectorError> {
        loop {
            let Some(next) = stop.unless(watch.next_batch(BATCH)).await else {
                return Ok(());
            };
            match next {
                Ok(events) => match self.take(&events, &stop).await {
                    Ok(BatchOutcome::Published) => {}
                    Ok(BatchOutcome::Stopped) => return Ok(()),
                    Err(error) if error.is_compacted() => watch = self.reload().await?,
                    Err(error) => return Err(error),
                },
                Err(WatchError::Resync { .. }) => watch = self.reload().await?,
                Err(WatchError::Storage { reason }) => {
                    tracing::warn!(%reason, "failed to read the log; trying again");
                    self.clock.sleep(RETRY).await;
                }
                Err(WatchError::Closed) => {
                    stop.wait().await;
                    return Ok(());
                }
                Err(error @ WatchError::Future { .. }) => return Err(error.into()),
            }
        }
    }

    /// Takes in a few changes, as a whole.
    async fn take(
        &mut self,
        events: &WatchBatch,
        stop: &Stop,
    ) -> Result<BatchOutcome, ProjectorError> {
        let mut batch = Batch::new(&self.catalog);
        let collected = self.collect(&mut batch, events).await;
        // The journal has what events say and objects do not, also if all is read anew.
        if !self.write_journal(events.revision, stop).await {
            return Ok(BatchOutcome::Stopped);
        }
        collected?;
        self.publish(batch, events.revision);
        Ok(BatchOutcome::Published)
    }

    async fn collect(
        &mut self,
        batch: &mut Batch,
        events: &WatchBatch,
    ) -> Result<(), ProjectorError> {
        let mut compacted = None;
        for event in &events.events {
            match self.event(batch, event).await {
                // All is read anew; what the other events say of policies is in no object.
                Err(error) if error.is_compacted() => compacted = Some(error),
                taken => taken?,
            }
        }
        match compacted {
            Some(error) => return Err(error),
            None => self.govern(batch, events.revision).await?,
        }
        let kinds = std::mem::take(&mut batch.crossing_again);
        if !kinds.is_empty() {
            self.withdraw_again(batch, events.revision, &|kind| kinds.contains(kind));
        }
        Ok(())
    }

    /// Goes back to what is published: everything is read anew, and compared with the catalog. A
    /// batch or an earlier load may have ended before it was published.
    fn begin_load(&mut self) {
        self.known = Known::default();
        self.synced = self.published_synced.clone();
        let catalog = self.catalog.read();
        let entries = catalog.all_entries();
        let wanted = entries.filter(|(_, entry)| entry.is_for_anybody());
        self.used.clear();
        for (name, _) in wanted.filter(|(name, _)| !name.namespace().is_empty()) {
            *self.used.entry(name.namespace().to_owned()).or_default() += 1;
        }
        let policies = catalog.governed_objects();
        let governed = policies.map(|(id, objects)| {
            let entries = Entries::in_catalog(objects.cloned(), catalog.placement(id));
            (id.as_str().to_owned(), entries)
        });
        self.governed = governed.collect();
    }

    /// Reads everything anew: the history that a change refers to is not retained any more. It may
    /// be dropped again meanwhile.
    async fn reload(&mut self) -> Result<Watch, ProjectorError> {
        loop {
            tracing::warn!("the projector fell behind the retained history; reading all");
            match self.load().await {
                Err(error) if error.is_compacted() => {}
                loaded => return loaded,
            }
        }
    }

    fn publish(&mut self, batch: Batch, at: Revision) {
        let Batch {
            edits,
            kinds,
            from_zones,
            knows_more,
            stirs,
            undecided,
            ..
        } = batch;
        self.known.at = at.get();
        if !kinds.is_empty() {
            self.published_synced.clone_from(&self.synced);
        }
        let lost = self.take_origins(from_zones);
        if knows_more {
            self.published.send_replace(Arc::new(self.known.clone()));
        }
        let stirs = !edits.is_empty() || knows_more || stirs;
        if stirs {
            self.governing.lock().concerned = at.get();
        }
        // Last: who waits for the revision finds the rest.
        self.catalog.change(edits, at.get(), |catalog| {
            for change in kinds {
                change.apply(catalog);
            }
            if let Some(undecided) = undecided {
                catalog.leave_undecided(undecided);
            }
        });
        // Not before the view is published: sessions ask it whether the kind still crosses.
        for OriginChange {
            zone,
            kind,
            name,
            at,
            ..
        } in lost
        {
            self.losses.tell(&zone, (kind, name), at.get());
        }
        if stirs {
            self.stirred.send_modify(|stirred| *stirred += 1);
        }
    }

    /// Notes what zones have here; returns what they had.
    fn take_origins(&self, changes: Vec<OriginChange>) -> Vec<OriginChange> {
        let mut lost = Vec::new();
        if changes.is_empty() {
            return lost;
        }
        let mut all = self.from_zones.write();
        for mut change in changes {
            let key = (change.zone.clone(), change.kind.clone());
            let of_kind = all.entry(key).or_default();
            match change.becomes.take() {
                Some(held) => {
                    of_kind.insert(change.name, held);
                }
                None => {
                    of_kind.remove(&change.name);
                    lost.push(change);
                }
            }
        }
        all.retain(|_, of_kind| !of_kind.is_empty());
        lost
    }

    async fn list(&self, collection: &str, at: Revision) -> Result<Vec<Arc<Object>>, ReadError> {
        let Ok(collection) = Collection::new(TENANT, collection) else {
            return Ok(Vec::new());
        };
        let page = self.store.list(&ListQuery::all(collection).at(at)).await?;
        Ok(page.items)
    }

    async fn event(&mut self, batch: &mut Batch, event: &Event) -> Result<(), ProjectorError> {
        let (object, there) = (event.object(), !event.is_delete());
        let key = event.key();
        match key.resource() {
            // Every zone that comes or goes has its status written. What is known is copied for
            // all to see, and wakes every session: only when it changed.
            ZONES => {
                batch.knows_more |= self.zone(object, there);
                batch.stirs = true;
            }
            KINDS => {
                let at = object.revision();
                self.synced_kind(batch, (object, there), at).await?;
            }
            DEFINITIONS => {
                self.computed(object, there);
                batch.knows_more = true;
                self.definition(batch, (object, there), object.revision());
            }
            NAMESPACES => {
                self.note_namespace(object, there);
                self.namespace(batch, (object, there), object.revision());
            }
            POLICIES | RELEASES | APPROVALS => self.policy(batch, (object, there)).await?,
            collection => {
                let at = object.revision();
                if there {
                    self.note_write(collection, object);
                }
                self.object(batch, collection, (object, there), at).await?;
            }
        }
        Ok(())
    }

    fn computed(&mut self, object: &Object, there: bool) {
        let Some((plural, group)) = object.key().name().split_once('.') else {
            return;
        };
        let key = (group.to_owned(), plural.to_owned());
        let value: Value = serde_json::from_slice(object.bytes()).unwrap_or_default();
        let fields = value["metadata"]["annotations"][COMPUTED_FIELDS].as_str();
        match fields.filter(|_| there) {
            Some(fields) => self.known.computed.insert(key, Computed::list(fields)),
            None => self.known.computed.remove(&key),
        };
    }

    /// A synced kind came, changed or went. What is decided anew is decided as of `at`, which is
    /// later than the kind's own last change when everything is read again.
    async fn synced_kind(
        &mut self,
        batch: &mut Batch,
        (object, there): (&Arc<Object>, bool),
        at: Revision,
    ) -> Result<(), ProjectorError> {
        batch.knows_more = true;
        self.known.synced_at = at.get();
        let name = object.key().name().to_owned();
        let value: Value = serde_json::from_slice(object.bytes()).unwrap_or_default();
        let parsed = there.then(|| SyncedKind::of(&value)).transpose();
        let parsed = match parsed {
            Ok(parsed) => parsed,
            Err(error) => {
                self.unreadable(batch, &name, &error);
                return Ok(());
            }
        };
        if self.known.unreadable.remove(&name) {
            batch.undecided = Some(!self.known.unreadable.is_empty());
        }
        match parsed {
            Some(kind) => {
                batch.put(&synced_kinds(), &value, at, place::everyone);
                let collection = kind.collection();
                let definition = kind.definition();
                batch.declare(kind.kind.clone(), definition);
                let plural = (kind.spec.group.clone(), kind.plural.clone());
                self.known.synced.insert(plural, kind.clone());
                let before = self.synced.insert(collection.clone(), kind.clone());
                if before.is_none() {
                    batch.crossing_again.insert(kind.kind.clone());
                }
                if before.is_none_or(|before| before.withdrawal() != kind.withdrawal()) {
                    self.governing.lock().tell_again(&kind.kind);
                }
                self.project(batch, &collection, at).await?;
                self.definition_of(batch, &name, at).await?;
            }
            None => {
                if let Ok(name) = ObjectName::new("", &name) {
                    batch.remove(&synced_kinds(), &name, at);
                }
                let mut synced = self.synced.iter();
                let gone = synced.find(|(_, kind)| kind.name() == name);
                if let Some(collection) = gone.map(|(collection, _)| collection.clone()) {
                    self.drop_kind(batch, &collection, at).await?;
                    self.definition_of(batch, &name, at).await?;
                }
            }
        }
        Ok(())
    }

    /// A synced kind cannot be read: what was said of it before goes on. If that is not known, nothing
    /// is decided about kinds that nobody says anything of.
    fn unreadable(&mut self, batch: &mut Batch, name: &str, error: &KindError) {
        let error = error as &dyn std::error::Error;
        tracing::warn!(
            synced_kind = name,
            error,
            "a synced kind cannot be read; it is left as it was"
        );
        self.known.unreadable.insert(name.to_owned());
        let mut synced = self.synced.values();
        if let Some(synced) = synced.find(|synced| synced.name() == name) {
            let plural = (synced.spec.group.clone(), synced.plural.clone());
            self.known.synced.insert(plural, synced.clone());
        }
        batch.undecided = Some(true);
    }

    /// Decides anew about all objects of a kind.
    async fn project(
        &mut self,
        batch: &mut Batch,
        collection: &str,
        at: Revision,
    ) -> Result<(), ProjectorError> {
        let objects = self.list(collection, at).await?;
        let kind = self.synced[collection].kind.clone();
        let mut gone: BTreeSet<ObjectName> = self.entries(&kind);
        let is_loading = self.governing.lock().loading;
        for object in &objects {
            // It may have been written right before an earlier process ended.
            if is_loading {
                self.note_write(collection, object);
            }
            if let Some(name) = place::name(object.key()) {
                gone.remove(&name);
            }
            match collection {
                NAMESPACES => self.namespace(batch, (object, true), at),
                DEFINITIONS => self.definition(batch, (object, true), at),
                _ => self.object(batch, collection, (object, true), at).await?,
            }
        }
        for name in gone {
            let was = batch.is_wanted(&kind, &name);
            if self.is_kept((kind.clone(), name.clone()), None, at) {
                continue;
            }
            match batch.outlived(&kind, &name) {
                // Somebody may still have to be told.
                Outlived::Withdrawn => continue,
                Outlived::Governed(entry) => {
                    let id = (kind.clone(), name.clone());
                    self.governing.lock().withdraw(&id, Some(entry.withdrawal));
                    batch.withdraw((&kind, &name), at, &entry);
                }
                Outlived::Other => batch.remove(&kind, &name, at),
            }
            if self.count(name.namespace(), was, false) {
                self.namespace_of(batch, name.namespace(), at).await?;
            }
        }
        Ok(())
    }

    fn entries(&self, kind: &SyncKind) -> BTreeSet<ObjectName> {
        let catalog = self.catalog.read();
        catalog
            .entries(kind)
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// A kind does not cross any more.
    async fn drop_kind(
        &mut self,
        batch: &mut Batch,
        collection: &str,
        at: Revision,
    ) -> Result<(), ProjectorError> {
        let Some(gone) = self.synced.remove(collection) else {
            return Ok(());
        };
        let plural = (gone.spec.group.clone(), gone.plural.clone());
        self.known.synced.remove(&plural);
        if matches!(collection, NAMESPACES | DEFINITIONS) {
            // They go on to go where something needs them, and are nobody's to delete.
            batch.retire(gone.kind.clone(), Withdrawal::Orphan);
            for object in self.list(collection, at).await? {
                match collection {
                    NAMESPACES => self.namespace(batch, (&object, true), at),
                    _ => self.definition(batch, (&object, true), at),
                }
            }
            return Ok(());
        }
        batch.retire(gone.kind.clone(), gone.withdrawal());
        self.tell_what_stays(&gone);
        let withdrawal = gone.withdrawal();
        self.governing
            .lock()
            .forget_kind(&gone.kind, withdrawal, at.get());
        let mut names = self.entries(&gone.kind);
        names.extend(batch.names(&gone.kind).cloned());
        for name in names {
            let was_wanted = batch.is_wanted(&gone.kind, &name);
            batch.remove(&gone.kind, &name, at);
            if self.count(name.namespace(), was_wanted, false) {
                self.namespace_of(batch, name.namespace(), at).await?;
            }
        }
        Ok(())
    }

    /// What zones sent of a kind that does not cross any more belongs to nobody who would take it
    /// away.
    fn tell_what_stays(&self, gone: &SyncedKind) {
        let from_zones = self.from_zones.read();
        let of_kind = from_zones
            .iter()
            .filter(|((_, kind), _)| *kind == gone.kind);
        let objects: usize = of_kind.map(|(_, objects)| objects.len()).sum();
        if objects > 0 {
            let hint = format!("kubectl delete {} -A -l {ORIGIN}=zone", gone.name());
            tracing::warn!(
                kind = gone.name(),
                objects,
                hint,
                "a kind does not cross any more; what came from zones stays until somebody deletes it"
            );
        }
    }

    /// An object of a kind that may cross, decided about as of `at`.
    async fn object(
        &mut self,
        batch: &mut Batch,
        collection: &str,
        (object, there): (&Object, bool),
        at: Revision,
    ) -> Result<(), ProjectorError> {
        let Some(synced) = self.synced.get(collection) else {
            return Ok(());
        };
        let Some(name) = place::name(object.key()) else {
            return Ok(());
        };
        let kind = synced.kind.clone();
        let was = batch.is_wanted(&kind, &name);
        match there {
            true => {
                let value: Value = serde_json::from_slice(object.bytes()).unwrap_or_default();
                // The SyncedKind has the plural of another kind: of its own nothing is here.
                if !synced.is_kind_of(&value) {
                    return Ok(());
                }
                let audience = place::audience(synced, &value);
                if kind == graphs() {
                    batch.set_graph(&name, &value);
                }
                if self.is_governed(batch, (&kind, &name), &value, &audience, at) {
                    batch.stirs = true;
                    return Ok(());
                }
                // A definition that does not compile here does not leave the hub, whoever wrote it.
                let is_sent = matches!(audience, Audience::Everyone | Audience::EveryoneBut(_));
                let audience = match is_sent && not_accepted(&value).is_some() {
                    true => Audience::Undecided,
                    false => audience,
                };
                batch.put(&kind, &value, at, |_| audience);
            }
            false if self.is_kept((kind.clone(), name.clone()), Some(object), at) => {
                batch.stirs = true;
                return Ok(());
            }
            false => {
                if kind == graphs() {
                    batch.forget_graph(&name);
                }
                batch.remove(&kind, &name, at);
            }
        }
        let is = batch.is_wanted(&kind, &name);
        let namespace = name.namespace();
        if self.count(namespace, was, is) {
            self.namespace_of(batch, namespace, at).await?;
        }
        Ok(())
    }

    /// Keeps count of what is wanted in a namespace. Whether that changes who needs it.
    fn count(&mut self, namespace: &str, was: bool, is: bool) -> bool {
        if namespace.is_empty() || was == is {
            return false;
        }
        let used = self.used.entry(namespace.to_owned()).or_default();
        let before = *used;
        *used = match is {
            true => before + 1,
            false => before.saturating_sub(1),
        };
        let used = *used;
        if used == 0 {
            self.used.remove(namespace);
        }
        (before == 0) != (used == 0)
    }

    /// Decides anew about a namespace, as it is now.
    async fn namespace_of(
        &mut self,
        batch: &mut Batch,
        namespace: &str,
        at: Revision,
    ) -> Result<(), ProjectorError> {
        let key = Collection::new(TENANT, NAMESPACES)?.key("", namespace)?;
        match self.store.get_at(&key, at).await? {
            Some(object) => self.namespace(batch, (&object, true), at),
            None => forget(batch, &namespaces(), &key, at),
        }
        Ok(())
    }

    /// Decides anew about a definition, as it is now.
    async fn definition_of(
        &mut self,
        batch: &mut Batch,
        name: &str,
        at: Revision,
    ) -> Result<(), ProjectorError> {
        let key = Collection::new(TENANT, DEFINITIONS)?.key("", name)?;
        match self.store.get_at(&key, at).await? {
            Some(object) => self.definition(batch, (&object, true), at),
            None => forget(batch, &definitions(), &key, at),
        }
        Ok(())
    }

    async fn load_namespaces(&self, at: Revision) -> Result<(), ProjectorError> {
        let namespaces = self.list(NAMESPACES, at).await?;
        *self.made_namespaces.write() = MadeNamespaces::default();
        for object in namespaces {
            self.note_namespace(&object, true);
        }
        Ok(())
    }

    fn note_namespace(&self, object: &Object, there: bool) {
        let value: Value = serde_json::from_slice(object.bytes()).unwrap_or_default();
        let mut made = self.made_namespaces.write();
        made.set(object.key().name(), there.then_some(&value));
    }

    /// A namespace goes where something goes that is in it.
    fn namespace(&self, batch: &mut Batch, (object, there): (&Object, bool), at: Revision) {
        let name = object.key().name();
        let is_used = self.used.get(name).is_some_and(|used| *used > 0);
        let needed = is_used && !is_everywhere(name);
        let needed = there.then_some(needed);
        self.implied(batch, &namespaces(), (object, needed), at);
    }

    /// A definition goes where its kind goes.
    fn definition(&self, batch: &mut Batch, (object, there): (&Object, bool), at: Revision) {
        let name = object.key().name();
        let goes = |kind: &SyncedKind| {
            let definition = kind.definition();
            definition.is_some_and(|definition| definition.name() == name)
        };
        let needed = self.synced.values().any(goes) && !name.ends_with(&format!(".{GROUP}"));
        let needed = there.then_some(needed);
        self.implied(batch, &definitions(), (object, needed), at);
    }

    /// Something that others need. Where nobody needs it any more it stays: others may use it by
    /// now. The same when it is deleted, unless somebody said that its kind crosses.
    fn implied(
        &self,
        batch: &mut Batch,
        kind: &SyncKind,
        (object, needed): (&Object, Option<bool>),
        at: Revision,
    ) {
        let collection = object.key().resource();
        let explicit = self.synced.get(collection);
        let value: Value = serde_json::from_slice(object.bytes()).unwrap_or_default();
        match (needed, explicit) {
            (Some(true), explicit) => {
                let audience = |value: &Value| place::audience_of_needed(explicit, value);
                batch.put(kind, &value, at, audience);
            }
            (Some(false), Some(synced)) => {
                batch.put(kind, &value, at, |value| place::audience(synced, value));
            }
            // Without a synced kind the catalog takes what it does not have for withdrawn.
            (None, Some(_)) | (Some(false) | None, None) => {
                forget(batch, kind, object.key(), at);
            }
        }
    }
}

fn forget(batch: &mut Batch, kind: &SyncKind, key: &Key, at: Revision) {
    if let Some(name) = place::name(key) {
        batch.remove(kind, &name, at);
    }
}
