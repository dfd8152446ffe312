//! Zones that may not be connected any more, and those that are gone.
//!
//! What a zone authored stays at the hub when its object is deleted: a zone that is removed is
//! withdrawn, and nothing is deleted by accident. Whoever wants it gone deletes it, which is
//! allowed from then on; that it is there, and how, is said here and by `_origins`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_sync::{ZONE, ZoneName};

use crate::fleet::Fleet;
use crate::known::Known;
use crate::session::Session;

/// The zones that there are, with the uids of their objects.
type Uids = BTreeMap<ZoneName, String>;

// === impl Fleet ===

impl Fleet {
    /// Ends the sessions of zones that may not be connected any more, and forgets zones that are
    /// gone.
    pub(crate) async fn dismiss(&self) {
        let mut known = self.inner().known.clone();
        let mut before = Uids::new();
        loop {
            let now = uids(&known.borrow_and_update());
            let sessions = self.sessions();
            // Before they end: that they do is nothing to write down for a zone that is gone.
            self.forget(&before, &now);
            for session in sessions {
                let admitted = self.admit(&session.zone, &session.uid);
                // Both ends keep the budget, and the other one is told it when it connects.
                let budget_changed = self.budget(&session.zone) != session.budget;
                // The next session is judged by what was settled.
                let lost = session.sending.diverged();
                let settled = lost.is_some_and(|lost| self.is_settled(&session.zone, &lost));
                if admitted.is_err() || budget_changed || settled {
                    session.ended.stop();
                }
            }
            for zone in before.keys().filter(|zone| !now.contains_key(*zone)) {
                self.tell_what_it_left(zone);
            }
            before = now;
            if known.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    fn sessions(&self) -> Vec<Arc<Session>> {
        let zones = self.inner().zones.lock();
        zones.sessions.values().cloned().collect()
    }

    /// Keeps nothing of zones that are gone, nor of one in whose place another was made.
    fn forget(&self, before: &Uids, now: &Uids) {
        let renewed = before
            .iter()
            .filter(|(zone, uid)| now.get(*zone) != Some(*uid));
        let renewed: BTreeSet<&ZoneName> = renewed.map(|(zone, _)| zone).collect();
        let mut zones = self.inner().zones.lock();
        let stays = |zone: &ZoneName| now.contains_key(zone) && !renewed.contains(zone);
        zones.ledgers.retain(|zone, _| stays(zone));
        zones.usage.retain(|zone, _| stays(zone));
        self.readiness().retain(stays);
        // One that still takes must not meet another.
        zones
            .taking
            .retain(|zone, taking| stays(zone) || Arc::strong_count(taking) > 1);
        let is_gone = |session: &Session| now.get(&session.zone) != Some(&session.uid);
        let gone = zones.sessions.extract_if(.., |_, session| is_gone(session));
        let gone: Vec<Arc<Session>> = gone.map(|(_, session)| session).collect();
        for session in gone {
            zones.numbers.close(&session.zone, session.id);
        }
    }

    fn tell_what_it_left(&self, zone: &ZoneName) {
        let here = self.here(zone);
        let objects: u64 = here.values().sum();
        if objects == 0 {
            return;
        }
        let kinds: Vec<String> = here.keys().map(ToString::to_string).collect();
        let hint = format!("kubectl delete <kind> -A -l {ZONE}={zone}");
        tracing::warn!(
            %zone,
            objects,
            kinds = kinds.join(" "),
            hint,
            "a zone was deleted; what it authored stays until somebody deletes it"
        );
    }
}

fn uids(known: &Known) -> Uids {
    let zones = known.zones.iter();
    zones
        .map(|(name, zone)| (name.clone(), zone.uid.clone()))
        .collect()
}
