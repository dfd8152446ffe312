//! Keeps what Secrets hold out of reasons: an API or an expression may quote what it refuses.
//!
//! Both ends redact, the one that finds a reason and the one that hears it, since either may be of
//! an older version.

use crate::names::SyncKind;
use crate::ownership::{AUTHORED_HERE, CHANGED_HERE};
use crate::readiness::FareState;

/// Shown instead of an API's message about a Secret.
const REFUSED: &str = "the Secret was refused; the message is not shown, since it may quote the content: apply the Secret there by hand to see it";

/// Returns true if the content of objects of a kind is told to nobody.
pub fn is_secret(kind: &SyncKind) -> bool {
    (kind.group(), kind.kind()) == ("", "Secret")
}

/// Why an object was rejected, as it may be told.
#[must_use]
pub fn redact_rejection(kind: &SyncKind, reason: String) -> String {
    if !is_secret(kind) {
        return reason;
    }
    let ours = [AUTHORED_HERE, CHANGED_HERE, REFUSED];
    let known = ours.into_iter().find(|one| reason.contains(one));
    known.unwrap_or(REFUSED).to_owned()
}

/// Why an object is in this state, as it may be told.
#[must_use]
pub fn redact_readiness(kind: &SyncKind, state: FareState, reason: String) -> String {
    if !is_secret(kind) {
        return reason;
    }
    let shown = match state {
        FareState::Ready => "",
        FareState::Waiting => "the Secret is not ready; what it waits for is not shown",
        FareState::Failed => "the Secret failed; the reason is not shown",
        FareState::NoEvidence => "nothing shows whether the Secret works",
    };
    shown.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [FareState; 4] = [
        FareState::Ready,
        FareState::Waiting,
        FareState::Failed,
        FareState::NoEvidence,
    ];

    #[test]
    fn no_reason_quotes_a_secret() {
        let secrets = SyncKind::new("", "Secret").expect("legal");
        let quoted = "waiting for object.metadata[\"hunter2\"]".to_owned();
        for state in STATES {
            let shown = redact_readiness(&secrets, state, quoted.clone());
            assert!(!shown.contains("hunter2"), "{shown}");
        }
        let shown = redact_rejection(&secrets, quoted.clone());
        assert_eq!(shown, REFUSED);
        // Whose it is says nothing of what it holds; which fields differ would.
        let differs = format!("{CHANGED_HERE}: conflict over .data.hunter2");
        assert_eq!(redact_rejection(&secrets, differs), CHANGED_HERE);
        assert_eq!(redact_rejection(&secrets, REFUSED.to_owned()), REFUSED);
        for other in [("", "ConfigMap"), ("example.com", "Secret")] {
            let kind = SyncKind::new(other.0, other.1).expect("legal");
            assert_eq!(redact_rejection(&kind, quoted.clone()), quoted);
            let shown = redact_readiness(&kind, FareState::Failed, quoted.clone());
            assert_eq!(shown, quoted);
        }
    }
}
