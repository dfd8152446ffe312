//! Removes events when their time is over.
//!
//! An event lives for a while after its last write. It says itself when that was, so that a
//! restart changes nothing; what it claims about the future is not believed. Both groups of events
//! are one store, so one of them is watched.
//!
//! Invariant: only what nobody has written since is removed (uid and revision are preconditions).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::StreamExt;
use kube::Client;
use serde::Deserialize;
use serde_json::json;

use deltaplane_api::time::Time;
use deltaplane_client::header::null_as_default;
use deltaplane_client::{Cache, Feed, Item, ObjectKey, Query, Resource, request};
use deltaplane_runtime::Stop;

use crate::Context;
use crate::queue::{Failure, Next, Work, settled};

/// What is kept of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Expiry {
    at: SystemTime,
    uid: String,
    revision: String,
}

/// The times that an event, of either group, may have.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Times {
    metadata: Metadata,
    event_time: Option<String>,
    last_timestamp: Option<String>,
    #[serde(deserialize_with = "null_as_default")]
    series: Series,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    creation_timestamp: Option<String>,
    #[serde(deserialize_with = "null_as_default")]
    managed_fields: Vec<Managed>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Managed {
    time: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Series {
    last_observed_time: Option<String>,
}

/// Events removed at one time.
const AT_ONCE: usize = 16;

/// Removes events `lifetime` after their last write, until told to stop.
pub async fn run(context: Context, lifetime: Duration, stop: Stop) {
    stop.unless(expire(context, lifetime)).await;
}

async fn expire(context: Context, lifetime: Duration) {
    let Context { client, pace } = context;
    let events = Resource::namespaced("", "v1", "events", "Event");
    let query = Query::all(events.clone());
    let mut feed = Feed::new(client.clone(), query, pace.clone()).events();
    let mut cache = Cache::new();
    let mut work = Work::new(AT_ONCE, pace.clone());
    loop {
        tokio::select! {
            Some(event) = feed.next() => {
                let now = pace.clock.now();
                for key in cache.apply(event, |item| Some(expiry(&item, lifetime, now))) {
                    match cache.get(&key) {
                        Some(Expiry { at, .. }) => work.add_at(key, *at),
                        None => work.cancel(&key),
                    }
                }
            }
            key = work.next() => match cache.get(&key) {
                Some(expiry) if expiry.at <= pace.clock.now() => {
                    let act = remove(client.clone(), events.object_path(&key), expiry.clone());
                    work.start(key, act);
                }
                Some(_) | None => reschedule(&mut work, key, &cache),
            },
        }
    }
}

/// The event was written, or removed, after it became due.
fn reschedule(work: &mut Work<ObjectKey>, key: ObjectKey, cache: &Cache<Expiry>) {
    let later = cache.get(&key).map(|expiry| expiry.at);
    work.skip(key.clone());
    if let Some(at) = later {
        work.add_at(key, at);
    }
}

async fn remove(client: Client, path: String, expiry: Expiry) -> Result<Next, Failure> {
    let options = json!({"preconditions": {
        "uid": expiry.uid,
        "resourceVersion": expiry.revision,
    }});
    settled(
        request::delete(&client, &path, &options).await,
        "remove an event",
    )
}

/// When the event's time is over. Pure.
fn expiry(item: &Item, lifetime: Duration, now: SystemTime) -> Expiry {
    let times: Times = item.parse().unwrap_or_default();
    let managed = times
        .metadata
        .managed_fields
        .into_iter()
        .map(|managed| managed.time);
    let named = [
        times.metadata.creation_timestamp,
        times.event_time,
        times.last_timestamp,
        times.series.last_observed_time,
    ];
    let written = named
        .into_iter()
        .chain(managed)
        .flatten()
        .filter_map(|text| text.parse::<Time>().ok())
        .filter_map(|time| u64::try_from(time.unix()).ok())
        .map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds))
        .max()
        .unwrap_or(now);
    Expiry {
        at: written.min(now) + lifetime,
        uid: item.header.uid.clone(),
        revision: item.header.resource_version.clone(),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn seconds(text: &str) -> u64 {
        let time: Time = text.parse().expect("a time");
        u64::try_from(time.unix()).expect("after 1970")
    }

    /// The lifetime is a minute, and the time is 2026-01-01T12:00:00Z.
    fn check(fields: &str, expected: &str) {
        let text =
            format!(r#"{{"metadata":{{"name":"a","uid":"u","resourceVersion":"7"{fields}}}"#);
        let item = Item::new(Bytes::from(text)).expect("an object");
        let now = UNIX_EPOCH + Duration::from_secs(seconds("2026-01-01T12:00:00Z"));
        let expected = Expiry {
            at: UNIX_EPOCH + Duration::from_secs(seconds(expected)),
            uid: "u".to_owned(),
            revision: "7".to_owned(),
        };
        assert_eq!(
            expiry(&item, Duration::from_secs(60), now),
            expected,
            "{fields}"
        );
    }

    #[test]
    fn events_live_on_after_their_last_write() {
        let created = r#","creationTimestamp":"2026-01-01T11:00:00Z""#;
        check(&format!("{created}}}"), "2026-01-01T11:01:00Z");
        check(
            &format!(r#"{created}}},"lastTimestamp":"2026-01-01T11:30:00Z""#),
            "2026-01-01T11:31:00Z",
        );
        check(
            &format!(
                r#"{created}}},"lastTimestamp":null,"eventTime":"2026-01-01T11:10:00.000001Z",
                "series":{{"count":2,"lastObservedTime":"2026-01-01T11:20:00.000001Z"}}"#
            ),
            "2026-01-01T11:21:00Z",
        );
        check(
            &format!(
                r#"{created},"managedFields":[{{"time":"2026-01-01T11:40:00Z"}},{{}}]}},"series":null"#
            ),
            "2026-01-01T11:41:00Z",
        );
    }

    #[test]
    fn what_an_event_claims_about_the_future_is_not_believed() {
        check(
            r#"},"lastTimestamp":"2036-01-01T00:00:00Z""#,
            "2026-01-01T12:01:00Z",
        );
        check(r#"},"lastTimestamp":"soon""#, "2026-01-01T12:01:00Z");
        check("}", "2026-01-01T12:01:00Z");
        check(r#"},"lastTimestamp":7"#, "2026-01-01T12:01:00Z");
    }
}
