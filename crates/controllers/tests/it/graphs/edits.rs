//! Others who write while instances move: what they change is put right or followed, and no more
//! move at once than may.

use std::collections::BTreeSet;
use std::future::Future;

use deltaplane_api::admission::ADMISSION;
use deltaplane_api::keys;
use deltaplane_client::{Event, Feed, Pace, Query};
use futures::StreamExt;

use super::*;
use crate::gate::Gate;

/// Who moves, as the objects tell: those that say something new which nobody called right yet.
struct Moving<'a> {
    new: &'a [&'a str],
    now: BTreeSet<String>,
    most: usize,
}

impl Moving<'_> {
    fn see(&mut self, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let says = object["data"]["greeting"].as_str().unwrap_or_default();
        let said = &object["metadata"]["annotations"]["said"];
        match self.new.contains(&says) && said != says {
            true => self.now.insert(name.to_owned()),
            false => self.now.remove(name),
        };
        self.most = self.most.max(self.now.len());
    }
}

/// How many moved to something new at once, at most, while something happened.
pub(super) async fn most_moving(
    client: &kube::Client,
    new: &[&str],
    happens: impl Future<Output = ()>,
) -> usize {
    let query = Query::all(config_maps());
    let mut maps = Feed::new(client.clone(), query, Pace::system()).events();
    let mut moving = Moving {
        new,
        now: BTreeSet::new(),
        most: 0,
    };
    let happening = async {
        happens.await;
        // Whoever has seen this has seen everything.
        let over = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "over"},
        });
        let path = config_maps().collection_path(Some("default"));
        let made = request::create::<Value>(client, &path, &over).await;
        made.expect("made");
    };
    let looking = async {
        while let Some(event) = maps.next().await {
            match event {
                Event::Applied(item) if item.header.name == "over" => return,
                Event::Applied(item) => moving.see(&item.parse().expect("an object")),
                Event::Deleted(item) => drop(moving.now.remove(&item.header.name)),
                Event::Restarted | Event::InSync => {}
            }
        }
    };
    tokio::join!(happening, looking);
    moving.most
}

impl Graphs {
    pub(super) async fn annotate(&self, name: &str, key_of: &str, value: Value) {
        let change = json!({"metadata": {"annotations": {key_of: value}}});
        self.change(&shops(), &key(name), change).await;
    }

    /// Says of all that they are right as soon as they say what they should, in whatever order.
    pub(super) async fn approve_all(&self, greeting: &str) {
        tokio::join!(
            self.approve("a", greeting),
            self.approve("b", greeting),
            self.approve("c", greeting),
        );
    }

    /// An instance that waits is put right at what it has: whatever was decided before is done.
    pub(super) async fn mends(&self, name: &str, greeting: &str) {
        let forged = json!({"data": {"greeting": "forged"}});
        let second = key(&format!("{name}-second"));
        self.change(&config_maps(), &second, forged).await;
        self.until_says(name, greeting).await;
    }

    /// Writes to the status of something, as somebody who may.
    async fn forge_status(&self, kind: &Resource, key: &ObjectKey, status: Value) {
        let path = format!("{}/status", kind.object_path(key));
        let change = json!({ "status": status });
        let forged = request::patch::<Value>(&self.world.client, &path, Patch::Merge, &change);
        forged.await.expect("forged");
    }
}

#[tokio::test]
async fn whoever_changes_objects_moves_nobody() {
    let graphs = Graphs::midway().await;
    let most = most_moving(&graphs.world.client, &["hi?"], async {
        graphs.mends("a", "hi?").await;
        graphs.mends("b", "hi!").await;
        // What is deleted is made again, as it was.
        let c = key("c-second");
        let before = graphs.world.get(&config_maps(), &c).await.expect("there");
        graphs.world.delete(&config_maps(), &c, "Background").await;
        let again = |object: &Value| object["metadata"]["uid"] != before["metadata"]["uid"];
        let again = graphs.world.until(&config_maps(), &c, again).await;
        assert_eq!(again["data"]["greeting"], "hi!");
        // That one is said to be right which is not under way lets nobody go.
        graphs.approve("c", "hi!").await;
        graphs.mends("b", "hi!").await;
        assert_eq!(graphs.greetings().await, ["hi?", "hi!", "hi!"]);
        graphs.approve_all("hi?").await;
        graphs.until_propagation(json!({"current": 3})).await;
    });
    assert_eq!(most.await, 1);
    graphs.end().await;
}

#[tokio::test]
async fn labels_and_the_finalizer_come_back_and_nobody_moves() {
    let graphs = Graphs::midway().await;
    let most = most_moving(&graphs.world.client, &["hi?"], async {
        let lost = [json!({"labels": null}), json!({"finalizers": null})];
        let both = |name: &'static str| lost.clone().map(|lost| (name, lost));
        for (name, lost) in ["a", "b"].into_iter().flat_map(both) {
            graphs
                .change(&shops(), &key(name), json!({"metadata": lost}))
                .await;
            let managed = |object: &Value| {
                let metadata = &object["metadata"];
                metadata["labels"]["kro.run/owned"] == "true"
                    && metadata["finalizers"][0] == "kro.run/finalizer"
            };
            graphs.world.until(&shops(), &key(name), managed).await;
        }
        graphs.mends("b", "hi!").await;
        assert_eq!(graphs.greetings().await, ["hi?", "hi!", "hi!"]);
        graphs.approve_all("hi?").await;
        graphs.until_propagation(json!({"current": 3})).await;
    });
    assert_eq!(most.await, 1);
    graphs.end().await;
}

/// Gates go by what there is, and not by what somebody wrote about it.
#[tokio::test]
async fn a_status_that_somebody_else_wrote_opens_nothing() {
    let graphs = Graphs::midway().await;
    let most = most_moving(&graphs.world.client, &["hi?", "hi."], async {
        let fine = json!([{
            "type": "Ready", "status": "True", "reason": "Forged", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
        }]);
        let forged = json!({"state": "ACTIVE", "conditions": fine});
        graphs.forge_status(&shops(), &key("a"), forged).await;
        graphs.until_state("a", "IN_PROGRESS").await;
        let forged = json!({
            "lastIssuedRevision": 1, "propagation": {"current": 9, "updating": 0, "pending": 0},
        });
        let rgd = rgd();
        graphs.forge_status(&api::definitions(), &rgd, forged).await;
        graphs.mends("b", "hi!").await;
        assert_eq!(graphs.greetings().await, ["hi?", "hi!", "hi!"]);
        // Nor is a number given twice.
        graphs.redefine(&gated(".")).await;
        graphs.approve_all("hi.").await;
        let wanted = json!({"revision": 3, "current": 3});
        graphs.until_propagation(wanted).await;
    });
    assert_eq!(most.await, 1);
    graphs.end().await;
}

#[tokio::test]
async fn what_was_decided_is_written_again_where_somebody_else_wrote() {
    let graphs = Graphs::midway().await;
    let most = most_moving(&graphs.world.client, &["hi?"], async {
        let written = async |name: &str| {
            let object = graphs.world.get(&shops(), &key(name)).await.expect("there");
            object["metadata"]["annotations"][ADMISSION].clone()
        };
        let (of_a, of_b) = (written("a").await, written("b").await);
        let forged = [
            ("b", json!(null), 1),
            ("c", json!("nonsense"), 1),
            ("a", json!(null), 2),
            ("b", of_a, 1),
            ("a", of_b, 2),
        ];
        for (name, forged, number) in forged {
            graphs.annotate(name, ADMISSION, forged).await;
            let again =
                |object: &Value| Admission::read(object).is_some_and(|one| one.at.number == number);
            graphs.world.until(&shops(), &key(name), again).await;
            graphs.mends("b", "hi!").await;
            graphs.mends("c", "hi!").await;
        }
        graphs.approve_all("hi?").await;
        graphs.until_propagation(json!({"current": 3})).await;
    });
    assert_eq!(most.await, 1);
    graphs.end().await;
}

#[tokio::test]
async fn owners_change_their_instances_all_at_once() {
    let graphs = Graphs::midway().await;
    let new = ["hi?", "hello a?", "hello b?", "hello c?"];
    let most = most_moving(&graphs.world.client, &new, async {
        let change = async |name: &str| {
            let greeting = format!("hello {name}");
            let change = json!({"spec": {"greeting": greeting}});
            graphs.change(&shops(), &key(name), change).await;
        };
        tokio::join!(change("a"), change("b"), change("c"));
        // Each at the revision that it has.
        graphs.until_says("a", "hello a?").await;
        tokio::join!(
            graphs.approve("b", "hello b!"),
            graphs.approve("c", "hello c!")
        );
        graphs.until_state("b", "ACTIVE").await;
        graphs.mends("b", "hello b!").await;
        let says = ["hello a?", "hello b!", "hello c!"];
        assert_eq!(graphs.greetings().await, says);
        tokio::join!(
            graphs.approve("a", "hello a?"),
            graphs.approve("b", "hello b?"),
            graphs.approve("c", "hello c?"),
        );
        graphs.until_propagation(json!({"current": 3})).await;
    });
    assert_eq!(most.await, 1);
    graphs.end().await;
}

/// One that arrived and is changed by its owner is not ready as it is now: it takes a place again.
#[tokio::test]
async fn one_that_arrived_takes_a_place_again_when_its_owner_changes_it() {
    let graphs = Graphs::midway().await;
    let most = most_moving(&graphs.world.client, &["hello?"], async {
        // The gate is closed for good while the first is looked at.
        graphs.approve("a", "hi?").await;
        graphs.until_says("b", "hi?").await;
        let change = json!({"spec": {"greeting": "hello"}});
        graphs.change(&shops(), &key("a"), change).await;
        graphs.until_says("a", "hello?").await;
        let wanted = json!({"updating": 2, "current": 0, "pending": 1});
        graphs.until_propagation(wanted).await;
        graphs.approve("b", "hi?").await;
        // There is still one under way.
        let wanted = json!({"updating": 1, "current": 1, "pending": 1});
        graphs.until_propagation(wanted).await;
        graphs.mends("c", "hi!").await;
        assert_eq!(graphs.greetings().await, ["hello?", "hi?", "hi!"]);
        graphs.approve("a", "hello?").await;
        graphs.approve("c", "hi?").await;
        graphs.until_propagation(json!({"current": 3})).await;
    });
    assert_eq!(most.await, 1);
    graphs.end().await;
}

#[tokio::test]
async fn two_who_write_the_definition_at_once_make_no_one_move_out_of_turn() {
    let mut graphs = Graphs::midway().await;
    let marks = ["1", "2", "3", "4", "5", "6"];
    let says = marks.map(|mark| format!("hi{mark}"));
    let mut new: Vec<&str> = says.iter().map(String::as_str).collect();
    new.push("hi?");
    let client = graphs.world.client.clone();
    let most = most_moving(&client, &new, async {
        let (left, right) = marks.split_at(3);
        let write = async |marks: &[&str]| {
            for mark in marks {
                graphs.redefine(&gated(mark)).await;
            }
        };
        tokio::join!(write(left), write(right));
        let definition = graphs.world.get(&api::definitions(), &rgd()).await;
        let definition = definition.expect("there");
        let spec = &definition["spec"]["resources"][1]["template"];
        let last = spec["data"]["greeting"].as_str().expect("a text");
        let last = last.replace("${first.data.greeting}", "hi");
        // Whoever was last, and whatever was seen of the others.
        graphs.until_says("a", &last).await;
        graphs.restart().await;
        graphs.mends("b", "hi!").await;
        graphs.approve_all(&last).await;
        graphs.until_propagation(json!({"current": 3})).await;
    });
    assert_eq!(most.await, 1);
    let revisions = graphs.world.list(&api::revisions()).await;
    // Nobody made a second of what was there.
    let hash = |one: &Value| one["metadata"]["labels"]["kro.run/graph-revision-hash"].clone();
    for pair in revisions.windows(2) {
        assert_ne!(hash(&pair[0]), hash(&pair[1]));
    }
    graphs.end().await;
}

/// A client like this one, whose writes to an object are kept back for as long as `kept` says so.
fn keeping(
    client: kube::Client,
    name: &'static str,
    kept: tokio::sync::watch::Receiver<bool>,
) -> kube::Client {
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (client, mut kept) = (client.clone(), kept.clone());
        async move {
            let writes = request.method() != http::Method::GET;
            if writes && request.uri().path().ends_with(name) {
                let _ = kept.wait_for(|kept| !*kept).await;
            }
            client.send(request).await
        }
    });
    kube::Client::new(service, "default")
}

/// Without the word that it may move, one that is under way is still under way.
#[tokio::test]
async fn one_whose_admission_is_taken_away_makes_no_room() {
    let mut graphs = Graphs::midway().await;
    graphs.tasks.shutdown(GRACE).await.expect("a clean end");
    let (sender, kept) = tokio::sync::watch::channel(true);
    let client = keeping(graphs.world.client.clone(), "/a-second", kept);
    (graphs.tasks, graphs.requests) = run_with(client);
    // That is told when it is known how all stand.
    graphs.annotate("c", keys::HOLD, json!("true")).await;
    let wanted = json!({"revision": 2, "updating": 1, "pending": 1, "held": 1});
    graphs.until_propagation(wanted).await;
    graphs.annotate("c", keys::HOLD, json!(null)).await;
    let most = most_moving(&graphs.world.client, &["hi?"], async {
        graphs.annotate("a", ADMISSION, json!(null)).await;
        let again = |object: &Value| Admission::read(object).is_some();
        graphs.world.until(&shops(), &key("a"), again).await;
        graphs.mends("c", "hi!").await;
        graphs.mends("b", "hi!").await;
        assert_eq!(graphs.greetings().await, ["hi?", "hi!", "hi!"]);
        sender.send_replace(false);
        graphs.approve_all("hi?").await;
        graphs.until_propagation(json!({"current": 3})).await;
    });
    assert_eq!(most.await, 1);
    graphs.end().await;
}

#[tokio::test]
async fn a_number_that_nobody_issued_is_put_right() {
    let graphs = Graphs::start().await;
    graphs.define(gated("!")).await;
    let forged = json!({"lastIssuedRevision": i64::MAX});
    graphs
        .forge_status(&api::definitions(), &rgd(), forged)
        .await;
    graphs.redefine(&gated("?")).await;
    let second = |object: &Value| object["status"]["lastIssuedRevision"] == 2;
    graphs
        .world
        .until(&api::definitions(), &rgd(), second)
        .await;
    graphs.until_definition("Ready", "True").await;
    graphs.end().await;
}

/// Whoever decides by what is old, be it a process that was stopped for a while, admits nobody.
#[tokio::test]
async fn nobody_is_admitted_by_what_is_old() {
    let mut graphs = Graphs::start().await;
    graphs.define(gated("!")).await;
    graphs.world.create(&shops(), shop("a")).await;
    graphs.approve("a", "hi!").await;
    graphs.until_state("a", "ACTIVE").await;
    graphs.tasks.shutdown(GRACE).await.expect("a clean end");
    let tried = Arc::new(AtomicUsize::new(0));
    let times = tried.clone();
    let writes = move |method: &Method, path: &str| {
        let is = method == Method::PATCH && path.ends_with("/shops/a");
        times.fetch_add(usize::from(is), Ordering::SeqCst);
        false
    };
    let client = refusing(graphs.world.client.clone(), writes, Arc::default());
    let (client, gate) = Gate::at(client, "/apis/kro.run/v1/shops");
    (graphs.tasks, graphs.requests) = run_with(client);
    graphs.mends("a", "hi!").await;
    gate.shut();
    graphs.annotate("a", "note", json!("newer")).await;
    graphs.redefine(&gated("?")).await;
    // Once more means that the first was answered.
    let twice = async {
        while tried.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
    };
    let twice = tokio::time::timeout(GRACE, twice).await;
    twice.expect("it is tried again");
    graphs.until_says("a", "hi!").await;
    let a = graphs.world.get(&shops(), &key("a")).await.expect("there");
    assert!(admission_of(&a).ends_with("/1"), "{a}");
    gate.open();
    graphs.until_says("a", "hi?").await;
    graphs.end().await;
}
