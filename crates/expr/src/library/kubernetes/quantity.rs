//! Quantities: `1.5Gi`, `100m`, `1e3`.

mod amount;

use std::cmp::Ordering;

use crate::cost::Cost;
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::fault::Fault;
use crate::host::Opaque;
use crate::meter::Meter;
use crate::types::Type;
use crate::value::Value;

use amount::Amount;

pub(in crate::library) const TABLES: &[&[Row]] = &[ROWS];
pub(in crate::library) const TYPE: &str = "kubernetes.Quantity";

const ROWS: &[Row] = &[
    Row::new(
        "quantity",
        "string_to_quantity",
        "(string) -> kubernetes.Quantity",
        Cost::Parse,
        quantity,
    ),
    Row::new(
        "isQuantity",
        "is_quantity_string",
        "(string) -> bool",
        Cost::Parse,
        is_quantity,
    ),
    Row::new(
        "sign",
        "quantity_sign",
        "(kubernetes.Quantity) -> int",
        Cost::Unit,
        sign,
    ),
    Row::new(
        "isGreaterThan",
        "quantity_is_greater_than",
        "kubernetes.Quantity.(kubernetes.Quantity) -> bool",
        Cost::Unit,
        is_greater,
    ),
    Row::new(
        "isLessThan",
        "quantity_is_less_than",
        "kubernetes.Quantity.(kubernetes.Quantity) -> bool",
        Cost::Unit,
        is_less,
    ),
    Row::new(
        "compareTo",
        "quantity_compare_to",
        "kubernetes.Quantity.(kubernetes.Quantity) -> int",
        Cost::Unit,
        compare_to,
    ),
    Row::new(
        "asApproximateFloat",
        "quantity_get_float",
        "kubernetes.Quantity.() -> double",
        Cost::Unit,
        as_float,
    ),
    Row::new(
        "asInteger",
        "quantity_get_int",
        "kubernetes.Quantity.() -> int",
        Cost::Unit,
        as_integer,
    ),
    Row::new(
        "isInteger",
        "quantity_is_integer",
        "kubernetes.Quantity.() -> bool",
        Cost::Unit,
        is_integer,
    ),
    Row::new(
        "add",
        "quantity_add",
        "kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity",
        Cost::Unit,
        add,
    ),
    Row::new(
        "add",
        "quantity_add_int",
        "kubernetes.Quantity.(int) -> kubernetes.Quantity",
        Cost::Unit,
        add,
    ),
    Row::new(
        "sub",
        "quantity_sub",
        "kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity",
        Cost::Unit,
        sub,
    ),
    Row::new(
        "sub",
        "quantity_sub_int",
        "kubernetes.Quantity.(int) -> kubernetes.Quantity",
        Cost::Unit,
        sub,
    ),
];

#[derive(Clone, Debug)]
struct Quantity(Amount);

impl Opaque for Quantity {
    fn ty(&self) -> Type {
        Type::opaque(TYPE)
    }

    fn equals(&self, other: &dyn Opaque) -> Result<bool, Box<Fault>> {
        let other: &dyn std::any::Any = other;
        let other = other.downcast_ref::<Self>();
        Ok(other.is_some_and(|other| self.0.order(&other.0).is_eq()))
    }

    /// Its digits, which are copied when two are compared.
    fn weight(&self) -> u64 {
        2 * self.0.digits()
    }

    fn text(&self) -> Option<String> {
        Some(self.0.text())
    }
}

fn quantity<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(text)] => match Amount::parse(text.as_str()) {
            Some(amount) => Ok(Value::opaque(Quantity(amount))),
            None => Err(Fault::invalid(
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            )),
        },
        _ => Err(no_overload("quantity", args)),
    }
}

fn is_quantity<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(Amount::parse(text.as_str()).is_some())),
        _ => Err(no_overload("isQuantity", args)),
    }
}

fn first<'v>(name: &str, args: &'v [Value<'_>]) -> Result<&'v Amount, Box<Fault>> {
    match args.first().and_then(Value::as_opaque::<Quantity>) {
        Some(quantity) => Ok(&quantity.0),
        None => Err(no_overload(name, args)),
    }
}

/// The second argument, a quantity or an integer.
fn second(name: &str, args: &[Value<'_>]) -> Result<Amount, Box<Fault>> {
    match args {
        [_, Value::Int(value)] => Ok(Amount::from(*value)),
        [_, other] => match other.as_opaque::<Quantity>() {
            Some(quantity) => Ok(quantity.0.clone()),
            None => Err(no_overload(name, args)),
        },
        _ => Err(no_overload(name, args)),
    }
}

fn order(name: &str, args: &[Value<'_>]) -> Result<Ordering, Box<Fault>> {
    Ok(first(name, args)?.order(&second(name, args)?))
}

fn sign<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let order = first("sign", args)?.order(&Amount::from(0));
    Ok(Value::Int(order as i64))
}

fn is_greater<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(order("isGreaterThan", args)?.is_gt()))
}

fn is_less<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(order("isLessThan", args)?.is_lt()))
}

fn compare_to<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(order("compareTo", args)? as i64))
}

fn as_float<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Double(
        first("asApproximateFloat", args)?.to_double(),
    ))
}

fn as_integer<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match first("asInteger", args)?.to_integer() {
        Some(value) => Ok(Value::Int(value)),
        None => Err(Fault::invalid("cannot convert value to integer")),
    }
}

fn is_integer<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(
        first("isInteger", args)?.to_integer().is_some(),
    ))
}

fn sum<'a>(meter: &mut Meter, a: &Amount, b: &Amount) -> Outcome<'a> {
    meter.step(a.digits() + b.digits())?;
    match a.plus(b) {
        Some(amount) => Ok(Value::opaque(Quantity(amount))),
        None => Err(Fault::invalid("quantity is out of range")),
    }
}

fn add<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    sum(meter, first("add", args)?, &second("add", args)?)
}

fn sub<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    sum(meter, first("sub", args)?, &second("sub", args)?.negated())
}
