//! What is on disk: two tables and the encoding of a log record.
//!
//! `log` maps a [`Row`] to a record; `meta` holds the magic, the format, the
//! epoch and the oldest readable revision, up to which rows may be missing.
//! There is no table ordered by key: the index is rebuilt from the log.
//!
//! A record, little-endian: checksum u32, kind u8, created u64, previous row
//! u64 (0 for none), tag u64, key length u16, key, body. The checksum covers
//! the row and all that follows it, because redb does not verify pages of a
//! file that was closed cleanly.

use redb::TableDefinition;

use crate::{
    key::Key,
    revision::{Revision, Row},
};

pub(super) const LOG: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("log");
pub(super) const META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");

pub(super) const MAGIC: &[u8] = b"deltaplane store";
/// The newest format that this program reads, and the one that it writes.
pub(super) const FORMAT: u32 = 1;

pub(super) const META_MAGIC: &str = "magic";
pub(super) const META_FORMAT: &str = "format";
pub(super) const META_EPOCH: &str = "epoch";
pub(super) const META_COMPACTED: &str = "compacted";

const CHECKSUM: usize = 4;
const FIXED: usize = CHECKSUM + 1 + 8 + 8 + 8 + 2;

/// One operation of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) kind: Kind,
    pub(super) created: Revision,
    pub(super) previous: Option<Row>,
    pub(super) tag: u64,
    pub(super) key: &'a str,
    pub(super) body: &'a [u8],
}

/// What the operation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Put,
    /// A deletion whose body is the final content.
    Delete,
    /// A deletion without a body: the final content is the previous one's.
    DeleteAsIs,
}

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadRecord {
    #[error("it is cut short")]
    Short,
    #[error("its checksum does not match")]
    Checksum,
    #[error("its kind is unknown")]
    Kind,
    #[error("its key is not valid")]
    Key,
}

// === impl Record ===

impl<'a> Record<'a> {
    pub(super) fn encoded_len(&self) -> usize {
        FIXED + self.key.len() + self.body.len()
    }

    /// Writes the record into `out`, which has [`Record::encoded_len`] bytes.
    pub(super) fn encode(&self, row: Row, out: &mut [u8]) {
        let kind = match self.kind {
            Kind::Put => 1,
            Kind::Delete => 2,
            Kind::DeleteAsIs => 3,
        };
        let key_len = u16::try_from(self.key.len()).expect("a key has at most Key::MAX_LEN bytes");
        let (checksum, rest) = out.split_at_mut(CHECKSUM);
        rest[0] = kind;
        rest[1..9].copy_from_slice(&self.created.get().to_le_bytes());
        rest[9..17].copy_from_slice(&self.previous.map_or(0, Row::to_bits).to_le_bytes());
        rest[17..25].copy_from_slice(&self.tag.to_le_bytes());
        rest[25..27].copy_from_slice(&key_len.to_le_bytes());
        let (key, body) = rest[27..].split_at_mut(self.key.len());
        key.copy_from_slice(self.key.as_bytes());
        body.copy_from_slice(self.body);
        checksum.copy_from_slice(&sum(row, rest).to_le_bytes());
    }

    pub(super) fn decode(row: Row, bytes: &'a [u8]) -> Result<Self, BadRecord> {
        let (checksum, rest) = bytes.split_at_checked(CHECKSUM).ok_or(BadRecord::Short)?;
        if checksum != sum(row, rest).to_le_bytes() {
            return Err(BadRecord::Checksum);
        }
        let (kind, rest) = rest.split_first().ok_or(BadRecord::Short)?;
        let kind = match kind {
            1 => Kind::Put,
            2 => Kind::Delete,
            3 => Kind::DeleteAsIs,
            0 | 4..=u8::MAX => return Err(BadRecord::Kind),
        };
        let (created, rest) = number(rest)?;
        let (previous, rest) = number(rest)?;
        let (tag, rest) = number(rest)?;
        let (len, rest) = rest.split_first_chunk().ok_or(BadRecord::Short)?;
        let (key, body) = rest
            .split_at_checked(usize::from(u16::from_le_bytes(*len)))
            .ok_or(BadRecord::Short)?;
        Ok(Self {
            kind,
            created: Revision::new(created),
            previous: (previous != 0).then(|| Row::from_bits(previous)),
            tag,
            key: std::str::from_utf8(key).map_err(|_| BadRecord::Key)?,
            body,
        })
    }

    /// The record's key as an owned one.
    pub(super) fn owned_key(&self) -> Result<Key, BadRecord> {
        Key::parse(self.key).ok_or(BadRecord::Key)
    }
}

fn number(bytes: &[u8]) -> Result<(u64, &[u8]), BadRecord> {
    let (number, rest) = bytes.split_first_chunk().ok_or(BadRecord::Short)?;
    Ok((u64::from_le_bytes(*number), rest))
}

fn sum(row: Row, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&row.to_bits().to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record<'static> {
        Record {
            kind: Kind::Delete,
            created: Revision::new(3),
            previous: Some(Row::new(Revision::new(5), 1)),
            tag: u64::MAX,
            key: "t\0c\0\0n",
            body: b"body",
        }
    }

    fn encoded(record: &Record<'_>, row: Row) -> Vec<u8> {
        let mut bytes = vec![0; record.encoded_len()];
        record.encode(row, &mut bytes);
        bytes
    }

    #[test]
    fn records_are_read_back() {
        let row = Row::new(Revision::new(9), 2);
        for kind in [Kind::Put, Kind::Delete, Kind::DeleteAsIs] {
            for previous in [None, record().previous] {
                let record = Record {
                    kind,
                    previous,
                    ..record()
                };
                assert_eq!(Record::decode(row, &encoded(&record, row)), Ok(record));
            }
        }
    }

    #[test]
    fn every_damage_is_noticed() {
        let row = Row::new(Revision::new(9), 2);
        let good = encoded(&record(), row);
        for at in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[at / 8] ^= 1 << (at % 8);
            assert_eq!(
                Record::decode(row, &bad),
                Err(BadRecord::Checksum),
                "bit {at}"
            );
        }
        for len in 0..good.len() {
            assert!(Record::decode(row, &good[..len]).is_err(), "length {len}");
        }
        let elsewhere = Row::new(Revision::new(9), 3);
        assert_eq!(Record::decode(elsewhere, &good), Err(BadRecord::Checksum));
    }

    #[test]
    fn a_record_with_a_right_checksum_and_wrong_content_is_refused() {
        let row = Row::new(Revision::new(9), 0);
        let check = |payload: &[u8], expected: BadRecord| {
            let mut bytes = sum(row, payload).to_le_bytes().to_vec();
            bytes.extend_from_slice(payload);
            assert_eq!(Record::decode(row, &bytes), Err(expected));
        };
        check(&[], BadRecord::Short);
        check(&[9; 40], BadRecord::Kind);
        check(&[1; 26], BadRecord::Short);
        check(&[1; 40], BadRecord::Short);
        let mut bad_text = vec![1; 25];
        bad_text.extend([2, 0, 0xff, 0xff]);
        check(&bad_text, BadRecord::Key);
        let odd = Record {
            key: "no key",
            ..record()
        };
        assert_eq!(odd.owned_key(), Err(BadRecord::Key));
    }
}
