//! What zones say of what they send, and what people at the hub answer to that.
//!
//! What the hub should have of a zone only the zone knows; so the zone says how it stands, and the
//! hub shows it. Deletions that the zone holds back (its store was lost, say) are approved here.

use std::collections::BTreeMap;
use std::sync::Arc;

use deltaplane_sync::{Revision, SyncKind, Uploaded, ZoneName};
use futures::{Stream, stream};

use crate::fleet::Fleet;
use crate::session::Session;

// === impl Fleet ===

impl Fleet {
    /// A zone said that it is there and, if that changed, how it stands with what it sends.
    pub fn reported(&self, session: &Session, uploaded: Option<Uploaded>) {
        self.heard(session);
        if let Some(uploaded) = uploaded {
            let now = self.inner().clock.now();
            *session.uploaded.lock() = Some((now, uploaded));
        }
    }

    /// What people let go from now on of that which the zone holds back: up to which revisions of
    /// the zone's store. They approve what they were shown, which is what the zone said last.
    pub fn approvals(&self, session: &Arc<Session>) -> impl Stream<Item = Revision> + use<> {
        let known = self.inner().known.clone();
        let before = self.approved(&session.zone);
        let start = (self.clone(), session.clone(), known, before);
        stream::unfold(start, |(fleet, session, mut known, before)| async move {
            let mut before = before;
            loop {
                known.changed().await.ok()?;
                let approved = fleet.approved(&session.zone);
                if approved <= before {
                    continue;
                }
                before = approved;
                let revision = {
                    let uploaded = session.uploaded.lock();
                    uploaded.as_ref().map(|(_, uploaded)| uploaded.revision)
                };
                if let Some(revision) = revision {
                    return Some((revision, (fleet, session, known, before)));
                }
            }
        })
    }

    /// How many objects of each kind came from a zone and are here.
    pub(crate) fn here(&self, zone: &ZoneName) -> BTreeMap<SyncKind, u64> {
        let all = self.inner().from_zones.read();
        let of_zone = all.iter().filter(|((from, _), _)| from == zone);
        of_zone
            .map(|((_, kind), objects)| (kind.clone(), objects.len() as u64))
            .collect()
    }
}
