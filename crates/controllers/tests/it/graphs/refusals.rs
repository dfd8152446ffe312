//! What the API does not allow is told, and stops nothing else.

use super::*;

impl Graphs {
    /// An instance that says this of something that stands like that.
    pub(super) async fn until_told(&self, name: &str, r#type: &str, reason: &str, message: &str) {
        let is = |object: &Value| {
            let all = object["status"]["conditions"].as_array();
            let mut all = all.into_iter().flatten();
            all.any(|one| {
                let said = one["message"].as_str().unwrap_or_default();
                one["type"] == r#type && one["reason"] == reason && said.contains(message)
            })
        };
        self.world.until(&shops(), &key(name), is).await;
    }
}

fn is_patch(method: &Method, path: &str, of: &str) -> bool {
    method == Method::PATCH && path.contains(of) && !path.ends_with("/status")
}

#[tokio::test]
async fn an_instance_whose_finalizer_is_refused_says_so_and_makes_nothing() {
    let mut graphs = Graphs::start().await;
    graphs.define(definition()).await;
    let refused = graphs
        .restart_refused(|method, path| is_patch(method, path, "/shops/a"))
        .await;
    graphs.world.create(&shops(), shop("a")).await;
    graphs
        .until_told("a", "InstanceManaged", "ManagementFailed", "no (403")
        .await;
    graphs.active("b").await;
    let made = graphs.world.get(&config_maps(), &key("a-first")).await;
    assert_eq!(made, None);
    refused.store(false, Ordering::SeqCst);
    graphs.open("a").await;
    graphs.until_state("a", "ACTIVE").await;
    graphs.end().await;
}

#[tokio::test]
async fn what_gates_decided_is_kept_before_anything_is_made() {
    let mut graphs = Graphs::rooms_of("hi").await;
    let refused = graphs
        .restart_refused(|method, path| is_patch(method, path, "/secrets/"))
        .await;
    let change = json!({"spec": {"greeting": "ho"}});
    graphs.change(&shops(), &key("shop"), change).await;
    graphs
        .until_told(
            "shop",
            "ResourcesPropagated",
            "GateError",
            "cannot be kept: ",
        )
        .await;
    assert_eq!(graphs.greetings().await, ["hi", "hi", "hi"]);
    refused.store(false, Ordering::SeqCst);
    for name in ["a", "b", "c"] {
        graphs.approve(name, "ho").await;
    }
    graphs.until_state("shop", "ACTIVE").await;
    graphs.end().await;
}

#[tokio::test]
async fn what_may_not_be_deleted_keeps_nothing_else_from_it() {
    let mut graphs = Graphs::start().await;
    let mut graph = definition();
    graphs.define(graph.clone()).await;
    graphs.active("a").await;
    let refused = graphs
        .restart_refused(|method, path| method == Method::DELETE && path.contains("configmaps"))
        .await;
    graph["spec"]["schema"]["status"]["greets"] = json!("${first.data.greeting}");
    let resources = graph["spec"]["resources"].as_array_mut();
    resources.expect("a list").drain(1..);
    graphs.redefine(&graph).await;
    graphs.world.until_gone(&services(), &key("a-second")).await;
    let why = "ConfigMap default/a-second may not be deleted: ";
    graphs
        .until_told("a", "ResourcesReady", "NotReady", why)
        .await;
    graphs.world.delete(&shops(), &key("a"), "Background").await;
    graphs
        .until_told(
            "a",
            "ResourcesReady",
            "UnderDeletion",
            "may not be deleted: ",
        )
        .await;
    refused.store(false, Ordering::SeqCst);
    graphs.world.until_gone(&shops(), &key("a")).await;
    for name in ["a-first", "a-second"] {
        let left = graphs.world.get(&config_maps(), &key(name)).await;
        assert_eq!(left, None, "{name}");
    }
    graphs.end().await;
}

impl Graphs {
    /// Has the definition looked at now, however often that failed.
    async fn look_again(&self) {
        let note = json!({"metadata": {"annotations": {"note": "look"}}});
        self.change(&api::definitions(), &rgd(), note).await;
    }

    /// A definition of which a condition says this.
    async fn until_defined(&self, r#type: &str, reason: &str, message: &str) -> Value {
        let is = |object: &Value| {
            let all = object["status"]["conditions"].as_array();
            let mut all = all.into_iter().flatten();
            all.any(|one| {
                let said = one["message"].as_str().unwrap_or_default();
                one["type"] == r#type && one["reason"] == reason && said.contains(message)
            })
        };
        self.world.until(&api::definitions(), &rgd(), is).await
    }
}

#[tokio::test]
async fn a_revision_that_is_refused_is_told_and_stops_nothing() {
    let mut graphs = Graphs::start().await;
    graphs.define(definition()).await;
    graphs.active("a").await;
    graphs.tasks.shutdown(GRACE).await.expect("a clean end");
    let mut other = definition();
    other["spec"]["resources"][1]["template"]["data"]["greeting"] =
        json!("${first.data.greeting}?");
    graphs.redefine(&other).await;
    let refused = Arc::new(AtomicBool::new(true));
    let creates =
        |method: &Method, path: &str| method == Method::POST && path.ends_with("/graphrevisions");
    let client = refusing(graphs.world.client.clone(), creates, refused.clone());
    (graphs.tasks, graphs.requests) = run_with(client);
    let why = "cannot be kept as a revision: no (403";
    graphs
        .until_defined("GraphRevisionsResolved", "RevisionRefused", why)
        .await;
    // What was in force is, after a restart as before it.
    graphs.mend("a", 1).await;
    graphs.world.delete(&shops(), &key("a"), "Background").await;
    graphs.world.until_gone(&shops(), &key("a")).await;
    refused.store(false, Ordering::SeqCst);
    graphs.look_again().await;
    graphs.until_definition("Ready", "True").await;
    graphs.end().await;
}

#[tokio::test]
async fn that_old_revisions_may_not_be_deleted_is_told_and_stops_nothing() {
    let mut graphs = Graphs::start().await;
    graphs.define(gated("0")).await;
    graphs.world.create(&shops(), shop("a")).await;
    let deletes =
        |method: &Method, path: &str| method == Method::DELETE && path.contains("/graphrevisions/");
    let refused = graphs.restart_refused(deletes).await;
    for mark in 1..=11 {
        graphs.redefine(&gated(&mark.to_string())).await;
        graphs
            .until_propagation(json!({"revision": mark + 1}))
            .await;
    }
    let why = "cannot be taken on or deleted: no (403";
    graphs
        .until_defined("GraphRevisionsTidied", "Refused", why)
        .await;
    graphs.until_definition("Ready", "True").await;
    graphs.tasks.shutdown(GRACE).await.expect("a clean end");
    let client = refusing(graphs.world.client.clone(), deletes, refused.clone());
    (graphs.tasks, graphs.requests) = run_with(client);
    graphs.approve("a", "hi11").await;
    // What it came from is needed until then.
    let arrived = |object: &Value| admission_of(object) == "arrived/12";
    graphs.world.until(&shops(), &key("a"), arrived).await;
    refused.store(false, Ordering::SeqCst);
    graphs.look_again().await;
    let first = ObjectKey::cluster("shop-r00001");
    graphs.world.until_gone(&api::revisions(), &first).await;
    let tidied = |object: &Value| {
        let shown = object["status"]["conditions"].to_string();
        !shown.contains("GraphRevisionsTidied")
    };
    graphs
        .world
        .until(&api::definitions(), &rgd(), tidied)
        .await;
    graphs.end().await;
}

/// A server that has other words for it each time is not asked again for that.
#[tokio::test]
async fn what_is_refused_in_other_words_each_time_is_tried_no_more_often() {
    let mut graphs = Graphs::start().await;
    graphs.define(definition()).await;
    graphs.tasks.shutdown(GRACE).await.expect("a clean end");
    let times = Arc::new(AtomicUsize::new(0));
    let (inner, counted) = (graphs.world.client.clone(), times.clone());
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let refused = is_patch(
            request.method(),
            request.uri().path(),
            "/configmaps/a-first",
        );
        let (client, counted) = (inner.clone(), counted.clone());
        async move {
            if !refused {
                return client.send(request).await;
            }
            let port = counted.fetch_add(1, Ordering::SeqCst);
            let message = format!("failed calling webhook: read 10.0.0.4:{port}: reset");
            let status = json!({"code": 500, "reason": "InternalError", "message": message});
            let body = kube::client::Body::from(status.to_string().into_bytes());
            let answer = http::Response::builder().status(500).body(body);
            Ok(answer.expect("an answer"))
        }
    });
    let hour = Duration::from_secs(3600);
    let mut pace = deltaplane_client::Pace::system();
    (pace.backoff.first, pace.backoff.longest) = (hour, hour);
    let client = kube::Client::new(service, "default");
    let context = Context { client, pace };
    (graphs.tasks, graphs.requests) = run_in(context);
    graphs.world.create(&shops(), shop("a")).await;
    let told = |object: &Value| object["status"]["conditions"].to_string().contains("reset");
    graphs.world.until(&shops(), &key("a"), told).await;
    for number in 0..20 {
        let name = format!("b{number}");
        graphs.world.create(&shops(), shop(&name)).await;
        let begun = |object: &Value| object["metadata"]["finalizers"].is_array();
        graphs.world.until(&shops(), &key(&name), begun).await;
    }
    let times = times.load(Ordering::SeqCst);
    assert!(times < 6, "{times} times");
    // What somebody changes is tried at once.
    let change = json!({"spec": {"greeting": "ho"}});
    graphs.change(&shops(), &key("a"), change).await;
    let generation = |object: &Value| object["status"]["conditions"][0]["observedGeneration"] == 2;
    graphs.world.until(&shops(), &key("a"), generation).await;
    graphs.end().await;
}
