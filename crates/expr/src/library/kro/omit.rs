//! `omit()`: a value that stands for no value.

use crate::cost::Cost;
use crate::env::Row;
use crate::eval::Outcome;
use crate::fault::Fault;
use crate::host::Opaque;
use crate::meter::Meter;
use crate::types::Type;
use crate::value::Value;

pub(super) const ROWS: &[Row] = &[Row::new("omit", "omit", "() -> dyn", Cost::Unit, omit)];

#[derive(Debug)]
struct Omitted;

impl Opaque for Omitted {
    fn ty(&self) -> Type {
        Type::opaque("kro.omit")
    }

    fn equals(&self, _: &dyn Opaque) -> Result<bool, Box<Fault>> {
        self.equals_other()
    }

    fn equals_other(&self) -> Result<bool, Box<Fault>> {
        Err(Fault::invalid("omit() cannot be compared"))
    }
}

fn omit<'a>(_: &mut Meter, _: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::opaque(Omitted))
}

/// Whether the value asks for its field or item to be left out.
pub fn is_omitted(value: &Value<'_>) -> bool {
    value.as_opaque::<Omitted>().is_some()
}
