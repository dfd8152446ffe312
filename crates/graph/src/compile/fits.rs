//! Whether the value of an expression goes into a field.
//!
//! As in kro: types of the same name fit, otherwise what they are made of is compared. The fields
//! of an object are a part of those that are expected; the values of a map fit every field. Unlike
//! in kro, a string goes wherever JSON has a string, whatever its format.

use std::fmt;

use deltaplane_expr::Type;
use deltaplane_expr::types::Primitive;

/// So much is compared at most, and so deep: types can be recursive. The rest is taken to fit.
const MOST: usize = 10_000;
const DEEPEST: usize = 64;

/// Why a type does not go where another is expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// The way to it, from outside: `field "spec"`, `list item`, …
    way: Vec<String>,
    what: String,
}

/// Compares what an expression gives with what is expected.
pub(crate) fn fits(output: &Type, expected: &Type) -> Result<(), Mismatch> {
    let comparison = &mut Comparison {
        left: MOST,
        depth: 0,
    };
    comparison.compare(output, expected)
}

struct Comparison {
    left: usize,
    depth: usize,
}

// === impl Comparison ===

impl Comparison {
    fn compare(&mut self, output: &Type, expected: &Type) -> Result<(), Mismatch> {
        if self.left == 0 || self.depth == DEEPEST || output == expected {
            return Ok(());
        }
        self.left -= 1;
        self.depth += 1;
        let compared = self.parts(output, expected);
        self.depth -= 1;
        compared
    }

    fn parts(&mut self, output: &Type, expected: &Type) -> Result<(), Mismatch> {
        match (output, expected) {
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) => Ok(()),
            (Type::Optional(inner), expected) => self.compare(inner, expected),
            (Type::Wrapper(primitive), expected) => self.compare(&primitive.plain(), expected),
            (output, Type::Wrapper(primitive)) => self.compare(output, &primitive.plain()),
            (Type::List(output), Type::List(expected)) => {
                within("list item", || self.compare(output, expected))
            }
            (Type::Map(output), Type::Map(expected)) => {
                within("map key", || self.compare(&output.0, &expected.0))?;
                within("map value", || self.compare(&output.1, &expected.1))
            }
            (Type::Map(output), Type::Object(expected)) => {
                string_keys(&output.0)?;
                let mut fields = expected.fields().iter();
                fields.try_for_each(|field| {
                    within(&format!("map value for field {:?}", field.key()), || {
                        self.compare(&output.1, field.decl().ty())
                    })
                })
            }
            (Type::Object(output), Type::Map(expected)) => {
                string_keys(&expected.0)?;
                let mut fields = output.fields().iter();
                fields.try_for_each(|field| {
                    within(&format!("field {:?}", field.key()), || {
                        self.compare(field.decl().ty(), &expected.1)
                    })
                })
            }
            (Type::Object(output), Type::Object(expected)) => self.objects(output, expected),
            (Type::Null, Type::Object(_)) => Ok(()),
            (Type::String, Type::Bytes | Type::Timestamp | Type::Duration) => Ok(()),
            (Type::Uint, Type::Int) => Ok(()),
            _ => Err(Mismatch::new(output, expected)),
        }
    }

    fn objects(
        &mut self,
        output: &deltaplane_expr::ObjectType,
        expected: &deltaplane_expr::ObjectType,
    ) -> Result<(), Mismatch> {
        if expected.is_open() {
            return Ok(());
        }
        for field in output.fields() {
            let Some(wanted) = expected.field(field.name()) else {
                return Err(Mismatch {
                    way: Vec::new(),
                    what: format!("there is no field {:?} in it", field.key()),
                });
            };
            within(&format!("field {:?}", field.key()), || {
                self.compare(field.decl().ty(), wanted.decl().ty())
            })?;
        }
        Ok(())
    }
}

fn within(step: &str, compare: impl FnOnce() -> Result<(), Mismatch>) -> Result<(), Mismatch> {
    compare().map_err(|mut mismatch| {
        mismatch.way.insert(0, step.to_owned());
        mismatch
    })
}

fn string_keys(keys: &Type) -> Result<(), Mismatch> {
    if matches!(
        keys,
        Type::String | Type::Dyn | Type::Wrapper(Primitive::String)
    ) {
        return Ok(());
    }
    Err(Mismatch {
        way: vec!["map key".to_owned()],
        what: format!("it is {keys}, and fields have names"),
    })
}

// === impl Mismatch ===

impl Mismatch {
    fn new(output: &Type, expected: &Type) -> Self {
        Self {
            way: Vec::new(),
            what: format!("it is {output}, not {expected}"),
        }
    }

    /// Where the mismatch is, if it is not the value as a whole.
    pub(crate) fn inner(&self) -> Option<String> {
        (!self.way.is_empty() || self.what.starts_with("there")).then(|| self.to_string())
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.way {
            write!(f, "{step}: ")?;
        }
        f.write_str(&self.what)
    }
}
