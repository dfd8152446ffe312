//! The values that an expression's answer follows from, in words.

use std::collections::BTreeSet;
use std::fmt;

use deltaplane_expr::value::List;
use deltaplane_expr::{Bindings, Budget, Fault, Meter, Value};

use crate::functions::{Tally, since, tally};
use crate::gate::{Leaf, LeafKind};
use crate::seen::{Collection, IN_FLIGHT, KEY};
use crate::work::Work;

/// What is asked about.
pub(crate) struct Asked<'f, 'a> {
    pub(crate) bindings: &'f Bindings<'a>,
    /// The names of those of the collection that are in flight, as [`named`] tells them.
    pub(crate) in_flight: &'f str,
    pub(crate) items: &'a Collection<'a>,
}

/// So many of those in flight are named.
const NAMED: usize = 3;
/// Values are shown up to so many characters.
const MAX_SHOWN: usize = 80;

/// A part of an expression and what it came to.
pub(crate) fn told<'a>(leaf: &'a Leaf, asked: &Asked<'_, 'a>, work: &mut Work) -> String {
    let value = match &leaf.kind {
        LeafKind::Value => None,
        LeafKind::Budget(list) => match work.eval(list, asked.bindings) {
            Ok(Value::List(list)) => budget(&list, asked).ok(),
            Ok(_) | Err(_) => None,
        },
        LeafKind::ReadyFor(subject) => match work.eval(subject, asked.bindings) {
            Ok(Value::Host(host)) => since(host).ok().map(|since| match since {
                Some(since) => format!("ready since {since}"),
                None => "not ready".to_owned(),
            }),
            Ok(_) | Err(_) => None,
        },
    };
    let value = value.unwrap_or_else(|| match work.eval(&leaf.program, asked.bindings) {
        Ok(value) => shown(&value),
        Err(fault) => fault.to_string(),
    });
    format!("{}: {value}", leaf.text)
}

/// How a collection stands.
fn budget(list: &List<'_>, asked: &Asked<'_, '_>) -> Result<String, Box<Fault>> {
    let tally = tally(&mut Meter::new(Budget::STEPS_ONLY), list)?;
    let own = if let List::Host(host) = list {
        std::ptr::addr_eq(std::ptr::from_ref(*host), std::ptr::from_ref(asked.items))
    } else {
        false
    };
    let names = match own {
        true => asked.in_flight.to_owned(),
        false => flying(list)?.to_string(),
    };
    let total = list.len();
    let Tally {
        in_flight,
        updating,
        proven,
    } = tally;
    // Who is on its way to something older is bounded by those that are on their way to this.
    let of_them = match in_flight == updating {
        true => String::new(),
        false => format!(", {updating} of them to this"),
    };
    Ok(format!(
        "{in_flight} in flight{names}{of_them}; {proven} of {total} updated and ready"
    ))
}

/// The first of some names, in parentheses, and how many more there are.
pub(crate) fn named<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut first = First::default();
    names.for_each(|name| first.add(name));
    first.to_string()
}

/// Those in a list that are in flight.
fn flying(list: &List<'_>) -> Result<First, Box<Fault>> {
    let mut first = First::default();
    for item in list.iter() {
        let Value::Host(host) = item? else {
            continue;
        };
        let flies = host.field(IN_FLIGHT)?.and_then(|value| value.as_bool());
        if flies == Some(true)
            && let Some(key) = host.field(KEY)?
        {
            key.as_str().into_iter().for_each(|key| first.add(key));
        }
    }
    Ok(first)
}

/// The first of some names, and how many there are.
#[derive(Default)]
struct First {
    names: BTreeSet<String>,
    count: usize,
}

// === impl First ===

impl First {
    fn add(&mut self, name: &str) {
        self.count += 1;
        let room = self.names.len() < NAMED;
        if room || self.names.last().is_some_and(|last| name < &**last) {
            self.names.insert(name.to_owned());
        }
        if self.names.len() > NAMED {
            self.names.pop_last();
        }
    }
}

impl fmt::Display for First {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        match self.count - names.len() {
            0 if names.is_empty() => Ok(()),
            0 => write!(f, " ({})", names.join(", ")),
            more => write!(f, " ({} and {more} more)", names.join(", ")),
        }
    }
}

fn shown(value: &Value<'_>) -> String {
    let text = if let Value::Timestamp(time) = value {
        time.to_string()
    } else if let Value::Host(_) = value {
        "an item".to_owned()
    } else if let Some(list) = value.as_list()
        && list.len() > MAX_SHOWN
    {
        format!("{} items", list.len())
    } else {
        plain(value)
    };
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn plain(value: &Value<'_>) -> String {
    let json = value.to_json(&mut Meter::new(Budget::default()));
    match (json, value.as_list()) {
        (Ok(json), _) => json.to_string(),
        (Err(_), Some(list)) => format!("{} items", list.len()),
        (Err(_), None) => format!("a value of type {}", value.type_of()),
    }
}
