//! End-to-end tests: the real binary, driven by its real clients.
//!
//! - `kubectl`: transcripts of sessions with kubectl, one file each;
//! - `watching`: kubectl while things change;
//! - `life`: starting, stopping, killing;
//! - `zones`: a hub and its zones;
//! - `controller`: a kube-rs controller, over TLS and in process.

mod controller;
mod kubectl;
mod life;
mod watching;
mod zones;
