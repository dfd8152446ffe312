//! How it stands with a kind, in numbers and for people.

use std::collections::BTreeMap;

use crate::names::{ObjectName, SyncKind};
use crate::wire::Revision;

/// How it stands with what a zone sends, as the zone says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uploaded {
    /// How far the zone's store was seen.
    pub revision: Revision,
    pub kinds: BTreeMap<SyncKind, Counts>,
}

/// How many objects of a kind a receiver should have, and how far they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub wanted: u64,
    /// How many of them were sent as they are: on their way, or acknowledged.
    pub sent: u64,
    /// How many of them the receiver said that it has as they are.
    pub acknowledged: u64,
    /// Changed, under way, rejected, or to be taken away.
    pub open: u64,
    pub rejected: Reasons,
    /// In whose place the receiver keeps objects of its own.
    pub own: Reasons,
    /// How many the receiver has that it should not have any more.
    pub surplus: u64,
    /// Why those are not taken away, if somebody has to approve it.
    pub held: Option<String>,
    /// Why objects of the kind cannot be read where they are authored: the rest is as of before.
    pub unread: Option<String>,
}

/// Objects, and what is said of each: the first few of them, and how many there are besides. A
/// thousand objects that fail alike are not a thousand lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasons {
    pub listed: Vec<(ObjectName, String)>,
    pub more: u64,
}

/// So many are listed of a kind.
const LISTED: usize = 20;

// === impl Reasons ===

impl Reasons {
    /// Of all that are there.
    pub(crate) fn of<'a>(all: impl Iterator<Item = (&'a ObjectName, &'a str)>) -> Self {
        let mut reasons = Self::default();
        for (name, reason) in all {
            match reasons.listed.len() < LISTED {
                true => reasons.listed.push((name.clone(), reason.to_owned())),
                false => reasons.more += 1,
            }
        }
        reasons
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.listed.len() as u64 + self.more
    }
}
