//! Digests. They are bytes: text comes from `base64.encode` or `"%x".format`.

use md5::Md5;
use sha2::{Digest as _, Sha256};

use crate::cost::Cost;
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::meter::Meter;
use crate::value::Value;

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "hash.fnv64a",
        "hash.fnv64a_string",
        "(string) -> bytes",
        Cost::Scan,
        fnv64a,
    ),
    Row::new(
        "hash.sha256",
        "hash.sha256_string",
        "(string) -> bytes",
        Cost::Scan,
        sha256,
    ),
    Row::new(
        "hash.md5",
        "hash.md5_string",
        "(string) -> bytes",
        Cost::Scan,
        md5,
    ),
];

fn digest<'a>(
    meter: &mut Meter,
    args: &[Value<'a>],
    name: &str,
    digest: fn(&[u8]) -> Vec<u8>,
) -> Outcome<'a> {
    let [Value::String(text)] = args else {
        return Err(no_overload(name, args));
    };
    meter.step(text.as_str().len() as u64 / 16)?;
    Ok(Value::bytes(digest(text.as_str().as_bytes())))
}

fn fnv64a<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    digest(meter, args, "hash.fnv64a", |bytes| {
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        hash.to_be_bytes().to_vec()
    })
}

fn sha256<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    digest(meter, args, "hash.sha256", |bytes| {
        Sha256::digest(bytes).to_vec()
    })
}

fn md5<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    digest(meter, args, "hash.md5", |bytes| Md5::digest(bytes).to_vec())
}
