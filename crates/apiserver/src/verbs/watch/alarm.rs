//! What a watch waits for besides events.

use std::time::SystemTime;

use deltaplane_runtime::{Clock, Stop};

use super::rights::Rights;
use crate::seams::BoxFuture;

/// When something is due, events or not.
pub(super) struct Times {
    pub(super) clock: Clock,
    pub(super) deadline: SystemTime,
    /// None if the client wants no bookmarks.
    pub(super) bookmark_at: Option<SystemTime>,
}

/// What ends a watch from outside: the server drains, the kind is not served like this any more,
/// or whoever watches may not any more.
pub(super) struct Ends {
    pub(super) stop: Stop,
    pub(super) retired: Option<Stop>,
    /// None for those who may do everything.
    pub(super) rights: Option<Rights>,
}

/// What a watch waits for besides events.
pub(super) enum Alarm {
    /// A bookmark is due, or the end.
    Time,
    /// One of its [`Ends`].
    End,
    /// Rights were withdrawn, perhaps these.
    Rights,
}

// === impl Times ===

impl Times {
    /// Ends when the next thing is due, or when the watch must end.
    pub(super) fn alarm(&self, ends: &Ends) -> BoxFuture<'static, Alarm> {
        let (clock, stop, retired) = (self.clock.clone(), ends.stop.clone(), ends.retired.clone());
        let at = self
            .bookmark_at
            .map_or(self.deadline, |at| at.min(self.deadline));
        let over = async move {
            match retired {
                Some(retired) => retired.wait().await,
                None => std::future::pending().await,
            }
        };
        let withdrawn = ends.rights.as_ref().map(Rights::withdrawn);
        let withdrawal = async move {
            match withdrawn {
                // An error means that the server is gone.
                Some(mut withdrawn) => drop(withdrawn.changed().await),
                None => std::future::pending().await,
            }
        };
        Box::pin(async move {
            tokio::select! {
                biased;
                () = stop.wait() => Alarm::End,
                () = over => Alarm::End,
                () = withdrawal => Alarm::Rights,
                () = clock.sleep_until(at) => Alarm::Time,
            }
        })
    }
}
