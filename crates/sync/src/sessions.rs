//! Which connection of a zone counts.

use std::collections::BTreeMap;

use crate::names::ZoneName;

/// A connection of a zone; a newer one has a larger number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(u64);

/// The sessions of all zones. The newest of a zone wins: what an older one still says is not heard,
/// and when it ends nothing of the newer one is touched.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    last: u64,
    open: BTreeMap<ZoneName, SessionId>,
}

// === impl SessionId ===

impl SessionId {
    /// As it is on the wire.
    pub fn get(self) -> u64 {
        self.0
    }

    pub fn new(number: u64) -> Self {
        Self(number)
    }
}

// === impl Sessions ===

impl Sessions {
    /// Opens a session; the one that it replaces, if there is one, is to be closed.
    pub fn open(&mut self, zone: &ZoneName) -> (SessionId, Option<SessionId>) {
        self.last += 1;
        let session = SessionId(self.last);
        (session, self.open.insert(zone.clone(), session))
    }

    /// Whether what the session says counts.
    pub fn is_current(&self, zone: &ZoneName, session: SessionId) -> bool {
        self.open.get(zone) == Some(&session)
    }

    /// Ends a session. Whether the zone has none now.
    pub fn close(&mut self, zone: &ZoneName, session: SessionId) -> bool {
        let ends = self.is_current(zone, session);
        if ends {
            self.open.remove(zone);
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newer_session_wins() {
        let zone: ZoneName = "a".parse().expect("legal");
        let mut sessions = Sessions::default();
        let (first, none) = sessions.open(&zone);
        let (second, replaced) = sessions.open(&zone);
        assert_eq!((none, replaced), (None, Some(first)));
        assert!(!sessions.is_current(&zone, first));
        assert!(
            !sessions.close(&zone, first),
            "the older one ends without a trace"
        );
        assert!(sessions.is_current(&zone, second));
        assert!(sessions.close(&zone, second));
        let (third, _) = sessions.open(&zone);
        assert!(third > second);
    }
}
