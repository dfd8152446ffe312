//! Markers as they are written: `required=true default="a b" | minLength=1`.

use std::ops::Range;

use super::{Complaint, hint};

/// What a marker is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    Required,
    Default,
    Description,
    Minimum,
    Maximum,
    Validation,
    Immutable,
    Enum,
    Pattern,
    MinLength,
    MaxLength,
    MinItems,
    MaxItems,
    UniqueItems,
    ListType,
    ListMapKey,
}

/// One `key=value`.
#[derive(Debug)]
pub(super) struct Marker {
    pub(super) topic: Topic,
    /// Without its quotes.
    pub(super) value: String,
    pub(super) span: Range<usize>,
}

const KEYS: [(&str, Topic); 16] = [
    ("required", Topic::Required),
    ("default", Topic::Default),
    ("description", Topic::Description),
    ("minimum", Topic::Minimum),
    ("maximum", Topic::Maximum),
    ("validation", Topic::Validation),
    ("immutable", Topic::Immutable),
    ("enum", Topic::Enum),
    ("pattern", Topic::Pattern),
    ("minLength", Topic::MinLength),
    ("maxLength", Topic::MaxLength),
    ("minItems", Topic::MinItems),
    ("maxItems", Topic::MaxItems),
    ("uniqueItems", Topic::UniqueItems),
    ("listType", Topic::ListType),
    ("listMapKey", Topic::ListMapKey),
];

/// Words of other languages for ours.
const MEANT: [(&str, &str); 14] = [
    ("min", "use minimum, minLength or minItems"),
    ("max", "use maximum, maxLength or maxItems"),
    ("regex", "use pattern"),
    ("regexp", "use pattern"),
    ("optional", "fields are optional unless required=true"),
    ("nullable", "fields are optional unless required=true"),
    ("unique", "use uniqueItems"),
    ("doc", "use description"),
    ("title", "use description"),
    ("values", "use enum"),
    ("oneOf", "use enum"),
    ("rule", "use validation"),
    ("readOnly", "use immutable"),
    ("format", "use pattern"),
];

/// Parses what stands behind the first `|`, from the byte `start` on.
pub(super) fn parse(text: &str, start: usize) -> (Vec<Marker>, Vec<Complaint>) {
    let mut reader = Reader { text, at: start };
    let mut markers = Vec::new();
    let mut complaints = Vec::new();
    // Where the part between two `|` begins, while no marker is in it.
    let mut empty_part = Some(start);
    loop {
        reader.skip_space();
        match reader.peek() {
            Some('|') => {
                complaints.extend(empty_part.map(|from| no_marker(from..reader.at)));
                reader.at += 1;
                empty_part = Some(reader.at);
            }
            Some(_) => {
                empty_part = None;
                match reader.marker() {
                    Ok(Ok(marker)) => markers.push(marker),
                    Ok(Err(unknown)) => complaints.push(unknown),
                    Err(fatal) => {
                        complaints.push(fatal);
                        break;
                    }
                }
            }
            None => {
                complaints.extend(empty_part.map(|from| no_marker(from..reader.at)));
                break;
            }
        }
    }
    (markers, complaints)
}

fn no_marker(span: Range<usize>) -> Complaint {
    Complaint::new(span, "a marker is missing after '|'")
        .hint("write a marker, such as required=true, or leave '|' out")
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

// === impl Reader ===

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// A marker, or what is wrong with it; the outer error says that nothing behind it can be
    /// understood.
    fn marker(&mut self) -> Result<Result<Marker, Complaint>, Complaint> {
        let start = self.at;
        let Some(length) = self.rest().find('=') else {
            return Err(self.without_value(start));
        };
        let name = &self.text[start..start + length];
        self.at = start + length + 1;
        let value = self.value()?;
        let span = start..self.at;
        Ok(match topic(name) {
            Some(topic) => Ok(Marker { topic, value, span }),
            None => Err(unknown(name, start)),
        })
    }

    fn without_value(&self, start: usize) -> Complaint {
        let name = self.rest().trim_end();
        let complaint = Complaint::new(
            start..start + name.len(),
            format!("marker key '{name}' without a value"),
        );
        match topic(name) {
            Some(Topic::Required | Topic::Immutable | Topic::UniqueItems) => {
                complaint.hint(format!("write {name}=true"))
            }
            Some(_) => complaint.hint(format!("write {name}= and a value")),
            None => {
                complaint.hint("put texts with spaces in quotes, and no space on either side of =")
            }
        }
    }

    /// What follows `=`: up to the white space outside of quotes and brackets.
    fn value(&mut self) -> Result<String, Complaint> {
        let start = self.at;
        let mut quoted_at = None;
        let mut open = Vec::new();
        let mut escaped = false;
        let mut end = self.text.len();
        for (offset, c) in self.rest().char_indices() {
            let at = start + offset;
            match c {
                _ if escaped => escaped = false,
                '"' => quoted_at = if quoted_at.is_some() { None } else { Some(at) },
                '\\' if quoted_at.is_some() => escaped = true,
                _ if quoted_at.is_some() => {}
                '{' | '[' => open.push(at),
                '}' | ']' => {
                    open.pop().ok_or_else(|| {
                        Complaint::new(at..at + 1, "unmatched closing bracket/brace")
                            .hint("put the value in quotes")
                    })?;
                }
                c if c.is_whitespace() && open.is_empty() => {
                    end = at;
                    break;
                }
                _ => {}
            }
        }
        self.at = end;
        if let Some(at) = quoted_at {
            return Err(Complaint::new(at..end, "unclosed quote"));
        }
        match open.pop() {
            Some(at) => Err(Complaint::new(at..end, "unclosed bracket/brace")),
            None => Ok(unquoted(&self.text[start..end])),
        }
    }
}

/// White space in a key does not count, as with kro.
fn topic(name: &str) -> Option<Topic> {
    let known = |name: &str| KEYS.iter().find(|(known, _)| *known == name);
    let found = match known(name) {
        Some(found) => Some(found),
        None => known(&name.split_whitespace().collect::<String>()),
    };
    found.map(|(_, topic)| *topic)
}

fn unknown(name: &str, start: usize) -> Complaint {
    // `required default=1`: the first word lacks its value.
    let mut words = name.split_whitespace();
    let first = words.next().unwrap_or_default();
    let span = start..start + first.len();
    if first.is_empty() {
        return Complaint::new(start..start + 1, "empty marker key");
    }
    if words.next().is_some() && topic(first).is_some() {
        return Complaint::new(span, format!("marker key '{first}' without a value"))
            .hint(format!("write {first}= and a value"));
    }
    let complaint = Complaint::new(span, format!("unknown marker: {first}"));
    let meant = MEANT.iter().find(|(word, _)| *word == first);
    match meant {
        Some((_, hint)) => complaint.hint(*hint),
        None => match hint::nearest(first, KEYS.iter().map(|(name, _)| *name)) {
            Some(near) => complaint.hint(format!("use {near}")),
            None => complaint,
        },
    }
}

/// The text between quotes, in which `\"` and `\\` stand for `"` and `\`; or the value as it is.
fn unquoted(value: &str) -> String {
    let inner = value
        .strip_prefix('"')
        .and_then(|value| value.strip_suffix('"'));
    let Some(inner) = inner else {
        return value.trim().to_owned();
    };
    let mut out = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some(escaped @ ('"' | '\\')) => out.push(escaped),
            Some(other) => out.extend(['\\', other]),
            None => {}
        }
    }
    out
}
