//! `fieldPath`: where below its value a rule sees the fault.

use deltaplane_api::field;
use deltaplane_schema::{Additional, Node};

/// The path as errors write it; nothing when there is none or when it names no field of `node`.
pub(super) fn normalized(path: &str, node: Node<'_>) -> Option<String> {
    let mut rest = path;
    let mut node = node;
    let mut found = field::Path::root();
    while !rest.is_empty() {
        let name;
        (name, rest) = step(rest)?;
        let declared = node.properties().len() > 0;
        found = match declared {
            true => found.child(&name),
            false => found.key(&name),
        };
        node = match (declared, node.additional()) {
            (true, _) => node.property(&name)?,
            (false, Additional::Schema(values)) => values,
            (false, Additional::Unspecified | Additional::Denied | Additional::Any) => return None,
        };
    }
    (!path.is_empty()).then(|| found.as_str().to_owned())
}

/// The first step of a path, `.name` or `['name']`, and the rest.
fn step(path: &str) -> Option<(String, &str)> {
    if let Some(rest) = path.strip_prefix('.') {
        let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        return (!name.is_empty()).then(|| (name.to_owned(), rest));
    }
    quoted(path.strip_prefix("['")?)
}

/// The rest of a quoted name, up to `']`.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '\'' => return Some((name, text[at + 1..].strip_prefix(']')?)),
            '\\' => name.push(match chars.next()?.1 {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                '\'' => '\'',
                '\\' => '\\',
                _ => return None,
            }),
            char => name.push(char),
        }
    }
    None
}
