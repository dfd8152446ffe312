//! What was decided, as it is written down before it takes effect.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use deltaplane_expr::Timestamp;
use serde_json::{Map, Value as Json, json};

use super::sets;

/// What a zone is to have: a release, and which of its overrides apply there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    pub release: u64,
    pub class: Class,
}

/// Which overrides of a release apply, by their places in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(u32);

/// All that was decided of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub zones: BTreeMap<String, Admitted>,
    /// By the name of the stage.
    pub stages: BTreeMap<String, Progress>,
    /// By the name of the stage.
    pub past: BTreeMap<String, Past>,
    /// The last advances, the newest at the end.
    pub evidence: Vec<Evidence>,
    /// The revision at which the youngest zone was created when this was decided: what is recorded
    /// of a name is of no zone that was created later. Nothing if it was not written down.
    pub zones_as_of: Option<u64>,
}

/// What a zone was admitted to last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    pub target: Target,
    /// When the phase began, to the second, and never too early: of those that are not on their
    /// way it is the last of all that stand alike.
    pub at: Timestamp,
    pub phase: Phase,
}

/// How far a zone is with what it was admitted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It joined, and began with what its stage had completed; or it kept something of its own, and
    /// its place was given away.
    Started,
    /// Its gate let it: it is in flight until it arrives.
    Admitted,
    /// It was ready.
    Arrived,
    /// It was away for so long that it lost its place, or was not selected for a while. What it has
    /// stays as it is until its gate lets it again.
    Deferred,
    /// It was let in and failed: its place was given away. It has failed until it is ready, whatever
    /// it says in between; otherwise it would be in flight again beside whoever got its place.
    Failed,
}

/// How far a stage is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The release that its zones move to.
    pub taken: Option<Mark>,
    /// The newest that all of it had.
    pub completed: Option<Mark>,
    /// The newest of which too many failed.
    pub failed: Option<Mark>,
}

/// What became of the releases that a stage had, as long as they are kept: longer than evidence is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    pub completed: BTreeSet<u64>,
    /// Of which too many failed.
    pub failed: BTreeSet<u64>,
}

/// A release, and when something became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub release: u64,
    pub at: Timestamp,
}

/// Why something moved on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    pub at: Timestamp,
    pub stage: String,
    pub release: u64,
    pub advance: Advance,
    /// How many more zones there were than are named.
    pub more: usize,
    /// What it was decided by, in few words.
    pub because: String,
    /// Of all that was known of the zones of the stage: the same for the same.
    pub digest: String,
}

/// What moved on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advance {
    Taken,
    /// These zones were let in.
    Admitted(Vec<String>),
    Completed,
    Failed(Vec<String>),
    /// These lost their places.
    Deferred(Vec<String>),
}

/// So much evidence is kept with the policy.
pub(crate) const EVIDENCE: usize = 24;
/// Zones are named in it as long as their names take so many bytes.
const NAMED: usize = 600;

// === impl Target ===

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.release, self.class)
    }
}

impl FromStr for Target {
    type Err = ();

    /// `5`, or `5+0+2` with the overrides.
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('+');
        let release = parts.next().and_then(|release| release.parse().ok());
        let mut class = Class::default();
        for part in parts {
            class.add(part.parse().map_err(|_| ())?)?;
        }
        let release = release.ok_or(())?;
        Ok(Self { release, class })
    }
}

// === impl Class ===

impl Class {
    /// More overrides than this cannot be told apart.
    pub const MOST: usize = 32;

    /// Of the places of the overrides that apply.
    pub fn of(places: impl IntoIterator<Item = usize>) -> Self {
        let mut class = Self::default();
        for place in places {
            // A policy with more is refused.
            let _ = class.add(place);
        }
        class
    }

    fn add(&mut self, place: usize) -> Result<(), ()> {
        if place >= Self::MOST {
            return Err(());
        }
        self.0 |= 1 << place;
        Ok(())
    }

    /// One bit for each override.
    pub fn bits(self) -> u32 {
        self.0
    }

    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    pub fn places(self) -> impl Iterator<Item = usize> {
        (0..Self::MOST).filter(move |place| self.0 & (1 << place) != 0)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.places().try_for_each(|place| write!(f, "+{place}"))
    }
}

// === impl Record ===

impl Record {
    /// As it is written in the status of a policy: zones that stand alike together.
    pub fn write(&self) -> Json {
        let mut alike: BTreeMap<(Target, Phase, u32), Moments<'_>> = BTreeMap::new();
        for (zone, one) in &self.zones {
            let key = (one.target, one.phase, one.at.nanos());
            let moments = alike.entry(key).or_default();
            moments.entry(one.at).or_default().push(zone);
        }
        let zones = alike.into_iter().map(|((target, phase, _), moments)| {
            let first = moments.keys().next().copied();
            json!({
                "release": target.to_string(),
                "phase": phase.to_string(),
                "at": first.map(|at| at.to_string()),
                "zones": write_moments(&moments),
            })
        });
        let stages = self.stages.iter().map(|(name, one)| {
            let mut written = one.write(name);
            let past = self.past.get(name);
            written.extend(past.map(|past| ("past".to_owned(), past.write())));
            Json::Object(written)
        });
        let evidence = self.evidence.iter().map(Evidence::write);
        let mut written = json!({
            "zones": zones.collect::<Vec<_>>(),
            "stages": stages.collect::<Vec<_>>(),
            "evidence": evidence.collect::<Vec<_>>(),
        });
        if let Some(as_of) = self.zones_as_of {
            written["zonesAsOf"] = as_of.into();
        }
        written
    }

    /// Of what was written. Nothing if somebody else wrote it.
    pub fn read(written: &Json) -> Option<Self> {
        let list = |field: &str| written[field].as_array().into_iter().flatten();
        let mut record = Self {
            zones_as_of: written["zonesAsOf"].as_u64(),
            ..Self::default()
        };
        for group in list("zones") {
            let (target, phase) = (group["release"].as_str()?, group["phase"].as_str()?);
            let (target, phase) = (target.parse().ok()?, phase.parse().ok()?);
            let at = Timestamp::parse(group["at"].as_str()?)?;
            for (name, at) in read_moments(at, group["zones"].as_str()?)? {
                let admitted = Admitted { target, at, phase };
                record.zones.insert(name, admitted);
            }
        }
        for stage in list("stages") {
            let name = stage["name"].as_str()?.to_owned();
            if let Some(past) = stage.get("past") {
                record.past.insert(name.clone(), Past::read(past)?);
            }
            record.stages.insert(name, Progress::read(stage)?);
        }
        for one in list("evidence") {
            record.evidence.push(Evidence::read(one)?);
        }
        Some(record)
    }

    /// Forgets zones in whose place others of the same name were made. `created` is the revision at
    /// which the zone of a name was created, if there is one.
    pub fn forget_renewed(&mut self, created: impl Fn(&str) -> Option<u64>) {
        let Some(as_of) = self.zones_as_of else {
            return;
        };
        self.zones
            .retain(|name, _| created(name).is_none_or(|created| created <= as_of));
    }

    pub(crate) fn note(&mut self, mut evidence: Evidence) {
        let became: Option<fn(&mut Past) -> &mut BTreeSet<u64>> = match evidence.advance {
            Advance::Completed => Some(|past| &mut past.completed),
            Advance::Failed(_) => Some(|past| &mut past.failed),
            Advance::Taken | Advance::Admitted(_) | Advance::Deferred(_) => None,
        };
        if let Some(of) = became {
            let past = self.past.entry(evidence.stage.clone()).or_default();
            of(past).insert(evidence.release);
        }
        evidence.more = evidence.advance.shorten(NAMED);
        self.evidence.push(evidence);
        let surplus = self.evidence.len().saturating_sub(EVIDENCE);
        self.evidence.drain(..surplus);
    }
}

/// Leaves of each moment what anybody asks for: of those that are not on their way, the last of all
/// that stand alike. So thousands can be written in few words, and nothing is lost when they are.
pub(crate) fn settle<'a>(zones: impl Iterator<Item = &'a mut Admitted>) {
    let mut last: BTreeMap<(Target, Phase), Timestamp> = BTreeMap::new();
    let settled = zones.filter(|one| one.phase != Phase::Admitted);
    let settled: Vec<&mut Admitted> = settled.collect();
    for one in &settled {
        let last = last.entry((one.target, one.phase)).or_insert(one.at);
        *last = one.at.max(*last);
    }
    for one in settled {
        one.at = last[&(one.target, one.phase)];
    }
}

/// Zones by when their phase began, all at the same part of a second.
type Moments<'a> = BTreeMap<Timestamp, Vec<&'a str>>;

/// `eu-[1-3] +12 us-7`: those of the first moment, then those of others, so many seconds after it.
fn write_moments(moments: &Moments<'_>) -> String {
    let first = moments.keys().next().map_or(0, |at| at.seconds());
    let one = |(at, zones): (&Timestamp, &Vec<&str>)| {
        let zones = sets::write(zones.iter().copied());
        match at.seconds() - first {
            0 => zones,
            later => format!("+{later} {zones}"),
        }
    };
    let all: Vec<String> = moments.iter().map(one).collect();
    all.join(" ")
}

fn read_moments(first: Timestamp, text: &str) -> Option<Vec<(String, Timestamp)>> {
    let mut zones = Vec::new();
    let mut at = first;
    for word in text.split(' ') {
        if let Some(later) = word.strip_prefix('+') {
            let seconds = first.seconds().checked_add(later.parse().ok()?)?;
            at = Timestamp::new(seconds, first.nanos())?;
        } else {
            let names = sets::read(word)?;
            zones.extend(names.into_iter().map(|name| (name, at)));
        }
    }
    Some(zones)
}

// === impl Phase ===

const PHASES: [(Phase, &str); 5] = [
    (Phase::Started, "Started"),
    (Phase::Admitted, "Admitted"),
    (Phase::Arrived, "Arrived"),
    (Phase::Deferred, "Deferred"),
    (Phase::Failed, "Failed"),
];

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = PHASES.iter().find(|(phase, _)| phase == self);
        f.write_str(named.map_or("", |(_, name)| name))
    }
}

impl FromStr for Phase {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let phase = PHASES.iter().find(|(_, name)| *name == text);
        phase.map(|(phase, _)| *phase).ok_or(())
    }
}

// === impl Progress ===

impl Progress {
    fn marks(&self) -> [(&'static str, Option<Mark>); 3] {
        [
            ("taken", self.taken),
            ("completed", self.completed),
            ("failed", self.failed),
        ]
    }

    fn write(&self, name: &str) -> Map<String, Json> {
        let mut written = Map::new();
        written.insert("name".to_owned(), name.into());
        for (field, mark) in self.marks() {
            if let Some(Mark { release, at }) = mark {
                let mark = json!({"release": release, "at": at.to_string()});
                written.insert(field.to_owned(), mark);
            }
        }
        written
    }

    fn read(stage: &Json) -> Option<Self> {
        let mark = |field: &str| match stage.get(field) {
            None => Some(None),
            Some(mark) => Some(Some(Mark {
                release: mark["release"].as_u64()?,
                at: Timestamp::parse(mark["at"].as_str()?)?,
            })),
        };
        Some(Self {
            taken: mark("taken")?,
            completed: mark("completed")?,
            failed: mark("failed")?,
        })
    }
}

// === impl Past ===

impl Past {
    /// Of releases that are not kept nobody asks.
    pub(crate) fn of_kept(&self, is_kept: impl Fn(&u64) -> bool) -> Option<Self> {
        let kept = |all: &BTreeSet<u64>| all.iter().copied().filter(&is_kept).collect();
        let (completed, failed): (BTreeSet<u64>, BTreeSet<u64>) =
            (kept(&self.completed), kept(&self.failed));
        let is_any = !completed.is_empty() || !failed.is_empty();
        is_any.then_some(Self { completed, failed })
    }

    fn write(&self) -> Json {
        json!({"completed": self.completed, "failed": self.failed})
    }

    fn read(written: &Json) -> Option<Self> {
        let numbers = |field: &str| {
            let all = written[field].as_array()?.iter();
            all.map(Json::as_u64).collect::<Option<BTreeSet<u64>>>()
        };
        Some(Self {
            completed: numbers("completed")?,
            failed: numbers("failed")?,
        })
    }
}

// === impl Evidence ===

impl Evidence {
    fn write(&self) -> Json {
        let (what, zones) = self.advance.parts();
        json!({
            "at": self.at.to_string(),
            "stage": self.stage,
            "release": self.release,
            "advance": what,
            "zones": sets::write(zones.iter().map(String::as_str)),
            "more": self.more,
            "because": self.because,
            "digest": self.digest,
        })
    }

    fn read(written: &Json) -> Option<Self> {
        let text = |field: &str| written[field].as_str().map(str::to_owned);
        let zones = sets::read(written["zones"].as_str()?)?;
        Some(Self {
            at: Timestamp::parse(written["at"].as_str()?)?,
            stage: text("stage")?,
            release: written["release"].as_u64()?,
            advance: Advance::of(written["advance"].as_str()?, zones.into_iter().collect())?,
            more: usize::try_from(written["more"].as_u64()?).ok()?,
            because: text("because")?,
            digest: text("digest")?,
        })
    }
}

// === impl Advance ===

impl Advance {
    fn parts(&self) -> (&'static str, &[String]) {
        match self {
            Self::Taken => ("Taken", &[]),
            Self::Admitted(zones) => ("Admitted", zones),
            Self::Completed => ("Completed", &[]),
            Self::Failed(zones) => ("Failed", zones),
            Self::Deferred(zones) => ("Deferred", zones),
        }
    }

    fn of(what: &str, zones: Vec<String>) -> Option<Self> {
        let all = [
            Self::Taken,
            Self::Completed,
            Self::Admitted(zones.clone()),
            Self::Failed(zones.clone()),
            Self::Deferred(zones),
        ];
        all.into_iter().find(|one| one.parts().0 == what)
    }

    /// Names no more zones than so many bytes hold; says how many are left out.
    fn shorten(&mut self, most: usize) -> usize {
        match self {
            Self::Taken | Self::Completed => 0,
            Self::Admitted(zones) | Self::Failed(zones) | Self::Deferred(zones) => {
                zones.sort();
                let kept = sets::fitting(zones.iter().map(String::as_str), most);
                let more = zones.len() - kept;
                zones.truncate(kept);
                more
            }
        }
    }
}

impl fmt::Display for Advance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, zones) = self.parts();
        f.write_str(&what.to_lowercase())?;
        match zones.is_empty() {
            true => Ok(()),
            false => write!(f, " {}", sets::write(zones.iter().map(String::as_str))),
        }
    }
}
