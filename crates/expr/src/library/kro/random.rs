//! What looks random and is the same for the same seed.

use sha2::{Digest as _, Sha256};

use crate::cost::Cost;
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::fault::Fault;
use crate::meter::Meter;
use crate::value::Value;

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "random.seededString",
        "random.seededString_int_string",
        "(int, string) -> string",
        Cost::Unit,
        seeded_string,
    ),
    Row::new(
        "random.seededInt",
        "random.seededInt_int_int_string",
        "(int, int, string) -> int",
        Cost::Unit,
        seeded_int,
    ),
];

const ALPHABET: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// Each character comes from four bytes of the seed's digest, which begin anew after eight: kro's
/// strings repeat with that period, and so do ours.
fn seeded_string<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Int(length), Value::String(seed)] = args else {
        return Err(no_overload("random.seededString", args));
    };
    let length = match usize::try_from(*length) {
        Ok(length) if length > 0 => length,
        Ok(_) | Err(_) => {
            return Err(Fault::invalid(
                "random.seededString length must be positive",
            ));
        }
    };
    meter.step(length as u64)?;
    let digest = Sha256::digest(seed.as_str().as_bytes());
    let period: Vec<char> = digest
        .chunks_exact(4)
        .map(|bytes| {
            let number = bytes
                .iter()
                .fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
            char::from(ALPHABET[number as usize % ALPHABET.len()])
        })
        .collect();
    Ok(Value::string(
        period.iter().cycle().take(length).collect::<String>(),
    ))
}

fn seeded_int<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Int(min), Value::Int(max), Value::String(seed)] = args else {
        return Err(no_overload("random.seededInt", args));
    };
    if min >= max {
        return Err(Fault::invalid(format!(
            "random.seededInt min ({min}) must be less than max ({max})"
        )));
    }
    let digest = Sha256::digest(seed.as_str().as_bytes());
    let number = digest
        .iter()
        .take(8)
        .fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let range = max.abs_diff(*min);
    let offset = i128::from(number % range);
    let result = i128::from(*min) + offset;
    Ok(Value::Int(i64::try_from(result).unwrap_or(*min)))
}
