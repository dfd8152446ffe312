//! Graphs: what a ResourceGraphDefinition means.
//!
//! [`Definition::read`] takes a definition apart, [`compile`] makes a [`Graph`] of it: nodes in the
//! order of their dependencies, templates whose expressions are checked and compiled, the
//! CustomResourceDefinition of the kind that it defines. Or it says all that is wrong, each with
//! its place in the document and in the expression. What definitions mean is kro's contract; gates
//! (`propagateWhen`, `orderBy`) are ours.
//!
//! PURE: no clock, environment, files or network. Kinds are looked up by the caller
//! ([`Definition::kinds`], [`Lookup`]); nothing is applied here.
//!
//! Invariants: the same definition and kinds give the same graph; no definition makes it panic,
//! recurse without bound or work out of proportion to its size; a graph never changes.
//!
//! ```
//! use std::sync::Arc;
//! use deltaplane_graph::{Definition, Gvk, Known, Lookup, compile};
//! use deltaplane_schema::Schema;
//! use serde_json::json;
//!
//! let definition = Definition::read(&json!({"spec": {
//!     "schema": {"kind": "App", "apiVersion": "v1", "spec": {"name": "string"}},
//!     "resources": [{"id": "config", "template": {
//!         "apiVersion": "v1", "kind": "ConfigMap",
//!         "metadata": {"name": "${schema.spec.name}"},
//!     }}],
//! }}))?;
//! let lookup = |gvk: &Gvk| {
//!     Lookup::Known(Arc::new(Known::new(gvk.clone(), "configmaps", true, Schema::deduced())))
//! };
//! let graph = compile(&definition, &lookup)?;
//! assert_eq!(graph.order().collect::<Vec<_>>(), ["config"]);
//! assert_eq!(graph.crd()["metadata"]["name"], "apps.kro.run");
//!
//! let wrong = Definition::read(&json!({"spec": {"schema": {"kind": "App"}}})).unwrap_err();
//! assert_eq!(wrong.to_string(), "spec.schema.apiVersion: it is required");
//! # Ok::<(), deltaplane_graph::Problems>(())
//! ```

mod compile;
mod crd;
mod definition;
mod digest;
mod gates;
mod gojson;
mod graph;
mod hash;
mod kinds;
pub mod labels;
mod mask;
mod near;
pub mod observed;
mod owned;
pub mod plan;
mod problem;
mod stored;
mod template;

pub use compile::compile;
pub use crd::Owner;
pub use definition::{Body, Definition, GateText, Instance, Metadata, Reference, Resource, Target};
pub use gates::{Gate, GateExpression};
pub use graph::{Condition, Dimension, Graph, GraphKind, Node, NodeIndex, Role, Version};
pub use kinds::{Gvk, Known, Lookup};
pub use mask::FieldMask;
pub use near::did_you_mean;
pub use owned::extract as extract_owned;
pub use problem::{Excerpt, Problem, Problems};
pub use stored::{ObjectNeeds, StoredObject};
pub use template::{Filled, Form, Hole, Reads, Spot, Step, Template, Unfilled};
