//! Which revision of its graph an instance may run, as it says itself.

use std::fmt;

use serde_json::Value;

use crate::{conditions, keys};

/// The annotation of an instance that says so.
pub const ADMISSION: &str = "deltaplane.io/admission";

/// kro's annotation with the owner's word that nothing is to be done.
pub const RECONCILE: &str = "kro.run/reconcile";

/// The reason of an instance's conditions when something that it made says of itself that it will
/// not come right by waiting.
pub const RESOURCE_FAILED: &str = "ResourceFailed";

/// The reason of an instance's condition `ResourcesPropagated` when deletions are held, since they
/// exceed the deletion budget of its graph.
pub const DELETIONS_HELD: &str = "DeletionsHeld";

/// What comes before a revision in the message of a condition.
const TOLD: &str = "revision ";

/// What an instance may run, and how far it is with it: `arrived/3/6b2fa01c99d2e4f7`, or
/// `admitted/3/6b2fa01c99d2e4f7 from 2/b01dface0ff1cede`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    pub stage: Stage,
    pub at: Point,
    /// The last that it was ready at, until it is ready at this one.
    pub from: Option<Point>,
}

/// How far an instance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It began with this revision.
    Started,
    /// It may move there.
    Admitted,
    /// It was ready there.
    Arrived,
}

/// A revision. Its number alone does not tell: a definition that is deleted and made again begins
/// anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    pub number: i64,
    /// Of what it says. Nothing if somebody else wrote it.
    pub hash: Option<u64>,
}

/// Whether the owner of an instance said that nothing is to be done.
pub fn is_suspended(instance: &Value) -> bool {
    let said = instance["metadata"]["annotations"][RECONCILE].as_str();
    let said = said.map(str::to_ascii_lowercase);
    matches!(said.as_deref(), Some("suspended" | "disabled"))
}

/// Whether an instance will not come right by waiting, as its status says: it cannot be made, or
/// something that it made says so.
pub fn has_failed(instance: &Value) -> bool {
    let ready = conditions::of_instance(instance, "Ready");
    let broken = ready.is_some_and(|ready| ready["reason"] == RESOURCE_FAILED);
    broken || instance["status"]["state"] == "ERROR"
}

/// Whether somebody said of a definition that none of its instances may move for now. Whatever is
/// said but `false` means it: nobody moves because of a word that is spelt otherwise.
pub fn is_paused(definition: &Value) -> bool {
    let said = definition["metadata"]["annotations"][keys::PAUSED].as_str();
    said.is_some_and(|said| !said.trim().eq_ignore_ascii_case("false"))
}

/// Returns true if somebody approved of the deletions of a version of a definition, by naming the
/// version whole or by its beginning.
pub fn approves_deletions(approved: &str, version: &str, short: &str) -> bool {
    let approved = approved.trim();
    approved == version || approved == short
}

// === impl Admission ===

impl Admission {
    pub fn new(stage: Stage, at: Point) -> Self {
        let from = None;
        Self { stage, at, from }
    }

    /// As it is written on an instance.
    pub fn read(instance: &Value) -> Option<Self> {
        let text = instance["metadata"]["annotations"][ADMISSION].as_str()?;
        let (stage, points) = text.split_once('/')?;
        let stage = match stage {
            "started" => Stage::Started,
            "admitted" => Stage::Admitted,
            "arrived" => Stage::Arrived,
            _ => return None,
        };
        let (at, from) = match points.split_once(" from ") {
            Some((at, from)) => (at, Some(Point::read(from)?)),
            None => (points, None),
        };
        let at = Point::read(at)?;
        Some(Self { stage, at, from })
    }

    /// The last revision that it was ready at, as far as it is known.
    pub fn settled(&self) -> Point {
        self.from.unwrap_or(self.at)
    }
}

impl fmt::Display for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.stage, self.at)?;
        match self.from {
            Some(from) => write!(f, " from {from}"),
            None => Ok(()),
        }
    }
}

// === impl Stage ===

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Started => "started",
            Self::Admitted => "admitted",
            Self::Arrived => "arrived",
        })
    }
}

// === impl Point ===

impl Point {
    /// Of a revision whose hash is written like this.
    pub fn new(number: i64, hash: &str) -> Self {
        let hash = u64::from_str_radix(hash, 16).ok();
        Self { number, hash }
    }

    /// As conditions name it: `revision 3/6b2fa01c99d2e4f7`.
    pub fn told(self) -> String {
        format!("{TOLD}{self}")
    }

    /// From the message of a condition that names it.
    pub fn heard(message: &str) -> Option<Self> {
        Self::read(message.strip_prefix(TOLD)?)
    }

    fn read(text: &str) -> Option<Self> {
        let (number, hash) = match text.split_once('/') {
            Some((number, hash)) => (number, Some(u64::from_str_radix(hash, 16).ok()?)),
            None => (text, None),
        };
        let number = number.parse().ok().filter(|number| *number >= 0)?;
        Some(Self { number, hash })
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hash {
            Some(hash) => write!(f, "{}/{hash:016x}", self.number),
            None => write!(f, "{}", self.number),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Option<Admission> {
        Admission::read(&json!({"metadata": {"annotations": {ADMISSION: text}}}))
    }

    #[test]
    fn what_is_written_is_read() {
        for text in [
            "started/1",
            "arrived/3/00000000000000ff",
            "admitted/3/6b2fa01c99d2e4f7 from 2/b01dface0ff1cede",
        ] {
            assert_eq!(read(text).map(|one| one.to_string()).as_deref(), Some(text));
        }
    }

    #[test]
    fn what_conditions_say_is_heard() {
        let point = Point::new(3, "6b2fa01c99d2e4f7");
        assert_eq!(point.told(), "revision 3/6b2fa01c99d2e4f7");
        assert_eq!(Point::heard(&point.told()), Some(point));
        for other in ["", "revision", "revision x", "the graph is known"] {
            assert_eq!(Point::heard(other), None, "{other}");
        }
    }

    #[test]
    fn whatever_is_said_but_false_pauses() {
        let paused =
            |said: Value| is_paused(&json!({"metadata": {"annotations": {keys::PAUSED: said}}}));
        for said in ["true", "True", "yes", "1", ""] {
            assert!(paused(said.into()), "{said}");
        }
        for said in [json!("false"), json!(" False "), Value::Null] {
            assert!(!paused(said.clone()), "{said}");
        }
    }

    #[test]
    fn nothing_else_is() {
        for text in [
            "",
            "arrived",
            "arrived/",
            "arrived/-1",
            "gone/1",
            "arrived/1/xyz",
            "arrived/1 from",
            "arrived/1 from x",
            "arrived/1/2/3",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(Admission::read(&Value::Null), None);
    }
}
