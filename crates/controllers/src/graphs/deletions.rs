//! The deletion budget of a graph: what its versions delete of all instances, counted together.
//!
//! A pass asks before it deletes what it counts (`cause` says which that is); what is granted is
//! written into the status of the definition first (`ledger`), many requests in one write. What an
//! owner changed or deleted is not asked for.
//!
//! Invariants: nothing is granted that is not written; whoever starts reads what is written before
//! anything is granted; nothing is written while nothing changes.

pub(super) mod cause;
mod ledger;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_api::admission::{Point, approves_deletions};
use deltaplane_client::{ObjectKey, RequestError, request};
use deltaplane_graph::Graph;
use deltaplane_graph::observed::{ObjectId, Observed};
use deltaplane_graph::plan::{Plan, Prune, highest_wave};
use deltaplane_propagation::stages::BudgetSpec;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Notify, oneshot, watch};

use super::guard::Guard;
use super::metrics::Counted;
use super::runner::Serving;
use super::{api, definition};
use crate::Context;

use cause::{KnownPass, PassFindings, PendingDeletions, RecordedPass};
use ledger::{DeletionLedger, DeletionRequest, DeletionTerms, WantedDeletion};

/// The deletions of the instances of a graph. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Deletions(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// There is something to count, or to write.
    wake: Notify,
}

#[derive(Default)]
struct State {
    ledger: DeletionLedger,
    /// Versions that came, and how many children there were.
    opened: BTreeMap<String, u64>,
    /// Instances that are gone.
    forgotten: BTreeSet<String>,
    complete: bool,
    waiting: Vec<Waiting>,
    /// By the uid of the instance: what is pending of it. Where nothing is, its status says enough.
    known: BTreeMap<String, KnownPass>,
}

/// A request that nobody answered yet.
struct Waiting {
    request: DeletionRequest,
    /// The version in full.
    version: String,
    answer: oneshot::Sender<Result<ledger::DeletionAnswer, Uncounted>>,
}

/// Why deletions could not be counted.
#[derive(Clone, Debug)]
pub(super) enum Uncounted {
    /// The API said no.
    Refused(String),
    /// An answer did not come.
    Lost(String),
}

/// Who writes down what is counted.
pub(super) struct Writer {
    pub(super) context: Context,
    pub(super) serving: watch::Receiver<Serving>,
    pub(super) guard: Guard,
    pub(super) counted: Counted,
}

/// A pass that may delete something.
pub(super) struct PassCase<'a> {
    /// Of the instance.
    pub(super) uid: &'a str,
    pub(super) generation: i64,
    /// The last pass, and the version of its graph.
    pub(super) last: Option<&'a RecordedPass>,
    pub(super) last_version: Option<&'a str>,
    pub(super) graph: &'a Graph,
    pub(super) plan: &'a Plan,
    pub(super) observed: &'a Observed,
    /// How many objects go with the one of a uid.
    pub(super) weight: &'a (dyn Fn(&str) -> u64 + Sync),
}

/// What becomes of the objects that are unwanted.
#[derive(Debug, Default)]
pub(super) struct Judged {
    /// They are deleted now.
    pub(super) go: Vec<Prune>,
    pub(super) held: Option<HeldDeletions>,
    /// Those that are not counted, and why.
    pub(super) uncounted: Option<(Uncounted, Vec<ObjectId>)>,
}

/// Deletions that wait for approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeldDeletions {
    /// By their order.
    ids: Vec<ObjectId>,
    /// So many objects would go.
    weight: u64,
    version: String,
    allowed: u64,
    baseline: u64,
    budget: BudgetSpec,
}

/// A message lists no more objects.
const LISTED: usize = 10;

// === impl Deletions ===

impl Deletions {
    /// A version came. How many children there are is asked once.
    pub(super) fn open(&self, graph: &Graph, baseline: impl FnOnce() -> u64) {
        let version = graph.content_version().short();
        let mut state = self.0.state.lock();
        if state.ledger.has(version) || state.opened.contains_key(version) {
            return;
        }
        state.opened.insert(version.to_owned(), baseline());
        self.0.wake.notify_one();
    }

    /// The instance is gone, and nothing of it is held.
    pub(super) fn forget(&self, uid: &str) {
        let mut state = self.0.state.lock();
        state.known.remove(uid);
        if state.ledger.knows(uid) {
            state.forgotten.insert(uid.to_owned());
            self.0.wake.notify_one();
        }
    }

    /// All instances have been looked at.
    pub(super) fn complete(&self) {
        self.0.state.lock().complete = true;
        self.0.wake.notify_one();
    }

    /// Whether something of an instance was pending or asked for.
    pub(super) fn knows(&self, uid: &str) -> bool {
        let state = self.0.state.lock();
        state.known.contains_key(uid) || state.ledger.knows(uid)
    }

    /// Decides which of the objects that are unwanted are deleted now.
    pub(super) async fn judge(&self, case: PassCase<'_>) -> Judged {
        let pending = self.pending(&case);
        let (counted, free): (Vec<Prune>, Vec<Prune>) = {
            let all = case.plan.unwanted.iter().cloned();
            all.partition(|one| !one.deleting && !pending.is_by_owner(&one.id))
        };
        let asked = !counted.is_empty() || self.0.state.lock().ledger.knows(case.uid);
        let answer = match asked {
            true => self.ask(&case, &counted).await,
            false => Ok(ledger::DeletionAnswer::default()),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(why) => {
                let ids = counted.into_iter().map(|one| one.id).collect();
                return Judged {
                    go: highest_wave(free),
                    held: None,
                    uncounted: Some((why, ids)),
                };
            }
        };
        let held = counted.iter().filter(|one| answer.held.contains(&one.uid));
        let ids: Vec<ObjectId> = held.map(|one| one.id.clone()).collect();
        let held = (!ids.is_empty()).then(|| HeldDeletions {
            ids,
            weight: answer.held_weight,
            version: case.graph.content_version().short().to_owned(),
            allowed: answer.allowed,
            baseline: answer.baseline,
            budget: case.graph.deletion_budget(),
        });
        let granted = counted.into_iter();
        let granted = granted.filter(|one| answer.granted.contains(&one.uid));
        Judged {
            go: highest_wave(free.into_iter().chain(granted).collect()),
            held,
            uncounted: None,
        }
    }

    /// What is pending, which is kept.
    fn pending(&self, case: &PassCase<'_>) -> PendingDeletions {
        let objects = cause::children(case.observed);
        let version = case.graph.content_version().short();
        let Plan {
            unwanted,
            undecided,
            dropped,
            ..
        } = case.plan;
        let unwanted = unwanted.iter().map(|one| &one.id).chain(dropped);
        let mut state = self.0.state.lock();
        let recorded = || {
            let last = case.last?;
            let version = case.last_version.map(str::to_owned);
            Some(last.known(version, &objects))
        };
        let before = state.known.get(case.uid).cloned().or_else(recorded);
        let found = PassFindings {
            generation: case.generation,
            version,
            objects: &objects,
            unwanted: &unwanted.cloned().collect(),
            undecided,
        };
        let pending = cause::pending(before.as_ref(), &found);
        let known = KnownPass {
            generation: case.generation,
            version: Some(version.to_owned()),
            pending: pending.clone(),
        };
        state.known.insert(case.uid.to_owned(), known);
        pending
    }

    async fn ask(
        &self,
        case: &PassCase<'_>,
        counted: &[Prune],
    ) -> Result<ledger::DeletionAnswer, Uncounted> {
        let version = case.graph.content_version();
        let wants = counted.iter().map(|one| WantedDeletion {
            uid: one.uid.clone(),
            wave: one.wave,
            weight: (case.weight)(&one.uid),
        });
        let request = DeletionRequest {
            instance: case.uid.to_owned(),
            version: version.short().to_owned(),
            wants: wants.collect(),
        };
        let (answer, answered) = oneshot::channel();
        self.0.state.lock().waiting.push(Waiting {
            request,
            version: version.as_str().to_owned(),
            answer,
        });
        self.0.wake.notify_one();
        let ended = || Uncounted::Lost("the process ends".to_owned());
        answered.await.unwrap_or_else(|_| Err(ended()))
    }

    /// These were deleted. Returns what the instance says of those that are pending, if some are; its
    /// status is given.
    pub(super) fn conclude<'p>(
        &self,
        instance: &Value,
        at: Point,
        gone: impl Iterator<Item = &'p Prune>,
    ) -> Option<String> {
        let uid = instance["metadata"]["uid"].as_str().unwrap_or_default();
        let mut state = self.0.state.lock();
        let known = state.known.get(uid)?;
        // Their feed may show them for a moment yet: who caused that they go stays known until then.
        let mut pending = known.pending.clone();
        gone.for_each(|one| pending.remove(&one.id));
        if pending.is_empty() {
            // Until the status says so.
            if known.pending.is_empty() && !cause::is_recorded(instance) {
                state.known.remove(uid);
            }
            return None;
        }
        Some(pending.message(at, known.generation))
    }

    /// Counts what is asked for, and writes that down, for ever.
    pub(super) async fn run(self, writer: Writer) {
        let mut written = Written::Unread;
        let mut failures = 0;
        loop {
            self.0.wake.notified().await;
            while let Err(retry_after) = self.write(&writer, &mut written).await {
                failures += 1;
                writer.context.pace.rest(failures, retry_after).await;
            }
            failures = 0;
        }
    }

    /// Answers all that was asked so far. After how long to try again, if it was not written.
    async fn write(
        &self,
        writer: &Writer,
        written: &mut Written,
    ) -> Result<(), Option<std::time::Duration>> {
        let waiting = std::mem::take(&mut self.0.state.lock().waiting);
        match self.count(writer, written, &waiting).await {
            Ok(answers) => {
                for (one, answer) in waiting.into_iter().zip(answers) {
                    // Whoever asked may be gone.
                    let _ = one.answer.send(Ok(answer));
                }
                Ok(())
            }
            Err(failure) => {
                let (why, done) = match failure {
                    // Whoever comes next finds out whether that is still so.
                    CountError::Foreign(why) => (Uncounted::Refused(why), Ok(())),
                    CountError::Gone => {
                        let why = "the definition is gone".to_owned();
                        (Uncounted::Lost(why), Ok(()))
                    }
                    CountError::Request(error) => {
                        let done = Err(error.retry_after());
                        let said = error.to_string();
                        match error.refusal().is_some() {
                            true => (Uncounted::Refused(said), done),
                            false => (Uncounted::Lost(said), done),
                        }
                    }
                };
                for one in waiting {
                    let _ = one.answer.send(Err(why.clone()));
                }
                done
            }
        }
    }

    async fn count(
        &self,
        writer: &Writer,
        written: &mut Written,
        waiting: &[Waiting],
    ) -> Result<Vec<ledger::DeletionAnswer>, CountError> {
        let serving = writer.serving.borrow().clone();
        let definition = &serving.definition;
        if definition.uid.is_empty() {
            return Err(CountError::Gone);
        }
        if let Some(why) = writer.guard.foreign() {
            return Err(CountError::Foreign(why));
        }
        let context = &writer.context;
        if *written == Written::Unread {
            let path = api::definitions().object_path(&ObjectKey::cluster(&definition.name));
            let there: Value = request::get(&context.client, &path).await?;
            let there = there["status"]["deletions"].clone();
            let mut state = self.0.state.lock();
            state.ledger.resume(DeletionLedger::read(&there));
            *written = Written::Told(definition.uid.clone(), there);
        }
        let mut ledger = self.caught_up();
        let versions = serving.revisions.content_versions();
        if let Some(versions) = versions {
            let asked = |short: &str| waiting.iter().any(|one| one.request.version == short);
            ledger.retain(|short| versions.contains(short) || asked(short));
        }
        let budget = serving.deletion_budget();
        let before = ledger.all_deleted();
        let approved = serving.approved.as_deref().unwrap_or_default();
        let answers = waiting.iter().map(|one| {
            let short = &one.request.version;
            let approved = approves_deletions(approved, &one.version, short);
            ledger.grant(&one.request, DeletionTerms { budget, approved })
        });
        let answers = answers.collect();
        let told = ledger.told();
        let now = Written::Told(definition.uid.clone(), told.clone());
        if *written != now {
            let last = std::mem::replace(written, Written::Unknown);
            let is_empty = |told: &Value| told.as_array().is_none_or(Vec::is_empty);
            let was_empty = matches!(&last, Written::Told(_, last) if is_empty(last));
            if !(was_empty && is_empty(&told)) {
                let (name, uid) = (&definition.name, &definition.uid);
                definition::tell_deletions(context, name, uid, &told).await?;
            }
            *written = now;
        }
        let mut state = self.0.state.lock();
        let counted = ledger.all_deleted().saturating_sub(before);
        writer.counted.deletions(counted, ledger.all_held());
        state.ledger = ledger;
        Ok(answers)
    }

    /// What was counted, with what is known since.
    fn caught_up(&self) -> DeletionLedger {
        let mut state = self.0.state.lock();
        let opened = std::mem::take(&mut state.opened);
        let forgotten = std::mem::take(&mut state.forgotten);
        let ledger = &mut state.ledger;
        opened
            .iter()
            .for_each(|(version, baseline)| ledger.open(version, *baseline));
        forgotten.iter().for_each(|uid| ledger.forget(uid));
        if state.complete {
            state.ledger.complete();
        }
        state.ledger.clone()
    }
}

/// What is there of what is counted.
#[derive(Debug, PartialEq)]
enum Written {
    /// It was not read yet what an earlier process wrote.
    Unread,
    /// A write failed, or its answer was lost.
    Unknown,
    /// The uid of the definition, and what its status says.
    Told(String, Value),
}

/// Why nothing was counted.
enum CountError {
    /// The kind of definitions is not ours now.
    Foreign(String),
    Gone,
    Request(RequestError),
}

impl From<RequestError> for CountError {
    fn from(error: RequestError) -> Self {
        match error.is_not_found() || error.is_conflict() {
            true => Self::Gone,
            false => Self::Request(error),
        }
    }
}

// === impl HeldDeletions ===

impl HeldDeletions {
    /// What the instance says of it. Nothing of it changes when others delete something.
    pub(super) fn message(&self, definition: &str) -> String {
        let Self {
            ids,
            weight,
            version,
            allowed,
            baseline,
            budget,
        } = self;
        let listed: Vec<String> = ids.iter().take(LISTED).map(ToString::to_string).collect();
        let more = match ids.len().saturating_sub(LISTED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let counted = match *weight == ids.len() as u64 {
            true => String::new(),
            false => format!(" ({weight} objects with what they made)"),
        };
        let of = self::budget(*budget);
        let deletions = match ids.len() {
            1 => "1 deletion is held".to_owned(),
            count => format!("{count} deletions are held"),
        };
        format!(
            "{deletions}{counted}: {}{more}; version {version} may delete {allowed} objects without approval ({of} of {baseline} objects that there were); to approve: deltaplane rollout approve graph/{definition} --deletions",
            listed.join(", ")
        )
    }
}

/// `20, or 5 %`.
fn budget(BudgetSpec { max, percent }: BudgetSpec) -> String {
    match (max, percent) {
        (None, None) => "20, or 5 %".to_owned(),
        (Some(max), None) => format!("{max}, or 0 %"),
        (None, Some(percent)) => format!("{percent} %"),
        (Some(max), Some(percent)) => format!("{max}, or {percent} %"),
    }
}

#[cfg(test)]
mod tests;
