//! The two ends of a stream, with everything between them going wrong.

mod relays;
mod repairs;
mod simulation;
mod streams;
mod world;
