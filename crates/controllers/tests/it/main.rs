//! The controllers against a real API server, in process.

mod accounts;
mod definitions;
mod events;
mod garbage;
mod gate;
mod graphs;
mod namespaces;
mod roles;
mod simulator;
mod steady;
mod world;
