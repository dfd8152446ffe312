//! Field names as expressions write them: Kubernetes' way to escape what is no identifier.

/// Words of the language that no identifier may be.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Whether the language keeps the word for itself.
pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// The name under which expressions see the field `name`; nothing when they cannot.
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let (text, width) = match c {
            '_' if rest.starts_with("__") => ("__underscores__", 2),
            '.' => ("__dot__", 1),
            '-' => ("__dash__", 1),
            '/' => ("__slash__", 1),
            c if c.is_ascii_alphanumeric() || c == '_' => (&rest[..1], 1),
            _ => return None,
        };
        out.push_str(text);
        rest = &rest[width..];
    }
    Some(out)
}

/// The field that expressions write as `escaped`; nothing when an escape is not one.
pub fn unescape(escaped: &str) -> Option<String> {
    let mut out = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(start) = rest.find("__") {
        let inner = &rest[start + 2..];
        let width = inner.find('_').unwrap_or(inner.len());
        if width == 0 || !inner[width..].starts_with("__") {
            // Underscores that delimit nothing.
            out.push_str(&rest[..=start]);
            rest = &rest[start + 1..];
            continue;
        }
        let word = &inner[..width];
        out.push_str(&rest[..start]);
        out.push_str(match word {
            "underscores" => "__",
            "dot" => ".",
            "dash" => "-",
            "slash" => "/",
            word if RESERVED.contains(&word) && word.len() + 4 == escaped.len() => word,
            _ => return None,
        });
        rest = &inner[width + 2..];
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_back() {
        let cases = [
            ("spec", "spec"),
            ("namespace", "__namespace__"),
            ("a-b", "a__dash__b"),
            ("a.b/c", "a__dot__b__slash__c"),
            ("a__b", "a__underscores__b"),
            ("_x", "_x"),
        ];
        for (name, escaped) in cases {
            assert_eq!(escape(name).as_deref(), Some(escaped));
            assert_eq!(unescape(escaped).as_deref(), Some(name));
        }
        for bad in ["", "1a", "a b", "ä"] {
            assert_eq!(escape(bad), None, "{bad}");
        }
        for bad in ["a__nope__b", "x__namespace__"] {
            assert_eq!(unescape(bad), None, "{bad}");
        }
    }
}
