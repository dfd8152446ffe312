//! Strings beyond the standard library. Positions count characters.

mod format;

pub(crate) use format::clauses;

use crate::cost::Cost;
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::fault::Fault;
use crate::meter::Meter;
use crate::value::Value;

pub(super) const TABLES: &[&[Row]] = &[ROWS, LENIENT, REVERSE, FORMAT];
pub(super) const SPEC: &[&[Row]] = &[ROWS, SPEC_ROWS, REVERSE, FORMAT];
pub(super) const KUBERNETES: &[&[Row]] = &[ROWS, FIRST_SEARCHES, FIRST_FORMAT];

/// Kubernetes has an earlier release, without it.
const REVERSE: &[Row] = &[Row::new(
    "reverse",
    "string_reverse",
    "string.() -> string",
    Cost::Unit,
    reverse,
)];

const FORMAT: &[Row] = &[Row::new(
    "format",
    "string_format",
    "string.(list(dyn)) -> string",
    Cost::Format,
    format::format,
)];
const FIRST_FORMAT: &[Row] = &[Row::new(
    "format",
    "string_format",
    "string.(list(dyn)) -> string",
    Cost::Format,
    format::first_format,
)];

/// A search that begins beyond the end finds nothing.
const LENIENT: &[Row] = &[
    Row::new(
        "indexOf",
        "string_index_of_string",
        "string.(string) -> int",
        Cost::Traverse,
        index_of,
    ),
    Row::new(
        "indexOf",
        "string_index_of_string_int",
        "string.(string, int) -> int",
        Cost::Traverse,
        index_of,
    ),
    Row::new(
        "lastIndexOf",
        "string_last_index_of_string",
        "string.(string) -> int",
        Cost::Traverse,
        last_index_of,
    ),
    Row::new(
        "lastIndexOf",
        "string_last_index_of_string_int",
        "string.(string, int) -> int",
        Cost::Traverse,
        last_index_of,
    ),
];

/// Like [`LENIENT`], but nothing is found wherever it is looked for.
const FIRST_SEARCHES: &[Row] = &[
    Row::new(
        "indexOf",
        "string_index_of_string",
        "string.(string) -> int",
        Cost::Traverse,
        first_index_of,
    ),
    Row::new(
        "indexOf",
        "string_index_of_string_int",
        "string.(string, int) -> int",
        Cost::Traverse,
        first_index_of,
    ),
    Row::new(
        "lastIndexOf",
        "string_last_index_of_string",
        "string.(string) -> int",
        Cost::Traverse,
        first_last_index_of,
    ),
    Row::new(
        "lastIndexOf",
        "string_last_index_of_string_int",
        "string.(string, int) -> int",
        Cost::Traverse,
        first_last_index_of,
    ),
];

/// A search that begins beyond the end is an error.
const SPEC_ROWS: &[Row] = &[
    Row::new(
        "indexOf",
        "string_index_of_string",
        "string.(string) -> int",
        Cost::Traverse,
        index_within,
    ),
    Row::new(
        "indexOf",
        "string_index_of_string_int",
        "string.(string, int) -> int",
        Cost::Traverse,
        index_within,
    ),
    Row::new(
        "lastIndexOf",
        "string_last_index_of_string",
        "string.(string) -> int",
        Cost::Traverse,
        last_index_within,
    ),
    Row::new(
        "lastIndexOf",
        "string_last_index_of_string_int",
        "string.(string, int) -> int",
        Cost::Traverse,
        last_index_within,
    ),
];

const ROWS: &[Row] = &[
    Row::new(
        "charAt",
        "string_char_at_int",
        "string.(int) -> string",
        Cost::Unit,
        char_at,
    ),
    Row::new(
        "lowerAscii",
        "string_lower_ascii",
        "string.() -> string",
        Cost::Scan,
        lower,
    ),
    Row::new(
        "upperAscii",
        "string_upper_ascii",
        "string.() -> string",
        Cost::Scan,
        upper,
    ),
    Row::new(
        "replace",
        "string_replace_string_string",
        "string.(string, string) -> string",
        Cost::Replace,
        replace,
    ),
    Row::new(
        "replace",
        "string_replace_string_string_int",
        "string.(string, string, int) -> string",
        Cost::Replace,
        replace,
    ),
    Row::new(
        "split",
        "string_split_string",
        "string.(string) -> list(string)",
        Cost::Split,
        split,
    ),
    Row::new(
        "split",
        "string_split_string_int",
        "string.(string, int) -> list(string)",
        Cost::Split,
        split,
    ),
    Row::new(
        "substring",
        "string_substring_int",
        "string.(int) -> string",
        Cost::Scan,
        substring,
    ),
    Row::new(
        "substring",
        "string_substring_int_int",
        "string.(int, int) -> string",
        Cost::Scan,
        substring,
    ),
    Row::new(
        "trim",
        "string_trim",
        "string.() -> string",
        Cost::Scan,
        trim,
    ),
    Row::new(
        "join",
        "list_join",
        "list(string).() -> string",
        Cost::Join,
        join,
    ),
    Row::new(
        "join",
        "list_join_string",
        "list(string).(string) -> string",
        Cost::Join,
        join,
    ),
    Row::new(
        "strings.quote",
        "strings_quote",
        "(string) -> string",
        Cost::Quote,
        quote,
    ),
];

fn out_of_range(index: i64) -> Box<Fault> {
    Fault::invalid(format!("index out of range: {index}"))
}

/// Where the character at `position` begins: the end for the one after the last.
fn offset(text: &str, position: i64) -> Option<usize> {
    let position = usize::try_from(position).ok()?;
    if text.is_ascii() {
        return (position <= text.len()).then_some(position);
    }
    text.char_indices()
        .map(|(at, _)| at)
        .chain([text.len()])
        .nth(position)
}

fn count(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

fn char_at<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text), Value::Int(position)] = args else {
        return Err(no_overload("charAt", args));
    };
    let text = text.as_str();
    match offset(text, *position) {
        Some(at) => Ok(Value::string(
            text[at..]
                .chars()
                .next()
                .map(String::from)
                .unwrap_or_default(),
        )),
        None => Err(out_of_range(*position)),
    }
}

fn index_of<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, part, start) = match args {
        [Value::String(text), Value::String(part)] => (text.as_str(), part.as_str(), 0),
        [Value::String(text), Value::String(part), Value::Int(start)] => {
            (text.as_str(), part.as_str(), *start)
        }
        _ => return Err(no_overload("indexOf", args)),
    };
    meter.step(text.len() as u64 / 64)?;
    if start < 0 {
        return Err(out_of_range(start));
    }
    let from = match offset(text, start) {
        Some(from) => from,
        None if part.is_empty() => text.len(),
        None => return Ok(Value::Int(-1)),
    };
    let found = text[from..].find(part).map(|at| count(&text[..from + at]));
    Ok(Value::Int(found.unwrap_or(-1)))
}

fn last_index_of<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, part, last) = match args {
        [Value::String(text), Value::String(part)] => (text.as_str(), part.as_str(), None),
        [Value::String(text), Value::String(part), Value::Int(last)] => {
            (text.as_str(), part.as_str(), Some(*last))
        }
        _ => return Err(no_overload("lastIndexOf", args)),
    };
    meter.step(text.len() as u64 / 64)?;
    let end = match last {
        None => text.len(),
        Some(last) if last < 0 => return Err(out_of_range(last)),
        // A match may begin at `last`, so it may end beyond it.
        Some(last) => match offset(text, last) {
            Some(at) if at < text.len() => {
                let mut end = (at + part.len()).min(text.len());
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                end
            }
            _ if part.is_empty() => text.len(),
            _ => return Ok(Value::Int(-1)),
        },
    };
    let found = text[..end].rfind(part).map(|at| count(&text[..at]));
    Ok(Value::Int(found.unwrap_or(-1)))
}

/// The answer of the first release when nothing is looked for from some position on: that position.
fn trivial<'a>(args: &[Value<'a>]) -> Option<Value<'a>> {
    match args {
        [_, Value::String(part), from @ Value::Int(_)] if part.as_str().is_empty() => {
            Some(from.clone())
        }
        _ => None,
    }
}

fn first_index_of<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    trivial(args).map_or_else(|| index_of(meter, args), Ok)
}

fn first_last_index_of<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    trivial(args).map_or_else(|| last_index_of(meter, args), Ok)
}

/// Refuses a position beyond the end.
fn within<'a>(args: &[Value<'a>]) -> Result<(), Box<Fault>> {
    match args {
        [Value::String(text), _, Value::Int(position)] if *position > count(text.as_str()) => {
            Err(out_of_range(*position))
        }
        _ => Ok(()),
    }
}

fn index_within<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    within(args)?;
    index_of(meter, args)
}

fn last_index_within<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    within(args)?;
    last_index_of(meter, args)
}

fn map_text<'a>(name: &str, args: &[Value<'a>], change: fn(&str) -> String) -> Outcome<'a> {
    match args {
        [Value::String(text)] => Ok(Value::string(change(text.as_str()))),
        _ => Err(no_overload(name, args)),
    }
}

fn lower<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    map_text("lowerAscii", args, str::to_ascii_lowercase)
}

fn upper<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    map_text("upperAscii", args, str::to_ascii_uppercase)
}

fn trim<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    map_text("trim", args, |text| text.trim().to_owned())
}

fn reverse<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    map_text("reverse", args, |text| text.chars().rev().collect())
}

fn replace<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, from, to, limit) = match args {
        [Value::String(text), Value::String(from), Value::String(to)] => (text, from, to, -1),
        [
            Value::String(text),
            Value::String(from),
            Value::String(to),
            Value::Int(limit),
        ] => (text, from, to, *limit),
        _ => return Err(no_overload("replace", args)),
    };
    let (text, from, to) = (text.as_str(), from.as_str(), to.as_str());
    let most = if from.is_empty() {
        text.len() + 1
    } else {
        text.matches(from).count()
    };
    let most = usize::try_from(limit).map_or(most, |limit| most.min(limit));
    meter.write(most.saturating_mul(to.len()).saturating_add(text.len()))?;
    Ok(Value::string(match usize::try_from(limit) {
        Ok(limit) => text.replacen(from, to, limit),
        Err(_) => text.replace(from, to),
    }))
}

/// The memory that a part takes, beside its text.
const PART: usize = 64;

fn split<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, separator, limit) = match args {
        [Value::String(text), Value::String(separator)] => (text.as_str(), separator.as_str(), -1),
        [
            Value::String(text),
            Value::String(separator),
            Value::Int(limit),
        ] => (text.as_str(), separator.as_str(), *limit),
        _ => return Err(no_overload("split", args)),
    };
    meter.step(text.len() as u64 / 8)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let part = |part: &str| Value::string(part);
    // Each part is an allocation of its own.
    let most = match separator {
        "" => text.len(),
        separator => text.matches(separator).count(),
    };
    meter.write(most.min(limit).saturating_mul(PART))?;
    if limit == 0 {
        return Ok(Value::flat_list([]));
    }
    if separator.is_empty() {
        // One part for each character, the last one with the rest.
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if parts.len() + 1 == limit {
                break;
            }
            parts.push(part(&rest[..c.len_utf8()]));
            rest = &rest[c.len_utf8()..];
        }
        if !rest.is_empty() {
            parts.push(part(rest));
        }
        return Ok(Value::flat_list(parts));
    }
    Ok(Value::flat_list(text.splitn(limit, separator).map(part)))
}

fn substring<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, start, end) = match args {
        [Value::String(text), Value::Int(start)] => (text.as_str(), *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => {
            (text.as_str(), *start, Some(*end))
        }
        _ => return Err(no_overload("substring", args)),
    };
    if let Some(end) = end
        && start > end
    {
        return Err(Fault::invalid(format!(
            "invalid substring range. start: {start}, end: {end}"
        )));
    }
    let from = offset(text, start).ok_or_else(|| out_of_range(start))?;
    let to = match end {
        Some(end) => offset(text, end).ok_or_else(|| out_of_range(end))?,
        None => text.len(),
    };
    Ok(Value::string(&text[from..to]))
}

fn join<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (list, separator) = match args {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, separator.as_str()),
        _ => return Err(no_overload("join", args)),
    };
    let mut out = String::new();
    for (index, item) in list.iter().enumerate() {
        let item = item?;
        let Some(text) = item.as_str() else {
            return Err(no_overload("join", args));
        };
        meter.step(1)?;
        meter.write(text.len() + separator.len())?;
        if index > 0 {
            out.push_str(separator);
        }
        out.push_str(text);
    }
    Ok(Value::string(out))
}

fn quote<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    map_text("strings.quote", args, |text| {
        let mut out = String::from("\"");
        for c in text.chars() {
            match c {
                '\u{7}' => out.push_str("\\a"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{b}' => out.push_str("\\v"),
                '\\' => out.push_str("\\\\"),
                '"' => out.push_str("\\\""),
                c => out.push(c),
            }
        }
        out.push('"');
        out
    })
}
