//! A kind that the hub asks for: its objects that came from the hub, each judged when it changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use deltaplane_api::time::Time;
use deltaplane_client::feed::{Event, Feed, Query};
use deltaplane_client::{Discovery, Header, Item, Pace, Resource};
use deltaplane_propagation::readiness::{self, Judgement, State, is_graph};
use deltaplane_sync::{MANAGER, ORIGIN, ObjectName, SyncKind, VERSION};
use futures::StreamExt;
use kube::Client;
use serde_json::Value;
use tokio::sync::watch;

use super::board::Found;
use super::instances::{Instances, Judged};
use super::{Shared, Target, Targets, milliseconds};

pub(super) struct Following {
    kind: SyncKind,
    client: Client,
    pace: Pace,
    resource: Resource,
    targets: watch::Receiver<Targets>,
    shared: Arc<Shared>,
    /// What was told since the feed began anew.
    starting: Option<BTreeSet<ObjectName>>,
    /// Whether that was all.
    complete: bool,
    /// Of graphs.
    instances: Option<Instances>,
}

// === impl Following ===

impl Following {
    pub(super) fn new(
        kind: SyncKind,
        (client, pace): (Client, Pace),
        resource: Resource,
        targets: watch::Receiver<Targets>,
        (shared, discovery): (Arc<Shared>, Discovery),
    ) -> Self {
        let graphs = is_graph(kind.group(), kind.kind());
        let instances = graphs.then(|| Instances::new((client.clone(), pace.clone()), discovery));
        Self {
            kind,
            client,
            pace,
            resource,
            targets,
            shared,
            starting: None,
            complete: false,
            instances,
        }
    }

    /// Follows it, and begins anew when it is judged by something else.
    pub(super) async fn run(mut self) {
        let selector = format!("{ORIGIN}=hub");
        loop {
            let targets = self.targets.borrow_and_update().clone();
            let query = Query::all(self.resource.clone()).with_labels(&selector);
            let (told, mut trouble) = watch::channel(None);
            let feed = Feed::new(self.client.clone(), query, self.pace.clone());
            let mut events = feed.telling(told).events();
            loop {
                tokio::select! {
                    Some(event) = events.next() => self.event(event, &targets),
                    Ok(()) = trouble.changed() => {
                        let trouble = trouble.borrow_and_update().clone();
                        self.shared.change(|board| board.trouble(&self.kind, trouble));
                    }
                    graphs = next(&mut self.instances) => self.graphs(graphs),
                    changed = self.targets.changed() => match changed {
                        Ok(()) => break,
                        // It is not asked for any more.
                        Err(_) => return,
                    },
                }
            }
        }
    }

    fn event(&mut self, event: Event, targets: &[Target]) {
        match event {
            Event::Restarted => {
                self.starting = Some(BTreeSet::new());
                self.complete = false;
            }
            Event::Applied(item) => self.applied(&item, targets),
            Event::Deleted(item) => {
                if let Some(name) = name(&item.header) {
                    self.forget(&name);
                }
            }
            Event::InSync => {
                if let (Some(there), Some(instances)) = (&self.starting, &mut self.instances) {
                    instances.retain(there);
                }
                self.complete = true;
                self.seen();
            }
        }
    }

    /// All that is there was told. When all of it was judged, what was not told is gone.
    fn seen(&mut self) {
        let pending = self.instances.as_ref().is_some_and(Instances::is_pending);
        if !self.complete || pending {
            return;
        }
        if let Some(there) = self.starting.take() {
            self.shared.change(|board| board.seen(&self.kind, &there));
        }
    }

    fn forget(&mut self, name: &ObjectName) {
        if let Some(starting) = &mut self.starting {
            starting.remove(name);
        }
        if let Some(instances) = &mut self.instances {
            instances.remove(name);
        }
        self.shared.change(|board| board.forget(&self.kind, name));
    }

    fn applied(&mut self, item: &Item, targets: &[Target]) {
        let Some(name) = name(&item.header) else {
            return;
        };
        let label = |key: &str| item.header.labels.get(key).map(String::as_str);
        let mut targets = targets.iter();
        let Some(target) = targets.find(|one| one.asked.selects(&self.kind, &name, label)) else {
            self.forget(&name);
            return;
        };
        if let Some(starting) = &mut self.starting {
            starting.insert(name.clone());
        }
        let object = match item.parse::<Value>() {
            Ok(object) => self.typed(object),
            Err(error) => {
                let judgement = Judgement::waiting(format!("it cannot be read: {error}"));
                self.found(&name, &Value::Null, (judgement, None));
                return;
            }
        };
        match &mut self.instances {
            // How it fares is known when its instances are.
            Some(instances) if target.rules.is_common() => instances.insert(name, object),
            other => {
                if let Some(instances) = other {
                    instances.remove(&name);
                }
                let judgement = readiness::judge(&object, &target.rules);
                let applied = readiness::is_ready_when_applied(&object, &target.rules);
                let proven = applied.then(|| applied_at(&object)).flatten();
                self.found(&name, &object, (judgement, proven));
            }
        }
    }

    /// Objects in a list do not say what they are.
    fn typed(&self, mut object: Value) -> Value {
        if let Some(object) = object.as_object_mut() {
            object.insert("apiVersion".to_owned(), self.resource.api_version().into());
            object.insert("kind".to_owned(), self.resource.kind.as_str().into());
        }
        object
    }

    /// How these graphs fare, whose instances changed or were found.
    fn graphs(&mut self, graphs: Vec<Judged>) {
        for (name, definition, judgement) in graphs {
            self.found(&name, &definition, (judgement, None));
        }
        self.seen();
    }

    fn found(&self, name: &ObjectName, object: &Value, found: (Judgement, Option<u64>)) {
        let version = object["metadata"]["annotations"][VERSION].as_str();
        let version = version.and_then(|version| version.parse().ok());
        let (mut judgement, proven) = found;
        if version.is_none() && judgement.state == State::Ready {
            judgement = Judgement::waiting("it does not say which version it is");
        }
        let found = Found {
            version,
            judgement,
            proven,
            now: milliseconds(self.pace.clock.now()),
        };
        self.shared
            .change(|board| board.set(&self.kind, name, found));
    }
}

async fn next(instances: &mut Option<Instances>) -> Vec<Judged> {
    match instances {
        Some(instances) => instances.next().await,
        None => std::future::pending().await,
    }
}

fn name(header: &Header) -> Option<ObjectName> {
    ObjectName::new(&header.namespace, &header.name).ok()
}

/// When sync last applied it, at the latest: managed fields tell it in whole seconds.
fn applied_at(object: &Value) -> Option<u64> {
    let entries = object["metadata"]["managedFields"].as_array();
    let entries = entries.into_iter().flatten();
    let times = entries.filter(|one| one["manager"] == MANAGER);
    let times = times.filter_map(|one| one["time"].as_str()?.parse::<Time>().ok());
    let seconds = times.map(Time::unix).max()?;
    u64::try_from(seconds.saturating_add(1))
        .ok()?
        .checked_mul(1000)
}
