//! Properties that hold for any expression and any data.

mod generate;
mod host;
mod properties;
