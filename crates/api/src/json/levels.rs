//! How deep a text nests, whether or not it is JSON.

/// The levels of objects and lists at the deepest place of a text. Of a text that is not JSON, or
/// only the beginning of a document, it is what its brackets say.
pub fn levels(text: &[u8]) -> usize {
    let mut open = 0_usize;
    let mut deepest = 0;
    let mut rest = text.iter();
    while let Some(byte) = rest.next() {
        match byte {
            b'{' | b'[' => {
                open += 1;
                deepest = deepest.max(open);
            }
            b'}' | b']' => open = open.saturating_sub(1),
            b'"' => skip_string(&mut rest),
            _ => {}
        }
    }
    deepest
}

/// To behind the closing quote.
fn skip_string<'a>(rest: &mut impl Iterator<Item = &'a u8>) {
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(rest.next()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_count_outside_of_strings() {
        for (text, expected) in [
            ("", 0),
            ("1", 0),
            ("{}", 1),
            ("[1, [2], {\"a\": [3]}]", 3),
            ("[[], [], []]", 2),
            (r#"{"[[[": "{\"[[\\"}"#, 1),
            ("]]][[", 2),
            ("[\"[[", 1),
            ("[\"\\", 1),
        ] {
            assert_eq!(levels(text.as_bytes()), expected, "{text}");
        }
    }
}
