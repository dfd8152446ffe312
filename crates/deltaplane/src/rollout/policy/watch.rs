//! The rollout of a policy as it goes, until it is everywhere.

use std::time::{Duration, SystemTime};

use deltaplane_client::Query;
use deltaplane_propagation::Timestamp;
use futures::StreamExt;

use super::super::RolloutError;
use super::super::shown::Listed;
use super::super::watch::{AGAIN, Screen, feed};
use super::ask::{Policies, resource};
use super::told::{Fate, State, Told};
use super::{ask, shown};
use crate::said::Said;

/// When nobody watches any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) timeout: Option<Duration>,
    /// Also when too many zones failed.
    pub(crate) on_failure: bool,
    /// The release that is watched; the newest when watching begins if none is named.
    pub(crate) release: Option<u64>,
}

/// What came of it.
enum Ended {
    Complete,
    Failed(Box<Told>),
    /// What was watched, by which release.
    RolledBack {
        release: u64,
        by: u64,
        told: Box<Told>,
    },
    /// Whoever read it went away.
    Unread,
}

/// Time does not pass exactly the same here and at the hub.
const SLACK: Duration = Duration::from_millis(200);

/// Shows it until it is complete.
pub(crate) async fn run(policy: &Policies<'_>, ends: Ends) -> Result<Said, RolloutError> {
    let deadline = async {
        match ends.timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    let bad = |err: String| Said {
        out: String::new(),
        err,
        good: false,
    };
    tokio::select! {
        ended = follow(policy, ends) => Ok(match ended? {
            Ended::Complete => Said { good: true, ..Said::default() },
            Ended::Failed(told) => bad(format!("{}\n{}", told.message, policy.hint(&told))),
            Ended::RolledBack { release, by, told } => {
                let why = ask::rolled_back(release, by);
                bad(format!("{why}\n{}\n{}", told.message, policy.hint(&told)))
            }
            Ended::Unread => Said::default(),
        }),
        () = deadline => {
            let command = policy.command("why");
            Ok(bad(format!("not complete in time\nhint: {command} says what it waits for\n")))
        }
    }
}

async fn follow(policy: &Policies<'_>, ends: Ends) -> Result<Ended, RolloutError> {
    let mut watched = None;
    let screen = Screen::here();
    let field = format!("metadata.name={}", policy.name);
    let mut changes = feed(&policy.client, Query::all(resource()).with_fields(&field));
    let mut last: Option<Told> = None;
    loop {
        let mut told = match (policy.told().await, &last) {
            // The hub answered before, and may be back soon.
            (Err(error), Some(_)) if error.is_passing() => {
                tokio::time::sleep(AGAIN).await;
                continue;
            }
            (told, _) => told?,
        };
        let next = told.next.clone();
        // When it was asked is no news.
        told.as_of.clear();
        if last.as_ref() != Some(&told) {
            let lines = shown::changes(last.as_ref(), &told);
            let drawn = screen.show(&shown::screen(&told, Listed::Screen), &lines);
            if drawn.is_err() {
                return Ok(Ended::Unread);
            }
        }
        watched = watched.or(told.watched(ends.release)?);
        match watched.map(|release| (release, told.fate(release))) {
            Some((_, Fate::Complete)) => return Ok(Ended::Complete),
            Some((release, Fate::RolledBack(by))) if ends.on_failure || told.is_over() => {
                let told = Box::new(told);
                return Ok(Ended::RolledBack { release, by, told });
            }
            Some((_, Fate::Open | Fate::RolledBack(_))) | None => {}
        }
        if ends.on_failure && told.state() == State::Stopped {
            return Ok(Ended::Failed(Box::new(told)));
        }
        last = Some(told);
        tokio::select! {
            // A feed never ends.
            _ = changes.next() => {}
            () = until(next.as_deref()) => {}
        }
    }
}

/// Until time alone may have changed something.
async fn until(next: Option<&str>) {
    let next = next.and_then(Timestamp::parse).map(Timestamp::to_system);
    match next.map(|next| next.duration_since(SystemTime::now())) {
        Some(left) => tokio::time::sleep(left.unwrap_or_default() + SLACK).await,
        None => std::future::pending().await,
    }
}
