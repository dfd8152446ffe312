//! Keys of JSON pointers, for policies that change objects. Kubernetes has them there and in no
//! other expression.

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

#[cfg(test)]
mod tests {
    use crate::env::{self, Builder, Options};
    use crate::library::Library;
    use crate::{Bindings, Budget, Eval};

    #[test]
    fn keys_are_escaped_where_the_library_is() {
        let source = "jsonpatch.escapeKey('k8s.io/my~label~1')";
        let env = Builder::new(Options::default())
            .library(Library::Standard)
            .library(Library::JsonPatch)
            .build();
        let program = crate::compile(source, &env).unwrap();
        let Eval::Value(value) = program.eval(&Bindings::new(&env), Budget::default()) else {
            panic!("no value");
        };
        assert_eq!(value.as_str(), Some("k8s.io~1my~0label~01"));
        let elsewhere = crate::compile(source, &env::kubernetes());
        assert!(elsewhere.is_err());
    }
}
