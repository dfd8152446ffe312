//! Protocol-buffer messages as text: as much of the format as the conformance data uses.

use anyhow::{Context, Result, bail};

/// A message: fields in order, repeated ones repeatedly.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Message {
    fields: Vec<(String, Field)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Field {
    Message(Message),
    /// A number, a name of an enum, true or false.
    Word(String),
    Bytes(Vec<u8>),
}

pub(super) fn parse(text: &str) -> Result<Message> {
    let mut reader = Reader {
        bytes: text.as_bytes(),
        at: 0,
    };
    let message = reader.message(None)?;
    Ok(message)
}

// === impl Message ===

impl Message {
    /// The first field of a name.
    pub(super) fn get(&self, name: &str) -> Option<&Field> {
        let found = self.fields.iter().find(|(field, _)| field == name);
        found.map(|(_, value)| value)
    }

    pub(super) fn all<'m>(&'m self, name: &'m str) -> impl Iterator<Item = &'m Field> {
        self.fields
            .iter()
            .filter(move |(field, _)| field == name)
            .map(|(_, value)| value)
    }

    pub(super) fn message(&self, name: &str) -> Option<&Self> {
        self.get(name).and_then(Field::as_message)
    }

    pub(super) fn messages<'m>(&'m self, name: &'m str) -> impl Iterator<Item = &'m Self> {
        self.all(name).filter_map(Field::as_message)
    }

    pub(super) fn text(&self, name: &str) -> String {
        self.get(name).map(Field::text).unwrap_or_default()
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|field| field.text() == "true")
    }

    /// The only field, with its name.
    pub(super) fn only(&self) -> Option<(&str, &Field)> {
        self.fields
            .first()
            .map(|(name, field)| (name.as_str(), field))
    }

    /// Whether `test` holds for a field at any depth.
    pub(super) fn any(&self, test: &dyn Fn(&str, &Field) -> bool) -> bool {
        self.fields.iter().any(|(name, field)| {
            test(name, field) || field.as_message().is_some_and(|message| message.any(test))
        })
    }
}

// === impl Field ===

impl Field {
    pub(super) fn as_message(&self) -> Option<&Message> {
        match self {
            Self::Message(message) => Some(message),
            Self::Word(_) | Self::Bytes(_) => None,
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::Word(word) => word.clone(),
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Message(_) => String::new(),
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Word(word) => word.clone().into_bytes(),
            Self::Bytes(bytes) => bytes.clone(),
            Self::Message(_) => Vec::new(),
        }
    }
}

struct Reader<'t> {
    bytes: &'t [u8],
    at: usize,
}

impl Reader<'_> {
    fn skip_blank(&mut self) {
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'#' => {
                    while self.bytes.get(self.at).is_some_and(|&byte| byte != b'\n') {
                        self.at += 1;
                    }
                }
                b' ' | b'\t' | b'\r' | b'\n' | b',' | b';' => self.at += 1,
                _ => return,
            }
        }
    }

    fn peek(&mut self) -> Option<u8> {
        self.skip_blank();
        self.bytes.get(self.at).copied()
    }

    fn message(&mut self, close: Option<u8>) -> Result<Message> {
        let mut fields = Vec::new();
        loop {
            match (self.peek(), close) {
                (None, None) => break,
                (Some(byte), Some(close)) if byte == close => {
                    self.at += 1;
                    break;
                }
                (None, Some(_)) => bail!("a message is not closed"),
                (Some(_), _) => {
                    let name = self.name()?;
                    self.value(&name, &mut fields)?;
                }
            }
        }
        Ok(Message { fields })
    }

    fn name(&mut self) -> Result<String> {
        let start = self.at;
        if self.bytes[start] == b'[' {
            let end = self.bytes[start..]
                .iter()
                .position(|&byte| byte == b']')
                .context("a name is not closed")?;
            self.at = start + end + 1;
        } else {
            while self
                .bytes
                .get(self.at)
                .is_some_and(|&byte| byte.is_ascii_alphanumeric() || byte == b'_')
            {
                self.at += 1;
            }
        }
        if self.at == start {
            bail!("expected a name at byte {start}");
        }
        Ok(String::from_utf8_lossy(&self.bytes[start..self.at]).into_owned())
    }

    fn value(&mut self, name: &str, fields: &mut Vec<(String, Field)>) -> Result<()> {
        if self.peek() == Some(b':') {
            self.at += 1;
        }
        match self.peek().context("a value is missing")? {
            b'{' => {
                self.at += 1;
                let message = self.message(Some(b'}'))?;
                fields.push((name.to_owned(), Field::Message(message)));
            }
            b'[' => {
                self.at += 1;
                while self.peek().context("a list is not closed")? != b']' {
                    self.value(name, fields)?;
                }
                self.at += 1;
            }
            b'"' | b'\'' => {
                let mut bytes = Vec::new();
                while let Some(quote @ (b'"' | b'\'')) = self.peek() {
                    self.string(quote, &mut bytes)?;
                }
                fields.push((name.to_owned(), Field::Bytes(bytes)));
            }
            _ => {
                let start = self.at;
                let is_word = |byte: u8| {
                    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+' | b'.')
                };
                while self.bytes.get(self.at).is_some_and(|&byte| is_word(byte)) {
                    self.at += 1;
                }
                if self.at == start {
                    bail!("expected a value at byte {start}");
                }
                let word = String::from_utf8_lossy(&self.bytes[start..self.at]).into_owned();
                fields.push((name.to_owned(), Field::Word(word)));
            }
        }
        Ok(())
    }

    fn string(&mut self, quote: u8, out: &mut Vec<u8>) -> Result<()> {
        self.at += 1;
        loop {
            let byte = *self.bytes.get(self.at).context("a string is not closed")?;
            self.at += 1;
            match byte {
                b'\\' => self.escape(out)?,
                byte if byte == quote => return Ok(()),
                byte => out.push(byte),
            }
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let kind = *self
            .bytes
            .get(self.at)
            .context("an escape is not finished")?;
        self.at += 1;
        let code = match kind {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'v' => 11,
            b'x' | b'X' => u8::try_from(self.digits(2, 16)?)?,
            b'u' | b'U' => {
                let code = self.digits(if kind == b'u' { 4 } else { 8 }, 16)?;
                let c = char::from_u32(code).context("no such character")?;
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            b'0'..=b'7' => {
                self.at -= 1;
                u8::try_from(self.digits(3, 8)?)?
            }
            other => other,
        };
        out.push(code);
        Ok(())
    }

    /// A number of at most `count` digits.
    fn digits(&mut self, count: usize, radix: u32) -> Result<u32> {
        let mut value = 0;
        for _ in 0..count {
            let Some(digit) = self
                .bytes
                .get(self.at)
                .and_then(|&byte| char::from(byte).to_digit(radix))
            else {
                break;
            };
            value = value * radix + digit;
            self.at += 1;
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read() {
        let message = parse("a: 1 # x\nb { c: 'x' \"\\x41\\303\\251\" }\nb < >").map(drop);
        assert!(message.is_err());
        let message =
            parse("a: 1 # x\nb { c: 'x' \"\\x41\\303\\251\" }\nb: { d: [1, 2] }").unwrap();
        assert_eq!(message.text("a"), "1");
        assert_eq!(message.messages("b").count(), 2);
        assert_eq!(message.message("b").unwrap().text("c"), "xAé");
        assert_eq!(message.messages("b").last().unwrap().all("d").count(), 2);
    }
}
