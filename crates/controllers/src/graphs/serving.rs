//! What the instances of a definition run: the newest revision, or what came before if they may not
//! move; or nothing, so that they can be deleted.
//!
//! Invariant: nobody is taken back to an older revision because a newer one cannot be run now.

use std::collections::BTreeMap;
use std::sync::Arc;

use deltaplane_api::admission::is_paused;
use deltaplane_api::keys;
use deltaplane_client::{Catalog, Resource};
use deltaplane_graph::Graph;
use serde_json::Value;

use super::admission::{self, Revisions};
use super::compiled::Uncompiled;
use super::definition::{self, Accepted, Kind, Progress};
use super::history::{self, History};
use super::revision::Revision;
use super::runner::{self, Given, Serving};
use super::served::Past;
use super::{
    Graphs, Mode, Seen, authoring, defined, instance, is_hub_authored, resource, verified,
};
use crate::queue::{Failure, Next};

/// A definition, and its name.
type Named<'a> = (&'a str, &'a Arc<Value>);

/// The version of a definition whose deletions somebody approved of.
fn approved_deletions(definition: &Value) -> Option<String> {
    let said = definition["metadata"]["annotations"][keys::APPROVED_DELETIONS].as_str();
    said.map(str::to_owned)
}

impl Graphs {
    /// Runs instances by this revision. Why some of what came before cannot be, if so.
    pub(super) async fn run(
        &self,
        (name, object): Named<'_>,
        newest: (i64, &Arc<Graph>),
        seen: &Seen,
        catalog: &Catalog,
    ) -> Option<Failure> {
        let (revisions, missing) = self.with_older(object, newest, seen, catalog).await;
        let (_, graph) = newest;
        let why = format!("the ResourceGraphDefinition {name} has no graph for this kind");
        self.leave(name, seen, Some(graph), &why);
        self.serve((name, object), newest, revisions);
        let told = !object["status"]["propagation"].is_null();
        if told && !admission::holds_back(graph, is_paused(object)) && !self.runners.tell(name) {
            let retracted = definition::retract_propagation(&self.context, object).await;
            return retracted.err().or(missing);
        }
        missing
    }

    /// Keeps what a definition says as a revision, and has instances run by it. What failed of that,
    /// which is also in the progress if it lasts.
    pub(super) async fn issue(
        &self,
        (name, object): Named<'_>,
        graph: &Arc<Graph>,
        seen: &Seen,
        catalog: &Catalog,
        progress: &mut Progress,
    ) -> Option<Failure> {
        let (context, revisions) = (&self.context, &seen.revisions);
        let number = match definition::keep_revision(context, object, graph, revisions).await {
            Ok(number) => number,
            Err(failure) => {
                progress.unkept = failure.lasting();
                return Some(failure);
            }
        };
        progress.revision = Some(number);
        if let Some(kept) = revisions.iter().find(|one| one.number == number) {
            verified::tell(context, kept, Ok(graph)).await;
        }
        let instances = resource(graph);
        let failed = match self.mode {
            Mode::Run => {
                let newest = (number, graph);
                self.run((name, object), newest, seen, catalog).await
            }
            Mode::Author => {
                let crossed = authoring::cross(context, &self.crossed, (name, number), &instances);
                let failed = crossed.await.err();
                let lasting = failed.as_ref().and_then(Failure::lasting);
                progress.hindered = lasting.or(progress.hindered.take());
                failed
            }
        };
        // Last, since nothing waits for it.
        let history = History {
            definition: object,
            revisions,
            instances: &instances,
            kept: self.options.revisions,
        };
        let tidied = history::keep(context, &self.needed, &history).await;
        let untidied = tidied.err();
        progress.untidied = untidied.as_ref().and_then(Failure::lasting);
        failed.or(untidied)
    }

    /// A kind cannot be looked at now: what runs goes on, and a definition that nobody judged yet, or
    /// of which nothing runs, says so.
    pub(super) async fn put_off(
        &self,
        name: &str,
        object: &Value,
        seen: &Seen,
        why: String,
    ) -> Result<Next, Failure> {
        self.go_on((name, object), seen, &why);
        // What it was judged to be is not in force if nothing runs.
        let idle = self.mode == Mode::Run && !self.runners.has_graph(name);
        if idle || !definition::is_judged(object) {
            let progress = Progress {
                accepted: Accepted::Unknown(why.clone()),
                kind: Kind::Pending,
                revision: None,
                unkept: None,
                untidied: None,
                hindered: None,
            };
            definition::tell(&self.context, object, None, &progress).await?;
        }
        Err(Failure::to("find out what a kind looks like")(why))
    }

    /// What runs goes on, and moves if its owner lets it; where nothing does, this is why.
    pub(super) fn go_on(&self, (name, object): (&str, &Value), seen: &Seen, why: &str) {
        self.runners
            .steer(name, is_paused(object), approved_deletions(object));
        if !self.runners.has_graph(name) {
            self.leave(name, seen, None, why);
        }
    }

    /// Runs the newest revision, unless something runs: whether that may move is said by its owner
    /// all the same.
    pub(super) async fn serve_last(
        &self,
        (name, object): Named<'_>,
        seen: &Seen,
        catalog: &Catalog,
    ) -> Result<(), Failure> {
        self.runners
            .steer(name, is_paused(object), approved_deletions(object));
        if self.mode == Mode::Author || seen.kinds.is_empty() || self.runners.has_graph(name) {
            return Ok(());
        }
        let Some(newest) = seen.newest() else {
            let why = format!("the ResourceGraphDefinition {name} was never valid");
            self.leave(name, seen, None, &why);
            return Ok(());
        };
        if let Err(why) = self.circles.check(name) {
            self.leave(name, seen, None, &why);
            return Ok(());
        }
        match self.revived(object, newest, catalog).await {
            Ok(graph) => {
                let newest = (newest.number, &graph);
                let missing = self.run((name, object), newest, seen, catalog).await;
                missing.map_or(Ok(()), Err)
            }
            Err(Uncompiled::Wrong(problems)) => {
                let number = newest.number;
                let why = format!("revision {number} of the graph cannot be run now: {problems}");
                self.leave(name, seen, None, &why);
                Ok(())
            }
            Err(Uncompiled::Later(why)) => {
                self.leave(name, seen, None, &why);
                Err(Failure::to("find out what a kind looks like")(why))
            }
        }
    }

    /// What a definition was before.
    pub(super) async fn past(
        &self,
        object: &Value,
        now: &Graph,
        seen: &Seen,
        catalog: &Catalog,
    ) -> Past {
        let newest = match seen.newest() {
            Some(newest) => self.revived(object, newest, catalog).await.ok(),
            None => None,
        };
        let hashes = seen.revisions.iter().map(|one| one.hash.as_str());
        Past::new(now, hashes, newest.as_deref())
    }

    /// The graph of a revision.
    async fn revived(
        &self,
        object: &Value,
        revision: &Revision,
        catalog: &Catalog,
    ) -> Result<Arc<Graph>, Uncompiled> {
        let mut then = object.clone();
        then["spec"] = revision.spec.clone();
        let compiled = self.compiled.graph(&then, catalog).await;
        let verified = match &compiled {
            Ok(graph) => Ok(&**graph),
            Err(Uncompiled::Wrong(problems)) => Err(problems),
            Err(Uncompiled::Later(_)) => return compiled,
        };
        verified::tell(&self.context, revision, verified).await;
        compiled
    }

    /// All that instances may run: the newest, and what came before, for those that may not move.
    /// And why some of that is missing, if it may come yet.
    async fn with_older(
        &self,
        object: &Value,
        (number, graph): (i64, &Arc<Graph>),
        seen: &Seen,
        catalog: &Catalog,
    ) -> (Revisions, Option<Failure>) {
        let mut graphs = BTreeMap::from([(number, graph.clone())]);
        let mut broken = BTreeMap::new();
        let mut missing = None;
        for revision in seen.revisions.iter().filter(|one| one.number < number) {
            match self.revived(object, revision, catalog).await {
                Ok(graph) => drop(graphs.insert(revision.number, graph)),
                Err(Uncompiled::Wrong(problems)) => {
                    broken.insert(revision.point(), problems.to_string());
                }
                Err(Uncompiled::Later(why)) => {
                    broken.insert(revision.point(), why.clone());
                    missing = Some(Failure::to("find out what a kind looks like")(why));
                }
            }
        }
        (Revisions::new(graphs).without(broken), missing)
    }

    /// Instances run by these graphs from now on, and move to this one.
    fn serve(
        &self,
        (name, object): Named<'_>,
        (target, newest): (i64, &Arc<Graph>),
        revisions: Revisions,
    ) {
        let resource = resource(newest);
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        let definition = instance::Definition {
            name: name.to_owned(),
            uid: uid.to_owned(),
            hub_authored: is_hub_authored(object),
        };
        let serving = Serving {
            definition: Arc::new(definition),
            target: Ok(target),
            paused: is_paused(object),
            approved: approved_deletions(object),
            revisions,
        };
        self.publish(name, resource, serving);
    }

    /// Kinds of a definition that it has no graph for, and why: their instances can be deleted.
    /// Kinds that are gone need nobody.
    pub(super) fn leave(&self, name: &str, seen: &Seen, graph: Option<&Graph>, why: &str) {
        let served = graph.map(resource);
        let kinds = seen.kinds.iter().filter_map(|kind| defined(kind));
        let others: Vec<Resource> = kinds.filter(|kind| Some(kind) != served.as_ref()).collect();
        self.runners.retain(name, |kind| {
            Some(kind) == served.as_ref() || others.contains(kind)
        });
        for resource in others.into_iter().filter(|_| self.mode == Mode::Run) {
            let definition = instance::Definition {
                name: name.to_owned(),
                uid: String::new(),
                hub_authored: false,
            };
            let serving = Serving {
                definition: Arc::new(definition),
                target: Err(why.to_owned()),
                revisions: Revisions::default(),
                paused: false,
                approved: None,
            };
            self.publish(name, resource, serving);
        }
    }

    fn publish(&self, name: &str, resource: Resource, serving: Serving) {
        let Some((serving, tells)) = self.runners.publish(resource.clone(), serving) else {
            return;
        };
        let given = Given {
            context: self.context.clone(),
            objects: self.objects.clone(),
            externals: self.externals.clone(),
            accounts: self.accounts.clone(),
            memories: self.memories.clone(),
            troubles: self.troubles.of_kind(name, &resource),
            counted: self.metrics.of(name, &resource.kind),
            guard: self.guard.clone(),
            discovery: self.discovery.clone(),
            tells,
            resource,
        };
        let stop = self.tasks.stop();
        self.tasks.spawn(async move {
            stop.unless(runner::run(given, serving)).await;
        });
    }
}
