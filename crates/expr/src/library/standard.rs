//! The standard library.

pub(crate) mod arithmetic;
pub(crate) mod containers;
pub(crate) mod conversions;
pub(crate) mod order;
pub(crate) mod strings;
mod times;

use crate::env::Row;

pub(super) const TABLES: &[&[Row]] = &[
    arithmetic::ROWS,
    order::ROWS,
    containers::ROWS,
    conversions::ROWS,
    strings::ROWS,
    times::ROWS,
];
