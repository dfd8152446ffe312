//! In which order zones would get a release, and what would hold it.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_propagation::stages::{
    Beginning, Fared, Link, NoEvidence, Policy, PolicyFacts, RESUME, Removes, Simulation, Wave,
    ZoneFacts, foresee,
};
use deltaplane_propagation::{Hold, Timestamp};
use serde_json::{Value, json};

use super::target_of;
use crate::governing::compare::{Hunks, MayRead, set};
use crate::governing::governor::Governor;
use crate::governing::head::GRAPHS;
use crate::governing::release::{Manifest, Released};

/// A release that would be made.
pub(super) struct Foreseen<'a> {
    pub(super) facts: &'a PolicyFacts,
    pub(super) policy: &'a Policy,
    pub(super) released: &'a Released,
    /// False if it is there, and another policy would move it on.
    pub(super) is_new: bool,
    pub(super) governor: &'a Governor,
    /// What zones have that were not let in anywhere.
    pub(super) held: &'a BTreeMap<String, Manifest>,
    pub(super) now: Timestamp,
}

// === impl Foreseen ===

impl Foreseen<'_> {
    /// Says all of it. Nothing is said of a release that moves no zone.
    pub(super) fn tell(&self, planned: &mut Value, hunks: &Hunks, may_read: &MayRead<'_>) {
        let unproven = self.unproven(may_read);
        let simulation = self.simulate(&unproven);
        if !self.is_new && simulation.waves.is_empty() {
            return;
        }
        planned["release"] = self.released.number.into();
        planned["released"] = (!self.is_new).into();
        planned["hunks"] = hunks.json(may_read);
        planned["unchanged"] = hunks.unchanged();
        planned["waves"] = simulation.waves.iter().map(wave).collect();
        planned["stages"] = self.stages(&simulation);
        planned["done"] = simulation.done.map(|at| at.to_string()).into();
        planned["stuck"] = match &simulation.stuck {
            Some((stage, why)) => json!({"stage": stage, "why": why}),
            None => Value::Null,
        };
        planned["evidence"] = self.evidence(&unproven);
        planned["deletions"] = self.deletions();
        planned["offline"] = set(&self.zones(|zone| matches!(zone.link, Link::Lost { .. })));
        planned["held"] = set(&self.zones(|zone| zone.hold == Hold::Held));
    }

    fn simulate(&self, unproven: &BTreeMap<&str, String>) -> Simulation {
        let mut releases = self.facts.releases.clone();
        if self.is_new {
            releases.push(self.released.decided.clone());
        }
        let zones = self.facts.zones();
        let beginning = Beginning {
            record: &self.facts.record,
            releases: &releases,
            zones: &zones,
            unproven: &unproven.keys().copied().collect(),
            resumed: self.facts.annotation(RESUME),
            now: self.now,
        };
        foresee(self.policy, beginning)
    }

    /// Zones in which nothing would show whether it works, and why.
    fn unproven(&self, may_read: &MayRead<'_>) -> BTreeMap<&str, String> {
        let zones = self.facts.zones.iter();
        let unproven =
            zones.filter_map(|zone| Some((zone.name.as_str(), self.unproven_in(zone, may_read)?)));
        unproven.collect()
    }

    fn unproven_in(&self, zone: &ZoneFacts, may_read: &MayRead<'_>) -> Option<String> {
        if let Some(report) = &zone.report
            && let Fared::NoEvidence(reason) = &report.state
        {
            return Some(reason.clone());
        }
        let has = target_of(self.facts, &zone.name);
        let has = has.and_then(|has| self.governor.releases.get(&has.release));
        let has = has.map(|has| &has.manifest).or(self.held.get(&zone.name));
        let mut graphs = self.released.manifest.keys().filter(|id| {
            let is_there = has.is_some_and(|has| has.contains_key(*id));
            (id.0.group(), id.0.kind()) == GRAPHS && !is_there
        });
        let graph = graphs.next()?;
        let graph = if may_read(graph) {
            format!("the graph {}", graph.1)
        } else {
            "a graph that you may not read".to_owned()
        };
        Some(format!("{graph} is new: it has no instances there"))
    }

    /// By stage and reason, and whether it holds the stage.
    fn evidence(&self, unproven: &BTreeMap<&str, String>) -> Value {
        let mut groups: BTreeMap<(usize, &str), BTreeSet<String>> = BTreeMap::new();
        for zone in &self.facts.zones {
            let stage = self.policy.stage_of(&zone.object);
            if let (Some(reason), Some(stage)) = (unproven.get(zone.name.as_str()), stage) {
                let group = groups.entry((stage, reason)).or_default();
                group.insert(zone.name.clone());
            }
        }
        let groups = groups.into_iter().map(|((stage, reason), zones)| {
            let stage = &self.policy.stages[stage];
            json!({
                "stage": stage.name, "reason": reason, "zones": set(&zones),
                "holds": stage.no_evidence == NoEvidence::Hold,
            })
        });
        groups.collect()
    }

    fn stages(&self, simulation: &Simulation) -> Value {
        let stages = self.policy.stages.iter().enumerate();
        let stages = stages.map(|(place, stage)| {
            let zones = self.facts.zones.iter();
            let zones = zones.filter(|zone| self.policy.stage_of(&zone.object) == Some(place));
            let completed = simulation.completed.get(&stage.name);
            json!({
                "name": stage.name,
                "zones": zones.count(),
                "approval": format!("{:?}", stage.approval),
                "soak": stage.soak.to_string(),
                "paused": self.policy.paused || stage.paused,
                "completed": completed.map(|at| at.to_string()),
            })
        });
        stages.collect()
    }

    fn deletions(&self) -> Value {
        // Of the stage that loses most.
        let record = &self.facts.record;
        let completed = record.stages.values().filter_map(|stage| stage.completed);
        let mut had: BTreeSet<u64> = completed.map(|mark| mark.release).collect();
        if record
            .stages
            .values()
            .any(|stage| stage.completed.is_none())
        {
            had.extend(record.zones.values().map(|one| one.target.release));
        }
        let removes = had
            .into_iter()
            .filter_map(|had| self.released.removes.get(&had));
        let removes = removes.max_by_key(|(removes, _)| removes.objects).copied();
        let (Removes { objects, of }, behind) = removes.unwrap_or_default();
        let may = self.policy.may_remove(of);
        json!({
            "removes": objects, "of": of, "may": may, "behind": behind,
            "needsApproval": objects > may || behind > 0,
        })
    }

    fn zones(&self, wanted: impl Fn(&ZoneFacts) -> bool) -> BTreeSet<String> {
        let zones = self.facts.zones.iter().filter(|zone| wanted(zone));
        zones.map(|zone| zone.name.clone()).collect()
    }
}

fn wave(wave: &Wave) -> Value {
    json!({
        "at": wave.at.to_string(),
        "stage": wave.stage,
        "zones": set(&wave.zones.iter().cloned().collect()),
        "afterApproval": wave.after_approval,
    })
}
