//! How far a rollout is: counted, each instance judged, and the whole in a word. Pure.

use deltaplane_api::admission::{Admission, DELETIONS_HELD, Stage, has_failed};
use deltaplane_api::conditions::of_instance;
use deltaplane_api::time::Time;
use serde_json::{Value, json};

use super::deletions::VersionDeletions;
use super::seen::{self, Hold, Seen};

/// How far it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Overview {
    pub(super) definition: String,
    /// `WebApp (kro.run/v1alpha1)`.
    pub(super) kind: String,
    pub(super) target: Option<i64>,
    pub(super) state: State,
    pub(super) paused: bool,
    /// What is wrong with the definition itself.
    pub(super) problem: Option<String>,
    pub(super) counts: Counts,
    /// By their keys.
    pub(super) rows: Vec<Row>,
    pub(super) blocked: Vec<Blocked>,
    /// When time alone may change it.
    pub(super) look_again: Option<String>,
    /// What versions deleted, and hold.
    pub(super) deletions: Vec<VersionDeletions>,
}

/// The whole, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Every instance is ready at the target.
    Complete,
    /// Some are on their way.
    Moving,
    /// None is on its way, and not all are there.
    Stopped,
    /// All but those that their owners hold are there.
    Held,
    /// The author stopped it.
    Paused,
}

/// How many instances stand how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) total: u64,
    pub(super) current: u64,
    pub(super) updating: u64,
    pub(super) failed: u64,
    pub(super) starting: u64,
    pub(super) pending: u64,
    pub(super) held: u64,
}

/// An instance.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) key: String,
    pub(super) admission: Option<Admission>,
    pub(super) standing: Standing,
    pub(super) ready: bool,
    /// Empty if there is nothing to say.
    pub(super) why: String,
}

/// How an instance stands towards the target. In the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    Failed,
    Updating,
    Starting,
    Pending,
    Held,
    Deleting,
    Current,
}

/// One that a gate keeps back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Blocked {
    pub(super) instance: String,
    pub(super) reason: String,
    pub(super) message: String,
}

// === impl Overview ===

impl Overview {
    pub(crate) fn of(seen: &Seen, now: Time) -> Self {
        let told = &seen.definition["status"]["propagation"];
        let target = seen.target();
        // What is told of another revision, or of a gate that is gone, is not true any more.
        let gated = !seen.gate().is_empty();
        let told = Some(told).filter(|told| gated && told["revision"].as_i64() == target);
        let blocked: Vec<Blocked> = told.map_or_else(Vec::new, Blocked::all);
        let paused = seen.is_paused();
        let rows: Vec<Row> = seen
            .instances
            .iter()
            .map(|instance| Row::of(instance, seen, &blocked, now))
            .collect();
        let counted = Counts::of(&rows);
        // Nor what was told before an instance came or went.
        let counts = told
            .map(Counts::read)
            .filter(|told| told.total == counted.total)
            .unwrap_or(counted);
        let (kind, version) = seen.kind();
        let problem = problem(&seen.definition);
        let state = match (counts.state(), counted.state()) {
            _ if seen::is_undecided(&seen.definition) || target.is_none() => State::Moving,
            // What was in force before goes on, until its author stops it.
            (_, State::Moving | State::Stopped) if problem.is_some() && paused => State::Paused,
            (_, State::Moving) if problem.is_some() => State::Moving,
            _ if problem.is_some() => State::Stopped,
            (State::Complete | State::Held, settled @ (State::Complete | State::Held)) => settled,
            _ if paused => State::Paused,
            // Either may be told a moment later than the other.
            (_, State::Complete | State::Held) => State::Moving,
            (_, state) => state,
        };
        Self {
            definition: seen.name().to_owned(),
            kind: format!("{kind} ({version})"),
            target,
            state,
            paused,
            problem,
            counts,
            rows,
            blocked,
            deletions: VersionDeletions::all(&seen.definition),
            look_again: told.and_then(|told| told["lookAgainAt"].as_str().map(str::to_owned)),
        }
    }

    /// Whether deletions wait for approval.
    pub(super) fn holds_deletions(&self) -> bool {
        self.deletions.iter().any(|one| one.held > 0)
    }

    /// Whether nothing is left to wait for.
    pub(super) fn is_over(&self) -> bool {
        match self.state {
            State::Complete | State::Held => true,
            State::Moving | State::Stopped | State::Paused => false,
        }
    }

    /// `moving: 1 of 3 at revision 2`.
    pub(super) fn headline(&self) -> String {
        let word = self.state.word();
        let Some(target) = self.target else {
            return format!("{word}: it has no revision yet");
        };
        let Counts { total, current, .. } = self.counts;
        match (self.state, total) {
            (State::Complete, 0) => format!("{word}: revision {target} has no instances"),
            (State::Complete, 1) => format!("{word}: its instance is at revision {target}"),
            (State::Complete, _) => format!("{word}: all {total} are at revision {target}"),
            (State::Moving | State::Stopped | State::Held | State::Paused, _) => {
                format!("{word}: {current} of {total} at revision {target}")
            }
        }
    }

    /// All that is known.
    pub(super) fn json(&self) -> Value {
        let rows = self.rows.iter().map(Row::json);
        let blocked = self.blocked.iter().map(
            |one| json!({"instance": one.instance, "reason": one.reason, "message": one.message}),
        );
        let mut json = json!({
            "definition": self.definition,
            "revision": self.target,
            "state": self.state.word(),
            "paused": self.paused,
            "counts": self.counts.json(),
            "blocked": blocked.collect::<Vec<_>>(),
            "lookAgainAt": self.look_again,
            "deletions": self.deletions.iter().map(VersionDeletions::json).collect::<Vec<_>>(),
            "instances": rows.collect::<Vec<_>>(),
        });
        if let Some(problem) = &self.problem {
            json["problem"] = problem.as_str().into();
        }
        json
    }
}

/// What keeps a definition from being in force.
pub(super) fn problem(definition: &Value) -> Option<String> {
    let ready = seen::ready(definition)?;
    (ready.status == "False").then(|| match ready.message.as_str() {
        "" => ready.reason.clone(),
        message => message.to_owned(),
    })
}

// === impl State ===

impl State {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Moving => "moving",
            Self::Stopped => "stopped",
            Self::Held => "held",
            Self::Paused => "paused",
        }
    }
}

// === impl Counts ===

impl Counts {
    /// As the definition's status has them.
    fn read(told: &Value) -> Self {
        let of = |name: &str| told[name].as_u64().unwrap_or(0);
        Self {
            total: of("instances"),
            current: of("current"),
            updating: of("updating"),
            failed: of("failed"),
            starting: of("starting"),
            pending: of("pending"),
            held: of("held"),
        }
    }

    fn of(rows: &[Row]) -> Self {
        let mut counts = Self::default();
        for row in rows {
            let place = match row.standing {
                Standing::Deleting => continue,
                Standing::Failed => &mut counts.failed,
                Standing::Updating => &mut counts.updating,
                Standing::Starting => &mut counts.starting,
                Standing::Pending => &mut counts.pending,
                Standing::Held => &mut counts.held,
                Standing::Current => &mut counts.current,
            };
            *place += 1;
            counts.total += 1;
        }
        counts
    }

    fn state(self) -> State {
        match self {
            _ if self.current == self.total => State::Complete,
            _ if self.current + self.held == self.total => State::Held,
            _ if self.updating + self.starting > 0 => State::Moving,
            _ => State::Stopped,
        }
    }

    /// Those that are not nought, with their words.
    pub(super) fn words(self) -> Vec<(u64, &'static str)> {
        let all = [
            (self.current, "current"),
            (self.updating, "updating"),
            (self.failed, "failed"),
            (self.starting, "starting"),
            (self.pending, "pending"),
            (self.held, "held"),
        ];
        all.into_iter().filter(|(count, _)| *count > 0).collect()
    }

    fn json(self) -> Value {
        json!({
            "instances": self.total, "current": self.current, "updating": self.updating,
            "failed": self.failed, "starting": self.starting, "pending": self.pending,
            "held": self.held,
        })
    }
}

// === impl Row ===

impl Row {
    fn of(instance: &Value, seen: &Seen, blocked: &[Blocked], now: Time) -> Self {
        let key = seen::key(instance).to_string();
        let condition = seen::ready(instance);
        let ready = seen::is_looked_at(instance)
            && condition.as_ref().is_some_and(|one| one.status == "True");
        let admission = Admission::read(instance);
        let hold = Hold::read(instance, now);
        let standing = standing(instance, seen, ready, hold);
        let said = condition.map(|condition| condition.message);
        let said = said.unwrap_or_default();
        let why = match (standing, hold) {
            (Standing::Current | Standing::Deleting, _) => String::new(),
            (Standing::Failed | Standing::Updating | Standing::Starting, _) => match ready {
                true => held_deletions(instance).unwrap_or_default().to_owned(),
                false => said,
            },
            (Standing::Held, Hold::Until(until)) => format!("until {until}"),
            (Standing::Held, Hold::Free | Hold::Held) => "until it is released".to_owned(),
            (Standing::Pending, _) => {
                let blocked = blocked.iter().find(|one| one.instance == key);
                match blocked {
                    Some(blocked) => gate(&blocked.message),
                    None if seen.is_paused() => "the rollout is paused".to_owned(),
                    None => String::new(),
                }
            }
        };
        Self {
            key,
            admission,
            standing,
            ready,
            why,
        }
    }

    /// Whether it is on its way, or failed on it.
    pub(super) fn is_under_way(&self) -> bool {
        match self.standing {
            Standing::Failed | Standing::Updating | Standing::Starting => true,
            Standing::Pending | Standing::Held | Standing::Deleting | Standing::Current => false,
        }
    }

    fn json(&self) -> Value {
        json!({
            "instance": self.key,
            "revision": self.admission.map(|one| one.at.number),
            "admission": self.admission.map(|one| one.stage.to_string()),
            "state": self.standing.word(),
            "ready": self.ready,
            "why": self.why,
        })
    }
}

/// What an instance says of deletions that are held, if some are.
fn held_deletions(instance: &Value) -> Option<&str> {
    let condition = of_instance(instance, "ResourcesPropagated")?;
    let held = condition["status"] == "False" && condition["reason"] == DELETIONS_HELD;
    held.then(|| seen::text(&condition["message"]))
}

fn standing(instance: &Value, seen: &Seen, ready: bool, hold: Hold) -> Standing {
    if seen::is_deleting(instance) {
        return Standing::Deleting;
    }
    let gated = !seen.gate().is_empty();
    let first = |number: i64| seen.first_alike(number);
    let at_target = |admission: Admission| {
        let at = seen.revision_of(admission).map(|one| first(one.number));
        at.is_some() && at == seen.target().map(first)
    };
    let failed = has_failed(instance);
    let under_way = match failed {
        true => Standing::Failed,
        false => Standing::Updating,
    };
    match Admission::read(instance) {
        None => Standing::Starting,
        Some(admission) if at_target(admission) => match admission.stage {
            // Behind a gate it is written down when it arrived; what says ready before that may
            // have been so at the revision that it comes from.
            Stage::Admitted if !ready || gated => under_way,
            Stage::Started if !ready && failed => Standing::Failed,
            Stage::Started if !ready && gated => Standing::Starting,
            // Without a gate whoever moves starts anew.
            Stage::Started if !ready => under_way,
            Stage::Arrived if !ready => under_way,
            _ if held_deletions(instance).is_some() => under_way,
            Stage::Started | Stage::Admitted | Stage::Arrived => Standing::Current,
        },
        // It is still on its way to what was the target before.
        Some(admission) if admission.stage == Stage::Admitted && !ready && hold == Hold::Free => {
            under_way
        }
        Some(_) => match hold {
            Hold::Free => Standing::Pending,
            Hold::Until(_) | Hold::Held => Standing::Held,
        },
    }
}

// === impl Standing ===

impl Standing {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Updating => "updating",
            Self::Starting => "starting",
            Self::Pending => "pending",
            Self::Held => "held",
            Self::Deleting => "deleting",
            Self::Current => "current",
        }
    }
}

// === impl Blocked ===

impl Blocked {
    fn all(told: &Value) -> Vec<Self> {
        let all = told["blocked"].as_array().into_iter().flatten();
        all.map(|one| Self {
            instance: seen::text(&one["instance"]).to_owned(),
            reason: seen::text(&one["reason"]).to_owned(),
            message: seen::text(&one["message"]).to_owned(),
        })
        .collect()
    }
}

/// A gate as its definition tells of it: one that cannot be evaluated has failed.
fn gate(message: &str) -> String {
    match message.strip_prefix("error: ") {
        Some(why) => format!("gate failed: {why}"),
        None => format!("the gate is {message}"),
    }
}
