//! The service accounts that instances act as.
//!
//! `roles` is what the default account may do, and `served` keeps it; `policy` is what authors need
//! beside the right to write definitions; `rights` asks the API what an account may do.
//!
//! Invariants: no object of an instance is written as the controller unless `--graph-identity` says
//! so; an account is provided only where instances are, and only the default one.

pub mod policy;
pub mod roles;
pub(super) mod served;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deltaplane_client::{ObjectKey, RequestError, request};
use parking_lot::Mutex;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::GraphOptions;
use super::rights::{AccountRight, Rights};
use crate::Context;

/// The identity that the objects of instances are written with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GraphIdentity {
    /// A service account, by impersonation.
    #[default]
    Account,
    /// The controller itself, as kro does it: whoever writes a definition has its rights.
    Controller,
}

pub use deltaplane_api::identity::GRAPH_ACCOUNT as DEFAULT_ACCOUNT;
/// The namespace of the accounts of instances that are in no namespace.
pub const SYSTEM_NAMESPACE: &str = "deltaplane-system";

/// A service account that an instance acts as.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GraphAccount {
    pub(super) namespace: String,
    pub(super) name: String,
    /// Whether it is of an instance in no namespace.
    cluster: bool,
}

/// All accounts. Cheap to clone.
#[derive(Clone)]
pub(super) struct Accounts {
    context: Context,
    identity: GraphIdentity,
    /// Those that definitions of the hub may name.
    listed: Arc<BTreeSet<String>>,
    rights: Rights,
    /// Those that are known to have been provided.
    provided: Arc<Mutex<BTreeSet<GraphAccount>>>,
    /// One is provided at a time: many instances begin together.
    providing: Arc<tokio::sync::Mutex<()>>,
}

/// An authorizer learns of a new binding a moment later; it is asked again so often.
const ASKED_AGAIN: u32 = 20;
const ASKED_AFTER: Duration = Duration::from_millis(50);

// === impl GraphAccount ===

impl GraphAccount {
    /// The account of an instance in a namespace; an empty one stands for none.
    pub(super) fn of(name: Option<&str>, namespace: &str) -> Self {
        let cluster = namespace.is_empty();
        let namespace = if cluster { SYSTEM_NAMESPACE } else { namespace };
        Self {
            namespace: namespace.to_owned(),
            name: name.unwrap_or(DEFAULT_ACCOUNT).to_owned(),
            cluster,
        }
    }

    /// The name of the user that the API knows it by.
    pub(super) fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

impl fmt::Display for GraphAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServiceAccount {}/{}", self.namespace, self.name)
    }
}

// === impl Accounts ===

impl Accounts {
    pub(super) fn new(context: Context, options: &GraphOptions, rights: Rights) -> Self {
        Self {
            context,
            identity: options.identity,
            listed: Arc::new(options.accounts.clone()),
            rights,
            provided: Arc::default(),
            providing: Arc::default(),
        }
    }

    pub(super) fn rights(&self) -> &Rights {
        &self.rights
    }

    /// The account that an instance acts as; none if it acts as the controller.
    pub(super) fn account(&self, name: Option<&str>, namespace: &str) -> Option<GraphAccount> {
        match self.identity {
            GraphIdentity::Account => Some(GraphAccount::of(name, namespace)),
            GraphIdentity::Controller => None,
        }
    }

    /// Returns why a definition may not name an account: the hub's users have no rights here but those
    /// of the accounts that an administrator listed.
    pub(super) fn refusal(&self, name: Option<&str>, hub_authored: bool) -> Option<String> {
        let name = name.filter(|name| !name.is_empty())?;
        let acts = self.identity == GraphIdentity::Account;
        (acts && hub_authored && !self.listed.contains(name)).then(|| {
            format!(
                "graphs of the hub may not act as ServiceAccount {name} here; add it to --graph-accounts of the zone, or leave spec.serviceAccountName out"
            )
        })
    }

    /// Makes the default account and its binding be there, unless that was done. Other accounts are
    /// an administrator's to make.
    pub(super) async fn provide(&self, account: &GraphAccount) -> Result<(), RequestError> {
        if account.name != DEFAULT_ACCOUNT || self.provided.lock().contains(account) {
            return Ok(());
        }
        let _one = self.providing.lock().await;
        if self.provided.lock().contains(account) {
            return Ok(());
        }
        let mut is_new = false;
        for object in roles::of_account(&account.namespace, account.cluster) {
            is_new |= self.create_missing(&object).await?;
        }
        if is_new {
            self.wait_for_binding(account).await?;
        }
        self.provided.lock().insert(account.clone());
        Ok(())
    }

    /// The account, or its binding, may be gone.
    pub(super) fn doubt(&self, account: &GraphAccount) {
        self.provided.lock().remove(account);
    }

    /// Returns true if the object was not there.
    async fn create_missing(&self, object: &Value) -> Result<bool, RequestError> {
        let client = &self.context.client;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let key = ObjectKey::new(&text(&metadata["namespace"]), &text(&metadata["name"]));
        let resource = roles::resource(&text(&object["kind"]));
        match request::get::<IgnoredAny>(client, &resource.object_path(&key)).await {
            Err(error) if error.is_not_found() => {}
            found => {
                found?;
                return Ok(false);
            }
        }
        let path = resource.collection_path(metadata["namespace"].as_str());
        match request::create::<IgnoredAny>(client, &path, object).await {
            Err(error) if error.is_conflict() => Ok(false),
            created => {
                created?;
                Ok(true)
            }
        }
    }

    async fn wait_for_binding(&self, account: &GraphAccount) -> Result<(), RequestError> {
        let namespace = if account.cluster {
            ""
        } else {
            &account.namespace
        };
        let right = AccountRight {
            account: account.clone(),
            verb: "get",
            group: String::new(),
            plural: "configmaps".to_owned(),
            namespace: namespace.to_owned(),
            name: String::new(),
        };
        for _ in 0..ASKED_AGAIN {
            if self.rights.ask(&right).await? {
                break;
            }
            self.context.pace.clock.sleep(ASKED_AFTER).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_acts_as_an_account_of_its_namespace() {
        let account = GraphAccount::of(None, "team");
        assert_eq!(
            account.user(),
            "system:serviceaccount:team:deltaplane-graphs"
        );
        assert_eq!(account.to_string(), "ServiceAccount team/deltaplane-graphs");
        let account = GraphAccount::of(Some("deployer"), "");
        let user = "system:serviceaccount:deltaplane-system:deployer";
        assert_eq!(account.user(), user);
    }
}
