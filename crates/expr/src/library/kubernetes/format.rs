//! Named formats, and whether a string has one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use deltaplane_api::names::{self, NameRule};

use super::url::Url;
use crate::cost::Cost;
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::fault::Fault;
use crate::host::Opaque;
use crate::meter::Meter;
use crate::time::Timestamp;
use crate::types::Type;
use crate::value::Value;

pub(in crate::library) const TABLES: &[&[Row]] = &[ROWS];
pub(in crate::library) const TYPE: &str = "kubernetes.NamedFormat";

/// A format: its name, the length of the longest pattern behind it, and what is wrong with a text.
#[derive(Debug)]
struct Format {
    name: &'static str,
    pattern: u64,
    check: fn(&str) -> Vec<String>,
}

const FORMATS: [Format; 13] = [
    Format {
        name: "dns1123Label",
        pattern: 30,
        check: names::dns_label,
    },
    Format {
        name: "dns1123Subdomain",
        pattern: 60,
        check: names::dns_subdomain,
    },
    Format {
        name: "dns1035Label",
        pattern: 30,
        check: names::dns_1035,
    },
    Format {
        name: "qualifiedName",
        pattern: 60,
        check: names::qualified_name,
    },
    Format {
        name: "dns1123LabelPrefix",
        pattern: 30,
        check: |text| NameRule::Label.check_prefix(text),
    },
    Format {
        name: "dns1123SubdomainPrefix",
        pattern: 60,
        check: |text| NameRule::Subdomain.check_prefix(text),
    },
    Format {
        name: "dns1035LabelPrefix",
        pattern: 30,
        check: |text| NameRule::Dns1035.check_prefix(text),
    },
    Format {
        name: "labelValue",
        pattern: 40,
        check: names::label_value,
    },
    Format {
        name: "uri",
        pattern: 1_103,
        check: |text| Url::parse(text).err().into_iter().collect(),
    },
    Format {
        name: "uuid",
        pattern: 70,
        check: |text| unless(is_uuid(text), "does not match the UUID format"),
    },
    Format {
        name: "byte",
        pattern: 84,
        check: |text| unless(STANDARD.decode(text).is_ok(), "invalid base64"),
    },
    Format {
        name: "date",
        pattern: 71,
        check: |text| unless(is_date(text), "invalid date"),
    },
    Format {
        name: "datetime",
        pattern: 71,
        check: |text| unless(Timestamp::parse(text).is_some(), "invalid datetime"),
    },
];

macro_rules! named {
    ($name:literal, $at:literal) => {
        Row::new(
            concat!("format.", $name),
            concat!("format.", $name),
            "() -> kubernetes.NamedFormat",
            Cost::Unit,
            |_, _| Ok(format($at)),
        )
    };
}

const ROWS: &[Row] = &[
    Row::new(
        "format.named",
        "format-named",
        "(string) -> optional(kubernetes.NamedFormat)",
        Cost::Unit,
        by_name,
    ),
    Row::new(
        "validate",
        "format-validate",
        "kubernetes.NamedFormat.(string) -> optional(list(string))",
        Cost::Validate,
        validate,
    ),
    named!("dns1123Label", 0),
    named!("dns1123Subdomain", 1),
    named!("dns1035Label", 2),
    named!("qualifiedName", 3),
    named!("dns1123LabelPrefix", 4),
    named!("dns1123SubdomainPrefix", 5),
    named!("dns1035LabelPrefix", 6),
    named!("labelValue", 7),
    named!("uri", 8),
    named!("uuid", 9),
    named!("byte", 10),
    named!("date", 11),
    named!("datetime", 12),
];

/// Which format.
#[derive(Debug, PartialEq, Eq)]
struct Named(usize);

impl Opaque for Named {
    fn ty(&self) -> Type {
        Type::opaque(TYPE)
    }

    fn equals(&self, other: &dyn Opaque) -> Result<bool, Box<Fault>> {
        let other: &dyn std::any::Any = other;
        Ok(other.downcast_ref::<Self>() == Some(self))
    }

    fn cost_size(&self) -> u64 {
        FORMATS[self.0].pattern
    }

    fn text(&self) -> Option<String> {
        Some(FORMATS[self.0].name.to_owned())
    }
}

fn format<'a>(at: usize) -> Value<'a> {
    Value::opaque(Named(at))
}

fn unless(fine: bool, message: &str) -> Vec<String> {
    if fine {
        Vec::new()
    } else {
        vec![message.to_owned()]
    }
}

/// `8-4-4-4-12` hexadecimal digits; the dashes may be missing.
fn is_uuid(text: &str) -> bool {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    let dashes: Vec<usize> = text
        .bytes()
        .enumerate()
        .filter(|(_, byte)| *byte == b'-')
        .map(|(at, _)| at)
        .collect();
    let mut seen = 0;
    let placed = dashes.iter().all(|at| {
        let before = at - seen;
        seen += 1;
        matches!(before, 8 | 12 | 16 | 20)
    });
    digits.len() == 32
        && digits.iter().all(u8::is_ascii_hexdigit)
        && placed
        && dashes.windows(2).all(|pair| pair[1] > pair[0] + 1)
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && Timestamp::parse(&format!("{text}T00:00:00Z")).is_some()
}

fn by_name<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(name)] = args else {
        return Err(no_overload("format.named", args));
    };
    match FORMATS
        .iter()
        .position(|format| format.name == name.as_str())
    {
        Some(at) => Value::some(format(at)),
        None => Ok(Value::NONE),
    }
}

fn validate<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [target, Value::String(text)] = args else {
        return Err(no_overload("validate", args));
    };
    let Some(named) = target.as_opaque::<Named>() else {
        return Err(no_overload("validate", args));
    };
    meter.step(text.as_str().len() as u64)?;
    let errors = (FORMATS[named.0].check)(text.as_str());
    if errors.is_empty() {
        return Ok(Value::NONE);
    }
    Value::some(Value::flat_list(errors.into_iter().map(Value::string)))
}
