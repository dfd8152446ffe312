use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write;

use bytes::Bytes;
use deltaplane_client::Item;
use deltaplane_client::discovery::Served;
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::blockers::Look;
use super::graph::{Deletion, Finding, OwnerState, Question, Uid};
use super::plan::{Leave, Plan, Target};
use super::*;

/// Three kinds: `cm` and `rs` in namespaces, `zone` in none.
struct Scenario {
    graph: Graph,
    catalog: Catalog,
    kinds: BTreeMap<&'static str, KindId>,
    revision: u64,
    asked: Vec<Question>,
    out: String,
}

fn resource(short: &str) -> Resource {
    match short {
        "cm" => Resource::namespaced("", "v1", "configmaps", "ConfigMap"),
        "rs" => Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet"),
        "zone" => Resource::cluster("example.com", "v1", "zones", "Zone"),
        other => panic!("{other}"),
    }
}

fn catalog(kinds: &[&str]) -> Catalog {
    let mut catalog = Catalog::default();
    for kind in kinds {
        let verbs = BTreeSet::new();
        let resource = resource(kind);
        let short_names = BTreeSet::new();
        catalog.insert_served(Served {
            resource,
            verbs,
            short_names,
        });
    }
    catalog
}

impl Scenario {
    fn new() -> Self {
        let mut graph = Graph::new();
        let mut kinds = BTreeMap::new();
        for kind in ["cm", "rs", "zone"] {
            kinds.insert(kind, graph.add_kind(resource(kind)));
        }
        Self {
            graph,
            catalog: catalog(&["cm", "rs", "zone"]),
            kinds,
            revision: 0,
            asked: Vec::new(),
            out: String::new(),
        }
    }

    /// One line: `+kind/name option…`, `-kind/name`, `restart kind`, `sync kind`, `drop kind`,
    /// `serve kind…`, or what the API answers for a uid: `found uid`, `waiting uid`,
    /// `notfound uid`, `nokind uid`; `ask uid` and `late found`, if it takes its time. The uid of
    /// an object is its name.
    fn step(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let tasks = match words.as_slice() {
            ["restart", kind] => self.graph.apply(self.kinds[kind], Event::Restarted),
            ["sync", kind] => self.graph.apply(self.kinds[kind], Event::InSync),
            ["drop", kind] => {
                self.graph.remove_kind(self.kinds[kind]);
                self.graph.unresolved()
            }
            ["serve", kinds @ ..] => {
                self.catalog = catalog(kinds);
                self.graph.unresolved()
            }
            ["found", uid] => self.learn(uid, Finding::Found(Deletion::No)),
            ["waiting", uid] => self.learn(uid, Finding::Found(Deletion::Foreground)),
            ["notfound", uid] => self.learn(uid, Finding::NotFound),
            ["nokind", uid] => self.learn(uid, Finding::NoKind),
            ["ask", uid] => {
                self.asked = self.questions(uid);
                Vec::new()
            }
            ["late", "found"] => self.late(Finding::Found(Deletion::No)),
            ["late", "notfound"] => self.late(Finding::NotFound),
            ["misplaced", uid] => self.learn(uid, Finding::Misplaced),
            [object, options @ ..] => self.object(object, options),
            [] => return,
        };
        writeln!(self.out, "{line}").expect("memory");
        self.run(tasks);
    }

    /// The questions that are open about this uid.
    fn questions(&self, uid: &str) -> Vec<Question> {
        let references = self.graph.all_references();
        let of = references
            .into_iter()
            .filter(|reference| *reference.uid == *uid);
        let open = of.filter_map(|reference| match self.graph.state(&reference) {
            Some(OwnerState::Unknown(doubt)) => Some(Question { reference, doubt }),
            _ => None,
        });
        open.collect()
    }

    fn learn(&mut self, uid: &str, finding: Finding) -> Vec<Task> {
        let facts = self
            .questions(uid)
            .into_iter()
            .map(|question| Fact { question, finding });
        let facts: Vec<_> = facts.collect();
        facts
            .into_iter()
            .flat_map(|fact| self.graph.learn(fact))
            .collect()
    }

    /// An answer to what was asked at the time of `ask`.
    fn late(&mut self, finding: Finding) -> Vec<Task> {
        let asked = std::mem::take(&mut self.asked);
        let facts = asked.into_iter().map(|question| Fact { question, finding });
        facts.flat_map(|fact| self.graph.learn(fact)).collect()
    }

    fn object(&mut self, object: &str, options: &[&str]) -> Vec<Task> {
        let (sign, rest) = object.split_at(1);
        let (kind, name) = rest.split_once('/').expect("kind/name");
        self.revision += 1;
        let namespace = if kind == "zone" { "" } else { "n" };
        let mut metadata = json!({"name": name, "namespace": namespace, "uid": name,
            "resourceVersion": self.revision.to_string()});
        let mut owners = Vec::new();
        for option in options {
            match option.split_once('=').expect("key=value") {
                ("owner", text) => owners.push(owner(text)),
                ("fin", text) => {
                    metadata["finalizers"] = json!(text.split(',').collect::<Vec<_>>())
                }
                ("del", _) => metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
                ("ns", text) => metadata["namespace"] = json!(text),
                other => panic!("{other:?}"),
            }
        }
        metadata["ownerReferences"] = json!(owners);
        let body = json!({"metadata": metadata}).to_string();
        let item = Item::new(Bytes::from(body)).expect("an object");
        let event = match sign {
            "+" => Event::Applied(item),
            "-" => Event::Deleted(item),
            other => panic!("{other}"),
        };
        self.graph.apply(self.kinds[kind], event)
    }

    /// Whether the object waits, and how many were looked at to know.
    fn look(&self, uid: &str) -> (bool, usize) {
        let uid = Uid::from(uid);
        let node = self.graph.node(&uid).expect("remembered");
        let Look { waits, visited } = self.graph.look(&uid, node);
        (waits, visited)
    }

    fn run(&mut self, tasks: Vec<Task>) {
        let mut tasks: VecDeque<_> = tasks.into();
        let mut seen = BTreeSet::new();
        while let Some(task) = tasks.pop_front() {
            if !seen.insert(task.clone()) {
                continue;
            }
            if let Some(plan) = plan::plan(&self.graph, &self.catalog, &task) {
                writeln!(self.out, "    {}", show(&plan)).expect("memory");
            }
        }
    }
}

/// `kind/name`, with `!` if it blocks.
fn owner(text: &str) -> Value {
    let (text, blocks) = match text.strip_suffix('!') {
        Some(text) => (text, true),
        None => (text, false),
    };
    let (kind, name) = text.split_once('/').expect("kind/name");
    // A name may be given apart from the uid: `kind/uid:name`.
    let (uid, name) = name.split_once(':').unwrap_or((name, name));
    let resource = resource(kind);
    json!({"apiVersion": resource.api_version(), "kind": resource.kind, "name": name, "uid": uid,
        "blockOwnerDeletion": blocks})
}

fn show(plan: &Plan) -> String {
    let target = |target: &Target| format!("{}@{}", target.key, target.revision);
    match plan {
        Plan::Look { resource, key, .. } => format!("look {resource} {key}"),
        Plan::Misplaced { dependent, .. } => format!("misplaced {}", target(dependent)),
        Plan::Delete {
            target: one,
            policy,
        } => format!("delete {} {policy:?}", target(one)),
        Plan::Disown(all) => {
            let each = all.iter().map(|(one, owners)| {
                let owners: Vec<_> = owners
                    .iter()
                    .map(|owner| match owner.block_owner_deletion {
                        Some(true) => format!("{}!", owner.name),
                        Some(false) | None => owner.name.clone(),
                    })
                    .collect();
                format!("{} to [{}]", target(one), owners.join(" "))
            });
            format!("disown {}", each.collect::<Vec<_>>().join(", "))
        }
        Plan::Release {
            target: one,
            finalizers,
        } => {
            format!("release {} [{}]", target(one), finalizers.join(" "))
        }
        Plan::Leave(Leave {
            owners,
            kinds,
            namespace,
        }) => {
            let owners = owners.values().map(|(owner, _)| target(owner));
            let kinds = kinds.iter().map(ToString::to_string);
            let (owners, kinds): (Vec<_>, Vec<_>) = (owners.collect(), kinds.collect());
            let place = namespace.as_deref().unwrap_or("everywhere");
            format!(
                "leave {} below {} in {place}",
                owners.join(" "),
                kinds.join(" ")
            )
        }
    }
}

/// Runs a script after all kinds have been told, empty, and shows what each line leads to.
fn check(script: &str, expected: Expect) {
    let mut scenario = synced();
    script.lines().for_each(|line| scenario.step(line.trim()));
    expected.assert_eq(&scenario.out);
}

fn synced() -> Scenario {
    let mut scenario = Scenario::new();
    for kind in ["cm", "rs", "zone"] {
        scenario.step(&format!("sync {kind}"));
    }
    scenario.out.clear();
    scenario
}

#[test]
fn dependents_go_when_their_owner_is_gone() {
    check(
        "+cm/owner
         +rs/a owner=cm/owner
         found owner
         +rs/b owner=cm/owner
         +cm/owner
         -cm/owner
         notfound owner
         +rs/a owner=cm/owner
         +rs/late owner=cm/owner
         -rs/a",
        expect![[r#"
            +cm/owner
            +rs/a owner=cm/owner
                look configmaps n/owner
            found owner
            +rs/b owner=cm/owner
            +cm/owner
            -cm/owner
                look configmaps n/owner
            notfound owner
                delete n/a@2 Background
                delete n/b@3 Background
            +rs/a owner=cm/owner
                delete n/a@6 Background
            +rs/late owner=cm/owner
                delete n/late@7 Background
            -rs/a
        "#]],
    );
}

#[test]
fn one_owner_that_exists_is_enough() {
    check(
        "+cm/a
         +cm/b
         +rs/x owner=cm/a owner=cm/b!
         found a
         found b
         -cm/a
         notfound a
         +rs/x owner=cm/b!
         -cm/b
         notfound b",
        expect![[r#"
            +cm/a
            +cm/b
            +rs/x owner=cm/a owner=cm/b!
                look configmaps n/a
                look configmaps n/b
            found a
            found b
            -cm/a
                look configmaps n/a
            notfound a
                disown n/x@3 to [b!]
            +rs/x owner=cm/b!
            -cm/b
                look configmaps n/b
            notfound b
                delete n/x@5 Background
        "#]],
    );
}

#[test]
fn foreground_waits_for_those_that_block() {
    check(
        "+cm/owner
         +rs/a owner=cm/owner!
         found owner
         +rs/b owner=cm/owner
         +cm/owner del=1 fin=foregroundDeletion,mine
         +rs/a owner=cm/owner! del=1 fin=slow
         -rs/b owner=cm/owner
         -rs/a",
        expect![[r#"
            +cm/owner
            +rs/a owner=cm/owner!
                look configmaps n/owner
            found owner
            +rs/b owner=cm/owner
            +cm/owner del=1 fin=foregroundDeletion,mine
                delete n/a@2 Background
                delete n/b@3 Background
            +rs/a owner=cm/owner! del=1 fin=slow
            -rs/b owner=cm/owner
            -rs/a
                release n/owner@4 [mine]
        "#]],
    );
}

#[test]
fn foreground_goes_down() {
    check(
        "+cm/top
         +rs/middle owner=cm/top!
         found top
         +cm/leaf owner=rs/middle!
         found middle
         +cm/top del=1 fin=foregroundDeletion
         +rs/middle owner=cm/top! del=1 fin=foregroundDeletion
         -cm/leaf
         -rs/middle",
        expect![[r#"
            +cm/top
            +rs/middle owner=cm/top!
                look configmaps n/top
            found top
            +cm/leaf owner=rs/middle!
            found middle
            +cm/top del=1 fin=foregroundDeletion
                delete n/middle@2 Foreground
            +rs/middle owner=cm/top! del=1 fin=foregroundDeletion
                delete n/leaf@3 Background
            -cm/leaf
                release n/middle@5 []
            -rs/middle
                release n/top@4 []
        "#]],
    );
}

#[test]
fn a_circle_does_not_block_itself() {
    check(
        "+cm/a owner=cm/c!
         +cm/b owner=cm/a!
         +cm/c owner=cm/b!
         found a
         found b
         found c
         +cm/a owner=cm/c! del=1 fin=foregroundDeletion
         +cm/b owner=cm/a! del=1 fin=foregroundDeletion
         +cm/c owner=cm/b
         +cm/c owner=cm/b del=1 fin=foregroundDeletion",
        expect![[r#"
            +cm/a owner=cm/c!
                look configmaps n/c
            +cm/b owner=cm/a!
            +cm/c owner=cm/b!
            found a
            found b
            found c
            +cm/a owner=cm/c! del=1 fin=foregroundDeletion
                delete n/b@2 Foreground
            +cm/b owner=cm/a! del=1 fin=foregroundDeletion
                disown n/c@3 to [b]
            +cm/c owner=cm/b
                delete n/c@6 Foreground
                release n/b@5 []
            +cm/c owner=cm/b del=1 fin=foregroundDeletion
                release n/b@5 []
        "#]],
    );
}

#[test]
fn those_that_wait_for_each_other_only_go() {
    check(
        "+cm/self owner=cm/self! del=1 fin=foregroundDeletion
         +cm/a owner=cm/b! del=1 fin=foregroundDeletion
         +cm/b owner=cm/a! del=1 fin=foregroundDeletion
         +cm/c owner=cm/d! owner=cm/c! del=1 fin=foregroundDeletion
         +cm/slow owner=cm/d! del=1 fin=slow
         +cm/d owner=cm/c! del=1 fin=foregroundDeletion
         -cm/slow",
        expect![[r#"
            +cm/self owner=cm/self! del=1 fin=foregroundDeletion
                look configmaps n/self
                release n/self@1 []
            +cm/a owner=cm/b! del=1 fin=foregroundDeletion
                look configmaps n/b
                release n/a@2 []
            +cm/b owner=cm/a! del=1 fin=foregroundDeletion
                release n/a@2 []
                release n/b@3 []
            +cm/c owner=cm/d! owner=cm/c! del=1 fin=foregroundDeletion
                look configmaps n/c
                look configmaps n/d
                release n/c@4 []
            +cm/slow owner=cm/d! del=1 fin=slow
                look configmaps n/d
            +cm/d owner=cm/c! del=1 fin=foregroundDeletion
                look configmaps n/c
            -cm/slow
                release n/d@6 []
        "#]],
    );
}

#[test]
fn circles_wait_for_what_is_not_in_them() {
    let foreground = "del=1 fin=foregroundDeletion";
    let mut scenario = synced();
    for line in ["a owner=cm/b!", "b owner=cm/a!", "below owner=cm/b!"] {
        scenario.step(&format!("+cm/{line} {foreground}"));
    }
    // What is below goes by itself.
    assert_eq!(scenario.look("b"), (true, 2));
    scenario.step("+rs/last owner=cm/below!");
    assert_eq!(scenario.look("a"), (true, 2));
    scenario.step("+rs/last");
    scenario.step("-cm/below");
    assert_eq!(scenario.look("a"), (false, 1));
    // In no circle itself, and above one.
    scenario.step(&format!("+cm/top owner=cm/roof! {foreground}"));
    scenario.step(&format!("+cm/a owner=cm/b! owner=cm/top! {foreground}"));
    assert_eq!(scenario.look("top"), (true, 2));
}

#[test]
fn many_dependents_are_not_all_looked_at_with_every_event() {
    const MANY: usize = 300;
    let foreground = "del=1 fin=foregroundDeletion";
    let mut scenario = synced();
    scenario.step(&format!("+cm/roof {foreground}"));
    scenario.step(&format!("+cm/top owner=cm/roof! {foreground}"));
    for i in 0..MANY {
        scenario.step(&format!("+rs/leaf{i} owner=cm/middle{i}!"));
        scenario.step(&format!("+cm/middle{i} owner=cm/top!"));
    }
    let mut visited = 0;
    let mut waits = |scenario: &Scenario| {
        let (waits, looked_at) = scenario.look("top");
        visited += looked_at;
        waits
    };
    for i in 0..MANY {
        scenario.step(&format!("+cm/middle{i} owner=cm/top! {foreground}"));
        assert!(waits(&scenario));
    }
    for i in 0..MANY {
        scenario.step(&format!("-rs/leaf{i}"));
        assert!(waits(&scenario));
        scenario.step(&format!("-cm/middle{i}"));
        assert_eq!(waits(&scenario), i + 1 < MANY);
    }
    // One for each event of which one was needed.
    assert_eq!(visited, 2 * MANY);
}

#[test]
fn dependents_are_left_behind() {
    check(
        "+cm/owner
         +rs/a owner=cm/owner! owner=zone/z
         +rs/b owner=cm/owner
         found owner
         found z
         +cm/owner del=1 fin=orphan
         +rs/a owner=zone/z
         +rs/b
         -cm/owner",
        expect![[r#"
            +cm/owner
            +rs/a owner=cm/owner! owner=zone/z
                look configmaps n/owner
                look zones.example.com z
            +rs/b owner=cm/owner
                look configmaps n/owner
            found owner
            found z
            +cm/owner del=1 fin=orphan
                leave n/owner@4 below configmaps replicasets.apps in n
            +rs/a owner=zone/z
            +rs/b
            -cm/owner
        "#]],
    );
}

#[test]
fn what_an_object_asks_for_is_honoured() {
    check(
        "+rs/a owner=cm/gone fin=orphan
         +rs/b owner=cm/gone fin=foregroundDeletion
         notfound gone",
        expect![[r#"
            +rs/a owner=cm/gone fin=orphan
                look configmaps n/gone
            +rs/b owner=cm/gone fin=foregroundDeletion
                look configmaps n/gone
            notfound gone
                delete n/a@1 Orphan
                delete n/b@2 Foreground
        "#]],
    );
}

#[test]
fn losing_touch_is_not_a_deletion() {
    check(
        "+zone/z
         +rs/a owner=zone/z
         found z
         restart zone
         sync zone
         found z
         restart zone
         +zone/z
         sync zone
         drop zone
         nokind z
         serve cm rs
         serve cm rs zone
         found z",
        expect![[r#"
            +zone/z
            +rs/a owner=zone/z
                look zones.example.com z
            found z
            restart zone
            sync zone
                look zones.example.com z
            found z
            restart zone
            +zone/z
            sync zone
            drop zone
                look zones.example.com z
            nokind z
            serve cm rs
            serve cm rs zone
                look zones.example.com z
            found z
        "#]],
    );
}

#[test]
fn an_owner_whose_kind_went_with_it_is_gone() {
    check(
        "+rs/a owner=zone/z
         found z
         -zone/z
         drop zone
         nokind z",
        expect![[r#"
            +rs/a owner=zone/z
                look zones.example.com z
            found z
            -zone/z
                look zones.example.com z
            drop zone
                look zones.example.com z
            nokind z
                delete n/a@1 Background
        "#]],
    );
}

#[test]
fn owners_are_known_by_name_and_place_too() {
    check(
        "+cm/owner ns=elsewhere
         +rs/a owner=cm/owner
         +cm/owner ns=elsewhere
         notfound owner
         +zone/x owner=cm/owner
         misplaced owner
         +rs/b owner=cm/other:misnamed
         +cm/other",
        expect![[r#"
            +cm/owner ns=elsewhere
            +rs/a owner=cm/owner
                look configmaps n/owner
            +cm/owner ns=elsewhere
            notfound owner
                delete n/a@2 Background
            +zone/x owner=cm/owner
                misplaced x@4
            misplaced owner
            +rs/b owner=cm/other:misnamed
                look configmaps n/misnamed
            +cm/other
        "#]],
    );
}

#[test]
fn an_answer_that_was_overtaken_is_none() {
    check(
        "+cm/owner
         +rs/a owner=cm/owner
         ask owner
         +cm/owner del=1 fin=foregroundDeletion
         late found
         -rs/a
         -cm/owner
         +cm/top
         +rs/b owner=cm/top
         ask top
         -cm/top
         late found
         notfound top",
        expect![[r#"
            +cm/owner
            +rs/a owner=cm/owner
                look configmaps n/owner
            ask owner
            +cm/owner del=1 fin=foregroundDeletion
                delete n/a@2 Background
                release n/owner@3 []
            late found
            -rs/a
                release n/owner@3 []
            -cm/owner
            +cm/top
            +rs/b owner=cm/top
                look configmaps n/top
            ask top
            -cm/top
                look configmaps n/top
            late found
            notfound top
                delete n/b@7 Background
        "#]],
    );
}

#[test]
fn nothing_is_decided_while_dependents_may_be_untold() {
    let mut scenario = Scenario::new();
    for line in [
        "sync cm",
        "+cm/orphaning del=1 fin=orphan",
        "+cm/waiting del=1 fin=foregroundDeletion",
        "sync zone",
        "+rs/a owner=cm/waiting!",
        "sync rs",
        "restart rs",
        "+rs/b owner=cm/orphaning",
        "sync rs",
    ] {
        scenario.step(line);
    }
    expect![[r#"
        sync cm
        +cm/orphaning del=1 fin=orphan
            leave n/orphaning@1 below configmaps replicasets.apps in n
        +cm/waiting del=1 fin=foregroundDeletion
        sync zone
        +rs/a owner=cm/waiting!
        sync rs
            delete n/a@3 Background
        restart rs
        +rs/b owner=cm/orphaning
        sync rs
            release n/waiting@2 []
    "#]]
    .assert_eq(&scenario.out);
}

#[test]
fn every_reference_is_looked_at_once_all_is_told() {
    let mut scenario = Scenario::new();
    for line in [
        "sync rs",
        "sync zone",
        "+cm/a owner=cm/c! del=1 fin=foregroundDeletion",
        "+cm/b owner=cm/a!",
        "+cm/c owner=cm/b!",
        "+cm/misnaming owner=cm/a:wrong",
        "sync cm",
    ] {
        scenario.step(line);
    }
    expect![[r#"
        sync rs
        sync zone
        +cm/a owner=cm/c! del=1 fin=foregroundDeletion
        +cm/b owner=cm/a!
        +cm/c owner=cm/b!
        +cm/misnaming owner=cm/a:wrong
        sync cm
            look configmaps n/wrong
            delete n/b@2 Foreground
    "#]]
    .assert_eq(&scenario.out);
}

#[test]
fn only_what_matters_is_remembered() {
    let mut scenario = synced();
    for number in 0..100 {
        scenario.step(&format!("+cm/plain{number}"));
    }
    assert_eq!(scenario.graph.size(), (0, 0, 0));
    scenario.step("+rs/a owner=cm/plain1!");
    scenario.step("+cm/plain2 del=1 fin=orphan");
    assert_eq!(scenario.graph.size(), (2, 1, 1));
    scenario.step("+rs/a");
    scenario.step("-cm/plain2");
    assert_eq!(scenario.graph.size(), (0, 0, 0));
    assert_eq!(scenario.graph.all_references(), []);
}
