//! Keeps what Secrets hold out of reasons and versions.
//!
//! An API or an expression may quote what it refuses. Both ends redact, the one that finds a reason
//! and the one that hears it, since either may be of an older version.
//!
//! A version is a hash of the content, and is shown in releases and to those who may not read the
//! Secret: short passwords could be guessed until the hash fits. So a Secret that crosses has a salt
//! as part of its content.

use serde_json::{Map, Value};

use crate::names::SyncKind;
use crate::ownership::{AUTHORED_HERE, CHANGED_HERE};
use crate::readiness::FareState;

/// Shown instead of an API's message about a Secret.
const REFUSED: &str = "the Secret was refused; the message is not shown, since it may quote the content: apply the Secret there by hand to see it";

/// The label of a Secret that crosses, with the value `true`.
pub const SYNC_LABEL: &str = "deltaplane.io/sync";
/// The annotation of a Secret with random text that only those know who may read the Secret. It
/// crosses.
pub(crate) const SALT: &str = "deltaplane.io/salt";

/// Gives a Secret that crosses a salt, and keeps the one that it had. A writer chooses the salt only
/// if `may_read` says that the writer may read the Secret: others could guess what it holds by a salt
/// that they know.
pub fn salt_secret(
    secret: &mut Value,
    old: Option<&Value>,
    may_read: impl FnOnce() -> bool,
    fresh: impl FnOnce() -> String,
) {
    let salt = |secret: &Value| {
        let salt = secret["metadata"]["annotations"][SALT].as_str();
        salt.map(str::to_owned)
    };
    let (before, sent) = (old.and_then(salt), salt(secret));
    if sent.is_some() && (sent == before || may_read()) {
        return;
    }
    let crosses = secret["metadata"]["labels"][SYNC_LABEL] == "true";
    let Some(salt) = before.or_else(|| crosses.then(fresh)) else {
        let annotations = secret.pointer_mut("/metadata/annotations");
        if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
            annotations.remove(SALT);
        }
        return;
    };
    let Some(metadata) = secret["metadata"].as_object_mut() else {
        return;
    };
    let annotations = metadata
        .entry("annotations")
        .or_insert_with(|| Map::new().into());
    if annotations.is_null() {
        *annotations = Map::new().into();
    }
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert(SALT.to_owned(), salt.into());
    }
}

/// Gives a Secret that crossed the label that it crossed by, which does not cross itself. Other
/// objects are not changed.
pub fn label_crossed_secret(object: &mut Value) {
    if object["apiVersion"] == "v1" && object["kind"] == "Secret" {
        object["metadata"]["labels"][SYNC_LABEL] = "true".into();
    }
}

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
    use serde_json::json;

    use super::*;
    use crate::crossing::Crossing;

    fn secret(labels: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "data": {"pin": "MTIzNA=="},
            "metadata": {"name": "door", "namespace": "team", "labels": labels}})
    }

    /// A user who may write Secrets, and not read them.
    fn writer() -> bool {
        false
    }

    #[test]
    fn only_readers_of_a_secret_choose_its_salt() {
        let mut chosen = secret(json!({SYNC_LABEL: "true"}));
        chosen["metadata"]["annotations"] = json!({SALT: "known"});
        let fresh = || "random".to_owned();
        let salted = |old: Option<&Value>, may_read: bool| {
            let mut written = chosen.clone();
            salt_secret(&mut written, old, || may_read, fresh);
            written["metadata"]["annotations"][SALT].clone()
        };
        assert_eq!(salted(None, false), "random");
        assert_eq!(salted(None, true), "known");
        let mut stored = secret(json!({SYNC_LABEL: "true"}));
        salt_secret(&mut stored, None, writer, || "first".to_owned());
        assert_eq!(salted(Some(&stored), false), "first");
        assert_eq!(salted(Some(&stored), true), "known");
        let mut local = chosen.clone();
        local["metadata"]["labels"] = json!({});
        salt_secret(&mut local, None, writer, fresh);
        assert_eq!(local["metadata"]["annotations"], json!({}));
    }

    /// Who knows everything of a Secret but its salt cannot tell which content has its version.
    #[test]
    fn versions_of_secrets_cannot_be_guessed() {
        let guessed = secret(json!({SYNC_LABEL: "true"}));
        let mut stored = guessed.clone();
        salt_secret(&mut stored, None, writer, || "random".to_owned());
        let version = |object: &Value| Crossing::of(object).expect("an object").version();
        assert_ne!(version(&stored), version(&guessed));
        let mut other = guessed.clone();
        salt_secret(&mut other, None, writer, || "other".to_owned());
        assert_ne!(version(&stored), version(&other));
    }

    #[test]
    fn a_secret_keeps_its_salt() {
        let mut stored = secret(json!({SYNC_LABEL: "true"}));
        salt_secret(&mut stored, None, writer, || "first".to_owned());
        // Neither a write without it nor one with it draws another.
        for mut written in [secret(json!({})), stored.clone()] {
            salt_secret(&mut written, Some(&stored), writer, || {
                unreachable!("it has one")
            });
            assert_eq!(written["metadata"]["annotations"][SALT], "first");
        }
        let mut local = secret(json!({"team": "web"}));
        salt_secret(&mut local, None, writer, || {
            unreachable!("it does not cross")
        });
        assert_eq!(local, secret(json!({"team": "web"})), "it is left as it is");
        let mut nothing = secret(json!({SYNC_LABEL: "true"}));
        nothing["metadata"]["annotations"] = Value::Null;
        salt_secret(&mut nothing, None, writer, || "first".to_owned());
        assert_eq!(nothing["metadata"]["annotations"][SALT], "first");
    }

    #[test]
    fn a_secret_that_crossed_gets_its_label_back() {
        let stored = secret(json!({"team": "web", SYNC_LABEL: "true"}));
        let crossing = Crossing::of(&stored).expect("an object");
        let mut crossed = Value::Object(crossing.object().clone());
        assert_ne!(crossed, stored);
        label_crossed_secret(&mut crossed);
        assert_eq!(crossed, stored);
        let mut unlabelled = secret(Value::Null);
        label_crossed_secret(&mut unlabelled);
        assert_eq!(unlabelled, secret(json!({SYNC_LABEL: "true"})));
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let mut labelled = map.clone();
        label_crossed_secret(&mut labelled);
        assert_eq!(labelled, map);
    }

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
