//! The names of zones, kinds and objects, as they are on the wire.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use deltaplane_api::names;
use sha2::{Digest, Sha256};

/// A zone's name. Invariant: a DNS label, and none that is reserved.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneName(Arc<str>);

/// A kind whose objects cross, whichever of its versions either side serves:
/// `deltaplane.io/<group>/<kind>`, with `core` for the group that has no name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SyncKind {
    group: Arc<str>,
    kind: Arc<str>,
}

/// Which object of its kind: `<namespace>/<name>`, or `<name>` alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// Empty for objects of the whole cluster.
    namespace: Arc<str>,
    name: Arc<str>,
}

/// Why a text is no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("{name:?} is no name of a zone: {why}")]
    Zone { name: String, why: String },
    #[error("{0:?} is no type: it must be deltaplane.io/<group>/<kind>")]
    Kind(String),
    #[error("{0:?} is no name of an object: it must be <namespace>/<name>, or <name>")]
    Object(String),
    #[error("{0:?} is no position: it must be <epoch>@<revision>")]
    Position(String),
}

const TYPE_PREFIX: &str = "deltaplane.io/";
const CORE: &str = "core";
/// Names of objects have no more characters.
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;
/// As many hex digits tell names apart that had to be cut.
const HASH: usize = 10;

// === impl ZoneName ===

impl ZoneName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ZoneName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let wrong = |why: String| NameError::Zone {
            name: name.to_owned(),
            why,
        };
        if name == "hub" || name.starts_with('_') {
            return Err(wrong("it is reserved".to_owned()));
        }
        match names::dns_label(name).into_iter().next() {
            Some(why) => Err(wrong(why)),
            None => Ok(Self(name.into())),
        }
    }
}

impl fmt::Display for ZoneName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl SyncKind ===

impl SyncKind {
    /// `group` is empty for Kubernetes' first kinds.
    pub fn new(group: &str, kind: &str) -> Result<Self, NameError> {
        let fine = |text: &str| {
            text.chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-')
        };
        if kind.is_empty() || group == CORE || !fine(group) || !fine(kind) {
            return Err(NameError::Kind(format!("{TYPE_PREFIX}{group}/{kind}")));
        }
        Ok(Self {
            group: group.into(),
            kind: kind.into(),
        })
    }

    pub fn group(&self) -> &str {
        &self.group
    }

    pub fn kind(&self) -> &str {
        &self.kind
    }
}

impl FromStr for SyncKind {
    type Err = NameError;

    fn from_str(url: &str) -> Result<Self, NameError> {
        let parts = url
            .strip_prefix(TYPE_PREFIX)
            .and_then(|rest| rest.split_once('/'));
        match parts {
            Some((CORE, kind)) => Self::new("", kind),
            Some((group, kind)) if !group.is_empty() => Self::new(group, kind),
            Some(_) | None => Err(NameError::Kind(url.to_owned())),
        }
    }
}

impl fmt::Display for SyncKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = if self.group.is_empty() {
            CORE
        } else {
            &self.group
        };
        write!(f, "{TYPE_PREFIX}{group}/{}", self.kind)
    }
}

// === impl ObjectName ===

impl ObjectName {
    /// `namespace` is empty for objects of the whole cluster.
    pub fn new(namespace: &str, name: &str) -> Result<Self, NameError> {
        let wrong = !names::path_segment(name).is_empty()
            || name.is_empty()
            || name.len() > MAX_NAME
            || !(namespace.is_empty() || names::dns_label(namespace).is_empty());
        if wrong {
            return Err(NameError::Object(format!("{namespace}/{name}")));
        }
        Ok(Self {
            namespace: namespace.into(),
            name: name.into(),
        })
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

impl FromStr for ObjectName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        match text.split_once('/') {
            Some(("", _)) => Err(NameError::Object(text.to_owned())),
            Some((namespace, name)) => Self::new(namespace, name),
            None => Self::new("", text),
        }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// Whether the names of a kind's objects have no dots.
pub fn is_named_by_labels(kind: &SyncKind) -> bool {
    kind.group().is_empty() && matches!(kind.kind(), "Namespace" | "Service")
}

/// Whether [`mirrored_name`] may give this name to an object of the zone, of a kind whose names are
/// labels.
pub(crate) fn is_mirrored_label(zone: &ZoneName, name: &str) -> bool {
    let rest = name.strip_prefix(zone.as_str());
    let rest = rest.is_some_and(|rest| rest.starts_with('-'));
    let hash = name.rsplit_once('-').map(|(_, hash)| hash);
    let is_hex = |c: char| matches!(c, '0'..='9' | 'a'..='f');
    rest && hash.is_some_and(|hash| hash.len() == HASH && hash.chars().all(is_hex))
}

/// The name that a zone's object has elsewhere: `<zone>.<name>`, or `<zone>-<name>-<hash>` for
/// kinds whose names are labels. What would be too long is cut, and told apart by the hash.
pub fn mirrored_name(zone: &ZoneName, name: &str, labels_only: bool) -> String {
    if !labels_only {
        let whole = format!("{zone}.{name}");
        if whole.len() <= MAX_NAME {
            return whole;
        }
    }
    let (between, limit) = match labels_only {
        true => ("-", MAX_LABEL),
        false => (".", MAX_NAME),
    };
    let digest = Sha256::digest(format!("{zone}/{name}"));
    let hash = crate::version::hex(&digest);
    let room = limit - (HASH + 1);
    let whole = format!("{zone}{between}{name}");
    let mut end = room.min(whole.len());
    while !whole.is_char_boundary(end) {
        end -= 1;
    }
    let cut = whole[..end].trim_end_matches(['-', '.']);
    format!("{cut}-{}", &hash[..HASH])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_once() {
        for bad in ["", "hub", "_all", "Eu", "a.b", "-a"] {
            assert!(bad.parse::<ZoneName>().is_err(), "{bad}");
        }
        for text in [
            "deltaplane.io/core/ConfigMap",
            "deltaplane.io/kro.run/ResourceGraphDefinition",
        ] {
            assert_eq!(
                text.parse::<SyncKind>()
                    .map(|kind| kind.to_string())
                    .as_deref(),
                Ok(text)
            );
        }
        for bad in [
            "ConfigMap",
            "deltaplane.io/ConfigMap",
            "deltaplane.io//ConfigMap",
            "deltaplane.io/a/",
            "deltaplane.io/a/b/c",
        ] {
            assert!(bad.parse::<SyncKind>().is_err(), "{bad}");
        }
        for text in ["default/a", "a", "a.b", "ns/system:x"] {
            assert_eq!(
                text.parse::<ObjectName>()
                    .map(|name| name.to_string())
                    .as_deref(),
                Ok(text)
            );
        }
        for bad in ["", "/a", "a/", "a/b/c", "..", "ns/..", "N/a", "a%b"] {
            assert!(bad.parse::<ObjectName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn names_of_mirrored_objects_are_legal_and_tell_apart() {
        let zone: ZoneName = "eu-1".parse().expect("legal");
        assert_eq!(mirrored_name(&zone, "web", false), "eu-1.web");
        assert_eq!(mirrored_name(&zone, "web", true), "eu-1-web-07fe826048");
        let long = "a".repeat(253);
        let other = format!("{}b", "a".repeat(252));
        let names = [
            mirrored_name(&zone, &long, false),
            mirrored_name(&zone, &other, false),
        ];
        assert_ne!(names[0], names[1]);
        assert!(
            names
                .iter()
                .all(|name| name.len() <= 253
                    && deltaplane_api::names::dns_subdomain(name).is_empty())
        );
        assert!(is_mirrored_label(&zone, "eu-1-web-07fe826048"));
        for other in [
            "eu-1",
            "eu-1-web",
            "eu-12-web-07fe826048",
            "eu-1-web-frontends1",
        ] {
            assert!(!is_mirrored_label(&zone, other), "{other}");
        }
        let label = mirrored_name(&zone, &"a".repeat(63), true);
        assert!(is_mirrored_label(&zone, &label), "{label}");
        assert!(
            deltaplane_api::names::dns_label(&label).is_empty(),
            "{label}"
        );
    }
}
