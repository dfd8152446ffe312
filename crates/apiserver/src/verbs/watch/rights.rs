//! Whether whoever watches still may.
//!
//! Rights are looked at again when some were withdrawn, and before anything more is sent then.
//! What is added cannot end a watch, so it costs nothing.

use std::sync::Arc;

use deltaplane_api::identity::{Identity, MASTERS};
use tokio::sync::watch;

use crate::auth;
use crate::auth::rbac::Action;
use crate::context::Cx;
use crate::filter::Filter;
use crate::request::ResourceRequest;
use crate::server::Inner;

/// The right by which a watch is open.
pub(super) struct Rights {
    server: Arc<Inner>,
    user: Identity,
    target: ResourceRequest,
    /// The one name that the field selector allows, if there is one.
    selected: String,
    withdrawn: watch::Receiver<u64>,
}

// === impl Rights ===

impl Rights {
    /// None for those who may do everything, for ever.
    pub(super) fn of(cx: &Cx, filter: &Filter) -> Option<Self> {
        if cx.user.is_in(MASTERS) {
            return None;
        }
        let mut rights = Self {
            server: Arc::clone(&cx.server),
            user: cx.user.clone(),
            target: cx.target.clone(),
            selected: filter.name().unwrap_or_default().to_owned(),
            withdrawn: cx.server.withdrawn.subscribe(),
        };
        // Some may have gone between the request's authorization and now.
        rights.withdrawn.mark_changed();
        Some(rights)
    }

    /// Whether the right is gone.
    pub(super) fn are_lost(&mut self) -> bool {
        // An error means that the server is gone, and with it all reason to go on.
        if !self.withdrawn.has_changed().unwrap_or(true) {
            return false;
        }
        self.withdrawn.mark_unchanged();
        let verb = self.target.verb.as_str();
        let action = auth::action_of(&self.target, verb, &self.selected);
        let rbac = self.server.rbac.read();
        !rbac.allows(&self.user, Action::Resource(action))
    }

    /// What says that some rights were withdrawn.
    pub(super) fn withdrawn(&self) -> watch::Receiver<u64> {
        self.withdrawn.clone()
    }
}
