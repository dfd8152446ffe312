//! Annotations of ours that users write, and that cross with the objects they are on.

/// On an instance: it stays as it is until this time, or, if it is none, until it is taken away.
pub const HOLD: &str = "deltaplane.io/hold";
/// On a workload: what a zone that simulates workloads makes of it.
pub const SIMULATE: &str = "deltaplane.io/simulate";
/// On the definition of a graph: none of its instances may move for now, unless it says `false`.
pub const PAUSED: &str = "deltaplane.io/paused";
