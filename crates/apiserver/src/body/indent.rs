//! JSON laid out for people: two spaces for each level, a line for each field and item.
//!
//! It works on bytes as they come, and takes them to be valid JSON: what is written here was
//! encoded here.

/// How far the layout has come.
#[derive(Default)]
pub(super) struct Indenter {
    depth: usize,
    place: Place,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Between,
    /// Just behind `{` or `[`: nothing is known yet of what is within.
    Opened,
    Text,
    /// Behind a backslash in a text.
    Escape,
}

// === impl Indenter ===

impl Indenter {
    /// Lays out the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for &byte in bytes {
            match self.place {
                Place::Text => {
                    out.push(byte);
                    self.place = match byte {
                        b'\\' => Place::Escape,
                        b'"' => Place::Between,
                        _ => Place::Text,
                    };
                }
                Place::Escape => {
                    out.push(byte);
                    self.place = Place::Text;
                }
                Place::Between | Place::Opened => self.outside_text(byte, out),
            }
        }
    }

    fn outside_text(&mut self, byte: u8, out: &mut Vec<u8>) {
        if byte.is_ascii_whitespace() {
            return;
        }
        let opened = self.place == Place::Opened;
        let closes = matches!(byte, b'}' | b']');
        self.place = Place::Between;
        if closes {
            self.depth = self.depth.saturating_sub(1);
        }
        // What is closed when it was just opened stays on its line.
        if opened != closes {
            self.line(out);
        }
        out.push(byte);
        match byte {
            b'{' | b'[' => {
                self.depth += 1;
                self.place = Place::Opened;
            }
            b',' => self.line(out),
            b':' => out.push(b' '),
            b'"' => self.place = Place::Text,
            _ => {}
        }
    }

    fn line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.extend(std::iter::repeat_n(b' ', self.depth * 2));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn it_is_laid_out_as_everybody_does() {
        let value =
            json!({"a": {}, "b": [], "c": [1, {"d": "e,{\"}\\"}, [[]]], "f": null, "g": -1.5});
        let text = value.to_string();
        let expected = serde_json::to_string_pretty(&value).unwrap();
        for cut in 0..text.len() {
            let (head, tail) = text.as_bytes().split_at(cut);
            let mut indenter = Indenter::default();
            let mut out = Vec::new();
            indenter.push(head, &mut out);
            indenter.push(tail, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            Indenter::default().push(&bytes, &mut Vec::new());
        }

        #[test]
        fn texts_stay_as_they_are(text: String) {
            let mut out = Vec::new();
            let value = json!({ text.clone(): [text] });
            Indenter::default().push(value.to_string().as_bytes(), &mut out);
            let back: Value = serde_json::from_slice(&out).unwrap();
            assert_eq!(back, value);
        }
    }
}
