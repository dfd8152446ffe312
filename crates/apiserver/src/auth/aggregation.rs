//! The rules that a role grants once aggregation has happened. Pure.
//!
//! A cluster role with an `aggregationRule` grants the rules of every cluster role that its
//! selectors match. A controller copies these rules into the role some time later, so rights are
//! checked against what the role becomes, and not against what it holds until then.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use deltaplane_api::selector::LabelSelector;
use serde_json::Value;

use super::rbac::{RoleKey, Rule};
use crate::value;

/// A role, with the parts of it that aggregation depends on.
#[derive(Clone, Debug)]
pub(crate) struct RoleEntry {
    pub(crate) rules: Vec<Rule>,
    labels: BTreeMap<String, String>,
    /// None if the role has rules of its own only.
    selectors: Option<Vec<LabelSelector>>,
}

/// All stored roles, with one of them as it would be after a write.
pub(crate) struct RolesAfterWrite<'a> {
    stored: &'a HashMap<RoleKey, Arc<RoleEntry>>,
    written: Option<(RoleKey, Arc<RoleEntry>)>,
}

// === impl RoleEntry ===

impl RoleEntry {
    pub(crate) fn parse(role: &Value) -> Self {
        let labels = value::at(role, "metadata.labels").as_object();
        let labels = labels.into_iter().flatten().filter_map(|(key, value)| {
            let value = value.as_str()?;
            Some((key.clone(), value.to_owned()))
        });
        let selectors = || {
            value::list(role, "aggregationRule.clusterRoleSelectors")
                .iter()
                .filter_map(LabelSelector::from_object)
                .collect()
        };
        Self {
            rules: Rule::all(role),
            labels: labels.collect(),
            selectors: (!role["aggregationRule"].is_null()).then(selectors),
        }
    }

    fn aggregates(&self, other: &Self) -> bool {
        let label = |key: &str| other.labels.get(key).map(String::as_str);
        let selectors = self.selectors.iter().flatten();
        selectors
            .into_iter()
            .any(|selector| selector.matches(label))
    }
}

// === impl RolesAfterWrite ===

impl<'a> RolesAfterWrite<'a> {
    pub(crate) fn new(
        stored: &'a HashMap<RoleKey, Arc<RoleEntry>>,
        written: Option<(RoleKey, Arc<RoleEntry>)>,
    ) -> Self {
        Self { stored, written }
    }

    /// Returns the rules that a role grants, those that it will aggregate included; none if there
    /// is no such role.
    pub(crate) fn resulting_rules(&self, key: &RoleKey) -> Option<Vec<Rule>> {
        let mut rules = self.get(key)?.rules.clone();
        let mut seen = BTreeSet::from([key.clone()]);
        let mut open = vec![key.clone()];
        while let Some(key) = open.pop() {
            let Some(role) = self.get(&key).filter(|role| role.selectors.is_some()) else {
                continue;
            };
            for (other, aggregated) in self.cluster_roles() {
                if role.aggregates(aggregated) && seen.insert(other.clone()) {
                    rules.extend(aggregated.rules.iter().cloned());
                    open.push(other.clone());
                }
            }
        }
        Some(rules)
    }

    /// Returns the names of the cluster roles that will aggregate the rules of a role, directly or
    /// through another one.
    pub(crate) fn aggregators(&self, key: &RoleKey) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut open = vec![key.clone()];
        while let Some(key) = open.pop() {
            let Some(role) = self.get(&key).filter(|_| key.0.is_empty()) else {
                continue;
            };
            for (other, aggregator) in self.cluster_roles() {
                if aggregator.aggregates(role) && found.insert(other.1.clone()) {
                    open.push(other.clone());
                }
            }
        }
        found.remove(&key.1);
        found
    }

    fn get(&self, key: &RoleKey) -> Option<&Arc<RoleEntry>> {
        match &self.written {
            Some((written, role)) if written == key => Some(role),
            _ => self.stored.get(key),
        }
    }

    fn cluster_roles(&self) -> impl Iterator<Item = (&RoleKey, &Arc<RoleEntry>)> {
        let written = self.written.as_ref().map(|(key, role)| (key, role));
        let stored = self
            .stored
            .iter()
            .filter(move |(key, _)| written.is_none_or(|(other, _)| other != *key));
        stored.chain(written).filter(|(key, _)| key.0.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn role(verb: &str, label: &str, selects: &str) -> Arc<RoleEntry> {
        let mut role = json!({"metadata": {"labels": {label: "true"}},
            "rules": [{"verbs": [verb], "apiGroups": [""], "resources": ["pods"]}]});
        if !selects.is_empty() {
            role["aggregationRule"] =
                json!({"clusterRoleSelectors": [{"matchLabels": {selects: "true"}}]});
        }
        Arc::new(RoleEntry::parse(&role))
    }

    fn key(name: &str) -> RoleKey {
        (String::new(), name.to_owned())
    }

    fn verbs(rules: Option<Vec<Rule>>) -> Vec<String> {
        let mut verbs: Vec<String> = rules
            .into_iter()
            .flatten()
            .flat_map(|rule| rule.verbs)
            .collect();
        verbs.sort();
        verbs
    }

    #[test]
    fn a_role_is_judged_by_what_it_will_aggregate() {
        let stored = HashMap::from([
            (key("top"), role("top", "none", "to-top")),
            (key("middle"), role("middle", "to-top", "to-middle")),
            (key("leaf"), role("leaf", "to-middle", "")),
            (key("other"), role("other", "elsewhere", "")),
            (
                ("team".to_owned(), "namespaced".to_owned()),
                role("never", "to-top", ""),
            ),
        ]);
        let before = RolesAfterWrite::new(&stored, None);
        assert_eq!(
            verbs(before.resulting_rules(&key("top"))),
            ["leaf", "middle", "top"]
        );
        assert_eq!(verbs(before.resulting_rules(&key("leaf"))), ["leaf"]);
        assert_eq!(before.resulting_rules(&key("absent")), None);
        assert_eq!(
            before.aggregators(&key("leaf")),
            BTreeSet::from(["middle".to_owned(), "top".to_owned()])
        );
        assert_eq!(before.aggregators(&key("other")), BTreeSet::new());

        let labelled = Some((key("other"), role("other", "to-middle", "")));
        let after = RolesAfterWrite::new(&stored, labelled);
        assert_eq!(
            verbs(after.resulting_rules(&key("top"))),
            ["leaf", "middle", "other", "top"]
        );
        assert_eq!(after.aggregators(&key("other")).len(), 2);
    }

    #[test]
    fn roles_that_aggregate_each_other_end() {
        let stored = HashMap::from([
            (key("a"), role("a", "to-b", "to-a")),
            (key("b"), role("b", "to-a", "to-b")),
        ]);
        let roles = RolesAfterWrite::new(&stored, None);
        assert_eq!(verbs(roles.resulting_rules(&key("a"))), ["a", "b"]);
        assert_eq!(
            roles.aggregators(&key("a")),
            BTreeSet::from(["b".to_owned()])
        );
    }
}
