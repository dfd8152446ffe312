//! A fleet in memory, with a clock that is moved by hand: what decides about real fleets decides
//! about this one.
//!
//! [`Fleet`] is a hub and its zones. A zone gets what the record admits it to once the record is
//! written, acknowledges it some time later, becomes ready some time after that or does something
//! worse, and says so, bound to exactly what it has; it holds what it has when nobody sends it
//! anything. [`Witness`] follows from outside and knows the rules in its own words: whatever breaks
//! one is found. [`scenario`] plays text files.
//!
//! Not here: real processes, the network, and anything that takes time (`e2e`, `xtask`).
//!
//! Invariants:
//! - Nothing happens but what was said and what follows from it: the same lines have the same
//!   outcome, to the letter.
//! - A zone never gets anything that is not written down.
//!
//! ```
//! let said = deltaplane_testkit::scenario::play(
//!     "$ zones eu-[1-3]\n$ release\n$ run\n$ where\n",
//! );
//! assert!(said.ends_with("$ where\n1: eu-[1-3]\n"));
//! ```

mod clock;
mod fleet;
mod node;
pub mod scenario;
mod witness;

pub use clock::{elapsed, moment};
pub use fleet::{Fleet, Lost, Made};
pub use node::{Delays, Nature};
pub use witness::Witness;
