//! How many watches and long polls there may be, in all and for one user.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use deltaplane_api::identity::MASTERS;

use crate::context::Cx;
use crate::error::Error;
use crate::server::Inner;

/// One of the watches or long polls that are allowed at once.
pub(crate) struct Slot {
    server: Arc<Inner>,
    /// Nobody for administrators, who need no share.
    user: Option<Arc<str>>,
}

// === impl Slot ===

impl Slot {
    pub(crate) fn take(cx: &Cx) -> Result<Self, Error> {
        let is_shared = !cx.user.is_in(MASTERS);
        let user = is_shared.then(|| Arc::from(cx.user.name.as_str()));
        let begins = |user| cx.server.flow.watch_begins(user);
        if !user.as_ref().is_none_or(begins) {
            return Err(Error::too_many_requests(
                "too many watches are open, please try again later",
            ));
        }
        let total = cx.server.watches.fetch_add(1, Ordering::Relaxed) + 1;
        cx.server
            .metrics
            .watches
            .set(i64::try_from(total).unwrap_or(i64::MAX));
        Ok(Self {
            server: Arc::clone(&cx.server),
            user,
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let before = self.server.watches.fetch_sub(1, Ordering::Relaxed);
        self.server
            .metrics
            .watches
            .set(i64::try_from(before.saturating_sub(1)).unwrap_or(0));
        if let Some(user) = &self.user {
            self.server.flow.watch_ends(user);
        }
    }
}
