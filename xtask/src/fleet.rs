//! Fleets to measure: what a hub is asked to have, and zones that are nothing but their end of the
//! connection.

pub(crate) mod authored;
mod figures;
mod simulated;
mod versions;
mod zones;

pub(crate) use figures::{Spread, millis};
pub(crate) use versions::Memory;
pub(crate) use zones::Zones;
