//! What is to be done for a namespace, or for a Secret that wants a token. Pure.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use deltaplane_client::header::null_as_default;
use deltaplane_client::{Item, ObjectKey};

/// Whether things may be made in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Namespace {
    Active,
    Going,
}

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) uid: String,
}

/// The ConfigMap with the authority's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RootCa {
    Right,
    Wrong,
}

/// A Secret that wants a token, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TokenSecret {
    pub(super) uid: String,
    pub(super) revision: String,
    pub(super) account: String,
    /// Which account of that name, if it says so.
    pub(super) account_uid: Option<String>,
    pub(super) has: Has,
}

/// Which parts are there, and right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Has {
    pub(super) ca: bool,
    pub(super) namespace: bool,
    pub(super) token: bool,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    CreateAccount {
        namespace: String,
    },
    CreateRootCa {
        namespace: String,
    },
    RepairRootCa {
        namespace: String,
    },
    FillSecret(Fill),
    /// Its account seems to be gone: look, and delete it if that is so.
    CheckSecret(Check),
}

/// The parts that a Secret lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fill {
    pub(super) key: ObjectKey,
    pub(super) secret: TokenSecret,
    pub(super) account_uid: String,
}

/// A Secret and the account that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) key: ObjectKey,
    pub(super) secret: TokenSecret,
}

#[derive(Deserialize)]
struct DataObject {
    #[serde(default, deserialize_with = "null_as_default")]
    data: BTreeMap<String, String>,
    metadata: Annotated,
}

#[derive(Deserialize)]
struct Annotated {
    #[serde(default, deserialize_with = "null_as_default")]
    annotations: BTreeMap<String, String>,
}

pub(super) const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
pub(super) const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
pub(super) const CA_KEY: &str = "ca.crt";

pub(super) fn namespace(
    name: &str,
    state: Namespace,
    account: Option<&Account>,
    root_ca: Option<&RootCa>,
) -> Vec<Action> {
    if state == Namespace::Going {
        return Vec::new();
    }
    let namespace = || name.to_owned();
    let mut actions = Vec::new();
    if account.is_none() {
        actions.push(Action::CreateAccount {
            namespace: namespace(),
        });
    }
    match root_ca {
        None => actions.push(Action::CreateRootCa {
            namespace: namespace(),
        }),
        Some(RootCa::Wrong) => actions.push(Action::RepairRootCa {
            namespace: namespace(),
        }),
        Some(RootCa::Right) => {}
    }
    actions
}

pub(super) fn secret(
    key: &ObjectKey,
    secret: &TokenSecret,
    account: Option<&Account>,
) -> Option<Action> {
    let key = key.clone();
    let is_meant = |account: &&Account| match &secret.account_uid {
        Some(uid) => *uid == account.uid,
        None => true,
    };
    let secret = secret.clone();
    match account.filter(is_meant) {
        None => Some(Action::CheckSecret(Check { key, secret })),
        Some(_) if secret.has.all() && secret.account_uid.is_some() => None,
        Some(Account { uid }) => Some(Action::FillSecret(Fill {
            key,
            secret,
            account_uid: uid.clone(),
        })),
    }
}

// === impl Namespace ===

impl Namespace {
    pub(super) fn of(item: &Item) -> Self {
        match item.header.is_deleting() {
            true => Self::Going,
            false => Self::Active,
        }
    }
}

// === impl Account ===

impl Account {
    pub(super) fn of(item: &Item) -> Self {
        let uid = item.header.uid.clone();
        Self { uid }
    }
}

// === impl RootCa ===

impl RootCa {
    pub(super) fn of(item: &Item, ca: &str) -> Option<Self> {
        let DataObject { data, metadata: _ } = item.parse().ok()?;
        let right = data.len() == 1 && data.get(CA_KEY).is_some_and(|data| data == ca);
        Some(match right {
            true => Self::Right,
            false => Self::Wrong,
        })
    }
}

// === impl TokenSecret ===

impl TokenSecret {
    pub(super) fn of(item: &Item, ca: &str) -> Option<Self> {
        let DataObject { data, metadata } = item.parse().ok()?;
        let decoded = |key: &str| STANDARD.decode(data.get(key)?).ok();
        let annotation = |key: &str| metadata.annotations.get(key).cloned();
        Some(Self {
            uid: item.header.uid.clone(),
            revision: item.header.resource_version.clone(),
            account: annotation(ACCOUNT_NAME)?,
            account_uid: annotation(ACCOUNT_UID).filter(|uid| !uid.is_empty()),
            has: Has {
                ca: decoded(CA_KEY).is_some_and(|data| data == ca.as_bytes()),
                namespace: decoded("namespace").is_some_and(|data| !data.is_empty()),
                token: decoded("token").is_some_and(|data| !data.is_empty()),
            },
        })
    }
}

// === impl Has ===

impl Has {
    fn all(self) -> bool {
        self.ca && self.namespace && self.token
    }
}
