//! Keys of JSON pointers.

use crate::cost::Cost;
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::meter::Meter;
use crate::value::Value;

pub(in crate::library) const TABLES: &[&[Row]] = &[&[Row::new(
    "jsonpatch.escapeKey",
    "string_jsonpatch_escapeKey_string",
    "(string) -> string",
    Cost::Scan,
    escape_key,
)]];

fn escape_key<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(key)] => Ok(Value::string(
            key.as_str().replace('~', "~0").replace('/', "~1"),
        )),
        _ => Err(no_overload("jsonpatch.escapeKey", args)),
    }
}
