//! The two ends of a stream, with everything between them going wrong.

mod costs;
mod counting;
mod frozen;
mod hostile;
mod relays;
mod repairs;
mod secrets;
mod simulation;
mod streams;
mod world;
