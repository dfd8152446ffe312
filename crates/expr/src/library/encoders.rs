//! Base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::cost::Cost;
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::fault::Fault;
use crate::gotext::{decode_base64, decode_raw_base64};
use crate::meter::Meter;
use crate::value::Value;

pub(super) const TABLES: &[&[Row]] = &[ROWS];

const ROWS: &[Row] = &[
    Row::new(
        "base64.decode",
        "base64_decode_string",
        "(string) -> bytes",
        Cost::Unit,
        decode,
    ),
    Row::new(
        "base64.encode",
        "base64_encode_bytes",
        "(bytes) -> string",
        Cost::Unit,
        encode,
    ),
];

/// With padding or without.
fn decode<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text)] = args else {
        return Err(no_overload("base64.decode", args));
    };
    let text = text.as_str();
    match decode_base64(text).or_else(|_| decode_raw_base64(text)) {
        Ok(bytes) => Ok(Value::bytes(bytes)),
        Err(why) => Err(Fault::invalid(format!("illegal base64 data: {why}"))),
    }
}

fn encode<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Bytes(bytes)] => Ok(Value::string(STANDARD.encode(bytes))),
        _ => Err(no_overload("base64.encode", args)),
    }
}
