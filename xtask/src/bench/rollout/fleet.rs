//! A change that moves through many zones, what it costs the hub, and what rest costs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use deltaplane_client::remote;
use serde_json::{Value, json};

use super::followed::{Followed, follow};
use super::{Args, Line};
use crate::bench::cpu;
use crate::fleet::{Fleet, Happened, Manner, Memory, Seen, Witness, Zones, authored, millis};
use crate::hub::Hub;

struct Scene<'a> {
    args: &'a Args,
    hub: Hub,
    client: kube::Client,
    witness: Arc<Witness>,
}

/// A change that went everywhere.
struct Moved {
    followed: Followed,
    busy: Duration,
}

const POLICY: &str = "web";
const GATE: &str = "exponentiallyReady(zone, zones)";
/// So many plans are asked for.
const PLANS: usize = 10;
/// A status must stay smaller.
const LARGEST: usize = 100_000;

pub(super) async fn run(args: &Args, binary: &Path) -> Result<Vec<Line>> {
    let directory = tempfile::tempdir().context("making a temporary directory")?;
    let hub = tokio::task::block_in_place(|| Hub::start_to_stay(binary))?;
    let client = remote(hub.kubeconfig()).await?;
    authored::prepare(&client).await?;
    let witness = Arc::new(Witness::new(authored::name(0)?));
    let delay = Duration::from_millis(args.delay);
    let fleet = Fleet {
        labels: &|_| Value::Null,
        manner: &|_| Manner {
            delay,
            fails: false,
        },
        witness: Some(&witness),
        memory: &Memory::default(),
    };
    let zones = Zones::start_as(&client, 0..args.zones, directory.path(), fleet).await?;
    zones.complete(0).await?;
    authored::settled(&client).await?;
    let scene = Scene {
        args,
        hub,
        client,
        witness,
    };
    let stages = json!([{"name": "all", "propagateWhen": [GATE]}]);
    authored::govern(&scene.client, POLICY, 0..1, &stages).await?;
    authored::settled(&scene.client).await?;
    let first = scene.moves(0).await.context("a first release")?;
    let second = scene.moves(1).await.context("a change")?;
    let widest = bounded(&scene.witness.seen())?;
    let mut lines = scene.told(&first, &second, widest);
    lines.push(scene.plan(2).await?);
    lines.push(scene.idle().await?);
    let connected = zones.connected();
    ensure!(connected == args.zones, "{connected} zones are connected");
    Ok(lines)
}

/// Whether never more zones were on their way than the gate allows: no more than are ready at the
/// same, and one in any case. Gives how many were at most.
fn bounded(seen: &[Seen]) -> Result<usize> {
    let mut has: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
    let mut widest = 0;
    for one in seen {
        match one.what {
            Happened::Ready(turn) => {
                if let Some((_, ready)) = has.get_mut(one.zone.as_str()).filter(|has| has.0 == turn)
                {
                    *ready = true;
                }
            }
            Happened::Came(turn) => {
                has.insert(&one.zone, (turn, false));
                let ready = has.values().filter(|has| **has == (turn, true)).count();
                let on_their_way = has.values().filter(|(_, ready)| !ready).count();
                ensure!(
                    on_their_way <= ready.max(1),
                    "{on_their_way} zones are on their way to turn {turn}, and {ready} are ready at it"
                );
                widest = widest.max(on_their_way);
            }
        }
    }
    Ok(widest)
}

// === impl Scene ===

impl Scene<'_> {
    /// Lets a change move everywhere.
    async fn moves(&self, turn: usize) -> Result<Moved> {
        let pids = [self.hub.pid()];
        let policy = authored::policy(&self.client, POLICY).await?;
        let release = policy["status"]["release"].as_u64().unwrap_or(0) + 1;
        let busy = cpu::time(&pids)?;
        let follow = follow(&self.client, &policy, release);
        let (followed, written) = tokio::join!(follow, async {
            match turn {
                0 => authored::objects(&self.client, 0..1).await,
                turn => authored::change(&self.client, 0, turn).await,
            }
        });
        written?;
        let followed = followed?;
        let busy = cpu::time(&pids)? - busy;
        let came = self.witness.seen();
        let came = came.iter().filter(|one| one.what == Happened::Came(turn));
        let (came, zones) = (came.count(), self.args.zones);
        ensure!(
            came == zones,
            "turn {turn} came {came} times to {zones} zones"
        );
        let largest = followed.largest;
        ensure!(largest < LARGEST, "the status takes {largest} bytes");
        Ok(Moved { followed, busy })
    }

    fn told(&self, first: &Moved, second: &Moved, widest: usize) -> Vec<Line> {
        let zones = self.args.zones;
        let both = |get: &dyn Fn(&Moved) -> String| format!("{}, {}", get(first), get(second));
        vec![
            Line::new(
                format!("a first release, and a change, to {zones} zones with `{GATE}`"),
                both(&|one| millis(one.followed.took)),
                "",
            ),
            Line::new(
                "times at which zones were let in, and at most at once",
                both(&|one| format!("{} ({})", one.followed.waves, one.followed.widest)),
                "",
            ),
            Line::new(
                "writes of the status",
                both(&|one| one.followed.writes.to_string()),
                "",
            ),
            Line::new("hub's CPU", both(&|one| millis(one.busy)), ""),
            Line::new(
                "the status when it was largest",
                both(&|one| format!("{} B", one.followed.largest)),
                "100 KB (asserted)",
            ),
            Line::new(
                "zones on their way at once, as seen there",
                widest.to_string(),
                "no more than are ready (asserted)",
            ),
        ]
    }

    /// Asks what a change would do, which changes nothing.
    async fn plan(&self, turn: usize) -> Result<Line> {
        let before = authored::settled(&self.client).await?;
        let mut best = Duration::MAX;
        for _ in 0..PLANS {
            let began = Instant::now();
            let plan = authored::plan(&self.client, POLICY, 0, turn).await?;
            best = best.min(began.elapsed());
            let zones = &plan["hunks"][0]["zones"]["count"];
            ensure!(*zones == self.args.zones, "{plan}");
        }
        let after = authored::revision(&self.client).await?;
        ensure!(before == after, "planning wrote something");
        Ok(Line::new(
            "a plan of a change (`_plan`), asked and answered, best of ten",
            millis(best),
            "1 s; no write (asserted)",
        ))
    }

    /// Watches the hub do nothing.
    async fn idle(&self) -> Result<Line> {
        let pids = [self.hub.pid()];
        let before = authored::settled(&self.client).await?;
        let (began, busy) = (Instant::now(), cpu::time(&pids)?);
        tokio::time::sleep(Duration::from_secs(self.args.idle)).await;
        let (took, busy) = (began.elapsed(), cpu::time(&pids)? - busy);
        let after = authored::revision(&self.client).await?;
        ensure!(
            before == after,
            "the hub went from revision {before} to {after} while idle"
        );
        let share = 100.0 * busy.as_secs_f64() / took.as_secs_f64();
        Ok(Line::new(
            format!("hub's CPU while idle, {} s, no write", self.args.idle),
            format!("{share:.2} % of a core"),
            "2 %; no write (asserted)",
        ))
    }
}
