//! The finalizers that Kubernetes gives a meaning.

/// The object goes when its dependents no longer name it; they stay.
pub const ORPHAN: &str = "orphan";
/// The object goes when the dependents that block it are gone.
pub const FOREGROUND: &str = "foregroundDeletion";
/// A namespace goes when its content is gone.
pub const KUBERNETES: &str = "kubernetes";
/// A definition goes when the objects of its kind are gone.
pub const CUSTOM_RESOURCES: &str = "customresourcecleanup.apiextensions.k8s.io";
