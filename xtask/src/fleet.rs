//! Fleets to measure: what a hub is asked to have, and zones that are nothing but their end of the
//! connection.

pub(crate) mod authored;
mod faring;
mod figures;
mod simulated;
mod versions;
mod witness;
mod zones;

pub(crate) use faring::Manner;
pub(crate) use figures::{Spread, millis};
pub(crate) use versions::Memory;
pub(crate) use witness::{Happened, Seen, Witness};
pub(crate) use zones::{Fleet, Zones};
