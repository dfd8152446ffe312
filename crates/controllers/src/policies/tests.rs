//! What is asked of an API, and in which order, when not everything works.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};

use deltaplane_client::Pace;
use deltaplane_propagation::stages::{Admitted, Fared, Phase, ReportFacts};
use deltaplane_runtime::Clock;
use futures::FutureExt;
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;

use super::plan::tests::{facts, now};
use super::*;

/// A policy of which nothing, or just this, can be put together.
struct Broken {
    facts: PolicyFacts,
    draft: Option<Value>,
    stirred: watch::Sender<u64>,
    stamp: Mutex<Option<u64>>,
    /// How often somebody looked.
    looks: AtomicU64,
    told: AtomicU64,
    forsaken: Mutex<Vec<String>>,
    /// So long a look takes.
    takes: Option<(deltaplane_runtime::clock::Hand, Duration)>,
}

impl Fleet for Broken {
    fn stirred(&self) -> watch::Receiver<u64> {
        self.stirred.subscribe()
    }

    fn at(&self) -> u64 {
        7
    }

    fn told(&self, _policy: &str, at: u64) {
        self.told.store(at, Ordering::Relaxed);
    }

    fn stamp(&self, _policy: &str) -> Option<u64> {
        *self.stamp.lock()
    }

    fn policies(&self) -> Vec<String> {
        vec!["web".to_owned()]
    }

    fn look(&self, _policy: &str) -> Option<PolicyFacts> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        if let Some((hand, takes)) = &self.takes {
            hand.advance(*takes);
        }
        Some(self.facts.clone())
    }

    fn troubles(&self, _policy: &str) -> Vec<String> {
        Vec::new()
    }

    fn decided(&self, _policy: &str, _inputs: Inputs) {}

    fn draft<'a>(
        &'a self,
        _policy: &'a str,
        _restores: Option<u64>,
    ) -> BoxFuture<'a, Result<Value, String>> {
        let draft = self.draft.clone();
        async { draft.ok_or_else(|| "its list takes 2 MB".to_owned()) }.boxed()
    }

    fn forsake(&self, policy: &str) {
        self.forsaken.lock().push(policy.to_owned());
    }

    fn sweep(&self) -> BoxFuture<'_, Result<usize, String>> {
        async { Ok(0) }.boxed()
    }
}

type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// An API that takes everything, but for releases if there is one.
fn server(asked: &Asked, release: &Arc<Mutex<Option<Value>>>) -> Client {
    let (asked, release) = (Arc::clone(asked), Arc::clone(release));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (asked, release) = (Arc::clone(&asked), release.lock().clone());
        async move {
            let what = format!("{} {}", request.method(), request.uri().path());
            let body = request.into_body().collect().await.expect("a body");
            let body: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
            asked.lock().push((what.clone(), body.clone()));
            let (code, answer) = match release.filter(|_| what.contains("/releases")) {
                Some(there) if what.starts_with("GET") => (200, there),
                Some(_) => (
                    409,
                    json!({"kind": "Status", "code": 409, "status": "Failure"}),
                ),
                None => (200, body),
            };
            let answer = Response::builder().status(code).body(answer.to_string());
            Ok::<_, Infallible>(answer.expect("an answer"))
        }
    });
    Client::new(service, "default")
}

fn broken(facts: PolicyFacts) -> Arc<Broken> {
    Arc::new(Broken {
        facts,
        draft: None,
        stirred: watch::Sender::new(0),
        stamp: Mutex::new(None),
        looks: AtomicU64::new(0),
        told: AtomicU64::new(0),
        forsaken: Mutex::default(),
        takes: None,
    })
}

fn mover(asked: &Asked, clock: Clock, fleet: &Arc<Broken>) -> Mover {
    let client = server(asked, &Arc::default());
    mover_with(client, clock, fleet)
}

fn mover_with(client: Client, clock: Clock, fleet: &Arc<Broken>) -> Mover {
    Mover {
        context: Context {
            client,
            pace: Pace {
                clock,
                ..Pace::system()
            },
        },
        fleet: fleet.clone(),
        written: BTreeMap::new(),
        gathering: Gathering::default(),
        seen: Seen::default(),
        compiled: Compiled::default(),
    }
}

/// A zone arrives while nothing new can be released: that is written down, and why.
#[tokio::test]
async fn what_cannot_be_released_stops_nothing_else() {
    let mut facts = facts(2);
    facts.head.digest = "too much".to_owned();
    let target = facts.record.zones["eu"].target;
    let (phase, at) = (Phase::Admitted, now());
    let admitted = Admitted { target, at, phase };
    facts.record.zones.insert("eu".to_owned(), admitted);
    facts.zones[0].report = Some(ReportFacts {
        at: target,
        state: Fared::Ready { since: now() },
    });
    let asked = Asked::default();
    let (clock, hand) = Clock::manual(now().to_system());
    let mut mover = mover(&asked, clock, &broken(facts));
    // More may come, and that is said.
    let again = mover.pass().await.after.expect("it is looked at again");
    let (_, told) = asked.lock().remove(0);
    let message = told["status"]["conditions"][1]["message"].clone();
    assert_eq!(message, "what is there is about to be released");
    hand.advance(again);
    assert!(mover.pass().await.after.is_some(), "it is tried again");
    let asked = asked.lock();
    let [(what, told)] = asked.as_slice() else {
        panic!("{asked:?}");
    };
    assert!(what.ends_with("propagationpolicies/web/status"), "{what}");
    let status = &told["status"];
    assert_eq!(status["decisions"]["zones"][0]["phase"], "Arrived");
    let why = "release 3 cannot be put together: its list takes 2 MB";
    assert_eq!(status["problems"][0], why);
    let propagated = &status["conditions"][1];
    assert_eq!(propagated["reason"], "NotReleased");
    assert_eq!(
        propagated["message"],
        format!("what is there cannot be released: {why}")
    );
}

/// Whoever deletes a policy may leave its releases, and write another of that name.
#[tokio::test]
async fn a_release_of_another_policy_of_that_name_is_told_of() {
    let mut facts = facts(2);
    facts.head.digest = "new".to_owned();
    let mut fleet = broken(facts);
    let mine = Arc::get_mut(&mut fleet).expect("mine");
    mine.draft = Some(json!({"policyUID": "ours"}));
    mine.stamp = Mutex::new(Some(1));
    let asked = Asked::default();
    let there = Arc::new(Mutex::new(Some(json!({"spec": {"policyUID": "theirs"}}))));
    let (clock, hand) = Clock::manual(now().to_system());
    let mut mover = mover_with(server(&asked, &there), clock.clone(), &fleet);
    mover.pass().await;
    hand.advance(Duration::from_secs(1));
    let again = mover.pass().await.after.expect("it is tried again");
    assert_eq!(again, clock.elapsed() + AGAIN);
    let (_, told) = asked.lock().pop().expect("it is told");
    let why = "release web-3 is of an earlier policy of this name, and in the way: `kubectl delete release web-3`";
    assert_eq!(told["status"]["problems"][0], why);
    assert_eq!(
        *fleet.forsaken.lock(),
        ["web"],
        "what was kept for it may go"
    );
    // Nothing else changes when it is gone, and then it is written.
    *there.lock() = None;
    asked.lock().clear();
    hand.advance(AGAIN);
    mover.pass().await;
    let (what, written) = asked.lock().remove(0);
    assert!(what.ends_with("/releases"), "{what}");
    assert_eq!(written["spec"]["number"], 3);
    // One of ours was written before, and is seen in a moment.
    *there.lock() = Some(json!({"spec": {"policyUID": "ours"}}));
    asked.lock().clear();
    hand.advance(AGAIN);
    *fleet.stamp.lock() = Some(2);
    mover.pass().await;
    hand.advance(Duration::from_secs(1));
    mover.pass().await;
    let (_, told) = asked.lock().pop().expect("it is told");
    assert!(told["status"]["problems"].is_null(), "{told}");
}

/// A hold may end while a policy is looked at.
#[tokio::test]
async fn what_ends_during_a_look_is_not_missed() {
    let mut facts = facts(2);
    let second = deltaplane_propagation::Duration::from_nanos(1_000_000_000);
    let until = now().plus(second).expect("a time");
    facts.zones[0].hold = deltaplane_propagation::Hold::Held;
    facts.zones[0].released_at = Some(until);
    let (clock, hand) = Clock::manual(now().to_system());
    let mut fleet = broken(facts);
    let takes = Some((hand, Duration::from_secs(2)));
    Arc::get_mut(&mut fleet).expect("mine").takes = takes;
    let mut mover = mover(&Asked::default(), clock, &fleet);
    assert_eq!(mover.pass().await.at, Some(until.to_system()));
}

/// Otherwise a release would wait for as long as the clock was put back.
#[tokio::test]
async fn a_clock_that_is_put_back_delays_no_release() {
    let mut facts = facts(2);
    facts.head.digest = "new".to_owned();
    let mut fleet = broken(facts);
    let mine = Arc::get_mut(&mut fleet).expect("mine");
    mine.draft = Some(json!({"policyUID": "ours"}));
    mine.stamp = Mutex::new(Some(1));
    let asked = Asked::default();
    let (clock, hand) = Clock::manual(now().to_system());
    let mut mover = mover(&asked, clock.clone(), &fleet);
    let wake = mover.pass().await;
    hand.put_back(Duration::from_secs(3600));
    clock.sleep(Duration::ZERO).await;
    // However long the code would wait: more may come for two seconds.
    let longest = Duration::from_secs(2);
    let due = wake.after.expect("it is due by the time that elapses");
    assert!(due <= clock.elapsed() + longest, "{due:?}");
    hand.advance(longest);
    asked.lock().clear();
    mover.pass().await;
    let asked = asked.lock();
    let is_release = |(what, _): &(String, Value)| what.ends_with("/releases");
    assert!(asked.iter().any(is_release), "{asked:?}");
}

/// Any zone that says something wakes us: policies that it does not concern cost nothing.
#[tokio::test]
async fn a_policy_is_looked_at_when_something_of_it_is_news() {
    let mut facts = facts(2);
    facts.again = now().plus(deltaplane_propagation::Duration::from_nanos(1_000_000_000));
    let fleet = broken(facts);
    let (clock, hand) = Clock::manual(now().to_system());
    let mut mover = mover(&Asked::default(), clock, &fleet);
    let looks = |fleet: &Broken| fleet.looks.load(Ordering::Relaxed);
    // What is not known as a whole is looked at, and so is what was not seen like this.
    mover.pass().await;
    *fleet.stamp.lock() = Some(1);
    let next = mover.pass().await;
    assert_eq!(looks(&fleet), 2);
    fleet.told.store(0, Ordering::Relaxed);
    assert_eq!(mover.pass().await, next);
    assert_eq!(looks(&fleet), 2);
    assert_eq!(fleet.told.load(Ordering::Relaxed), 7, "it is as it was");
    *fleet.stamp.lock() = Some(2);
    mover.pass().await;
    assert_eq!(looks(&fleet), 3);
    // Time may change something, too.
    hand.advance(Duration::from_secs(1));
    mover.pass().await;
    assert_eq!(looks(&fleet), 4);
}
