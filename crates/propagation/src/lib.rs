//! Gates: what may change now, what may not yet and why, and when to look again.
//!
//! A change goes from item to item of a collection: zones, instances, nodes, items of a node. A
//! [`Gate`] is a list of expressions that must all be true for an item to be admitted to it.
//! [`pass`] asks it of a whole collection; [`rollout`] moves one from version to version. A
//! [`Calendar`] is a window that gates may ask for. None of these knows what the items are.
//! [`stages`] moves releases from zone to zone; [`readiness`] says of objects of Kubernetes APIs
//! how they fare.
//! PURE: no clock, environment, files or network.
//!
//! Invariants:
//! - What cannot be evaluated is closed, for that item alone, and says why.
//! - Every admission is seen by all that are asked after it: the number in flight stays within
//!   the budget at every moment of a pass.
//! - What was admitted stays so.
//! - The same question has the same answer, to the letter.
//!
//! ```
//! use deltaplane_expr::{Absent, Decl, Timestamp};
//! use deltaplane_propagation::{
//!     Gate, Health, Hold, Limits, Scope, Standing, Subject, Surroundings, Terms, Window, pass,
//! };
//!
//! let scope = Scope::new(Decl::dynamic(Absent::Waits).clone(), &["app"]).collection(&["apps"]);
//! let gate = Gate::compile(&["linearlyReady(app, apps, 1)"], scope)?;
//! let now = Timestamp::parse("2026-03-01T12:00:00Z").expect("a time");
//! let standing = Standing::Behind { health: Health::Ready { since: now }, hold: Hold::Free };
//! let subjects = ["a", "b"].map(|key| Subject { key, object: None, standing });
//! let given = Surroundings::new();
//! let terms = Terms {
//!     gate: &gate,
//!     order: None,
//!     given: &given,
//!     now,
//!     windows: &|_, _| Window { open: false, edge: None },
//!     limits: Limits::default(),
//! };
//! let answer = pass(&subjects, terms);
//! assert_eq!(answer.admitted, [0]);
//! assert_eq!(
//!     answer.blocked[0].verdict.to_string(),
//!     "closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 2 updated and ready",
//! );
//! # Ok::<(), deltaplane_propagation::GateProblems>(())
//! ```

mod alarm;
mod board;
mod bound;
mod count;
mod functions;
mod gate;
mod order;
mod pass;
pub mod readiness;
mod rollout;
mod scope;
mod seen;
pub mod stages;
mod subject;
mod verdict;
mod why;
mod window;
mod work;
mod world;

pub use deltaplane_expr::{Duration, Timestamp};

pub use bound::{Exceeded, InFlight};
pub use gate::{Gate, GateProblem, GateProblems, state_reads};
pub use order::{Order, Unordered};
pub use pass::{Answer, Blocked, Terms, pass};
pub use rollout::{Admission, Change, Counts, Course, Decision, Item, Report, Summary, rollout};
pub use scope::{Given, Scope, Surroundings};
pub use subject::{Health, Hold, Progress, Standing, Subject};
pub use verdict::{Place, Verdict};
pub use window::{Calendar, CalendarProblem, CalendarProblems, CalendarSpec};
pub use work::Limits;
pub use world::Window;
