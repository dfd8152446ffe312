//! kro's own functions, with kro's results.

mod hash;
mod json;
mod lists;
mod maps;
mod omit;
mod random;
mod runtime;

use crate::env::Row;

pub use omit::is_omitted;
pub use runtime::CONDITION;
pub(super) use runtime::FIELDS as CONDITION_FIELDS;

pub(super) const TABLES: &[&[Row]] = &[
    hash::ROWS,
    json::ROWS,
    lists::ROWS,
    maps::ROWS,
    random::ROWS,
    runtime::ROWS,
];
/// `omit()`, where it is allowed.
pub(super) const OMIT: &[&[Row]] = &[omit::ROWS];
