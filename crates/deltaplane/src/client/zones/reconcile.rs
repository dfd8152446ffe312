//! `deltaplane zones reconcile`: settles which side is right after the hub was restored to an earlier
//! state than zones followed.
//!
//! `--keep hub` lets zones follow the hub. `--keep zone` reads what differs from the zone and writes
//! it at the hub, as the caller: rights, admission and audit are those of any write. Not here:
//! raising revision and release numbers, which the hub does (`fleet::divergence`).

mod plan;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::{Duration, Instant, SystemTime};

use clap::{Args, ValueEnum};
use futures::{StreamExt, stream};
use kube::Client;
use serde_json::{Value, json};

use deltaplane_border::{ServedKind, served_kind};
use deltaplane_client::request;
use deltaplane_client::{ObjectKey, Resource};
use deltaplane_runtime::signals::{Signal, Signals};
use deltaplane_sync::{SyncKind, ZoneName};

use self::plan::{
    DifferingObject, Divergence, LEFT_AS_IT_IS, ObjectId, Plan, ReadZone, ZoneContents,
};
use self::write::write_at_hub;
use super::super::{ClientError, Hub, Said, name_of, zone_objects, zone_path};
use super::PARALLEL;
use crate::args::Environment;
use crate::table::{Table, counted};

/// For `zones reconcile`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Reconcile {
    /// The zone's name
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    zone: Option<ZoneName>,
    /// All zones that have diverged
    #[arg(long)]
    all: bool,
    /// Which side is right: zones follow the hub, or the hub takes over what zones have
    #[arg(long, value_enum)]
    keep: Side,
    /// Show what differs and what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Go on in place of a run of yours that was killed, instead of waiting five minutes for it
    #[arg(long, conflicts_with = "dry_run")]
    take_over: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Side {
    Hub,
    Zone,
}

const EXAMPLES: &str = "\
Examples:
  deltaplane zones reconcile eu-1 --keep hub --dry-run   what differs, and what zone eu-1 would lose
  deltaplane zones reconcile --all --keep zone           the hub takes over what all zones agree on";

/// The hub is told that an attempt goes on at least this often.
const RENEWAL: Duration = Duration::from_secs(60);
/// A zone that has just connected says what it has within moments.
const TRIES: u32 = 20;
const AGAIN: Duration = Duration::from_millis(500);
/// The hub is told for so long that an interrupted run has ended.
const GIVE_UP: Duration = Duration::from_secs(5);

/// Why a zone is not settled although the hub has what was written.
const STILL_DIFFERS: &str = "the hub changed it, still has it, or does not send it there; compare both (labels that begin with deltaplane.io/ do not cross), and reconcile again";
const NOT_CONNECTED: &str = "it is not connected; start it, and reconcile it then";

/// What came of each zone. One that cannot be settled keeps no other from it.
#[derive(Default)]
struct Outcome {
    divergences: Vec<Divergence>,
    /// Zones that were not settled, and why.
    failed: BTreeMap<ZoneName, NotSettled>,
    /// Objects that were not written at the hub, and why.
    unwritten: BTreeMap<ObjectId, String>,
    /// What was written at the hub and still differs in a zone.
    differing: BTreeMap<ZoneName, BTreeSet<ObjectId>>,
    /// Zones that have not connected since the hub began: it is not known whether they have diverged.
    unknown: Vec<ZoneName>,
    /// Zones that were settled, and from which revision they follow the hub.
    settled: Vec<(ZoneName, Value)>,
    plan: Plan,
    /// Of this run.
    attempt: String,
    /// The next step of this run ends an earlier one of the same user.
    takes_over: bool,
}

/// Why this command did not settle a zone.
enum NotSettled {
    Obstacle(String),
    /// Somebody else did.
    SettledMeanwhile {
        by: String,
        at: String,
    },
}

// === impl Reconcile ===

impl Reconcile {
    pub(super) async fn run(
        self,
        hub: &Hub,
        environment: &Environment,
    ) -> Result<Said, ClientError> {
        let client = hub.client_of(None, environment).await?;
        let zone_client = async |zone: &ZoneName| hub.client_of(Some(zone), environment).await;
        let mut signals = Signals::install().map_err(|error| ClientError::Show(error.into()))?;
        self.reconcile(&client, &zone_client, signals.recv()).await
    }

    /// `zone_client` makes a client of a zone's API. When `interrupted` comes, the hub is told that
    /// this run has ended.
    async fn reconcile(
        self,
        client: &Client,
        zone_client: &impl AsyncFn(&ZoneName) -> Result<Client, ClientError>,
        interrupted: impl Future<Output = Signal>,
    ) -> Result<Said, ClientError> {
        let mut interrupted = pin!(interrupted);
        let found = tokio::select! {
            biased;
            signal = &mut interrupted => return Err(ClientError::Interrupted(signal)),
            found = self.divergences(client) => found,
        };
        let mut outcome = found?;
        if outcome.divergences.is_empty() && outcome.failed.is_empty() {
            let unknown = outcome.unknown_zones();
            return Ok(Said {
                err: format!("no connected zone has diverged from the hub\n{unknown}"),
                good: true,
                ..Said::default()
            });
        }
        tokio::select! {
            biased;
            signal = &mut interrupted => {
                if !self.dry_run {
                    outcome.give_up(client).await;
                }
                return Err(ClientError::Interrupted(signal));
            }
            () = self.settle(client, zone_client, &mut outcome) => {}
        }
        Ok(outcome.said(&self))
    }

    async fn settle(
        &self,
        client: &Client,
        zone_client: &impl AsyncFn(&ZoneName) -> Result<Client, ClientError>,
        outcome: &mut Outcome,
    ) {
        match (self.keep, self.dry_run) {
            (Side::Hub, true) => {}
            (Side::Hub, false) => outcome.settle(client, |_| true).await,
            (Side::Zone, dry_run) => {
                let mut zones = outcome.read_zones(client, zone_client).await;
                outcome.plan = plan::keep_zone(&zones);
                if !dry_run && !outcome.plan.exceeds_budget() {
                    outcome.raise(client, &mut zones).await;
                    outcome.take_over(client).await;
                    outcome.end(client, zones).await;
                }
            }
        }
    }

    async fn divergences(&self, client: &Client) -> Result<Outcome, ClientError> {
        let zones = match &self.zone {
            Some(zone) => vec![zone.clone()],
            None => zone_objects(client)
                .await?
                .iter()
                .filter_map(name_of)
                .collect(),
        };
        let mut outcome = Outcome {
            attempt: draw_attempt(),
            takes_over: self.take_over,
            ..Outcome::default()
        };
        for (zone, answer) in answers(client, zones).await {
            let answer = match answer {
                Ok(answer) => answer,
                // It was deleted meanwhile.
                Err(ClientError::NoZone(_)) if self.all => continue,
                Err(error) if self.all => {
                    let obstacle = NotSettled::Obstacle(reason(&error));
                    outcome.failed.insert(zone, obstacle);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let is_away = answer["connected"] == false;
            match (Divergence::read(&zone, &answer), &self.zone) {
                // Nobody knows what it has.
                (Some(_), _) if is_away => {
                    let obstacle = NotSettled::Obstacle(NOT_CONNECTED.to_owned());
                    outcome.failed.insert(zone, obstacle);
                }
                (Some(divergence), _) => outcome.add(divergence),
                (None, None) if answer["diverged"].is_null() => outcome.unknown.push(zone),
                (None, None) => {}
                (None, Some(_)) if answer["diverged"].is_null() => {
                    return Err(ClientError::NotConnected(zone));
                }
                (None, Some(_)) => return Err(ClientError::NotDiverged(zone)),
            }
        }
        // The furthest first: what is raised for it is enough for the others.
        let followed = |one: &Divergence| std::cmp::Reverse(one.followed);
        outcome.divergences.sort_by_key(followed);
        Ok(outcome)
    }
}

/// What the hub says of zones. It is asked again for a while of zones that have not said yet what they
/// have of all kinds; what it says then is incomplete, and the hub does not settle them.
async fn answers(
    client: &Client,
    zones: Vec<ZoneName>,
) -> BTreeMap<ZoneName, Result<Value, ClientError>> {
    let mut answers = BTreeMap::new();
    let mut asked = zones;
    for round in 0..=TRIES {
        if round > 0 {
            tokio::time::sleep(AGAIN).await;
        }
        let answering = stream::iter(asked).map(async |zone| {
            let said = answer(client, &zone).await;
            (zone, said)
        });
        let said: Vec<_> = answering.buffered(PARALLEL).collect().await;
        let is_incomplete = |answer: &Value| answer["diverged"] == true && !is_told(answer);
        let incomplete = said.iter().filter(|(_, answer)| {
            let answer = answer.as_ref();
            answer.is_ok_and(is_incomplete)
        });
        asked = incomplete.map(|(zone, _)| zone.clone()).collect();
        answers.extend(said);
        if asked.is_empty() {
            break;
        }
    }
    answers
}

async fn answer(client: &Client, zone: &ZoneName) -> Result<Value, ClientError> {
    let path = format!("{}/_reconcile", zone_path(zone));
    match request::get(client, &path).await {
        Err(error) if error.is_not_found() => Err(ClientError::NoZone(zone.clone())),
        answer => Ok(answer?),
    }
}

/// Returns true if a zone has said what it has of all kinds.
fn is_told(answer: &Value) -> bool {
    let untold = answer["untold"].as_array();
    untold.is_none_or(Vec::is_empty)
}

/// What a zone has of the objects that differ in any zone.
async fn read_zone(
    zone: &Client,
    ids: &BTreeSet<ObjectId>,
    plurals: &BTreeMap<SyncKind, String>,
) -> Result<ZoneContents, ClientError> {
    let mut contents = ZoneContents::default();
    for (kind, plural) in plurals {
        let served = served_kind(zone, kind, plural).await;
        let served = served.map_err(|reason| ClientError::Show(reason.into()))?;
        for id in ids.iter().filter(|id| id.kind == *kind) {
            let Some(ServedKind { plural, version }) = &served else {
                contents.insert_unserved(id.clone());
                continue;
            };
            let path = path_of(id, version, plural);
            let found = match request::get::<Value>(zone, &path).await {
                Err(error) if error.is_not_found() => None,
                found => Some(found?),
            };
            contents.insert(id.clone(), found.as_ref());
        }
    }
    Ok(contents)
}

fn resource_of(id: &ObjectId, version: &str, plural: &str) -> Resource {
    Resource {
        namespaced: !id.namespace.is_empty(),
        ..Resource::cluster(id.kind.group(), version, plural, id.kind.kind())
    }
}

fn path_of(id: &ObjectId, version: &str, plural: &str) -> String {
    let key = ObjectKey::new(&id.namespace, &id.name);
    resource_of(id, version, plural).object_path(&key)
}

/// Tells this run of the command from others, which may mean the opposite.
fn draw_attempt() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let nanoseconds = since.map_or(0, |since| since.as_nanos());
    format!("{nanoseconds:x}-{:x}", std::process::id())
}

/// Finds out who settled a zone, if somebody did meanwhile.
async fn settled_meanwhile(client: &Client, zone: &ZoneName) -> Option<NotSettled> {
    let said = answer(client, zone).await.ok()?;
    let by = said["reconciled"]["by"].as_str()?.to_owned();
    let at = said["reconciled"]["at"].as_str()?.to_owned();
    (said["diverged"] == false).then_some(NotSettled::SettledMeanwhile { by, at })
}

// === impl Outcome ===

impl Outcome {
    fn add(&mut self, divergence: Divergence) {
        if let Some(obstacle) = divergence.obstacle() {
            let obstacle = NotSettled::Obstacle(obstacle);
            self.failed.insert(divergence.zone.clone(), obstacle);
        }
        self.divergences.push(divergence);
    }

    /// The zones that may be settled.
    fn settleable(&self) -> Vec<Divergence> {
        let divergences = self.divergences.iter();
        let settleable = divergences.filter(|one| !self.failed.contains_key(&one.zone));
        settleable.cloned().collect()
    }

    /// Reads from zones what differs.
    async fn read_zones(
        &mut self,
        client: &Client,
        zone_client: &impl AsyncFn(&ZoneName) -> Result<Client, ClientError>,
    ) -> Vec<ReadZone> {
        let divergences = self.settleable();
        let ids = divergences.iter().flat_map(|one| one.objects.keys());
        let ids: BTreeSet<ObjectId> = ids.cloned().collect();
        let plurals = plurals(&divergences);
        let mut zones = Vec::new();
        for divergence in divergences {
            let read = async {
                let zone = zone_client(&divergence.zone).await?;
                read_zone(&zone, &ids, &plurals).await
            };
            match read.await {
                Ok(contents) => zones.push(ReadZone {
                    divergence,
                    contents,
                }),
                Err(error) => self.fail(client, divergence.zone, &error).await,
            }
        }
        zones
    }

    /// Takes note that a zone was not settled. A zone that somebody else settles connects again, so
    /// that it cannot be asked for a moment: that is no error of it.
    async fn fail(&mut self, client: &Client, zone: ZoneName, error: &ClientError) {
        let settled = settled_meanwhile(client, &zone).await;
        let why = settled.unwrap_or_else(|| NotSettled::Obstacle(reason(error)));
        self.failed.insert(zone, why);
    }

    /// Raises revision and release numbers above what zones followed. Those of which that fails have
    /// no say in what is written.
    async fn raise(&mut self, client: &Client, zones: &mut Vec<ReadZone>) {
        let count = zones.len();
        for zone in std::mem::take(zones) {
            let raised = self.step(client, &zone.divergence.zone, "Raise").await;
            match raised {
                Ok(_) => zones.push(zone),
                Err(error) => self.fail(client, zone.divergence.zone, &error).await,
            }
        }
        // From now on a run that takes over from this one counts.
        self.takes_over = false;
        if zones.len() < count {
            self.plan = plan::keep_zone(zones);
        }
    }

    /// Writes at the hub what zones have, and lets those follow it of which nothing is left.
    async fn take_over(&mut self, client: &Client) {
        if self.plan.exceeds_budget() {
            return;
        }
        let plurals = plurals(&self.divergences);
        let mut claimed = Instant::now();
        for (id, write) in self.plan.writes() {
            if claimed.elapsed() > RENEWAL {
                self.renew_claims(client).await;
                claimed = Instant::now();
            }
            let listed = (id, self.plan.version_at_hub(id));
            if let Err(error) = write_at_hub(client, &plurals, listed, write).await {
                self.unwritten.insert(id.clone(), reason(&error));
            }
        }
        let whole = self.settleable().into_iter();
        let whole = whole.filter(|one| self.plan.settles(&one.zone) && self.is_written(one));
        let mut whole: BTreeSet<ZoneName> = whole.map(|one| one.zone).collect();
        self.check_written(client, &whole).await;
        whole.retain(|zone| !self.differing.contains_key(zone));
        self.settle(client, |zone| whole.contains(zone)).await;
    }

    /// Finds what differs although it was written: a zone that follows the hub would lose it. The hub
    /// is asked again for a while, since finalizers and admission control may take some time.
    async fn check_written(&mut self, client: &Client, zones: &BTreeSet<ZoneName>) {
        let written: BTreeSet<ObjectId> = self.plan.writes().map(|(id, _)| id.clone()).collect();
        let mut asked: Vec<ZoneName> = match written.is_empty() {
            true => Vec::new(),
            false => zones.iter().cloned().collect(),
        };
        for round in 0..=TRIES {
            if asked.is_empty() {
                return;
            }
            if round > 0 {
                tokio::time::sleep(AGAIN).await;
            }
            let answering = stream::iter(asked).map(async |zone| {
                let said = answer(client, &zone).await;
                (zone, said)
            });
            let said: Vec<_> = answering.buffered(PARALLEL).collect().await;
            asked = Vec::new();
            for (zone, said) in said {
                let answer = match said {
                    Ok(answer) => answer,
                    Err(error) => {
                        self.fail(client, zone, &error).await;
                        continue;
                    }
                };
                let now = Divergence::read(&zone, &answer);
                let differing = now.map(|now| now.lost_by_following(&written));
                let differing = differing.unwrap_or_default();
                if differing.is_empty() {
                    self.differing.remove(&zone);
                } else {
                    self.differing.insert(zone.clone(), differing);
                    asked.push(zone);
                }
            }
        }
    }

    /// Keeps others from reconciling the zones meanwhile: the hub takes an attempt that makes no step
    /// for five minutes for given up.
    async fn renew_claims(&self, client: &Client) {
        for zone in self.settleable().into_iter().map(|one| one.zone) {
            // Raising numbers again changes nothing. A claim that was lost is noticed at the end.
            let _ = self.step(client, &zone, "Raise").await;
        }
    }

    /// Lets others reconcile zones that are not settled. The hub does so by itself, later.
    async fn end(&self, client: &Client, raised: Vec<ReadZone>) {
        let raised = raised.into_iter().map(|one| one.divergence.zone);
        let is_settled = |zone: &ZoneName| self.settled.iter().any(|(one, _)| one == zone);
        for zone in raised.filter(|zone| !is_settled(zone)) {
            let _ = self.step(client, &zone, "End").await;
        }
    }

    /// Tells the hub that this run was interrupted.
    async fn give_up(&self, client: &Client) {
        let is_settled = |zone: &ZoneName| self.settled.iter().any(|(one, _)| one == zone);
        let ending = async {
            for Divergence { zone, .. } in &self.divergences {
                if !is_settled(zone) {
                    let _ = self.step(client, zone, "End").await;
                }
            }
        };
        // The hub notices by itself, later.
        let _ = tokio::time::timeout(GIVE_UP, ending).await;
    }

    async fn step(
        &self,
        client: &Client,
        zone: &ZoneName,
        step: &str,
    ) -> Result<Value, ClientError> {
        let path = format!("{}/_reconcile", zone_path(zone));
        let mut body = json!({"step": step, "attempt": self.attempt});
        // Hubs of earlier versions do not know it.
        if self.takes_over {
            body["takeOver"] = true.into();
        }
        Ok(request::create(client, &path, &body).await?)
    }

    /// Returns true if nothing of a zone failed to be written at the hub.
    fn is_written(&self, divergence: &Divergence) -> bool {
        let mut unwritten = self.unwritten.keys();
        !unwritten.any(|id| divergence.objects.contains_key(id))
    }

    /// Lets zones follow the hub.
    async fn settle(&mut self, client: &Client, is_whole: impl Fn(&ZoneName) -> bool) {
        let zones = self.settleable().into_iter().map(|one| one.zone);
        for zone in zones.filter(is_whole) {
            let settled = self.step(client, &zone, "Settle").await;
            match settled {
                Ok(done) => self.settled.push((zone, done["revision"].clone())),
                Err(error) => self.fail(client, zone, &error).await,
            }
        }
    }

    fn said(&self, asked: &Reconcile) -> Said {
        let becomes = |zone: &ZoneName, id: &ObjectId, object: &DifferingObject| match (
            self.failed.contains_key(zone),
            asked.keep,
        ) {
            (true, _) => LEFT_AS_IT_IS,
            (false, Side::Hub) => object.follows(),
            (false, Side::Zone) => self.plan.says(id),
        };
        let mut err = self.plan.problems();
        for (id, why) in &self.unwritten {
            err.push_str(&format!("{id} was not written at the hub: {why}\n"));
        }
        for (zone, id) in self.still_differing() {
            err.push_str(&format!(
                "{id} was written at the hub, and zone {zone} would not keep it: {STILL_DIFFERS}\n"
            ));
        }
        let unwritten = self.settleable().into_iter();
        let unwritten =
            unwritten.filter(|one| !self.is_written(one) || self.differing.contains_key(&one.zone));
        for Divergence { zone, .. } in unwritten {
            let line = format!("zone {zone} was not settled: the hub does not have all of it\n");
            err.push_str(&line);
        }
        for (zone, why) in &self.failed {
            let verb = if asked.dry_run {
                "would not be"
            } else {
                "was not"
            };
            err.push_str(&match why {
                NotSettled::Obstacle(why) => format!("zone {zone} {verb} settled: {why}\n"),
                NotSettled::SettledMeanwhile { by, at } => {
                    format!("zone {zone} was settled meanwhile, by {by} at {at}\n")
                }
            });
        }
        err.push_str(&self.unknown_zones());
        if asked.keep == Side::Hub {
            err.push_str(&self.ungoverned_deletions(asked.dry_run));
        }
        for (zone, revision) in &self.settled {
            let line = format!("zone {zone} follows the hub again, from revision {revision}\n");
            err.push_str(&line);
        }
        if asked.dry_run {
            err.push_str("nothing was done: --dry-run\n");
        }
        let is_whole =
            self.failed.is_empty() && self.unwritten.is_empty() && self.differing.is_empty();
        if !is_whole && !asked.dry_run {
            err.push_str("hint: put it right, and reconcile again: what differs is still listed\n");
        }
        Said {
            out: shown(&self.divergences, becomes),
            err,
            good: is_whole && self.plan.is_whole(),
        }
    }
}

impl Outcome {
    /// Names the zones of which only their next connection tells whether they have diverged.
    fn unknown_zones(&self) -> String {
        let zones: Vec<&str> = self.unknown.iter().map(ZoneName::as_str).collect();
        if zones.is_empty() {
            return String::new();
        }
        let zones = zones.join(", ");
        format!(
            "note: not connected since the hub was started, so that the hub does not know whether they have diverged: {zones}\n"
        )
    }

    fn still_differing(&self) -> impl Iterator<Item = (&ZoneName, &ObjectId)> {
        let differing = self.differing.iter();
        differing.flat_map(|(zone, ids)| ids.iter().map(move |id| (zone, id)))
    }

    /// Warns of objects that zones delete without the gates that may have brought them there: the
    /// hub lost them, and with them which policy released them.
    fn ungoverned_deletions(&self, dry_run: bool) -> String {
        let settleable = self.settleable();
        let objects = settleable.iter().flat_map(|one| one.objects.values());
        let count = objects.filter(|one| one.is_deleted_ungoverned()).count();
        if count == 0 {
            return String::new();
        }
        let objects = counted(count, "object");
        let verb = match (dry_run, count) {
            (true, _) => "would be",
            (false, 1) => "is",
            (false, _) => "are",
        };
        let mut said = format!(
            "note: {objects} only in zones {verb} deleted there at once, without gates: no policy of this hub has released them\n"
        );
        if dry_run {
            said.push_str("hint: to pass the gates, take them over with --keep zone, and delete them at the hub then\n");
        }
        said
    }
}

fn plurals(divergences: &[Divergence]) -> BTreeMap<SyncKind, String> {
    let plurals = divergences.iter().flat_map(|one| one.plurals.clone());
    plurals.collect()
}

fn reason(error: &ClientError) -> String {
    let source = std::error::Error::source(error);
    source.map_or_else(|| error.to_string(), ToString::to_string)
}

/// What differs, and what becomes of it.
fn shown(
    divergences: &[Divergence],
    becomes: impl Fn(&ZoneName, &ObjectId, &DifferingObject) -> &'static str,
) -> String {
    let mut out = String::new();
    for divergence in divergences {
        let Divergence {
            zone,
            followed,
            record_lost,
            revision,
            ..
        } = divergence;
        let followed = if *record_lost {
            "lost its record of how far it followed".to_owned()
        } else {
            format!("followed revision {followed}")
        };
        out.push_str(&format!(
            "zone {zone} {followed}; the hub is at {revision}\n"
        ));
    }
    if divergences.is_empty() {
        return out;
    }
    let mut table = Table::new(&["ZONE", "KIND", "OBJECT", "DIFFERENCE", "POLICY", "BECOMES"]);
    for divergence in divergences {
        for (id, object) in &divergence.objects {
            table.add(vec![
                divergence.zone.to_string(),
                id.kind.kind().to_owned(),
                id.path(),
                object.difference.to_string(),
                object.policy.clone().unwrap_or_else(|| "-".to_owned()),
                becomes(&divergence.zone, id, object).to_owned(),
            ]);
        }
        if divergence.more > 0 {
            let more = format!("and {} more", divergence.more);
            table.add(vec![divergence.zone.to_string(), String::new(), more]);
        }
    }
    out.push_str(&table.text());
    out
}

#[cfg(test)]
mod tests;
