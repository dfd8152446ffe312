//! What changes the rollout of a policy: pausing, resuming, approving, bringing back.

use deltaplane_api::keys;
use deltaplane_client::request::{self, Patch};
use deltaplane_client::{ObjectKey, Resource};
use deltaplane_fleet::kinds::{GROUP, VERSION};
use deltaplane_propagation::stages::{Forgiven, RESUME, ROLLBACK};
use deltaplane_sync::ZoneName;
use serde_json::{Value, json};

use super::super::RolloutError;
use super::PolicyError;
use super::ask::Policies;
use super::told::{Stage, Told};
use crate::said::Said;

/// What is approved of what waits.
const APPROVAL: &str = "ApprovalRequired";
pub(super) const DELETIONS: &str = "DeletionBudgetExceeded";
const FAILED: &str = "TooManyFailures";

/// It was done.
fn done(err: String) -> Said {
    Said {
        out: String::new(),
        err,
        good: true,
    }
}

// === impl Policies ===

impl Policies<'_> {
    async fn patch(&self, path: &str, patch: Patch, change: &Value) -> Result<(), RolloutError> {
        let written = request::patch::<Value>(&self.client, path, patch, change).await;
        let refused = |source| RolloutError::Write {
            source: Box::new(source),
            instead: None,
        };
        written.map(drop).map_err(refused)
    }

    /// Says of a stage whether it is paused, if it still is where it was.
    async fn turn_stage(&self, told: &Told, stage: &str, paused: bool) -> Result<(), RolloutError> {
        let stage = told.stage(stage)?;
        let place = told.stages.iter().position(|one| one.name == stage.name);
        let path = format!("/spec/stages/{}", place.unwrap_or_default());
        let change = json!([
            {"op": "test", "path": format!("{path}/name"), "value": stage.name},
            {"op": "add", "path": format!("{path}/paused"), "value": paused},
        ]);
        self.patch(&self.path(), Patch::Json, &change).await
    }

    /// Forgives failures beside those that were forgiven before, along with another change.
    async fn forgive(&self, forgiven: &[Forgiven], change: &Value) -> Result<(), RolloutError> {
        match self.forgive_once(forgiven, change).await {
            Err(RolloutError::Write { source, .. }) if source.is_conflict() => {
                self.forgive_once(forgiven, change).await
            }
            done => done,
        }
    }

    /// Fails with a conflict if somebody else writes the policy meanwhile: what they forgive is
    /// not to be taken back.
    async fn forgive_once(
        &self,
        forgiven: &[Forgiven],
        change: &Value,
    ) -> Result<(), RolloutError> {
        let object: Value = request::get(&self.client, &self.path())
            .await
            .map_err(RolloutError::request)?;
        let metadata = &object["metadata"];
        let before = metadata["annotations"][RESUME].as_str();
        let mut change = change.clone();
        change["metadata"] = json!({
            "resourceVersion": metadata["resourceVersion"],
            "annotations": {RESUME: with_forgiven(before, forgiven)},
        });
        self.patch(&self.path(), Patch::Merge, &change).await
    }

    async fn turn_zone(&self, zone: &ZoneName, hold: Value) -> Result<(), RolloutError> {
        let zones = Resource::cluster(GROUP, VERSION, "zones", "Zone");
        let path = zones.object_path(&ObjectKey::cluster(zone.as_str()));
        let change = json!({"metadata": {"annotations": {keys::HOLD: hold}}});
        self.patch(&path, Patch::Merge, &change).await
    }
}

/// Lets nothing move any more: of all, of a stage, or of a zone for all policies.
pub(crate) async fn pause(
    policy: &Policies<'_>,
    stage: Option<&str>,
) -> Result<Said, RolloutError> {
    let name = &policy.name;
    match (stage, policy.api.zone()) {
        (Some(stage), _) => {
            let told = policy.told().await?;
            policy.turn_stage(&told, stage, true).await?;
            Ok(done(format!("stage {stage} of {name} is paused\n")))
        }
        (None, Some(zone)) => {
            policy.turn_zone(zone, "true".into()).await?;
            Ok(done(format!("{zone} is held, for all policies\n")))
        }
        (None, None) => {
            let change = json!({"spec": {"paused": true}});
            policy.patch(&policy.path(), Patch::Merge, &change).await?;
            Ok(done(format!(
                "{name} is paused: zones that are on their way arrive, and nothing else moves\n"
            )))
        }
    }
}

/// Lets it move again: what was paused, and what stopped because too many failed.
pub(crate) async fn resume(
    policy: &Policies<'_>,
    stage: Option<&str>,
) -> Result<Said, RolloutError> {
    let name = &policy.name;
    let told = policy.told().await?;
    if let Some(zone) = policy.api.zone() {
        policy.turn_zone(zone, Value::Null).await?;
        return Ok(done(format!("{zone} is not held any more\n")));
    }
    let mut said = String::new();
    let forgiven = forgiven(&told, stage);
    if let Some(stage) = stage {
        policy.turn_stage(&told, stage, false).await?;
        said.push_str(&format!("stage {stage} of {name} is not paused\n"));
    }
    let mut change = json!({});
    if told.paused && stage.is_none() {
        change["spec"] = json!({"paused": false});
        said.push_str(&format!("{name} is resumed\n"));
    }
    for Forgiven {
        release,
        stage,
        failed,
    } in &forgiven
    {
        let zones = crate::table::counted(*failed, "zone");
        said.push_str(&format!(
            "that release {release} failed in {zones} does not stop stage {stage} any more; one more does\n"
        ));
    }
    match forgiven.as_slice() {
        [] if change == json!({}) => {}
        [] => policy.patch(&policy.path(), Patch::Merge, &change).await?,
        forgiven => policy.forgive(forgiven, &change).await?,
    }
    let paused = told.stages.iter().filter(|one| one.paused && !told.paused);
    let paused = paused.filter(|one| stage != Some(&one.name));
    for one in paused {
        let command = policy.command("resume");
        let name = &one.name;
        said.push_str(&format!(
            "hint: stage {name} is paused: {command} --stage {name}\n"
        ));
    }
    if said.is_empty() {
        said = format!("{name} is neither paused nor stopped by failures\n");
    }
    Ok(done(said))
}

/// What stopped because too many failed, as it is now: in one stage, or in all of them.
fn forgiven(told: &Told, stage: Option<&str>) -> Vec<Forgiven> {
    let stages = told.stages.iter();
    let stages = stages.filter(|one| stage.is_none_or(|stage| stage == one.name));
    let stopped = stages.filter_map(|one| {
        let release = one.waits(FAILED)?.release?;
        Some(Forgiven {
            release,
            stage: one.name.clone(),
            failed: usize::try_from(one.zones.failed).unwrap_or(usize::MAX),
        })
    });
    stopped.collect()
}

/// What is forgiven in all: what was before, but for stages and releases that are forgiven anew.
fn with_forgiven(before: Option<&str>, forgiven: &[Forgiven]) -> String {
    // What cannot be read forgives nothing, and is not kept.
    let before = before.and_then(Forgiven::read).unwrap_or_default();
    let anew = |old: &Forgiven| {
        let mut forgiven = forgiven.iter();
        forgiven.any(|new| new.release == old.release && new.stage == old.stage)
    };
    let kept = before.iter().filter(|old| !anew(old));
    let all: Vec<String> = kept.chain(forgiven).map(ToString::to_string).collect();
    all.join(", ")
}

/// What somebody says yes to.
pub(crate) struct Yes<'a> {
    pub(crate) stage: Option<&'a str>,
    pub(crate) release: Option<u64>,
    pub(crate) deletions: bool,
}

/// Says yes to one stage at one release, or to what a release takes away.
pub(crate) async fn approve(policy: &Policies<'_>, yes: Yes<'_>) -> Result<Said, RolloutError> {
    let told = policy.told().await?;
    let (stage, release) = meant(&told, &yes)?;
    let name = &policy.name;
    let (spec, what) = match yes.deletions {
        true => (
            json!({"policy": name, "release": release, "deletions": true}),
            "what it takes away".to_owned(),
        ),
        false => (
            json!({"policy": name, "release": release, "stage": stage}),
            format!("stage {stage}"),
        ),
    };
    let middle = if yes.deletions { "deletions" } else { stage };
    let approval = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "Approval",
        "metadata": {"generateName": format!("{name}-{release}-{middle}-")},
        "spec": spec,
    });
    let approvals = Resource::cluster(GROUP, VERSION, "approvals", "Approval");
    let path = approvals.collection_path(None);
    let made = request::create::<Value>(&policy.client, &path, &approval).await;
    let made = made.map_err(|source| RolloutError::Write {
        source: Box::new(source),
        instead: None,
    })?;
    let by = made["spec"]["approvedBy"].as_str().unwrap_or_default();
    let called = made["metadata"]["name"].as_str().unwrap_or_default();
    let mut said = format!("{by} approved release {release} of {name} for {what}\n");
    // Whether it counts is for the hub to say; it is made in any case.
    let doubt = match policy.told().await {
        Ok(told) => still_waits(&told, &yes, (stage, release))
            .map(str::to_owned)
            .or_else(|| counts_not(&told, (stage, release), by))
            .map(|why| format!("note: that does not count: {why}\n")),
        Err(error) => Some(format!(
            "note: it is not known whether that counts: {error}\nhint: {} says whether it still waits\n",
            policy.command("status")
        )),
    };
    let good = doubt.is_none();
    said.push_str(&doubt.unwrap_or_default());
    Ok(Said {
        out: format!("{called}\n"),
        err: said,
        good,
    })
}

/// What keeps on waiting for what was just approved.
fn still_waits<'t>(
    told: &'t Told,
    yes: &Yes<'_>,
    (stage, release): (&str, u64),
) -> Option<&'t str> {
    let reason = if yes.deletions { DELETIONS } else { APPROVAL };
    let mut stages = told.stages.iter();
    stages.find_map(|one| {
        let waits = one.waits(reason)?;
        let meant = yes.deletions || one.name == stage;
        (meant && waits.release == Some(release)).then_some(waits.message.as_str())
    })
}

/// Why the approval of a stage does not count, where nothing waits for it yet. The hub says of each
/// whether it counts; that of deletions always does.
fn counts_not(told: &Told, (stage, release): (&str, u64), by: &str) -> Option<String> {
    let mut approvals = told.approvals.iter();
    let given = approvals.find(|one| {
        one.stage.as_deref() == Some(stage) && one.release == release && one.by == by
    })?;
    if given.counts != Some(false) {
        return None;
    }
    let found = told.stage(stage).ok();
    let way = found.and_then(|stage| stage.approval.as_deref());
    Some(match way {
        Some("None") => format!("stage {stage} needs no approval"),
        Some(_) | None => format!(
            "release {release} needs approval by somebody else than {by}, who authored it, or it is not known who did"
        ),
    })
}

/// The stage and release that are meant: those that wait, where none are named.
fn meant<'t>(told: &'t Told, yes: &Yes<'t>) -> Result<(&'t str, u64), PolicyError> {
    let reason = if yes.deletions { DELETIONS } else { APPROVAL };
    if let Some(stage) = yes.stage {
        told.stage(stage)?;
    }
    if let Some(release) = yes.release {
        told.find_release(release)?;
    }
    let waits = |stage: &'t Stage| Some((stage.name.as_str(), stage.waits(reason)?.release?));
    let waiting = told.stages.iter().filter_map(waits);
    let mut waiting = waiting.filter(|(stage, release)| {
        yes.stage.is_none_or(|named| named == *stage)
            && yes.release.is_none_or(|named| named == *release)
    });
    match (waiting.next(), yes.stage, yes.release) {
        // It may be approved before anybody waits for it.
        (_, Some(stage), Some(release)) => Ok((stage, release)),
        (_, None, Some(release)) if yes.deletions => Ok(("", release)),
        (Some(found), _, _) => Ok(found),
        (None, _, _) => Err(PolicyError::NothingWaits {
            policy: told.policy.clone(),
            instead: instead(told, yes.deletions),
        }),
    }
}

fn instead(told: &Told, deletions: bool) -> String {
    let waits = |reason| {
        told.stages
            .iter()
            .any(|stage| stage.waits(reason).is_some())
    };
    match deletions {
        false if waits(DELETIONS) => {
            "a release takes away more than it may: approve that with --deletions".to_owned()
        }
        true if waits(APPROVAL) => "a stage waits: leave --deletions out".to_owned(),
        true | false => format!(
            "it is {}; to agree beforehand say both --stage and --release",
            told.headline()
        ),
    }
}

/// Asks for an older release, as a new one through the same gates.
pub(crate) async fn rollback(policy: &Policies<'_>, to: Option<u64>) -> Result<Said, RolloutError> {
    let told = policy.told().await?;
    let name = &policy.name;
    let nothing = || PolicyError::NothingBefore {
        policy: name.clone(),
    };
    let newest = told.release.ok_or_else(nothing)?;
    if let (None, Some(older), false) = (to, told.find_release(newest)?.restores, told.is_over()) {
        // Somebody else may have been faster.
        return Ok(done(format!(
            "{name}: release {newest} brings back what release {older} had already, and is on its way\nhint: {} follows it; --to goes further back\n",
            policy.command("watch")
        )));
    }
    let to = match to {
        Some(number) => told.find_release(number)?,
        None => told.previous().ok_or_else(nothing)?,
    };
    let current = told.find_release(newest)?;
    if to.digest == current.digest {
        let number = to.release;
        return Ok(done(format!(
            "release {newest} of {name} has what release {number} has already\n"
        )));
    }
    let asked = format!("{} instead of {newest}", to.release);
    let change = json!({"metadata": {"annotations": {ROLLBACK: asked}}});
    policy.patch(&policy.path(), Patch::Merge, &change).await?;
    let mut said = format!(
        "{name}: a new release brings back what release {} had, instead of {newest}; it moves through the same gates\n",
        to.release
    );
    if told.paused {
        let command = policy.command("resume");
        said.push_str(&format!("note: it is paused, and moves after {command}\n"));
    }
    said.push_str(&format!(
        "note: the objects at the hub stay as release {} has them, and are released again when they are changed; change them, too\nhint: {} follows it\n",
        told.authored().unwrap_or(newest),
        policy.command("watch")
    ));
    Ok(done(said))
}
