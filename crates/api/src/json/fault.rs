//! What is wrong with a text that is not JSON, in the words that clients of Kubernetes know.
//!
//! Those are the words of Go's `encoding/json`. Only used once a text was refused, so it is
//! written to be read and not to be fast; nothing here decides what is accepted.

/// A reader of one text, byte by byte; Go speaks of single bytes too.
struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

/// Where a value stands that is not closed yet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Object,
    Array,
}

type Fault = String;

/// Says what is wrong with the text; nothing if it is one JSON document.
pub fn fault(text: &[u8]) -> Option<Fault> {
    Scanner { text, at: 0 }.document().err()
}

// === impl Scanner ===

impl Scanner<'_> {
    /// Without recursion: how deep it goes is up to whoever sent it.
    fn document(&mut self) -> Result<(), Fault> {
        let mut open: Vec<Open> = Vec::new();
        self.space();
        loop {
            // At the beginning of a value.
            match self.peek()? {
                b'{' => {
                    self.at += 1;
                    self.space();
                    if self.peek()? != b'}' {
                        self.key()?;
                        open.push(Open::Object);
                        continue;
                    }
                    self.at += 1;
                }
                b'[' => {
                    self.at += 1;
                    self.space();
                    if self.peek()? != b']' {
                        open.push(Open::Array);
                        continue;
                    }
                    self.at += 1;
                }
                _ => self.scalar()?,
            }
            if !self.close(&mut open)? {
                return Ok(());
            }
        }
    }

    /// Goes from the end of a value to the beginning of the next; false at the end of it all.
    fn close(&mut self, open: &mut Vec<Open>) -> Result<bool, Fault> {
        loop {
            self.space();
            let (end, context) = match open.last() {
                None if self.at == self.text.len() => return Ok(false),
                None => return Err(self.unexpected("after top-level value")),
                Some(Open::Object) => (b'}', "after object key:value pair"),
                Some(Open::Array) => (b']', "after array element"),
            };
            match self.peek()? {
                b',' => {
                    self.at += 1;
                    self.space();
                    if open.last() == Some(&Open::Object) {
                        self.key()?;
                    }
                    return Ok(true);
                }
                mark if mark == end => {
                    self.at += 1;
                    open.pop();
                }
                _ => return Err(self.unexpected(context)),
            }
        }
    }

    /// A key, its colon, and the space behind it.
    fn key(&mut self) -> Result<(), Fault> {
        if self.peek()? != b'"' {
            return Err(self.unexpected("looking for beginning of object key string"));
        }
        self.string()?;
        self.space();
        if self.peek()? != b':' {
            return Err(self.unexpected("after object key"));
        }
        self.at += 1;
        self.space();
        Ok(())
    }

    fn scalar(&mut self) -> Result<(), Fault> {
        match self.peek()? {
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn literal(&mut self, word: &str) -> Result<(), Fault> {
        for expected in word.bytes() {
            if self.peek()? != expected {
                let expected = char::from(expected);
                let context = format!("in literal {word} (expecting '{expected}')");
                return Err(self.unexpected(&context));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), Fault> {
        self.at += 1;
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => {
                    self.at += 1;
                    self.escape()?;
                }
                0..0x20 => return Err(self.unexpected("in string literal")),
                _ => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), Fault> {
        match self.peek()? {
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => self.at += 1,
            b'u' => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek()?.is_ascii_hexdigit() {
                        return Err(self.unexpected("in \\u hexadecimal character escape"));
                    }
                    self.at += 1;
                }
            }
            _ => return Err(self.unexpected("in string escape code")),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), Fault> {
        if self.peek()? == b'-' {
            self.at += 1;
        }
        match self.peek()? {
            b'0' => self.at += 1,
            _ => self.digits("in numeric literal")?,
        }
        if self.next_is(b".") {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if self.next_is(b"eE") {
            self.at += 1;
            if self.next_is(b"+-") {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    /// At least one.
    fn digits(&mut self, context: &str) -> Result<(), Fault> {
        if !self.peek()?.is_ascii_digit() {
            return Err(self.unexpected(context));
        }
        while self.next_is(b"0123456789") {
            self.at += 1;
        }
        Ok(())
    }

    fn space(&mut self) {
        while self.next_is(b" \t\r\n") {
            self.at += 1;
        }
    }

    fn next_is(&self, marks: &[u8]) -> bool {
        self.text
            .get(self.at)
            .is_some_and(|next| marks.contains(next))
    }

    fn peek(&self) -> Result<u8, Fault> {
        let next = self.text.get(self.at).copied();
        next.ok_or_else(|| "unexpected end of JSON input".to_owned())
    }

    fn unexpected(&self, context: &str) -> Fault {
        let found = self.text.get(self.at).copied().unwrap_or_default();
        format!("invalid character {} {context}", quoted(found))
    }
}

/// One byte, as Go quotes the character of that number.
fn quoted(byte: u8) -> String {
    let inner = match byte {
        b'\'' => "\\'".to_owned(),
        b'\\' => "\\\\".to_owned(),
        0x07 => "\\a".to_owned(),
        0x08 => "\\b".to_owned(),
        0x0c => "\\f".to_owned(),
        b'\n' => "\\n".to_owned(),
        b'\r' => "\\r".to_owned(),
        b'\t' => "\\t".to_owned(),
        0x0b => "\\v".to_owned(),
        0..0x20 | 0x7f => format!("\\x{byte:02x}"),
        // Latin-1 has some that cannot be shown.
        0x80..=0xa0 | 0xad => format!("\\u{byte:04x}"),
        _ => char::from(byte).to_string(),
    };
    format!("'{inner}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(
            fault(text.as_bytes()).unwrap_or_default(),
            expected,
            "{text}"
        );
    }

    #[test]
    fn what_is_json_has_no_fault() {
        for text in [
            "null",
            " { } ",
            "[]",
            r#"{"a":[1,-0.5e+7,"\u00e9\n",{"b":{}},[[]]],"c":true}"#,
        ] {
            check(text, "");
        }
        check(&"[".repeat(1_000_000), "unexpected end of JSON input");
    }

    #[test]
    fn faults_are_told_in_the_words_of_go() {
        check("", "unexpected end of JSON input");
        check("{\"a\"", "unexpected end of JSON input");
        check(
            "this",
            "invalid character 'h' in literal true (expecting 'r')",
        );
        check(
            "nope",
            "invalid character 'o' in literal null (expecting 'u')",
        );
        check("x", "invalid character 'x' looking for beginning of value");
        check(
            "[1,]",
            "invalid character ']' looking for beginning of value",
        );
        check(
            "{\"a\":1,}",
            "invalid character '}' looking for beginning of object key string",
        );
        check(
            "{1:2}",
            "invalid character '1' looking for beginning of object key string",
        );
        check("{\"a\" 1}", "invalid character '1' after object key");
        check(
            "{\"a\":1 2}",
            "invalid character '2' after object key:value pair",
        );
        check("[1 2]", "invalid character '2' after array element");
        check("{} {}", "invalid character '{' after top-level value");
        check("01", "invalid character '1' after top-level value");
        check("-a", "invalid character 'a' in numeric literal");
        check(
            "1.a",
            "invalid character 'a' after decimal point in numeric literal",
        );
        check(
            "1ea",
            "invalid character 'a' in exponent of numeric literal",
        );
        check("\"\n\"", "invalid character '\\n' in string literal");
        check("\"\\x\"", "invalid character 'x' in string escape code");
        check(
            "\"\\u00g\"",
            "invalid character 'g' in \\u hexadecimal character escape",
        );
        check(
            "'a'",
            "invalid character '\\'' looking for beginning of value",
        );
        assert_eq!(
            fault(b"\x9e").unwrap_or_default(),
            "invalid character '\\u009e' looking for beginning of value"
        );
    }

    proptest::proptest! {
        #[test]
        fn what_has_a_fault_is_what_is_not_json(text in "[\\[\\]{}:,\"0-9a.eE+-]{0,12}|.{0,20}") {
            let valid = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            proptest::prop_assert_eq!(fault(text.as_bytes()).is_none(), valid, "{}", text);
        }
    }
}
