//! The wire format: tags, varints and lengths; no meaning.

/// One field's payload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Field<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// Reads fields from a message. Every read consumes input or fails, so a loop over it ends.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

type Result<T> = std::result::Result<T, &'static str>;

// === impl Reader ===

impl<'a> Reader<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// The next field with its number, or `None` at the end.
    pub(super) fn field(&mut self) -> Result<Option<(u32, Field<'a>)>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| "a field number out of range")?;
        if number == 0 || number > 536_870_911 {
            return Err("a field number out of range");
        }
        let field = match tag & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length =
                    usize::try_from(self.varint()?).map_err(|_| "a length out of range")?;
                Field::Bytes(self.take(length)?)
            }
            5 => Field::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return Err("an unknown wire type"),
        };
        Ok(Some((number, field)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// At most ten bytes; bits beyond the 64th are lost, as in every reader.
    pub(super) fn varint(&mut self) -> Result<u64> {
        let mut value = 0_u64;
        for (index, byte) in self.rest.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * index).min(63);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err("an unterminated number")
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or("an unexpected end")?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or("an unexpected end")?;
        self.rest = rest;
        Ok(*taken)
    }
}

/// Writes a message from its end to its beginning, so that lengths are known when they are due.
#[derive(Default)]
pub(crate) struct Writer {
    reversed: Vec<u8>,
}

// === impl Writer ===

impl Writer {
    /// How much is written; the length of what follows is the difference of two of these.
    pub(crate) fn mark(&self) -> usize {
        self.reversed.len()
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.reversed.extend(bytes.iter().rev());
    }

    pub(super) fn varint(&mut self, mut value: u64) {
        let mut bytes = [0_u8; 10];
        let mut length = 0;
        loop {
            let low = u8::try_from(value & 0x7f).unwrap_or_default();
            value >>= 7;
            bytes[length] = if value == 0 { low } else { low | 0x80 };
            length += 1;
            if value == 0 {
                break;
            }
        }
        self.raw(&bytes[..length]);
    }

    pub(super) fn number(&mut self, number: u32, value: u64) {
        self.varint(value);
        self.varint(u64::from(number) << 3);
    }

    pub(super) fn double(&mut self, number: u32, value: f64) {
        self.raw(&value.to_le_bytes());
        self.varint((u64::from(number) << 3) | 1);
    }

    pub(crate) fn bytes(&mut self, number: u32, bytes: &[u8]) {
        let mark = self.mark();
        self.raw(bytes);
        self.close(number, mark);
    }

    /// Makes everything since `mark` one length-delimited field.
    pub(crate) fn close(&mut self, number: u32, mark: usize) {
        let length = self.mark() - mark;
        self.varint(u64::try_from(length).unwrap_or(u64::MAX));
        self.varint((u64::from(number) << 3) | 2);
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.reversed.reverse();
        self.reversed
    }
}
