//! What a plan shows, and to whom.

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

use crate::governing::{WEB, at, config, governed, place, policy, release};
use crate::world::World;

/// Asks about the policy as somebody with these rights.
async fn ask(
    world: &World,
    (subresource, query): (&str, &str),
    posted: Option<&Value>,
    may: &UserRights<'_>,
) -> Result<Value, Error> {
    let object = policy(&json!({}), &json!([]));
    let body = posted.map(|one| serde_json::to_vec(one).expect("JSON"));
    let request = SubresourceRequest {
        user: &Identity::authenticated("ann", &[]),
        resource: Resource { subresource, ..WEB },
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
    let some = ask(&world, ("_plan", ""), Some(&change), &reads_nothing).await;
    let some = some.expect("a plan");
    assert_eq!(some["hunks"][0]["change"], "Changed");
    assert_eq!(some["hunks"][0]["fields"], json!([]));
    let why = some["hunks"][0]["message"].as_str().unwrap_or_default();
    assert!(why.contains("you may not get the object"), "{why}");
    // The same of what is in a release.
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
