//! Names as people write them.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::error::RolloutError;
use super::seen::{Seen, key};

/// What a rollout is of, as people write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Policy(String),
    Graph(DefinitionName),
    /// Whichever has this name.
    Either(String),
}

/// The name of a definition; `rgd/webapp` is one too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DefinitionName(String);

/// The name of an instance, and its namespace if that was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InstanceName {
    namespace: Option<String>,
    name: String,
}

/// The version of what a definition makes, whole or its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContentVersion(String);

/// How many digits a version has, whole and in short.
const DIGITS: [usize; 2] = [64, 10];

// === impl ContentVersion ===

impl FromStr for ContentVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        match digits && DIGITS.contains(&text.len()) {
            true => Ok(Self(text.to_owned())),
            false => Err("a version is 64 hexadecimal digits, or the first 10 of them".to_owned()),
        }
    }
}

impl ContentVersion {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

// === impl Subject ===

impl FromStr for Subject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            None if text.is_empty() => Err("it is empty".to_owned()),
            None => Ok(Self::Either(text.to_owned())),
            Some((_, "")) => Err("it is empty".to_owned()),
            Some(("policy" | "propagationpolicy" | "propagationpolicies", name)) => {
                Ok(Self::Policy(name.to_owned()))
            }
            Some((
                "graph" | "rgd" | "resourcegraphdefinition" | "resourcegraphdefinitions",
                name,
            )) => Ok(Self::Graph(DefinitionName::new(name))),
            Some((kind, _)) => Err(format!(
                "{kind} is no kind that has a rollout; write policy/<name> or graph/<name>"
            )),
        }
    }
}

// === impl DefinitionName ===

impl FromStr for DefinitionName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = match text.split_once('/') {
            Some((
                "graph" | "rgd" | "resourcegraphdefinition" | "resourcegraphdefinitions",
                name,
            )) => name,
            Some((kind, _)) => return Err(format!("{kind} is no ResourceGraphDefinition")),
            None => text,
        };
        match name {
            "" => Err("it is empty".to_owned()),
            name => Ok(Self(name.to_owned())),
        }
    }
}

impl DefinitionName {
    pub(crate) fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

// === impl InstanceName ===

impl FromStr for InstanceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (namespace, name) = match text.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, text),
        };
        match name.is_empty() || name.contains('/') || namespace.as_deref() == Some("") {
            true => Err("write it as name, or as namespace/name".to_owned()),
            false => Ok(Self {
                namespace,
                name: name.to_owned(),
            }),
        }
    }
}

impl fmt::Display for InstanceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl InstanceName {
    /// In this namespace, if one was said.
    pub(crate) fn within(self, namespace: Option<String>) -> Self {
        let namespace = namespace.or(self.namespace);
        Self { namespace, ..self }
    }

    /// The instance of this name. Without a namespace it must be the only one.
    pub(crate) fn find<'s>(&self, seen: &'s Seen) -> Result<&'s Value, RolloutError> {
        let fits = |one: &&Value| {
            let key = key(one);
            let namespace = self.namespace.as_ref();
            key.name == self.name && namespace.is_none_or(|namespace| *namespace == key.namespace)
        };
        let names = |all: &[&Value]| all.iter().map(|one| key(one).to_string()).collect();
        let found: Vec<&Value> = seen.instances.iter().filter(fits).collect();
        let (definition, name) = (seen.name().to_owned(), self.clone());
        match found.as_slice() {
            [one] => Ok(one),
            [] => Err(RolloutError::NoInstance {
                definition,
                name,
                known: names(&seen.instances.iter().collect::<Vec<_>>()),
            }),
            several => Err(RolloutError::Several {
                definition,
                name,
                known: names(several),
            }),
        }
    }
}
