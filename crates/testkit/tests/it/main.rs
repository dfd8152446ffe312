//! Scenarios, and what holds whatever happens.

mod scenarios;
