//! Whatever happens, no more are in flight than the gate allows; and what it allows is done.
//!
//! What is in flight is followed from what is sent and what becomes ready, and not from plans.

use std::collections::BTreeSet;

use deltaplane_propagation::InFlight;
use proptest::prelude::*;

use super::*;
use crate::compile::tests::cases;

/// How many may be in flight.
#[derive(Clone, Copy, Debug)]
enum Bound {
    Linear(usize),
    Exponential(usize),
}

#[derive(Clone, Debug)]
enum Event {
    /// A plan is carried out.
    Pass,
    /// The first of a plan are applied, and then everything is forgotten but what is kept.
    Crash(usize),
    /// A plan is sent and not answered; of each object, whether it was applied.
    Lose(Vec<bool>),
    Look,
    Open(usize),
    Break(usize),
    Drift(usize),
    /// Another content is wanted.
    Change,
    /// So many items are wanted.
    Scale(usize),
}

const MOST: usize = 7;
const CASES: u32 = 100;

/// Items that go through a gate.
struct Run {
    world: World,
    bound: Bound,
    /// Whether it is kept what was admitted.
    records: bool,
    flight: InFlight,
    /// The content that each was last admitted to.
    sent: BTreeMap<String, u64>,
    /// Sent, and never applied.
    never: BTreeSet<String>,
    content: u64,
}

fn name(item: usize) -> String {
    format!("r{item}")
}

impl Run {
    fn new(bound: Bound, items: usize, records: bool) -> Self {
        let gate = match bound {
            Bound::Linear(most) => format!("linearlyReady(room, rooms, {most})"),
            Bound::Exponential(factor) => format!("exponentiallyReady(room, rooms, {factor})"),
        };
        let definition = format!(
            r#"
schema: {{kind: Hotel, apiVersion: v1, spec: {{names: "[]string", size: string}}}}
resources:
- id: rooms
  forEach: [{{room: "${{schema.spec.names}}"}}]
  propagateWhen: ["{gate}"]
  readyWhen: ["${{each.data.open == 'yes'}}"]
  template:
    {{apiVersion: v1, kind: ConfigMap, metadata: {{name: "${{room}}"}}, data: {{open: "no", size: "${{schema.spec.size}}"}}}}
"#
        );
        let names: Vec<String> = (0..items).map(name).collect();
        let instance = json!({"spec": {"names": names, "size": "1"}});
        Self {
            world: World::new(&definition, instance),
            bound,
            records,
            flight: InFlight::default(),
            sent: BTreeMap::new(),
            never: BTreeSet::new(),
            content: 1,
        }
    }

    fn happen(&mut self, event: &Event) {
        match event {
            Event::Pass => {
                let plan = self.plan();
                self.send(&plan, plan.apply.len());
                self.world.act(&plan);
            }
            Event::Crash(most) => {
                let plan = self.plan();
                self.send(&plan, *most);
                let kept = self.world.in_flight.clone();
                for apply in plan.apply.iter().take(*most) {
                    let (node, live) = self.world.applied(apply);
                    self.world.observed.insert(&node, Arc::new(live));
                }
                self.look();
                self.world.forget();
                self.world.in_flight = kept;
            }
            Event::Lose(arrives) => {
                let plan = self.plan();
                self.send(&plan, plan.apply.len());
                for (at, apply) in plan.apply.iter().enumerate() {
                    let sent = self.world.applied(apply);
                    let content = apply.content.clone();
                    self.world.unsure.insert(apply.id.clone(), content);
                    match arrives.get(at).copied().unwrap_or(false) {
                        true => self.world.late.push(sent),
                        false => drop(self.never.insert(apply.id.name.clone())),
                    }
                }
            }
            Event::Look => self.look(),
            Event::Open(item) => self.set(*item, "yes"),
            Event::Break(item) => self.set(*item, "no"),
            Event::Drift(item) => self.world.step(&format!("drift rooms/{}", name(*item))),
            Event::Change => {
                self.content += 1;
                self.flight.retarget();
                let content = self.content;
                self.world
                    .step(&format!("set schema spec.size=\"{content}\""));
            }
            Event::Scale(items) => {
                let names: Vec<String> = (0..*items).map(name).collect();
                self.world.instance["spec"]["names"] = names.into();
                for gone in (*items..MOST).map(name) {
                    self.flight.land(&gone);
                    self.sent.remove(&gone);
                }
            }
        }
    }

    /// Plans, and sees to it that nobody waits who need not.
    fn plan(&mut self) -> Plan {
        self.land();
        let plan = self.world.plan();
        let node = self.world.graph.find("rooms").expect("a node");
        let blocked = plan.gated(node).next().is_some();
        if blocked && plan.apply.is_empty() {
            let flying = self.flying();
            assert!(flying >= self.most(), "{flying} in flight: {plan:?}");
        }
        plan
    }

    /// As many as can count as in flight.
    fn flying(&self) -> usize {
        let names = self.world.instance["spec"]["names"].as_array();
        let names = names.into_iter().flatten().filter_map(Json::as_str);
        let flies = |name: &&str| {
            let recorded = self.world.in_flight.keys().any(|id| id.name == *name);
            recorded || self.is_unsure(name) || (self.is_updated(name) && !self.is_ready(name))
        };
        names.filter(flies).count()
    }

    fn most(&self) -> usize {
        match self.bound {
            Bound::Linear(most) => most,
            Bound::Exponential(factor) => {
                let names = self.world.instance["spec"]["names"].as_array();
                let names = names.into_iter().flatten().filter_map(Json::as_str);
                let proven = |name: &&str| self.is_updated(name) && self.is_ready(name);
                (names.filter(proven).count() * (factor - 1)).max(1)
            }
        }
    }

    fn data(&self, name: &str, field: &str) -> Option<String> {
        let found = self.world.named(&format!("rooms/{name}"));
        let (_, live) = found.first()?;
        text(live.json(), &["data", field]).map(str::to_owned)
    }

    /// Whether something was sent that is not seen.
    fn is_unsure(&self, name: &str) -> bool {
        let mut sent = self.world.unsure.iter();
        let sent = sent.find(|(id, _)| id.name == name);
        sent.is_some_and(|(id, sent)| {
            let live = self.world.observed.get("rooms", id);
            let applied = live.and_then(|live| live.applied.as_ref());
            applied.is_none_or(|applied| applied.content != *sent)
        })
    }

    fn is_updated(&self, name: &str) -> bool {
        self.data(name, "size") == Some(self.content.to_string())
    }

    fn is_ready(&self, name: &str) -> bool {
        self.data(name, "open").as_deref() == Some("yes")
    }

    /// The first objects of a plan are sent. What is recorded is admitted, sent or not.
    fn send(&mut self, plan: &Plan, most: usize) {
        let bound = self.most();
        self.world.keep(plan);
        if !self.records {
            self.world.in_flight.clear();
        }
        for (at, apply) in plan.apply.iter().enumerate() {
            let name = &apply.id.name;
            if apply.why == Cause::Drifted || (at >= most && !self.records) {
                continue;
            }
            let exceeded = self.flight.admit(name, bound);
            exceeded.unwrap_or_else(|exceeded| panic!("{exceeded}\n{}", self.world.said));
            // Also what is recorded and not sent has arrived only when it is ready there.
            self.sent.insert(name.clone(), self.content);
            if at < most {
                self.never.remove(name);
            }
        }
    }

    fn look(&mut self) {
        self.world.look();
        for name in std::mem::take(&mut self.never) {
            if !self.records {
                self.flight.land(&name);
            }
        }
    }

    fn set(&mut self, item: usize, open: &str) {
        let name = name(item);
        self.world
            .step(&format!("set rooms/{name} data.open=\"{open}\""));
    }

    /// What a plan can see to be ready at what it was sent has arrived.
    fn land(&mut self) {
        let arrived = |(name, sent): &(&String, &u64)| {
            let there = self.data(name, "size") == Some(sent.to_string());
            there && self.is_ready(name) && !self.is_unsure(name)
        };
        let arrived = self.sent.iter().filter(arrived);
        let arrived: Vec<String> = arrived.map(|(name, _)| name.clone()).collect();
        arrived.iter().for_each(|name| self.flight.land(name));
    }

    /// With everything coming up, it is all done in the end.
    fn finish(&mut self) {
        self.look();
        for _ in 0..4 * MOST {
            self.happen(&Event::Pass);
            (0..MOST).for_each(|item| self.set(item, "yes"));
        }
        let plan = self.plan();
        assert!(plan.is_ready(), "{plan:?}\n{}", self.world.said);
        assert!(plan.apply.is_empty() && plan.prune.is_empty() && plan.in_flight.is_empty());
    }
}

fn bounds() -> impl Strategy<Value = Bound> {
    prop_oneof![
        (1_usize..4).prop_map(Bound::Linear),
        (2_usize..4).prop_map(Bound::Exponential),
    ]
}

fn events(with_changes: bool) -> impl Strategy<Value = Vec<Event>> {
    let item = || 0..MOST;
    let changes = match with_changes {
        true => Just(Event::Change).boxed(),
        false => Just(Event::Pass).boxed(),
    };
    let event = prop_oneof![
        6 => Just(Event::Pass),
        2 => (0_usize..4).prop_map(Event::Crash),
        2 => prop::collection::vec(any::<bool>(), 4).prop_map(Event::Lose),
        2 => Just(Event::Look),
        8 => item().prop_map(Event::Open),
        3 => item().prop_map(Event::Break),
        2 => item().prop_map(Event::Drift),
        1 => item().prop_map(|item| match item {
            0 => Event::Look,
            item => Event::Scale(item),
        }),
        2 => changes,
    ];
    prop::collection::vec(event, 1..60)
}

fn run(bound: Bound, items: usize, records: bool, events: &[Event]) {
    let mut run = Run::new(bound, items, records);
    for event in events {
        run.happen(event);
    }
    run.finish();
}

proptest! {
    #![proptest_config(cases(CASES))]

    /// With what was admitted being kept, also when something else is wanted on the way.
    #[test]
    fn the_bound_holds_when_something_else_is_wanted(
        bound in bounds(), items in 1..=MOST, events in events(true),
    ) {
        run(bound, items, true, &events);
    }

    /// With nothing but the objects, as long as the same is wanted.
    #[test]
    fn the_bound_holds_with_nothing_but_objects(
        bound in bounds(), items in 1..=MOST, events in events(false),
    ) {
        run(bound, items, false, &events);
    }
}
