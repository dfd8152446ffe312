//! Nodes that wait for each other by their gates alone: whatever happens, none becomes another
//! before those that it waits for are ready there; and none waits longer.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::compile::tests::cases;

#[derive(Clone, Debug)]
enum Event {
    Pass,
    /// The first of a plan are applied, and then everything is forgotten but what is kept.
    Crash(usize),
    Open(usize),
    Break(usize),
    Drift(usize),
    Delete(usize),
    /// Another content is wanted.
    Change,
    /// The content before this one is wanted again.
    Back,
}

const NODES: [&str; 4] = ["a", "b", "c", "d"];

/// Who waits for whom: `b` and `c` for `a`, `d` for both.
const WAITS: [&[usize]; 4] = [&[], &[0], &[0], &[1, 2]];

struct Run {
    world: World,
    content: u64,
}

fn definition() -> String {
    let mut text =
        "schema: {kind: Chain, apiVersion: v1, spec: {size: string}}\nresources:\n".to_owned();
    for (id, waits) in NODES.iter().zip(WAITS) {
        let gates = waits
            .iter()
            .map(|on| format!("\"{0}.updated() && {0}.ready()\"", NODES[*on]));
        let gates: Vec<String> = gates.collect();
        writeln!(
            text,
            r#"- id: {id}
  propagateWhen: [{}]
  readyWhen: ["${{{id}.data.open == 'yes'}}"]
  template: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: {id}}}, data: {{open: "no", size: "${{schema.spec.size}}"}}}}"#,
            gates.join(", ")
        )
        .expect("a string");
    }
    text
}

impl Run {
    fn new() -> Self {
        let instance = json!({"spec": {"size": "1"}});
        Self {
            world: World::new(&definition(), instance),
            content: 1,
        }
    }

    fn data(&self, node: usize, field: &str) -> Option<String> {
        let found = self.world.named(NODES[node]);
        let (_, live) = found.first()?;
        text(live.json(), &["data", field]).map(str::to_owned)
    }

    fn is_updated(&self, node: usize) -> bool {
        self.data(node, "size") == Some(self.content.to_string())
    }

    /// Whether the nodes that this one waits for are ready at what is wanted now.
    fn may_change(&self, node: usize) -> bool {
        let ready = |on: &usize| self.data(*on, "open").as_deref() == Some("yes");
        let mut waits = WAITS[node].iter();
        waits.all(|on| self.is_updated(*on) && ready(on))
    }

    /// Plans, and sees to it that what changes may, and that what may does.
    fn plan(&self) -> Plan {
        let plan = self.world.plan();
        let of = |drifted: bool| -> BTreeSet<&str> {
            let all = plan.apply.iter();
            let all = all.filter(|one| (one.why == Cause::Drifted) == drifted);
            all.map(|one| one.id.name.as_str()).collect()
        };
        let (changes, mended) = (of(false), of(true));
        for (node, name) in NODES.iter().enumerate() {
            // What is being put right is not ready before that is done.
            let mending = WAITS[node].iter().any(|on| mended.contains(NODES[*on]));
            let due = self.may_change(node) && !mending && !self.is_updated(node);
            assert_eq!(changes.contains(name), due, "{name}\n{}", self.world.said);
        }
        assert!(plan.prune.is_empty());
        plan
    }

    fn happen(&mut self, event: &Event) {
        match event {
            Event::Pass => {
                let plan = self.plan();
                self.world.act(&plan);
            }
            Event::Crash(most) => {
                let plan = self.plan();
                self.world.keep(&plan);
                let kept = self.world.in_flight.clone();
                for apply in plan.apply.iter().take(*most) {
                    let (node, live) = self.world.applied(apply);
                    self.world.observed.insert(&node, Arc::new(live));
                }
                self.world.forget();
                self.world.in_flight = kept;
            }
            Event::Open(node) => self.set(*node, "yes"),
            Event::Break(node) => self.set(*node, "no"),
            Event::Drift(node) => self.world.step(&format!("drift {}", NODES[*node])),
            Event::Delete(node) => self.world.step(&format!("gone {}", NODES[*node])),
            Event::Change => self.want(self.content + 1),
            Event::Back => self.want((self.content - 1).max(1)),
        }
    }

    fn set(&mut self, node: usize, open: &str) {
        let step = format!("set {} data.open=\"{open}\"", NODES[node]);
        self.world.step(&step);
    }

    fn want(&mut self, content: u64) {
        self.content = content;
        let step = format!("set schema spec.size=\"{content}\"");
        self.world.step(&step);
    }

    /// With everything coming up, it is all done in the end.
    fn finish(&mut self) {
        for _ in 0..=NODES.len() {
            self.happen(&Event::Pass);
            (0..NODES.len()).for_each(|node| self.set(node, "yes"));
        }
        let plan = self.plan();
        assert!(plan.is_ready(), "{plan:?}\n{}", self.world.said);
        assert!(plan.apply.is_empty() && plan.in_flight.is_empty());
    }
}

fn event() -> impl Strategy<Value = Event> {
    let node = || 0..NODES.len();
    prop_oneof![
        6 => Just(Event::Pass),
        2 => (0_usize..4).prop_map(Event::Crash),
        8 => node().prop_map(Event::Open),
        3 => node().prop_map(Event::Break),
        2 => node().prop_map(Event::Drift),
        1 => node().prop_map(Event::Delete),
        2 => Just(Event::Change),
        1 => Just(Event::Back),
    ]
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn nothing_changes_before_what_it_waits_for_and_nothing_waits_longer(
        events in prop::collection::vec(event(), 1..60),
    ) {
        let mut run = Run::new();
        for event in &events {
            run.happen(event);
        }
        run.finish();
    }
}
