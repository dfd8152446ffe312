//! Graph definitions leave the hub when they compile there, and their instances follow them.

use deltaplane_api::identity::Identity;
use deltaplane_apiserver::seams::{
    Admission, Operation, Resource, Review, SubresourceRequest, VirtualSubresource,
};
use deltaplane_border::Reader;
use deltaplane_fleet::{DefinitionFindings, DefinitionProblem, Policing, PolicyPlan};
use deltaplane_sync::{Known, Presence, Request, Response, SyncKind, View};
use futures::FutureExt;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::facts::{connect, served};
use crate::governing::{KINDS, POLICIES, ZONES, at, config, governed, place, policy, release};
use crate::world::{World, name, object, synced, zone};

const DEFINITIONS: &str = "kro.run/resourcegraphdefinitions";

fn graphs() -> SyncKind {
    deltaplane_border::graphs()
}

fn shops() -> SyncKind {
    SyncKind::new("kro.run", "Shop").expect("legal")
}

/// A definition at a generation, and what the hub says of it.
fn graph(generation: i64, accepted: Option<(&str, i64)>) -> Value {
    let mut graph = object("ResourceGraphDefinition", "", "shop");
    graph["apiVersion"] = "kro.run/v1alpha1".into();
    graph["metadata"]["generation"] = generation.into();
    graph["spec"] = json!({"schema": {"kind": "Shop"}, "generation": generation});
    let condition = accepted.map(|(status, observed)| {
        json!([{
            "type": "GraphAccepted", "status": status, "observedGeneration": observed,
            "message": "resources[0]: no such kind",
        }])
    });
    graph["status"] = json!({"conditions": condition});
    graph
}

fn shop() -> Value {
    let mut shop = object("Shop", "", "first");
    shop["apiVersion"] = "kro.run/v1alpha1".into();
    shop
}

/// A hub with a zone, where graphs and shops cross.
async fn world() -> World {
    let world = World::new().await;
    world.put(ZONES, &object("Zone", "", "x")).await;
    cross(&world).await;
    world
}

async fn cross(world: &World) {
    for (plural, kind) in [
        ("resourcegraphdefinitions", "ResourceGraphDefinition"),
        ("shops", "Shop"),
    ] {
        let spec = json!({"group": "kro.run", "direction": "HubToZone"});
        let kind = synced(&format!("{plural}.kro.run"), kind, &spec);
        world.put(KINDS, &kind).await;
    }
}

/// The generation of the definition that zone x should have.
fn sent(world: &World) -> Result<i64, Presence> {
    let catalog = world.fleet.catalog().read();
    let zone = zone("x");
    let reader = Reader {
        catalog: &catalog,
        zone: Some(&zone),
    };
    match reader.presence(&graphs(), &name("shop")) {
        Presence::Wanted(item) => {
            let body: Value = serde_json::from_slice(&item.body).expect("JSON");
            Ok(body["spec"]["generation"].as_i64().expect("a number"))
        }
        other @ (Presence::Withdrawn(_) | Presence::Gone | Presence::Frozen) => Err(other),
    }
}

#[tokio::test]
async fn a_definition_that_does_not_compile_stays_at_the_hub() {
    let world = world().await;
    world.put(DEFINITIONS, &graph(1, None)).await;
    assert_eq!(sent(&world), Err(Presence::Frozen));
    world.put(DEFINITIONS, &graph(1, Some(("True", 1)))).await;
    assert_eq!(sent(&world), Ok(1));
    // What was said of the generation before says nothing of this one.
    world.put(DEFINITIONS, &graph(2, Some(("True", 1)))).await;
    assert_eq!(sent(&world), Err(Presence::Frozen));
    world.put(DEFINITIONS, &graph(2, Some(("False", 2)))).await;
    assert_eq!(sent(&world), Err(Presence::Frozen));
    let world = world.restart().await;
    assert_eq!(sent(&world), Err(Presence::Frozen));
    world.put(DEFINITIONS, &graph(3, Some(("True", 3)))).await;
    assert_eq!(sent(&world), Ok(3));
    world.delete(DEFINITIONS, &graph(3, None)).await;
    assert_eq!(sent(&world), Err(Presence::Gone));
}

#[tokio::test]
async fn a_relayed_definition_that_does_not_compile_stays_at_the_hub() {
    let world = world().await;
    let spec =
        json!({"group": "kro.run", "direction": "Both", "zoneAuthored": true, "acrossZones": true});
    let kind = "ResourceGraphDefinition";
    let kind = synced("resourcegraphdefinitions.kro.run", kind, &spec);
    world.put(KINDS, &kind).await;
    let from_zone = |generation, accepted| {
        let mut graph = graph(generation, accepted);
        graph["metadata"]["labels"] =
            json!({"deltaplane.io/origin": "zone", "deltaplane.io/zone": "y"});
        graph
    };
    for (accepted, expected) in [("False", Err(Presence::Frozen)), ("True", Ok(1))] {
        let graph = from_zone(1, Some((accepted, 1)));
        world.put(DEFINITIONS, &graph).await;
        assert_eq!(sent(&world), expected, "{accepted}");
    }
    world
        .put(DEFINITIONS, &from_zone(2, Some(("False", 2))))
        .await;
    assert_eq!(sent(&world), Err(Presence::Frozen));
}

#[tokio::test]
async fn a_definition_that_does_not_compile_holds_the_release_of_its_policy() {
    let world = governed().await;
    cross(&world).await;
    let targets = json!([{"group": "kro.run", "kind": "ResourceGraphDefinition"}]);
    let spec = json!({"targets": targets});
    world.put(POLICIES, &policy(&spec, &json!([]))).await;
    world.put(DEFINITIONS, &graph(1, Some(("False", 1)))).await;
    let problems = || world.fleet.look("web").expect("known").head.problems;
    let held = "ResourceGraphDefinition shop is not accepted at the hub and not released: resources[0]: no such kind";
    assert_eq!(problems(), [held]);
    world.put(DEFINITIONS, &graph(1, Some(("True", 1)))).await;
    assert_eq!(problems(), [""; 0]);
}

#[tokio::test]
async fn a_label_or_an_annotation_keeps_a_graph_at_the_hub() {
    let world = world().await;
    world.put(DEFINITIONS, &graph(1, Some(("True", 1)))).await;
    for marks in ["labels", "annotations"] {
        let mut kept = graph(1, Some(("True", 1)));
        kept["metadata"][marks] = json!({"kro.run/distribute": "false"});
        world.put(DEFINITIONS, &kept).await;
        assert!(
            matches!(sent(&world), Err(Presence::Withdrawn(_))),
            "{marks}"
        );
        kept["metadata"][marks] = json!({"kro.run/distribute": "true"});
        world.put(DEFINITIONS, &kept).await;
        assert_eq!(sent(&world), Ok(1), "{marks}");
    }
}

#[tokio::test]
async fn an_instance_goes_only_to_a_zone_that_has_its_graph() {
    let world = world().await;
    let mut kept = graph(1, Some(("True", 1)));
    kept["metadata"]["labels"] = json!({"kro.run/distribute": "false"});
    world.put(DEFINITIONS, &kept).await;
    world.put("kro.run/shops", &shop()).await;
    let session = connect(&world);
    let (asks, asked) = mpsc::channel(10);
    let (out, mut sent) = mpsc::channel::<Response>(10);
    let requests = futures::stream::unfold(asked, |mut asked| async {
        let request = asked.recv().await?;
        Some((Ok(request), asked))
    });
    let followed = async {
        for kind in [shops(), graphs()] {
            let known = Known::Versions {
                held: std::collections::BTreeMap::new(),
                sources: Vec::new(),
            };
            let subscribe = Request::Subscribe { kind, known };
            asks.send(subscribe).await.expect("asked");
        }
        // The hub takes in both, and could send the instance.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        world.put(DEFINITIONS, &graph(1, Some(("True", 1)))).await;
        let mut came = Vec::new();
        while came.len() < 2 {
            let response = sent.recv().await.expect("the stream goes on");
            if !response.items.is_empty() {
                came.push(response.kind.clone());
            }
            let ack = Request::Ack {
                kind: response.kind,
                nonce: response.nonce,
                rejected: Vec::new(),
            };
            asks.send(ack).await.expect("asked");
        }
        assert_eq!(came, [graphs(), shops()]);
    };
    tokio::select! {
        biased;
        ended = world.fleet.hub_to_zone(&session, requests, out) => panic!("it ended: {ended:?}"),
        () = followed => {}
    }
}

/// What must be in zone x before a shop.
fn needs(world: &World) -> Vec<String> {
    let catalog = world.fleet.catalog().read();
    let zone = zone("x");
    let reader = Reader {
        catalog: &catalog,
        zone: Some(&zone),
    };
    let needs = reader.needs(&shops(), &name("first")).into_iter();
    needs
        .map(|need| format!("{} {}", need.kind.kind(), need.name))
        .collect()
}

#[tokio::test]
async fn a_kind_that_no_graph_makes_any_more_needs_none() {
    let world = world().await;
    world.put(DEFINITIONS, &graph(1, Some(("True", 1)))).await;
    world.put("kro.run/shops", &shop()).await;
    let definition = "CustomResourceDefinition shops.kro.run";
    let graph_first = [definition, "ResourceGraphDefinition shop"];
    assert_eq!(needs(&world), graph_first);
    // Another definition of the same kind is not accepted.
    let mut rival = graph(1, Some(("False", 1)));
    rival["metadata"]["name"] = "rival".into();
    world.put(DEFINITIONS, &rival).await;
    assert_eq!(needs(&world), graph_first);
    world.delete(DEFINITIONS, &rival).await;
    world.delete(DEFINITIONS, &graph(1, None)).await;
    assert_eq!(needs(&world), [definition]);
}

/// What the hub warns of when a definition is written.
async fn warnings(world: &World, definition: &Value) -> Vec<String> {
    let mut written = definition.clone();
    let mut warnings = Vec::new();
    let review = Review {
        may: &|_| true,
        user: &Identity::authenticated("ann", &[]),
        operation: Operation::Create,
        resource: Resource {
            group: "kro.run",
            version: "v1alpha1",
            kind: "ResourceGraphDefinition",
            plural: "resourcegraphdefinitions",
            subresource: "",
            namespace: "",
            name: "shop",
        },
        object: &mut written,
        old: None,
        warnings: &mut warnings,
        dry_run: false,
    };
    let admitted = Policing(world.fleet.clone()).admit(review).await;
    assert!(admitted.is_ok());
    warnings
}

/// What the hub plans for the policy.
async fn plan(world: &World, change: &Value) -> Value {
    let body = bytes::Bytes::from(change.to_string());
    let request = SubresourceRequest {
        may: &|_| true,
        user: &Identity::default(),
        resource: Resource {
            group: "fleet.deltaplane.io",
            version: "v1alpha1",
            kind: "PropagationPolicy",
            plural: "propagationpolicies",
            subresource: "_plan",
            namespace: "",
            name: "web",
        },
        object: &Value::Null,
        method: &http::Method::POST,
        headers: &http::HeaderMap::new(),
        query: "",
        body: &body,
    };
    let answer = PolicyPlan(world.fleet.clone()).handle(request).await;
    let answer = answer.expect("a plan").into_body();
    let body = answer.collect().await.expect("a body").to_bytes();
    serde_json::from_slice(&body).expect("JSON")
}

#[tokio::test]
async fn who_writes_a_definition_that_does_not_compile_is_warned_and_can_plan() {
    let world = governed().await;
    cross(&world).await;
    let targets = json!([{"group": "kro.run", "kind": "ResourceGraphDefinition"}]);
    let spec = json!({"targets": targets});
    world.put(POLICIES, &policy(&spec, &json!([]))).await;
    assert_eq!(warnings(&world, &graph(1, None)).await, [""; 0]);
    world.fleet.check_definitions(Box::new(|definition| {
        let broken = definition["spec"]["generation"] == 2;
        let closed = definition["spec"]["generation"] == 3;
        let circle = definition["spec"]["generation"] == 4;
        let findings = DefinitionFindings {
            problem: broken
                .then(|| DefinitionProblem::DoesNotCompile("resources[0]: no such kind".to_owned()))
                .or(circle.then(|| DefinitionProblem::LeadsInACircle("A makes A".to_owned()))),
            warnings: closed
                .then(|| "false is never true".to_owned())
                .into_iter()
                .collect(),
        };
        async move { Some(findings) }.boxed()
    }));
    assert_eq!(warnings(&world, &graph(1, None)).await, [""; 0]);
    let expected =
        "the definition does not compile and stays at the hub: resources[0]: no such kind";
    assert_eq!(warnings(&world, &graph(2, None)).await, [expected]);
    let closed = warnings(&world, &graph(3, None)).await;
    assert_eq!(closed, ["false is never true"]);
    let circle = "the definition leads in a circle and stays at the hub: A makes A";
    assert_eq!(warnings(&world, &graph(4, None)).await, [circle]);
    let planned = plan(&world, &json!({"objects": [graph(2, Some(("True", 1)))]})).await;
    assert_eq!(
        (&planned["release"], &planned["waves"]),
        (&Value::Null, &Value::Null)
    );
    let problems = planned["problems"].to_string();
    assert!(
        problems.contains("resources[0]: no such kind"),
        "{problems}"
    );
    let planned = plan(&world, &json!({"objects": [graph(1, None)]})).await;
    assert_eq!(planned["release"], 1, "{planned}");
}

#[tokio::test]
async fn a_plan_tells_what_a_policy_without_its_approval_lets_go() {
    let world = governed().await;
    let spec = json!({"stages": [{"name": "all", "approval": "Required"}]});
    release(&world, 1, None).await;
    place(&world, json!([at("1", "x,y")])).await;
    world.put("configmaps", &config("2")).await;
    release(&world, 2, None).await;
    world
        .put(POLICIES, &policy(&spec, &json!([at("1", "x,y")])))
        .await;
    let unchanged = plan(&world, &json!({"objects": []})).await;
    assert_eq!(unchanged["release"], Value::Null);
    let without = json!({"stages": [{"name": "all"}]});
    let without = policy(&without, &json!([at("1", "x,y")]));
    let session = connect(&world);
    let mut planned = Value::Null;
    served(&world, &session, async |_| {
        planned = plan(&world, &json!({"policy": without})).await;
    })
    .await;
    assert_eq!(planned["release"], 2, "{planned}");
    let zones = planned["waves"].as_array().expect("waves").iter();
    let zones = zones.filter_map(|wave| wave["zones"]["count"].as_u64());
    // The other one is away.
    assert_eq!(zones.sum::<u64>(), 1, "{planned}");
    let first = &planned["waves"][0];
    assert_eq!(first["afterApproval"], false, "{planned}");
    assert!(!planned["hunks"].as_array().expect("hunks").is_empty());
}
