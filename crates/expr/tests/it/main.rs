//! Properties that hold for any expression and any data.

mod choices;
mod coverage;
mod generate;
mod host;
mod outcome;
mod properties;
mod typed;
mod world;
