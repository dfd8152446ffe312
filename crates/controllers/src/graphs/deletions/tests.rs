//! Schedules of changes, passes, and processes that end anywhere: no version deletes more than its
//! budget allows, unless it was approved, and what an owner changes is never held.

use std::convert::Infallible;

use deltaplane_api::admission::{ADMISSION, Admission, Stage};
use deltaplane_api::field::Path;
use deltaplane_api::time::Time;
use deltaplane_client::Pace;
use deltaplane_expr::Timestamp;
use deltaplane_graph::observed::{Applied, Live};
use deltaplane_graph::plan::{self, Inputs, Instance, Rendering};
use deltaplane_graph::{Definition, Gvk, Known, Lookup, compile};
use deltaplane_schema::crd;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use proptest::prelude::*;
use serde_json::json;

use super::super::admission::Revisions;
use super::super::instance;
use super::super::metrics::Metrics;
use super::super::report::{self, Ended, Hindrances};
use super::*;

/// What definitions are there.
const VARIANTS: usize = 5;
const INSTANCES: usize = 3;
const ROOMS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// What happens.
#[derive(Clone, Debug)]
enum Event {
    /// The definition becomes another.
    Define(usize),
    /// The owner of an instance says which rooms there are, bit by bit.
    Rooms(usize, u8),
    /// What all refer to says which rooms are closed.
    Close(u8),
    /// Whether something of an instance is ready, which others wait for.
    Ready(usize, bool),
    /// A version is approved: that of now, or the one of a definition.
    Approve(Option<usize>),
    Pass(Vec<usize>, Fate),
    Restart,
}

/// What becomes of passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Done,
    /// No deletion is allowed.
    Refused,
    /// Nothing can be written.
    Unwritten,
    /// What is written comes to pass, and nobody learns of that.
    Unanswered,
    /// The process ends before anything is deleted, and is done again.
    EndsBefore,
    /// The process ends before the instances say how they stand.
    EndsAfter,
}

/// Who caused that an object is not wanted any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blame {
    Owner,
    Others,
    /// Several, one after the other.
    Either,
}

/// The status of the definition, and whether it can be written.
#[derive(Default)]
struct Api {
    deletions: Value,
    fate: Option<Fate>,
}

struct Shop {
    json: Value,
    /// The objects that were made, by their nodes.
    objects: Observed,
    ready: bool,
    blames: BTreeMap<ObjectId, Blame>,
    /// What is wanted again, and no pass has seen that.
    wanted_again: BTreeSet<ObjectId>,
    unseen: Unseen,
}

/// What changed that no pass has finished with.
#[derive(Clone, Copy, Debug, Default)]
struct Unseen {
    definition: bool,
    owner: bool,
    reference: bool,
}

struct World {
    graphs: Vec<Arc<Graph>>,
    api: Arc<Mutex<Api>>,
    shops: Vec<Shop>,
    closed: u8,
    /// The definitions so far.
    history: Vec<usize>,
    approved: Option<String>,
    ever_approved: BTreeSet<String>,
    /// How many objects each version deleted that others than owners caused.
    deleted: BTreeMap<String, u64>,
    deletions: Deletions,
    written: Written,
    made: usize,
}

fn lookup(gvk: &Gvk) -> Lookup {
    let fields = json!({"data": {"type": "object", "additionalProperties": {"type": "string"}}});
    let raw = json!({"type": "object", "properties": fields});
    let schema = crd::compile(&raw, &Path::root(), crd::Options::default()).expect("a schema");
    let known = Known::new(gvk.clone(), "configmaps", true, schema);
    Lookup::Known(Arc::new(known))
}

fn node(id: &str, name: &str) -> Value {
    json!({"id": id, "template": {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "data": {"for": "${schema.spec.name}"},
    }})
}

/// The definition of a variant: all nodes; without the last two; without the door; with fewer rooms;
/// with other names of rooms.
fn graph(variant: usize) -> Arc<Graph> {
    let mut own = node("own", "${schema.spec.name}-own");
    own["readyWhen"] = json!(["${own.data.?ready.orValue('yes') == 'yes'}"]);
    let house = json!({"id": "house", "externalRef": {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "house"},
    }});
    let prefix = if variant == 4 { "suite" } else { "room" };
    let mut rooms = node(
        "rooms",
        &format!("${{schema.spec.name}}-{prefix}-${{room}}"),
    );
    let narrow = if variant == 3 {
        " && !(r in ['a', 'b', 'c'])"
    } else {
        ""
    };
    let each = format!("${{schema.spec.rooms.filter(r, !house.data.closed.contains(r){narrow})}}");
    rooms["forEach"] = json!([{"room": each}]);
    let mut nodes = vec![own, house, rooms];
    if variant != 2 {
        nodes.push(node("door", "${own.metadata.name}-door"));
    }
    if variant != 1 {
        nodes.push(node("extra", "${schema.spec.name}-extra"));
        nodes.push(node("deeper", "${extra.metadata.name}-deeper"));
    }
    let definition = json!({
        "metadata": {"name": "shop"},
        "spec": {
            "schema": {
                "kind": "Shop", "apiVersion": "v1",
                "spec": {"name": "string", "rooms": "[]string"},
            },
            "resources": nodes,
            "deletionBudget": {"max": 3, "percent": 20},
        },
    });
    let definition = Definition::read(&definition).expect("a definition");
    Arc::new(compile(&definition, &lookup).unwrap_or_else(|problems| panic!("{problems}")))
}

fn letters(bits: u8) -> Vec<&'static str> {
    let all = ROOMS.iter().enumerate();
    let some = all.filter(|(index, _)| bits & (1 << index) != 0);
    some.map(|(_, room)| *room).collect()
}

/// A client of the API, which has one definition.
fn client(api: Arc<Mutex<Api>>) -> kube::Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let api = api.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.expect("a body").to_bytes();
            let mut api = api.lock();
            let answer = |status: u16, body: Value| {
                let body = Body::from(body.to_string().into_bytes());
                let answer = Response::builder().status(status).body(body);
                Ok::<_, Infallible>(answer.expect("a response"))
            };
            let lost = json!({"kind": "Status", "code": 500, "message": "lost"});
            if parts.method == Method::GET {
                return answer(200, json!({"status": {"deletions": api.deletions}}));
            }
            if api.fate == Some(Fate::Unwritten) {
                return answer(500, lost);
            }
            let told: Value = serde_json::from_slice(&body).expect("JSON");
            api.deletions = told["status"]["deletions"].clone();
            match api.fate {
                Some(Fate::Unanswered) => answer(500, lost),
                Some(_) | None => answer(200, told),
            }
        }
    });
    kube::Client::new(service, "default")
}

impl Shop {
    fn new(index: usize) -> Self {
        let name = format!("s{index}");
        let metadata = json!({
            "name": name, "namespace": "default", "uid": format!("shop-{index}"), "generation": 1,
        });
        Self {
            json: json!({"metadata": metadata, "spec": {"name": name, "rooms": ROOMS}}),
            objects: Observed::default(),
            ready: true,
            blames: BTreeMap::new(),
            wanted_again: BTreeSet::new(),
            unseen: Unseen::default(),
        }
    }

    fn uid(&self) -> String {
        self.json["metadata"]["uid"]
            .as_str()
            .expect("a uid")
            .to_owned()
    }

    /// Blames somebody for the objects that are not wanted any more.
    fn blame(&mut self, before: &BTreeSet<String>, after: &BTreeSet<String>, blame: Blame) {
        for (_, live) in self.objects.iter() {
            let name = &live.id.name;
            if after.contains(name) {
                let before = self.blames.remove(&live.id);
                if before.is_some_and(|before| before != Blame::Owner) {
                    self.wanted_again.insert(live.id.clone());
                }
            } else if before.contains(name) {
                let again = self.wanted_again.contains(&live.id);
                let either = again && blame == Blame::Owner;
                let blame = if either { Blame::Either } else { blame };
                self.blames.insert(live.id.clone(), blame);
            }
        }
    }
}

impl World {
    fn new() -> Self {
        Self {
            graphs: (0..VARIANTS).map(graph).collect(),
            api: Arc::default(),
            shops: (0..INSTANCES).map(Shop::new).collect(),
            closed: 0,
            history: vec![0],
            approved: None,
            ever_approved: BTreeSet::new(),
            deleted: BTreeMap::new(),
            deletions: Deletions::default(),
            written: Written::Unread,
            made: 0,
        }
    }

    fn variant(&self) -> usize {
        *self.history.last().expect("a definition")
    }

    fn graph(&self) -> Arc<Graph> {
        self.graphs[self.variant()].clone()
    }

    fn version(&self) -> String {
        self.graph().content_version().short().to_owned()
    }

    /// The names of the objects that a shop should have, without asking `plan`.
    fn wanted(&self, shop: usize) -> BTreeSet<String> {
        let spec = &self.shops[shop].json["spec"];
        let name = spec["name"].as_str().expect("a name");
        let variant = self.variant();
        let closed = letters(self.closed);
        let rooms = spec["rooms"].as_array().into_iter().flatten();
        let rooms = rooms.filter_map(Value::as_str).filter(|room| {
            let narrow = variant == 3 && ["a", "b", "c"].contains(room);
            !closed.contains(room) && !narrow
        });
        let prefix = if variant == 4 { "suite" } else { "room" };
        let mut names: BTreeSet<String> = rooms
            .map(|room| format!("{name}-{prefix}-{room}"))
            .collect();
        names.insert(format!("{name}-own"));
        if variant != 2 {
            names.insert(format!("{name}-own-door"));
        }
        if variant != 1 {
            names.insert(format!("{name}-extra"));
            names.insert(format!("{name}-extra-deeper"));
        }
        names
    }

    /// Does something to some shops, for which somebody is to blame.
    fn change(&mut self, shops: &[usize], blame: Blame, what: impl FnOnce(&mut Self)) {
        let before: Vec<_> = shops.iter().map(|shop| self.wanted(*shop)).collect();
        what(self);
        for (shop, before) in shops.iter().zip(before) {
            let after = self.wanted(*shop);
            self.shops[*shop].blame(&before, &after, blame);
        }
    }

    async fn happen(&mut self, event: Event) {
        let all: Vec<usize> = (0..INSTANCES).collect();
        match event {
            Event::Define(variant) if variant != self.variant() => {
                for shop in &all {
                    // A definition that comes back leaves the owner's change alone in force.
                    let Unseen {
                        definition, owner, ..
                    } = self.shops[*shop].unseen;
                    if definition && owner {
                        self.passes(&[*shop], Fate::Done).await;
                    }
                }
                self.change(&all, Blame::Others, |world| world.history.push(variant));
                for shop in &mut self.shops {
                    // What a newer version finds is counted, whoever caused it.
                    let blames = shop.blames.values_mut();
                    let owners = blames.filter(|blame| **blame == Blame::Owner);
                    owners.for_each(|blame| *blame = Blame::Either);
                    shop.unseen.definition = true;
                }
            }
            Event::Define(_) => {}
            Event::Rooms(shop, rooms) => {
                // Nobody can tell whose change is whose if no pass came between them.
                if self.shops[shop].unseen.reference {
                    self.passes(&[shop], Fate::Done).await;
                }
                let unseen = &mut self.shops[shop].unseen;
                unseen.owner = true;
                let blame = if unseen.definition {
                    Blame::Either
                } else {
                    Blame::Owner
                };
                self.change(&[shop], blame, |world| {
                    let json = &mut world.shops[shop].json;
                    let generation = json["metadata"]["generation"].as_i64().unwrap_or(0);
                    json["metadata"]["generation"] = json!(generation + 1);
                    json["spec"]["rooms"] = json!(letters(rooms));
                });
            }
            Event::Close(closed) => {
                for shop in &all {
                    if self.shops[*shop].unseen.owner {
                        self.passes(&[*shop], Fate::Done).await;
                    }
                    self.shops[*shop].unseen.reference = true;
                }
                self.change(&all, Blame::Others, |world| world.closed = closed);
            }
            Event::Ready(shop, ready) => self.shops[shop].ready = ready,
            Event::Approve(variant) => {
                let variant = variant.unwrap_or_else(|| self.variant());
                let version = self.graphs[variant].content_version();
                self.ever_approved.insert(version.short().to_owned());
                self.approved = Some(version.as_str().to_owned());
            }
            Event::Pass(shops, fate) => self.passes(&shops, fate).await,
            Event::Restart => self.restart(),
        }
    }

    fn restart(&mut self) {
        self.deletions = Deletions::default();
        self.written = Written::Unread;
    }

    fn serving(&self) -> Serving {
        let graphs = self.history.iter().enumerate();
        let graphs = graphs.map(|(index, variant)| {
            let number = i64::try_from(index).expect("few") + 1;
            (number, self.graphs[*variant].clone())
        });
        Serving {
            definition: Arc::new(instance::Definition {
                name: "shop".to_owned(),
                uid: "definition".to_owned(),
                hub_authored: false,
            }),
            target: Ok(i64::try_from(self.history.len()).expect("few")),
            revisions: Revisions::new(graphs.collect()),
            paused: false,
            approved: self.approved.clone(),
        }
    }

    fn plan(&self, shop: &Shop) -> Plan {
        let graph = self.graph();
        let mut observed = shop.objects.clone();
        let house = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "house", "namespace": "default"},
            "data": {"closed": letters(self.closed).join("")},
        });
        observed.insert("house", Arc::new(Live::parsed(id("house"), house)));
        plan::plan(Inputs {
            graph: &graph,
            instance: Instance::new(&shop.json),
            observed: &observed,
            taken: &|_| None,
            product: "test",
            now: Timestamp::parse("2026-03-01T12:00:00Z").expect("a time"),
            frozen: &|_| None,
            unsure: &BTreeMap::new(),
            in_flight: &BTreeMap::new(),
            unseen: &|_| false,
            rendering: Rendering::whole(),
        })
    }

    /// Applies what can be applied, until nothing more can.
    fn apply(&mut self, index: usize) -> Plan {
        let own = format!("s{index}-own");
        for _ in 0..20 {
            let shop = &mut self.shops[index];
            // What others say of an object of the shop.
            let said = shop.objects.get("own", &id(&own)).map(|live| {
                let mut json = live.json().clone();
                json["data"]["ready"] = if shop.ready { "yes" } else { "no" }.into();
                let mut said = Live::parsed(live.id.clone(), json);
                (said.uid, said.applied) = (live.uid.clone(), live.applied.clone());
                said
            });
            if let Some(said) = said {
                shop.objects.insert("own", Arc::new(said));
            }
            let plan = self.plan(&self.shops[index]);
            if plan.apply.is_empty() {
                return plan;
            }
            let graph = self.graph();
            for apply in &plan.apply {
                let shop = &mut self.shops[index];
                let node = graph.node(apply.node).id();
                let before = shop
                    .objects
                    .get(node, &apply.id)
                    .map(|live| live.uid.clone());
                let mut live = Live::parsed(apply.id.clone(), apply.object.clone());
                live.uid = before.unwrap_or_else(|| {
                    self.made += 1;
                    format!("{:08x}-0000", self.made)
                });
                live.applied = Some(Applied {
                    content: apply.content.clone(),
                    intact: true,
                });
                shop.objects.insert(node, Arc::new(live));
            }
        }
        panic!("it does not come to rest");
    }

    /// Passes over some shops, at the same time.
    async fn passes(&mut self, shops: &[usize], fate: Fate) {
        let revisions = self.serving().revisions;
        let at = i64::try_from(self.history.len()).expect("few");
        let admission = Admission::new(Stage::Started, revisions.point(at).expect("it is there"));
        let lasts = shops.iter().map(|shop| {
            let json = &mut self.shops[*shop].json;
            let last = RecordedPass::read(json);
            let version = last
                .as_ref()
                .and_then(|last| last.version(json, &revisions));
            // What may run is written before anything is made.
            json["metadata"]["annotations"] = json!({ADMISSION: admission.to_string()});
            (last, version)
        });
        let lasts: Vec<_> = lasts.collect();
        let plans: Vec<Plan> = shops.iter().map(|shop| self.apply(*shop)).collect();
        self.api.lock().fate = Some(fate);
        let graph = self.graph();
        let serving = self.serving();
        let baseline: usize = self
            .shops
            .iter()
            .map(|shop| shop.objects.iter().count())
            .sum();
        self.deletions
            .open(&graph, || baseline.try_into().expect("few"));
        let (_sender, receiver) = watch::channel(serving.clone());
        let writer = Writer {
            context: Context {
                client: client(self.api.clone()),
                pace: Pace::system(),
            },
            serving: receiver,
            guard: Guard::new(),
            counted: Metrics::default().of("shop", "Shop"),
        };
        let deletions = self.deletions.clone();
        let asked = shops.iter().zip(&plans).zip(&lasts);
        let asked = asked.map(|((shop, plan), (last, version))| {
            let (deletions, graph) = (&deletions, &graph);
            let shop = &self.shops[*shop];
            async move {
                let case = PassCase {
                    uid: shop.json["metadata"]["uid"].as_str().expect("a uid"),
                    generation: shop.json["metadata"]["generation"].as_i64().unwrap_or(0),
                    last: last.as_ref(),
                    last_version: version.as_deref(),
                    graph,
                    plan,
                    observed: &shop.objects,
                    weight: &|_| 1,
                };
                deletions.judge(case).await
            }
        });
        let asked = futures::future::join_all(asked);
        let written = &mut self.written;
        let writing = async {
            loop {
                deletions.0.wake.notified().await;
                // Whoever asked learns what failed.
                let _ = deletions.write(&writer, written).await;
            }
        };
        let judged: Vec<Judged> = tokio::select! {
            judged = asked => judged,
            () = writing => unreachable!("it goes on for ever"),
        };
        if fate == Fate::EndsBefore {
            self.restart();
            return;
        }
        for ((shop, plan), judged) in shops.iter().zip(plans).zip(judged) {
            self.finish(*shop, plan, judged, fate);
        }
        if fate == Fate::EndsAfter {
            self.restart();
        }
    }

    /// Deletes what may be deleted, and says how the shop stands.
    fn finish(&mut self, index: usize, mut plan: Plan, judged: Judged, fate: Fate) {
        let version = self.version();
        let at = self
            .serving()
            .revisions
            .point(i64::try_from(self.history.len()).expect("few"));
        let at = at.expect("it is there");
        let wanted = self.wanted(index);
        let shop = &mut self.shops[index];
        if let Some(held) = &judged.held {
            for id in &held.ids {
                let by_owner = shop.blames.get(id) == Some(&Blame::Owner);
                assert!(!by_owner, "{id} is held, and is the owner's");
            }
        }
        let gone = match fate {
            Fate::Refused => Vec::new(),
            Fate::Done | Fate::Unwritten | Fate::Unanswered => judged.go,
            Fate::EndsBefore | Fate::EndsAfter => judged.go,
        };
        for one in &gone {
            assert!(!wanted.contains(&one.id.name), "{} is wanted", one.id);
            shop.objects.remove(&one.node, &one.id);
            if shop.blames.remove(&one.id) == Some(Blame::Others) {
                *self.deleted.entry(version.clone()).or_default() += 1;
            }
        }
        let pending = self.deletions.conclude(&shop.json, at, gone.iter());
        if fate == Fate::EndsAfter || judged.uncounted.is_some() {
            // It is done again.
            return;
        }
        shop.unseen = Unseen::default();
        shop.wanted_again.clear();
        plan.prune = gone;
        let hindered = Hindrances {
            held: judged.held.map(|held| held.message("shop")),
            pending,
            ..Hindrances::default()
        };
        let graph = &self.graphs[*self.history.last().expect("a definition")];
        let ended = Ended::Planned {
            graph,
            plan: &plan,
            hindered: &hindered,
            runs: at,
            behind: None,
        };
        shop.json["status"] = report::status(&shop.json, &ended, Time::from_unix(0));
    }

    fn check(&self) {
        let told = self.api.lock().deletions.clone();
        for (version, deleted) in &self.deleted {
            let mut all = told.as_array().into_iter().flatten();
            let account = all.find(|one| one["version"] == **version);
            let baseline = account.and_then(|one| one["baseline"].as_u64());
            let allowed = 3_u64.max(baseline.unwrap_or(0) * 20 / 100);
            let approved = self.ever_approved.contains(version);
            assert!(
                approved || *deleted <= allowed,
                "version {version} deleted {deleted}, and {allowed} are allowed: {told}"
            );
        }
    }
}

fn id(name: &str) -> ObjectId {
    ObjectId {
        gvk: Gvk::new("", "v1", "ConfigMap"),
        namespace: "default".to_owned(),
        name: name.to_owned(),
    }
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => Just(Fate::Done),
        1 => Just(Fate::Refused),
        1 => Just(Fate::Unwritten),
        1 => Just(Fate::Unanswered),
        1 => Just(Fate::EndsBefore),
        1 => Just(Fate::EndsAfter),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let shop = || 0..INSTANCES;
    let some = prop::sample::subsequence((0..INSTANCES).collect::<Vec<_>>(), 1..=INSTANCES);
    prop_oneof![
        2 => (0..VARIANTS).prop_map(Event::Define),
        2 => (shop(), 0..64_u8).prop_map(|(shop, rooms)| Event::Rooms(shop, rooms)),
        2 => (0..64_u8).prop_map(Event::Close),
        2 => (shop(), any::<bool>()).prop_map(|(shop, ready)| Event::Ready(shop, ready)),
        1 => prop::option::of(0..VARIANTS).prop_map(Event::Approve),
        10 => (some, fate()).prop_map(|(shops, fate)| Event::Pass(shops, fate)),
        1 => Just(Event::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_schedule_deletes_more_than_budget_and_approvals(
        events in prop::collection::vec(event(), 1..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut world = World::new();
            for shop in 0..INSTANCES {
                world.passes(&[shop], Fate::Done).await;
            }
            for event in events {
                world.happen(event).await;
                world.check();
            }
            // What only owners caused goes, and what is approved.
            let all: Vec<usize> = (0..INSTANCES).collect();
            world.happen(Event::Approve(None)).await;
            for shop in &mut world.shops {
                shop.ready = true;
            }
            for _ in 0..8 {
                world.passes(&all, Fate::Done).await;
            }
            for shop in all {
                let wanted = world.wanted(shop);
                let there = world.shops[shop].objects.iter();
                let there: BTreeSet<String> = there.map(|(_, live)| live.id.name.clone()).collect();
                assert_eq!(there, wanted);
                let uid = world.shops[shop].uid();
                assert!(!world.deletions.knows(&uid), "{uid} has something pending");
            }
        });
    }
}
