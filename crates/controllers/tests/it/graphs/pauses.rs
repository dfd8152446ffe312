//! People who say that something stays as it is.

use deltaplane_api::keys;

use super::*;

fn pause(paused: Option<&str>) -> Value {
    json!({"metadata": {"annotations": {keys::PAUSED: paused}}})
}

fn hold(until: Option<&str>) -> Value {
    json!({"metadata": {"annotations": {keys::HOLD: until}}})
}

/// A definition without a gate, whose instances say this.
fn saying(mark: &str) -> Value {
    let mut definition = gated(mark);
    let spec = definition["spec"].as_object_mut().expect("a spec");
    spec.insert("propagateWhen".to_owned(), json!([]));
    definition
}

/// Whether an instance says that this keeps it back.
fn kept(instance: &Value, reason: &str, message: &str) -> bool {
    let all = instance["status"]["conditions"].as_array();
    let mut all = all.into_iter().flatten();
    all.any(|one| {
        let said = one["message"].as_str().unwrap_or_default();
        let is = one["type"] == "ResourcesPropagated" && one["reason"] == reason;
        is && said.contains(message)
    })
}

impl Graphs {
    async fn behind(&self, name: &str) -> Value {
        let is = |object: &Value| condition(object, "ResourcesPropagated", "False");
        self.world.until(&shops(), &key(name), is).await
    }
}

#[tokio::test]
async fn nobody_moves_while_it_is_paused_although_there_is_no_gate() {
    let mut graphs = Graphs::start().await;
    graphs.define(saying("!")).await;
    for name in ["a", "b"] {
        graphs.world.create(&shops(), shop(name)).await;
        graphs.approve(name, "hi!").await;
        graphs.until_state(name, "ACTIVE").await;
    }
    graphs
        .change(&api::definitions(), &rgd(), pause(Some("true")))
        .await;
    graphs
        .until_propagation(json!({"paused": true, "current": 2}))
        .await;
    graphs.redefine(&saying("?")).await;
    graphs
        .until_propagation(json!({"revision": 2, "held": 2, "current": 0}))
        .await;
    let a = graphs.behind("a").await;
    assert!(kept(&a, "Paused", "nobody moves to revision 2"), "{a}");
    graphs.restart().await;
    // A new one begins with what is known to work.
    graphs.world.create(&shops(), shop("c")).await;
    graphs.approve("c", "hi!").await;
    let c = graphs.until_state("c", "ACTIVE").await;
    assert_eq!(admission_of(&c), "started/1");
    assert_eq!(graphs.greetings().await, ["hi!", "hi!", "hi!"]);
    graphs
        .change(&api::definitions(), &rgd(), pause(None))
        .await;
    for name in ["a", "b", "c"] {
        graphs.approve(name, "hi?").await;
    }
    // There is nothing to tell of any more.
    let is = |object: &Value| object["status"]["propagation"].is_null();
    graphs.world.until(&api::definitions(), &rgd(), is).await;
    graphs.end().await;
}

#[tokio::test]
async fn one_that_is_held_stays_although_there_is_no_gate() {
    let graphs = Graphs::start().await;
    graphs.define(saying("!")).await;
    for name in ["a", "b"] {
        graphs.world.create(&shops(), shop(name)).await;
        graphs.approve(name, "hi!").await;
        graphs.until_state(name, "ACTIVE").await;
    }
    let held = json!({"metadata": {"annotations": {keys::HOLD: "true"}}});
    graphs.change(&shops(), &key("a"), held).await;
    graphs.redefine(&saying("?")).await;
    graphs.approve("b", "hi?").await;
    graphs
        .until_propagation(json!({"revision": 2, "held": 1, "current": 1}))
        .await;
    graphs.until_says("a", "hi!").await;
    // What somebody changes of it is put right where it is.
    let forged = json!({"data": {"greeting": "forged"}});
    graphs
        .change(&config_maps(), &key("a-second"), forged)
        .await;
    graphs.until_says("a", "hi!").await;
    let free = json!({"metadata": {"annotations": {keys::HOLD: null}}});
    graphs.change(&shops(), &key("a"), free).await;
    graphs.until_says("a", "hi?").await;
    let nothing = |object: &Value| object["status"]["propagation"].is_null();
    graphs
        .world
        .until(&api::definitions(), &rgd(), nothing)
        .await;
    graphs.end().await;
}

#[tokio::test]
async fn one_that_is_held_stays_and_lets_others_past() {
    let graphs = Graphs::start().await;
    graphs.define(gated("!")).await;
    for name in ["a", "b", "c"] {
        graphs.world.create(&shops(), shop(name)).await;
        graphs.approve(name, "hi!").await;
        graphs.until_state(name, "ACTIVE").await;
    }
    graphs.change(&shops(), &key("a"), hold(Some("true"))).await;
    // This time is over.
    graphs
        .change(&shops(), &key("b"), hold(Some("2020-01-01T00:00:00Z")))
        .await;
    graphs.redefine(&gated("?")).await;
    for name in ["b", "c"] {
        graphs.approve(name, "hi?").await;
    }
    graphs
        .until_propagation(json!({"revision": 2, "current": 2, "held": 1}))
        .await;
    let a = graphs.behind("a").await;
    assert!(kept(&a, "Held", "not moved to revision 2"), "{a}");
    // It is as it was, and that is well.
    assert_eq!(a["status"]["state"], "ACTIVE");
    assert!(condition(&a, "Ready", "True"));
    assert_eq!(graphs.greetings().await, ["hi!", "hi?", "hi?"]);
    let events = Resource::namespaced("", "v1", "events", "Event");
    let events = graphs.world.list(&events).await;
    let about = |one: &&Value| one["involvedObject"]["uid"] == a["metadata"]["uid"];
    let noted: Vec<&Value> = events.iter().filter(about).collect();
    assert_eq!(noted.len(), 1, "{noted:?}");
    assert_eq!(noted[0]["reason"], "Held");
    graphs.change(&shops(), &key("a"), hold(None)).await;
    graphs.approve("a", "hi?").await;
    graphs
        .until_propagation(json!({"current": 3, "held": 0}))
        .await;
    graphs.end().await;
}

#[tokio::test]
async fn who_runs_what_is_not_asked_while_no_revision_is_issued() {
    let mut graphs = Graphs::start().await;
    graphs.define(gated("0")).await;
    graphs.world.create(&shops(), shop("a")).await;
    graphs.approve("a", "hi0").await;
    graphs.until_state("a", "ACTIVE").await;
    graphs.annotate("a", keys::HOLD, json!("true")).await;
    let listed = Arc::new(AtomicUsize::new(0));
    let times = listed.clone();
    let lists = move |method: &Method, path: &str| {
        let is = method == Method::GET && path.ends_with("/shops");
        times.fetch_add(usize::from(is), Ordering::SeqCst);
        false
    };
    graphs.restart_refused(lists).await;
    for mark in 1..=12 {
        graphs.redefine(&gated(&mark.to_string())).await;
        let wanted = json!({"revision": mark + 1, "held": 1});
        graphs.until_propagation(wanted).await;
    }
    // The first is kept for the one that is held there, and the last ten.
    for (number, there) in [(1, true), (2, false), (4, true)] {
        let name = ObjectKey::cluster(&format!("shop-r{number:05}"));
        match there {
            true => drop(graphs.world.until(&api::revisions(), &name, |_| true).await),
            false => graphs.world.until_gone(&api::revisions(), &name).await,
        }
    }
    let third = ObjectKey::cluster("shop-r00003");
    graphs.world.until_gone(&api::revisions(), &third).await;
    // That revisions are gone may come later than what is said first.
    let mut asked = Vec::new();
    for _ in 0..3 {
        let before = listed.load(Ordering::SeqCst);
        for paused in [true, false, true] {
            let said = json!({"metadata": {"annotations": {keys::PAUSED: paused.to_string()}}});
            graphs.change(&api::definitions(), &rgd(), said).await;
            graphs.until_propagation(json!({ "paused": paused })).await;
        }
        asked.push(listed.load(Ordering::SeqCst) - before);
    }
    assert!(asked.contains(&0), "{asked:?}");
    graphs.end().await;
}

/// A definition that is not valid goes on moving to the revision before, and can be stopped.
#[tokio::test]
async fn nobody_moves_while_it_is_paused_although_it_is_not_valid() {
    let graphs = Graphs::start().await;
    graphs.define(gated("!")).await;
    for name in ["a", "b", "c"] {
        graphs.world.create(&shops(), shop(name)).await;
        graphs.approve(name, "hi!").await;
        graphs.until_state(name, "ACTIVE").await;
    }
    graphs.redefine(&gated("?")).await;
    graphs
        .until_propagation(json!({"revision": 2, "updating": 1, "pending": 2}))
        .await;
    let mut wrong = gated("?");
    wrong["spec"]["resources"][0]["template"]["metadata"]["name"] = json!("${nobody.spec.name}");
    graphs.redefine(&wrong).await;
    graphs.until_definition("GraphAccepted", "False").await;
    let definitions = api::definitions();
    graphs
        .change(&definitions, &rgd(), pause(Some("true")))
        .await;
    graphs.until_propagation(json!({"paused": true})).await;
    graphs.approve("a", "hi?").await;
    graphs
        .until_propagation(json!({"current": 1, "held": 2}))
        .await;
    assert_eq!(graphs.greetings().await, ["hi?", "hi!", "hi!"]);
    graphs.change(&definitions, &rgd(), pause(None)).await;
    graphs.until_says("b", "hi?").await;
    graphs.end().await;
}

/// Who waited only because another was held goes on when that one is not any more, whatever was
/// known of others by then.
#[tokio::test]
async fn the_last_that_is_held_no_more_lets_all_others_go_on() {
    let mut graphs = Graphs::start().await;
    graphs.define(saying("!")).await;
    for name in ["a", "b", "c"] {
        graphs.world.create(&shops(), shop(name)).await;
        graphs.approve(name, "hi!").await;
        graphs.until_state(name, "ACTIVE").await;
    }
    graphs.annotate("a", keys::HOLD, json!("true")).await;
    graphs.tasks.shutdown(GRACE).await.expect("a clean end");
    graphs.redefine(&saying("?")).await;
    // Of c nothing is known for as long as an answer does not come.
    let first = key("c-first");
    graphs
        .world
        .delete(&config_maps(), &first, "Background")
        .await;
    graphs.world.until_gone(&config_maps(), &first).await;
    let (answers, answered) = tokio::sync::watch::channel(false);
    let looked = Arc::new(tokio::sync::Notify::new());
    let (inner, looks) = (graphs.world.client.clone(), looked.clone());
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        if request.uri().path() == "/openapi/v3" {
            looks.notify_one();
        }
        let late = request.method() == Method::PATCH && request.uri().path().ends_with("/c-first");
        let (client, mut answered) = (inner.clone(), answered.clone());
        async move {
            if late {
                let _ = answered.wait_for(|answered| *answered).await;
            }
            client.send(request).await
        }
    });
    graphs
        .by_hand_with(kube::Client::new(service, "default"))
        .await;
    // All that makes for another look is over.
    looked.notified().await;
    graphs.world.hand.advance(Duration::from_secs(5));
    looked.notified().await;
    let waits = |object: &Value| kept(object, "GateClosed", "");
    graphs.world.until(&shops(), &key("b"), waits).await;
    graphs.annotate("a", keys::HOLD, Value::Null).await;
    graphs.until_says("a", "hi?").await;
    answers.send_replace(true);
    for name in ["b", "c"] {
        graphs.until_says(name, "hi?").await;
    }
    graphs.end().await;
}
