//! What a caller brings: functions, values that it keeps, collections that are never copied.

use std::any::Any;
use std::fmt;

use serde_json::Value as Json;

use crate::fault::Fault;
use crate::meter::Meter;
use crate::types::Type;
use crate::value::{Map, Value};

/// A value of a library's own type: a quantity, an address, …
pub trait Opaque: Any + fmt::Debug + Send + Sync {
    fn ty(&self) -> Type;

    /// Whether both are the same value. Comparing what cannot be compared is an error.
    fn equals(&self, other: &dyn Opaque) -> Result<bool, Box<Fault>>;

    /// Whether it is the same as a value that is none of a library's.
    fn equals_other(&self) -> Result<bool, Box<Fault>> {
        Ok(false)
    }

    /// A field that the library declares for the type.
    fn field(&self, _name: &str) -> Option<Value<'static>> {
        None
    }

    /// The size that costs are counted by.
    fn cost_size(&self) -> u64 {
        1
    }

    /// How many bytes it holds, about: what reading and making it takes.
    fn weight(&self) -> u64 {
        0
    }

    /// What the value holds, in full: two of a type with the same text are the same.
    fn text(&self) -> Option<String> {
        None
    }

    fn to_json(&self) -> Option<Json> {
        None
    }
}

/// A value that the caller keeps and that expressions see through fields and functions.
pub trait Host: fmt::Debug + Sync {
    fn ty(&self) -> Type;

    /// A field: `Ok(None)` when there is none, a fault when it may come or cannot be read.
    fn field(&self, name: &str) -> Result<Option<Value<'_>>, Box<Fault>>;

    /// The object that it stands for. Expressions then read the object's fields, with all that
    /// its declaration says of them, and [`Self::field`] is left to host functions.
    fn object(&self) -> Option<Map<'_>> {
        None
    }

    fn equals(&self, other: &dyn Host) -> bool {
        std::ptr::addr_eq(std::ptr::from_ref(self), std::ptr::from_ref(other))
    }

    /// For host functions, which know what they are given.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

/// A list that the caller keeps; it is read item by item.
pub trait HostList: fmt::Debug + Sync {
    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn get(&self, index: usize) -> Option<Value<'_>>;

    /// A number that the caller keeps about its items, for host functions.
    fn counted(&self, _what: &str) -> Option<u64> {
        None
    }

    /// For host functions, which know what they are given.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

/// A function of the caller's. It may answer that it waits.
pub trait HostFunction: fmt::Debug + Send + Sync {
    fn call<'a>(&self, meter: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, Box<Fault>>;
}
