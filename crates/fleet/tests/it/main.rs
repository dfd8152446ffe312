//! From what is stored to what zones should have.

mod interleavings;
mod leaving;
mod projector;
mod status;
mod world;
