//! End-to-end tests: the real binary, driven by its real clients.
//!
//! - `kubectl`: transcripts of sessions with kubectl, one file each;
//! - `watching`: kubectl while things change;
//! - `life`: starting, stopping, killing;
//! - `zones`: a hub and its zones in one process, with kubectl;
//! - `hostile`: zones that do not keep to the rules;
//! - `rollout`: the commands of a rollout, in a zone and at its hub;
//! - `policies`: policies with our own commands, a fleet each; `session` plays them;
//! - `tour`: the tour of the examples, as it is told;
//! - `fleet`: in processes of their own, that are killed, cut off and renewed;
//! - `full_disk`: a hub, and hub and zones in one process, that are started where nothing can be written;
//! - `restore`: a hub that is restored to an earlier state, and three zones that are ahead of it;
//! - `controller`: a kube-rs controller, over TLS and in process.

mod controller;
mod fleet;
mod full_disk;
mod hostile;
mod kubectl;
mod life;
mod policies;
mod restore;
mod rollout;
mod session;
mod tour;
mod watching;
mod zones;
