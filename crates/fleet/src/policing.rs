//! What may be written of policies, releases and approvals: what cannot work is refused when it is
//! written, with what to change, and what looks like a mistake is said.

mod leaving;
mod overlaps;
mod rights;
mod selectors;
mod signing;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use deltaplane_api::field::{self, Path};
use deltaplane_api::time::Time;
use deltaplane_apiserver::error::About;
use deltaplane_apiserver::seams::{Admission, BoxFuture, Operation, Resource, Review, UserRights};
use deltaplane_apiserver::{Error, Revision};
use deltaplane_border::{Audience, Entry, definitions, namespaces};
use deltaplane_propagation::Timestamp;
use deltaplane_propagation::stages::{
    NoEvidence, Object, Policy, PolicySpec, Problem, ROLLBACK, Stage, asked_for, constantly_closed,
    rollback_of, sets, stuck, unordered,
};
use deltaplane_sync::{SyncKind, Withdrawal, ZoneName};
use serde_json::{Map, Value, json};

use crate::fleet::Fleet;
use crate::governing::{GRAPHS, Governing, HeadObject, instances};
use crate::kinds::{CONTROLLERS, GROUP, KindError, SYNC_USER, SyncedKind};

pub(crate) use overlaps::Overlaps;
pub(crate) use rights::is_protected;

use overlaps::taken;

/// Keeps the rules of policies at a hub.
pub struct Policing(pub Fleet);

/// Whoever writes what policies may govern waits no longer until they know.
const LATE: Duration = Duration::from_secs(1);

/// What releases are called takes a dash and a number more.
const LONGEST_NAME: usize = 232;

/// Kinds that go where something needs them, whoever else says where.
const IMPLIED: [(&str, &str); 2] = [
    ("", "Namespace"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
];

/// Where a policy would be, so that nobody has to wait while it is checked.
struct Surroundings {
    /// The zones that it selects.
    zones: Vec<(ZoneName, Arc<Map<String, Value>>)>,
    crossing: BTreeSet<SyncKind>,
}

/// A zone, by its name.
type Named<'a> = (&'a str, &'a Map<String, Value>);

// === impl Surroundings ===

impl Surroundings {
    fn of(governing: &Governing, policy: &Policy) -> Self {
        let zones = governing.zones.iter();
        let selected = zones.filter(|(_, zone)| policy.selects(zone));
        let selected = selected.map(|(name, zone)| (name.clone(), Arc::clone(zone)));
        Self {
            zones: selected.collect(),
            crossing: governing.crossing.clone(),
        }
    }

    fn zones(&self) -> Vec<Named<'_>> {
        let zones = self.zones.iter();
        zones.map(|(name, zone)| (name.as_str(), &**zone)).collect()
    }
}

// === impl Policing ===

/// Returns true if zones that are sent an object are not sent it any more when its SyncedKind becomes
/// another one, or none.
fn is_withdrawn(entry: &Entry, becomes: Option<&SyncedKind>) -> bool {
    match entry {
        Entry::Governed(_)
        | Entry::Shared {
            audience: Audience::Everyone,
            ..
        } => !becomes.is_some_and(SyncedKind::goes_down),
        Entry::Shared {
            audience: Audience::EveryoneBut(_),
            ..
        } => !becomes.is_some_and(|becomes| becomes.spec.across_zones),
        Entry::Shared {
            audience: Audience::Nobody(_) | Audience::Undecided,
            ..
        } => false,
    }
}

/// Refuses a SyncedKind that cannot be used.
fn check_synced_kind(review: &Review<'_>) -> Result<(), Error> {
    let resource = review.resource;
    let malformed = selectors::malformed_in_kind(review.object, review.old);
    refuse_fields(resource, &malformed)?;
    let name = resource.name;
    SyncedKind::check(review.old, review.object).map_err(|error| {
        let why = if let KindError::Spec(source) = &error {
            format!("spec cannot be read ({source})")
        } else {
            error.to_string()
        };
        Error::unprocessable(format!("SyncedKind {name} cannot be used: {why}"))
    })
}

/// Warns of a kind of which zones' objects are to go to other zones, and do not come to the hub.
fn warn_of_across_zones(review: &mut Review<'_>) {
    let same_spec = review
        .old
        .is_some_and(|old| old["spec"] == review.object["spec"]);
    let kind = SyncedKind::of(review.object).ok().filter(|_| !same_spec);
    if kind.is_some_and(|kind| kind.spec.across_zones && !kind.goes_up()) {
        review.warnings.push(
            "spec.acrossZones has no effect: it passes on what zones author, and of this kind nothing comes from zones; set spec.direction to Both or ZoneToHub, with zoneAuthored, or leave acrossZones out".to_owned(),
        );
    }
}

impl Policing {
    fn review(&self, review: &mut Review<'_>) -> Result<(), Error> {
        let resource = review.resource;
        let by_hub = review.user.name == CONTROLLERS;
        if (resource.group, resource.plural) == ("", "namespaces") {
            if !by_hub {
                self.sign_namespace(review);
            }
            return Ok(());
        }
        if resource.group != GROUP {
            // What the hub deletes goes with something that somebody deleted.
            let signs = !by_hub || review.operation == Operation::Delete;
            if signs && review.user.name != SYNC_USER {
                self.sign(review);
            }
            if review.operation == Operation::Delete && !by_hub {
                self.warn_of_instances(review);
            }
            return Ok(());
        }
        let about = about(resource);
        match (resource.plural, resource.subresource, review.operation) {
            ("releases", "", Operation::Delete) if self.is_left_over(review) => Ok(()),
            ("releases", _, _) if !by_hub => {
                let why = "releases are written by the hub; `deltaplane rollout rollback` asks for an older one";
                Err(Error::forbidden(about, why))
            }
            ("approvals", _, Operation::Update)
                if review
                    .old
                    .is_some_and(|old| old["spec"] != review.object["spec"]) =>
            {
                Err(Error::forbidden(
                    about,
                    "an approval is never changed; make another one",
                ))
            }
            ("propagationpolicies", "status", _) if !by_hub => {
                let why = "what was decided is written by the hub; `deltaplane rollout` says how to change it";
                Err(Error::forbidden(about, why))
            }
            ("propagationpolicies", "", Operation::Create | Operation::Update) if !by_hub => {
                self.policy(review)
            }
            ("propagationpolicies", "", Operation::Delete) => {
                self.warn_of_deletion(review);
                Ok(())
            }
            ("syncedkinds", "", Operation::Delete) if !by_hub => {
                self.withdrawal(review, about, None)?;
                self.warn_of_withdrawal(review, None);
                Ok(())
            }
            ("syncedkinds", "", Operation::Create) => {
                check_synced_kind(review)?;
                warn_of_across_zones(review);
                Ok(())
            }
            ("syncedkinds", "", Operation::Update) if !by_hub => {
                check_synced_kind(review)?;
                warn_of_across_zones(review);
                let becomes = SyncedKind::of(review.object).ok();
                self.withdrawal(review, about, becomes.as_ref())?;
                self.warn_of_withdrawal(review, becomes.as_ref());
                Ok(())
            }
            ("approvals", "", Operation::Create) => self.approval(review),
            (_, _, _) => Ok(()),
        }
    }

    /// Checks a policy as a whole.
    fn policy(&self, review: &mut Review<'_>) -> Result<(), Error> {
        let spec = review.object["spec"].clone();
        let same_spec = review.old.is_some_and(|old| old["spec"] == spec);
        let asks = asks_for_rollback(review);
        let same_asked = asked(Some(&*review.object)) == asked(review.old);
        let writer = review.user.name.clone();
        signing::sign(review, &writer, same_spec && same_asked);
        let now = self.0.inner().clock.now();
        if asks {
            self.rollback(review)?;
            unsettle(review.object, now);
        }
        let resource = review.resource;
        if resource.name.len() > LONGEST_NAME && review.old.is_none() {
            return Err(invalid(resource, &[too_long(resource.name)]));
        }
        if same_spec {
            return Ok(());
        }
        let mut errors = selectors::malformed_in_policy(review.object, review.old);
        let parsed: Result<PolicySpec, _> = serde_json::from_value(spec);
        // What does not have the right types is said by the schema.
        let Ok(parsed) = parsed else {
            return refuse_fields(resource, &errors);
        };
        let policy = match Policy::compile(&parsed) {
            Ok(policy) => policy,
            Err(problems) => {
                selectors::add_others(&mut errors, field_errors(&problems));
                return refuse_fields(resource, &errors);
            }
        };
        refuse_fields(resource, &errors)?;
        let mut refused = implied(&policy);
        refused.extend(rights::protected_overrides(&policy));
        if !refused.is_empty() {
            return Err(invalid(resource, &refused));
        }
        authorize(resource, (review.old, &*review.object), &policy, review.may)?;
        let (taken, known) = {
            let governing = self.0.inner().governing.lock();
            let taken = taken(&governing, resource.name, &policy);
            (taken, Surroundings::of(&governing, &policy))
        };
        if !taken.is_empty() {
            return Err(invalid(resource, &taken));
        }
        let zones = known.zones();
        let now = Timestamp::from_system(now);
        let mut wrong = stuck(&policy, &zones, now);
        wrong.extend(unordered(&policy, &zones, now));
        if !wrong.is_empty() {
            return Err(invalid(resource, &wrong));
        }
        let doubts = doubts(&known.crossing, &policy, &zones);
        review.warnings.extend(doubts);
        review.warnings.extend(constantly_closed(&policy, now));
        Ok(())
    }

    /// Going back changes what zones have: whoever asks for it needs the rights to do so here.
    fn rollback(&self, review: &mut Review<'_>) -> Result<(), Error> {
        let resource = review.resource;
        let governing = self.0.inner().governing.lock();
        let Some(governor) = governing.policies.get(resource.name) else {
            // It would be taken for a wish about releases that are not there yet.
            let annotations = review.object["metadata"]["annotations"].as_object_mut();
            annotations.map(|all| all.remove(ROLLBACK));
            let warning = format!("{ROLLBACK} is dropped: the policy has released nothing yet");
            review.warnings.push(warning);
            return Ok(());
        };
        let newest = governor.newest_number();
        if let Some((_, instead)) = rollback_of(review.object)
            && instead > newest
        {
            return Err(invalid(resource, &[not_released_yet(instead, newest)]));
        }
        let to = asked_for(review.object, newest);
        let differing = to.map(|to| governor.differing_from(to)).unwrap_or_default();
        match rights::rollback_refused(&differing, review.may) {
            Some(why) => Err(Error::forbidden(about(resource), &why)),
            None => Ok(()),
        }
    }

    fn warn_of_deletion(&self, review: &mut Review<'_>) {
        let governing = self.0.inner().governing.lock();
        let Some(governor) = governing.policies.get(review.resource.name) else {
            return;
        };
        let objects = match governor.head.len() {
            0 => None,
            1 => Some("1 object is".to_owned()),
            many => Some(format!("{many} objects are")),
        };
        let restored = governor.newest().and_then(|newest| newest.decided.restores);
        let instead = restored.map(|older| {
            format!(", as said here now, and not as release {older} had it, which was brought back")
        });
        review.warnings.extend(objects.map(|objects| {
            format!(
                "{objects} governed by no policy any more: all zones get what is here at once{}",
                instead.unwrap_or_default()
            )
        }));
        let catalog = self.0.inner().catalog.read();
        let waiting = governor.waiting(&catalog, &governing.zones);
        let count = |wanted| waiting.iter().filter(|one| **one == wanted).count();
        let (left, deleted) = (count(Withdrawal::Orphan), count(Withdrawal::Delete));
        if left > 0 {
            review.warnings.push(format!(
                "{left} objects were deleted here, and not yet in all zones: zones that have them keep them as their own"
            ));
        }
        if deleted > 0 {
            review.warnings.push(format!(
                "{deleted} objects were deleted here, and not yet in all zones: they are deleted there at once, since onWithdraw of their kind says so"
            ));
        }
    }

    /// Says what a graph leaves behind: as with kro, its kind and instances stay.
    fn warn_of_instances(&self, review: &mut Review<'_>) {
        let resource = review.resource;
        if (resource.group, resource.kind) != GRAPHS {
            return;
        }
        let graph = review.old.unwrap_or(&*review.object);
        if was_never_in_force(graph) {
            return;
        }
        let catalog = self.0.inner().catalog.read();
        if let Some((kind, count)) = instances(graph, &catalog).filter(|(_, count)| *count > 0) {
            let kind = kind.kind();
            review.warnings.push(format!(
                "the graph is in use: {count} instances of {kind} stay with all that was made for them, and nobody sees to them any more, here and in every zone that loses it"
            ));
        }
    }

    /// What policies govern goes on to cross, whatever a kind becomes: otherwise all zones would
    /// lose it at once, past every gate.
    fn withdrawal(
        &self,
        review: &Review<'_>,
        about: About<'_>,
        becomes: Option<&SyncedKind>,
    ) -> Result<(), Error> {
        let spec = review.old.map(|old| &old["spec"]);
        let field = |name: &str| spec.and_then(|spec| spec[name].as_str());
        let (group, kind) = (field("group").unwrap_or_default(), field("kind"));
        let Ok(kind) = SyncKind::new(group, kind.unwrap_or_default()) else {
            return Ok(());
        };
        let governing = self.0.inner().governing.lock();
        let governed = governing.policies.iter().find_map(|(name, governor)| {
            let objects = governor.head.iter().filter(|((of, _), _)| *of == kind);
            let lost =
                objects.filter(|(_, head)| !becomes.is_some_and(|one| goes_on(one, &kind, head)));
            Some((name, lost.count())).filter(|(_, count)| *count > 0)
        });
        match governed {
            None => Ok(()),
            Some((policy, count)) => {
                let why = format!(
                    "policy {policy} governs {count} objects of this kind, which all zones would lose sight of at once; change or delete the policy first: kubectl edit propagationpolicy {policy}"
                );
                Err(Error::forbidden(about, &why))
            }
        }
    }

    /// Warns of the objects that zones lose, or keep as their own, when a kind is not sent to them
    /// any more.
    fn warn_of_withdrawal(&self, review: &mut Review<'_>, becomes: Option<&SyncedKind>) {
        let Some(before) = review.old.and_then(|old| SyncedKind::of(old).ok()) else {
            return;
        };
        let count = {
            let catalog = self.0.inner().catalog.read();
            let entries = catalog.entries(&before.kind);
            let withdrawn = entries.filter(|(_, entry)| is_withdrawn(entry, becomes));
            withdrawn.count()
        };
        let kind = before.kind.kind();
        let (objects, are) = match count {
            0 => return,
            1 => (format!("1 {kind}"), "is"),
            many => (format!("{many} objects of kind {kind}"), "are"),
        };
        // Zones keep those that other objects of theirs need.
        let is_needed = [namespaces(), definitions()].contains(&before.kind);
        let withdrawal = match is_needed {
            true => Withdrawal::Orphan,
            false => becomes.unwrap_or(&before).withdrawal(),
        };
        review.warnings.push(match withdrawal {
            Withdrawal::Delete => format!(
                "{objects} {are} deleted in the zones that have a copy, within their deletion budgets, since spec.onWithdraw is Delete"
            ),
            Withdrawal::Orphan => {
                format!("{objects} {are} left to the zones that have a copy")
            }
        });
    }

    /// Whether a release is of a policy that is not there any more: the hub has no use for it.
    fn is_left_over(&self, review: &Review<'_>) -> bool {
        let uid = review.old.map(|old| &old["spec"]["policyUID"]);
        let governing = self.0.inner().governing.lock();
        let mut policies = governing.policies.values();
        uid.is_some_and(|uid| !policies.any(|one| *uid == one.uid))
    }

    /// Says who approved, and that it is about something.
    fn approval(&self, review: &mut Review<'_>) -> Result<(), Error> {
        let by = review.user.name.clone();
        let spec = &mut review.object["spec"];
        let policy = spec["policy"].as_str().unwrap_or_default().to_owned();
        let governing = self.0.inner().governing.lock();
        // It is for this policy, and for none that is called so later.
        let uid = governing
            .policies
            .get(&policy)
            .map(|known| known.uid.clone());
        if let Some(spec) = spec.as_object_mut() {
            spec.insert("approvedBy".to_owned(), by.into());
            spec.insert("policyUID".to_owned(), uid.clone().into());
        }
        let release = spec["release"].as_u64();
        let released = governing.policies.get(&policy).zip(release);
        let released = released.and_then(|(known, number)| known.releases.get(&number));
        if let Some(released) = released {
            // It goes when the release does, which goes with the policy at the latest.
            review.object["metadata"]["ownerReferences"] = json!([{
                "apiVersion": format!("{GROUP}/v1alpha1"), "kind": "Release",
                "name": format!("{policy}-{}", released.number), "uid": released.uid,
            }]);
        }
        let stage = review.object["spec"]["stage"].as_str();
        let problem = |path: &str, message: String, hint: String| Problem {
            path: path.to_owned(),
            message,
            hint: Some(hint),
        };
        let Some(governor) = governing.policies.get(&policy) else {
            let known: Vec<&str> = governing.policies.keys().map(String::as_str).collect();
            let message = format!("there is no policy {policy:?}");
            let hint = match known.as_slice() {
                [] => "there are none yet; create a PropagationPolicy first".to_owned(),
                known => format!("there are: {}", known.join(", ")),
            };
            let found = problem("spec.policy", message, hint);
            return Err(invalid(review.resource, &[found]));
        };
        let mut problems = Vec::new();
        if release.is_none_or(|release| !governor.releases.contains_key(&release)) {
            let newest = governor.releases.keys().next_back();
            let hint = match newest {
                Some(newest) => format!("the newest is {newest}"),
                None => "nothing was released yet".to_owned(),
            };
            let message = "the policy has no such release".to_owned();
            problems.push(problem("spec.release", message, hint));
        }
        if let Some(stage) = stage {
            let stages = governor.object["spec"]["stages"].as_array();
            let names: Vec<&str> = stages
                .into_iter()
                .flatten()
                .filter_map(|one| one["name"].as_str())
                .collect();
            if !names.contains(&stage) {
                let message = format!("the policy has no stage {stage:?}");
                let hint = match names.as_slice() {
                    [] => "it has no stages; leave spec.stage out".to_owned(),
                    names => format!("there are: {}", names.join(", ")),
                };
                problems.push(problem("spec.stage", message, hint));
            }
        }
        match problems.is_empty() {
            true => Ok(()),
            false => Err(invalid(review.resource, &problems)),
        }
    }

    /// The policy that is for an object, if any is.
    fn governed_by(&self, resource: Resource<'_>, object: &Value) -> Option<String> {
        let governing = self.0.inner().governing.lock();
        let about = Object {
            group: resource.group,
            kind: resource.kind,
            namespace: resource.namespace,
            name: resource.name,
            object: object.as_object()?,
        };
        let mut policies = governing.policies.iter();
        let (name, _) = policies.find(|(_, governor)| governor.includes(&about))?;
        Some(name.clone())
    }
}

impl Policing {
    /// Refuses a SyncedKind with the name of another kind than its own, which would take the objects
    /// of that one for its own, and warns of one whose kind is not served. The group and kind of one
    /// that is stored do not change.
    async fn check_served(&self, review: &mut Review<'_>) -> Result<(), Error> {
        let resource = review.resource;
        let is_kind = (resource.group, resource.plural) == (GROUP, "syncedkinds");
        let is_written = review.operation == Operation::Create && resource.subresource.is_empty();
        if is_kind && is_written && review.user.name != CONTROLLERS {
            match self.0.unserved(review.object).await {
                Some(error) if error.is_refused() => {
                    let name = resource.name;
                    let why = format!("SyncedKind {name} cannot be used: {error}");
                    return Err(Error::unprocessable(why));
                }
                unserved => {
                    let warning = unserved.map(|error| error.to_string());
                    review.warnings.extend(warning);
                }
            }
        }
        Ok(())
    }

    /// Warns of a definition that the hub does not accept (it is stored, and does not leave the hub), and of
    /// gates that never open.
    async fn warn_of_definition(&self, review: &mut Review<'_>) {
        let resource = review.resource;
        let is_definition = (resource.group, resource.kind) == GRAPHS;
        let is_written = review.operation != Operation::Delete && resource.subresource.is_empty();
        let same_spec = review
            .old
            .is_some_and(|old| old["spec"] == review.object["spec"]);
        if !is_definition || !is_written || same_spec || review.user.name == CONTROLLERS {
            return;
        }
        let findings = self.0.definition_findings(review.object).await;
        let problem = findings.problem.map(|problem| problem.warning());
        review.warnings.extend(problem);
        review.warnings.extend(findings.warnings);
    }
}

impl Admission for Policing {
    fn admit<'a>(&'a self, mut review: Review<'a>) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let group = review.resource.group;
            if (group, review.resource.plural) == (GROUP, "propagationpolicies")
                && asks_for_rollback(&review)
            {
                // It is judged by the releases that the user knows of.
                self.0.caught_up().await;
            }
            self.review(&mut review)?;
            self.warn_of_definition(&mut review).await;
            self.check_served(&mut review).await
        })
    }

    /// Whoever changed what a policy may govern, and then asks it whether all has propagated, is
    /// not told that what was before has.
    fn caught_up<'a>(
        &'a self,
        group: &str,
        plural: &str,
        revision: Revision,
    ) -> Option<BoxFuture<'a, ()>> {
        let known = self.0.inner().known.borrow().clone();
        let kind = known.synced(group, plural)?.kind.clone();
        let governing = self.0.inner().governing.lock();
        let mut policies = governing.policies.values();
        policies.any(|one| one.targets(&kind)).then(|| {
            Box::pin(async move {
                let said = self.0.said(&kind, revision.get());
                drop(tokio::time::timeout(LATE, said).await);
            }) as BoxFuture<'a, ()>
        })
    }
}

fn about(resource: Resource<'_>) -> About<'_> {
    About {
        group: resource.group,
        resource: resource.plural,
        name: resource.name,
    }
}

/// The older release that somebody asks for, as it is written.
fn asked(policy: Option<&Value>) -> Option<&str> {
    policy?["metadata"]["annotations"][ROLLBACK].as_str()
}

/// Returns true if a write asks to go back to an older release.
fn asks_for_rollback(review: &Review<'_>) -> bool {
    let now = asked(Some(&*review.object));
    now.is_some() && now != asked(review.old)
}

fn not_released_yet(instead: u64, newest: u64) -> Problem {
    Problem {
        path: format!("metadata.annotations[{ROLLBACK}]"),
        message: format!("there is no release {instead}"),
        hint: Some(format!("the newest is {newest}")),
    }
}

/// Refuses a policy by which its author would do what RBAC refuses to them.
pub(crate) fn authorize(
    resource: Resource<'_>,
    (old, new): (Option<&Value>, &Value),
    policy: &Policy,
    may: &UserRights<'_>,
) -> Result<(), Error> {
    let (old, new) = (old.map(|old| &old["spec"]), &new["spec"]);
    let overrides = rights::overrides_changed(old, new)
        .then(|| rights::overrides_refused(policy, may))
        .flatten();
    let refused = overrides.or_else(|| {
        rights::ready_when_changed(old, new)
            .then(|| rights::ready_when_refused(policy, may))
            .flatten()
    });
    match refused {
        Some(why) => Err(Error::forbidden(about(resource), &why)),
        None => Ok(()),
    }
}

/// What was asked for has not propagated, whatever was said before: who asks right after it must
/// not be told of what was before.
fn unsettle(policy: &mut Value, now: SystemTime) {
    let conditions = policy["status"]["conditions"].as_array_mut();
    let mut conditions = conditions.into_iter().flatten();
    let propagated = conditions.find(|one| one["type"] == "Propagated" && one["status"] == "True");
    if let Some(condition) = propagated {
        condition["status"] = "False".into();
        condition["reason"] = "NotReleased".into();
        condition["message"] = "an older release was asked for, and comes back as a new one".into();
        condition["lastTransitionTime"] = Time::from_system(now).to_string().into();
    }
}

/// Returns true if no revision of a graph was ever kept: the instances of the kind that it names are
/// of another graph, which has the kind.
fn was_never_in_force(graph: &Value) -> bool {
    let status = &graph["status"];
    let conditions = status["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    // A definition without a verdict may have instances before its status says so.
    let is_refused = conditions.any(|one| one["status"] == "False");
    is_refused && status["lastIssuedRevision"].is_null()
}

/// Whether an object that is governed goes to zones if its kind becomes this.
fn goes_on(becomes: &SyncedKind, kind: &SyncKind, head: &HeadObject) -> bool {
    let object: Value = serde_json::from_slice(&head.body).unwrap_or_default();
    becomes.kind == *kind && becomes.goes_down() && becomes.selects(&object)
}

fn too_long(name: &str) -> Problem {
    Problem {
        path: "metadata.name".to_owned(),
        message: format!("it has {} characters", name.len()),
        hint: Some(format!(
            "its releases are called after it, so that it can have {LONGEST_NAME}"
        )),
    }
}

fn refuse_fields(resource: Resource<'_>, errors: &[field::Error]) -> Result<(), Error> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(
        resource.group,
        resource.kind,
        resource.name,
        errors,
    ))
}

/// All that is wrong, as Kubernetes says it.
fn invalid(resource: Resource<'_>, problems: &[Problem]) -> Error {
    let errors = field_errors(problems);
    Error::invalid(resource.group, resource.kind, resource.name, &errors)
}

fn field_errors(problems: &[Problem]) -> Vec<field::Error> {
    let errors = problems.iter().map(|problem| {
        let detail = match &problem.hint {
            Some(hint) => format!("{} (hint: {hint})", problem.message),
            None => problem.message.clone(),
        };
        field::Error::forbidden(Path::new(&problem.path), detail)
    });
    errors.collect()
}

fn implied(policy: &Policy) -> Vec<Problem> {
    let targets = policy.targets.iter().enumerate();
    let implied = targets.filter(|(_, one)| {
        let kind = (one.group.as_str(), one.kind.as_str());
        IMPLIED.contains(&kind) || one.group == GROUP
    });
    let problem = |(index, one): (usize, &deltaplane_propagation::stages::Targets)| Problem {
        path: format!("spec.targets[{index}].kind"),
        message: format!(
            "{} goes where something needs it, and not in stages",
            one.kind
        ),
        hint: Some("name what needs it".to_owned()),
    };
    implied.map(problem).collect()
}

/// Zones are named in a warning as long as their names take so many bytes.
const NAMED: usize = 300;

fn stays(kind: &str) -> String {
    format!("{kind} does not cross the border: make a SyncedKind for it")
}

/// What looks like a mistake, and may become right.
fn doubts(crossing: &BTreeSet<SyncKind>, policy: &Policy, zones: &[Named<'_>]) -> Vec<String> {
    let mut doubts = Vec::new();
    if zones.is_empty() {
        doubts.push("spec.zones selects no zone".to_owned());
    }
    // Each zone is asked for once: there may be very many, and many stages.
    let mut members = vec![0; policy.stages.len()];
    let mut out: Vec<&str> = Vec::new();
    for (name, zone) in zones {
        match policy.stage_of(zone) {
            Some(stage) => members[stage] += 1,
            None => out.push(name),
        }
    }
    if !out.is_empty() {
        doubts.push(format!(
            "no stage is for {}; a last stage without a selector takes what is left",
            sets::brief(&out, NAMED)
        ));
    }
    let stages = policy.stages.iter().zip(members);
    let holds = |stage: &Stage| stage.no_evidence == NoEvidence::Hold;
    let empty =
        stages.filter(|(stage, members)| *members == 0 && !zones.is_empty() && holds(stage));
    doubts.extend(
        empty.map(|(stage, _)| format!("no zone is in stage {}: nothing passes it", stage.name)),
    );
    let selectors = policy.stages.iter().filter(|stage| !stage.zones.is_empty());
    if selectors.count() > 1 {
        let twice = zones.iter().find(|(_, zone)| {
            policy
                .stages_of(zone)
                .filter(|stage| !stage.zones.is_empty())
                .count()
                > 1
        });
        if let Some((zone, _)) = twice {
            doubts.push(format!(
                "several stages are for {zone}: it is in the first of them"
            ));
        }
    }
    for (index, target) in policy.targets.iter().enumerate() {
        let synced = crossing.iter();
        let mut synced =
            synced.filter(|kind| kind.group() == target.group && kind.kind() == target.kind);
        if synced.next().is_none() {
            doubts.push(format!("spec.targets[{index}]: {}", stays(&target.kind)));
        }
    }
    doubts
}

#[cfg(test)]
mod tests;
