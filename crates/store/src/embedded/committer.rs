//! The one thread that writes.
//!
//! It takes everything that waits, decides it as one batch, makes the batch
//! durable with one sync, shows it, and answers. Compaction runs on the same
//! thread, a bounded step after each batch.
//!
//! Invariant: append, then show, then answer. Nothing that is not durable is
//! visible to anybody, and no revision is given out twice by one process, not
//! even that of a failed write.
//!
//! A batch that is appended to a file that was moved or deleted is not durable, and appears if the
//! file comes back. The committer looks where the file is before it appends, so that such a batch is
//! refused, and again before it shows the batch, unless it has just looked. A batch that is found to
//! be elsewhere only then has an unknown outcome.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    runtime::{self, Runtime},
    sync::{OwnedSemaphorePermit, mpsc, oneshot},
    time,
};

use super::{
    crowd::Crowd,
    engine::{Engine, Entry, Fault, Meta},
    lock::Lock,
    log,
    plan::{Plan, plan},
};
use crate::{
    driver::{CompactError, Replay},
    event::Event,
    health::Health,
    key::Scope,
    memory::Memory,
    metrics::Metrics,
    revision::{Revision, Row},
    txn::{CommitError, Committed, Prepared},
};

/// One batch is one sync. Past this many a batch gains little and delays its
/// first transaction.
const BATCH_TXNS: usize = 1024;
const BATCH_BYTES: usize = 16 << 20;
/// What an append may need on disk: pages that are rewritten, and room for
/// records that fill their pages badly.
const PROBE_BYTES: usize = 1 << 20;
const PROBE_FACTOR: usize = 4;
/// How many rows one step of a compaction drops: a few milliseconds of work.
const SWEEP_ROWS: usize = 1024;

pub(super) enum Request {
    Commit(Waiting),
    Compact(Revision, oneshot::Sender<Result<Revision, CompactError>>),
    /// A read found that the engine has to be recovered.
    Heal,
    Close,
}

/// A transaction, and who waits for it.
pub(super) struct Waiting {
    pub(super) txn: Prepared,
    pub(super) answer: oneshot::Sender<Result<Committed, CommitError>>,
    /// The transaction's share of the queue, given back with the answer.
    pub(super) permit: OwnedSemaphorePermit,
}

pub(super) struct Committer {
    memory: Arc<Memory>,
    engine: Arc<Engine>,
    meta: Meta,
    requests: mpsc::Receiver<Request>,
    /// The last batch.
    crowd: Crowd,
    /// What measures how long a batch waits for more; without it none does.
    timer: Option<Runtime>,
    /// The last revision that was given out.
    last: Revision,
    /// Rows that nobody can read any more and that are still in the log.
    garbage: VecDeque<Row>,
    /// Who waits for the end of the compaction that is under way.
    compacting: Vec<oneshot::Sender<Result<Revision, CompactError>>>,
    /// The last append failed: the disk is probed before the next one, because
    /// coming back from a failure costs far more than a probe.
    wary: bool,
    /// A batch whose append failed may be on disk and not in memory.
    behind: bool,
    /// Whoever waited for such a batch was told that its outcome is not known.
    outcome_unknown: bool,
    /// The file is not where it was opened.
    adrift: bool,
    /// When it was last looked at where the file is, and how often that is done.
    looked: Option<Instant>,
    look_every: Duration,
    /// Whether writes are taken, as everybody was told.
    well: bool,
    metrics: Metrics,
    /// Held until the database is closed.
    lock: Option<Lock>,
}

/// What the committer starts from.
pub(super) struct Start {
    pub(super) memory: Arc<Memory>,
    pub(super) engine: Arc<Engine>,
    pub(super) meta: Meta,
    pub(super) leftovers: Vec<Row>,
    pub(super) lock: Option<Lock>,
    pub(super) metrics: Metrics,
    pub(super) look_every: Duration,
}

/// What was taken from the queue at once.
#[derive(Default)]
struct Taken {
    waiting: Vec<Waiting>,
    bytes: usize,
    closing: bool,
}

impl Committer {
    pub(super) fn new(start: Start, requests: mpsc::Receiver<Request>) -> Self {
        Self {
            last: start.memory.revision(),
            memory: start.memory,
            engine: start.engine,
            meta: start.meta,
            requests,
            crowd: Crowd::default(),
            timer: None,
            garbage: start.leftovers.into(),
            compacting: Vec::new(),
            wary: false,
            behind: false,
            outcome_unknown: false,
            adrift: false,
            looked: None,
            look_every: start.look_every,
            well: true,
            metrics: start.metrics,
            lock: start.lock,
        }
    }

    /// Runs until the store is closed or all handles are gone.
    pub(super) fn run(mut self) {
        // Here, because it is to end on the thread that it began on.
        self.timer = runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .ok();
        if !self.engine.is_live() {
            self.heal();
        }
        loop {
            let taken = self.take();
            self.commit(taken.waiting);
            if taken.closing {
                break;
            }
            if !self.compacting.is_empty() {
                self.sweep();
            }
        }
        self.drain();
    }

    /// Waits for a request, unless a compaction is under way, and takes what
    /// else is there.
    fn take(&mut self) -> Taken {
        let mut taken = Taken::default();
        if self.compacting.is_empty() {
            match self.requests.blocking_recv() {
                Some(request) => self.sort(request, &mut taken),
                None => taken.closing = true,
            }
        }
        self.gather(&mut taken);
        while !taken.closing && taken.waiting.len() < BATCH_TXNS && taken.bytes < BATCH_BYTES {
            match self.requests.try_recv() {
                Ok(request) => self.sort(request, &mut taken),
                Err(mpsc::error::TryRecvError::Empty) => break,
                Err(mpsc::error::TryRecvError::Disconnected) => taken.closing = true,
            }
        }
        taken
    }

    /// Waits a little for more, unless something else is to be done.
    fn gather(&mut self, taken: &mut Taken) {
        let (Some(timer), Some((wanted, longest))) = (&self.timer, self.crowd.patience()) else {
            return;
        };
        if taken.waiting.is_empty() || taken.closing {
            return;
        }
        let requests = &mut self.requests;
        let mut bytes = taken.bytes;
        let mut came = Vec::new();
        timer.block_on(async {
            let all = async {
                while came.len() + 1 < wanted && bytes < BATCH_BYTES {
                    match requests.recv().await {
                        Some(Request::Commit(waiting)) => {
                            bytes += waiting.txn.len();
                            came.push(Request::Commit(waiting));
                        }
                        Some(other) => return came.push(other),
                        None => return,
                    }
                }
            };
            // Whether all have come or not, it goes on.
            let _ = time::timeout(longest, all).await;
        });
        for request in came {
            self.sort(request, taken);
        }
    }

    fn sort(&mut self, request: Request, taken: &mut Taken) {
        match request {
            Request::Commit(waiting) => {
                taken.bytes += waiting.txn.len();
                taken.waiting.push(waiting);
            }
            Request::Compact(to, answer) => self.begin_compaction(to, answer),
            Request::Heal => self.heal(),
            Request::Close => taken.closing = true,
        }
    }

    /// Takes no new requests, answers those that were accepted, and lets go.
    fn drain(&mut self) {
        self.requests.close();
        loop {
            let mut taken = Taken::default();
            while taken.waiting.len() < BATCH_TXNS {
                match self.requests.blocking_recv() {
                    Some(request) => self.sort(request, &mut taken),
                    None => break,
                }
            }
            if taken.waiting.is_empty() {
                break;
            }
            self.commit(taken.waiting);
        }
        for answer in self.compacting.drain(..) {
            // Whoever asked may be gone.
            let _ = answer.send(Err(CompactError::Closed));
        }
        self.engine.close();
        self.lock = None;
    }

    fn commit(&mut self, waiting: Vec<Waiting>) {
        if waiting.is_empty() {
            return;
        }
        self.crowd = Crowd {
            size: waiting.len(),
            took: Duration::ZERO,
        };
        let (mut txns, mut answers) = (Vec::new(), Vec::new());
        for Waiting {
            txn,
            answer,
            permit,
        } in waiting
        {
            txns.push(txn);
            answers.push((answer, permit));
        }
        let bytes = txns.iter().map(Prepared::len).sum();
        let decided = match self.ready(bytes) {
            Ok(()) => self.decide(txns),
            Err(fault) => {
                self.ill(&fault);
                self.refuse(&fault, txns)
            }
        };
        let failed = decided.iter().filter(|decided| by_storage(decided)).count();
        if failed > 0 {
            self.metrics.failed(failed);
        }
        for ((answer, _permit), decided) in answers.into_iter().zip(decided) {
            // Whoever asked may be gone; the transaction counts all the same.
            let _ = answer.send(decided);
        }
    }

    /// Answers transactions while no writes are taken: those that would not hold anyway are told
    /// why. Nothing of a batch happens, so each is judged by itself.
    fn refuse(&self, fault: &Fault, txns: Vec<Prepared>) -> Vec<Result<Committed, CommitError>> {
        if self.outcome_unknown {
            // What they would be judged by may be on disk alone.
            return refused(fault, txns.len());
        }
        let judge = |txn: Prepared| {
            let plan = plan(&self.memory, self.last, vec![txn]);
            let refusal = plan.answers.into_iter().find_map(Result::err);
            Err(refusal.unwrap_or_else(|| storage_error(fault)))
        };
        txns.into_iter().map(judge).collect()
    }

    /// Tries whether writes are taken, and tells everybody.
    fn heal(&mut self) {
        match self.ready(0) {
            Ok(()) => self.recovered(),
            Err(fault) => self.ill(&fault),
        }
    }

    /// Writes are not taken. The operator is told once.
    fn ill(&mut self, fault: &Fault) {
        let reason = fault.reason();
        if std::mem::replace(&mut self.well, false) {
            let (path, hint) = (self.engine.name(), fault.advice());
            tracing::error!(%path, %reason, hint, "the store takes no writes");
        }
        self.memory.set_health(Health::Failing { reason });
    }

    fn recovered(&mut self) {
        if !std::mem::replace(&mut self.well, true) {
            tracing::warn!(path = %self.engine.name(), "the store takes writes again");
            self.memory.set_health(Health::Well);
        }
    }

    /// Makes sure that the engine accepts writes and that memory shows what is
    /// on disk.
    fn ready(&mut self, bytes: usize) -> Result<(), Fault> {
        if !self.is_in_place(Instant::now()) {
            return Err(Fault::adrift());
        }
        if self.engine.is_tainted() {
            // For those who read; whether it writes is looked at below.
            let _ = self.recover();
        }
        if self.wary {
            self.engine.probe(PROBE_BYTES + PROBE_FACTOR * bytes)?;
        }
        // Asked first, because it does not wait for readers of the log.
        if !self.engine.is_live() {
            self.wary = true;
            self.engine.release().or_else(|_| self.recover())?;
        }
        self.catch_up()
    }

    fn decide(&mut self, txns: Vec<Prepared>) -> Vec<Result<Committed, CommitError>> {
        let Plan { entries, answers } = plan(&self.memory, self.last, txns);
        let Some(end) = entries.last().map(|entry| entry.event.object().row()) else {
            return answers;
        };
        self.last = end.revision();
        let begun = Instant::now();
        let appended = self.engine.append(&entries);
        let ended = Instant::now();
        match appended {
            Ok(()) if !self.is_in_place(ended) => self.lost(answers.len()),
            Ok(()) => {
                self.crowd.took = ended.duration_since(begun);
                self.metrics.committed(self.crowd.took);
                self.wary = false;
                self.recovered();
                self.show(entries);
                answers
            }
            Err(fault) => self.failed(&fault, end, answers),
        }
    }

    fn is_in_place(&mut self, now: Instant) -> bool {
        let just = |looked: Instant| now.duration_since(looked) < self.look_every;
        if !self.adrift && self.looked.is_some_and(just) {
            return true;
        }
        self.looked = Some(now);
        self.adrift = !self.engine.in_place();
        !self.adrift
    }

    /// A batch went into a file that was moved or deleted after the committer had looked. It is
    /// there if the file comes back.
    fn lost(&mut self, count: usize) -> Vec<Result<Committed, CommitError>> {
        let fault = Fault::adrift();
        self.behind = true;
        self.outcome_unknown = true;
        self.ill(&fault);
        unknown(&fault, count)
    }

    fn show(&self, entries: Vec<Entry>) {
        let events: Vec<Arc<Event>> = entries.into_iter().map(|entry| entry.event).collect();
        self.memory.apply(&events);
    }

    /// Finds out whether a batch whose append failed is on disk, and answers.
    fn failed(
        &mut self,
        fault: &Fault,
        end: Row,
        answers: Vec<Result<Committed, CommitError>>,
    ) -> Vec<Result<Committed, CommitError>> {
        self.ill(fault);
        self.wary = true;
        self.behind = true;
        // Another file that has taken its place does not say what the one that was moved holds.
        let was_in_place = self.engine.in_place();
        let recovered = self.recover();
        match self.engine.contains(end) {
            Ok(false) if was_in_place => refused(fault, answers.len()),
            Ok(true) if recovered.is_ok() && self.catch_up().is_ok() => {
                self.recovered();
                answers
            }
            Ok(_) | Err(_) => {
                self.outcome_unknown = true;
                unknown(fault, answers.len())
            }
        }
    }

    fn recover(&self) -> Result<(), Fault> {
        let (epoch, revision) = (self.meta.epoch, self.memory.revision());
        self.engine
            .recover(|database| log::verify(database, epoch, revision))
    }

    /// Shows what is durable and not in memory: a batch whose append failed
    /// and that is there all the same.
    fn catch_up(&mut self) -> Result<(), Fault> {
        while self.behind {
            let (memory, header) = (&self.memory, self.memory.header());
            let request = Replay {
                scope: Scope::everything(),
                after: memory.revision(),
                until: Revision::MAX,
                max: BATCH_TXNS,
            };
            let replayed = self.engine.read(|db| log::replay(db, header, &request))?;
            let replayed = replayed.map_err(|error| Fault::new(error.to_string()))?;
            self.behind = !replayed.events.is_empty();
            memory.apply(&replayed.events);
        }
        self.outcome_unknown = false;
        Ok(())
    }

    fn begin_compaction(
        &mut self,
        to: Revision,
        answer: oneshot::Sender<Result<Revision, CompactError>>,
    ) {
        let newest = self.memory.revision();
        if to > newest {
            let requested = to;
            let _ = answer.send(Err(CompactError::Future { requested, newest }));
            return;
        }
        // Unreadable before anything is dropped.
        self.memory.set_compacted(to);
        self.compacting.push(answer);
    }

    /// One step of the compaction that is under way.
    fn sweep(&mut self) {
        if self.garbage.len() < SWEEP_ROWS {
            self.garbage.extend(self.memory.sweep(SWEEP_ROWS));
        }
        let rows: Vec<Row> = self.garbage.iter().take(SWEEP_ROWS).copied().collect();
        let meta = Meta {
            epoch: self.meta.epoch,
            compacted: self.memory.compacted(),
        };
        let done = match self.ready(0) {
            Ok(()) => self.remove(&rows, meta),
            Err(fault) => Err(fault),
        };
        match done {
            Ok(()) => {
                self.garbage.drain(..rows.len());
                if rows.len() < SWEEP_ROWS {
                    self.finish_compaction(&Ok(meta.compacted));
                }
            }
            Err(fault) => {
                self.ill(&fault);
                let reason = fault.reason();
                self.finish_compaction(&Err(CompactError::Storage { reason }));
            }
        }
    }

    fn remove(&mut self, rows: &[Row], meta: Meta) -> Result<(), Fault> {
        if rows.is_empty() && meta == self.meta {
            return Ok(());
        }
        match self.engine.remove(rows, &meta) {
            Ok(()) => {
                self.meta = meta;
                Ok(())
            }
            Err(fault) => {
                self.wary = true;
                // If it fails, the next one who needs it tries again.
                let _ = self.recover();
                Err(fault)
            }
        }
    }

    fn finish_compaction(&mut self, result: &Result<Revision, CompactError>) {
        for answer in self.compacting.drain(..) {
            let _ = answer.send(result.clone());
        }
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        // Also when the thread panics: nobody waits for events forever.
        self.memory.close();
    }
}

/// Whether it was the storage that refused.
fn by_storage(decided: &Result<Committed, CommitError>) -> bool {
    match decided {
        Err(CommitError::Storage { .. } | CommitError::Unknown { .. }) => true,
        Ok(_)
        | Err(
            CommitError::Conflict { .. }
            | CommitError::Missing { .. }
            | CommitError::Invalid(_)
            | CommitError::Closed,
        ) => false,
    }
}

fn refused(fault: &Fault, count: usize) -> Vec<Result<Committed, CommitError>> {
    vec![Err(storage_error(fault)); count]
}

fn storage_error(fault: &Fault) -> CommitError {
    CommitError::Storage {
        reason: fault.reason(),
    }
}

fn unknown(fault: &Fault, count: usize) -> Vec<Result<Committed, CommitError>> {
    let error = CommitError::Unknown {
        reason: fault.reason(),
    };
    vec![Err(error); count]
}
