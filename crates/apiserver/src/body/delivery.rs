//! The frames of one body on their way to its client.

use std::pin::Pin;
use std::task::{Context, Poll};

use deltaplane_runtime::TransitMonitor;
use deltaplane_runtime::transit::Taken;

use super::{BrokenOff, Pieces};
use crate::flow::AnswerShare;

/// Counts what is rendered for a client, and lets one frame be on its way at a time, so that there
/// is somebody who can end the answer until all of it is taken.
#[derive(Default)]
pub(super) struct Delivery {
    /// None if nothing is counted.
    share: Option<AnswerShare>,
    /// None if nobody follows, and frames do not wait for each other.
    transit: Option<TransitMonitor>,
    /// The frame that is on its way.
    under_way: Option<Taken>,
}

// === impl Delivery ===

impl Delivery {
    pub(super) fn new(share: Option<AnswerShare>, transit: Option<TransitMonitor>) -> Self {
        Self {
            share,
            transit,
            under_way: None,
        }
    }

    /// Ready when no frame is on its way.
    pub(super) fn poll_taken(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(taken) = &mut self.under_way else {
            return Poll::Ready(());
        };
        let polled = Pin::new(taken).poll(cx);
        if polled.is_ready() {
            self.under_way = None;
        }
        polled
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Counts what was rendered, unless it is counted already.
    pub(super) fn count(&self, pieces: &mut Pieces) -> Result<(), BrokenOff> {
        match &self.share {
            Some(share) => pieces.count(share),
            None => Ok(()),
        }
    }

    /// Counts a frame and follows it to its client.
    pub(super) fn hand_out(&mut self, frame: &mut Pieces) -> Result<(), BrokenOff> {
        self.count(frame)?;
        if let Some(monitor) = &self.transit {
            let (transit, taken) = monitor.hand_out();
            frame.follow(transit);
            self.under_way = Some(taken);
        }
        Ok(())
    }
}
