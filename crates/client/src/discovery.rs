//! Which kinds the API serves, now and whenever that changes.
//!
//! Invariant: a group that could not be asked is listed as such, and is never taken for one that
//! serves nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use kube::Client;
use serde::Deserialize;
use tokio::sync::watch;

use deltaplane_api::conditions;
use deltaplane_runtime::Stop;

use crate::cache::Cache;
use crate::feed::{Feed, Query};
use crate::header::{Item, null_as_default};
use crate::pace::{Backoff, Pace};
use crate::request::{self, RequestError};
use crate::resource::Resource;

/// What the API serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    /// By group and plural: each kind once, at the version that the server prefers.
    pub kinds: BTreeMap<(String, String), Served>,
    /// Groups and versions that could not be asked, and why.
    pub failures: BTreeMap<String, String>,
    /// (group, version, kind) to plural, for every version that is served.
    names: BTreeMap<(String, String, String), String>,
    /// The generations of the definitions of custom kinds: what these look like changes with them.
    generations: BTreeMap<(String, String), i64>,
}

/// A kind and what can be done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Where its objects are.
    pub resource: Resource,
    /// Such as `list`, `watch`, `delete`.
    pub verbs: BTreeSet<String>,
    /// What people call it for short, such as `cm`.
    pub short_names: BTreeSet<String>,
}

/// How an API serves a kind of which somebody says the plural.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PluralCheck<'a> {
    /// Under that plural.
    Matches,
    /// Under another plural.
    ServedAs(&'a Resource),
    /// Not at all, and the plural is that of another kind.
    Taken(&'a Resource),
    /// Neither the kind nor the plural is served.
    NotServed,
    /// The group does not answer.
    Unknown,
}

/// The newest catalog, for as many as want to know. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Discovery {
    catalog: watch::Receiver<Option<Arc<Catalog>>>,
}

/// Keeps the catalog new.
pub struct Follower {
    client: Client,
    pace: Pace,
    catalog: watch::Sender<Option<Arc<Catalog>>>,
}

#[derive(Deserialize)]
struct Groups {
    #[serde(default, deserialize_with = "null_as_default")]
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    #[serde(default, deserialize_with = "null_as_default")]
    versions: Vec<GroupVersion>,
    #[serde(default)]
    preferred_version: Option<GroupVersion>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct GroupVersion {
    group_version: String,
}

#[derive(Deserialize)]
struct Resources {
    #[serde(default, deserialize_with = "null_as_default")]
    resources: Vec<ApiResource>,
}

#[derive(Deserialize)]
struct ApiResource {
    name: String,
    kind: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default, deserialize_with = "null_as_default")]
    verbs: BTreeSet<String>,
    #[serde(default, rename = "shortNames", deserialize_with = "null_as_default")]
    short_names: BTreeSet<String>,
}

/// What a definition says that should be in the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Definition {
    group: String,
    plural: String,
    /// Changes with whatever may change what is served.
    generation: i64,
    established: bool,
}

/// How long to wait for more changes before asking again: definitions often come in numbers.
const GATHER: Duration = Duration::from_millis(20);
/// A definition that is established is served a moment later; how often to look for it.
const UNTIL_SERVED: Backoff = Backoff {
    first: Duration::from_millis(20),
    longest: Duration::from_secs(30),
};

/// So many groups are asked at once.
const AT_ONCE: usize = 16;
/// A group that answers later is asked again: all others wait for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks the API what it serves.
pub async fn discover(client: &Client) -> Result<Catalog, RequestError> {
    let Groups { groups } = request::get(client, "/apis").await?;
    let mut paths = vec![("/api/v1".to_owned(), String::new(), "v1".to_owned())];
    for group in groups {
        let preferred = group.preferred_version;
        let others = group
            .versions
            .into_iter()
            .filter(|version| preferred.as_ref() != Some(version));
        let versions: Vec<_> = others.collect();
        for GroupVersion { group_version } in preferred.into_iter().chain(versions) {
            if let Some((group, version)) = group_version.split_once('/') {
                let path = format!("/apis/{group_version}");
                paths.push((path, group.to_owned(), version.to_owned()));
            }
        }
    }
    let mut catalog = Catalog::default();
    let asked = paths.into_iter().map(|(path, group, version)| async move {
        let answer = request::get_within::<Resources>(client, &path, PATIENCE).await;
        (path, group, version, answer)
    });
    // In their order: what is preferred comes first.
    let mut answers = stream::iter(asked).buffered(AT_ONCE);
    while let Some((path, group, version, answer)) = answers.next().await {
        catalog.add(&path, (&group, &version), answer);
    }
    Ok(catalog)
}

/// A catalog that is kept new, and what keeps it so, to be run as a task.
pub fn follow(client: Client, pace: Pace) -> (Discovery, Follower) {
    let (sender, receiver) = watch::channel(None);
    let follower = Follower {
        client,
        pace,
        catalog: sender,
    };
    (Discovery { catalog: receiver }, follower)
}

// === impl Catalog ===

impl Catalog {
    fn add(
        &mut self,
        path: &str,
        (group, version): (&str, &str),
        answer: Result<Resources, RequestError>,
    ) {
        match answer {
            Ok(Resources { resources }) => self.insert(group, version, resources),
            Err(error) => {
                let name = path
                    .trim_start_matches("/apis/")
                    .trim_start_matches("/api/");
                self.failures.insert(name.to_owned(), error.to_string());
            }
        }
    }

    fn insert(&mut self, group: &str, version: &str, resources: Vec<ApiResource>) {
        let whole = |resource: &ApiResource| !resource.name.contains('/');
        for resource in resources.into_iter().filter(whole) {
            let ApiResource {
                name,
                kind,
                namespaced,
                verbs,
                short_names,
            } = resource;
            let resource = Resource {
                group: group.to_owned(),
                version: version.to_owned(),
                plural: name,
                kind,
                namespaced,
            };
            self.insert_served(Served {
                resource,
                verbs,
                short_names,
            });
        }
    }

    /// Adds a kind at one version; the first version of a kind is its preferred one.
    pub fn insert_served(&mut self, served: Served) {
        let Resource {
            group,
            version,
            plural,
            kind,
            namespaced: _,
        } = served.resource.clone();
        self.names
            .insert((group.clone(), version, kind), plural.clone());
        self.kinds.entry((group, plural)).or_insert(served);
    }

    /// The kind that objects name so, if that version of it is served.
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<&Served> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let triple = (group.to_owned(), version.to_owned(), kind.to_owned());
        let plural = self.names.get(&triple)?;
        self.kinds.get(&(group.to_owned(), plural.clone()))
    }

    /// The kind of a group, at the version that the server prefers.
    pub fn group_kind(&self, group: &str, kind: &str) -> Option<&Served> {
        let mut kinds = self.kinds.values();
        kinds.find(|one| one.resource.group == group && one.resource.kind == kind)
    }

    /// Compares what somebody says is the plural of a kind with what is served.
    pub fn check_plural(&self, group: &str, kind: &str, plural: &str) -> PluralCheck<'_> {
        if self.failure(group).is_some() {
            return PluralCheck::Unknown;
        }
        let named = self.kinds.get(&(group.to_owned(), plural.to_owned()));
        match (named, self.group_kind(group, kind)) {
            (Some(named), _) if named.resource.kind == kind => PluralCheck::Matches,
            (_, Some(served)) => PluralCheck::ServedAs(&served.resource),
            (Some(named), None) => PluralCheck::Taken(&named.resource),
            (None, None) => PluralCheck::NotServed,
        }
    }

    /// Why it is not known what a group serves.
    pub fn failure(&self, group: &str) -> Option<&str> {
        let of = |name: &str| name.split_once('/').map_or("", |(group, _)| group) == group;
        let mut failures = self.failures.iter();
        let (_, why) = failures.find(|(name, _)| of(name))?;
        Some(why)
    }

    /// The kinds with all of these verbs.
    pub fn with_verbs<'a>(&'a self, verbs: &'a [&str]) -> impl Iterator<Item = &'a Resource> {
        let able = |served: &&Served| verbs.iter().all(|verb| served.verbs.contains(*verb));
        self.kinds
            .values()
            .filter(able)
            .map(|served| &served.resource)
    }
}

// === impl Discovery ===

impl Discovery {
    /// The newest catalog, once there is one.
    pub async fn current(&mut self) -> Arc<Catalog> {
        loop {
            if let Some(catalog) = self.catalog.borrow_and_update().clone() {
                return catalog;
            }
            self.wait().await;
        }
    }

    /// The newest catalog, when it is another than the last one that was given.
    pub async fn changed(&mut self) -> Arc<Catalog> {
        self.wait().await;
        self.current().await
    }

    async fn wait(&mut self) {
        if self.catalog.changed().await.is_err() {
            // Its follower has ended, which only happens when all is ending.
            std::future::pending::<()>().await;
        }
    }
}

// === impl Follower ===

impl Follower {
    /// Asks now, and again whenever a definition of custom kinds changes.
    pub async fn run(self, stop: Stop) {
        stop.unless(self.follow()).await;
    }

    async fn follow(self) {
        let definitions = Resource::cluster(
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
        );
        let query = Query::all(definitions);
        let mut events = Feed::new(self.client.clone(), query, self.pace.clone()).events();
        let mut cache = Cache::new();
        let mut stale = true;
        let mut attempts = 0;
        let mut asked = None;
        let pace = Pace {
            backoff: UNTIL_SERVED,
            ..self.pace.clone()
        };
        loop {
            let pause = match (stale, attempts) {
                (true, 0) => GATHER,
                (true, attempts) => pace.delay(attempts, asked),
                // Nothing to do; the clock is not asked then.
                (false, _) => Duration::MAX,
            };
            tokio::select! {
                Some(event) = events.next() => {
                    if !cache.apply(event, Definition::of).is_empty() {
                        stale = true;
                        attempts = 0;
                    }
                }
                () = self.pace.clock.sleep(pause), if stale => {
                    attempts += 1;
                    (stale, asked) = match self.refresh(&cache).await {
                        Ok(complete) => (!complete, None),
                        Err(error) => {
                            let asked = error.retry_after();
                            let error = &error as &dyn Error;
                            tracing::warn!(error, "failed to ask which kinds are served");
                            (true, asked)
                        }
                    };
                }
            }
        }
    }

    /// Asks what is served; whether that is all that should be.
    async fn refresh(&self, definitions: &Cache<Definition>) -> Result<bool, RequestError> {
        let mut catalog = discover(&self.client).await?;
        let all = definitions.iter().map(|(_, one)| one);
        let all = all.map(|one| ((one.group.clone(), one.plural.clone()), one.generation));
        let served = all.filter(|(name, _)| catalog.kinds.contains_key(name));
        catalog.generations = served.collect();
        let complete = catalog.failures.is_empty() && as_defined(&catalog, definitions);
        self.catalog.send_if_modified(|current| {
            let changed = current.as_deref() != Some(&catalog);
            if changed {
                *current = Some(Arc::new(catalog));
            }
            changed
        });
        Ok(complete)
    }
}

/// Whether every definition that is established is served.
fn as_defined(catalog: &Catalog, definitions: &Cache<Definition>) -> bool {
    let served = |definition: &Definition| {
        let key = (definition.group.clone(), definition.plural.clone());
        !definition.established || catalog.kinds.contains_key(&key)
    };
    definitions.iter().all(|(_, definition)| served(definition))
}

// === impl Definition ===

impl Definition {
    fn of(item: Item) -> Option<Self> {
        #[derive(Deserialize)]
        struct Object {
            spec: Spec,
            #[serde(default, deserialize_with = "null_as_default")]
            status: Status,
        }
        #[derive(Deserialize)]
        struct Spec {
            group: String,
            names: Names,
        }
        #[derive(Deserialize)]
        struct Names {
            plural: String,
        }
        #[derive(Default, Deserialize)]
        struct Status {
            #[serde(default, deserialize_with = "null_as_default")]
            conditions: Vec<Condition>,
        }
        #[derive(Deserialize)]
        struct Condition {
            r#type: String,
            status: String,
        }
        let Object { spec, status } = item.parse().ok()?;
        let conditions = status.conditions.iter();
        let pairs = conditions.map(|one| (one.r#type.as_str(), one.status.as_str()));
        let established = conditions::hold(pairs, conditions::ESTABLISHED);
        Some(Self {
            group: spec.group,
            plural: spec.names.plural,
            generation: item.header.generation,
            established,
        })
    }
}

#[cfg(test)]
mod tests;
