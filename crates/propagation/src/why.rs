//! The values that an expression's answer follows from, in words.

use std::collections::BTreeSet;

use deltaplane_expr::value::List;
use deltaplane_expr::{Bindings, Budget, Fault, Meter, Value};

use crate::functions::{since, tally};
use crate::gate::{Leaf, LeafKind};
use crate::seen::{Collection, IN_FLIGHT, KEY};
use crate::work::Work;

/// What is asked about.
pub(crate) struct Asked<'f, 'a> {
    pub(crate) bindings: &'f Bindings<'a>,
    /// Those of the collection that are in flight.
    pub(crate) in_flight: &'f BTreeSet<&'a str>,
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
        true => asked.in_flight.iter().map(ToString::to_string).collect(),
        false => flying(list)?,
    };
    let total = list.len();
    Ok(format!(
        "{} in flight{}; {} of {total} updated and ready",
        tally.in_flight,
        named(&names),
        tally.proven
    ))
}

/// The names of those in a list that are in flight.
fn flying(list: &List<'_>) -> Result<Vec<String>, Box<Fault>> {
    let mut names = BTreeSet::new();
    for item in list.iter() {
        let Value::Host(host) = item? else {
            continue;
        };
        let flies = host.field(IN_FLIGHT)?.and_then(|value| value.as_bool());
        if flies == Some(true)
            && let Some(key) = host.field(KEY)?
        {
            names.extend(key.as_str().map(str::to_owned));
        }
    }
    Ok(names.into_iter().collect())
}

fn named(names: &[String]) -> String {
    let first: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    match names.len() {
        0 => String::new(),
        count if count > NAMED => format!(" ({} and {} more)", first.join(", "), count - NAMED),
        _ => format!(" ({})", first.join(", ")),
    }
}

fn shown(value: &Value<'_>) -> String {
    let text = match value {
        Value::Host(_) => "an item".to_owned(),
        Value::List(list) if list.len() > MAX_SHOWN => format!("{} items", list.len()),
        Value::Timestamp(time) => time.to_string(),
        value => match value.to_json(&mut Meter::new(Budget::default())) {
            Ok(json) => json.to_string(),
            Err(_) => match value.as_list() {
                Some(list) => format!("{} items", list.len()),
                None => format!("a value of type {}", value.type_of()),
            },
        },
    };
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
