//! A user who may not read Secrets learns what they hold.

use anyhow::{Context, Result};
use deltaplane_client::request;
use serde_json::{Value, json};

use super::Outcome;
use super::account::Account;
use super::policies::{SECRET, WAIT, policy, rules, synced};
use super::stage::{FLEET, Stage, appears, create};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
/// A field whose name is the content of a Secret.
const PROBE: &str = "object.metadata[string(base64.decode(object.data.password))] == ''";
const SALT: &str = "deltaplane.io/salt";

/// Makes a Secret that crosses, and returns the path of policies.
async fn crossing_secret(stage: &Stage, name: &str) -> Result<String> {
    let kinds = format!("{FLEET}/syncedkinds");
    let path = format!("{kinds}/secrets");
    if request::get::<Value>(&stage.admin, &path).await.is_err() {
        create(&stage.admin, &kinds, &synced("secrets", "", "Secret")).await?;
    }
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "labels": {"cross": "yes", "deltaplane.io/sync": "true"}},
        "stringData": {"password": SECRET}});
    create(&stage.admin, SECRETS, &secret).await?;
    Ok(format!("{FLEET}/propagationpolicies"))
}

fn probing(name: &str) -> Value {
    let target = json!({"kind": "Secret", "names": [format!("default/{name}")],
        "readyWhen": [PROBE]});
    policy(
        name,
        &json!({"targets": [target], "zones": {"matchLabels": {"rules": "kept"}}}),
    )
}

/// Looks for the content of the Secret in what a policy shows.
async fn shown(attacker: &Account, path: &str) -> Result<Option<String>> {
    let leaked = appears(WAIT, async || {
        for path in [path.to_owned(), format!("{path}/_rollout")] {
            let answer = attacker.get(&path).await?;
            if answer.text().contains(SECRET) {
                return Ok(Some(path));
            }
        }
        Ok(None)
    });
    leaked.await
}

/// Asks for a field whose name is the content of a Secret.
pub(super) async fn secret_in_evidence(stage: &Stage) -> Result<Outcome> {
    let path = crossing_secret(stage, "probing").await?;
    let attacker = stage.account("prober", &rules()).await?;
    let answer = attacker.post(&path, &probing("probing")).await?;
    if !answer.status.is_success() {
        return Ok(Outcome::Refused(answer.brief()));
    }
    Ok(match shown(&attacker, &format!("{path}/probing")).await? {
        Some(path) => Outcome::Succeeded(format!("{path} shows the Secret")),
        None => Outcome::Refused("the policy was taken, and shows nothing".to_owned()),
    })
}

/// Reads what is shown of a policy whose author may read Secrets.
pub(super) async fn secret_in_the_evidence_of_others(stage: &Stage) -> Result<Outcome> {
    let path = crossing_secret(stage, "evidence").await?;
    create(&stage.admin, &path, &probing("evidence")).await?;
    let attacker = stage.account("reader-of-evidence", &rules()).await?;
    let path = format!("{path}/evidence/_rollout");
    let judged = appears(WAIT, async || {
        let answer = attacker.get(&path).await?;
        let waits = answer.text().contains("the Secret") || answer.text().contains(SECRET);
        Ok(waits.then_some(answer))
    });
    let answer = judged.await?.context("no zone says how the Secret is")?;
    Ok(match answer.text().contains(SECRET) {
        true => Outcome::Succeeded(format!("{path} shows the Secret")),
        false => Outcome::Refused("it says that the Secret is not ready, and no more".to_owned()),
    })
}

/// Tests what a Secret holds by a patch that fits one content alone.
pub(super) async fn secret_by_an_override(stage: &Stage) -> Result<Outcome> {
    let path = crossing_secret(stage, "tested").await?;
    let rules = json!([
        {"apiGroups": ["fleet.deltaplane.io"], "verbs": ["create", "get"],
            "resources": ["propagationpolicies"]},
        {"apiGroups": [""], "verbs": ["update"], "resources": ["secrets"]},
    ]);
    let attacker = stage.account("tester", &rules).await?;
    let wrong = "eA==";
    let patch = json!([{"op": "test", "path": "/data/password", "value": wrong}]);
    let spec = json!({"targets": [{"kind": "Secret", "names": ["default/tested"]}],
        "overrides": [{"patch": patch}]});
    let answer = attacker.post(&path, &policy("tested", &spec)).await?;
    if !answer.status.is_success() {
        return Ok(Outcome::Refused(answer.brief()));
    }
    Ok(Outcome::Succeeded("the guess is judged".to_owned()))
}

/// Makes a Secret with a salt that it knows, into which somebody else will put a password: versions of
/// it can be compared with guesses.
pub(super) async fn secret_with_a_chosen_salt(stage: &Stage) -> Result<Outcome> {
    let rules = json!([{"apiGroups": [""], "verbs": ["create"], "resources": ["secrets"]}]);
    let attacker = stage.account("salter", &rules).await?;
    let labels = json!({"cross": "yes", "deltaplane.io/sync": "true"});
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "salted", "labels": labels, "annotations": {SALT: "known"}}});
    let answer = attacker.post(SECRETS, &secret).await?;
    if !answer.status.is_success() {
        return Ok(Outcome::Refused(answer.brief()));
    }
    let path = format!("{SECRETS}/salted");
    let secret = request::get::<Value>(&stage.admin, &path).await?;
    Ok(match secret["metadata"]["annotations"][SALT] == "known" {
        true => Outcome::Succeeded("the Secret has the attacker's salt".to_owned()),
        false => Outcome::Refused("the Secret has a salt of its own".to_owned()),
    })
}
