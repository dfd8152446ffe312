//! Leader election on a Lease: a write only wins on the version that was read.

use std::pin::pin;

use deltaplane_e2e::PATIENCE;
use futures::future::{Either, select};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Client, Error};

const NAME: &str = "leader";

pub(super) async fn scenario(client: Client) {
    let leases: Api<Lease> = Api::namespaced(client, "kube-system");
    let (first, other) = (
        pin!(acquire(&leases, "first")),
        pin!(acquire(&leases, "second")),
    );
    // Both want it at once; one gets it.
    let (won, waiting) = match select(first, other).await {
        Either::Left((won, waiting)) => (won, Either::Left(waiting)),
        Either::Right((won, waiting)) => (won, Either::Right(waiting)),
    };
    let winner = holder(&won).expect("held").to_owned();
    let current = leases.get(NAME).await.expect("there");
    assert_eq!(holder(&current), Some(winner.as_str()));

    // The winner goes on; whoever read the lease before cannot take it any more.
    let params = PostParams::default();
    let renewal = taken(won.clone(), &winner);
    let renewed = leases
        .replace(NAME, &params, &renewal)
        .await
        .expect("renewed");
    let stale = leases.replace(NAME, &params, &taken(won, "usurper")).await;
    let Err(Error::Api(status)) = stale else {
        panic!("taken with an old version: {stale:?}");
    };
    assert_eq!(
        (status.code, status.reason.as_str()),
        (409, "Conflict"),
        "{status:?}"
    );

    let mut released = renewed;
    let spec = released.spec.as_mut().expect("it has one");
    spec.holder_identity = None;
    leases
        .replace(NAME, &params, &released)
        .await
        .expect("released");
    let next = tokio::time::timeout(PATIENCE, async {
        match waiting {
            Either::Left(waiting) => waiting.await,
            Either::Right(waiting) => waiting.await,
        }
    });
    let next = next.await.expect("the other takes over");
    assert_ne!(holder(&next), Some(winner.as_str()));
    let spec = next.spec.expect("it has one");
    assert_eq!(spec.lease_transitions, Some(2));
    leases
        .delete(NAME, &Default::default())
        .await
        .expect("deleted");
}

async fn acquire(leases: &Api<Lease>, me: &str) -> Lease {
    loop {
        let attempt = match leases.get_opt(NAME).await.expect("an answer") {
            None => {
                leases
                    .create(&PostParams::default(), &taken(unheld(), me))
                    .await
            }
            Some(lease) if holder(&lease).is_none() => {
                leases
                    .replace(NAME, &PostParams::default(), &taken(lease, me))
                    .await
            }
            Some(_) => {
                let free = |lease: Option<&Lease>| lease.is_none_or(|it| holder(it).is_none());
                await_condition(leases.clone(), NAME, free)
                    .await
                    .expect("an answer");
                continue;
            }
        };
        match attempt {
            Ok(lease) => return lease,
            // Another was faster.
            Err(Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn holder(lease: &Lease) -> Option<&str> {
    let holder = lease.spec.as_ref()?.holder_identity.as_deref();
    holder.filter(|holder| !holder.is_empty())
}

fn unheld() -> Lease {
    Lease {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            ..ObjectMeta::default()
        },
        spec: None,
    }
}

fn taken(lease: Lease, by: &str) -> Lease {
    let now = MicroTime(Timestamp::now());
    let before = lease.spec.clone().unwrap_or_default();
    let passes = before.holder_identity.as_deref() != Some(by);
    let spec = LeaseSpec {
        holder_identity: Some(by.to_owned()),
        lease_duration_seconds: Some(15),
        acquire_time: if passes {
            Some(now.clone())
        } else {
            before.acquire_time
        },
        renew_time: Some(now),
        lease_transitions: Some(before.lease_transitions.unwrap_or(0) + i32::from(passes)),
        ..before
    };
    Lease {
        spec: Some(spec),
        ..lease
    }
}
