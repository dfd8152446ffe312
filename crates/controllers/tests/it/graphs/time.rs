//! Gates that time opens, by a clock that is moved by hand.

use super::*;

/// One by one, and each ten minutes after those before it were ready.
fn soaking(mark: &str) -> Value {
    let mut definition = gated(mark);
    definition["spec"]["propagateWhen"] = json!([
        "linearlyReady(shop, shops, 1)",
        "shops.all(one, !one.updated() || readyFor(one, '10m'))",
    ]);
    definition
}

const TICK: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);

impl Graphs {
    /// From now on by a clock that is moved by hand.
    pub(super) async fn by_hand(&mut self) {
        let client = self.world.client.clone();
        self.by_hand_with(client).await;
    }

    pub(super) async fn by_hand_with(&mut self, client: kube::Client) {
        self.tasks.shutdown(GRACE).await.expect("a clean end");
        let context = self.world.context();
        (self.tasks, self.requests) = run_in(Context { client, ..context });
        // What is tried again is so by this clock, too: it goes on like any other.
        let hand = self.world.hand.clone();
        self.tasks.spawn("tick", |stop| async move {
            let mut tick = tokio::time::interval(TICK);
            let ticking = async {
                loop {
                    tick.tick().await;
                    hand.advance(TICK);
                }
            };
            stop.unless(ticking).await;
        });
    }
}

#[tokio::test]
async fn a_gate_that_time_opens_opens_when_it_is_time() {
    let mut graphs = Graphs::start().await;
    graphs.define(soaking("!")).await;
    for name in ["a", "b", "c"] {
        graphs.world.create(&shops(), shop(name)).await;
        graphs.approve(name, "hi!").await;
        graphs.until_state(name, "ACTIVE").await;
    }
    graphs
        .until_propagation(json!({"revision": 1, "current": 3}))
        .await;
    graphs.by_hand().await;
    graphs.redefine(&soaking("?")).await;
    graphs.approve("a", "hi?").await;
    let wanted = json!({"revision": 2, "current": 1, "pending": 2});
    let told = graphs.until_propagation(wanted).await;
    assert!(told["lookAgainAt"].is_string(), "{told}");
    graphs.world.hand.advance(9 * MINUTE);
    // Something happens, and it is looked again.
    graphs
        .change(&shops(), &key("c"), json!({"spec": {"greeting": "hey"}}))
        .await;
    graphs.approve("c", "hey!").await;
    graphs
        .until_propagation(json!({"current": 1, "pending": 2}))
        .await;
    // Had it been let go it would not be put right to what it was.
    graphs.mends("b", "hi!").await;
    assert_eq!(graphs.greetings().await, ["hi?", "hi!", "hey!"]);
    graphs.world.hand.advance(MINUTE);
    graphs.approve("b", "hi?").await;
    graphs
        .until_propagation(json!({"current": 2, "pending": 1}))
        .await;
    graphs.end().await;
}

#[tokio::test]
async fn one_that_is_held_until_a_time_moves_then() {
    let mut graphs = Graphs::start().await;
    graphs.define(gated("!")).await;
    graphs.world.create(&shops(), shop("a")).await;
    graphs.approve("a", "hi!").await;
    graphs.until_state("a", "ACTIVE").await;
    graphs.by_hand().await;
    let until = std::time::SystemTime::now() + 60 * MINUTE;
    let until = deltaplane_api::time::Time::from_system(until).to_string();
    let held = json!({"metadata": {"annotations": {"deltaplane.io/hold": until}}});
    graphs.change(&shops(), &key("a"), held).await;
    graphs.redefine(&gated("?")).await;
    let told = graphs
        .until_propagation(json!({"revision": 2, "held": 1}))
        .await;
    assert_eq!(told["lookAgainAt"], until);
    graphs.world.hand.advance(61 * MINUTE);
    graphs.until_says("a", "hi?").await;
    graphs.end().await;
}

#[tokio::test]
async fn that_a_status_cannot_be_written_does_not_begin_the_time_anew() {
    let mut graphs = Graphs::start().await;
    graphs.define(soaking("!")).await;
    for name in ["a", "b", "c"] {
        graphs.world.create(&shops(), shop(name)).await;
        graphs.approve(name, "hi!").await;
        graphs.until_state(name, "ACTIVE").await;
    }
    let refused = Arc::new(AtomicBool::new(false));
    let asked = Arc::new(AtomicUsize::new(0));
    let times = asked.clone();
    let status = move |_: &Method, path: &str| {
        let is = path.ends_with("/shops/a/status");
        times.fetch_add(usize::from(is), Ordering::SeqCst);
        is
    };
    let client = refusing(graphs.world.client.clone(), status, refused.clone());
    graphs.by_hand_with(client).await;
    graphs.redefine(&soaking("?")).await;
    graphs.approve("a", "hi?").await;
    let wanted = json!({"revision": 2, "current": 1, "pending": 2});
    graphs.until_propagation(wanted).await;
    graphs.world.hand.advance(6 * MINUTE);
    // Somebody forges what is told of it, and it cannot be put right at once.
    refused.store(true, Ordering::SeqCst);
    let before = asked.load(Ordering::SeqCst);
    let path = format!("{}/status", shops().object_path(&key("a")));
    let forged = json!({"status": {"state": "FORGED"}});
    let forged = request::patch::<Value>(&graphs.world.client, &path, Patch::Merge, &forged);
    forged.await.expect("forged");
    while asked.load(Ordering::SeqCst) < before + 2 {
        tokio::time::sleep(TICK).await;
    }
    refused.store(false, Ordering::SeqCst);
    graphs.until_state("a", "ACTIVE").await;
    graphs.world.hand.advance(5 * MINUTE);
    graphs.until_says("b", "hi?").await;
    graphs.end().await;
}

/// Gates of both scales that open in a far future.
fn far_off(mark: &str) -> Value {
    let gate = json!(["time.now() - timestamp('2100-01-01T00:00:00Z') > duration('1h')"]);
    let mut definition = gated(mark);
    definition["spec"]["propagateWhen"] = gate.clone();
    let late = json!({"id": "late", "propagateWhen": gate, "template": {
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "${schema.spec.name}-late"},
    }});
    let resources = definition["spec"]["resources"].as_array_mut();
    resources.expect("a list").push(late);
    definition
}

#[tokio::test]
async fn nothing_is_written_while_only_the_time_goes_on() {
    let mut graphs = Graphs::start().await;
    graphs.define(far_off("!")).await;
    graphs.by_hand().await;
    graphs.world.create(&shops(), shop("a")).await;
    graphs.approve("a", "hi!").await;
    graphs.redefine(&far_off("?")).await;
    let wanted = json!({"revision": 2, "pending": 1});
    graphs.until_propagation(wanted).await;
    let behind = |object: &Value| {
        let shown = object["status"]["conditions"].to_string();
        condition(object, "ResourcesPropagated", "False") && shown.contains("revision 2")
    };
    graphs.world.until(&shops(), &key("a"), behind).await;
    graphs.until_definition("Ready", "True").await;
    let second = ObjectKey::cluster("shop-r00002");
    let verified = |object: &Value| condition(object, "GraphVerified", "True");
    let revisions = api::revisions();
    graphs.world.until(&revisions, &second, verified).await;
    // What was told of it is written with its events when it is put right.
    graphs.mend("a", 0).await;
    let before = graphs.world.store.revision();
    for round in 1..=5 {
        graphs.world.hand.advance(MINUTE);
        // It is decided about and passed over again, since something changed.
        graphs.annotate("a", "note", json!(round.to_string())).await;
        graphs.mend("a", round).await;
    }
    // What was changed, and what was put right.
    let since = graphs.world.store.revision().get() - before.get();
    assert_eq!(since, 3 * 5);
    graphs.end().await;
}

/// Who may not read Secrets, and has no gates that need them, asks once.
#[tokio::test]
async fn what_is_refused_and_not_needed_is_not_asked_again() {
    let mut graphs = Graphs::start().await;
    graphs.define(definition()).await;
    graphs.active("a").await;
    let asked = Arc::new(AtomicUsize::new(0));
    let times = asked.clone();
    let reads = move |_: &Method, path: &str| {
        let is = path.ends_with("/secrets");
        times.fetch_add(usize::from(is), Ordering::SeqCst);
        is
    };
    let refused = Arc::new(AtomicBool::new(true));
    let client = refusing(graphs.world.client.clone(), reads, refused.clone());
    graphs.by_hand_with(client).await;
    for time in 1..=5 {
        graphs.mend("a", time).await;
        graphs.world.hand.advance(60 * MINUTE);
    }
    graphs.mend("a", 6).await;
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    // A gate needs them.
    refused.store(false, Ordering::SeqCst);
    let mut late = far_off("!");
    late["spec"]["propagateWhen"] = json!([]);
    graphs.redefine(&late).await;
    graphs.until_says("a", "hi!").await;
    let gated = |object: &Value| condition(object, "ResourcesPropagated", "False");
    graphs.world.until(&shops(), &key("a"), gated).await;
    graphs.end().await;
}
