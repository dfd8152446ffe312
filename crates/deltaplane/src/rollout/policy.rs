//! The rollouts of policies: how far releases are on their way through the fleet, what holds them,
//! and the ways to stop, resume, approve and take them back.
//!
//! The hub says how it stands (`…/_rollout`, in `told`); how it looks is pure (`shown`, `why`,
//! `history`, `replay`).

mod act;
mod ask;
mod error;
mod history;
mod replay;
mod shown;
#[cfg(test)]
mod tests;
mod told;
mod watch;
mod why;

pub(super) use act::{Yes, approve, pause, resume, rollback};
pub(super) use ask::{Found, Policies, history, replay, status, why};
pub(crate) use error::PolicyError;
pub(super) use watch::{Ends, run as watch};
