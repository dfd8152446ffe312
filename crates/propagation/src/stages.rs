//! The scale of the fleet: releases of a policy go through its stages, from zone to zone.
//!
//! [`Policy`] is what a user wrote, compiled; [`Situation`] all that is known at one moment;
//! [`decide`] says what becomes of it: a new [`Record`], which is written down before it takes
//! effect, and what is told of each stage. Nothing else decides.
//!
//! Not here: what a release holds, how it reaches a zone, how it is known how a zone fares.
//!
//! Invariants:
//! - A zone is admitted to a release only in its stage, and only to one that the stage took: the
//!   first takes the newest, each later one the newest that completed the one before.
//! - No zone goes to a lower release than it was admitted to.
//! - What a zone says counts only for exactly what it was admitted to.
//! - While a policy is paused nothing is admitted, taken, completed or rolled back.

mod compiled;
mod decide;
mod facts;
mod inputs;
mod members;
mod moving;
mod openings;
mod problem;
mod record;
pub mod sets;
mod share;
mod simulate;
mod situation;
mod spec;
mod standing;
mod summary;
mod told;

pub use compiled::{Approval, Object, Policy, Stage, Targets};
pub use decide::{Effect, Outcome, authors_for_stage, counts, decide};
pub use facts::{
    ContentFacts, Fared, HeadFacts, PolicyFacts, RECONCILED, RELEASE_FLOOR, RESUME, ROLLBACK,
    ReportFacts, RollbackCause, RolledBack, UnreadableInput, ZoneFacts, asked_for, rollback_of,
};
pub use inputs::Inputs;
pub use openings::{constantly_closed, stuck, unordered};
pub use problem::Problem;
pub use record::{Admitted, Advance, Class, Evidence, Mark, Past, Phase, Progress, Record, Target};
pub use share::Share;
pub use simulate::{Beginning, Simulation, Wave, foresee, simulate};
pub use situation::{
    Approved, ContentId, Forgiven, Link, Release, Removes, Situation, State, Zone, ZoneReport,
};
pub use spec::{BudgetSpec, NoEvidence, OnFailure, OnNewer, PolicySpec, TargetSpec};
pub use standing::{Standing, ZoneTold, zones};
pub use summary::{Propagated, problems, progress, rolled_back};
pub use told::{Counted, Refusal, StageTold, Waiting, cut};
