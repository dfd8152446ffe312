//! How it stands with a zone, for people: from what `_sync` says to text.

use serde_json::Value;

use crate::table::Table;

/// All of it.
pub(super) fn zone(state: &Value) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        out.push_str(&format!("{name:<12}{value}\n"));
    };
    line("zone", text(&state["zone"]));
    line("connection", connection(state).to_owned());
    line("since", since(state));
    line("last heard", text(&state["heard"]));
    line("version", text(&state["product"]));
    line("protocol", text(&state["protocol"]));
    line("features", list_of(&state["features"]));
    line("lag", lag(state));
    out.push_str("\nto the zone\n");
    out.push_str(&sent(&state["kinds"]));
    if state["fromZone"]["kinds"]
        .as_array()
        .is_some_and(|kinds| !kinds.is_empty())
    {
        out.push_str("\nfrom the zone\n");
        out.push_str(&taken(&state["fromZone"]["kinds"]));
    }
    if let Some(message) = state["message"].as_str() {
        out.push_str(&format!("\n{message}\n"));
    }
    out
}

/// What of the hub's writes the zone does not have.
fn lag(state: &Value) -> String {
    let (at, through) = (state["revision"].as_u64(), state["through"].as_u64());
    match (at, through) {
        (Some(at), Some(through)) if through >= at => format!("none (revision {at})"),
        (Some(at), Some(through)) => format!("has all up to revision {through} of {at}"),
        (_, _) => "unknown".to_owned(),
    }
}

/// What the hub sends.
fn sent(kinds: &Value) -> String {
    let mut table = Table::new(&[
        "KIND",
        "AT HUB",
        "WANTED",
        "SENT",
        "ACKNOWLEDGED",
        "OWN",
        "OPEN",
        "REJECTED",
    ]);
    let kinds = || kinds.as_array().into_iter().flatten();
    for kind in kinds() {
        table.add(vec![
            name(kind),
            text(&kind["atHub"]),
            text(&kind["wanted"]),
            text(&kind["sent"]),
            text(&kind["acknowledged"]),
            number(count(kind, "own")),
            text(&kind["open"]),
            number(count(kind, "rejected")),
        ]);
    }
    with_notes(table.text(), kinds().map(notes).collect())
}

/// What the zone sends, and how much of it is here.
fn taken(kinds: &Value) -> String {
    let mut table = Table::new(&[
        "KIND",
        "HERE",
        "WANTED",
        "SENT",
        "ACKNOWLEDGED",
        "OPEN",
        "REJECTED",
    ]);
    let kinds = || kinds.as_array().into_iter().flatten();
    for kind in kinds() {
        table.add(vec![
            name(kind),
            text(&kind["here"]),
            text(&kind["wanted"]),
            text(&kind["sent"]),
            text(&kind["acknowledged"]),
            text(&kind["open"]),
            number(count(kind, "rejected")),
        ]);
    }
    with_notes(table.text(), kinds().map(notes).collect())
}

fn with_notes(table: String, notes: String) -> String {
    match notes.is_empty() {
        true => table,
        false => format!("{table}\n{notes}"),
    }
}

/// What is to be said of single objects of a kind.
fn notes(kind: &Value) -> String {
    let of = name(kind);
    let mut notes = String::new();
    for (field, more, word) in [
        ("rejected", "moreRejected", "rejected"),
        ("own", "moreOwn", "own"),
    ] {
        for one in kind[field].as_array().into_iter().flatten() {
            let (object, reason) = (text(&one["name"]), text(&one["reason"]));
            notes.push_str(&format!("{word:<10}{of} {object}: {reason}\n"));
        }
        if let Some(more) = kind[more].as_u64().filter(|more| *more > 0) {
            notes.push_str(&format!("{word:<10}{of}: {more} more\n"));
        }
    }
    // Namespaces and definitions go where something needs them.
    let is_implied =
        ["Namespace", "CustomResourceDefinition"].contains(&text(&kind["kind"]).as_str());
    let staying = kind["atHub"].as_u64().filter(|_| !is_implied);
    let staying = staying.zip(kind["wanted"].as_u64());
    let staying = staying.and_then(|(there, wanted)| there.checked_sub(wanted));
    if let Some(staying @ 1..) = staying {
        notes.push_str(&format!(
            "{:<10}{of}: {staying} of the hub's objects do not go to the zone\n",
            "stays"
        ));
    }
    if let Some(reason) = kind["held"].as_str() {
        notes.push_str(&format!("{:<10}{of}: {reason}\n", "held"));
    }
    if let Some(reason) = kind["unread"].as_str() {
        notes.push_str(&format!("{:<10}{of}: {reason}\n", "unread"));
    }
    notes
}

fn name(kind: &Value) -> String {
    match kind["group"].as_str() {
        Some("") | None => text(&kind["kind"]),
        Some(group) => format!("{}.{group}", text(&kind["kind"])),
    }
}

/// How many objects something is said of, if that is known.
pub(super) fn count(kind: &Value, field: &str) -> Option<u64> {
    let more = match field {
        "own" => "moreOwn",
        _ => "moreRejected",
    };
    let listed = kind[field].as_array()?.len() as u64;
    Some(listed + kind[more].as_u64().unwrap_or(0))
}

fn number(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

pub(super) fn connection(state: &Value) -> &'static str {
    let is_connected = state["connected"] == true;
    match (is_connected, state["diverged"] == true) {
        (true, true) => "diverged",
        (true, false) => "connected",
        (false, true) => "away, diverged",
        (false, false) => "away",
    }
}

/// Since when a zone is connected, or away.
pub(super) fn since(state: &Value) -> String {
    match state["connected"].as_bool() {
        Some(true) => text(&state["since"]),
        Some(false) | None => text(&state["awaySince"]),
    }
}

fn list_of(value: &Value) -> String {
    let items = value.as_array().into_iter().flatten();
    let items: Vec<&str> = items.filter_map(Value::as_str).collect();
    match items.is_empty() {
        true => "-".to_owned(),
        false => items.join(", "),
    }
}

pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_zone_that_is_away_says_since_when() {
        let connected = json!({"connected": true, "since": "1", "awaySince": null});
        assert_eq!(
            (connection(&connected), since(&connected).as_str()),
            ("connected", "1")
        );
        let lost = json!({"connected": false, "since": "1", "awaySince": "2"});
        assert_eq!((connection(&lost), since(&lost).as_str()), ("away", "2"));
        let diverged = json!({"connected": false, "diverged": true, "awaySince": "2"});
        let shown = (connection(&diverged), since(&diverged));
        assert_eq!((shown.0, shown.1.as_str()), ("away, diverged", "2"));
        let never = json!({"connected": false, "since": null, "awaySince": null});
        assert_eq!((connection(&never), since(&never).as_str()), ("away", "-"));
    }

    #[test]
    fn all_that_is_known_of_a_zone_is_shown() {
        let state = json!({
            "zone": "a", "connected": true, "since": "1", "heard": "2", "product": "0.1.0",
            "protocol": 1, "features": ["own", "query"], "revision": 9, "through": 8,
            "kinds": [
                {
                    "group": "", "kind": "Namespace", "atHub": 2, "wanted": 2, "sent": 1, "acknowledged": 1,
                    "open": 0, "rejected": [], "moreRejected": 0, "surplus": 0, "held": null,
                    "own": [{"name": "team", "reason": "kept"}], "moreOwn": 0,
                },
                {
                    "group": "example.com", "kind": "Widget", "atHub": 32, "wanted": 30, "sent": 7,
                    "acknowledged": 5, "open": 25, "surplus": 0, "held": null,
                    "rejected": [{"name": "team/a", "reason": "no"}], "moreRejected": 22,
                    "own": [], "moreOwn": 0,
                },
            ],
            "fromZone": {"asOf": "3", "kinds": [
                {"group": "", "kind": "ConfigMap", "here": 4},
                {
                    "group": "example.com", "kind": "Widget", "here": 25, "wanted": 0, "sent": 0,
                    "acknowledged": 0, "open": 25, "rejected": [], "moreRejected": 0,
                    "own": [], "moreOwn": 0, "surplus": 25, "held": "too many",
                },
            ]},
            "message": "deletions are held back",
        });
        let expected = "\
zone        a
connection  connected
since       1
last heard  2
version     0.1.0
protocol    1
features    own, query
lag         has all up to revision 8 of 9

to the zone
KIND                 AT HUB   WANTED   SENT   ACKNOWLEDGED   OWN   OPEN   REJECTED
Namespace            2        2        1      1              1     0      0
Widget.example.com   32       30       7      5              0     25     23

own       Namespace team: kept
rejected  Widget.example.com team/a: no
rejected  Widget.example.com: 22 more
stays     Widget.example.com: 2 of the hub's objects do not go to the zone

from the zone
KIND                 HERE   WANTED   SENT   ACKNOWLEDGED   OPEN   REJECTED
ConfigMap            4      -        -      -              -      -
Widget.example.com   25     0        0      0              25     0

held      Widget.example.com: too many

deletions are held back
";
        assert_eq!(zone(&state), expected);
    }
}
