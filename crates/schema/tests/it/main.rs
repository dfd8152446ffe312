//! Laws that hold for every input.

mod laws;
mod objects;
mod simple;
mod wild;
