//! Rules of gates that it takes an API to see.

use std::collections::BTreeMap;

use deltaplane_api::keys;
use http::{Method, Request};
use kube::client::Body;
use parking_lot::Mutex;

use super::edits::most_moving;
use super::*;

impl Graphs {
    /// Instances that are ready, of a definition.
    async fn settled(definition: Value, names: &[&str]) -> Self {
        let graphs = Self::start().await;
        graphs.define(definition).await;
        for name in names {
            graphs.world.create(&shops(), shop(name)).await;
            graphs.approve(name, "hi!").await;
            graphs.until_state(name, "ACTIVE").await;
        }
        graphs
    }
}

/// The definition, whose instances move by this gate.
fn with_gate(mark: &str, gate: &str) -> Value {
    let mut definition = gated(mark);
    definition["spec"]["propagateWhen"] = json!([gate]);
    definition
}

#[tokio::test]
async fn a_gate_that_cannot_be_evaluated_is_closed_for_whom_it_cannot() {
    let gate = "1 / (shop.spec.name == 'a' ? 0 : 1) > 0";
    let graphs = Graphs::settled(with_gate("!", gate), &["a", "b"]).await;
    graphs.redefine(&with_gate("?", gate)).await;
    graphs.approve("b", "hi?").await;
    let wanted = json!({"revision": 2, "current": 1, "pending": 1});
    let told = graphs.until_propagation(wanted).await;
    let blocked = json!([{
        "instance": "default/a", "reason": "GateError",
        "message": format!("error: {gate}: division by zero"),
    }]);
    assert_eq!(told["blocked"], blocked);
    graphs.until_says("a", "hi!").await;
    graphs.end().await;
}

/// Nor if it is not asked, since the one before it is closed.
#[tokio::test]
async fn an_expression_that_was_mended_is_not_said_to_be_wrong() {
    let by_one = |mark: &str, then: &str| {
        let mut definition = gated(mark);
        definition["spec"]["propagateWhen"] = json!(["linearlyReady(shop, shops, 1)", then]);
        definition
    };
    let wrong = "1 / (shop.spec.name == 'b' ? 0 : 1) > 0";
    let graphs = Graphs::settled(by_one("!", wrong), &["a", "b"]).await;
    graphs.redefine(&by_one("?", wrong)).await;
    graphs.approve("a", "hi?").await;
    let because = async |reason: &str, why: &str| {
        let about = "ResourcesPropagated";
        graphs.until_told("b", about, reason, why).await;
    };
    because("GateError", "division by zero").await;
    graphs.redefine(&by_one(".", "true")).await;
    graphs.until_says("a", "hi.").await;
    because("GateClosed", "revision 3 yet").await;
    graphs.end().await;
}

#[tokio::test]
async fn a_node_whose_gate_cannot_be_evaluated_says_so() {
    let graphs = Graphs::start().await;
    let mut definition = definition();
    definition["spec"]["resources"][0]["propagateWhen"] = json!(["int(schema.spec.name) > 0"]);
    graphs.define(definition).await;
    graphs.world.create(&shops(), shop("a")).await;
    let kept = |object: &Value| condition(object, "ResourcesPropagated", "False");
    let a = graphs.world.until(&shops(), &key("a"), kept).await;
    let conditions = a["status"]["conditions"].as_array().expect("conditions");
    let mut conditions = conditions.iter();
    let told = conditions.find(|one| one["type"] == "ResourcesPropagated");
    let told = told.expect("it is told");
    assert_eq!(told["reason"], "GateError", "{told}");
    let first = graphs.world.get(&config_maps(), &key("a-first")).await;
    assert_eq!(first, None);
    graphs.end().await;
}

#[tokio::test]
async fn instances_move_in_the_order_that_the_definition_gives() {
    let ordered = |mark: &str| {
        let mut definition = gated(mark);
        definition["spec"]["orderBy"] = json!("shop.spec.name == 'b' ? 1 : 2");
        definition
    };
    let graphs = Graphs::settled(ordered("!"), &["a", "b", "c"]).await;
    graphs.redefine(&ordered("?")).await;
    graphs.until_says("b", "hi?").await;
    let wanted = json!({"revision": 2, "updating": 1, "pending": 2});
    let told = graphs.until_propagation(wanted).await;
    assert_eq!(told["blocked"][0]["instance"], "default/a");
    assert_eq!(told["blocked"][1]["instance"], "default/c");
    assert_eq!(graphs.greetings().await, ["hi!", "hi?", "hi!"]);
    graphs.end().await;
}

#[tokio::test]
async fn a_revision_that_an_instance_runs_is_kept_however_old_it_is() {
    let mut graphs = Graphs::settled(gated("!"), &["a", "b"]).await;
    let held = json!({"metadata": {"annotations": {keys::HOLD: "true"}}});
    graphs.change(&shops(), &key("a"), held).await;
    // More than are kept otherwise.
    for number in 2..=13 {
        let mark = format!("-{number}");
        graphs.redefine(&gated(&mark)).await;
        graphs.approve("b", &format!("hi{mark}")).await;
        let wanted = json!({"revision": number, "current": 1, "held": 1});
        graphs.until_propagation(wanted).await;
    }
    let second = ObjectKey::cluster("shop-r00002");
    graphs.world.until_gone(&api::revisions(), &second).await;
    graphs.restart().await;
    let forged = json!({"data": {"greeting": "forged"}});
    graphs
        .change(&config_maps(), &key("a-second"), forged)
        .await;
    graphs.until_says("a", "hi!").await;
    graphs.end().await;
}

#[tokio::test]
async fn an_invalid_definition_stops_nobody_who_moves() {
    let graphs = Graphs::midway().await;
    let most = most_moving(&graphs.world.client, &["hi?"], async {
        let mut broken = gated("?");
        broken["spec"]["resources"][0]["template"]["data"] = json!({"greeting": "${nobody.spec}"});
        graphs.redefine(&broken).await;
        graphs.until_definition("GraphAccepted", "False").await;
        graphs.approve_all("hi?").await;
        let wanted = json!({"revision": 2, "current": 3});
        graphs.until_propagation(wanted).await;
    });
    assert_eq!(most.await, 1);
    graphs.end().await;
}

#[tokio::test]
async fn what_is_paused_on_its_way_arrives_and_nobody_follows() {
    let mut graphs = Graphs::midway().await;
    let paused = |said: Value| json!({"metadata": {"annotations": {keys::PAUSED: said}}});
    let client = graphs.world.client.clone();
    let most = most_moving(&client, &["hi?"], async {
        let definitions = api::definitions();
        graphs
            .change(&definitions, &rgd(), paused(json!("true")))
            .await;
        let wanted = json!({"paused": true, "updating": 1, "held": 2});
        graphs.until_propagation(wanted).await;
        graphs.approve("a", "hi?").await;
        let wanted = json!({"paused": true, "current": 1, "held": 2});
        graphs.until_propagation(wanted).await;
        graphs.restart().await;
        graphs
            .change(&definitions, &rgd(), paused(json!(null)))
            .await;
        graphs.approve_all("hi?").await;
        graphs.until_propagation(json!({"current": 3})).await;
    });
    assert_eq!(most.await, 1);
    graphs.end().await;
}

/// Letting go of it would otherwise be one too many.
#[tokio::test]
async fn one_that_is_held_on_its_way_keeps_its_place() {
    let mut graphs = Graphs::midway().await;
    let client = graphs.world.client.clone();
    let most = most_moving(&client, &["hi?", "hi."], async {
        graphs.annotate("a", keys::HOLD, json!("true")).await;
        // It is at the second revision, and held there.
        graphs.redefine(&gated(".")).await;
        let wanted = json!({"revision": 3, "updating": 1, "pending": 2});
        graphs.until_propagation(wanted).await;
        graphs.restart().await;
        graphs.until_propagation(json!({"revision": 3})).await;
        let forged = json!({"data": {"greeting": "forged"}});
        graphs
            .change(&config_maps(), &key("b-second"), forged)
            .await;
        graphs.until_says("b", "hi!").await;
        assert_eq!(graphs.greetings().await, ["hi?", "hi!", "hi!"]);
        // Once it is ready it is in nobody's way.
        graphs.approve("a", "hi?").await;
        tokio::join!(graphs.approve("b", "hi."), graphs.approve("c", "hi."));
        graphs
            .until_propagation(json!({"current": 2, "held": 1}))
            .await;
        graphs.annotate("a", keys::HOLD, json!(null)).await;
        graphs.approve("a", "hi.").await;
        graphs.until_propagation(json!({"current": 3})).await;
    });
    assert_eq!(most.await, 1);
    graphs.end().await;
}

#[tokio::test]
async fn one_that_is_suspended_is_held() {
    let graphs = Graphs::settled(gated("!"), &["a", "b", "c"]).await;
    let suspended = json!("suspended");
    graphs.annotate("a", "kro.run/reconcile", suspended).await;
    graphs.redefine(&gated("?")).await;
    tokio::join!(graphs.approve("b", "hi?"), graphs.approve("c", "hi?"));
    let wanted = json!({"revision": 2, "current": 2, "held": 1, "updating": 0});
    graphs.until_propagation(wanted).await;
    assert_eq!(graphs.greetings().await, ["hi!", "hi?", "hi?"]);
    graphs.annotate("a", "kro.run/reconcile", json!(null)).await;
    graphs.approve("a", "hi?").await;
    graphs.until_propagation(json!({"current": 3})).await;
    graphs.end().await;
}

/// Those that wait can be deleted, too, and with all of them what there was to decide is gone.
#[tokio::test]
async fn all_may_be_deleted_on_the_way() {
    let mut graphs = Graphs::midway().await;
    graphs.world.delete(&shops(), &key("c"), "Background").await;
    graphs.world.until_gone(&shops(), &key("c")).await;
    let wanted = json!({"instances": 2, "updating": 1, "pending": 1});
    graphs.until_propagation(wanted).await;
    for name in ["a", "b"] {
        graphs
            .world
            .delete(&shops(), &key(name), "Background")
            .await;
    }
    graphs.restart().await;
    for name in ["a", "b"] {
        graphs.world.until_gone(&shops(), &key(name)).await;
    }
    let wanted = json!({"instances": 0, "updating": 0, "pending": 0});
    graphs.until_propagation(wanted).await;
    // Nobody has reached anything: the newest is all there is.
    graphs.world.create(&shops(), shop("d")).await;
    graphs.approve("d", "hi?").await;
    graphs.until_state("d", "ACTIVE").await;
    graphs.end().await;
}

/// What was written to which object, in the order of it.
type Log = Arc<Mutex<Vec<(String, String)>>>;

/// A client like this one, that notes who is written, and what in it.
fn noting(client: kube::Client, log: Log) -> kube::Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, log) = (client.clone(), log.clone());
        async move {
            let (head, body) = request.into_parts();
            let bytes = body.collect_bytes().await.map_err(std::io::Error::other)?;
            if head.method != Method::GET {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                log.lock().push((head.uri.path().to_owned(), text));
            }
            let request = Request::from_parts(head, Body::from(bytes));
            client.send(request).await.map_err(std::io::Error::other)
        }
    });
    kube::Client::new(service, "default")
}

/// That it may move is written on an instance before anything of it is what it moves to.
#[tokio::test]
async fn what_is_admitted_is_written_before_it_is_touched() {
    let mut graphs = Graphs::settled(gated("!"), &["a", "b", "c"]).await;
    graphs.tasks.shutdown(GRACE).await.expect("a clean end");
    let log = Log::default();
    let client = noting(graphs.world.client.clone(), log.clone());
    (graphs.tasks, graphs.requests) = run_with(client);
    graphs.redefine(&gated("?")).await;
    graphs.approve_all("hi?").await;
    graphs.until_propagation(json!({"current": 3})).await;
    let mut admitted: BTreeMap<String, usize> = BTreeMap::new();
    let mut touched: BTreeMap<String, usize> = BTreeMap::new();
    for (at, (path, text)) in log.lock().iter().enumerate() {
        let name = path.rsplit('/').next().unwrap_or_default();
        if path.ends_with(&format!("/shops/{name}")) && text.contains("\"admitted/2/") {
            admitted.entry(name.to_owned()).or_insert(at);
        }
        if let Some(name) = name.strip_suffix("-second")
            && text.contains("hi?")
        {
            touched.entry(name.to_owned()).or_insert(at);
        }
    }
    assert_eq!(touched.len(), 3, "{:?}", log.lock());
    for (name, at) in touched {
        let before = admitted.get(&name).copied();
        assert!(before.is_some_and(|before| before < at), "{name}");
    }
    graphs.end().await;
}
