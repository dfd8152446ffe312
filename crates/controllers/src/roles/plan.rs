//! Which rules a role gathers. Pure.

use serde::Deserialize;
use serde_json::{Value, json};

use deltaplane_api::selector::LabelSelector;
use deltaplane_client::header::{Header, null_as_default};
use deltaplane_client::{Cache, Item, ObjectKey};

/// A role, as far as it matters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Role {
    header: Header,
    rules: Vec<Value>,
    /// None if it has rules of its own.
    selectors: Option<Vec<LabelSelector>>,
}

/// The change that gives a role the rules that it gathers, from this very state; none if it has
/// them, or gathers none.
pub(super) fn plan(key: &ObjectKey, roles: &Cache<Role>) -> Option<Value> {
    let role = roles.get(key)?;
    let mut rules: Vec<&Value> = Vec::new();
    for selector in role.selectors.as_ref()? {
        // Ordered by name.
        let others = roles.iter().filter(|(other, _)| *other != key);
        for rule in others
            .filter(|(_, other)| other.is_selected_by(selector))
            .flat_map(|(_, other)| &other.rules)
        {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
    }
    if rules.iter().copied().eq(&role.rules) {
        return None;
    }
    let precondition =
        json!({"uid": role.header.uid, "resourceVersion": role.header.resource_version});
    Some(json!({"metadata": precondition, "rules": rules}))
}

// === impl Role ===

impl Role {
    pub(super) fn of(item: &Item) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Object {
            #[serde(default, deserialize_with = "null_as_default")]
            rules: Vec<Value>,
            #[serde(default)]
            aggregation_rule: Option<Aggregation>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Aggregation {
            #[serde(default, deserialize_with = "null_as_default")]
            cluster_role_selectors: Vec<Value>,
        }
        let object: Object = item.parse().ok()?;
        // A selector that makes no sense selects nothing; the API server refuses them.
        let selectors = |rule: Aggregation| {
            let selectors = rule.cluster_role_selectors;
            selectors
                .iter()
                .filter_map(LabelSelector::from_object)
                .collect()
        };
        Some(Self {
            header: item.header.clone(),
            rules: object.rules,
            selectors: object.aggregation_rule.map(selectors),
        })
    }

    pub(super) fn gathers(&self) -> bool {
        self.selectors.is_some()
    }

    fn is_selected_by(&self, selector: &LabelSelector) -> bool {
        selector.matches(|key| self.header.labels.get(key).map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use deltaplane_client::Event;

    use super::*;

    /// Each role is `name labels rules selectors`, lists separated by commas, `-` for none.
    fn check(roles: &[&str], name: &str, expected: Option<&[&str]>) {
        let mut cache = Cache::new();
        cache.apply(Event::Restarted, |_| None);
        for role in roles {
            let parts: Vec<&str> = role.split(' ').collect();
            let [name, labels, rules, selectors] = parts[..] else {
                panic!("{role}");
            };
            let list = |text: &str| -> Vec<String> {
                let parts = text.split(',').filter(|part| *part != "-");
                parts.map(str::to_owned).collect()
            };
            let labels: Value = list(labels)
                .into_iter()
                .map(|one| (one, json!("")))
                .collect();
            let rules: Vec<Value> = list(rules)
                .iter()
                .map(|verb| json!({"verbs": [verb]}))
                .collect();
            let selectors: Vec<Value> = list(selectors)
                .iter()
                .map(|label| json!({"matchLabels": {label: ""}}))
                .collect();
            let mut object = json!({"metadata": {"name": name, "uid": "u", "resourceVersion": "7",
                "labels": labels}, "rules": rules});
            if !selectors.is_empty() {
                object["aggregationRule"] = json!({"clusterRoleSelectors": selectors});
            }
            let item = Item::new(Bytes::from(object.to_string())).expect("an object");
            cache.apply(Event::Applied(item), |item| Role::of(&item));
        }
        cache.apply(Event::InSync, |_| None);
        let planned = plan(&ObjectKey::cluster(name), &cache);
        let expected = expected.map(|verbs| {
            let rules: Vec<Value> = verbs.iter().map(|verb| json!({"verbs": [verb]})).collect();
            json!({"metadata": {"uid": "u", "resourceVersion": "7"}, "rules": rules})
        });
        assert_eq!(planned, expected, "{roles:?}");
    }

    #[test]
    fn rules_are_those_of_the_roles_that_are_selected() {
        let others = ["b x get,list -", "a x watch,get -", "c y patch -"];
        let with = |role: &'static str| [&[role][..], &others].concat();
        check(&with("all - - x"), "all", Some(&["watch", "get", "list"]));
        check(&with("all - watch,get,list x"), "all", None);
        check(
            &with("all - - y,x"),
            "all",
            Some(&["patch", "watch", "get", "list"]),
        );
        check(&with("all - get z"), "all", Some(&[]));
        check(
            &with("all x delete x"),
            "all",
            Some(&["watch", "get", "list"]),
        );
        check(&with("own x delete -"), "own", None);
        check(&others, "gone", None);
    }
}
