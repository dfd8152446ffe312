//! All that a decision was made of, as data that travels: whoever has it can decide again, and
//! must come to the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use deltaplane_api::selector::LabelSelector;
use deltaplane_expr::Timestamp;
use serde_json::{Value as Json, json};

use super::decide::{Effect, Outcome, decide};
use super::facts::{
    ContentFacts, Fared, HeadFacts, PolicyFacts, ReportFacts, RolledBack, ZoneFacts,
};
use super::problem::Problem;
use super::record::Record;
use super::situation::{Approved, ContentId, Link, Release, Removes};
use super::told::StageTold;
use crate::subject::Hold;

/// What is known, and when.
#[derive(Clone, Debug)]
pub struct Inputs {
    pub facts: PolicyFacts,
    pub now: Timestamp,
}

// === impl Inputs ===

impl Inputs {
    /// Decides about it.
    pub fn decide(&self) -> Result<Outcome, Vec<Problem>> {
        let policy = self.facts.policy()?;
        let zones = self.facts.zones();
        Ok(decide(&policy, self.facts.situation(&zones, self.now)))
    }

    pub fn write(&self) -> Json {
        let Self { facts, now } = self;
        let releases = facts.releases.iter().map(|release| {
            let content = facts.contents.get(&release.number);
            write_release(release, content)
        });
        json!({
            "now": now.to_string(),
            "policy": *facts.object,
            "record": facts.record.write(),
            "head": {
                "digest": facts.head.digest, "objects": facts.head.objects,
                "problems": facts.head.problems,
                "rolledBack": facts.head.rolled_back.as_ref().map(RolledBack::write),
            },
            "releases": releases.collect::<Vec<_>>(),
            "zones": facts.zones.iter().map(ZoneFacts::write).collect::<Vec<_>>(),
            "left": facts.left,
            "zonesAsOf": facts.zones_as_of,
            "diverged": facts.diverged,
            "approvals": facts.approvals.iter().map(Approved::write).collect::<Vec<_>>(),
        })
    }

    /// Of what was written. Nothing if somebody else wrote it.
    pub fn read(written: &Json) -> Option<Self> {
        let list = |field: &str| written[field].as_array().into_iter().flatten();
        let mut contents = BTreeMap::new();
        let mut releases = Vec::new();
        for one in list("releases") {
            let (release, content) = read_release(one)?;
            contents.extend(content.map(|content| (release.number, content)));
            releases.push(release);
        }
        let head = &written["head"];
        let facts = PolicyFacts {
            diverged: texts(&written["diverged"]),
            object: Arc::new(written["policy"].clone()),
            record: Record::read(&written["record"])?,
            unreadable: None,
            head: HeadFacts {
                digest: text(&head["digest"])?,
                objects: count(&head["objects"])?,
                problems: texts(&head["problems"]),
                rolled_back: RolledBack::read(&head["rolledBack"]),
            },
            releases,
            contents,
            zones: list("zones").map(ZoneFacts::read).collect::<Option<_>>()?,
            left: texts(&written["left"]),
            zones_as_of: written["zonesAsOf"].as_u64(),
            approvals: list("approvals")
                .map(Approved::read)
                .collect::<Option<_>>()?,
            settled_release: 0,
            again: None,
        };
        let now = time(&written["now"])?;
        Some(Self { facts, now })
    }
}

fn text(value: &Json) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn texts(value: &Json) -> Vec<String> {
    let list = value.as_array().into_iter().flatten();
    list.filter_map(text).collect()
}

fn count(value: &Json) -> Option<usize> {
    usize::try_from(value.as_u64()?).ok()
}

fn time(value: &Json) -> Option<Timestamp> {
    Timestamp::parse(value.as_str()?)
}

fn write_release(release: &Release, content: Option<&ContentFacts>) -> Json {
    let overrides = release.overrides.iter().map(LabelSelector::to_object);
    json!({
        "number": release.number,
        "authors": release.authors,
        "restores": release.restores,
        "overrides": overrides.collect::<Vec<_>>(),
        "removes": Removes::write(&release.removes),
        "data": release.data,
        "manifest": release.content.manifest,
        "patches": release.content.patches,
        "digest": content.map(|content| content.digest.as_str()),
        "objects": content.map(|content| content.objects),
        "removed": content.map(|content| content.removes),
    })
}

fn read_release(written: &Json) -> Option<(Release, Option<ContentFacts>)> {
    let overrides = written["overrides"].as_array()?.iter();
    let release = Release {
        number: written["number"].as_u64()?,
        authors: texts(&written["authors"]),
        restores: written["restores"].as_u64(),
        overrides: overrides
            .map(LabelSelector::from_object)
            .collect::<Option<_>>()?,
        removes: Removes::read(&written["removes"])?,
        data: written["data"].clone(),
        content: ContentId {
            manifest: text(&written["manifest"]),
            patches: texts(&written["patches"]),
        },
    };
    let content = text(&written["digest"]).zip(count(&written["objects"]));
    let content = content.map(|(digest, objects)| ContentFacts {
        digest,
        objects,
        removes: written["removed"].as_u64().unwrap_or(0),
    });
    Some((release, content))
}

// === impl Removes ===

impl Removes {
    /// As it is told, by the release that zones have.
    pub fn write(removes: &BTreeMap<u64, Self>) -> Json {
        let one = |(since, Self { objects, of }): (&u64, &Self)| json!({"since": since, "objects": objects, "of": of});
        removes.iter().map(one).collect()
    }

    pub fn read(written: &Json) -> Option<BTreeMap<u64, Self>> {
        let one = |one: &Json| {
            let number = |field: &str| one[field].as_u64();
            let (objects, of) = (number("objects")?, number("of")?);
            Some((number("since")?, Self { objects, of }))
        };
        written.as_array()?.iter().map(one).collect()
    }
}

// === impl Approved ===

impl Approved {
    /// As it is told.
    pub fn write(&self) -> Json {
        json!({
            "stage": self.stage, "deletions": self.stage.is_none(),
            "release": self.release, "by": self.by,
        })
    }

    fn read(written: &Json) -> Option<Self> {
        Some(Self {
            stage: text(&written["stage"]),
            release: written["release"].as_u64()?,
            by: text(&written["by"])?,
        })
    }
}

// === impl ZoneFacts ===

impl ZoneFacts {
    fn write(&self) -> Json {
        json!({
            "name": self.name,
            "object": *self.object,
            "link": self.link.write(),
            "holds": self.holds,
            "held": self.hold == Hold::Held,
            "releasedAt": self.released_at.map(|at| at.to_string()),
            "report": self.report.as_ref().map(ReportFacts::write),
        })
    }

    fn read(written: &Json) -> Option<Self> {
        let report = written.get("report").filter(|report| !report.is_null());
        let report = match report {
            Some(report) => Some(ReportFacts::read(report)?),
            None => None,
        };
        let hold = match written["held"].as_bool()? {
            true => Hold::Held,
            false => Hold::Free,
        };
        Some(Self {
            name: text(&written["name"])?,
            object: Arc::new(written["object"].as_object()?.clone()),
            link: Link::read(&written["link"])?,
            holds: written["holds"].as_u64(),
            hold,
            released_at: time(&written["releasedAt"]),
            report,
        })
    }
}

// === impl Link ===

/// Since when a zone is away that never joined.
const NEVER: &str = "never";

impl Link {
    /// As it is told.
    pub fn write(self) -> Json {
        let (connected, since) = match self {
            Self::Connected { since } => (true, Some(since)),
            Self::Lost { since } => (false, Some(since)),
            Self::Never => (false, None),
        };
        let since = since.map_or_else(|| NEVER.to_owned(), |since| since.to_string());
        json!({"connected": connected, "since": since})
    }

    fn read(written: &Json) -> Option<Self> {
        if written["since"] == NEVER {
            return Some(Self::Never);
        }
        let since = time(&written["since"])?;
        Some(match written["connected"].as_bool()? {
            true => Self::Connected { since },
            false => Self::Lost { since },
        })
    }
}

// === impl ReportFacts ===

impl ReportFacts {
    /// As it is told.
    pub fn write(&self) -> Json {
        let (state, detail) = match &self.state {
            Fared::Delivering(reason) => ("Delivering", reason.clone()),
            Fared::Rejected(reason) => ("Rejected", reason.clone()),
            Fared::Refused(reason) => ("Refused", reason.clone()),
            Fared::Waiting(reason) => ("Waiting", reason.clone()),
            Fared::Failed(reason) => ("Failed", reason.clone()),
            Fared::NoEvidence(reason) => ("NoEvidence", reason.clone()),
            Fared::Ready { since } => ("Ready", since.to_string()),
        };
        let field = if state == "Ready" { "since" } else { "reason" };
        json!({"at": self.at.to_string(), "state": state, field: detail})
    }

    fn read(written: &Json) -> Option<Self> {
        let reason = || text(&written["reason"]);
        let state = match written["state"].as_str()? {
            "Delivering" => Fared::Delivering(reason()?),
            "Rejected" => Fared::Rejected(reason()?),
            "Refused" => Fared::Refused(reason()?),
            "Waiting" => Fared::Waiting(reason()?),
            "Failed" => Fared::Failed(reason()?),
            "NoEvidence" => Fared::NoEvidence(reason()?),
            "Ready" => Fared::Ready {
                since: time(&written["since"])?,
            },
            _ => return None,
        };
        let at = written["at"].as_str()?.parse().ok()?;
        Some(Self { at, state })
    }
}

// === impl Outcome ===

impl Outcome {
    /// All of it, to be compared.
    pub fn write(&self) -> Json {
        let effect = self.effect.map(|effect| match effect {
            Effect::Rollback { failed, to } => json!({"rollback": {"failed": failed, "to": to}}),
        });
        json!({
            "record": self.record.write(),
            "stages": self.stages.iter().map(StageTold::write).collect::<Vec<_>>(),
            "effect": effect,
            "leftOut": self.left_out,
            "next": self.next.map(|next| next.to_string()),
        })
    }
}

#[cfg(test)]
mod tests;
