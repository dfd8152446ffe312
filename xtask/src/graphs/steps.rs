//! All steps, in their order: each begins with what those before it left.

use anyhow::Result;

use super::stage::{On, Stage};
use super::{author, examples, fleet, gates, kinds, life, rights, rollout, shapes, told};

/// What is seen, where, and how.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) on: &'static [On],
    pub(super) run: fn(&mut Stage) -> Result<()>,
}

pub(super) const ALL: &[On] = &[On::Up, On::Zone, On::Kubernetes];
pub(super) const HUB: &[On] = &[On::Up, On::Zone];
const ZONE: &[On] = &[On::Zone];
const CLUSTER: &[On] = &[On::Kubernetes];

const fn step(on: &'static [On], name: &'static str, run: fn(&mut Stage) -> Result<()>) -> Step {
    Step { name, on, run }
}

#[rustfmt::skip]
pub(super) const STEPS: &[Step] = &[
    step(CLUSTER, "the runner has an account with the rights that its graphs need", rights::granted),
    step(CLUSTER, "the runner waits for a cluster that is away", rights::waits),
    step(ALL, "a definition becomes a kind", life::defined),
    step(HUB, "a definition at the hub reaches every zone, and the hub runs nothing", fleet::authored),
    step(ALL, "an instance becomes its objects, in order", life::made),
    step(ALL, "while nothing changes nothing is asked", life::quiet),
    step(ALL, "what is changed or deleted comes back", life::mended),
    step(ALL, "instances move one by one, and the others go on as they are", rollout::moves),
    step(ALL, "instances stop where one fails", rollout::stops),
    step(ALL, "it is said why they do not move", told::stopped),
    step(ALL, "a new instance begins with what all others reached", rollout::newcomer),
    step(ALL, "a newer change takes over", rollout::overtaken),
    step(ALL, "what is undone goes back through the gate", rollout::undone),
    step(ALL, "who is held stays, and nobody moves while it is paused", rollout::held),
    step(ALL, "an invalid edit leaves the last good revision in force", rollout::invalid),
    step(ALL, "kill -9 in the midst loses and repeats nothing", life::killed),
    step(ALL, "kill -9 in the midst of an end leaves nothing", life::killed_again),
    step(ALL, "kill -9 lets nobody past a gate", rollout::killed),
    step(CLUSTER, "the runner survives a restart of the API server", rights::restarted),
    step(ZONE, "the zone goes on without its hub", fleet::alone),
    step(ALL, "an instance goes in reverse order", life::ended),
    step(ALL, "objects of others are waited for and followed", shapes::refers),
    step(ALL, "objects come and go with what an instance says", shapes::includes),
    step(ALL, "a collection has a thousand items", shapes::crowds),
    step(ALL, "a kind of instances that is deleted comes back", kinds::of_instances),
    step(ALL, "a kind of objects that is deleted is waited for", kinds::of_objects),
    step(CLUSTER, "a kind that may not be followed stops its graph alone", rights::unfollowed),
    step(CLUSTER, "a kind that may be followed again is gone on with", rights::unmade),
    step(ALL, "an author of a graph gains no rights", author::gains_nothing),
    step(ALL, "an author of a graph names no account of others", author::names_no_account),
    step(ALL, "the gate of a node keeps it as it is", gates::of_nodes),
    step(ALL, "items move two at a time", gates::of_items),
    step(ALL, "instances move in growing waves", gates::waves),
    step(ALL, "instances wait until others were ready for a time", gates::patient),
    step(ALL, "instances can be deleted when their definition is gone", life::orphaned),
    step(ALL, "kro's examples run as they are", examples::run),
];
