//! A controller for a kind of its own: each `Team` has a ConfigMap, and leaves a note when it goes.

use std::fmt::Debug;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{self, Event, finalizer};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::wait::{Condition, await_condition, conditions};
use kube::runtime::{Controller, WatchStreamExt, watcher};
use kube::{Client, Resource, ResourceExt};
use serde_json::{Value, json};

use super::AGAIN;

const NAMESPACE: &str = "default";
const FINALIZER: &str = "teams.example.com/note";
const NOTES: &str = "team-notes";

/// What the reconciler needs.
struct World {
    client: Client,
    kind: ApiResource,
}

pub(super) async fn scenario(client: Client) {
    let kind = define(&client).await;
    let teams: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &kind);
    // One is there before the controller, others come later.
    create(&teams, &kind, "red", 1).await;
    let world = Arc::new(World {
        client: client.clone(),
        kind: kind.clone(),
    });
    let controller = Controller::new_with(teams.clone(), listing(), kind.clone())
        .owns(
            Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE),
            listing(),
        )
        .run(reconcile, |_, error, _| again(error), world);
    let informer = informer(&client);
    tokio::select! {
        () = story(&client, &teams, &kind) => {}
        () = controller.for_each(report) => panic!("the controller ended"),
        error = informer => panic!("the informer ended: {error:?}"),
    }
}

/// What fails is tried again; it is said for when the story does not go on.
async fn report<T, E: Debug>(result: Result<T, E>) {
    if let Err(error) = result {
        eprintln!("{error:?}");
    }
}

/// What a user does, and sees.
async fn story(client: &Client, teams: &Api<DynamicObject>, kind: &ApiResource) {
    let configs: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    until(&configs, "red-config", has("size", "1")).await;
    create(teams, kind, "blue", 5).await;
    let blue = until(&configs, "blue-config", has("size", "5"))
        .await
        .expect("there");
    let owner = &blue
        .metadata
        .owner_references
        .as_deref()
        .unwrap_or_default()[0];
    assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("Team", "blue"));
    assert_eq!(owner.controller, Some(true));

    let patch = Patch::Merge(json!({"spec": {"size": 2}}));
    teams
        .patch("red", &PatchParams::default(), &patch)
        .await
        .expect("patched");
    let red = until(&configs, "red-config", has("size", "2"))
        .await
        .expect("there");
    // What it owns comes back.
    configs
        .delete("red-config", &Default::default())
        .await
        .expect("deleted");
    let uid = red.uid().expect("it has one");
    let again =
        move |config: Option<&ConfigMap>| config.is_some_and(|it| it.uid() != Some(uid.clone()));
    let red = until(&configs, "red-config", again).await.expect("there");

    // The team goes after its note was written, and what it owned after the team.
    let team = teams.get("red").await.expect("there");
    let (team, config) = (
        team.uid().expect("it has one"),
        red.uid().expect("it has one"),
    );
    teams
        .delete("red", &Default::default())
        .await
        .expect("deleted");
    until(teams, "red", conditions::is_deleted(&team)).await;
    until(&configs, NOTES, has("red", "gone")).await;
    until(&configs, "red-config", conditions::is_deleted(&config)).await;
    until(&configs, "blue-config", has("size", "5")).await;
    configs
        .delete(NOTES, &Default::default())
        .await
        .expect("deleted");
}

async fn reconcile(
    team: Arc<DynamicObject>,
    world: Arc<World>,
) -> Result<Action, finalizer::Error<kube::Error>> {
    let teams: Api<DynamicObject> =
        Api::namespaced_with(world.client.clone(), NAMESPACE, &world.kind);
    finalizer(&teams, FINALIZER, team, |event| async {
        let configs: Api<ConfigMap> = Api::namespaced(world.client.clone(), NAMESPACE);
        let ours = PatchParams::apply("team-controller").force();
        let (name, patch) = match event {
            Event::Apply(team) => (
                format!("{}-config", team.name_any()),
                config(&team, &world.kind),
            ),
            Event::Cleanup(team) => (NOTES.to_owned(), note(&team.name_any())),
        };
        configs.patch(&name, &ours, &Patch::Apply(patch)).await?;
        Ok(Action::await_change())
    })
    .await
}

fn config(team: &DynamicObject, kind: &ApiResource) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"ownerReferences": [team.controller_owner_ref(kind)]},
        "data": {"size": team.data["spec"]["size"].to_string()},
    })
}

fn note(team: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {team: "gone"}})
}

/// An informer beside the controller; its cache must agree with what the server says.
async fn informer(client: &Client) -> watcher::Result<()> {
    let configs: Api<ConfigMap> = Api::all(client.clone());
    let (reader, writer) = reflector::store();
    let stream = watcher(configs.clone(), listing()).default_backoff();
    let mut events = std::pin::pin!(stream.reflect(writer));
    while let Some(event) = events.try_next().await? {
        if matches!(event, watcher::Event::InitDone) {
            let root = ObjectRef::new("kube-root-ca.crt").within(NAMESPACE);
            let cached = reader.get(&root).expect("in the cache");
            assert!(
                cached
                    .data
                    .as_ref()
                    .is_some_and(|data| data.contains_key("ca.crt"))
            );
        }
    }
    Ok(())
}

fn listing() -> watcher::Config {
    watcher::Config::default().streaming_lists()
}

fn again(_: &impl Debug) -> Action {
    Action::requeue(AGAIN)
}

fn has(key: &'static str, value: &'static str) -> impl Condition<ConfigMap> {
    move |config: Option<&ConfigMap>| {
        let data = config.and_then(|config| config.data.as_ref());
        data.and_then(|data| data.get(key))
            .is_some_and(|found| found == value)
    }
}

async fn until<K>(api: &Api<K>, name: &str, condition: impl Condition<K>) -> Option<K>
where
    K: Resource + Clone + Debug + Send + serde::de::DeserializeOwned + 'static,
{
    await_condition(api.clone(), name, condition)
        .await
        .expect("an answer")
}

async fn create(teams: &Api<DynamicObject>, kind: &ApiResource, name: &str, size: u32) {
    let team = DynamicObject::new(name, kind).data(json!({"spec": {"size": size}}));
    teams
        .create(&PostParams::default(), &team)
        .await
        .expect("created");
}

async fn define(client: &Client) -> ApiResource {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "teams.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "teams", "kind": "Team"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
            }}}],
        },
    });
    let definition: CustomResourceDefinition =
        serde_json::from_value(definition).expect("a definition");
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions
        .create(&PostParams::default(), &definition)
        .await
        .expect("created");
    until(
        &definitions,
        "teams.example.com",
        conditions::is_crd_established(),
    )
    .await;
    ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Team"))
}
