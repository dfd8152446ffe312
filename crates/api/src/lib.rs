//! The object model that every other crate speaks: kinds, names, selectors, quantities,
//! identities, time, and the errors about fields that users see.
//!
//! It is not a client and not a server, and it knows nothing of schemas; it is PURE: no clock,
//! environment, files or network.
//!
//! Invariants: a value of a parsed type ([`selector::LabelSelector`], [`kind::ApiVersion`], …) is
//! valid; error texts are those of Kubernetes, because clients compare them.
//!
//! ```
//! use deltaplane_api::selector::LabelSelector;
//!
//! let selector: LabelSelector = "app in (web, api), !canary".parse()?;
//! assert!(selector.matches(|key| (key == "app").then_some("web")));
//! # Ok::<(), deltaplane_api::selector::ParseError>(())
//! ```

pub mod admission;
pub mod approval;
pub mod computed;
pub mod conditions;
pub mod default_roles;
pub mod field;
pub mod finalizers;
pub mod headers;
pub mod identity;
pub mod jobs;
pub mod json;
pub mod keys;
pub mod kind;
pub mod names;
pub mod quantity;
pub mod selector;
pub mod time;
