//! From what is stored to what zones should have.

mod departures;
mod facts;
mod governing;
mod graphs;
mod hostile;
mod interleavings;
mod leaving;
mod memory;
mod plan;
mod projector;
mod propagated;
mod readiness;
mod rollbacks;
mod status;

mod staying;
mod unreadable;
mod withdrawals;
mod world;
