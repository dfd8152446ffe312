//! Rollouts of policies as data.
