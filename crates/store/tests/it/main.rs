//! The embedded driver against the contract, the model, and a failing disk.

// Marked as tests so that clippy lets their helpers unwrap.
#[cfg(test)]
mod adrift;
#[cfg(test)]
mod concurrency;
#[cfg(test)]
mod contract;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod history;
#[cfg(test)]
mod support;
