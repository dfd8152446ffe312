//! What becomes of objects, as people read it. Pure.

use serde_json::Value;

use crate::table::counted;

/// Of a value so many characters are shown.
const SHOWN: usize = 100;
/// Of an object so many fields.
const FIELDS: usize = 40;

fn said(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// `ConfigMap`, or `WebApp.kro.run`.
pub(crate) fn kind(object: &Value) -> String {
    match said(&object["group"]) {
        "" => said(&object["kind"]).to_owned(),
        group => format!("{}.{group}", said(&object["kind"])),
    }
}

/// `namespace/name`, or `name`.
pub(crate) fn name(object: &Value) -> String {
    match said(&object["namespace"]) {
        "" => said(&object["name"]).to_owned(),
        namespace => format!("{namespace}/{}", said(&object["name"])),
    }
}

/// A sign, which object, and what of it.
pub(crate) fn text(hunk: &Value) -> String {
    let (sign, note) = match said(&hunk["change"]) {
        "Added" => ('+', String::new()),
        "Removed" => ('-', " is removed".to_owned()),
        "Impossible" => ('!', format!(": {}", said(&hunk["message"]))),
        _ => ('~', String::new()),
    };
    let mut text = format!(
        "{sign} {} {}{note}{}\n",
        kind(hunk),
        name(hunk),
        where_to(hunk)
    );
    let fields = hunk["fields"].as_array().map_or(&[][..], Vec::as_slice);
    if let (Some(message), '+' | '~' | '-') = (hunk["message"].as_str(), sign) {
        text.push_str(&format!("    {message}\n"));
    }
    for one in fields.iter().take(FIELDS) {
        for line in field(one) {
            text.push_str(&format!("    {line}\n"));
        }
    }
    if fields.len() > FIELDS {
        let more = fields.len() - FIELDS;
        text.push_str(&format!("    … {more} more; -o json has them\n"));
    }
    text
}

/// `: 412 zones (eu-[1-412]), because of override 1`.
fn where_to(hunk: &Value) -> String {
    let Some(count) = hunk["zones"]["count"].as_u64() else {
        return String::new();
    };
    let zones = counted(usize::try_from(count).unwrap_or(usize::MAX), "zone");
    let mut text = format!(": {zones} ({})", shortened(said(&hunk["zones"]["names"])));
    let overrides = hunk["overrides"].as_array().into_iter().flatten();
    let overrides: Vec<String> = overrides.map(ToString::to_string).collect();
    if !overrides.is_empty() {
        let word = if overrides.len() == 1 {
            "override"
        } else {
            "overrides"
        };
        text.push_str(&format!(", because of {word} {}", overrides.join(", ")));
    }
    text
}

/// A field, on a line, or on several if it is a text of several.
fn field(field: &Value) -> Vec<String> {
    let path = said(&field["path"]);
    let value = |name: &str| field[name].as_str().map(shortened);
    let lines = field["lines"].as_array().into_iter().flatten();
    let lines = lines.map(|line| format!("  {}", shortened(said(line))));
    let head = match (value("before"), value("after"), field["hidden"].as_str()) {
        (_, _, Some(word)) => format!("{path}: {word}, and not shown"),
        (Some(before), Some(after), None) => format!("{path}: {before} → {after}"),
        (None, Some(after), None) => format!("{path}: {after}"),
        (Some(before), None, None) => format!("{path}: {before} goes"),
        (None, None, None) => format!("{path}:"),
    };
    std::iter::once(head).chain(lines).collect()
}

/// Not too long.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
