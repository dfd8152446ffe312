//! Paths that rules name fields by: `.spec.x`, `.spec['a.b']`.

/// The names that a path goes through; nothing when it is no path.
pub fn steps(path: &str) -> Option<Vec<String>> {
    let mut rest = path;
    let mut names = Vec::new();
    while !rest.is_empty() {
        let name;
        (name, rest) = step(rest)?;
        names.push(name);
    }
    Some(names)
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

#[cfg(test)]
mod tests {
    use super::steps;

    #[test]
    fn paths_are_read_step_by_step() {
        let check = |path: &str, expected: Option<&[&str]>| {
            let names = steps(path);
            let names: Option<Vec<&str>> = names
                .as_ref()
                .map(|names| names.iter().map(String::as_str).collect());
            assert_eq!(names.as_deref(), expected, "{path}");
        };
        check("", Some(&[]));
        check(".a.b", Some(&["a", "b"]));
        check(r".a['b.c']['d\'e']", Some(&["a", "b.c", "d'e"]));
        for bad in ["a", ".", ".a[", ".a[0]", ".a['b", r".a['\q']", ".a]"] {
            check(bad, None);
        }
    }
}
