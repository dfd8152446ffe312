//! Kubernetes' own functions.

pub(super) mod authorizer;
pub(super) mod cidr;
pub(super) mod format;
pub(super) mod ip;
pub(super) mod jsonpatch;
pub(super) mod lists;
pub(super) mod quantity;
pub(super) mod regex;
pub(super) mod semver;
pub(super) mod url;
