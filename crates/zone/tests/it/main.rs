//! Zones and their hub, each whole, connected over TLS as if they were far apart.

mod consumed;
mod divergence;
mod drift;
mod leaving;
mod losses;
mod misnamed;
mod query;
mod readiness;
mod reconcile;
mod rollback;
mod security;
mod streams;
mod uploads;
mod world;
