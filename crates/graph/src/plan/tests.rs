//! Scenarios: a definition, an instance, and what is done step by step.
//!
//! Each line of a scenario is a step: `pass` plans and applies until nothing is to be done; others
//! change what there is. What is done and how it stands then is what is compared.

mod authored;
mod bounds;
mod chains;
mod foreign;
mod hindered;
mod items;
mod lost;
mod masks;
mod names;
mod nodes;
mod references;
mod room;
mod secrets;
mod times;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::{Value as Json, json};

use super::*;
use crate::compile::tests::compiled;
use crate::labels;
use crate::observed::{Applied, Live};
use crate::stored::{ObjectNeeds, StoredObject};

/// An API with one instance, which does what it is told, and who plans for it.
struct World {
    graph: Graph,
    instance: Json,
    observed: Observed,
    now: Timestamp,
    /// What plans said to keep, and what it was last applied with.
    kept: BTreeMap<ObjectId, Json>,
    /// What is somebody else's.
    taken: BTreeSet<ObjectId>,
    applied: BTreeMap<ObjectId, Json>,
    in_flight: BTreeMap<ObjectId, Content>,
    /// Sent, and not answered; and those of them that the API has nonetheless.
    unsure: BTreeMap<ObjectId, Content>,
    late: Vec<(String, Live)>,
    /// Nodes of others' objects that cannot be seen.
    unseen: BTreeSet<String>,
    /// What the API refuses.
    refused: BTreeSet<ObjectId>,
    writes: u64,
    said: String,
}

fn check(definition: &str, instance: Json, steps: &str, expected: Expect) {
    let mut world = World::new(definition, instance);
    for step in steps.lines().map(str::trim).filter(|step| !step.is_empty()) {
        writeln!(world.said, "> {step}").expect("a string");
        world.step(step);
    }
    expected.assert_eq(&world.said);
}

impl World {
    fn new(definition: &str, mut instance: Json) -> Self {
        let graph = compiled(definition).unwrap_or_else(|problems| panic!("{problems}"));
        instance["metadata"] = json!({"name": "shop", "namespace": "team", "uid": "u-1"});
        Self {
            graph,
            instance,
            observed: Observed::default(),
            now: Timestamp::parse("2026-03-01T12:00:00Z").expect("a time"),
            kept: BTreeMap::new(),
            taken: BTreeSet::new(),
            applied: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            unsure: BTreeMap::new(),
            late: Vec::new(),
            unseen: BTreeSet::new(),
            refused: BTreeSet::new(),
            writes: 0,
            said: String::new(),
        }
    }

    fn step(&mut self, step: &str) {
        let (word, rest) = step.split_once(' ').unwrap_or((step, ""));
        match word {
            "pass" => self.pass(),
            // The instance, or objects by their node and name: `set web status.ready=true`,
            // `set rooms/a data.open="yes"`.
            "set" => {
                let (node, change) = rest.split_once(' ').expect("a node and a change");
                let (path, value) = change.split_once('=').expect("a path and a value");
                let value: Json = serde_json::from_str(value).expect("JSON");
                match node {
                    "schema" => put(&mut self.instance, path, value),
                    node => {
                        self.change(node, |json: &mut Json| put(json, path, Json::clone(&value)))
                    }
                }
            }
            "show" => {
                let (node, path) = rest.split_once(' ').expect("a node and a path");
                for (_, live) in self.named(node) {
                    let value = path.split('.').fold(live.json(), |json, key| &json[key]);
                    writeln!(self.said, "{}: {value}", live.id).expect("a string");
                }
            }
            "drift" => self.replace(rest, |live| {
                live.applied.as_mut().expect("applied").intact = false;
            }),
            // Somebody else applied it.
            "foreign" => self.replace(rest, |live| live.applied = None),
            // Nobody saw whether somebody changed it, and nothing says that its fields are ours.
            "doubt" => self.replace(rest, |live| live.sure = false),
            "gone" => {
                for (node, live) in self.named(rest) {
                    self.observed.remove(&node, &live.id);
                }
            }
            // It is seen in another version of its kind, too.
            "twin" => {
                for (node, live) in self.named(rest) {
                    for version in [live.id.gvk.version.as_str(), "v2"] {
                        let mut twin = Live::clone(&live);
                        twin.id.gvk.version = version.to_owned();
                        twin.uid = format!("uid of {}", live.id.name);
                        self.observed.insert(&node, Arc::new(twin));
                    }
                }
            }
            "ending" => self.replace(rest, |live| live.deleting = true),
            "taken" => self.taken.extend(self.ids(rest)),
            // The API takes no change of them.
            "refuse" => self.refused.extend(self.ids(rest)),
            // Nobody can see the objects of others that it refers to.
            "unseen" => {
                self.step(&format!("gone {rest}"));
                self.unseen.insert(rest.to_owned());
            }
            "seen" => {
                self.unseen.remove(rest);
            }
            "now" => self.now = Timestamp::parse(rest).expect("a time"),
            // So many objects of the next plan are applied, and then all but what the API has is
            // forgotten: `crash 1`.
            "crash" => {
                let plan = self.plan();
                let most = rest.parse().expect("a number");
                for apply in plan.apply.iter().take(most) {
                    let (node, live) = self.applied(apply);
                    self.observed.insert(&node, Arc::new(live));
                }
                self.forget();
            }
            // The next plan is carried out, or not, and nobody hears of it.
            "lose" => {
                let plan = self.plan();
                self.keep(&plan);
                for apply in &plan.apply {
                    self.unsure.insert(apply.id.clone(), apply.content.clone());
                    let sent = self.applied(apply);
                    if rest == "answers" {
                        self.late.push(sent);
                    }
                }
            }
            // What was admitted is not kept.
            "forget" => self.in_flight.clear(),
            // What the API has is seen.
            "look" => self.look(),
            other => panic!("{other}"),
        }
    }

    fn ids(&self, which: &str) -> Vec<ObjectId> {
        let named = self.named(which).into_iter();
        named.map(|(_, live)| live.id.clone()).collect()
    }

    fn look(&mut self) {
        for (node, live) in std::mem::take(&mut self.late) {
            self.observed.insert(&node, Arc::new(live));
        }
        self.unsure.clear();
    }

    /// All that is left are objects.
    fn forget(&mut self) {
        self.look();
        self.in_flight.clear();
        self.applied.clear();
        let before = std::mem::take(&mut self.observed);
        for (node, live) in before.iter() {
            let json = live.json().clone();
            let mark = text(&json, &["metadata", "annotations", labels::CONTENT]);
            let applied = mark.map(|mark| Applied {
                content: Content::read(mark),
                intact: true,
            });
            let mut live = Live::parsed(live.id.clone(), json);
            live.applied = applied;
            self.observed.insert(node, Arc::new(live));
        }
    }

    /// Objects by their node, or by that and their name.
    fn named(&self, which: &str) -> Vec<(String, Arc<Live>)> {
        let (node, name) = which.split_once('/').unwrap_or((which, ""));
        let all = self.observed.of(node).cloned();
        let named = all.filter(|live| name.is_empty() || live.id.name == name);
        named.map(|live| (node.to_owned(), live)).collect()
    }

    fn change(&mut self, which: &str, change: impl Fn(&mut Json)) {
        self.replace(which, |live| {
            let mut json = live.json().clone();
            change(&mut json);
            let mut new = Live::parsed(live.id.clone(), json);
            new.applied.clone_from(&live.applied);
            *live = new;
        });
    }

    fn replace(&mut self, which: &str, change: impl Fn(&mut Live)) {
        for (node, live) in self.named(which) {
            let mut new = Live::parsed(live.id.clone(), live.json().clone());
            new.applied.clone_from(&live.applied);
            new.deleting = live.deleting;
            change(&mut new);
            self.observed.insert(&node, Arc::new(new));
        }
    }

    /// The same whenever it is asked for, and over objects of which only what is needed is kept.
    fn plan(&self) -> Plan {
        let made = self.planned(&self.observed);
        let again = self.planned(&self.observed);
        assert_eq!(format!("{made:?}"), format!("{again:?}"));
        let mut stored = self.planned(&self.stored());
        let instance = Instance::new(&self.instance);
        let authored = |plan: &Plan| author_conditions(&self.graph, instance, plan, &json!([]));
        assert_eq!(authored(&made), authored(&stored));
        let mut whole = again;
        whole.shown.clear();
        stored.shown.clear();
        assert_eq!(format!("{whole:?}"), format!("{stored:?}"));
        made
    }

    /// What is observed, after it was stored with what its nodes need.
    fn stored(&self) -> Observed {
        let mut observed = Observed::default();
        for (node, live) in self.observed.iter() {
            let of = self.graph.find(node).map(|index| self.graph.node(index));
            let made = of.filter(|node| !node.is_external());
            let needs = made.map_or_else(ObjectNeeds::whole, |node| node.needs().clone());
            let mut stored = StoredObject::of(live, &needs);
            let id = live.id.clone();
            let read = stored.live(id.clone(), &live.uid, &live.resource_version);
            stored.shrink(&needs);
            let again = stored.live(id, &live.uid, &live.resource_version);
            assert_eq!(format!("{read:?}"), format!("{again:?}"));
            observed.insert(node, Arc::new(read));
        }
        observed
    }

    fn planned(&self, observed: &Observed) -> Plan {
        plan(Inputs {
            graph: &self.graph,
            instance: Instance::new(&self.instance),
            observed,
            taken: &|id| self.taken.get(id).map(|_| Owner("them".to_owned())),
            product: "test",
            now: self.now,
            frozen: &|id| self.kept.get(id).cloned(),
            unsure: &self.unsure,
            in_flight: &self.in_flight,
            unseen: &|index| self.unseen.contains(self.graph.node(index).id()),
            rendering: Rendering {
                without: &|id| self.refused.contains(id),
                ..Rendering::whole()
            },
        })
    }

    fn pass(&mut self) {
        loop {
            let plan = self.plan();
            let again = plan.apply.len() + plan.prune.len() > 0;
            self.act(&plan);
            if !again {
                self.tell(&plan);
                return;
            }
        }
    }

    /// What is kept before anything is done.
    fn keep(&mut self, plan: &Plan) {
        self.in_flight.clone_from(&plan.in_flight);
        self.kept.retain(|id, _| plan.keep.contains(id));
        for id in &plan.keep {
            let applied = self.applied.get(id);
            if let Some(applied) = applied {
                self.kept.insert(id.clone(), applied.clone());
            }
        }
    }

    fn act(&mut self, plan: &Plan) {
        self.keep(plan);
        for apply in &plan.apply {
            let (node, live) = self.applied(apply);
            self.observed.insert(&node, Arc::new(live));
            self.unsure.remove(&apply.id);
            self.late.retain(|(_, late)| late.id != apply.id);
        }
        for prune in &plan.prune {
            writeln!(self.said, "delete {} of {}", prune.id, prune.node).expect("a string");
            self.observed.remove(&prune.node, &prune.id);
        }
    }

    /// What the API has when something was applied.
    fn applied(&mut self, apply: &Apply) -> (String, Live) {
        self.writes += 1;
        assert!(self.writes < 10_000, "it never ends:\n{}", self.said);
        writeln!(self.said, "apply {} ({:?})", apply.id, apply.why).expect("a string");
        self.applied.insert(apply.id.clone(), apply.object.clone());
        let node = self.graph.node(apply.node).id().to_owned();
        let before = self.observed.get(&node, &apply.id);
        let mut object = apply.object.clone();
        if let Some(before) = before.map(|live| live.json()) {
            let metadata = &before["metadata"];
            for field in ["creationTimestamp", "generation"] {
                let value = metadata[field].clone();
                if !value.is_null() {
                    object["metadata"][field] = value;
                }
            }
            if !before["status"].is_null() {
                object["status"] = before["status"].clone();
            }
        }
        if apply.why != Cause::Drifted {
            let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
            object["metadata"]["generation"] = (generation + 1).into();
        }
        let mut live = Live::parsed(apply.id.clone(), object);
        let content = apply.content.clone();
        live.applied = Some(Applied {
            content,
            intact: true,
        });
        (node, live)
    }

    fn tell(&mut self, plan: &Plan) {
        let mut held = false;
        for (index, node) in self.graph.indexed() {
            let standing = shown(&self.graph, &plan.nodes[index.get()]);
            writeln!(self.said, "{}: {standing}", node.id()).expect("a string");
            for gated in plan.gated(index) {
                held = true;
                let word = match plan.frozen.contains(gated) {
                    true => "frozen",
                    false => "gated",
                };
                let Gated { id, verdict, .. } = gated;
                writeln!(self.said, "  {word} {id}: {verdict}").expect("a string");
            }
        }
        assert!(!(held && (plan.is_propagated() || plan.is_ready())));
        if let Some(next) = plan.next {
            writeln!(self.said, "next {next}").expect("a string");
        }
        writeln!(self.said, "status {}", plan.status.value).expect("a string");
    }
}

fn shown(graph: &Graph, standing: &Standing) -> String {
    let id = |index: &NodeIndex| graph.node(*index).id().to_owned();
    match standing {
        Standing::Excluded(Exclusion::Condition { source }) => format!("excluded by {source}"),
        Standing::Excluded(Exclusion::With(node)) => format!("excluded with {}", id(node)),
        Standing::Blocked { on } => {
            format!(
                "blocked by {}",
                on.iter().map(id).collect::<Vec<_>>().join(", ")
            )
        }
        Standing::Waiting(wait) => format!("waits for {} in {}", wait.path, wait.place),
        Standing::Failed(wrong) => format!("failed at {}: {}", wrong.place, wrong.message),
        Standing::NotReady(NotReady { id, why, broken }) => match broken {
            Some(broken) => format!("{id} is not ready: {why:?}; it is broken: {broken}"),
            None => format!("{id} is not ready: {why:?}"),
        },
        Standing::Gated { objects, broken } => {
            format!("{} not made yet{}", objects.len(), beside(broken))
        }
        Standing::Ending { id, broken } => format!("{id} is being deleted{}", beside(broken)),
        other @ (Standing::Taken { .. }
        | Standing::Applying { .. }
        | Standing::Missing { .. }
        | Standing::Unseen
        | Standing::Ready) => format!("{other:?}"),
    }
}

/// One that failed.
fn beside(broken: &Option<NotReady>) -> String {
    let why = broken.iter().filter_map(|one| one.broken.as_deref());
    why.map(|why| format!(", and one failed: {why}")).collect()
}

fn put(json: &mut Json, path: &str, value: Json) {
    let place = path.split('.').fold(json, |json, key| &mut json[key]);
    *place = value;
}

const SHOP: &str = r#"
schema:
  kind: Shop
  apiVersion: v1
  spec: {name: string, replicas: integer, cache: boolean}
  status: {available: "${web.status.availableReplicas}", config: "${config.metadata.name}"}
resources:
- id: config
  template:
    {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.spec.name}"}, data: {a: b}}
- id: web
  readyWhen: ["${web.status.availableReplicas == web.spec.replicas}"]
  template:
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: "${config.metadata.name}-web"}
    spec: {replicas: "${schema.spec.replicas}"}
- id: service
  template:
    {apiVersion: v1, kind: Service, metadata: {name: "${web.metadata.name}"}}
- id: cache
  includeWhen: ["${schema.spec.cache}"]
  template:
    {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.spec.name}-cache"}}
"#;

fn shop(cache: bool) -> Json {
    json!({"spec": {"name": "a", "replicas": 2, "cache": cache}})
}

#[test]
fn what_can_be_applied_is_and_the_rest_says_what_it_waits_for() {
    let steps = "pass\nset web status.availableReplicas=2\npass\npass";
    check(
        SHOP,
        shop(true),
        steps,
        expect![[r#"
        > pass
        apply ConfigMap team/a (Absent)
        apply ConfigMap team/a-cache (Absent)
        apply Deployment team/a-web (Absent)
        config: Ready
        web: Deployment team/a-web is not ready: Waiting(Wait { path: Path { root: "web", steps: [Field("status")] }, source: "${web.status.availableReplicas == web.spec.replicas}", place: "spec.resources[1].readyWhen[0]" })
        service: blocked by web
        cache: Ready
        status {"config":"a"}
        > set web status.availableReplicas=2
        > pass
        apply Service team/a-web (Absent)
        config: Ready
        web: Ready
        service: Ready
        cache: Ready
        status {"available":2,"config":"a"}
        > pass
        config: Ready
        web: Ready
        service: Ready
        cache: Ready
        status {"available":2,"config":"a"}
    "#]],
    );
}

#[test]
fn what_is_changed_drifted_or_gone_is_applied_again_and_nothing_else() {
    let steps = "pass\nset web status.availableReplicas=2\npass\nset schema spec.replicas=3\npass
                 drift config\npass\ngone service\npass\nset web status.availableReplicas=3\npass";
    check(
        SHOP,
        shop(false),
        steps,
        expect![[r#"
        > pass
        apply ConfigMap team/a (Absent)
        apply Deployment team/a-web (Absent)
        config: Ready
        web: Deployment team/a-web is not ready: Waiting(Wait { path: Path { root: "web", steps: [Field("status")] }, source: "${web.status.availableReplicas == web.spec.replicas}", place: "spec.resources[1].readyWhen[0]" })
        service: blocked by web
        cache: excluded by ${schema.spec.cache}
        status {"config":"a"}
        > set web status.availableReplicas=2
        > pass
        apply Service team/a-web (Absent)
        config: Ready
        web: Ready
        service: Ready
        cache: excluded by ${schema.spec.cache}
        status {"available":2,"config":"a"}
        > set schema spec.replicas=3
        > pass
        apply Deployment team/a-web (Changed)
        config: Ready
        web: Deployment team/a-web is not ready: Condition { source: "${web.status.availableReplicas == web.spec.replicas}" }
        service: blocked by web
        cache: excluded by ${schema.spec.cache}
        status {"available":2,"config":"a"}
        > drift config
        > pass
        apply ConfigMap team/a (Drifted)
        config: Ready
        web: Deployment team/a-web is not ready: Condition { source: "${web.status.availableReplicas == web.spec.replicas}" }
        service: blocked by web
        cache: excluded by ${schema.spec.cache}
        status {"available":2,"config":"a"}
        > gone service
        > pass
        config: Ready
        web: Deployment team/a-web is not ready: Condition { source: "${web.status.availableReplicas == web.spec.replicas}" }
        service: blocked by web
        cache: excluded by ${schema.spec.cache}
        status {"available":2,"config":"a"}
        > set web status.availableReplicas=3
        > pass
        apply Service team/a-web (Absent)
        config: Ready
        web: Ready
        service: Ready
        cache: excluded by ${schema.spec.cache}
        status {"available":3,"config":"a"}
    "#]],
    );
}

#[test]
fn what_is_excluded_goes_when_nothing_is_open() {
    let steps = "pass\nset schema spec.cache=false\npass\nset web status.availableReplicas=2\npass
                 ending config\npass";
    check(
        SHOP,
        shop(true),
        steps,
        expect![[r#"
        > pass
        apply ConfigMap team/a (Absent)
        apply ConfigMap team/a-cache (Absent)
        apply Deployment team/a-web (Absent)
        config: Ready
        web: Deployment team/a-web is not ready: Waiting(Wait { path: Path { root: "web", steps: [Field("status")] }, source: "${web.status.availableReplicas == web.spec.replicas}", place: "spec.resources[1].readyWhen[0]" })
        service: blocked by web
        cache: Ready
        status {"config":"a"}
        > set schema spec.cache=false
        > pass
        config: Ready
        web: Deployment team/a-web is not ready: Waiting(Wait { path: Path { root: "web", steps: [Field("status")] }, source: "${web.status.availableReplicas == web.spec.replicas}", place: "spec.resources[1].readyWhen[0]" })
        service: blocked by web
        cache: excluded by ${schema.spec.cache}
        status {"config":"a"}
        > set web status.availableReplicas=2
        > pass
        apply Service team/a-web (Absent)
        delete ConfigMap team/a-cache of cache
        config: Ready
        web: Ready
        service: Ready
        cache: excluded by ${schema.spec.cache}
        status {"available":2,"config":"a"}
        > ending config
        > pass
        config: ConfigMap team/a is being deleted
        web: blocked by config
        service: blocked by web
        cache: excluded by ${schema.spec.cache}
        status {"available":2,"config":"a"}
    "#]],
    );
}

const TENANTS: &str = r#"
schema:
  kind: Tenants
  apiVersion: v1
  spec: {names: "[]string", zones: "[]string"}
resources:
- id: rooms
  forEach: [{name: "${schema.spec.names}"}, {zone: "${schema.spec.zones}"}]
  readyWhen: ["${each.data.open == 'yes'}"]
  template:
    {apiVersion: v1, kind: ConfigMap, metadata: {name: "${name}-${zone}"}, data: {open: "no"}}
- id: list
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: list}
    data: {count: "${string(size(rooms))}"}
"#;

#[test]
fn collections_have_an_object_for_every_combination() {
    let steps = r#"pass
                   set rooms data.open="yes"
                   pass
                   set schema spec.names=["a","c"]
                   pass
                   set rooms data.open="yes"
                   pass"#;
    let instance = json!({"spec": {"names": ["a", "b"], "zones": ["x", "y"]}});
    check(
        TENANTS,
        instance,
        steps,
        expect![[r#"
        > pass
        apply ConfigMap team/a-x (Absent)
        apply ConfigMap team/a-y (Absent)
        apply ConfigMap team/b-x (Absent)
        apply ConfigMap team/b-y (Absent)
        rooms: ConfigMap team/a-x is not ready: Condition { source: "${each.data.open == 'yes'}" }
        list: blocked by rooms
        status {}
        > set rooms data.open="yes"
        > pass
        apply ConfigMap team/list (Absent)
        rooms: Ready
        list: Ready
        status {}
        > set schema spec.names=["a","c"]
        > pass
        apply ConfigMap team/c-x (Absent)
        apply ConfigMap team/c-y (Absent)
        rooms: ConfigMap team/c-x is not ready: Condition { source: "${each.data.open == 'yes'}" }
        list: blocked by rooms
        status {}
        > set rooms data.open="yes"
        > pass
        delete ConfigMap team/b-x of rooms
        delete ConfigMap team/b-y of rooms
        rooms: Ready
        list: Ready
        status {}
    "#]],
    );
}

/// What becomes of the others does not depend on one that is going, or was changed.
#[test]
fn one_item_keeps_no_other() {
    let steps = r#"pass
                   set rooms data.open="yes"
                   pass
                   ending rooms/a-x
                   drift rooms/a-y
                   set schema spec.names=["a","c"]
                   pass
                   gone rooms/a-x
                   pass"#;
    let instance = json!({"spec": {"names": ["a", "b"], "zones": ["x", "y"]}});
    check(
        TENANTS,
        instance,
        steps,
        expect![[r#"
        > pass
        apply ConfigMap team/a-x (Absent)
        apply ConfigMap team/a-y (Absent)
        apply ConfigMap team/b-x (Absent)
        apply ConfigMap team/b-y (Absent)
        rooms: ConfigMap team/a-x is not ready: Condition { source: "${each.data.open == 'yes'}" }
        list: blocked by rooms
        status {}
        > set rooms data.open="yes"
        > pass
        apply ConfigMap team/list (Absent)
        rooms: Ready
        list: Ready
        status {}
        > ending rooms/a-x
        > drift rooms/a-y
        > set schema spec.names=["a","c"]
        > pass
        apply ConfigMap team/a-y (Drifted)
        apply ConfigMap team/c-x (Absent)
        apply ConfigMap team/c-y (Absent)
        rooms: ConfigMap team/a-x is being deleted
        list: blocked by rooms
        status {}
        > gone rooms/a-x
        > pass
        apply ConfigMap team/a-x (Absent)
        rooms: ConfigMap team/a-x is not ready: Condition { source: "${each.data.open == 'yes'}" }
        list: blocked by rooms
        status {}
    "#]],
    );
}

#[test]
fn a_collection_is_bounded() {
    let names: Vec<String> = (0..40).map(|n| format!("n{n}")).collect();
    let instance = json!({"spec": {"names": names, "zones": names}});
    check(
        TENANTS,
        instance,
        "pass",
        expect![[r#"
        > pass
        rooms: failed at spec.resources[0].forEach: there are more than 1000 items
        list: blocked by rooms
        status {}
    "#]],
    );
}

/// While it is not known whether a node should be there, the status tells of what is.
#[test]
fn what_is_there_is_told_while_include_when_waits() {
    let definition = r#"
schema: {kind: Shop, apiVersion: v1, spec: {size: string, name: string, extra: boolean}, status: {size: "${web.data.size}"}}
resources:
- id: db
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: db}}
- id: web
  includeWhen: ["${db.data.on == 'yes'}"]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {size: "${schema.spec.size}"}}
"#;
    check(
        definition,
        nodes::shop(),
        "pass
         set db data.on=\"yes\"
         pass
         set db data={}
         pass",
        expect![[r#"
            > pass
            apply ConfigMap team/db (Absent)
            db: Ready
            web: waits for db.data in spec.resources[1].includeWhen[0]
            status {}
            > set db data.on="yes"
            > pass
            apply ConfigMap team/web (Absent)
            db: Ready
            web: Ready
            status {"size":"1"}
            > set db data={}
            > pass
            db: Ready
            web: waits for db.data.on in spec.resources[1].includeWhen[0]
            status {"size":"1"}
        "#]],
    );
}
