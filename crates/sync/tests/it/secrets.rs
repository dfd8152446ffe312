//! Rejections of Secrets, at both ends of a stream.

use std::collections::BTreeMap;
use std::time::Duration;

use deltaplane_sync::{
    DeletionBudget, Known, Ledger, Receiver, Request, Sender, SenderRole, Stake, SyncKind,
};

use crate::world::{Entry, Hub, name};

/// An answer that was made without the receiver's redaction.
fn quoting(request: &Request) -> Request {
    let mut request = request.clone();
    if let Request::Ack { rejected, .. } = &mut request {
        for one in rejected {
            one.reason = "data[hunter2]: Invalid value".to_owned();
        }
    }
    request
}

#[test]
fn rejections_of_secrets_are_redacted_at_both_ends() {
    let secrets = SyncKind::new("", "Secret").expect("legal");
    let mut hub = Hub::new("hub-1");
    hub.write(&secrets, &name("a"), Some(Entry::Wanted(1)));
    let known = || Known::Versions {
        held: BTreeMap::new(),
        sources: Vec::new(),
    };
    let mut sender = Sender::new(DeletionBudget::default(), Ledger::default());
    let mut receiver = Receiver::new(
        SenderRole::Hub,
        DeletionBudget::default(),
        Ledger::default(),
    );
    receiver.subscribe(secrets.clone(), known());
    let kind = secrets.clone();
    let subscribe = Request::Subscribe {
        kind,
        known: known(),
    };
    sender
        .request(subscribe, &hub, Duration::ZERO)
        .expect("the first");
    let response = sender.poll(&hub, Duration::ZERO).remove(0);
    receiver
        .response(response, &Stake::of(0), Duration::ZERO)
        .expect("legal");
    let refused = "data[hunter2]: Invalid value".to_owned();
    let answer = receiver.done(&secrets, &name("a"), Err(refused.into()));
    let answer = answer.expect("all is done");
    let said = format!("{answer:?}");
    assert!(
        said.contains("refused") && !said.contains("hunter2"),
        "{said}"
    );
    sender
        .request(quoting(&answer), &hub, Duration::ZERO)
        .expect("asked");
    let (_, reason) = sender.rejection(&secrets, &name("a")).expect("rejected");
    assert!(!reason.contains("hunter2"), "{reason}");
}
