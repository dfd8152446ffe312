//! The verbs, one module each. Every kind goes through the same code.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod part;
pub(crate) mod patch;
pub(crate) mod scale;
pub(crate) mod update;
pub(crate) mod watch;
pub(crate) mod write;
