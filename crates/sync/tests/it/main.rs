//! The two ends of a stream, with everything between them going wrong.

mod costs;
mod counting;
mod frozen;
mod hostile;
mod relays;
mod repairs;
mod simulation;
mod streams;
mod world;
