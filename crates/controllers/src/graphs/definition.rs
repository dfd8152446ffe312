//! One definition: compiled, its kind served, its revisions kept, its status told.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use deltaplane_api::admission::{DELETIONS_HELD, Point};
use deltaplane_api::conditions;
use deltaplane_api::time::Time;
use deltaplane_client::{ObjectKey, RequestError, request};
use deltaplane_graph::{Graph, Owner, labels};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::api;
use super::conditions::{Condition, FOREIGN, written};
use super::instance::PRODUCT;
use super::revision::{self, Issue, Revision};
use super::served::{self, Past};
use crate::Context;
use crate::queue::Failure;

/// How far a definition is.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    pub(super) accepted: Accepted,
    pub(super) kind: Kind,
    pub(super) revision: Option<i64>,
    /// Why what it says now cannot be kept as a revision.
    pub(super) unkept: Option<String>,
    /// Why old revisions cannot be tidied up, which stops nothing.
    pub(super) untidied: Option<String>,
    /// Why instances cannot be followed.
    pub(super) hindered: Option<String>,
}

/// Whether a definition is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Accepted {
    Valid,
    /// All that is wrong.
    Invalid(String),
    /// It cannot be told now, and why.
    Unknown(String),
    /// It is not what somebody wrote, and why.
    Lost(String),
    /// It names an account that it may not act as, and why.
    AccountRefused(String),
}

/// How it stands with the kind that a definition makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is served, as the definition says.
    Ready,
    /// It is not served yet.
    Pending,
    Failed(String),
    /// The API does not take it now.
    Refused(String),
}

/// Who makes the kinds of graphs.
pub(super) const MANAGER: &str = "kro.run/definitions";

/// Sees to it that the kind is served as the graph has it. What is there now is given, and what the
/// definition was.
pub(super) async fn serve(
    context: &Context,
    definition: &Value,
    graph: &Graph,
    there: Option<&Value>,
    past: &Past,
) -> Result<Kind, Failure> {
    let text = |field: &str| definition["metadata"][field].as_str().unwrap_or_default();
    let mut wanted = graph.owned_crd(Owner {
        name: text("name"),
        id: text("uid"),
        version: PRODUCT,
    });
    let crd = wanted["metadata"]["name"].as_str().unwrap_or_default();
    let path = api::custom_kinds().object_path(&ObjectKey::cluster(crd));
    // What does not carry our labels is not followed, and may be there.
    let there = match there {
        Some(there) => Some(Cow::Borrowed(there)),
        None => match find(context, &path).await {
            Ok(there) => there.map(Cow::Owned),
            Err(failure) => {
                let refused = failure.lasting().map(Kind::Refused);
                return refused.ok_or(failure);
            }
        },
    };
    if let Some(there) = there.as_deref() {
        wanted = match served::judged(definition, there, wanted, past) {
            Ok(wanted) => wanted,
            Err(why) => return Ok(Kind::Failed(why)),
        };
    }
    wanted["metadata"]["annotations"][labels::CONTENT] = mark(&wanted).into();
    if let Some(there) = there.as_deref().filter(|there| is_like(there, &wanted)) {
        return Ok(serving(there));
    }
    let path = format!("{path}?fieldManager={MANAGER}&force={}", there.is_some());
    match request::apply::<Value>(&context.client, &path, &wanted).await {
        // Its feed tells when that changes.
        Ok(now) => Ok(serving(&now)),
        Err(error) if error.refusal().is_some() => Ok(Kind::Refused(error.to_string())),
        Err(error) => Err(Failure::to("apply the kind of the graph")(error)),
    }
}

/// Deletes the kinds of a definition that is gone. Their instances go with them, as runners end them.
pub(super) async fn delete_kinds(context: &Context, kinds: &[Arc<Value>]) -> Result<(), Failure> {
    let going = |kind: &&Arc<Value>| kind["metadata"]["deletionTimestamp"].is_string();
    for kind in kinds.iter().filter(|kind| !going(kind)) {
        let metadata = &kind["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let path = api::custom_kinds().object_path(&ObjectKey::cluster(name));
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "preconditions": {"uid": metadata["uid"]},
        });
        match request::delete(&context.client, &path, &options).await {
            Err(error) if !is_gone(&error) => {
                return Err(Failure::to("delete the kind of a definition")(error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// The object of a path, if it is there.
async fn find(context: &Context, path: &str) -> Result<Option<Value>, Failure> {
    match request::get(&context.client, path).await {
        Ok(there) => Ok(Some(there)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(Failure::to("look for what is there")(error)),
    }
}

/// A digest of what a kind says, by which it is seen that something is not wanted any more.
fn mark(kind: &Value) -> String {
    // A value of JSON can always be written.
    let text = serde_json::to_vec(&kind["spec"]).unwrap_or_default();
    let digest = Sha256::digest(text);
    digest[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Whether the kind that is there says what is wanted, and maybe more.
fn is_like(there: &Value, wanted: &Value) -> bool {
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => wanted.iter().all(|(key, wanted)| {
            let found = there.get(key);
            found.map_or_else(|| is_empty(wanted), |there| is_like(there, wanted))
        }),
        (Value::Array(there), Value::Array(wanted)) => {
            there.len() == wanted.len() && there.iter().zip(wanted).all(|(a, b)| is_like(a, b))
        }
        (there, wanted) => there == wanted,
    }
}

/// The API leaves these out.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(value) => !value,
        Value::String(text) => text.is_empty(),
        Value::Number(_) => false,
    }
}

/// How it stands with a kind that is there as it should be.
fn serving(crd: &Value) -> Kind {
    match refused_names(crd) {
        _ if is_served(crd) => Kind::Ready,
        Some(why) => Kind::Failed(why),
        None => Kind::Pending,
    }
}

/// Why the API does not accept the names of a kind, if it does not.
pub(super) fn refused_names(crd: &Value) -> Option<String> {
    let all = crd["status"]["conditions"].as_array();
    let mut all = all.into_iter().flatten();
    let names = all.find(|one| one["type"] == conditions::NAMES_ACCEPTED)?;
    let text = |field: &str| names[field].as_str().unwrap_or_default();
    (text("status") == "False").then(|| {
        let name = crd["metadata"]["name"].as_str().unwrap_or_default();
        let (reason, message) = (text("reason"), text("message"));
        format!(
            "the kind {name} is not served: NamesAccepted is False: {reason}: {message}; delete the kind that has these names, or give the graph another kind or group"
        )
    })
}

fn is_served(crd: &Value) -> bool {
    let conditions = crd["status"]["conditions"].as_array();
    let pairs = conditions.into_iter().flatten();
    let pairs = pairs.filter_map(|one| Some((one["type"].as_str()?, one["status"].as_str()?)));
    conditions::hold(pairs, conditions::ESTABLISHED)
}

/// Sees to it that what the definition says now is a revision. The number of it.
pub(super) async fn keep_revision(
    context: &Context,
    definition: &Value,
    graph: &Graph,
    revisions: &[Revision],
) -> Result<i64, Failure> {
    let told = told_before_seen(context, definition, revisions).await?;
    let revisions: Vec<Revision> = revisions.iter().cloned().chain(told).collect();
    match revision::issue(definition, graph, &revisions) {
        Issue::Keep(number) => Ok(number),
        Issue::Exhausted(last) => {
            let why = format!("there is a GraphRevision {last}, and no number after it; delete it");
            Err(Failure::to("number the revision")(why))
        }
        Issue::New { number, object } => {
            let path = api::revisions().collection_path(None);
            match request::create::<IgnoredAny>(&context.client, &path, &object).await {
                Ok(_) => Ok(number),
                Err(error) if error.is_conflict() => {
                    let name = object["metadata"]["name"].as_str().unwrap_or_default();
                    let path = api::revisions().object_path(&ObjectKey::cluster(name));
                    let there = find(context, &path).await?;
                    let there = there.as_ref().and_then(Revision::read);
                    match there.filter(|(_, there)| there.hash == graph.revision_hash()) {
                        // It was made, and its feed has not told yet.
                        Some(_) => Ok(number),
                        None => Err(Failure::to("keep the revision")(error)),
                    }
                }
                Err(error) => Err(Failure::to("keep the revision")(error)),
            }
        }
    }
}

/// The revision that the definition says was made last, if the feed of revisions has not told of it.
async fn told_before_seen(
    context: &Context,
    definition: &Value,
    revisions: &[Revision],
) -> Result<Option<Revision>, Failure> {
    let newest = revisions.iter().map(|one| one.number).max();
    let issued = revision::issued(definition);
    let Some(issued) = issued.filter(|issued| Some(*issued) > newest) else {
        return Ok(None);
    };
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    let key = ObjectKey::cluster(&revision::name(name, issued));
    let there = find(context, &api::revisions().object_path(&key)).await?;
    let there = there.as_ref().and_then(Revision::read);
    Ok(there.map(|(_, revision)| revision))
}

/// Writes the status of a definition, if it is another.
pub(super) async fn tell(
    context: &Context,
    definition: &Value,
    graph: Option<&Arc<Graph>>,
    progress: &Progress,
) -> Result<(), Failure> {
    let now = Time::from_system(context.pace.clock.now());
    let status = status(definition, graph.map(|graph| &**graph), progress, now);
    let mut before = definition["status"].clone();
    if let Some(before) = before.as_object_mut() {
        // Those are somebody else's.
        before.remove("propagation");
        before.remove("deletions");
    }
    if status == before {
        return Ok(());
    }
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    let body = json!({
        "apiVersion": api::definitions().api_version(),
        "kind": api::definitions().kind,
        "metadata": {"name": name, "uid": definition["metadata"]["uid"]},
        "status": status,
    });
    let path = api::definitions().object_path(&ObjectKey::cluster(name));
    let path = format!("{path}/status?fieldManager={MANAGER}&force=true");
    let applied = request::apply::<IgnoredAny>(&context.client, &path, &body).await;
    match applied {
        Err(error) if is_gone(&error) => Ok(()),
        applied => {
            applied.map_err(Failure::to("write the status of the definition"))?;
            Ok(())
        }
    }
}

/// Who says how it stands with instances.
const PROPAGATION: &str = "deltaplane.io/propagation";

/// Writes how it stands with the instances of a definition, or that there is nothing to say.
pub(super) async fn tell_propagation(
    context: &Context,
    name: &str,
    uid: &str,
    told: Option<&Value>,
) -> Result<(), RequestError> {
    let mut body = json!({
        "apiVersion": api::definitions().api_version(),
        "kind": api::definitions().kind,
        "metadata": {"name": name, "uid": uid},
        "status": {},
    });
    if let Some(told) = told {
        body["status"]["propagation"] = told.clone();
    }
    let path = api::definitions().object_path(&ObjectKey::cluster(name));
    let path = format!("{path}/status?fieldManager={PROPAGATION}&force=true");
    match request::apply::<IgnoredAny>(&context.client, &path, &body).await {
        Err(error) if !is_gone(&error) => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The field manager of the deletions in the status of definitions.
const DELETIONS: &str = "deltaplane.io/deletions";

/// Writes what the versions of a definition deleted, and hold.
pub(super) async fn tell_deletions(
    context: &Context,
    name: &str,
    uid: &str,
    told: &Value,
) -> Result<(), RequestError> {
    let body = json!({
        "apiVersion": api::definitions().api_version(),
        "kind": api::definitions().kind,
        "metadata": {"name": name, "uid": uid},
        "status": {"deletions": told},
    });
    let path = api::definitions().object_path(&ObjectKey::cluster(name));
    let path = format!("{path}/status?fieldManager={DELETIONS}&force=true");
    request::apply::<IgnoredAny>(&context.client, &path, &body).await?;
    Ok(())
}

/// Nothing holds instances back any more.
pub(super) async fn retract_propagation(
    context: &Context,
    definition: &Value,
) -> Result<(), Failure> {
    let text = |field: &str| definition["metadata"][field].as_str().unwrap_or_default();
    let told = tell_propagation(context, text("name"), text("uid"), None).await;
    told.map_err(Failure::to("take back how it stood with instances"))
}

/// Whether its status says of what it says now whether that is valid.
pub(super) fn is_judged(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| {
        one["type"] == "GraphAccepted"
            && one["observedGeneration"] == definition["metadata"]["generation"]
    })
}

fn is_gone(error: &RequestError) -> bool {
    error.is_not_found() || error.is_conflict()
}

/// What the status of a definition says.
fn status(definition: &Value, graph: Option<&Graph>, progress: &Progress, now: Time) -> Value {
    let before = &definition["status"];
    let generation = definition["metadata"]["generation"].as_i64().unwrap_or(0);
    let conditions = conditions(graph, progress);
    let active = conditions
        .iter()
        .all(|one| one.holds == super::conditions::Holds::True);
    let state = if active { "Active" } else { "Inactive" };
    let mut status = json!({
        "state": state,
        "conditions": written(&conditions, &aside(definition, progress), &before["conditions"], generation, now),
    });
    if let Some(graph) = graph {
        status["topologicalOrder"] = graph.order().collect();
        status["resources"] = dependencies(graph);
    } else {
        for field in ["topologicalOrder", "resources"] {
            if !before[field].is_null() {
                status[field] = before[field].clone();
            }
        }
    }
    let issued = revision::issued(definition);
    if let Some(number) = progress.revision.max(issued) {
        status["lastIssuedRevision"] = number.into();
    }
    status
}

pub(super) fn dependencies(graph: &Graph) -> Value {
    let mut nodes: BTreeMap<usize, Value> = BTreeMap::new();
    for node in graph
        .nodes()
        .iter()
        .filter(|node| !node.depends_on().is_empty())
    {
        let ids = node.depends_on().iter();
        let ids: Vec<Value> = ids.map(|on| json!({"id": graph.node(*on).id()})).collect();
        nodes.insert(node.source(), json!({"id": node.id(), "dependencies": ids}));
    }
    nodes.into_values().collect()
}

/// What keeps no definition from being ready.
fn aside(definition: &Value, progress: &Progress) -> Vec<Condition> {
    let held = held_deletions(definition);
    let untidied = progress.untidied.iter().map(|why| {
        let message = format!("old revisions cannot be taken on or deleted: {why}");
        Condition::fails("GraphRevisionsTidied", "Refused", &message)
    });
    untidied.chain(held).collect()
}

/// Returns the deletions that versions of a definition hold; none if they hold none.
fn held_deletions(definition: &Value) -> Option<Condition> {
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    let all = definition["status"]["deletions"].as_array();
    let held = all.into_iter().flatten().filter_map(|one| {
        let held = one["held"].as_u64().filter(|held| *held > 0)?;
        let (version, deleted) = (one["version"].as_str()?, one["deleted"].as_u64()?);
        Some(format!(
            "version {version} holds {held} deletions and deleted {deleted} objects"
        ))
    });
    let held: Vec<String> = held.collect();
    (!held.is_empty()).then(|| {
        let held = held.join("; ");
        let message =
            format!("{held}; to approve: deltaplane rollout approve graph/{name} --deletions");
        Condition::fails("DeletionsApproved", DELETIONS_HELD, &message)
    })
}

fn conditions(graph: Option<&Graph>, progress: &Progress) -> Vec<Condition> {
    let revisions = match progress.revision {
        None if let Some(why) = &progress.unkept => {
            let message = format!("what it says now cannot be kept as a revision: {why}");
            Condition::fails("GraphRevisionsResolved", "RevisionRefused", &message)
        }
        Some(number) => {
            // Of what it says now; of what it was nobody need know more than the number.
            let hash = graph.map(Graph::revision_hash).unwrap_or_default();
            let revision = Point::new(number, hash);
            Condition::holds("GraphRevisionsResolved", "Resolved", &revision.told())
        }
        None => Condition::unknown(
            "GraphRevisionsResolved",
            "WaitingForGraphRevisionSettlement",
            "",
        ),
    };
    let accepted = match &progress.accepted {
        Accepted::Valid => Condition::holds(
            "GraphAccepted",
            "Valid",
            "resource graph and schema are valid",
        ),
        Accepted::Invalid(why) => Condition::fails("GraphAccepted", "InvalidResourceGraph", why),
        Accepted::Unknown(why) => {
            Condition::unknown("GraphAccepted", "AwaitingReconciliation", why)
        }
        Accepted::Lost(why) => Condition::fails("GraphAccepted", FOREIGN, why),
        Accepted::AccountRefused(why) => {
            Condition::fails("GraphAccepted", "ServiceAccountRefused", why)
        }
    };
    let (kind, controller) = match &progress.kind {
        Kind::Ready => (
            Condition::holds("KindReady", "Ready", "the kind is served"),
            match &progress.hindered {
                None => Condition::holds("ControllerReady", "Running", "instances are followed"),
                Some(why) => Condition::fails("ControllerReady", "FailedToStart", why),
            },
        ),
        Kind::Pending => (
            Condition::unknown(
                "KindReady",
                "AwaitingReconciliation",
                "the kind is not served yet",
            ),
            Condition::unknown("ControllerReady", "AwaitingReconciliation", ""),
        ),
        Kind::Failed(why) | Kind::Refused(why) => (
            Condition::fails("KindReady", "Failed", why),
            Condition::unknown("ControllerReady", "AwaitingReconciliation", ""),
        ),
    };
    vec![accepted, revisions, kind, controller]
}
