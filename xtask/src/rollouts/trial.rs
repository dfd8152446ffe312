//! One run: a hub, its zones, changes, and deaths of the hub.

use std::fmt;
use std::ops::AddAssign;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use deltaplane_client::remote;
use serde_json::{Value, json};

use super::Bug;
use super::verdict::{End, Finding, Rules, judge};
use crate::fleet::{Fleet, Manner, Memory, Seen, Witness, Zones, authored};
use crate::hub::Hub;
use crate::torture::random::Random;

/// What is played.
pub(super) struct Plan<'a> {
    pub(super) binary: &'a Path,
    pub(super) seed: u64,
    pub(super) zones: usize,
    pub(super) changes: usize,
    pub(super) bug: Option<Bug>,
}

/// What happened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    changes: usize,
    acknowledged: usize,
    kills: usize,
    came: usize,
    took: Duration,
}

struct Scene<'a> {
    plan: &'a Plan<'a>,
    hub: Hub,
    client: kube::Client,
    random: Random,
    acknowledged: usize,
    figures: Figures,
}

const POLICY: &str = "web";
/// How many canaries, and how many others, may be in flight at once.
const BOUNDS: [usize; 2] = [1, 2];
/// The last rollout must be over by then, on a machine that does other things.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(50);

// === impl Plan ===

impl Plan<'_> {
    /// Plays it, and judges what was seen.
    pub(super) async fn play(&self) -> Result<(Figures, Vec<Finding>)> {
        let began = Instant::now();
        let directory = tempfile::tempdir().context("making a temporary directory")?;
        let hub = tokio::task::block_in_place(|| Hub::start_to_stay(self.binary))?;
        let client = remote(hub.kubeconfig()).await?;
        authored::prepare(&client).await?;
        let witness = Arc::new(Witness::new(authored::name(0)?));
        let fleet = Fleet {
            labels: &|number| self.labels(number),
            manner: &|number| self.manner(number),
            witness: Some(&witness),
            memory: &Memory::default(),
        };
        let zones = Zones::start_as(&client, 0..self.zones, directory.path(), fleet).await?;
        authored::govern(&client, POLICY, 0..1, &self.stages()).await?;
        authored::objects(&client, 0..1).await?;
        let mut scene = Scene {
            plan: self,
            hub,
            client,
            random: Random::new(self.seed, 0),
            acknowledged: 0,
            figures: Figures::default(),
        };
        for turn in 1..=self.changes {
            scene.change(turn).await?;
        }
        let found = scene.end(&witness).await;
        let found = found.with_context(|| scene.stuck(&witness))?;
        let seen = witness.seen();
        let end = End {
            acknowledged: scene.acknowledged,
            found,
        };
        drop(zones);
        let figures = Figures {
            came: seen.len(),
            took: began.elapsed(),
            ..scene.figures
        };
        Ok((figures, judge(&self.rules(), &seen, end)))
    }

    fn canaries(&self) -> usize {
        self.zones.div_ceil(4)
    }

    fn labels(&self, number: usize) -> Value {
        match number < self.canaries() {
            true => json!({"tier": "canary"}),
            false => Value::Null,
        }
    }

    /// Some zones are faster than others.
    fn manner(&self, number: usize) -> Manner {
        let mut random = Random::new(self.seed, 1 + number as u64);
        Manner {
            delay: random.millis(0..120),
            fails: false,
        }
    }

    fn stages(&self) -> Value {
        let gate = |most: usize| json!([format!("linearlyReady(zone, zones, {most})")]);
        let [canaries, mut others] = BOUNDS;
        if self.bug == Some(Bug::Bound) {
            others += 1;
        }
        let canary = json!({
            "name": "canary", "zones": {"matchLabels": {"tier": "canary"}},
            "propagateWhen": gate(canaries),
        });
        let rest = json!({"name": "rest", "propagateWhen": gate(others)});
        match self.bug {
            Some(Bug::Order) => json!([rest]),
            Some(Bug::Bound) | None => json!([canary, rest]),
        }
    }

    fn rules(&self) -> Rules {
        let stage = |number: usize| usize::from(number >= self.canaries());
        let stages = (0..self.zones).map(|number| (authored::zone(number), stage(number)));
        Rules {
            stages: stages.collect(),
            bounds: BOUNDS.into(),
        }
    }
}

// === impl Scene ===

impl Scene<'_> {
    /// Writes a change, and lets it move for a while, in which the hub may die.
    async fn change(&mut self, turn: usize) -> Result<()> {
        self.figures.changes += 1;
        let dies = self.random.percent(60);
        // Often while it is written, or what becomes of it is.
        let pause = match self.random.percent(40) {
            true => self.random.millis(0..40),
            false => self.random.millis(40..2000),
        };
        let client = self.client.clone();
        let (written, ()) = tokio::join!(authored::change(&client, 0, turn), async {
            tokio::time::sleep(pause).await;
            if dies {
                // What the hub has not answered yet is never answered.
                let killed = self.hub.kill();
                killed.expect("it is ours, and running");
            }
        });
        if written.is_ok() {
            self.acknowledged = turn;
            self.figures.acknowledged += 1;
        } else if !dies {
            written?;
        }
        if dies {
            self.figures.kills += 1;
            let binary = self.plan.binary;
            let down = self.random.millis(0..300);
            tokio::time::sleep(down).await;
            tokio::task::block_in_place(|| self.hub.start_again(binary))?;
            self.client = remote(self.hub.kubeconfig()).await?;
        }
        Ok(())
    }

    /// Waits until the last change is everywhere; gives which it is.
    async fn end(&self, witness: &Witness) -> Result<usize> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let turn = authored::turn_of(&self.client, 0).await?;
            let policy = authored::policy(&self.client, POLICY).await?;
            let everywhere = arrived(&witness.seen(), turn) == self.plan.zones;
            if everywhere && authored::is_propagated(&policy) {
                return Ok(turn);
            }
            if Instant::now() > deadline {
                bail!("turn {turn} is not everywhere: {}", policy["status"]);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn stuck(&self, witness: &Witness) -> String {
        let (seed, seen) = (self.plan.seed, witness.seen());
        let last: Vec<&Seen> = seen.iter().rev().take(20).collect();
        let log = self.hub.log();
        let log: Vec<&str> = log.lines().rev().take(20).collect();
        format!("seed {seed}; last seen {last:?}; the hub said last {log:#?}")
    }
}

/// To how many zones a turn came.
fn arrived(seen: &[Seen], turn: usize) -> usize {
    let came = seen
        .iter()
        .filter(|one| one.what == crate::fleet::Happened::Came(turn));
    let zones: std::collections::BTreeSet<&str> = came.map(|one| one.zone.as_str()).collect();
    zones.len()
}

// === impl Figures ===

impl Figures {
    pub(super) fn add(&mut self, other: &Self) {
        let Self {
            changes,
            acknowledged,
            kills,
            came,
            took,
        } = other;
        self.changes.add_assign(changes);
        self.acknowledged.add_assign(acknowledged);
        self.kills.add_assign(kills);
        self.came.add_assign(came);
        self.took.add_assign(*took);
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            changes,
            acknowledged,
            kills,
            came,
            took,
        } = self;
        write!(
            f,
            "{changes} changes, {acknowledged} acknowledged, {kills} kills, {came} events in zones, {:.1} s",
            took.as_secs_f64()
        )
    }
}
