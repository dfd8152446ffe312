//! The wiring of a hub.
mod certificate;
mod listener;
