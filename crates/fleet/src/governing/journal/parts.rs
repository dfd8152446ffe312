//! Splits the entries of the journal into parts that every store takes. Pure.
//!
//! Which part has an object follows from the name of the object and from the number of parts alone,
//! so that a process that ends between the writes of two parts loses none. Another number of parts
//! has other names: those of before are there until all others are, and what an entry says is what
//! all of its parts say.

use serde_json::{Map, Value};

use super::TARGETS;

/// Larger entries are split.
pub(super) const LARGEST: usize = 1 << 20;

/// Returns the parts of an entry by their names: the entry itself if it is small.
pub(super) fn split(name: String, entry: Value, largest: usize) -> Vec<(String, Value)> {
    let size = size(&entry);
    let Value::Object(entry) = entry else {
        return vec![(name, entry)];
    };
    if size <= largest {
        return vec![(name, Value::Object(entry))];
    }
    // Parts are not equally large.
    let count = (2 * size.div_ceil(largest)).next_power_of_two();
    let parts = distribute(entry, count).into_iter().enumerate();
    let parts = parts.filter(|(_, part)| !part.is_empty());
    parts
        .map(|(index, part)| (format!("{name}.{count}.{index}"), Value::Object(part)))
        .collect()
}

/// Returns the entry that a part is of.
pub(super) fn entry_of(part: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let mut parts = part.rsplitn(3, '.');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(index), Some(count), Some(name)) if is_number(index) && is_number(count) => name,
        _ => part,
    }
}

/// Puts each item of the lists of an entry into one part. All else is in the first one.
fn distribute(mut entry: Map<String, Value>, count: usize) -> Vec<Map<String, Value>> {
    let mut parts = vec![Map::new(); count];
    for (field, value) in &mut entry {
        if let Value::Array(items) = value
            && field != TARGETS
        {
            for item in items.drain(..) {
                let index = usize::try_from(hash(&item) % count as u64).unwrap_or(0);
                let list = parts[index].entry(field);
                let list = list.or_insert_with(|| Value::Array(Vec::new()));
                list.as_array_mut()
                    .into_iter()
                    .for_each(|list| list.push(item.clone()));
            }
        } else if let Value::Object(inner) = value {
            let inner = distribute(std::mem::take(inner), count);
            let inner = inner.into_iter().enumerate();
            for (index, part) in inner.filter(|(_, part)| !part.is_empty()) {
                parts[index].insert(field.clone(), Value::Object(part));
            }
        } else {
            parts[0].insert(field.clone(), value.take());
        }
    }
    parts
}

/// Hashes what an item of a list is about, the same in every version (FNV-1a).
fn hash(item: &Value) -> u64 {
    let about = match item.as_object() {
        Some(item) => ["group", "kind", "name"].map(|field| item.get(field)),
        None => [Some(item), None, None],
    };
    let about = about.map(|text| text.and_then(Value::as_str).unwrap_or_default());
    let bytes = about.iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Returns about how long a value is as it is written, and never less.
fn size(value: &Value) -> usize {
    // A control character takes six bytes.
    let text = |text: &str| {
        let plain = text
            .bytes()
            .all(|byte| !matches!(byte, 0..0x20 | b'"' | b'\\'));
        3 + text.len() * if plain { 1 } else { 6 }
    };
    match value {
        Value::Null | Value::Bool(_) => 6,
        Value::Number(_) => 25,
        Value::String(value) => text(value),
        Value::Array(items) => 3 + items.iter().map(size).sum::<usize>(),
        Value::Object(fields) => {
            let fields = fields.iter();
            3 + fields
                .map(|(key, value)| text(key) + 1 + size(value))
                .sum::<usize>()
        }
    }
}
