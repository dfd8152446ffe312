//! What evaluating costs, in cel-go's and Kubernetes' units: counted at run time, and estimated
//! beforehand from the bounds of schemas.

mod estimate;
mod interval;

use crate::fault::Fault;
use crate::meter::Meter;
use crate::value::Value;

pub use estimate::estimate;
pub use interval::Interval;

/// How a call is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Nothing.
    Free,
    /// One.
    Unit,
    /// A fixed amount.
    Fixed(u64),
    /// By the characters of the first argument; the result is as long.
    Scan,
    /// By the characters of the first argument.
    Parse,
    /// Twice that.
    ParseTwice,
    /// By the characters of the argument at run time; beforehand of the second.
    Prefix,
    /// String to bytes and back.
    ToBytes,
    FromBytes,
    Quote,
    Format,
    /// By the items of the second argument.
    InList,
    /// By the smaller of both.
    Compare,
    /// By both together.
    Concatenate,
    AddLists,
    /// By both multiplied.
    Matches,
    Find,
    Contains,
    /// Going through all of the first argument.
    Traverse,
    Replace,
    Split,
    Join,
    ContainsIp,
    ContainsIpString,
    ContainsCidr,
    ContainsCidrString,
    Validate,
    Selector,
    /// One list within another, as often as the factor says.
    Sets(u64),
    /// By the items of the result.
    ListCopy,
    /// By the items of the first argument, squared: all are compared with all.
    SelfCompare,
    /// By the items of the first argument, for each level.
    Flatten,
}

/// A tenth for each character.
const TRAVERSAL: f64 = 0.1;
/// A quarter for each character of a pattern.
const REGEX: f64 = 0.25;
/// The longest pattern of a named format.
pub(crate) const MAX_FORMAT_REGEX: u64 = 128;

impl Cost {
    /// Whether the cost is known by the function's name alone.
    pub(crate) fn is_by_function(self) -> bool {
        match self {
            Self::Fixed(_)
            | Self::Scan
            | Self::Parse
            | Self::ParseTwice
            | Self::Find
            | Self::Traverse
            | Self::Replace
            | Self::Split
            | Self::Join
            | Self::Validate
            | Self::Selector => true,
            Self::Free
            | Self::Unit
            | Self::Prefix
            | Self::ToBytes
            | Self::FromBytes
            | Self::Quote
            | Self::Format
            | Self::InList
            | Self::Compare
            | Self::Concatenate
            | Self::AddLists
            | Self::Matches
            | Self::Contains
            | Self::ContainsIp
            | Self::ContainsIpString
            | Self::ContainsCidr
            | Self::ContainsCidrString
            | Self::Sets(_)
            | Self::ListCopy
            | Self::SelfCompare
            | Self::Flatten => false,
        }
    }
}

/// What a call has cost. Finding out is work, too, where a value has to be gone through.
pub(crate) fn runtime(
    meter: &mut Meter,
    cost: Cost,
    args: &[Value<'_>],
    result: &Value<'_>,
) -> Result<u64, Box<Fault>> {
    match (cost, args.first()) {
        (Cost::Traverse, Some(first)) => traversal(meter, first),
        (cost, _) => Ok(by_sizes(cost, args, result)),
    }
}

fn by_sizes(cost: Cost, args: &[Value<'_>], result: &Value<'_>) -> u64 {
    let size = |index: usize| args.get(index).map_or(1, Value::cost_size);
    match cost {
        Cost::Free | Cost::Traverse => 0,
        Cost::Unit | Cost::AddLists => 1,
        Cost::Fixed(amount) => amount,
        Cost::Scan
        | Cost::Parse
        | Cost::Prefix
        | Cost::ToBytes
        | Cost::FromBytes
        | Cost::Quote
        | Cost::Format => scan(size(0)),
        Cost::ParseTwice | Cost::Replace | Cost::Split => ceil(float(size(0)) * 2.0 * TRAVERSAL),
        Cost::Join => ceil(float(result.cost_size()) * 2.0 * TRAVERSAL),
        Cost::InList => size(1),
        Cost::Compare => scan(size(0).min(size(1))),
        Cost::Concatenate => scan(size(0).saturating_add(size(1))),
        Cost::Matches | Cost::Find => regex_cost(size(0), size(1)),
        Cost::Contains => scan(size(0)).saturating_mul(scan(size(1))),
        Cost::ContainsIp => scan(2 * size(0)),
        Cost::ContainsIpString => scan(2 * size(0)) + scan(size(1)),
        Cost::ContainsCidr => scan(2 * size(0)) + scan(size(0)) + 1,
        Cost::ContainsCidrString => scan(2 * size(0)) + scan(size(0)) + 1 + scan(size(1)),
        Cost::Validate if !matches!(args.first(), Some(Value::Opaque(_))) => 1,
        Cost::Validate => {
            // The first argument is a format; its size is that of its longest pattern.
            let text = ceil((1.0 + float(size(1))) * TRAVERSAL);
            text.saturating_mul(ceil(float(size(0)) * REGEX))
        }
        Cost::Selector => {
            let requirements = ceil(float(size(1)) * 0.5);
            10 + scan(size(1)) + requirements.saturating_mul(50)
        }
        Cost::Sets(factor) => size(0)
            .saturating_mul(size(1))
            .saturating_mul(factor)
            .saturating_add(1),
        Cost::ListCopy => allocating(1.0, result.cost_size()),
        Cost::Flatten => {
            let depth = args.get(1).and_then(Value::as_int).unwrap_or(1);
            allocating(float(u64::try_from(depth).unwrap_or(0)), size(0))
        }
        Cost::SelfCompare => {
            let texts = match args.first() {
                Some(Value::List(list)) => {
                    matches!(list.get(0), Ok(Some(Value::String(_) | Value::Bytes(_))))
                }
                _ => false,
            };
            self_compare(size(0), texts)
        }
    }
}

/// The cost of a call that makes a list.
fn allocating(factor: f64, size: u64) -> u64 {
    floor(float(size) * factor).saturating_add(1 + 10)
}

/// The cost of comparing all items of a list with each other.
pub(crate) fn self_compare(size: u64, texts: bool) -> u64 {
    allocating(if texts { 2.1 } else { 2.0 }, size.saturating_mul(size))
}

pub(crate) fn regex_cost(text: u64, pattern: u64) -> u64 {
    let text = ceil((1.0 + float(text)) * TRAVERSAL);
    text.saturating_mul(ceil(float(pattern) * REGEX))
}

/// A tenth of the size, rounded up.
pub(crate) fn scan(size: u64) -> u64 {
    if size <= 10 {
        return u64::from(size > 0);
    }
    ceil(float(size) * TRAVERSAL)
}

/// [`scan`] of the shorter text, without counting characters where their number does not matter.
pub(crate) fn scan_texts(a: &str, b: &str) -> u64 {
    if a.len().min(b.len()) <= 10 {
        return u64::from(!a.is_empty() && !b.is_empty());
    }
    scan(a.chars().count().min(b.chars().count()) as u64)
}

fn traversal(meter: &mut Meter, value: &Value<'_>) -> Result<u64, Box<Fault>> {
    meter.step(1)?;
    Ok(match value {
        Value::String(text) => floor(float(text.as_str().len() as u64) * TRAVERSAL),
        Value::Bytes(bytes) => floor(float(bytes.len() as u64) * TRAVERSAL),
        Value::List(list) => {
            // A list's items are looked at anyway; one that cannot be read ends the evaluation.
            let mut sum = 0_u64;
            for item in list.iter().filter_map(Result::ok) {
                sum = sum.saturating_add(traversal(meter, &item)?);
            }
            sum
        }
        Value::Map(map) => {
            let mut sum = 0_u64;
            for key in map.keys() {
                sum = sum.saturating_add(traversal(meter, &key)?);
                if let Some(value) = map.get(&key).ok().flatten() {
                    sum = sum.saturating_add(traversal(meter, &value)?);
                }
            }
            sum
        }
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::Double(_)
        | Value::Timestamp(_)
        | Value::Duration(_)
        | Value::Type(_)
        | Value::Optional(_)
        | Value::Opaque(_)
        | Value::Host(_) => 1,
    })
}

#[expect(
    clippy::cast_precision_loss,
    reason = "sizes are far below 2^53, as in cel-go"
)]
fn float(size: u64) -> f64 {
    size as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "never negative; what is too large saturates"
)]
fn ceil(value: f64) -> u64 {
    value.ceil() as u64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "never negative; what is too large saturates"
)]
fn floor(value: f64) -> u64 {
    value as u64
}
