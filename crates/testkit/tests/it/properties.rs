//! What holds whatever happens to a fleet. The rules are the witness's: it judges every record that
//! is written down here.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_expr::{Duration, Timestamp};
use deltaplane_propagation::Hold;
use deltaplane_testkit::{Delays, Fleet, Lost, Made, Nature};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngSeed};
use serde_json::{Value as Json, json};

/// Something that happens.
#[derive(Clone, Debug)]
enum Event {
    /// Everything takes its course for so many seconds.
    Pass(i64),
    /// Decisions are made as long as something changes, and time does not pass.
    Decide,
    Turn(Index, Nature),
    Offline(Index),
    Online(Index),
    Hold(Index),
    Free(Index),
    Join(u8, u8),
    Leave(Index),
    Relabel(Index, u8, u8),
    /// Whether the policy is for it.
    Select(Index, bool),
    /// By one of three; it fails in some zones, and takes away so many of a hundred objects.
    Release(u8, Vec<Index>, u64),
    /// One of three brings back what was before.
    Restore(u8, Index),
    Approve(u8, u8),
    ApproveDeletions,
    Pause(bool),
    PauseStage(Index, bool),
    Forgive,
    Crash(Lost, i64),
}

fn event() -> impl Strategy<Value = Event> {
    let zone = any::<Index>;
    let nature = prop::sample::select(vec![
        Nature::Healthy,
        Nature::Healthy,
        Nature::Failing,
        Nature::Stuck,
        Nature::Refusing,
        Nature::Unproven,
    ]);
    let lost = prop::sample::select(vec![Lost::Nothing, Lost::Decision, Lost::Delivery]);
    let bad = prop::collection::vec(zone(), 0..3);
    let removes = prop_oneof![3 => Just(0), 1 => 0..40_u64];
    prop_oneof![
        12 => (0..400_i64).prop_map(Event::Pass),
        2 => Just(Event::Decide),
        4 => (zone(), nature).prop_map(|(zone, nature)| Event::Turn(zone, nature)),
        2 => zone().prop_map(Event::Offline),
        2 => zone().prop_map(Event::Online),
        1 => zone().prop_map(Event::Hold),
        1 => zone().prop_map(Event::Free),
        1 => (0..3_u8, 0..2_u8).prop_map(|(tier, region)| Event::Join(tier, region)),
        1 => zone().prop_map(Event::Leave),
        2 => (zone(), 0..3_u8, 0..2_u8).prop_map(|(zone, tier, region)| Event::Relabel(zone, tier, region)),
        2 => (zone(), any::<bool>()).prop_map(|(zone, is)| Event::Select(zone, is)),
        1 => (0..3_u8, zone()).prop_map(|(by, release)| Event::Restore(by, release)),
        3 => (0..3_u8, bad, removes).prop_map(|(by, bad, removes)| Event::Release(by, bad, removes)),
        3 => (0..3_u8, 0..3_u8).prop_map(|(stage, by)| Event::Approve(stage, by)),
        1 => Just(Event::ApproveDeletions),
        1 => any::<bool>().prop_map(Event::Pause),
        1 => (zone(), any::<bool>()).prop_map(|(stage, paused)| Event::PauseStage(stage, paused)),
        1 => Just(Event::Forgive),
        1 => (lost, 0..30_i64).prop_map(|(lost, after)| Event::Crash(lost, after)),
    ]
}

fn gate() -> impl Strategy<Value = Json> {
    prop_oneof![
        Just(json!([])),
        (1..4_u8).prop_map(|most| json!([format!("linearlyReady(zone, zones, {most})")])),
        (2..4_u8).prop_map(|factor| json!([format!("exponentiallyReady(zone, zones, {factor})")])),
    ]
}

fn stage() -> impl Strategy<Value = Json> {
    let failures = prop_oneof![
        2 => Just(json!(0)),
        1 => Just(json!(1)),
        1 => Just(json!("40%")),
    ];
    let approval = prop_oneof![
        3 => Just("None"),
        1 => Just("Required"),
        1 => Just("RequiredByOther"),
    ];
    let evidence = prop_oneof![2 => Just("Hold"), 1 => Just("Proceed")];
    let soak = prop_oneof![Just("0s"), Just("90s"), Just("10m")];
    let deadline = prop_oneof![Just("2m"), Just("10m")];
    (gate(), failures, approval, evidence, soak, deadline).prop_map(
        |(gate, failures, approval, evidence, soak, deadline)| {
            json!({
                "propagateWhen": gate,
                "maxFailures": failures,
                "approval": approval,
                "whenNoEvidence": evidence,
                "soak": soak,
                "progressDeadline": deadline,
            })
        },
    )
}

/// A policy of one to three stages, for zones of three tiers.
fn policy() -> impl Strategy<Value = Json> {
    let stages = prop::collection::vec(stage(), 1..4);
    let newer = prop_oneof![2 => Just("Supersede"), 1 => Just("Queue")];
    let failure = prop_oneof![1 => Just("Pause"), 1 => Just("Rollback")];
    (stages, newer, failure).prop_map(|(mut stages, newer, failure)| {
        let last = stages.len() - 1;
        for (index, stage) in stages.iter_mut().enumerate() {
            stage["name"] = format!("s{index}").into();
            if index < last {
                stage["zones"] = json!({"matchLabels": {"tier": format!("t{index}")}});
            }
        }
        json!({
            "stages": stages,
            "onNewer": newer,
            "onFailure": failure,
            "zones": {"matchExpressions": [{"key": OUT, "operator": "DoesNotExist"}]},
            "overrides": [{"zones": {"matchLabels": {"region": "r1"}}, "patch": []}],
        })
    })
}

fn zones() -> impl Strategy<Value = Vec<(u8, u8)>> {
    prop::collection::vec((0..3_u8, 0..2_u8), 0..9)
}

/// A fleet to which things happen.
struct Trial {
    fleet: Fleet,
    joined: u8,
    released: u64,
}

/// The label of zones that the policy is not for.
const OUT: &str = "out";
const PEOPLE: [&str; 3] = ["ann", "bob", "eve"];

fn seconds(number: i64) -> Duration {
    Duration::from_nanos(number * 1_000_000_000)
}

fn labels(tier: u8, region: u8) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("tier".to_owned(), format!("t{tier}")),
        ("region".to_owned(), format!("r{region}")),
    ])
}

type Tried = Result<(), TestCaseError>;

impl Trial {
    fn new(spec: Json, zones: &[(u8, u8)]) -> Self {
        let mut trial = Self {
            fleet: Fleet::new(spec).expect("a policy"),
            joined: 0,
            released: 0,
        };
        for (tier, region) in zones {
            trial.join(*tier, *region);
        }
        trial
    }

    fn join(&mut self, tier: u8, region: u8) {
        self.joined += 1;
        let delays = Delays {
            ack: seconds(i64::from(self.joined % 3)),
            ready: seconds(i64::from(self.joined * 7 % 60)),
        };
        let name = format!("z{}", self.joined);
        self.fleet.join(&name, &labels(tier, region), delays);
    }

    fn pick(&self, index: &Index) -> Option<String> {
        let names = self.fleet.names();
        (!names.is_empty()).then(|| index.get(&names).clone())
    }

    fn happen(&mut self, event: &Event) -> Tried {
        match event {
            Event::Pass(length) => return self.pass(*length),
            Event::Decide => return self.settle(),
            Event::Join(tier, region) => self.join(*tier, *region),
            Event::Release(by, bad, removes) => {
                let bad: BTreeSet<String> = bad.iter().filter_map(|one| self.pick(one)).collect();
                self.released = self.fleet.release(Made {
                    authors: vec![PEOPLE[usize::from(*by)].to_owned()],
                    removes: (*removes, 100),
                    bad,
                    ..Made::default()
                });
            }
            Event::Restore(by, older) if self.released > 1 => {
                let older = older.index(usize::try_from(self.released - 1).unwrap_or(1)) + 1;
                self.released = self.fleet.release(Made {
                    authors: vec![PEOPLE[usize::from(*by)].to_owned()],
                    restores: Some(older as u64),
                    removes: (0, 100),
                    ..Made::default()
                });
            }
            Event::Restore(..) => {}
            Event::Approve(stage, by) => {
                let by = PEOPLE[usize::from(*by)];
                self.fleet
                    .approve(Some(&format!("s{stage}")), self.released, by);
            }
            Event::ApproveDeletions => self.fleet.approve(None, self.released, "ann"),
            Event::Pause(paused) => self.fleet.pause(None, *paused),
            Event::PauseStage(stage, paused) => {
                let stage = stage.index(self.fleet.stages());
                self.fleet.pause(Some(stage), *paused);
            }
            Event::Forgive => {
                let forgiven = self.fleet.forgive(self.released);
                return forgiven.map_err(TestCaseError::fail);
            }
            Event::Crash(lost, after) => {
                let crashed = self.fleet.crash(*lost, seconds(*after));
                return crashed.map_err(TestCaseError::fail);
            }
            Event::Turn(zone, _)
            | Event::Offline(zone)
            | Event::Online(zone)
            | Event::Hold(zone)
            | Event::Free(zone)
            | Event::Leave(zone)
            | Event::Select(zone, _)
            | Event::Relabel(zone, ..) => {
                if let Some(zone) = self.pick(zone) {
                    self.happen_to(&zone, event);
                }
            }
        }
        Ok(())
    }

    fn happen_to(&mut self, zone: &str, event: &Event) {
        let fleet = &mut self.fleet;
        match event {
            Event::Turn(_, nature) => fleet.turn(zone, *nature),
            Event::Offline(_) => fleet.disconnect(zone),
            Event::Online(_) => fleet.reconnect(zone),
            Event::Hold(_) => fleet.hold(zone, Hold::Held),
            Event::Free(_) => fleet.hold(zone, Hold::Free),
            Event::Leave(_) => fleet.leave(zone),
            Event::Select(_, is) => fleet.relabel(zone, OUT, if *is { "" } else { "yes" }),
            Event::Relabel(_, tier, region) => {
                for (key, value) in labels(*tier, *region) {
                    fleet.relabel(zone, &key, &value);
                }
            }
            Event::Pass(_)
            | Event::Decide
            | Event::Join(..)
            | Event::Release(..)
            | Event::Restore(..)
            | Event::Approve(..)
            | Event::ApproveDeletions
            | Event::Pause(_)
            | Event::PauseStage(..)
            | Event::Forgive
            | Event::Crash(..) => {}
        }
    }

    fn settle(&mut self) -> Tried {
        let settled = self.fleet.settle();
        settled.map(drop).map_err(TestCaseError::fail)
    }

    /// Everything takes its course for so long, and no time passes by itself in which anything
    /// could have been decided otherwise.
    fn pass(&mut self, length: i64) -> Tried {
        let end = self.fleet.now().plus(seconds(length)).expect("a time");
        self.settle()?;
        while let Some(at) = self.fleet.upcoming().filter(|at| *at <= end) {
            self.quiet_until(at)?;
            self.fleet.pass_to(at);
            self.settle()?;
        }
        self.quiet_until(end)?;
        self.fleet.pass_to(end);
        self.settle()
    }

    /// Nothing would be decided before something happens that was foretold.
    fn quiet_until(&mut self, at: Timestamp) -> Tried {
        let now = self.fleet.now();
        let length = at.since(now).expect("later").nanos();
        if length < 2 {
            return Ok(());
        }
        for part in [length / 2, length - 1] {
            let then = now.plus(Duration::from_nanos(part)).expect("a time");
            let quiet = self.fleet.is_quiet_at(then).map_err(TestCaseError::fail)?;
            prop_assert!(quiet, "something is decided at {then} and nobody said so");
        }
        Ok(())
    }

    /// All that went wrong is put right, and there is another release: it must get everywhere.
    fn recover(&mut self) -> Tried {
        self.fleet.pause(None, false);
        for stage in 0..self.fleet.stages() {
            self.fleet.pause(Some(stage), false);
        }
        for zone in self.fleet.names() {
            self.fleet.turn(&zone, Nature::Healthy);
            self.fleet.reconnect(&zone);
            self.fleet.hold(&zone, Hold::Free);
            self.fleet.relabel(&zone, OUT, "");
        }
        // A stage without zones proves nothing.
        for tier in 0..3 {
            self.join(tier, 0);
        }
        self.released = self.fleet.release(Made {
            authors: vec!["ann".to_owned()],
            ..Made::default()
        });
        for release in 0..=self.released {
            self.fleet.approve(None, release, "ann");
        }
        for stage in 0..self.fleet.stages() {
            let stage = format!("s{stage}");
            for release in 0..=self.released {
                // Who authored nothing.
                self.fleet.approve(Some(&stage), release, "zoe");
            }
        }
        self.pass(4 * 3600)?;
        let current = self.fleet.is_current();
        prop_assert!(current, "not all have it: {:?}", self.fleet.held());
        let idle = self.fleet.upcoming();
        prop_assert!(idle.is_none(), "it never ends: {idle:?}");
        Ok(())
    }
}

/// The same cases in every run, unless `PROPTEST_RNG_SEED` asks for others: a failure comes again
/// by itself, and nothing needs to remember it.
fn cases(number: u32) -> Config {
    let config = Config::with_cases(number);
    Config {
        rng_seed: match config.rng_seed {
            RngSeed::Random => RngSeed::Fixed(20_260),
            given @ RngSeed::Fixed(_) => given,
        },
        failure_persistence: None,
        ..config
    }
}

proptest! {
    #![proptest_config(cases(400))]

    /// No rule is broken, whatever happens; and when all is well again, all zones get the newest
    /// release.
    #[test]
    fn whatever_happens_the_rules_hold_and_all_arrive(
        spec in policy(),
        zones in zones(),
        events in prop::collection::vec(event(), 0..60),
    ) {
        let mut trial = Trial::new(spec, &zones);
        for event in &events {
            trial.happen(event)?;
        }
        trial.recover()?;
    }
}
