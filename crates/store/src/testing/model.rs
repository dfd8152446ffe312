//! A model of a store, and a runner that does the same to both and compares.
//!
//! The model keeps every transaction in a list and answers each question by
//! going through it: slow and obviously right. Steps are plain data, so that
//! any test can generate them.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::{
    driver::BoxFuture,
    event::Event,
    header::Header,
    key::{Collection, Key, Scope},
    list::{ListQuery, Page, ReadError},
    object::{Draft, Object},
    revision::Revision,
    store::Store,
    txn::{CommitError, Expect, Op, Txn},
    watch::{Watch, WatchError},
};

/// How a driver's store is made for a test.
pub trait Harness {
    /// A store on empty storage.
    fn open(&mut self) -> Store;

    /// Closes a store and opens it again on the same storage.
    fn reopen(&mut self, store: Store) -> BoxFuture<'_, Store>;
}

/// One thing to do. Names are numbers into a small universe; a revision is
/// given by how far back it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Commits a transaction.
    Commit {
        /// The guards.
        guards: Vec<(Name, Guard)>,
        /// The operations.
        writes: Vec<(Name, Write)>,
    },
    /// Reads one object, now or then.
    Get {
        /// Which.
        name: Name,
        /// When.
        back: Option<u64>,
    },
    /// Lists a collection, page by page to its end.
    List {
        /// Any object of the collection.
        name: Name,
        /// Whether only that object's namespace is listed.
        namespaced: bool,
        /// The size of a page.
        limit: usize,
        /// When; pages after the first are at the first one's revision.
        back: Option<u64>,
        /// Only objects with this label.
        label: Option<u8>,
    },
    /// Starts a watch.
    Watch {
        /// Any object of the scope.
        name: Name,
        /// How many parts of its key the scope fixes, 0 to 4.
        parts: u8,
        /// From when.
        back: u64,
    },
    /// Takes events from a watch.
    Drain {
        /// Which one, modulo their number.
        watch: usize,
        /// How many at once.
        max: usize,
    },
    /// Drops history.
    Compact {
        /// Up to when.
        back: u64,
    },
    /// Closes and opens the store.
    Reopen,
}

/// An object of the small universe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// Tenant and collection.
    pub collection: u8,
    /// Namespace.
    pub namespace: u8,
    /// Name.
    pub name: u8,
}

/// What a guard asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// That there is none.
    Absent,
    /// That there is one.
    Present,
    /// That there is one that is not to go.
    Alive,
    /// That it is the version that there is.
    Current,
    /// That it is another version.
    Other,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Puts content with this label.
    Put(u8),
    /// Deletes with final content.
    Delete(u8),
    /// Deletes as it is.
    DeleteAsIs,
}

/// Everything that can be seen of one version.
#[derive(Clone, PartialEq, Eq)]
pub struct Seen {
    key: Key,
    revision: Revision,
    created: Revision,
    tag: u64,
    body: String,
}

/// Everything that can be seen of one change.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Changed {
    object: Seen,
    previous: Option<Seen>,
    deleted: bool,
}

/// All that ever happened.
#[derive(Clone, Debug, Default)]
pub struct Model {
    log: Vec<Changed>,
    revision: Revision,
    compacted: Revision,
}

/// Does steps to a store and to the model.
pub struct Runner<H> {
    harness: H,
    store: Store,
    model: Model,
    watches: Vec<Watching>,
}

struct Watching {
    watch: Watch,
    scope: Scope,
    /// What was taken from the watch, as a revision.
    seen: Revision,
}

/// A watch that returns nothing for this long hangs.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

// === impl Name ===

impl Name {
    /// The collection.
    #[must_use]
    pub fn collection(self) -> Collection {
        let (tenant, resource) = match self.collection % 4 {
            0 => ("a", "maps"),
            1 => ("a", "apps/sets"),
            2 => ("a", "map"),
            _ => ("b", "maps"),
        };
        Collection::new(tenant, resource).expect("the universe is legal")
    }

    /// The key.
    #[must_use]
    pub fn key(self) -> Key {
        let namespace = ["", "x", "xy"][usize::from(self.namespace % 3)];
        let name = ["a", "b", "ab", "b-1"][usize::from(self.name % 4)];
        let key = self.collection().key(namespace, name);
        key.expect("the universe is legal")
    }

    fn scope(self, parts: u8) -> Scope {
        let key = self.key();
        let scope = match parts % 5 {
            0 => Ok(Scope::everything()),
            1 => Scope::tenant(key.tenant()),
            2 => Ok(Scope::collection(&self.collection())),
            3 => Scope::namespace(&self.collection(), key.namespace()),
            _ => Ok(Scope::object(&key)),
        };
        scope.expect("the universe is legal")
    }
}

/// Content with a label and a place for its revision.
#[must_use]
pub fn draft(label: u8) -> Draft {
    let head = format!(r#"{{"metadata":{{"labels":{{"n":"{label}"}},"resourceVersion":""#);
    let at = u32::try_from(head.len()).expect("it is short");
    Draft::stamped(format!("{head}\"}}}}"), at).tagged(u64::from(label) + 100)
}

fn labelled(object: &Object, label: u8) -> bool {
    object.header().labels().get("n") == Some(&label.to_string())
}

// === impl Seen ===

impl Seen {
    /// What can be seen of an object.
    #[must_use]
    pub fn of(object: &Object) -> Self {
        assert_eq!(
            object.header(),
            &Header::parse(object.bytes()),
            "the header is not the body's"
        );
        Self {
            key: object.key().clone(),
            revision: object.revision(),
            created: object.created(),
            tag: object.tag(),
            body: String::from_utf8_lossy(object.bytes()).into_owned(),
        }
    }

    fn put(key: Key, revision: Revision, created: Revision, draft: &Draft) -> Self {
        Self {
            key,
            revision,
            created,
            tag: draft.tag,
            body: String::from_utf8_lossy(&draft.stamp(revision)).into_owned(),
        }
    }
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            revision,
            created,
            tag,
            body,
        } = self;
        write!(
            f,
            "{key:?}@{revision} (created {created}, tag {tag}) {body}"
        )
    }
}

impl Changed {
    fn of(event: &Event) -> Self {
        Self {
            object: Seen::of(event.object()),
            previous: event.previous().map(|previous| Seen::of(previous)),
            deleted: event.is_delete(),
        }
    }
}

// === impl Model ===

impl Model {
    /// The state at a revision.
    fn state(&self, at: Revision) -> BTreeMap<Key, Seen> {
        let mut state = BTreeMap::new();
        for change in self
            .log
            .iter()
            .filter(|change| change.object.revision <= at)
        {
            let key = change.object.key.clone();
            if change.deleted {
                state.remove(&key);
            } else {
                state.insert(key, change.object.clone());
            }
        }
        state
    }

    fn current(&self, key: &Key) -> Option<Seen> {
        self.state(self.revision).remove(key)
    }

    /// The changes of a scope after a revision.
    fn changes(&self, scope: &Scope, after: Revision) -> Vec<Changed> {
        let wanted = |change: &&Changed| {
            change.object.revision > after && scope.contains(&change.object.key)
        };
        self.log.iter().filter(wanted).cloned().collect()
    }

    fn back(&self, back: u64) -> Revision {
        Revision::new(self.revision.get().saturating_sub(back))
    }

    fn readable(&self, at: Revision) -> Result<(), ReadError> {
        if at < self.compacted {
            let (requested, oldest) = (at, self.compacted);
            return Err(ReadError::Compacted { requested, oldest });
        }
        Ok(())
    }

    /// Applies a transaction at the next revision, as a store must.
    ///
    /// # Errors
    ///
    /// What the store has to answer.
    pub fn commit(&mut self, txn: &Txn) -> Result<(Revision, Vec<Seen>), Refusal> {
        let state = self.state(self.revision);
        for (key, expect) in &txn.guards {
            let current = state.get(key);
            let holds = match expect {
                Expect::Absent => current.is_none(),
                Expect::Present => current.is_some(),
                Expect::Alive => {
                    let deleting = |seen: &Seen| Header::parse(seen.body.as_bytes()).deleting();
                    current.is_some_and(|seen| !deleting(seen))
                }
                Expect::At(revision) => current.is_some_and(|seen| seen.revision == *revision),
            };
            if !holds {
                return Err(Refusal::Conflict(key.clone(), current.cloned()));
            }
        }
        let revision = self.revision.next();
        let mut changes = Vec::new();
        for op in &txn.ops {
            changes.push(change(&state, revision, op)?);
        }
        self.revision = revision;
        let seen = changes.iter().map(|change: &Changed| change.object.clone());
        let answer = (revision, seen.collect());
        self.log.extend(changes);
        Ok(answer)
    }
}

/// Why the model refuses a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A guard failed; what is there.
    Conflict(Key, Option<Seen>),
    /// A deletion of nothing.
    Missing(Key),
}

fn change(state: &BTreeMap<Key, Seen>, revision: Revision, op: &Op) -> Result<Changed, Refusal> {
    let previous = state.get(op.key()).cloned();
    let created = previous.as_ref().map_or(revision, |seen| seen.created);
    match (op, &previous) {
        (Op::Put(key, draft), _) => Ok(Changed {
            object: Seen::put(key.clone(), revision, created, draft),
            previous,
            deleted: false,
        }),
        (Op::Delete(key, None), None) | (Op::Delete(key, Some(_)), None) => {
            Err(Refusal::Missing(key.clone()))
        }
        (Op::Delete(key, Some(draft)), Some(_)) => Ok(Changed {
            object: Seen::put(key.clone(), revision, created, draft),
            previous,
            deleted: true,
        }),
        (Op::Delete(_, None), Some(last)) => Ok(Changed {
            object: Seen {
                revision,
                ..last.clone()
            },
            previous,
            deleted: true,
        }),
    }
}

// === impl Runner ===

impl<H: Harness> Runner<H> {
    /// A runner on an empty store.
    pub fn new(mut harness: H) -> Self {
        let store = harness.open();
        Self {
            harness,
            store,
            model: Model::default(),
            watches: Vec::new(),
        }
    }

    /// Does all steps, then takes what is left from all watches.
    ///
    /// # Panics
    ///
    /// Where the store and the model differ.
    pub async fn run(mut self, steps: &[Step]) {
        for step in steps {
            self.step(step).await;
            assert_eq!(self.store.revision(), self.model.revision);
            assert_eq!(self.store.oldest(), self.model.compacted);
        }
        for index in 0..self.watches.len() {
            self.drain(index, 3).await;
        }
    }

    async fn step(&mut self, step: &Step) {
        match step {
            Step::Commit { guards, writes } => self.commit(guards, writes).await,
            Step::Get { name, back } => self.get(*name, *back).await,
            Step::List {
                name,
                namespaced,
                limit,
                back,
                label,
            } => {
                let mut query = ListQuery::all(name.collection()).limit((*limit).max(1));
                query.at = back.map(|back| self.model.back(back));
                if *namespaced {
                    query = query.in_namespace(name.key().namespace());
                }
                self.list(query, *label).await;
            }
            Step::Watch { name, parts, back } => self.watch(name.scope(*parts), *back),
            Step::Drain { watch, max } => {
                if let Some(index) = watch.checked_rem(self.watches.len()) {
                    self.drain(index, *max).await;
                }
            }
            Step::Compact { back } => self.compact(self.model.back(*back)).await,
            Step::Reopen => self.reopen().await,
        }
    }

    async fn commit(&mut self, guards: &[(Name, Guard)], writes: &[(Name, Write)]) {
        let txn = self.txn(guards, writes);
        let expected = self.model.commit(&txn);
        let answer = match self.store.commit(txn).await {
            Ok(done) => {
                let seen = done.objects.iter().map(|object| Seen::of(object));
                Ok((done.revision, seen.collect()))
            }
            Err(CommitError::Conflict { key, current, .. }) => Err(Refusal::Conflict(
                key,
                current.map(|object| Seen::of(&object)),
            )),
            Err(CommitError::Missing { key }) => Err(Refusal::Missing(key)),
            Err(error) => panic!("the commit failed: {error}"),
        };
        assert_eq!(answer, expected);
    }

    fn txn(&self, guards: &[(Name, Guard)], writes: &[(Name, Write)]) -> Txn {
        let expect = |key: &Key, guard: Guard| {
            let current = self.model.current(key).map(|seen| seen.revision);
            match guard {
                Guard::Absent => Expect::Absent,
                Guard::Present => Expect::Present,
                Guard::Alive => Expect::Alive,
                Guard::Current => Expect::At(current.unwrap_or(self.model.revision)),
                Guard::Other => Expect::At(current.unwrap_or(Revision::ZERO).next()),
            }
        };
        let mut txn = Txn::default();
        for (name, guard) in guards {
            let key = name.key();
            txn.guards.push((key.clone(), expect(&key, *guard)));
        }
        for (name, write) in writes {
            let taken = |op: &Op| op.key().collection() == name.collection();
            if txn.ops.iter().any(taken) {
                continue;
            }
            txn.ops.push(match write {
                Write::Put(label) => Op::Put(name.key(), draft(*label)),
                Write::Delete(label) => Op::Delete(name.key(), Some(draft(*label))),
                Write::DeleteAsIs => Op::Delete(name.key(), None),
            });
        }
        txn
    }

    async fn get(&self, name: Name, back: Option<u64>) {
        let key = name.key();
        let Some(back) = back else {
            let found = self.store.get(&key).map(|object| Seen::of(&object));
            assert_eq!(found, self.model.current(&key));
            return;
        };
        let at = self.model.back(back);
        let found = self.store.get_at(&key, at).await;
        let found = found.map(|object| object.map(|object| Seen::of(&object)));
        let expected = self.model.readable(at);
        let expected = expected.map(|()| self.model.state(at).remove(&key));
        assert_eq!(found, expected);
    }

    /// Goes through all pages and compares the whole.
    async fn list(&self, mut query: ListQuery, label: Option<u8>) {
        let at = query.at.unwrap_or(self.model.revision);
        if let Err(expected) = self.model.readable(at) {
            assert_eq!(self.page(&query, label).await, Err(expected));
            return;
        }
        let wanted: Vec<Seen> = self.model.state(at).into_values().collect();
        let wanted: Vec<Seen> = wanted
            .into_iter()
            .filter(|seen| query.collection.contains(&seen.key))
            .filter(|seen| {
                query
                    .namespace
                    .as_deref()
                    .is_none_or(|ns| seen.key.namespace() == ns)
            })
            .filter(|seen| label.is_none_or(|n| seen.body.contains(&format!("\"n\":\"{n}\""))))
            .collect();
        let mut found = Vec::new();
        loop {
            let page = self.page(&query, label).await.expect("it can be read");
            assert_eq!(page.revision, at);
            assert!(page.items.len() <= query.limit);
            found.extend(page.items.iter().map(|object| Seen::of(object)));
            assert_eq!(page.more, found.len() < wanted.len());
            if at == self.model.revision && label.is_none() && query.at.is_none() {
                let left = wanted.len().saturating_sub(found.len()) as u64;
                assert_eq!(page.remaining, Some(left));
            }
            match page.items.last().filter(|_| page.more) {
                Some(last) => query.after = Some(last.key().clone()),
                None => break,
            }
            query.at = Some(at);
        }
        assert_eq!(found, wanted);
    }

    async fn page(&self, query: &ListQuery, label: Option<u8>) -> Result<Page, ReadError> {
        match label {
            None => self.store.list(query).await,
            Some(label) => {
                let wanted = move |object: &Object| labelled(object, label);
                self.store.list_where(query, &wanted).await
            }
        }
    }

    fn watch(&mut self, scope: Scope, back: u64) {
        let from = self.model.back(back);
        match self.store.watch(scope.clone(), from) {
            Ok(watch) => {
                assert!(from >= self.model.compacted);
                self.watches.push(Watching {
                    watch,
                    scope,
                    seen: from,
                });
            }
            Err(error) => {
                assert!(from < self.model.compacted);
                let oldest = self.model.compacted;
                assert_eq!(
                    error,
                    WatchError::Resync {
                        after: from,
                        oldest
                    }
                );
            }
        }
    }

    /// Takes everything from a watch, `max` at a time.
    async fn drain(&mut self, index: usize, max: usize) {
        let watching = &mut self.watches[index];
        loop {
            let expected = self.model.changes(&watching.scope, watching.seen);
            let progress = watching.watch.progress();
            assert!(progress >= watching.seen);
            let missed = expected
                .iter()
                .any(|change| change.object.revision <= progress);
            assert!(
                !missed,
                "the watch claims progress {progress} past {expected:?}"
            );
            if expected.is_empty() {
                break;
            }
            let next = tokio::time::timeout(PATIENCE, watching.watch.next_batch(max)).await;
            match next.expect("the watch hangs") {
                Ok(batch) => {
                    let events: Vec<_> = batch
                        .events
                        .iter()
                        .map(|event| Changed::of(event))
                        .collect();
                    assert!(!events.is_empty());
                    assert_eq!(events, expected[..events.len()]);
                    assert_whole(&events, &expected);
                    watching.seen = batch.revision;
                    let last = events.last().map(|change| change.object.revision);
                    assert!(Some(batch.revision) >= last);
                }
                Err(error) => {
                    assert!(watching.seen < self.model.compacted, "{error}");
                    assert!(matches!(error, WatchError::Resync { .. }), "{error}");
                    let watch = self
                        .store
                        .watch(watching.scope.clone(), self.model.revision);
                    watching.watch = watch.expect("the newest revision can be watched");
                    watching.seen = self.model.revision;
                }
            }
        }
    }

    async fn compact(&mut self, to: Revision) {
        let oldest = self.store.compact(to).await;
        self.model.compacted = self.model.compacted.max(to);
        assert_eq!(oldest, Ok(self.model.compacted));
    }

    async fn reopen(&mut self) {
        for index in 0..self.watches.len() {
            self.drain(index, 100).await;
        }
        let epoch = self.store.epoch();
        let store = self.store.clone();
        self.store = self.harness.reopen(store).await;
        assert_eq!(self.store.epoch(), epoch);
        for watching in &mut self.watches {
            let ended = tokio::time::timeout(PATIENCE, watching.watch.next_batch(1)).await;
            let ended = ended.expect("the watch outlives its store");
            assert!(matches!(ended, Err(WatchError::Closed)), "{ended:?}");
            // Where it was, as a client would resume; or anew, if that is gone.
            let from = watching.seen.max(self.model.compacted);
            let watch = self.store.watch(watching.scope.clone(), from);
            watching.watch = watch.expect("a retained revision can be watched");
            watching.seen = from;
        }
    }
}

/// A batch does not end in the middle of a revision.
fn assert_whole(events: &[Changed], expected: &[Changed]) {
    let (Some(last), Some(next)) = (events.last(), expected.get(events.len())) else {
        return;
    };
    assert_ne!(
        last.object.revision, next.object.revision,
        "a revision was split"
    );
}
