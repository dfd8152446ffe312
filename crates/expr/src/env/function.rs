//! Functions and their overloads.

use std::sync::Arc;

use crate::cost::Cost;
use crate::fault::Fault;
use crate::host::HostFunction;
use crate::meter::Meter;
use crate::types::{Signature, Type};
use crate::value::Value;

/// A function: its overloads in the order in which they are tried.
#[derive(Debug)]
pub struct Function {
    name: Arc<str>,
    overloads: Vec<Arc<Overload>>,
}

/// One way to call a function.
#[derive(Debug)]
pub struct Overload {
    function: Arc<str>,
    id: Box<str>,
    signature: Signature,
    /// How many type parameters the signature has.
    generics: u32,
    pub(crate) run: Run,
    pub(crate) cost: Cost,
}

/// What carries out a call.
#[derive(Clone, Debug)]
pub(crate) enum Run {
    Library(Fun),
    Host(Arc<dyn HostFunction>),
    /// Declared only.
    Nothing,
}

/// A library's function.
pub(crate) type Fun = for<'a> fn(&mut Meter, &[Value<'a>]) -> Result<Value<'a>, Box<Fault>>;

/// One row of a library's table.
pub(crate) struct Row {
    pub(crate) function: &'static str,
    pub(crate) id: &'static str,
    pub(crate) signature: &'static str,
    pub(crate) run: Fun,
    pub(crate) cost: Cost,
}

// === impl Row ===

impl Row {
    pub(crate) const fn new(
        function: &'static str,
        id: &'static str,
        signature: &'static str,
        cost: Cost,
        run: Fun,
    ) -> Self {
        Self {
            function,
            id,
            signature,
            run,
            cost,
        }
    }
}

// === impl Function ===

impl Function {
    pub(super) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            overloads: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, overload: Overload) {
        self.overloads.push(Arc::new(overload));
    }

    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub fn overloads(&self) -> &[Arc<Overload>] {
        &self.overloads
    }
}

// === impl Overload ===

impl Overload {
    /// A function of the caller's.
    pub fn host(
        function: &str,
        id: &str,
        signature: Signature,
        cost: Cost,
        run: Arc<dyn HostFunction>,
    ) -> Self {
        Self::new(function, id, signature, Run::Host(run), cost)
    }

    /// A function that can be checked but not called.
    pub fn declared(function: &str, id: &str, signature: Signature) -> Self {
        Self::new(function, id, signature, Run::Nothing, Cost::Unit)
    }

    pub(super) fn from_row(row: &Row) -> Self {
        let signature = Signature::parse(row.signature);
        debug_assert!(signature.is_some(), "{}: {}", row.id, row.signature);
        // A row that is no signature is caught by the test that reads all of them.
        let signature = signature.unwrap_or(Signature {
            member: false,
            params: Vec::new(),
            result: Type::Error,
        });
        Self::new(
            row.function,
            row.id,
            signature,
            Run::Library(row.run),
            row.cost,
        )
    }

    fn new(function: &str, id: &str, signature: Signature, run: Run, cost: Cost) -> Self {
        fn highest(ty: &Type) -> u32 {
            match ty {
                Type::Param(param) => param + 1,
                other @ (Type::Dyn
                | Type::Error
                | Type::Null
                | Type::Bool
                | Type::Int
                | Type::Uint
                | Type::Double
                | Type::String
                | Type::Bytes
                | Type::Timestamp
                | Type::Duration
                | Type::Wrapper(_)
                | Type::List(_)
                | Type::Map(_)
                | Type::Optional(_)
                | Type::Type(_)
                | Type::Opaque(_)
                | Type::Object(_)) => other.children().into_iter().map(highest).max().unwrap_or(0),
            }
        }
        let types = signature.params.iter().chain([&signature.result]);
        Self {
            function: function.into(),
            id: id.into(),
            generics: types.map(highest).max().unwrap_or(0),
            signature,
            run,
            cost,
        }
    }

    pub fn function(&self) -> &str {
        &self.function
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    pub(crate) fn generics(&self) -> u32 {
        self.generics
    }

    /// Whether values of these run-time types can be its arguments.
    pub(crate) fn takes(&self, args: &[Value<'_>]) -> bool {
        let params = &self.signature.params;
        params.len() == args.len()
            && params
                .iter()
                .zip(args)
                .all(|(param, arg)| takes(param, arg))
    }
}

fn takes(param: &Type, arg: &Value<'_>) -> bool {
    match (param, arg) {
        (Type::Dyn | Type::Param(_) | Type::Error, _)
        | (Type::Null, Value::Null)
        | (Type::Bool, Value::Bool(_))
        | (Type::Int, Value::Int(_))
        | (Type::Uint, Value::Uint(_))
        | (Type::Double, Value::Double(_))
        | (Type::String, Value::String(_))
        | (Type::Bytes, Value::Bytes(_))
        | (Type::Timestamp, Value::Timestamp(_))
        | (Type::Duration, Value::Duration(_))
        | (Type::Optional(_), Value::Optional(_))
        | (Type::Type(_), Value::Type(_))
        | (Type::Map(_), Value::Map(_)) => true,
        // As in cel-go, the first item speaks for all.
        (Type::List(item), Value::List(list)) => match list.iter().next() {
            Some(Ok(first)) => takes(item, &first),
            Some(Err(_)) | None => true,
        },
        (Type::Wrapper(primitive), value) => {
            matches!(value, Value::Null) || takes(&primitive.plain(), value)
        }
        (Type::Opaque(_) | Type::Object(_), value) => value.type_of().name() == param.name(),
        _ => false,
    }
}
