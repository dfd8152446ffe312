//! Scenarios, and what holds whatever happens.

mod properties;
mod scenarios;
mod sizes;
