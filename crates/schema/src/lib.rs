//! What objects may look like and who owns which of their fields: schemas, field sets, server-side
//! apply and strategic merge patches.
//!
//! A [`Schema`] describes a kind, built-in ([`Definitions`]) or custom ([`crd::compile`]), and
//! validates, defaults and prunes its objects. Kinds that are defined by graphs have their schema
//! written in short ([`simple`]), a resource named by a plural ([`plural`]), and may not change in
//! ways that break objects ([`compat`]). PURE: no clock, environment, files or network.
//!
//! It is not an API server: it knows nothing of requests, storage or users, and it does not
//! evaluate expressions (`x-kubernetes-validations` are only carried).
//!
//! Invariants: texts of errors, the wire form of managed fields and the outcome of apply are those
//! of Kubernetes; no input panics or recurses without bound; what an operation leaves behind, the
//! same operation leaves unchanged (pruning, defaulting, applying).
//!
//! ```
//! use deltaplane_api::field::Path;
//! use deltaplane_schema::crd;
//! use serde_json::json;
//!
//! let schema = crd::compile(
//!     &json!({
//!         "type": "object",
//!         "properties": {"spec": {
//!             "type": "object",
//!             "required": ["image"],
//!             "properties": {"image": {"type": "string"}, "replicas": {"type": "integer", "default": 1}},
//!         }},
//!     }),
//!     &Path::root(),
//!     crd::Options::default(),
//! )
//! .map_err(|errors| errors[0].clone())?;
//!
//! let mut object = json!({"spec": {"imag": "web:1"}});
//! assert_eq!(schema.prune_reporting(&mut object), ["spec.imag"]);
//! schema.default(&mut object);
//! assert_eq!(object, json!({"spec": {"replicas": 1}}));
//! assert_eq!(schema.validate(&object, None)[0].to_string(), "spec.image: Required value");
//! # Ok::<(), deltaplane_api::field::Error>(())
//! ```

pub mod compat;
mod correlate;
pub mod crd;
mod decode;
mod default;
mod definitions;
mod depth;
pub mod field_path;
pub mod fieldset;
pub mod managed;
mod meta;
mod node;
mod order;
mod parse;
pub mod plural;
mod prune;
pub mod simple;
pub mod strategic;
pub mod typed;
pub mod updater;
mod validate;

pub use correlate::Keyed;
pub use decode::DecodeError;
pub use definitions::{Definitions, DefinitionsError};
pub use depth::{MAX_DEPTH, TooDeep, too_deep, too_deep_at};
pub use node::{Additional, Kind, ListType, MapType, Node, PatchStrategy, Schema, ValidationRule};
pub use validate::pattern::{Pattern, PatternBudget, compile_pattern, places};
