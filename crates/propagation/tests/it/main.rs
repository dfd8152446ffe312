//! Gates, passes, rollouts and windows, as scenarios and as properties.

mod fleet;
mod passes;
mod problems;
mod properties;
mod rollouts;
mod times;
mod windows;
