//! From what is stored to what zones should have.

mod interleavings;
mod projector;
mod world;
