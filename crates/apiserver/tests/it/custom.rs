//! Custom kinds: from a definition to objects that are defaulted, pruned and checked.

use serde_json::{Value, json};

use crate::harness::Server;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// A definition with everything that a version can have.
pub(crate) fn definition() -> Value {
    let schema = json!({"openAPIV3Schema": {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["color"],
                "properties": {
                    "color": {"type": "string", "enum": ["red", "blue"]},
                    "size": {"type": "integer", "minimum": 1, "default": 3},
                    "replicas": {"type": "integer"},
                    "port": {"x-kubernetes-int-or-string": true},
                    "parts": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object",
                            "required": ["name"],
                            "properties": {"name": {"type": "string"}, "n": {"type": "integer"}},
                        },
                    },
                },
            },
            "status": {"type": "object", "properties": {
                "replicas": {"type": "integer"},
                "ready": {"type": "boolean"},
            }},
        },
    }});
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage, "schema": schema,
            "subresources": {
                "status": {},
                "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
            },
            "selectableFields": [{"jsonPath": ".spec.color"}],
            "additionalPrinterColumns": [
                {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
                {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            ],
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [version("v1", true), version("v2", false)],
        },
    })
}

/// What the definitions' controller does: accepts the names and establishes the kind.
pub(crate) async fn establish(server: &Server, name: &str) {
    say(
        server,
        name,
        json!([{"type": "Established", "status": "True"}]),
    )
    .await;
}

async fn say(server: &Server, name: &str, conditions: Value) {
    let path = format!("{DEFINITIONS}/{name}");
    let mut stored = server.get(&path).await.expect(200);
    let names = stored["spec"]["names"].clone();
    stored["status"]["acceptedNames"] = names;
    stored["status"]["conditions"] = conditions;
    server
        .put(&format!("{path}/status"), &stored)
        .await
        .expect(200);
}

pub(crate) async fn with_widgets() -> Server {
    with_widgets_on(Server::start().await).await
}

pub(crate) async fn with_widgets_on(server: Server) -> Server {
    server.post(DEFINITIONS, &definition()).await.expect(201);
    establish(&server, "widgets.example.com").await;
    server
}

fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

/// Before anyone reads that it is established.
#[tokio::test]
async fn a_kind_is_served_when_it_has_its_names() {
    let server = Server::start().await;
    server.post(DEFINITIONS, &definition()).await.expect(201);
    let conditions = |accepted: &str| json!([{"type": "NamesAccepted", "status": accepted}, {"type": "Established", "status": "False"}]);
    say(&server, "widgets.example.com", conditions("False")).await;
    server.get(WIDGETS).await.refused(404);
    say(&server, "widgets.example.com", conditions("True")).await;
    server.get(WIDGETS).await.expect(200);
    server.get("/apis/example.com/v1").await.expect(200);
}

#[tokio::test]
async fn a_kind_is_served_from_the_moment_it_is_established() {
    let server = Server::start().await;
    server.post(DEFINITIONS, &definition()).await.expect(201);
    server.get(WIDGETS).await.refused(404);
    establish(&server, "widgets.example.com").await;
    assert_eq!(server.get(WIDGETS).await.expect(200)["kind"], "WidgetList");
    let discovered = server.get("/apis/example.com/v1").await.expect(200);
    let names: Vec<&str> = discovered["resources"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    assert_eq!(names, ["widgets", "widgets/scale", "widgets/status"]);
    let group = server.get("/apis/example.com").await.expect(200);
    assert_eq!(group["preferredVersion"]["version"], "v2");
    let document = server
        .get("/openapi/v3/apis/example.com/v1")
        .await
        .expect(200);
    let schema = &document["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(
        schema["properties"]["spec"]["properties"]["size"]["minimum"],
        1
    );
}

#[tokio::test]
async fn objects_are_defaulted_pruned_and_checked() {
    let server = with_widgets().await;
    let spec = json!({"color": "red", "unknown": 1, "port": "http"});
    let created = server.post(WIDGETS, &widget("a", spec)).await.expect(201);
    assert_eq!(
        created["spec"],
        json!({"color": "red", "size": 3, "port": "http"})
    );
    assert_eq!(created["metadata"]["generation"], 1);

    let cases = [
        (json!({}), "spec.color: Required value"),
        (
            json!({"color": "green"}),
            "spec.color: Unsupported value: \"green\": supported values: \"red\", \"blue\"",
        ),
        (
            json!({"color": "red", "size": 0}),
            "spec.size in body should be greater than or equal to 1",
        ),
        (
            json!({"color": "red", "parts": [{"name": "x"}, {"name": "x"}]}),
            "spec.parts[1]: Duplicate value: {\"name\":\"x\"}",
        ),
        (
            json!({"color": "red", "size": "big"}),
            "spec.size: Invalid value: \"string\"",
        ),
    ];
    for (spec, expected) in cases {
        let refused = server.post(WIDGETS, &widget("b", spec)).await.refused(422);
        assert!(refused.contains(expected), "{refused}");
    }
}

#[tokio::test]
async fn unknown_fields_are_dropped_warned_of_or_refused() {
    let server = with_widgets().await;
    let odd = widget("a", json!({"color": "red", "unknown": 1}));
    let strict = server
        .post(&format!("{WIDGETS}?fieldValidation=Strict"), &odd)
        .await
        .refused(400);
    assert!(
        strict.contains("strict decoding error: unknown field \"spec.unknown\""),
        "{strict}"
    );
    let warned = server
        .post(&format!("{WIDGETS}?fieldValidation=Warn"), &odd)
        .await;
    assert_eq!(
        warned.headers["warning"],
        "299 - \"unknown field \\\"spec.unknown\\\"\""
    );
    warned.expect(201);
    let twice = r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"b"},"spec":{"color":"red","color":"blue"}}"#;
    let path = format!("{WIDGETS}?fieldValidation=Strict");
    let refused = server
        .send(
            http::Method::POST,
            &path,
            "application/json",
            twice.as_bytes(),
        )
        .await;
    assert!(
        refused
            .refused(400)
            .contains("duplicate field \"spec.color\"")
    );
}

#[tokio::test]
async fn status_and_the_rest_have_one_writer_each() {
    let server = with_widgets().await;
    let mut object = widget("a", json!({"color": "red", "replicas": 2}));
    object["status"] = json!({"ready": true});
    let created = server.post(WIDGETS, &object).await.expect(201);
    assert!(created.get("status").is_none(), "creating sets no status");
    let path = format!("{WIDGETS}/a");

    let patch = json!({"spec": {"color": "blue"}, "status": {"ready": true}});
    let status = server
        .patch(&format!("{path}/status"), "merge", &patch)
        .await
        .expect(200);
    assert_eq!(
        (&status["spec"]["color"], &status["status"]["ready"]),
        (&json!("red"), &json!(true))
    );
    assert_eq!(status["metadata"]["generation"], 1, "status does not count");

    let patch = json!({"spec": {"color": "blue"}, "status": {"ready": false}});
    let main = server.patch(&path, "merge", &patch).await.expect(200);
    assert_eq!(
        (&main["spec"]["color"], &main["status"]["ready"]),
        (&json!("blue"), &json!(true))
    );
    assert_eq!(main["metadata"]["generation"], 2);

    let scale = server.get(&format!("{path}/scale")).await.expect(200);
    assert_eq!(
        (&scale["kind"], &scale["spec"]["replicas"]),
        (&json!("Scale"), &json!(2))
    );
    let patch = json!({"spec": {"replicas": 5}});
    server
        .patch(&format!("{path}/scale"), "merge", &patch)
        .await
        .expect(200);
    assert_eq!(server.get(&path).await.expect(200)["spec"]["replicas"], 5);
}

#[tokio::test]
async fn every_version_shows_the_same_object() {
    let server = with_widgets().await;
    server
        .post(WIDGETS, &widget("a", json!({"color": "red"})))
        .await
        .expect(201);
    let path = "/apis/example.com/v2/namespaces/default/widgets/a";
    let second = server.get(path).await.expect(200);
    assert_eq!(second["apiVersion"], "example.com/v2");
    let mut changed = second.clone();
    changed["spec"]["color"] = json!("blue");
    server.put(path, &changed).await.expect(200);
    let first = server.get(&format!("{WIDGETS}/a")).await.expect(200);
    assert_eq!(
        (&first["apiVersion"], &first["spec"]["color"]),
        (&json!("example.com/v1"), &json!("blue"))
    );
    let mut watch = server
        .watch("/apis/example.com/v2/namespaces/default/widgets?watch=1")
        .await;
    let event = watch.next().await.expect("an event");
    assert_eq!(event["object"]["apiVersion"], "example.com/v2");
}

#[tokio::test]
async fn a_new_default_shows_in_objects_that_were_stored_before() {
    let server = with_widgets().await;
    server
        .post(WIDGETS, &widget("a", json!({"color": "red"})))
        .await
        .expect(201);
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let mut stored = server.get(&path).await.expect(200);
    for version in stored["spec"]["versions"].as_array_mut().expect("a list") {
        let properties =
            &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        properties["shape"] = json!({"type": "string", "default": "round"});
    }
    server.put(&path, &stored).await.expect(200);
    let shown = server.get(&format!("{WIDGETS}/a")).await.expect(200);
    assert_eq!(shown["spec"]["shape"], "round");
    let listed = server.get(WIDGETS).await.expect(200);
    assert_eq!(listed["items"][0]["spec"]["shape"], "round");
}

#[tokio::test]
async fn watches_end_when_the_kind_changes_and_no_sooner() {
    let server = with_widgets().await;
    let mut watch = server.watch(&format!("{WIDGETS}?watch=1")).await;
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    server.patch(&path, "merge", &label).await.expect(200);
    let condition = json!([{"op": "add", "path": "/status/conditions/-",
        "value": {"type": "Sunny", "status": "True"}}]);
    let status = format!("{path}/status");
    server.patch(&status, "json", &condition).await.expect(200);
    // One that is to end would say so now; if there were something to tell, it would tell that first.
    let quiet = futures::poll!(Box::pin(watch.next())).is_pending();
    assert!(quiet);
    let red = json!({"color": "red"});
    server.post(WIDGETS, &widget("a", red)).await.expect(201);
    assert_eq!(watch.brief().await, "ADDED a");

    let column = json!([{"op": "replace", "path": "/spec/versions/0/additionalPrinterColumns",
        "value": []}]);
    server.patch(&path, "json", &column).await.expect(200);
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn tables_and_selectors_use_the_definitions_fields() {
    let server = with_widgets().await;
    server
        .post(WIDGETS, &widget("a", json!({"color": "red"})))
        .await
        .expect(201);
    server
        .post(WIDGETS, &widget("b", json!({"color": "blue", "size": 7})))
        .await
        .expect(201);
    let table = server
        .accept(WIDGETS, "application/json;as=Table;v=v1;g=meta.k8s.io")
        .await
        .expect(200);
    let names: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    assert_eq!(names, ["Name", "Color", "Size"]);
    assert_eq!(table["rows"][1]["cells"], json!(["b", "blue", 7]));
    let selected = server
        .get(&format!("{WIDGETS}?fieldSelector=spec.color%3Dblue"))
        .await
        .expect(200);
    assert_eq!(selected["items"].as_array().map(Vec::len), Some(1));
    let refused = server
        .get(&format!("{WIDGETS}?fieldSelector=spec.size%3D7"))
        .await
        .refused(400);
    assert!(
        refused.contains("field label not supported: spec.size"),
        "{refused}"
    );
}

#[tokio::test]
async fn broken_definitions_are_refused_whole() {
    let server = Server::start().await;
    let mut broken = definition();
    broken["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        ["color"] = json!({"enum": ["red"]});
    let refused = server.post(DEFINITIONS, &broken).await.refused(422);
    assert!(
        refused.contains("properties[color].type: Required value"),
        "{refused}"
    );
    server
        .get(&format!("{DEFINITIONS}/widgets.example.com"))
        .await
        .refused(404);
}
