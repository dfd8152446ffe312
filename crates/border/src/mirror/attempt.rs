//! Requests of a mirror, tried again while it is the API that fails and not the object.

use deltaplane_client::feed::{self, Query};
use deltaplane_client::request::{self, RequestError};
use deltaplane_client::{Pace, Resource};
use deltaplane_sync::{MADE_FOR, MANAGER, SyncKind, ZoneName};
use kube::Client;
use serde_json::{Value, json};

use super::drift::Marked;

/// After so many tries the object is rejected, which delays the next try further.
const TRIES: u32 = 5;

/// Does it until it is done, or it is clear that it will not be.
pub(super) async fn repeat<T, F>(pace: &Pace, mut act: impl FnMut() -> F) -> Result<T, String>
where
    F: Future<Output = Result<T, RequestError>>,
{
    let mut tries = 0;
    loop {
        tries += 1;
        match act().await {
            Ok(done) => return Ok(done),
            Err(error) if tries < TRIES && may_pass(&error) => {
                pace.rest(tries, error.retry_after()).await;
            }
            Err(error) => return Err(reason(&error)),
        }
    }
}

/// What was applied to an object that is going will go with it, whenever its finalizers let it: the
/// new one has to wait.
pub(super) fn stays(applied: Marked) -> Result<Marked, String> {
    match applied.is_going() {
        false => Ok(applied),
        true => Err(
            "the object of this name that is here is being deleted, and its finalizers keep it; it is tried again"
                .to_owned(),
        ),
    }
}

/// An object, if it is there.
pub(super) async fn get(client: &Client, pace: &Pace, path: &str) -> Result<Option<Value>, String> {
    repeat(pace, || async {
        match request::get(client, path).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    })
    .await
}

/// All objects of a kind with these labels.
pub(super) async fn list(
    client: &Client,
    resource: &Resource,
    labels: &str,
) -> Result<Vec<Value>, String> {
    let mut objects = Vec::new();
    let query = Query::metadata(resource.clone()).with_labels(labels);
    let listed = feed::list(client, &query, |item| objects.extend(item.parse().ok())).await;
    match listed {
        Ok(()) => Ok(objects),
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        Err(error) => Err(reason(&error)),
    }
}

/// Where an API serves a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedKind {
    /// Another than the one that was asked for where that is none, or is of another kind.
    pub plural: String,
    pub version: String,
}

/// Returns where the API serves a kind, if it does: under this plural where that is the kind's, and
/// of the versions that have the kind in the one that the API prefers. A group's preferred version
/// need not have all of its kinds. A plural that is of another kind is never returned.
pub async fn served_kind(
    client: &Client,
    kind: &SyncKind,
    plural: &str,
) -> Result<Option<ServedKind>, String> {
    let mut renamed = None;
    for (version, path) in versions(client, kind.group()).await? {
        let served = discovered(client, &path).await?.unwrap_or_default();
        let resources = served["resources"].as_array().into_iter().flatten();
        let resources = resources.filter(|one| one["kind"] == kind.kind());
        let plurals = resources.filter_map(|one| one["name"].as_str());
        // Subresources are listed with the kinds that they take.
        let plurals: Vec<&str> = plurals.filter(|name| !name.contains('/')).collect();
        let found = |plural: &str| ServedKind {
            plural: plural.to_owned(),
            version: version.clone(),
        };
        if plurals.contains(&plural) {
            return Ok(Some(found(plural)));
        }
        renamed = renamed.or_else(|| plurals.first().copied().map(found));
    }
    Ok(renamed)
}

/// The versions of a group and where the API says what they have; the one that it prefers is first.
async fn versions(client: &Client, group: &str) -> Result<Vec<(String, String)>, String> {
    if group.is_empty() {
        return Ok(vec![("v1".to_owned(), "/api/v1".to_owned())]);
    }
    let path = format!("/apis/{group}");
    let found = discovered(client, &path).await?.unwrap_or_default();
    let preferred = found["preferredVersion"]["version"].as_str();
    let versions = found["versions"].as_array().into_iter().flatten();
    let versions = versions.filter_map(|version| version["version"].as_str());
    let others = versions.filter(|version| Some(*version) != preferred);
    let versions = preferred.into_iter().chain(others);
    let versions = versions.map(|version| (version.to_owned(), format!("{path}/{version}")));
    Ok(versions.collect())
}

/// What the API says of itself there; nothing if it serves nothing there.
async fn discovered(client: &Client, path: &str) -> Result<Option<Value>, String> {
    match request::get::<Value>(client, path).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(reason(&error)),
    }
}

/// Waits until a definition is in force: what it defines is sent as soon as it is acknowledged.
pub(super) async fn established(client: &Client, pace: &Pace, path: &str) -> Result<(), String> {
    for tries in 1..=TRIES {
        let definition = get(client, pace, path).await?.unwrap_or_default();
        match in_force(&definition) {
            InForce::Yes => return Ok(()),
            InForce::Never(reason) => return Err(reason),
            InForce::NotYet if tries == TRIES => {}
            InForce::NotYet => pace.rest(tries, None).await,
        }
    }
    Err("the definition was stored, but the API does not serve it yet".to_owned())
}

enum InForce {
    Yes,
    NotYet,
    Never(String),
}

fn in_force(definition: &Value) -> InForce {
    let conditions = definition["status"]["conditions"].as_array();
    let is = |kind: &str, status: &str| {
        let mut conditions = conditions.into_iter().flatten();
        conditions.find(|one| one["type"] == kind && one["status"] == status)
    };
    match (is("Established", "True"), is("NamesAccepted", "False")) {
        (Some(_), _) => InForce::Yes,
        (None, Some(refused)) => {
            let message = refused["message"].as_str().unwrap_or_default();
            InForce::Never(format!("the definition's names are taken here: {message}"))
        }
        (None, None) => InForce::NotYet,
    }
}

/// Makes a namespace that an object of a zone needs, so that one can tell who made it, and why.
pub(super) async fn create_namespace(
    client: &Client,
    namespace: &str,
    zone: &ZoneName,
) -> Result<(), RequestError> {
    let labels = json!({MADE_FOR: zone.as_str()});
    let object = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": namespace, "labels": labels},
    });
    let path = format!("/api/v1/namespaces?fieldManager={MANAGER}");
    match request::create::<Value>(client, &path, &object).await {
        Err(error) if !error.is_conflict() => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Whether it may work when tried again soon.
fn may_pass(error: &RequestError) -> bool {
    match error {
        RequestError::Unreachable(_) => true,
        RequestError::Refused(refusal) => {
            // A definition that has just come is served a moment later.
            refusal.is_kind_not_served() || matches!(refusal.code, 409 | 429 | 500..)
        }
        RequestError::Answer(_) | RequestError::Request(_) => false,
    }
}

/// What is said of the object that could not be applied.
fn reason(error: &RequestError) -> String {
    match error {
        RequestError::Refused(refusal) if refusal.is_kind_not_served() => {
            format!(
                "its kind is not served here, at least not in this version: {}",
                refusal.message
            )
        }
        RequestError::Refused(refusal) => refusal.message.clone(),
        RequestError::Unreachable(source) => format!("{error}: {source}"),
        RequestError::Answer(source) => format!("{error}: {source}"),
        RequestError::Request(source) => format!("{error}: {source}"),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use deltaplane_api::identity::Identity;
    use deltaplane_client::in_process;
    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    #[tokio::test]
    async fn a_kind_is_found_in_the_version_that_has_it_and_never_as_another_kind() {
        let server = tower::service_fn(|request: Request<Body>| async move {
            let resource = |name: &str, kind: &str| json!({"name": name, "kind": kind});
            let said = match request.uri().path() {
                "/api/v1" => json!({"resources": [
                    resource("configmaps", "ConfigMap"),
                    resource("pods/eviction", "Eviction"),
                    resource("secrets", "Secret"),
                ]}),
                "/apis/example.com" => json!({
                    "preferredVersion": {"version": "v2"},
                    "versions": [{"version": "v2"}, {"version": "v1"}],
                }),
                "/apis/example.com/v2" => json!({"resources": [resource("gadgets", "Gadget")]}),
                "/apis/example.com/v1" => json!({"resources": [
                    resource("gadgets", "Gadget"),
                    resource("widgets", "Widget"),
                ]}),
                _ => {
                    let page = Response::builder().status(404);
                    let page = page.body("404 page not found".to_owned());
                    return Ok(page.expect("a response"));
                }
            };
            Ok::<_, Infallible>(Response::new(said.to_string()))
        });
        let client = in_process(server, Identity::authenticated("sync", &[]));
        for (group, kind, plural, expected) in [
            ("", "ConfigMap", "configmaps", Some(("configmaps", "v1"))),
            ("", "ConfigMap", "configmap", Some(("configmaps", "v1"))),
            ("", "ConfigMap", "secrets", Some(("configmaps", "v1"))),
            ("", "Eviction", "secrets", None),
            ("example.com", "Gadget", "gadgets", Some(("gadgets", "v2"))),
            ("example.com", "Widget", "widgets", Some(("widgets", "v1"))),
            ("example.com", "Widget", "gadgets", Some(("widgets", "v1"))),
            ("example.com", "Other", "gadgets", None),
            ("example.org", "Widget", "widgets", None),
        ] {
            let kind = SyncKind::new(group, kind).expect("legal");
            let found = served_kind(&client, &kind, plural).await;
            let expected = expected.map(|(plural, version)| ServedKind {
                plural: plural.to_owned(),
                version: version.to_owned(),
            });
            assert_eq!(found, Ok(expected), "{kind} as {plural}");
        }
    }

    #[tokio::test]
    async fn a_namespace_says_for_which_zone_it_was_made() {
        let server = tower::service_fn(|request: Request<Body>| async move {
            let body = request.into_body().collect_bytes().await.expect("read");
            let object: Value = serde_json::from_slice(&body).expect("JSON");
            let made = object["metadata"]["labels"] == json!({"deltaplane.io/made-for": "eu-1"});
            let code = if made { 201 } else { 422 };
            let answer = Response::builder().status(code).body(object.to_string());
            Ok::<_, Infallible>(answer.expect("a response"))
        });
        let client = in_process(server, Identity::authenticated("sync", &[]));
        let zone = "eu-1".parse().expect("legal");
        let made = create_namespace(&client, "team", &zone).await;
        made.expect("with the label");
    }

    #[test]
    fn definitions_come_into_force() {
        let check = |conditions: Value, expected: &str| {
            let definition = json!({"status": {"conditions": conditions}});
            let found = match in_force(&definition) {
                InForce::Yes => "yes".to_owned(),
                InForce::NotYet => "not yet".to_owned(),
                InForce::Never(reason) => reason,
            };
            assert_eq!(found, expected);
        };
        check(json!(null), "not yet");
        check(
            json!([{"type": "Established", "status": "False"}]),
            "not yet",
        );
        check(json!([{"type": "Established", "status": "True"}]), "yes");
        let taken = json!([
            {"type": "NamesAccepted", "status": "False", "message": "\"widgets\" is in use"},
            {"type": "Established", "status": "False"},
        ]);
        check(
            taken,
            "the definition's names are taken here: \"widgets\" is in use",
        );
    }
}
