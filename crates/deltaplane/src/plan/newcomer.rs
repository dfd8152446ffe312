//! A policy that is not there yet: what it would govern, and in which order. Pure.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_propagation::Timestamp;
use deltaplane_propagation::stages::{Policy, PolicySpec, Release, Simulation, sets, simulate};
use serde_json::{Map, Value, json};

use super::PlanError;
use super::change::{Changed, identity};
use super::fleet::{Fleet, includes, told};

/// What it would do, as the hub says it of those that are there.
pub(super) fn plan(
    fleet: &Fleet,
    change: &Changed,
    (changes, there): (&[Changed], &[Value]),
    now: Timestamp,
) -> Result<Value, PlanError> {
    let name = change.name();
    let wrong = |why: String| PlanError::Policy {
        name: name.to_owned(),
        why,
    };
    let spec: Result<PolicySpec, _> = serde_json::from_value(change.stored["spec"].clone());
    let spec = spec.map_err(|error| wrong(error.to_string()))?;
    let policy = Policy::compile(&spec).map_err(|problems| {
        let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
        wrong(said.join("; "))
    })?;
    let governed = governed(fleet, &policy, changes, there);
    let zones = fleet.zones.iter().filter_map(|zone| {
        let fields = zone.as_object()?;
        let name = zone["metadata"]["name"].as_str()?;
        policy.selects(fields).then_some((name, fields))
    });
    let zones: Vec<(&str, &Map<String, Value>)> = zones.collect();
    let simulation = simulate(&policy, &zones, &release(governed.len()), now);
    let told = governed
        .iter()
        .map(|(object, change)| told(object, change, name));
    Ok(json!({
        "policy": name,
        "new": true,
        "asOf": now.to_string(),
        "release": 1,
        "objects": told.collect::<Vec<_>>(),
        "hunks": [],
        "waves": waves(&simulation),
        "stages": stages(&policy, &zones, &simulation),
        "done": simulation.done.map(|at| at.to_string()),
        "stuck": simulation.stuck.map(|(stage, why)| json!({"stage": stage, "why": why})),
        "problems": problems(&zones, governed.len()),
    }))
}

/// What would be its business: what is there and nobody's, and what comes with it.
fn governed<'a>(
    fleet: &Fleet,
    policy: &Policy,
    changes: &'a [Changed],
    there: &'a [Value],
) -> Vec<(&'a Value, &'static str)> {
    let is_free = |object: &&Value| {
        includes(&policy.targets, object)
            && fleet.crosses(object)
            && fleet.governor(object).is_none()
    };
    let written = changes.iter().map(|change| &change.stored);
    let written: Vec<&Value> = written.filter(is_free).collect();
    let known: BTreeSet<String> = written
        .iter()
        .map(|one| identity(one).to_string())
        .collect();
    let taken = there.iter().filter(is_free);
    let taken = taken.filter(|one| !known.contains(&identity(one).to_string()));
    let written = written.iter().map(|one| (*one, "Changed"));
    taken.map(|one| (one, "Taken")).chain(written).collect()
}

fn release(objects: usize) -> Release {
    Release {
        number: 1,
        authors: Vec::new(),
        restores: None,
        overrides: Vec::new(),
        removes: BTreeMap::new(),
        data: json!({"number": 1, "authors": [], "changes": {"added": objects, "changed": 0, "removed": 0}}),
    }
}

fn problems(zones: &[(&str, &Map<String, Value>)], governed: usize) -> Vec<&'static str> {
    let mut problems = Vec::new();
    if zones.is_empty() {
        problems.push("spec.zones: no zone is selected");
    }
    if governed == 0 {
        problems.push("spec.targets: no object is among them");
    }
    problems
}

fn waves(simulation: &Simulation) -> Vec<Value> {
    let waves = simulation.waves.iter().map(|wave| {
        let names = sets::write(wave.zones.iter().map(String::as_str));
        json!({
            "at": wave.at.to_string(), "stage": wave.stage, "afterApproval": wave.after_approval,
            "zones": {"count": wave.zones.len(), "names": names},
        })
    });
    waves.collect()
}

fn stages(
    policy: &Policy,
    zones: &[(&str, &Map<String, Value>)],
    simulation: &Simulation,
) -> Vec<Value> {
    let stages = policy.stages.iter().enumerate().map(|(place, stage)| {
        let zones = zones.iter();
        let zones = zones.filter(|(_, zone)| policy.stage_of(zone) == Some(place));
        let completed = simulation.completed.get(&stage.name);
        json!({
            "name": stage.name, "zones": zones.count(),
            "approval": format!("{:?}", stage.approval), "soak": stage.soak.to_string(),
            "paused": policy.paused || stage.paused,
            "completed": completed.map(|at| at.to_string()),
        })
    });
    stages.collect()
}
