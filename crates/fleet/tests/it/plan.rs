//! What a plan shows, and to whom.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use deltaplane_api::identity::Identity;
use deltaplane_apiserver::Error;
use deltaplane_apiserver::seams::{
    Access, Resource, SubresourceRequest, UserRights, VirtualSubresource,
};
use deltaplane_fleet::{PolicyPlan, PolicyRollout};
use http::{HeaderMap, Method};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::governing::{POLICIES, WEB, at, config, governed, place, policy, release};
use crate::world::World;

/// Nobody waits so long for what works.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks about the policy as somebody with these rights.
async fn ask(
    world: &World,
    asked: (&str, &str),
    posted: Option<&Value>,
    may: &UserRights<'_>,
) -> Result<Value, Error> {
    ask_about(world, (WEB, asked), posted, may).await
}

/// Returns what a change would do with what a policy governs.
async fn plan_of(world: &World, policy: &str, change: &Value) -> Value {
    let of = Resource {
        name: policy,
        ..WEB
    };
    let planned = ask_about(world, (of, ("_plan", "")), Some(change), &|_| true).await;
    planned.expect("a plan")
}

async fn ask_about(
    world: &World,
    (of, (subresource, query)): (Resource<'_>, (&str, &str)),
    posted: Option<&Value>,
    may: &UserRights<'_>,
) -> Result<Value, Error> {
    let object = policy(&json!({}), &json!([]));
    let body = posted.map(|one| serde_json::to_vec(one).expect("JSON"));
    let request = SubresourceRequest {
        user: &Identity::authenticated("ann", &[]),
        resource: Resource { subresource, ..of },
        object: &object,
        method: if posted.is_some() {
            &Method::POST
        } else {
            &Method::GET
        },
        headers: &HeaderMap::new(),
        query,
        body: &Bytes::from(body.unwrap_or_default()),
        may,
    };
    let answer = match subresource {
        "_plan" => PolicyPlan(world.fleet.clone()).handle(request).await?,
        _ => PolicyRollout(world.fleet.clone()).handle(request).await?,
    };
    let body = answer.into_body().collect().await.expect("a body");
    Ok(serde_json::from_slice(&body.to_bytes()).expect("JSON"))
}

fn reads_nothing(access: Access<'_>) -> bool {
    access.verb != "get"
}

#[tokio::test]
async fn content_is_shown_to_those_who_may_get_the_object() {
    let world = governed().await;
    release(&world, 1, None).await;
    place(&world, json!([at("1", "x y")])).await;
    let change = json!({"objects": [config("2")]});
    let all = ask(&world, ("_plan", ""), Some(&change), &|_| true).await;
    let all = all.expect("a plan");
    assert_eq!(all["hunks"][0]["fields"][0]["before"], "\"1\"", "{all}");
    assert!(!PolicyPlan(world.fleet.clone()).writes());
    let some = ask(&world, ("_plan", ""), Some(&change), &reads_nothing).await;
    let some = some.expect("a plan");
    assert_eq!(
        (&some["objects"], &some["hunks"], &some["hidden"]),
        (&json!([]), &json!([]), &json!(1))
    );
    assert_eq!(all["hidden"], 0);
    // In a release objects are named, and have no content.
    let release = ("_rollout", "release=1");
    let all = ask(&world, release, None, &|_| true).await.expect("shown");
    assert_ne!(all["shown"]["hunks"][0]["fields"], json!([]), "{all}");
    let some = ask(&world, release, None, &reads_nothing).await;
    assert_eq!(
        some.expect("shown")["shown"]["hunks"][0]["fields"],
        json!([])
    );
}

/// Otherwise a patch that tests a value would tell it bit by bit.
#[tokio::test]
async fn plans_of_policies_need_the_rights_of_their_authors() {
    let world = governed().await;
    release(&world, 1, None).await;
    let patch = json!([{"op": "test", "path": "/data/value", "value": "1"}]);
    let posted = policy(&json!({"overrides": [{ "patch": patch }]}), &json!([]));
    let change = json!({ "policy": posted });
    let denied = ask(&world, ("_plan", ""), Some(&change), &|_| false).await;
    let why = denied.expect_err("it is refused").to_string();
    assert!(why.contains("you cannot update ConfigMap"), "{why}");
    ask(&world, ("_plan", ""), Some(&change), &|_| true)
        .await
        .expect("a plan");
}

/// Objects that a policy would take, and those that an override does not fit, were named to whoever
/// could post a plan.
#[tokio::test]
async fn objects_that_may_not_be_read_are_counted_and_not_named() {
    let world = governed().await;
    release(&world, 1, None).await;
    let change = json!({ "policy": misfit() });
    let all = ask(&world, ("_plan", ""), Some(&change), &|_| true).await;
    let all = all.expect("a plan").to_string();
    assert!(
        all.contains("cannot be applied to ConfigMap team/a"),
        "{all}"
    );
    let some = ask(&world, ("_plan", ""), Some(&change), &reads_nothing).await;
    let some = some.expect("a plan");
    let problem = &some["problems"][0];
    assert_eq!(problem, "an object that you may not read has a problem");
    assert!(!some.to_string().contains("team"), "{some}");
    // Nor is what another spec lets go.
    let mut other = policy(&json!({}), &json!([]));
    other["spec"]["targets"] = json!([{"kind": "Secret"}]);
    let change = json!({ "policy": other });
    let all = ask(&world, ("_plan", ""), Some(&change), &|_| true).await;
    let all = all.expect("a plan");
    assert_eq!(all["objects"][0]["change"], "LetGo", "{all}");
    let some = ask(&world, ("_plan", ""), Some(&change), &reads_nothing).await;
    let some = some.expect("a plan");
    assert_eq!((&some["objects"], &some["hidden"]), (&json!([]), &json!(1)));
    assert!(!some.to_string().contains("team"), "{some}");
}

/// A policy with an override that the governed object does not fit.
fn misfit() -> Value {
    let patch = json!([{"op": "replace", "path": "/data/missing", "value": "1"}]);
    let targets = json!([{"kind": "ConfigMap"}]);
    let overrides = json!([{"targets": targets, "patch": patch}]);
    policy(&json!({ "overrides": overrides }), &json!([]))
}

/// Overrides were tried while the state of all policies was locked.
#[tokio::test]
async fn others_read_policies_while_a_plan_is_made() {
    let world = governed().await;
    release(&world, 1, None).await;
    let change = json!({ "policy": misfit() });
    let asked = AtomicUsize::new(0);
    let may = |access: Access<'_>| {
        if access.verb == "get" {
            asked.fetch_add(1, Ordering::Relaxed);
            let (done, others) = mpsc::channel();
            let fleet = world.fleet.clone();
            std::thread::spawn(move || done.send(fleet.troubles("web")));
            others.recv_timeout(PATIENCE).expect("policies can be read");
        }
        true
    };
    ask(&world, ("_plan", ""), Some(&change), &may)
        .await
        .expect("a plan");
    assert!(asked.into_inner() > 0, "nobody asked who may read");
}

/// One worker that makes a plan, and still what it should have run is run.
#[test]
fn a_plan_leaves_the_worker_to_other_tasks() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let planned = runtime.spawn(async {
        let world = governed().await;
        release(&world, 1, None).await;
        let change = json!({ "policy": misfit() });
        let may = |access: Access<'_>| {
            if access.verb == "get" {
                let (done, others) = mpsc::channel();
                tokio::runtime::Handle::current().spawn(async move { done.send(()) });
                others.recv_timeout(PATIENCE).expect("the worker is free");
            }
            true
        };
        ask(&world, ("_plan", ""), Some(&change), &may).await
    });
    let planned = runtime.block_on(planned).expect("it ended");
    planned.expect("a plan");
}

/// The object stays with the policy from which zones have it, and the plan must say so.
#[tokio::test]
async fn a_plan_says_which_of_several_policies_keeps_an_object() {
    let world = governed().await;
    let spec = json!({"stages": [{"name": "rest", "approval": "Required"}]});
    let mut web = policy(&spec, &json!([at("1", "x y")]));
    web["metadata"]["creationTimestamp"] = "2026-02-01T00:00:00Z".into();
    world.put(POLICIES, &web).await;
    release(&world, 1, None).await;
    let spec =
        json!({"targets": [{"kind": "ConfigMap", "selector": {"matchLabels": {"lane": "fast"}}}]});
    let mut fast = policy(&spec, &json!([]));
    fast["metadata"]["name"] = "fast".into();
    fast["metadata"]["uid"] = "fast".into();
    fast["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    world.put(POLICIES, &fast).await;
    let mut both = config("2");
    both["metadata"]["labels"]["lane"] = "fast".into();
    let mut moves = both.clone();
    moves["metadata"]["labels"] = json!({"lane": "fast"});
    for (object, change) in [(both, "Changed"), (moves, "Departing")] {
        let change_of = async |policy: &str| {
            let change = json!({"objects": [object]});
            let planned = plan_of(&world, policy, &change).await;
            planned["objects"][0].clone()
        };
        let told = change_of("web").await;
        assert_eq!(
            (&told["governedBy"], &told["change"]),
            (&"web".into(), &change.into()),
            "{told}"
        );
        assert_eq!(change_of("fast").await["governedBy"], "web");
    }
}
