//! The writes.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use deltaplane_client::request::{self, Patch, Refusal};
use deltaplane_client::{ObjectKey, RequestError};

use crate::queue::{Failure, Next, settled};

use super::plan::{ACCOUNT_UID, Action, CA_KEY, Check, Fill};
use super::{Config, DEFAULT_ACCOUNT, LegacyToken, ROOT_CA, accounts, config_maps, secrets};

pub(super) async fn all(
    client: Client,
    config: Arc<Config>,
    plan: Vec<Action>,
) -> Result<Next, Failure> {
    let mut next = Next::Rest;
    for action in plan {
        next = next.max(one(&client, &config, action).await?);
    }
    Ok(next)
}

async fn one(client: &Client, config: &Config, action: Action) -> Result<Next, Failure> {
    match action {
        Action::CreateAccount { namespace } => {
            let path = accounts().collection_path(Some(&namespace));
            let object = json!({"apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": DEFAULT_ACCOUNT}});
            let created = request::create::<IgnoredAny>(client, &path, &object).await;
            made(created, "create the default service account")
        }
        Action::CreateRootCa { namespace } => {
            let path = config_maps().collection_path(Some(&namespace));
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": ROOT_CA, "annotations": {"kubernetes.io/description":
                    "The certificate authority of this API server; kept as it is by the server."}},
                "data": {CA_KEY: config.ca}});
            let created = request::create::<IgnoredAny>(client, &path, &object).await;
            made(created, "create the root certificate")
        }
        Action::RepairRootCa { namespace } => {
            let path = config_maps().object_path(&ObjectKey::new(&namespace, ROOT_CA));
            // Whatever else is in `data` goes.
            let change = json!([{"op": "add", "path": "/data", "value": {CA_KEY: config.ca}}]);
            let patched = request::patch::<IgnoredAny>(client, &path, Patch::Json, &change).await;
            settled(patched, "repair the root certificate")
        }
        Action::FillSecret(fill) => fill_secret(client, config, fill).await,
        Action::CheckSecret(check) => check_secret(client, check).await,
    }
}

async fn fill_secret(client: &Client, config: &Config, fill: Fill) -> Result<Next, Failure> {
    let Fill {
        key,
        secret,
        account_uid,
    } = fill;
    let mut data = Map::new();
    let mut add = |key: &str, content: &str| {
        data.insert(key.to_owned(), Value::String(STANDARD.encode(content)));
    };
    if !secret.has.ca {
        add(CA_KEY, &config.ca);
    }
    if !secret.has.namespace {
        add("namespace", &key.namespace);
    }
    if !secret.has.token {
        let token = (config.mint)(&LegacyToken {
            namespace: key.namespace.clone(),
            account: secret.account.clone(),
            account_uid: account_uid.clone(),
            secret: key.name.clone(),
            secret_uid: secret.uid.clone(),
        });
        add("token", &token.map_err(Failure::to("make a token"))?);
    }
    let change = json!({
        "metadata": {
            "uid": secret.uid,
            "resourceVersion": secret.revision,
            "annotations": {ACCOUNT_UID: account_uid},
        },
        "data": data,
    });
    let path = secrets().object_path(&key);
    let patched = request::patch::<IgnoredAny>(client, &path, Patch::Merge, &change).await;
    settled(patched, "fill a token secret")
}

async fn check_secret(client: &Client, check: Check) -> Result<Next, Failure> {
    #[derive(Deserialize)]
    struct Found {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        uid: String,
    }
    let Check { key, secret } = check;
    let account = ObjectKey::new(&key.namespace, &secret.account);
    match request::get::<Found>(client, &accounts().object_path(&account)).await {
        // It is there after all, and the feed will say so.
        Ok(found)
            if secret
                .account_uid
                .as_ref()
                .is_none_or(|uid| *uid == found.metadata.uid) =>
        {
            return Ok(Next::Rest);
        }
        Ok(_) => {}
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(Failure::to("look for a service account")(error)),
    }
    let options = json!({"preconditions": {
        "uid": secret.uid,
        "resourceVersion": secret.revision,
    }});
    let deleted = request::delete(client, &secrets().object_path(&key), &options).await;
    settled(deleted, "delete a token secret without account")
}

/// What cannot be made in a namespace that is going need not be made.
fn made<T>(created: Result<T, RequestError>, doing: &'static str) -> Result<Next, Failure> {
    match created {
        Err(error) if error.refusal().is_some_and(Refusal::is_terminating) => Ok(Next::Rest),
        created => settled(created, doing),
    }
}
