//! The rights of the accounts that instances act as, asked of the API by SubjectAccessReviews.
//!
//! Invariants: a verdict counts until RBAC changes where it matters, and no longer than a minute;
//! an instance that asked is told when RBAC changes there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use deltaplane_client::{Event, Feed, Query, RequestError, request};
use deltaplane_runtime::TaskGroup;
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::accounts::{GraphAccount, roles};
use super::following::{Interest, Telling};
use super::objects::Dirty;
use crate::Context;

/// What an account may do, or not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AccountRight {
    pub(super) account: GraphAccount,
    pub(super) verb: &'static str,
    pub(super) group: String,
    pub(super) plural: String,
    /// Empty for objects in no namespace, and for all namespaces.
    pub(super) namespace: String,
    /// Empty for all objects.
    pub(super) name: String,
}

/// The rights of all accounts. Cheap to clone.
#[derive(Clone)]
pub(super) struct Rights {
    context: Context,
    tasks: TaskGroup,
    shared: Arc<Mutex<Shared>>,
}

/// An instance that asks.
pub(super) struct Asker<'a> {
    pub(super) uid: &'a str,
    /// Told when the answer may be another.
    pub(super) dirty: &'a Arc<Dirty>,
}

#[derive(Default)]
struct Shared {
    /// Follows RBAC; kept, so that it is done once.
    following: Option<Interest>,
    verdicts: BTreeMap<AccountRight, Verdict>,
    /// The instances that asked in a namespace since RBAC changed there last, by uid.
    askers: BTreeMap<String, BTreeMap<String, Arc<Dirty>>>,
    /// Counts the changes of RBAC.
    changes: u64,
}

#[derive(Clone, Copy)]
struct Verdict {
    allowed: bool,
    until: SystemTime,
}

/// A verdict counts no longer, whatever authorizes.
const LONGEST: Duration = Duration::from_secs(60);
/// A missing right is asked for again sooner: it may be granted by what no feed tells.
const LONGEST_MISSING: Duration = Duration::from_secs(2);
/// An authorizer learns of a change of RBAC later than a feed may: what it was asked meanwhile is
/// asked again after this.
const AUTHORIZER_LAG: Duration = Duration::from_secs(1);
/// More verdicts are not kept.
const MOST: usize = 20_000;

// === impl AccountRight ===

impl fmt::Display for AccountRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            account,
            verb,
            group,
            plural,
            namespace,
            name,
        } = self;
        write!(f, "{account} may not {verb} {plural}")?;
        if !group.is_empty() {
            write!(f, ".{group}")?;
        }
        if !name.is_empty() {
            write!(f, " {name:?}")?;
        }
        let (place, binding) = match namespace.as_str() {
            "" => (" in the cluster".to_owned(), "ClusterRoleBinding"),
            namespace => (format!(" in namespace {namespace}"), "RoleBinding"),
        };
        write!(
            f,
            "{place}; grant it with a {binding}, or to all graphs with a ClusterRole that is labelled {}=true",
            roles::EXTENDS
        )
    }
}

impl AccountRight {
    fn review(&self) -> Value {
        let accounts = deltaplane_api::identity::SERVICE_ACCOUNTS;
        json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": self.account.user(),
                "groups": [
                    accounts,
                    format!("{accounts}:{}", self.account.namespace),
                    deltaplane_api::identity::AUTHENTICATED,
                ],
                "resourceAttributes": {
                    "verb": self.verb, "group": self.group, "resource": self.plural,
                    "namespace": self.namespace, "name": self.name,
                },
            },
        })
    }
}

// === impl Rights ===

impl Rights {
    pub(super) fn new(context: Context, tasks: TaskGroup) -> Self {
        Self {
            context,
            tasks,
            shared: Arc::default(),
        }
    }

    /// Returns true if an account has a right, for all objects or for the one that is named.
    pub(super) async fn has(
        &self,
        right: &AccountRight,
        asker: &Asker<'_>,
    ) -> Result<bool, RequestError> {
        self.note(right, asker);
        if !right.name.is_empty() {
            let all = AccountRight {
                name: String::new(),
                ..right.clone()
            };
            if self.known_or_asked(&all).await? {
                return Ok(true);
            }
        }
        self.known_or_asked(right).await
    }

    async fn known_or_asked(&self, right: &AccountRight) -> Result<bool, RequestError> {
        loop {
            let now = self.context.pace.clock.now();
            let before = {
                let shared = self.shared.lock();
                let known = shared.verdicts.get(right);
                if let Some(verdict) = known.filter(|verdict| now < verdict.until) {
                    return Ok(verdict.allowed);
                }
                shared.changes
            };
            let allowed = self.ask(right).await?;
            let mut shared = self.shared.lock();
            // What was asked while RBAC changed may be what was before.
            if shared.changes == before {
                shared.keep(right, allowed, now);
                return Ok(allowed);
            }
        }
    }

    /// Asks the API.
    pub(super) async fn ask(&self, right: &AccountRight) -> Result<bool, RequestError> {
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let review = right.review();
        let answer: Value = request::create(&self.context.client, path, &review).await?;
        Ok(answer["status"]["allowed"] == true)
    }

    /// The instance is told when RBAC changes where it asked.
    fn note(&self, right: &AccountRight, asker: &Asker<'_>) {
        let mut shared = self.shared.lock();
        if shared.following.is_none() {
            let all = self.clone();
            let following = Interest::start(&self.tasks, |telling| async move {
                all.follow(telling).await;
            });
            shared.following = Some(following);
        }
        let askers = shared.askers.entry(right.namespace.clone()).or_default();
        if !askers.contains_key(asker.uid) {
            askers.insert(asker.uid.to_owned(), asker.dirty.clone());
        }
    }

    /// The instance is gone.
    pub(super) fn forget(&self, uid: &str) {
        let mut shared = self.shared.lock();
        shared.askers.retain(|_, askers| {
            askers.remove(uid);
            !askers.is_empty()
        });
    }

    /// Follows RBAC. If it may not be followed, verdicts count until their time is over.
    async fn follow(&self, telling: Telling) {
        let kinds = ["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"];
        let each = kinds.map(|kind| {
            let Context { client, pace } = &self.context;
            let query = Query::all(roles::resource(kind));
            let events = Feed::new(client.clone(), query, pace.clone()).events();
            events.map(move |event| (kind, event)).boxed()
        });
        let mut events = stream::select_all(each);
        // Kinds of which all that exists was told.
        let mut complete = BTreeSet::new();
        // Namespaces in which RBAC changed a moment ago, and when that moment is over.
        let mut settling = BTreeSet::new();
        let mut settled: Option<SystemTime> = None;
        let mut last = SystemTime::UNIX_EPOCH;
        let clock = self.context.pace.clock.clone();
        loop {
            let told = tokio::select! {
                told = events.next() => told,
                () = clock.sleep_until(settled.unwrap_or(SystemTime::UNIX_EPOCH)), if settled.is_some() => {
                    settling.iter().for_each(|namespace: &String| self.changed(namespace));
                    let end = last + AUTHORIZER_LAG;
                    settled = (clock.now() < end).then_some(end);
                    if settled.is_none() {
                        settling.clear();
                    }
                    continue;
                }
            };
            let Some((kind, event)) = told else { break };
            let namespace = match event {
                Event::Restarted => {
                    complete.remove(kind);
                    continue;
                }
                Event::InSync => {
                    complete.insert(kind);
                    // What changed meanwhile is not told one by one.
                    String::new()
                }
                Event::Applied(item) | Event::Deleted(item) if complete.contains(kind) => {
                    item.header.namespace
                }
                Event::Applied(_) | Event::Deleted(_) => continue,
            };
            self.changed(&namespace);
            settling.insert(namespace);
            last = clock.now();
            settled.get_or_insert(last + AUTHORIZER_LAG);
        }
        drop(telling);
    }

    /// RBAC changed in a namespace; everywhere if that is empty.
    fn changed(&self, namespace: &str) {
        let mut shared = self.shared.lock();
        shared.changes += 1;
        let everywhere = namespace.is_empty();
        let matters = |right: &AccountRight| everywhere || right.namespace == namespace;
        shared.verdicts.retain(|right, _| !matters(right));
        let askers = if everywhere {
            std::mem::take(&mut shared.askers)
        } else {
            let here = shared.askers.remove_entry(namespace);
            here.into_iter().collect()
        };
        for (uid, dirty) in askers.into_values().flatten() {
            dirty.add(uid);
        }
    }
}

// === impl Shared ===

impl Shared {
    fn keep(&mut self, right: &AccountRight, allowed: bool, now: SystemTime) {
        if self.verdicts.len() >= MOST {
            self.verdicts.retain(|_, verdict| now < verdict.until);
        }
        if self.verdicts.len() >= MOST {
            self.verdicts.clear();
        }
        let longest = if allowed { LONGEST } else { LONGEST_MISSING };
        let until = now + longest;
        self.verdicts
            .insert(right.clone(), Verdict { allowed, until });
    }
}
