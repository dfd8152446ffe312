//! What holds whatever happens.

use std::collections::BTreeSet;

use deltaplane_expr::{Absent, Decl, Duration, Timestamp};
use deltaplane_propagation::{
    Admission, Change, Decision, Gate, Health, Hold, InFlight, Limits, Order, Progress, Report,
    Scope, Standing, Subject, Surroundings, Terms, Window, pass,
};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value as Json, json};

use crate::fleet::{Fleet, Version, cases, gate};

/// Something that happens.
#[derive(Clone, Debug)]
enum Event {
    /// A decision is made, and so many of its changes are recorded before everything stops.
    Decide(Index),
    /// All that was reported has to be reported again.
    Forget,
    Ready(Index),
    Break(Index),
    Fail(Index),
    Hold(Index),
    Release(Index),
    Delete(Index),
    /// Something of the same name takes its place.
    Recreate(Index),
    Add,
    Newer,
    Older,
}

fn event() -> impl Strategy<Value = Event> {
    let one = any::<Index>;
    prop_oneof![
        8 => one().prop_map(Event::Decide),
        1 => Just(Event::Forget),
        8 => one().prop_map(Event::Ready),
        2 => one().prop_map(Event::Break),
        2 => one().prop_map(Event::Fail),
        1 => one().prop_map(Event::Hold),
        1 => one().prop_map(Event::Release),
        1 => one().prop_map(Event::Delete),
        1 => one().prop_map(Event::Recreate),
        1 => Just(Event::Add),
        1 => Just(Event::Newer),
        1 => Just(Event::Older),
    ]
}

/// How many may be in flight.
#[derive(Clone, Copy, Debug)]
enum Bound {
    Linear(usize),
    Exponential(usize),
}

impl Bound {
    fn text(self) -> String {
        match self {
            Self::Linear(most) => format!("linearlyReady(app, apps, {most})"),
            Self::Exponential(factor) => format!("exponentiallyReady(app, apps, {factor})"),
        }
    }

    /// Counted anew from what is recorded.
    fn now(self, fleet: &Fleet) -> usize {
        let all = fleet.items.values();
        let proven = all.filter(|record| record.is_at(fleet.target) && !record.deleting);
        match self {
            Self::Linear(most) => most,
            Self::Exponential(factor) => (proven.count() * (factor - 1)).max(1),
        }
    }
}

fn bound() -> impl Strategy<Value = Bound> {
    prop_oneof![
        (1..4_usize).prop_map(Bound::Linear),
        (2..4_usize).prop_map(Bound::Exponential),
    ]
}

/// A fleet, and who is in flight as far as anybody can tell from outside.
struct Trial {
    fleet: Fleet,
    flight: InFlight,
    bound: Bound,
}

impl Trial {
    fn new(bound: Bound, items: usize) -> Self {
        let mut fleet = Fleet::new(&[&bound.text()]);
        for index in 0..items {
            fleet.add_at(&format!("i{index}"), 1);
        }
        fleet.completed = Some(1);
        fleet.target = 2;
        Self {
            fleet,
            flight: InFlight::default(),
            bound,
        }
    }

    fn pick(&self, index: &Index) -> Option<String> {
        let keys: Vec<&String> = self.fleet.items.keys().collect();
        (!keys.is_empty()).then(|| index.get(&keys).to_string())
    }

    fn happen(&mut self, event: &Event) -> Result<(), TestCaseError> {
        let key = match event {
            Event::Decide(recorded) => return self.decide(recorded),
            Event::Forget => {
                let all = self.fleet.items.values_mut();
                all.for_each(|record| record.report = Report::Unready);
                return Ok(());
            }
            Event::Add => {
                let key = format!("n{}", self.fleet.items.len());
                if !self.fleet.items.contains_key(&key) {
                    self.fleet.add(&key);
                }
                return Ok(());
            }
            Event::Newer => {
                self.fleet.target += 1;
                self.flight.retarget();
                return Ok(());
            }
            Event::Older => {
                self.fleet.target = (self.fleet.target - 1).max(1);
                self.flight.retarget();
                return Ok(());
            }
            Event::Ready(one)
            | Event::Break(one)
            | Event::Fail(one)
            | Event::Hold(one)
            | Event::Release(one)
            | Event::Delete(one)
            | Event::Recreate(one) => self.pick(one),
        };
        if let Some(key) = key {
            self.happen_to(&key, event);
        }
        Ok(())
    }

    fn happen_to(&mut self, key: &str, event: &Event) {
        match event {
            Event::Ready(_) => self.fleet.ready(key),
            Event::Break(_) => self.fleet.record(key).report = Report::Unready,
            Event::Fail(_) => self.fleet.record(key).report = Report::Failed,
            Event::Hold(_) => self.fleet.record(key).hold = Hold::Held,
            Event::Release(_) => self.fleet.record(key).hold = Hold::Free,
            Event::Delete(_) => {
                self.fleet.record(key).deleting = true;
                self.flight.land(key);
            }
            Event::Recreate(_) => {
                self.fleet.items.remove(key);
                self.fleet.add(key);
                self.flight.land(key);
            }
            Event::Decide(_) | Event::Forget | Event::Add | Event::Newer | Event::Older => {}
        }
    }

    fn decide(&mut self, recorded: &Index) -> Result<(), TestCaseError> {
        // What is ready has landed once it is seen: what breaks before is on its way to anybody.
        for (key, record) in &self.fleet.items {
            if record.is_ready() {
                self.flight.land(key);
            }
        }
        let decision = self.fleet.decide();
        let counts = decision.summary.counts;
        let bound = self.bound.now(&self.fleet);
        let idle = counts.in_flight() < bound && counts.pending > 0;
        prop_assert!(!idle, "nothing moves although it may: {}", decision.summary);
        let left = self.overtaken(&decision);
        let idle = self.at_target() + decision.admissions.len() < bound && left.is_some();
        prop_assert!(!idle, "{left:?} is not sent on: {}", decision.summary);
        for key in &decision.arrivals {
            self.fleet.arrive(key);
        }
        for change in &decision.starts {
            self.fleet.start(change);
        }
        let recorded = recorded.index(decision.admissions.len() + 1);
        for (number, change) in decision.admissions.iter().enumerate() {
            self.may_move(change)?;
            if number < recorded {
                let admitted = self.flight.admit(&change.key, bound);
                admitted.map_err(|exceeded| TestCaseError::fail(exceeded.to_string()))?;
                self.fleet.admit(change);
            }
        }
        if counts.is_complete() {
            self.fleet.completed = Some(self.fleet.target);
        }
        Ok(())
    }

    /// Somebody who is on its way to something else, and could be sent on.
    fn overtaken(&self, decision: &Decision<Version>) -> Option<&String> {
        let moves = |key: &str| decision.admissions.iter().any(|change| change.key == key);
        let mut all = self.fleet.items.iter();
        let left = all.find(|(key, record)| {
            let elsewhere =
                matches!(record.admission, Admission::Admitted(at) if at != self.fleet.target);
            let free = record.hold == Hold::Free && !record.deleting;
            elsewhere && free && !record.is_ready() && !moves(key)
        });
        left.map(|(key, _)| key)
    }

    /// How many are in flight at the target.
    fn at_target(&self) -> usize {
        let target = self.fleet.target;
        let all = self.fleet.items.values();
        let flying = all.filter(|record| {
            let there = matches!(record.admission,
                Admission::Admitted(at) | Admission::Arrived(at) if at == target);
            there && !record.deleting && !record.is_ready()
        });
        flying.count()
    }

    fn may_move(&mut self, change: &Change<Version>) -> Result<(), TestCaseError> {
        let record = self.fleet.record(&change.key).clone();
        prop_assert_eq!(record.hold, Hold::Free);
        prop_assert!(!record.deleting);
        prop_assert_ne!(&record.admission, &Admission::Admitted(change.to));
        prop_assert_ne!(&record.admission, &Admission::Arrived(change.to));
        Ok(())
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn never_more_are_in_flight_than_may_be(
        bound in bound(),
        items in 0..8_usize,
        events in prop::collection::vec(event(), 0..80),
    ) {
        let mut trial = Trial::new(bound, items);
        for event in &events {
            trial.happen(event)?;
        }
    }

    /// However many are on their way to what was before, whoever let them: what nobody has proven
    /// yet reaches no more than it may, and it does reach somebody.
    #[test]
    fn what_overtakes_begins_with_few(bound in bound(), items in 1..12_usize, ready in 0..12_usize) {
        let mut trial = Trial::new(bound, items);
        trial.fleet.target = 3;
        for (number, (key, record)) in trial.fleet.items.iter_mut().enumerate() {
            record.admission = Admission::Admitted(2);
            if number < ready {
                record.admission = Admission::Arrived(3);
                trial.flight.land(key);
            }
        }
        let keys: Vec<String> = trial.fleet.items.keys().take(ready).cloned().collect();
        keys.iter().for_each(|key| trial.fleet.ready(key));
        let bound = trial.bound.now(&trial.fleet);
        let left = items.saturating_sub(ready);
        let moved = trial.fleet.decide().admissions.len();
        prop_assert_eq!(moved, left.min(bound));
    }

    /// However many may move at once, and wherever it stops on the way.
    #[test]
    fn all_move_in_the_same_order(
        bound in bound(),
        items in 0..12_usize,
        stops in prop::collection::vec(any::<Index>(), 60),
    ) {
        let mut trial = Trial::new(bound, items);
        let mut moved: Vec<String> = Vec::new();
        for stop in &stops {
            let decision = trial.fleet.decide();
            let recorded = stop.index(decision.admissions.len() + 1);
            for change in decision.admissions.iter().take(recorded) {
                trial.fleet.admit(change);
                trial.fleet.ready(&change.key);
                moved.push(change.key.clone());
            }
        }
        let created: Vec<String> = (0..items).map(|index| format!("i{index}")).collect();
        prop_assert_eq!(&moved[..], &created[..moved.len()]);
    }

    /// When nothing gets in the way, all arrive, and as many decisions suffice as there are items.
    #[test]
    fn all_arrive(bound in bound(), items in 0..12_usize) {
        let mut trial = Trial::new(bound, items);
        for _ in 0..=items {
            let decision = trial.fleet.step();
            for change in &decision.admissions {
                trial.fleet.ready(&change.key);
            }
        }
        prop_assert_eq!(trial.fleet.decide().summary.counts.current, items);
    }
}

/// Items as they are given: what they are told apart by, how they stand, what is in them.
type Given = Vec<(String, Standing, Map<String, Json>)>;

fn items() -> impl Strategy<Value = Given> {
    let hold = prop_oneof![5 => Just(Hold::Free), 1 => Just(Hold::Held)];
    let health = prop_oneof![
        (0..120_i64).prop_map(|minute| Health::Ready {
            since: noon(-minute, 0)
        }),
        Just(Health::Broken),
    ];
    let standing = prop_oneof![
        6 => (health, hold).prop_map(|(health, hold)| Standing::Behind { health, hold }),
        1 => Just(Standing::Overtaken { progress: Progress::UnderWay, hold: Hold::Free }),
        1 => Just(Standing::Updating { progress: Progress::UnderWay }),
        1 => Just(Standing::Current { since: noon(-5, 0) }),
    ];
    let one = (standing, 0..3_u8, 0..300_i64);
    prop::collection::vec(one, 0..10).prop_map(|all| {
        let all = all.into_iter().enumerate();
        all.map(|(index, (standing, wave, age))| {
            let object = json!({
                "metadata": {"creationTimestamp": noon(-age, 0).to_string()},
                "spec": {"wave": wave},
            });
            let object = object.as_object().cloned().unwrap_or_default();
            (format!("ns-{wave}/i{index}"), standing, object)
        })
        .collect()
    })
}

/// So many minutes and nanoseconds after noon.
fn noon(minutes: i64, nanos: i64) -> Timestamp {
    let noon = Timestamp::parse("2026-03-01T12:00:00Z").expect("a time");
    noon.plus(Duration::from_nanos(minutes * 60_000_000_000 + nanos))
        .expect("a time")
}

fn subjects(items: &Given) -> Vec<Subject<'_>> {
    let all = items.iter().map(|(key, standing, object)| Subject {
        key,
        object: Some(object),
        standing: *standing,
    });
    all.collect()
}

/// Keys of those who are admitted, in order, those who are not, and when to look again.
fn run(
    items: &Given,
    gate: &Gate,
    order: Option<&Order>,
    now: Timestamp,
) -> (Vec<String>, BTreeSet<String>, Option<Timestamp>) {
    let subjects = subjects(items);
    let given = Surroundings::new();
    let terms = Terms {
        gate,
        order,
        given: &given,
        now,
        windows: &|_, _| Window {
            open: false,
            edge: None,
        },
        limits: Limits::default(),
    };
    let answer = pass(&subjects, terms);
    let key = |index: usize| items[index].0.clone();
    (
        answer.admitted.iter().map(|index| key(*index)).collect(),
        answer.blocked.iter().map(|one| key(one.index)).collect(),
        answer.next,
    )
}

/// Questions about the time that can be answered exactly.
fn timed() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        (0..200_u32).prop_map(|n| format!("readyFor(app, '{n}m')")),
        (0..400_u32, comparison()).prop_map(|(n, op)| format!(
            "time.now() - timestamp(app.metadata.creationTimestamp) {op} duration('{n}m')"
        )),
        (0..400_u32, comparison()).prop_map(|(n, op)| format!(
            "timestamp(app.metadata.creationTimestamp) + duration('{n}m') {op} time.now()"
        )),
        (0..24_u32, comparison()).prop_map(|(n, op)| format!("time.now().getHours() {op} {n}")),
        (0..60_u32, comparison()).prop_map(|(n, op)| format!(
            "(time.now() - duration('17m')).getMinutes('+05:45') {op} {n}"
        )),
        (0..7_u32).prop_map(|n| format!("time.now().getDayOfWeek('Asia/Tokyo') == {n}")),
        (0..200_u32).prop_map(|n| format!("apps.all(a, readyFor(a, '{n}m') || a.spec.wave == 1)")),
    ];
    leaf.prop_recursive(2, 6, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} && {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} || {b})")),
            inner.prop_map(|a| format!("!({a})")),
        ]
    })
}

fn comparison() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["<", "<=", ">", ">=", "==", "!="])
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn the_order_does_not_depend_on_how_items_are_given(
        items in items(),
        seed in prop::collection::vec(any::<u32>(), 10),
        most in 1..6_u32,
        by_wave in any::<bool>(),
    ) {
        let gate = gate(&[&format!("linearlyReady(app, apps, {most})")]);
        let scope = Scope::new(Decl::dynamic(Absent::Waits).clone(), &["app"]);
        let scope = scope.collection(&["apps"]);
        let order = Order::compile("-app.spec.wave", &scope).expect("an order");
        let order = by_wave.then_some(&order);
        let mut shuffled: Vec<_> = items.iter().cloned().zip(seed).collect();
        shuffled.sort_by_key(|(_, seed)| *seed);
        let shuffled: Given = shuffled.into_iter().map(|(item, _)| item).collect();
        let now = noon(0, 0);
        prop_assert_eq!(run(&items, &gate, order, now), run(&shuffled, &gate, order, now));
    }

    /// Until the instant that is told, whoever is kept back stays so.
    #[test]
    fn nothing_opens_before_the_instant_that_is_told(
        items in items(),
        texts in prop::collection::vec(timed(), 1..3),
        minutes in prop::collection::vec((0..1_500_i64, 0..60_000_000_000_i64), 8),
    ) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let gate = gate(&texts);
        let (_, blocked, next) = run(&items, &gate, None, noon(0, 0));
        let before = next.map(|next| next.plus(Duration::from_nanos(-1)).expect("a time"));
        let random = minutes.into_iter().map(|(minutes, nanos)| noon(minutes, nanos));
        let random = random.filter(|at| next.is_none_or(|next| *at < next));
        for at in random.chain(before) {
            let (_, then, _) = run(&items, &gate, None, at);
            prop_assert!(then.is_superset(&blocked), "{at} {blocked:?} {then:?} {next:?}");
        }
    }
}
