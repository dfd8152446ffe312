//! The streams of a session: at most one of each kind is open.

use std::sync::Arc;

use super::Session;

/// A kind of stream that a session has once. A stream of questions is none of them: a newer one
/// replaces it, since the zone opens it again within a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SessionStream {
    HubToZone,
    ZoneToHub,
    Report,
}

/// The place of an open stream, given up when dropped.
pub struct StreamPlace {
    session: Arc<Session>,
    stream: SessionStream,
}

// === impl Session ===

impl Session {
    /// Takes the place of a stream. None if one of its kind is open.
    pub fn open_stream(self: &Arc<Self>, stream: SessionStream) -> Option<StreamPlace> {
        let is_free = self.streams.lock().insert(stream);
        is_free.then(|| StreamPlace {
            session: self.clone(),
            stream,
        })
    }
}

// === impl StreamPlace ===

impl StreamPlace {
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        self.session.streams.lock().remove(&self.stream);
    }
}
