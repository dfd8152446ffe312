//! A hub, its zones and what happens between them.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_expr::{Duration, Timestamp};
use deltaplane_propagation::Hold;
use deltaplane_propagation::stages::{
    Approved, ContentId, Effect, Forgiven, Link, Outcome, Phase, Policy, PolicySpec, Record,
    Release, Removes, Situation, Target, Zone, decide,
};
use serde_json::{Value as Json, json};

use crate::clock::{moment, seconds};
use crate::node::{Delays, Health, Nature, Node};
use crate::witness::Witness;

/// A fleet.
#[derive(Debug)]
pub struct Fleet {
    pub(crate) now: Timestamp,
    pub(crate) spec: Json,
    pub(crate) policy: Policy,
    pub(crate) releases: Vec<Release>,
    /// What releases hold, where that is said: objects, and the release that changed them last.
    manifests: BTreeMap<u64, Manifest>,
    /// In which zones a release fails, whatever they are like.
    bad: BTreeMap<u64, BTreeSet<String>>,
    pub(crate) approvals: Vec<Approved>,
    pub(crate) resumed: Option<String>,
    /// As it is written down.
    pub(crate) record: Record,
    pub(crate) nodes: BTreeMap<String, Node>,
    agenda: BTreeMap<(Timestamp, u64), Event>,
    made: u64,
    /// When time alone may change something.
    next: Option<Timestamp>,
    witness: Witness,
}

/// Something that will happen, to a zone that still lives then.
#[derive(Clone, Debug)]
struct Event {
    zone: String,
    life: u64,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// It acknowledges what it was sent, or refuses it.
    Ack(Target),
    /// What it has becomes what it becomes.
    Become(Target),
    /// It says how it is.
    Say,
    Connect,
}

type Manifest = BTreeMap<String, u64>;

/// A release that is made.
#[derive(Clone, Debug, Default)]
pub struct Made {
    pub authors: Vec<String>,
    pub restores: Option<u64>,
    /// How many objects it takes away, of how many, where it is not said which.
    pub removes: (u64, u64),
    /// Objects that are there now, or as they were not before.
    pub changed: BTreeSet<String>,
    /// Objects that are not there any more.
    pub removed: BTreeSet<String>,
    /// Where it fails.
    pub bad: BTreeSet<String>,
}

/// What the hub did not get to do any more when it was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    Nothing,
    /// What it had decided was not written down.
    Decision,
    /// It was, and nobody was told.
    Delivery,
}

/// What is decided again and again never comes to rest.
const PASSES: usize = 64;
/// Larger fleets are not decided about several times to see that it is the same.
const REPLAYED: usize = 64;

// === impl Fleet ===

impl Fleet {
    /// A fleet without zones.
    ///
    /// # Errors
    ///
    /// All that is wrong with the policy.
    pub fn new(spec: Json) -> Result<Self, String> {
        let policy = compile(&spec)?;
        Ok(Self {
            now: moment(seconds(0)),
            spec,
            policy,
            releases: Vec::new(),
            manifests: BTreeMap::new(),
            bad: BTreeMap::new(),
            approvals: Vec::new(),
            resumed: None,
            record: Record::default(),
            nodes: BTreeMap::new(),
            agenda: BTreeMap::new(),
            made: 0,
            next: None,
            witness: Witness::default(),
        })
    }

    /// What time it is.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// How many stages its policy has.
    pub fn stages(&self) -> usize {
        self.policy.stages.len()
    }

    /// Gives it another policy.
    ///
    /// # Errors
    ///
    /// All that is wrong with it.
    pub fn govern(&mut self, spec: Json) -> Result<(), String> {
        self.policy = compile(&spec)?;
        self.spec = spec;
        Ok(())
    }

    /// Pauses the policy or a stage of it, or lets it go on.
    pub fn pause(&mut self, stage: Option<usize>, paused: bool) {
        let mut spec = self.spec.clone();
        match stage {
            Some(stage) => spec["stages"][stage]["paused"] = paused.into(),
            None => spec["paused"] = paused.into(),
        }
        self.govern(spec).expect("a pause breaks no policy");
    }

    /// A zone joins.
    pub fn join(&mut self, name: &str, labels: &BTreeMap<String, String>, delays: Delays) {
        self.made += 1;
        let mut node = Node::new(name, labels, self.now);
        node.life = self.made;
        node.delays = delays;
        self.nodes.insert(name.to_owned(), node);
    }

    /// A zone leaves, and is forgotten.
    pub fn leave(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// The zones, by their names.
    pub fn names(&self) -> Vec<String> {
        self.nodes.keys().cloned().collect()
    }

    /// Sets a label of a zone, or takes it away if it is empty.
    pub fn relabel(&mut self, name: &str, key: &str, value: &str) {
        self.node(name).relabel(key, value);
    }

    /// The owner of a zone keeps it from changing, or lets it.
    pub fn hold(&mut self, name: &str, hold: Hold) {
        self.node(name).hold = hold;
    }

    /// A zone is taken out of service: it is held, and does not connect.
    pub fn disable(&mut self, name: &str) {
        let node = self.node(name);
        node.hold = Hold::Held;
        node.object
            .insert("spec".to_owned(), json!({"enabled": false}));
        self.disconnect(name);
    }

    /// A zone is like this from now on, also with what it has.
    pub fn turn(&mut self, name: &str, nature: Nature) {
        let now = self.now;
        let node = self.node(name);
        node.nature = nature;
        let health = match nature {
            Nature::Healthy => Health::Ready(now),
            Nature::Failing => Health::Failed,
            Nature::Stuck => Health::Waiting,
            Nature::Unproven => Health::NoEvidence,
            Nature::Refusing => return,
        };
        // Who did not take something is sent it again.
        if node.said.is_some_and(|(_, said)| said == Health::Refused) {
            node.receiving = None;
        }
        if let Some((target, _)) = node.has {
            node.has = Some((target, health));
            self.say(name);
        }
        self.deliver();
    }

    /// A zone loses touch with the hub.
    pub fn disconnect(&mut self, name: &str) {
        let since = self.now;
        let node = self.node(name);
        node.reachable = false;
        if node.is_connected() {
            node.link = Link::Lost { since };
            node.receiving = None;
        }
    }

    /// A zone finds the hub again.
    pub fn reconnect(&mut self, name: &str) {
        self.node(name).reachable = true;
        self.connect(name);
    }

    fn connect(&mut self, name: &str) {
        let since = self.now;
        let node = self.node(name);
        if node.reachable && !node.is_connected() {
            node.link = Link::Connected { since };
            // What it said before says nothing of how it is now.
            node.said = None;
            self.plan(name, seconds(1), What::Say);
            self.deliver();
        }
    }

    /// Makes a release; gives its number.
    pub fn release(&mut self, made: Made) -> u64 {
        let number = self.releases.last().map_or(0, |last| last.number) + 1;
        let manifest = self.manifest(number, &made);
        let removes = match manifest.is_empty() && self.manifests.is_empty() {
            true => self.removes(made.removes),
            false => self.removed(&manifest),
        };
        if !manifest.is_empty() || !self.manifests.is_empty() {
            self.manifests.insert(number, manifest);
        }
        let overrides = self.policy.overrides.iter();
        self.bad.insert(number, made.bad);
        self.releases.push(Release {
            number,
            authors: made.authors,
            restores: made.restores,
            overrides: overrides.map(|one| one.zones.clone()).collect(),
            removes,
            data: json!({"number": number}),
            content: ContentId::default(),
        });
        number
    }

    /// What a release holds: what the last one did, but for what changed. What was rolled back stays
    /// so until it is changed.
    fn manifest(&self, number: u64, made: &Made) -> Manifest {
        let before = self.releases.last();
        let like = made.restores.or(before.map(|one| one.number));
        let like = like.and_then(|like| self.manifests.get(&like));
        let mut manifest = like.cloned().unwrap_or_default();
        manifest.extend(made.changed.iter().map(|name| (name.clone(), number)));
        manifest.retain(|name, _| !made.removed.contains(name));
        manifest
    }

    /// What is taken away from zones with older releases, by what they hold.
    fn removed(&self, manifest: &Manifest) -> BTreeMap<u64, Removes> {
        let older = self.manifests.iter().map(|(since, older)| {
            let gone = older.keys().filter(|name| !manifest.contains_key(*name));
            let (objects, of) = (gone.count() as u64, older.len() as u64);
            (*since, Removes { objects, of })
        });
        older.collect()
    }

    /// Which zones have which objects, each as of the release that changed it last.
    pub fn objects(&self) -> BTreeMap<String, Vec<&str>> {
        let mut objects: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (zone, node) in &self.nodes {
            let has = node.has.and_then(|(at, _)| self.manifests.get(&at.release));
            for (name, of) in has.into_iter().flatten() {
                objects
                    .entry(format!("{name} of {of}"))
                    .or_default()
                    .push(zone);
            }
        }
        objects
    }

    /// What a release takes away from zones with older ones, of which each took away something of
    /// its own.
    fn removes(&self, (objects, of): (u64, u64)) -> BTreeMap<u64, Removes> {
        let last = self.releases.last();
        let before = last.map_or_else(BTreeMap::new, |last| last.removes.clone());
        let older = before.into_iter().map(|(since, one)| {
            let objects = one.objects + objects;
            (since, Removes { objects, of })
        });
        let last = last.map(|last| (last.number, Removes { objects, of }));
        older.chain(last).collect()
    }

    /// A person agrees that a release goes to a stage, or that it takes away what it does.
    pub fn approve(&mut self, stage: Option<&str>, release: u64, by: &str) {
        self.approvals.push(Approved {
            stage: stage.map(str::to_owned),
            release,
            by: by.to_owned(),
        });
    }

    /// A person says that a release may go on where it failed, though as many failed as have by now.
    ///
    /// # Errors
    ///
    /// If a replay differs.
    pub fn forgive(&mut self, release: u64) -> Result<(), String> {
        let outcome = self.decide()?;
        let stages = outcome.stages.iter();
        let failed = stages.filter(|stage| stage.release == Some(release));
        let forgiven = failed.map(|stage| {
            let forgiven = Forgiven {
                release,
                stage: stage.name.clone(),
                failed: stage.counts.moving.failed,
            };
            forgiven.to_string()
        });
        self.resumed = Some(forgiven.collect::<Vec<_>>().join(", "));
        Ok(())
    }

    /// The hub is killed, and back at once: it knows what is written down, and no zone yet. Zones
    /// find it again after a while.
    ///
    /// # Errors
    ///
    /// If a rule was broken before.
    pub fn crash(&mut self, lost: Lost, after: Duration) -> Result<(), String> {
        match lost {
            Lost::Nothing => {}
            Lost::Decision => drop(self.decide()?),
            Lost::Delivery => {
                let outcome = self.decide()?;
                self.write(&outcome)?;
            }
        }
        self.record = reread(&self.record)?;
        // What was under way between hub and zones is gone; what zones do by themselves is not.
        self.agenda
            .retain(|_, event| matches!(event.what, What::Become(_)));
        let since = self.now;
        for name in self.names() {
            let node = self.node(&name);
            node.link = Link::Lost { since };
            node.receiving = None;
            node.said = None;
            self.plan(&name, after, What::Connect);
        }
        Ok(())
    }

    /// Decides. What is decided twice is the same, also of zones in another order, and of what is
    /// read from what was written.
    ///
    /// # Errors
    ///
    /// If it is not.
    pub fn decide(&self) -> Result<Outcome, String> {
        let selected = self.nodes.iter();
        let selected = selected.filter(|(_, node)| self.policy.selects(&node.object));
        let zones = selected.map(|(name, node)| node.zone(name));
        let mut zones: Vec<Zone<'_>> = zones.collect();
        let left = self.nodes.iter();
        let left = left.filter(|(_, node)| !self.policy.selects(&node.object));
        let left: Vec<String> = left.map(|(name, _)| name.clone()).collect();
        let outcome = decide(&self.policy, self.situation(&self.record, (&zones, &left)));
        if zones.len() <= REPLAYED {
            zones.reverse();
            let record = reread(&self.record)?;
            let again = decide(&self.policy, self.situation(&record, (&zones, &left)));
            if again != outcome {
                return Err(format!("a replay differs: {outcome:?}\n{again:?}"));
            }
        }
        Ok(outcome)
    }

    /// Whether nothing would be decided at another time, if nothing happened until then.
    ///
    /// # Errors
    ///
    /// If a replay differs.
    pub fn is_quiet_at(&mut self, then: Timestamp) -> Result<bool, String> {
        let now = std::mem::replace(&mut self.now, then);
        let outcome = self.decide();
        self.now = now;
        outcome.map(|outcome| outcome.record == self.record)
    }

    fn situation<'a>(
        &'a self,
        record: &'a Record,
        (zones, left): (&'a [Zone<'a>], &'a [String]),
    ) -> Situation<'a> {
        Situation {
            releases: &self.releases,
            record,
            zones,
            approvals: &self.approvals,
            resumed: self.resumed.as_deref(),
            left,
            zones_as_of: None,
            now: self.now,
        }
    }

    /// Writes down what was decided. Nobody is told yet.
    ///
    /// # Errors
    ///
    /// If that breaks a rule.
    pub fn write(&mut self, outcome: &Outcome) -> Result<(), String> {
        let mut witness = std::mem::take(&mut self.witness);
        let judged = witness.judge(self, outcome);
        self.witness = witness;
        judged.map_err(|broken| format!("at {}: {broken}", crate::elapsed(self.now)))?;
        self.record = outcome.record.clone();
        self.next = outcome.next;
        if let Some(Effect::Rollback { to, .. }) = outcome.effect {
            let bad = self.bad.get(&to).cloned().unwrap_or_default();
            self.release(Made {
                authors: vec!["deltaplane".to_owned()],
                restores: Some(to),
                bad,
                ..Made::default()
            });
        }
        Ok(())
    }

    /// Decides and writes down until nothing changes, and sends zones what they may have. Gives all
    /// that was decided on the way.
    ///
    /// # Errors
    ///
    /// If a rule is broken, or it does not come to rest.
    pub fn settle(&mut self) -> Result<Vec<Outcome>, String> {
        let mut outcomes = Vec::new();
        for _ in 0..PASSES {
            let outcome = self.decide()?;
            let done = outcome.record == self.record && outcome.effect.is_none();
            self.write(&outcome)?;
            self.deliver();
            outcomes.push(outcome);
            if done {
                return Ok(outcomes);
            }
        }
        Err("it is decided without end".to_owned())
    }

    /// Sends connected zones what is written down for them, unless they have it or lost their
    /// place.
    pub fn deliver(&mut self) {
        let mut sent = Vec::new();
        for (name, node) in &mut self.nodes {
            let Some(one) = self.record.zones.get(name) else {
                continue;
            };
            let has = node.has.map(|(target, _)| target);
            if node.is_connected()
                && one.phase != Phase::Deferred
                && has != Some(one.target)
                && node.receiving != Some(one.target)
            {
                node.receiving = Some(one.target);
                sent.push((name.clone(), node.delays.ack, one.target));
            }
        }
        for (name, after, target) in sent {
            self.plan(&name, after, What::Ack(target));
        }
    }

    /// When something happens next, by itself or because time has passed.
    pub fn upcoming(&self) -> Option<Timestamp> {
        let first = self.agenda.keys().next().map(|(at, _)| *at);
        let next = self.next.filter(|next| *next > self.now);
        match (first, next) {
            (Some(first), Some(next)) => Some(first.min(next)),
            (first, next) => first.or(next),
        }
    }

    /// Moves the clock, and lets happen what happens until then.
    pub fn pass_to(&mut self, at: Timestamp) {
        self.now = at;
        while let Some(entry) = self.agenda.first_entry()
            && entry.key().0 <= at
        {
            let event = entry.remove();
            let lives = self.nodes.get(&event.zone);
            if lives.is_some_and(|node| node.life == event.life) {
                self.happen(&event.zone, event.what);
            }
        }
    }

    fn happen(&mut self, name: &str, what: What) {
        match what {
            What::Connect => self.connect(name),
            What::Say => self.say(name),
            What::Ack(target) => self.acknowledge(name, target),
            What::Become(target) => {
                let health = match self.nature(name, target) {
                    Nature::Healthy => Health::Ready(self.now),
                    Nature::Failing => Health::Failed,
                    Nature::Stuck | Nature::Refusing | Nature::Unproven => return,
                };
                let node = self.node(name);
                if node.has == Some((target, Health::Waiting)) {
                    node.has = Some((target, health));
                    self.say(name);
                }
            }
        }
    }

    fn acknowledge(&mut self, name: &str, target: Target) {
        let nature = self.nature(name, target);
        let node = self.node(name);
        if node.receiving != Some(target) {
            return;
        }
        if nature == Nature::Refusing {
            node.said = Some((target, Health::Refused));
            return;
        }
        let health = match nature == Nature::Unproven {
            true => Health::NoEvidence,
            false => Health::Waiting,
        };
        node.receiving = None;
        node.has = Some((target, health));
        let after = node.delays.ready;
        self.say(name);
        self.plan(name, after, What::Become(target));
    }

    fn nature(&self, name: &str, target: Target) -> Nature {
        let bad = self.bad.get(&target.release);
        match bad.is_some_and(|zones| zones.contains(name)) {
            true => Nature::Failing,
            false => self.nodes[name].nature,
        }
    }

    /// The hub hears how a zone is, if it can.
    fn say(&mut self, name: &str) {
        let node = self.node(name);
        if node.is_connected() && node.has.is_some() {
            node.said = node.has;
        }
    }

    fn plan(&mut self, zone: &str, after: Duration, what: What) {
        self.made += 1;
        let at = self.now.plus(after).expect("nobody waits for so long");
        let event = Event {
            zone: zone.to_owned(),
            life: self.nodes[zone].life,
            what,
        };
        self.agenda.insert((at, self.made), event);
    }

    fn node(&mut self, name: &str) -> &mut Node {
        self.nodes
            .get_mut(name)
            .unwrap_or_else(|| panic!("there is no zone {name}"))
    }

    /// What zones have: all that they acknowledged last.
    pub fn held(&self) -> BTreeMap<Option<Target>, Vec<&str>> {
        let mut held: BTreeMap<Option<Target>, Vec<&str>> = BTreeMap::new();
        for (name, node) in &self.nodes {
            let has = node.has.map(|(target, _)| target);
            held.entry(has).or_default().push(name);
        }
        held
    }

    /// Whether all zones have the newest release as it is for them, and are ready at it.
    pub fn is_current(&self) -> bool {
        let Some(newest) = self.releases.last() else {
            return true;
        };
        self.nodes.values().all(|node| {
            let class = newest.class(&node.object);
            let wanted = Target {
                release: newest.number,
                class,
            };
            matches!(node.has, Some((has, Health::Ready(_))) if has == wanted)
        })
    }

    /// How many bytes of status all of it takes.
    pub fn size(&self) -> usize {
        self.record.write().to_string().len()
    }
}

fn compile(spec: &Json) -> Result<Policy, String> {
    let mut spec = spec.clone();
    if spec.get("targets").is_none() {
        spec["targets"] = json!([{"kind": "ConfigMap"}]);
    }
    let spec: PolicySpec = serde_json::from_value(spec).map_err(|error| error.to_string())?;
    Policy::compile(&spec).map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        problems.join("\n")
    })
}

/// As it is after it was written and read.
fn reread(record: &Record) -> Result<Record, String> {
    let text = record.write().to_string();
    let json = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let read = Record::read(&json).ok_or_else(|| format!("it cannot be read: {text}"))?;
    match read == *record {
        true => Ok(read),
        false => Err(format!("it is read as something else: {text}")),
    }
}
