//! Numbers.

use crate::cost::Cost;
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::fault::{Fault, Reason};
use crate::meter::Meter;
use crate::value::{Value, compare};

pub(super) const TABLES: &[&[Row]] = &[ROWS];

const ROWS: &[Row] = &[
    Row::new(
        "math.@min",
        "math_@min_double",
        "(double) -> double",
        Cost::Unit,
        min,
    ),
    Row::new(
        "math.@min",
        "math_@min_int",
        "(int) -> int",
        Cost::Unit,
        min,
    ),
    Row::new(
        "math.@min",
        "math_@min_uint",
        "(uint) -> uint",
        Cost::Unit,
        min,
    ),
    Row::new(
        "math.@min",
        "math_@min_double_double",
        "(double, double) -> double",
        Cost::Unit,
        min,
    ),
    Row::new(
        "math.@min",
        "math_@min_int_int",
        "(int, int) -> int",
        Cost::Unit,
        min,
    ),
    Row::new(
        "math.@min",
        "math_@min_uint_uint",
        "(uint, uint) -> uint",
        Cost::Unit,
        min,
    ),
    Row::new(
        "math.@min",
        "math_@min_double_int",
        "(double, int) -> dyn",
        Cost::Unit,
        min,
    ),
    Row::new(
        "math.@min",
        "math_@min_double_uint",
        "(double, uint) -> dyn",
        Cost::Unit,
        min,
    ),
    Row::new(
        "math.@min",
        "math_@min_int_double",
        "(int, double) -> dyn",
        Cost::Unit,
        min,
    ),
    Row::new(
        "math.@min",
        "math_@min_int_uint",
        "(int, uint) -> dyn",
        Cost::Unit,
        min,
    ),
    Row::new(
        "math.@min",
        "math_@min_uint_double",
        "(uint, double) -> dyn",
        Cost::Unit,
        min,
    ),
    Row::new(
        "math.@min",
        "math_@min_uint_int",
        "(uint, int) -> dyn",
        Cost::Unit,
        min,
    ),
    Row::new(
        "math.@min",
        "math_@min_list_double",
        "(list(double)) -> double",
        Cost::Unit,
        min,
    ),
    Row::new(
        "math.@min",
        "math_@min_list_int",
        "(list(int)) -> int",
        Cost::Unit,
        min,
    ),
    Row::new(
        "math.@min",
        "math_@min_list_uint",
        "(list(uint)) -> uint",
        Cost::Unit,
        min,
    ),
    Row::new(
        "math.@max",
        "math_@max_double",
        "(double) -> double",
        Cost::Unit,
        max,
    ),
    Row::new(
        "math.@max",
        "math_@max_int",
        "(int) -> int",
        Cost::Unit,
        max,
    ),
    Row::new(
        "math.@max",
        "math_@max_uint",
        "(uint) -> uint",
        Cost::Unit,
        max,
    ),
    Row::new(
        "math.@max",
        "math_@max_double_double",
        "(double, double) -> double",
        Cost::Unit,
        max,
    ),
    Row::new(
        "math.@max",
        "math_@max_int_int",
        "(int, int) -> int",
        Cost::Unit,
        max,
    ),
    Row::new(
        "math.@max",
        "math_@max_uint_uint",
        "(uint, uint) -> uint",
        Cost::Unit,
        max,
    ),
    Row::new(
        "math.@max",
        "math_@max_double_int",
        "(double, int) -> dyn",
        Cost::Unit,
        max,
    ),
    Row::new(
        "math.@max",
        "math_@max_double_uint",
        "(double, uint) -> dyn",
        Cost::Unit,
        max,
    ),
    Row::new(
        "math.@max",
        "math_@max_int_double",
        "(int, double) -> dyn",
        Cost::Unit,
        max,
    ),
    Row::new(
        "math.@max",
        "math_@max_int_uint",
        "(int, uint) -> dyn",
        Cost::Unit,
        max,
    ),
    Row::new(
        "math.@max",
        "math_@max_uint_double",
        "(uint, double) -> dyn",
        Cost::Unit,
        max,
    ),
    Row::new(
        "math.@max",
        "math_@max_uint_int",
        "(uint, int) -> dyn",
        Cost::Unit,
        max,
    ),
    Row::new(
        "math.@max",
        "math_@max_list_double",
        "(list(double)) -> double",
        Cost::Unit,
        max,
    ),
    Row::new(
        "math.@max",
        "math_@max_list_int",
        "(list(int)) -> int",
        Cost::Unit,
        max,
    ),
    Row::new(
        "math.@max",
        "math_@max_list_uint",
        "(list(uint)) -> uint",
        Cost::Unit,
        max,
    ),
    Row::new(
        "math.ceil",
        "math_ceil_double",
        "(double) -> double",
        Cost::Unit,
        ceil,
    ),
    Row::new(
        "math.floor",
        "math_floor_double",
        "(double) -> double",
        Cost::Unit,
        floor,
    ),
    Row::new(
        "math.round",
        "math_round_double",
        "(double) -> double",
        Cost::Unit,
        round,
    ),
    Row::new(
        "math.trunc",
        "math_trunc_double",
        "(double) -> double",
        Cost::Unit,
        trunc,
    ),
    Row::new(
        "math.isInf",
        "math_isInf_double",
        "(double) -> bool",
        Cost::Unit,
        is_inf,
    ),
    Row::new(
        "math.isNaN",
        "math_isNaN_double",
        "(double) -> bool",
        Cost::Unit,
        is_nan,
    ),
    Row::new(
        "math.isFinite",
        "math_isFinite_double",
        "(double) -> bool",
        Cost::Unit,
        is_finite,
    ),
    Row::new(
        "math.abs",
        "math_abs_double",
        "(double) -> double",
        Cost::Unit,
        abs,
    ),
    Row::new("math.abs", "math_abs_int", "(int) -> int", Cost::Unit, abs),
    Row::new(
        "math.abs",
        "math_abs_uint",
        "(uint) -> uint",
        Cost::Unit,
        abs,
    ),
    Row::new(
        "math.sign",
        "math_sign_double",
        "(double) -> double",
        Cost::Unit,
        sign,
    ),
    Row::new(
        "math.sign",
        "math_sign_int",
        "(int) -> int",
        Cost::Unit,
        sign,
    ),
    Row::new(
        "math.sign",
        "math_sign_uint",
        "(uint) -> uint",
        Cost::Unit,
        sign,
    ),
    Row::new(
        "math.bitAnd",
        "math_bitAnd_int_int",
        "(int, int) -> int",
        Cost::Unit,
        bit_and,
    ),
    Row::new(
        "math.bitAnd",
        "math_bitAnd_uint_uint",
        "(uint, uint) -> uint",
        Cost::Unit,
        bit_and,
    ),
    Row::new(
        "math.bitOr",
        "math_bitOr_int_int",
        "(int, int) -> int",
        Cost::Unit,
        bit_or,
    ),
    Row::new(
        "math.bitOr",
        "math_bitOr_uint_uint",
        "(uint, uint) -> uint",
        Cost::Unit,
        bit_or,
    ),
    Row::new(
        "math.bitXor",
        "math_bitXor_int_int",
        "(int, int) -> int",
        Cost::Unit,
        bit_xor,
    ),
    Row::new(
        "math.bitXor",
        "math_bitXor_uint_uint",
        "(uint, uint) -> uint",
        Cost::Unit,
        bit_xor,
    ),
    Row::new(
        "math.bitNot",
        "math_bitNot_int_int",
        "(int) -> int",
        Cost::Unit,
        bit_not,
    ),
    Row::new(
        "math.bitNot",
        "math_bitNot_uint_uint",
        "(uint) -> uint",
        Cost::Unit,
        bit_not,
    ),
    Row::new(
        "math.bitShiftLeft",
        "math_bitShiftLeft_int_int",
        "(int, int) -> int",
        Cost::Unit,
        shift_left,
    ),
    Row::new(
        "math.bitShiftLeft",
        "math_bitShiftLeft_uint_int",
        "(uint, int) -> uint",
        Cost::Unit,
        shift_left,
    ),
    Row::new(
        "math.bitShiftRight",
        "math_bitShiftRight_int_int",
        "(int, int) -> int",
        Cost::Unit,
        shift_right,
    ),
    Row::new(
        "math.bitShiftRight",
        "math_bitShiftRight_uint_int",
        "(uint, int) -> uint",
        Cost::Unit,
        shift_right,
    ),
    Row::new(
        "math.sqrt",
        "math_sqrt_double",
        "(double) -> double",
        Cost::Unit,
        sqrt,
    ),
    Row::new(
        "math.sqrt",
        "math_sqrt_int",
        "(int) -> double",
        Cost::Unit,
        sqrt,
    ),
    Row::new(
        "math.sqrt",
        "math_sqrt_uint",
        "(uint) -> double",
        Cost::Unit,
        sqrt,
    ),
];

/// The first of the extreme values, of arguments or of a list.
fn extreme<'a>(meter: &mut Meter, args: &[Value<'a>], name: &str, greatest: bool) -> Outcome<'a> {
    let items = match args {
        [Value::List(list)] => {
            meter.step(list.len() as u64)?;
            list.to_vec()?
        }
        args => args.to_vec(),
    };
    let mut best: Option<Value<'a>> = None;
    for item in items {
        if !matches!(item, Value::Int(_) | Value::Uint(_) | Value::Double(_)) {
            return Err(no_overload(name, &[item]));
        }
        let better = match &best {
            None => true,
            Some(best) => match compare(&item, best)? {
                Some(order) if greatest => order.is_gt(),
                Some(order) => order.is_lt(),
                None => false,
            },
        };
        if better {
            best = Some(item);
        }
    }
    best.ok_or_else(|| Fault::invalid(format!("{name}(list) argument must not be empty")))
}

fn min<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    extreme(meter, args, "math.@min", false)
}

fn max<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    extreme(meter, args, "math.@max", true)
}

fn on_double<'a>(name: &str, args: &[Value<'a>], apply: fn(f64) -> Value<'a>) -> Outcome<'a> {
    match args {
        [Value::Double(value)] => Ok(apply(*value)),
        _ => Err(no_overload(name, args)),
    }
}

fn ceil<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    on_double("math.ceil", args, |value| Value::Double(value.ceil()))
}

fn floor<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    on_double("math.floor", args, |value| Value::Double(value.floor()))
}

fn round<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    on_double("math.round", args, |value| Value::Double(value.round()))
}

fn trunc<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    on_double("math.trunc", args, |value| Value::Double(value.trunc()))
}

fn is_inf<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    on_double("math.isInf", args, |value| Value::Bool(value.is_infinite()))
}

fn is_nan<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    on_double("math.isNaN", args, |value| Value::Bool(value.is_nan()))
}

fn is_finite<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    on_double("math.isFinite", args, |value| {
        Value::Bool(value.is_finite())
    })
}

fn abs<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Int(value)] => match value.checked_abs() {
            Some(value) => Ok(Value::Int(value)),
            None => Err(Fault::failed(Reason::Overflow("integer"))),
        },
        [value @ Value::Uint(_)] => Ok(value.clone()),
        _ => on_double("math.abs", args, |value| Value::Double(value.abs())),
    }
}

fn sign<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Int(value)] => Ok(Value::Int(value.signum())),
        [Value::Uint(value)] => Ok(Value::Uint(u64::from(*value > 0))),
        _ => on_double("math.sign", args, |value| {
            let zero = value == 0.0 || value.is_nan();
            Value::Double(if zero { value } else { value.signum() })
        }),
    }
}

fn bits<'a>(
    name: &str,
    args: &[Value<'a>],
    ints: fn(i64, i64) -> i64,
    uints: fn(u64, u64) -> u64,
) -> Outcome<'a> {
    match args {
        [Value::Int(a), Value::Int(b)] => Ok(Value::Int(ints(*a, *b))),
        [Value::Uint(a), Value::Uint(b)] => Ok(Value::Uint(uints(*a, *b))),
        _ => Err(no_overload(name, args)),
    }
}

fn bit_and<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    bits("math.bitAnd", args, |a, b| a & b, |a, b| a & b)
}

fn bit_or<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    bits("math.bitOr", args, |a, b| a | b, |a, b| a | b)
}

fn bit_xor<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    bits("math.bitXor", args, |a, b| a ^ b, |a, b| a ^ b)
}

fn bit_not<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Int(value)] => Ok(Value::Int(!value)),
        [Value::Uint(value)] => Ok(Value::Uint(!value)),
        _ => Err(no_overload("math.bitNot", args)),
    }
}

/// Shifting by more than there are bits leaves nothing; shifting back is an error.
fn shift<'a>(name: &str, args: &[Value<'a>], apply: fn(u64, u32) -> Option<u64>) -> Outcome<'a> {
    let (bits, by) = match args {
        [Value::Int(bits), Value::Int(by)] => (bits.cast_unsigned(), *by),
        [Value::Uint(bits), Value::Int(by)] => (*bits, *by),
        _ => return Err(no_overload(name, args)),
    };
    let Ok(by) = u64::try_from(by) else {
        return Err(Fault::invalid(format!("{name}() negative offset: {by}")));
    };
    let shifted = u32::try_from(by)
        .ok()
        .and_then(|by| apply(bits, by))
        .unwrap_or(0);
    Ok(match args {
        [Value::Int(_), ..] => Value::Int(shifted.cast_signed()),
        _ => Value::Uint(shifted),
    })
}

fn shift_left<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    shift("math.bitShiftLeft", args, u64::checked_shl)
}

fn shift_right<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    shift("math.bitShiftRight", args, u64::checked_shr)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the root of an integer is that of its double"
)]
fn sqrt<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let value = match args {
        [Value::Int(value)] => *value as f64,
        [Value::Uint(value)] => *value as f64,
        [Value::Double(value)] => *value,
        _ => return Err(no_overload("math.sqrt", args)),
    };
    Ok(Value::Double(value.sqrt()))
}
