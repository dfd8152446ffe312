//! A user asks for what takes the hub long to decide, or to answer.

use std::time::Duration;

use anyhow::{Result, ensure};
use deltaplane_client::request;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::account::{Answer, Window};
use super::policies::{policy, rules};
use super::stage::{FLEET, MAPS, RBAC, Stage, create};
use super::{Outcome, beside};
use crate::bench::cpu;

const JSON: &str = "application/json";
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1";
/// A policy has so many stages, and each stage so many gates: 77 KB of text in all.
const STAGES: usize = 16;
const GATES: usize = 16;
/// Controllers have so long to compile a policy that was taken.
const COMPILE: Duration = Duration::from_secs(2);
/// So much is more than that takes.
const EFFORT: Duration = Duration::from_secs(2);
/// A refusal of a policy that is too large says so.
const BOUND: &str = "and at most";
/// A selector of so many requirements is as large as a policy can be.
const REQUIREMENTS: usize = 70_000;
/// A field selector of so many terms is as long as a path can be.
const FIELD_TERMS: usize = 3_000;
const WATCHES: usize = 50;
/// A review with so many groups is as large as a request can be.
const GROUPS: usize = 500_000;
/// The roles of a user, the rules in each of them, the names in a rule, and how often the user asks
/// for all of them at once.
const ROLES: usize = 3;
const RULES: usize = 50;
const NAMES: usize = 3_000;
const QUESTIONS: usize = 16;
/// An answer to that shows no more than this.
const ANSWER: usize = 2 << 20;

/// A number that takes a million evaluations.
fn costly_constant() -> String {
    let numbers = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]";
    let nested = (0..6).fold("true".to_owned(), |inner, depth| {
        format!("{numbers}.all(i{depth}, {inner})")
    });
    format!("({nested} ? 1 : 2)")
}

/// The answer to a policy, the time that the hub computed until it was compiled, and the time that a
/// bystander waited meanwhile.
struct PolicyWrite {
    answer: Answer,
    computed: Duration,
    bystander: Result<Duration, String>,
}

/// Writes a policy for no zone, and deletes it when it is compiled.
async fn write_policy(stage: &Stage, name: &str, spec: &Value) -> Result<PolicyWrite> {
    let attacker = stage.account(name, &rules()).await?;
    let path = format!("{FLEET}/propagationpolicies");
    let before = cpu::time(&[stage.hub.pid()])?;
    let writing = async {
        let answer = attacker.post(&path, &policy(name, spec)).await?;
        if answer.status.is_success() {
            tokio::time::sleep(COMPILE).await;
        }
        anyhow::Ok(answer)
    };
    let (answer, bystander) = beside(stage, writing).await;
    let answer = answer?;
    let computed = cpu::time(&[stage.hub.pid()])?.saturating_sub(before);
    if answer.status.is_success() {
        let path = format!("{path}/{name}");
        request::delete(&stage.admin, &path, &json!({})).await?;
    }
    Ok(PolicyWrite {
        answer,
        computed,
        bystander,
    })
}

/// Writes a policy with gates whose constants take long to evaluate.
pub(super) async fn costly_constants(stage: &Stage) -> Result<Outcome> {
    let gate = format!("linearlyReady(zone, zones, {})", costly_constant());
    let gates = vec![gate; GATES];
    let one =
        |number: usize| json!({"name": format!("stage-{number}"), "propagateWhen": gates.clone()});
    let spec = json!({
        "targets": [{"kind": "ConfigMap", "names": ["default/none"]}],
        "zones": {"matchLabels": {"rules": "none"}},
        "stages": (0..STAGES).map(one).collect::<Vec<_>>(),
    });
    let written = write_policy(stage, "constants", &spec).await?;
    let computed = format!("the hub computed for {} ms", written.computed.as_millis());
    let answer = &written.answer;
    Ok(match written.bystander {
        Err(why) => Outcome::Succeeded(format!("others are not served: {why}")),
        Ok(_) if written.computed > EFFORT => Outcome::Succeeded(computed),
        Ok(_) if answer.status.is_success() => Outcome::Refused(computed),
        Ok(_) => {
            let brief = answer.brief();
            let message = String::from_utf8_lossy(&answer.body);
            ensure!(message.contains(BOUND), "it is refused otherwise: {brief}");
            Outcome::Refused(brief)
        }
    })
}

/// Writes a policy that compares objects with tens of thousands of requirements.
pub(super) async fn selector_without_end(stage: &Stage) -> Result<Outcome> {
    let absent = json!({"key": "k", "operator": "DoesNotExist"});
    let selector = json!({"matchExpressions": vec![absent; REQUIREMENTS]});
    let spec = json!({
        "targets": [{"kind": "ConfigMap", "selector": selector}],
        "zones": {"matchLabels": {"rules": "none"}},
    });
    let written = write_policy(stage, "selecting", &spec).await?;
    Ok(match written.bystander {
        Err(why) => Outcome::Succeeded(format!("others are not served: {why}")),
        Ok(_) if written.answer.status.is_success() => Outcome::Succeeded(format!(
            "objects are compared with {REQUIREMENTS} requirements"
        )),
        Ok(_) => Outcome::Refused(written.answer.brief()),
    })
}

/// Watches with field selectors of thousands of terms, with each of which every event is compared.
pub(super) async fn field_selectors_without_end(stage: &Stage) -> Result<Outcome> {
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"],
        "verbs": ["list", "watch"]}]);
    let attacker = stage.account("field-selector", &rules).await?;
    let terms: Vec<String> = (0..FIELD_TERMS)
        .map(|number| format!("metadata.name!=n{number}"))
        .collect();
    let path = format!("{MAPS}?watch=1&fieldSelector={}", terms.join(","));
    let mut connection = attacker.connect(Window::Usual).await?;
    let mut watches = Vec::new();
    let mut refused = None;
    for _ in 0..WATCHES {
        let answer = connection.begin_get(&path, JSON).await?.await?;
        if answer.status().is_success() {
            watches.push(answer);
        } else {
            refused = Some(answer.status());
        }
    }
    Ok(match (watches.len(), refused) {
        (0, Some(status)) => Outcome::Refused(status.to_string()),
        (open, _) => Outcome::Succeeded(format!("{open} watches compare {FIELD_TERMS} terms each")),
    })
}

/// Asks what a user of half a million groups may do.
pub(super) async fn review_of_many_groups(stage: &Stage) -> Result<Outcome> {
    let rules = json!([{"apiGroups": ["authorization.k8s.io"], "verbs": ["create"],
        "resources": ["subjectaccessreviews"]}]);
    let attacker = stage.account("reviewer", &rules).await?;
    let groups: Vec<String> = (0..GROUPS)
        .map(|number| format!("{:x}", number % 0x1000))
        .collect();
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"groups": groups, "resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let path = format!("{REVIEWS}/subjectaccessreviews");
    let (answer, bystander) = beside(stage, attacker.post(&path, &review)).await;
    let answer = answer?;
    Ok(match (answer.status.is_success(), bystander) {
        (false, Ok(_)) => Outcome::Refused(answer.brief()),
        (true, _) => Outcome::Succeeded(format!("{GROUPS} groups are looked up")),
        (false, Err(why)) => Outcome::Succeeded(format!("others are not served: {why}")),
    })
}

/// Asks again and again which rules it has, of which there are megabytes.
pub(super) async fn review_of_many_rules(stage: &Stage) -> Result<Outcome> {
    let attacker = stage.account("ruled", &json!([])).await?;
    let subject = json!({"kind": "ServiceAccount", "namespace": "default", "name": "ruled"});
    let namespaced = format!("{RBAC}/namespaces/default");
    for number in 0..ROLES {
        let name = format!("ruled-{number}");
        let names: Vec<String> = (0..NAMES).map(|one| format!("n{one}")).collect();
        let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"],
            "resourceNames": names});
        let role = json!({"apiVersion": format!("{RBAC_GROUP}/v1"), "kind": "Role",
            "metadata": {"name": name}, "rules": vec![rule; RULES]});
        create(&stage.admin, &format!("{namespaced}/roles"), &role).await?;
        let binding = json!({"apiVersion": format!("{RBAC_GROUP}/v1"), "kind": "RoleBinding",
            "metadata": {"name": name}, "subjects": [subject],
            "roleRef": {"apiGroup": RBAC_GROUP, "kind": "Role", "name": name}});
        create(
            &stage.admin,
            &format!("{namespaced}/rolebindings"),
            &binding,
        )
        .await?;
    }
    let path = format!("{REVIEWS}/selfsubjectrulesreviews");
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": "default"}});
    let asking = async {
        let mut answers = JoinSet::new();
        for _ in 0..QUESTIONS {
            let (attacker, path, review) = (attacker.clone(), path.clone(), review.clone());
            answers.spawn(async move { attacker.post(&path, &review).await });
        }
        answers
            .join_all()
            .await
            .into_iter()
            .collect::<Result<Vec<Answer>>>()
    };
    let (answers, bystander) = beside(stage, asking).await;
    let answers = answers?;
    for number in 0..ROLES {
        let path = format!("{namespaced}/rolebindings/ruled-{number}");
        request::delete(&stage.admin, &path, &json!({})).await?;
    }
    let largest = answers.iter().map(|answer| answer.body.len()).max();
    let largest = largest.unwrap_or_default();
    let busy = |answer: &Answer| answer.status == StatusCode::TOO_MANY_REQUESTS;
    let is_busy = answers.iter().filter(|answer| busy(answer)).count();
    Ok(match bystander {
        _ if largest > ANSWER => Outcome::Succeeded(format!("an answer has {largest} bytes")),
        Err(why) => Outcome::Succeeded(format!("others are not served: {why}")),
        Ok(_) => Outcome::Refused(format!(
            "an answer has {largest} bytes at most, {is_busy} of {QUESTIONS} are put off"
        )),
    })
}
