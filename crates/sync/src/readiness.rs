//! How what a zone holds fares there: what the hub asks for, and what the zone says of it.
//!
//! The hub says which objects it wants to know about, not one by one but as policies select them;
//! the zone finds them among what it holds, judges each, and says how it stands, bound to the
//! version that it stands at. Neither is stored.
//!
//! Not here: judging (`propagation::readiness`), following (`zone::readiness`).

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_api::selector::LabelSelector;
use serde_json::Value;

use crate::crossing::crosses;
use crate::names::{ObjectName, SyncKind};
use crate::version::Version;

/// What the hub wants to know of a zone, all of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    pub policies: Vec<AskedPolicy>,
}

/// What a policy governs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AskedPolicy {
    /// For people.
    pub name: String,
    pub targets: Vec<AskedTarget>,
}

/// Objects of a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct AskedTarget {
    pub kind: SyncKind,
    /// As `<name>`, in whichever namespace, or `<namespace>/<name>`. All if there are none.
    pub names: BTreeSet<String>,
    pub selector: AskedSelector,
    /// Expressions that must all be true of `object`; the common rules if there are none.
    pub ready_when: Vec<String>,
}

/// A label selector as users write it. Invariant: it can be read; only `FromStr` and `TryFrom`
/// build one that selects less than everything.
#[derive(Clone, Debug, PartialEq)]
pub struct AskedSelector {
    written: Value,
    selector: LabelSelector,
}

/// A text that is no selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not a label selector with matchLabels and matchExpressions")]
pub struct NotASelector;

/// A part of what a zone says. The first parts of a stream are all that there is to say, what
/// follows is what changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fared {
    /// By the zone's clock, milliseconds since 1970.
    pub at: u64,
    pub part: Part,
    pub kinds: BTreeMap<SyncKind, KindFared>,
}

/// What a part is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// What changed.
    #[default]
    Changes,
    /// A part of all, with more to follow.
    More,
    /// The last part of all.
    Last,
}

/// What is said of a kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KindFared {
    /// Why nothing newer than this is known of its objects, if so.
    pub trouble: Option<String>,
    /// Those of which something is said. Nothing means that the object is gone, or is not asked
    /// for any more.
    pub objects: BTreeMap<ObjectName, Option<Fares>>,
}

/// How an object stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fares {
    /// What this is about: what the object is now. Nothing if the object does not say.
    pub version: Option<Version>,
    pub state: FareState,
    /// Since when it is so at this version, by the clock of whoever says it, in milliseconds since
    /// 1970; never earlier than it came to be so.
    pub since: u64,
    /// Why, for people. Empty if there is nothing to say.
    pub reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FareState {
    Ready,
    /// Not yet.
    Waiting,
    /// It will not come right by waiting.
    Failed,
    /// Nothing is there that could tell.
    NoEvidence,
}

// === impl AskedTarget ===

impl AskedTarget {
    /// Whether it is about an object of this kind with these labels.
    pub fn selects<'a>(
        &self,
        kind: &SyncKind,
        name: &ObjectName,
        label: impl Fn(&str) -> Option<&'a str>,
    ) -> bool {
        *kind == self.kind && self.names_it(name) && self.selector.selector.matches(label)
    }

    fn names_it(&self, name: &ObjectName) -> bool {
        self.names.is_empty()
            || self.names.contains(name.name())
            || (!name.namespace().is_empty() && self.names.contains(&name.to_string()))
    }
}

// === impl Asked ===

impl Asked {
    /// The first target that is about an object of this kind with these labels.
    pub fn target<'a>(
        &self,
        kind: &SyncKind,
        name: &ObjectName,
        label: impl Fn(&str) -> Option<&'a str>,
    ) -> Option<&AskedTarget> {
        let mut targets = self.targets();
        targets.find(|target| target.selects(kind, name, &label))
    }

    /// The kinds that it is about.
    pub fn kinds(&self) -> BTreeSet<&SyncKind> {
        self.targets().map(|target| &target.kind).collect()
    }

    fn targets(&self) -> impl Iterator<Item = &AskedTarget> {
        self.policies.iter().flat_map(|policy| &policy.targets)
    }
}

// === impl AskedSelector ===

impl AskedSelector {
    /// Selects everything.
    pub fn everything() -> Self {
        Self {
            written: Value::Null,
            selector: LabelSelector::default(),
        }
    }

    /// Of what a hub selects by, as much as zones can see: labels that do not cross are not there.
    pub fn in_zones(written: &Value) -> Result<Self, NotASelector> {
        let mut seen = written.clone();
        let labels = seen.get_mut("matchLabels").and_then(Value::as_object_mut);
        if let Some(labels) = labels {
            labels.retain(|key, _| crosses(key));
        }
        let expressions = seen.get_mut("matchExpressions");
        if let Some(expressions) = expressions.and_then(Value::as_array_mut) {
            expressions.retain(|one| one["key"].as_str().is_none_or(crosses));
        }
        seen.try_into()
    }

    /// As it was written.
    pub fn written(&self) -> &Value {
        &self.written
    }
}

impl Default for AskedSelector {
    fn default() -> Self {
        Self::everything()
    }
}

impl TryFrom<Value> for AskedSelector {
    type Error = NotASelector;

    fn try_from(written: Value) -> Result<Self, NotASelector> {
        if !written.is_null() && !written.is_object() {
            return Err(NotASelector);
        }
        let selector = LabelSelector::from_object(&written).ok_or(NotASelector)?;
        Ok(Self { written, selector })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn target(names: &[&str], selector: Value) -> AskedTarget {
        AskedTarget {
            kind: SyncKind::new("apps", "Deployment").expect("legal"),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            selector: selector.try_into().expect("legal"),
            ready_when: Vec::new(),
        }
    }

    #[test]
    fn objects_are_selected_by_kind_name_and_labels() {
        let check = |target: &AskedTarget, kind: &str, name: &str, expected: bool| {
            let kind = SyncKind::new("apps", kind).expect("legal");
            let name = name.parse().expect("legal");
            let label = |key: &str| (key == "team").then_some("web");
            assert_eq!(target.selects(&kind, &name, label), expected, "{name}");
        };
        let all = target(&[], Value::Null);
        check(&all, "Deployment", "prod/a", true);
        check(&all, "StatefulSet", "prod/a", false);
        let named = target(&["a", "prod/b"], json!({}));
        check(&named, "Deployment", "prod/a", true);
        check(&named, "Deployment", "test/a", true);
        check(&named, "Deployment", "prod/b", true);
        check(&named, "Deployment", "test/b", false);
        check(&named, "Deployment", "b", false);
        let labelled = target(&[], json!({"matchLabels": {"team": "web"}}));
        check(&labelled, "Deployment", "a", true);
        let others = target(&[], json!({"matchLabels": {"team": "db"}}));
        check(&others, "Deployment", "a", false);
    }

    #[test]
    fn zones_select_by_what_they_can_see() {
        let secrets = json!({
            "matchLabels": {"deltaplane.io/sync": "true", "team": "web"},
            "matchExpressions": [
                {"key": "deltaplane.io/origin", "operator": "DoesNotExist"},
                {"key": "old", "operator": "DoesNotExist"},
            ],
        });
        let seen = AskedSelector::in_zones(&secrets).expect("legal");
        let expected = json!({
            "matchLabels": {"team": "web"},
            "matchExpressions": [{"key": "old", "operator": "DoesNotExist"}],
        });
        assert_eq!(seen.written(), &expected);
        assert_eq!(
            AskedSelector::in_zones(&Value::Null),
            Ok(AskedSelector::everything())
        );
        assert_eq!(AskedSelector::in_zones(&json!("web")), Err(NotASelector));
    }

    #[test]
    fn the_first_target_counts() {
        let mut second = target(&[], Value::Null);
        second.ready_when = vec!["false".to_owned()];
        let policy = |name: &str, target: &AskedTarget| AskedPolicy {
            name: name.to_owned(),
            targets: vec![target.clone()],
        };
        let first = target(&["a"], Value::Null);
        let asked = Asked {
            policies: vec![policy("one", &first), policy("two", &second)],
        };
        let find = |name: &str| {
            let name = name.parse().expect("legal");
            asked.target(&first.kind, &name, |_| None).cloned()
        };
        assert_eq!(find("prod/a"), Some(first.clone()));
        assert_eq!(find("prod/b"), Some(second));
        assert_eq!(asked.kinds(), BTreeSet::from([&first.kind]));
    }

    #[test]
    fn what_is_no_selector_is_refused() {
        for wrong in [
            json!([]),
            json!("team=web"),
            json!({"matchLabels": {"team": 1}}),
            json!({"matchExpressions": [{"key": "team", "operator": "Like"}]}),
        ] {
            assert_eq!(AskedSelector::try_from(wrong), Err(NotASelector));
        }
    }
}
