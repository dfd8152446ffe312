//! Compares rules of roles: which of the rules that somebody grants they do not hold. Pure.
//!
//! A rule stands for the product of its lists, and a role may have thousands of rules, so all
//! comparisons of one request share a budget.
//!
//! Invariant: a rule that could not be compared counts as one that is not held.

use std::collections::BTreeSet;

use super::rbac::{Rule, has, url_covers};

/// So many look-ups decide whether somebody may grant a role: about a quarter of a second.
const MOST_STEPS: usize = 3_000_000;

/// The rules that somebody would grant, and does not hold.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MissingRules<'r> {
    pub(crate) rules: Vec<&'r Rule>,
    /// Some of the rules were not compared, since there is too much to compare.
    pub(crate) is_cut: bool,
}

/// A comparison with the rules that somebody holds.
struct Comparison<'o> {
    own: &'o [&'o Rule],
    steps_left: usize,
}

/// Returns the rules of `wanted` that `own` does not cover.
pub(crate) fn missing_rules<'r>(own: &[&Rule], wanted: &'r [Rule]) -> MissingRules<'r> {
    let mut comparison = Comparison {
        own,
        steps_left: MOST_STEPS,
    };
    let distinct: BTreeSet<&Rule> = wanted.iter().collect();
    let mut is_cut = false;
    let is_missing = |rule: &&Rule| {
        let held = comparison.covers(rule);
        is_cut |= held.is_none();
        held != Some(true)
    };
    let rules = distinct.into_iter().filter(is_missing).collect();
    MissingRules { rules, is_cut }
}

// === impl Comparison ===

/// None stands for a budget that is used up.
impl Comparison<'_> {
    fn spend(&mut self, steps: usize) -> Option<()> {
        let left = self.steps_left.checked_sub(steps);
        self.steps_left = left.unwrap_or(0);
        left.map(drop)
    }

    /// Returns true if every single right of a rule is held.
    fn covers(&mut self, wanted: &Rule) -> Option<bool> {
        for rule in self.own {
            if self.has_all(rule, wanted)? {
                return Some(true);
            }
        }
        for verb in &wanted.verbs {
            let own = self.select(self.own, |rule| has(&rule.verbs, verb))?;
            if !self.covers_urls(&own, wanted)? || !self.covers_resources(&own, wanted)? {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Returns true if one rule has all rights of another.
    fn has_all(&mut self, own: &Rule, wanted: &Rule) -> Option<bool> {
        self.spend(1)?;
        let lists = [
            (&own.verbs, &wanted.verbs),
            (&own.groups, &wanted.groups),
            (&own.resources, &wanted.resources),
            (&own.urls, &wanted.urls),
        ];
        for (own, wanted) in lists {
            if own.contains("*") {
                continue;
            }
            self.spend(wanted.len())?;
            if !wanted.is_subset(own) {
                return Some(false);
            }
        }
        if own.names.is_empty() {
            return Some(true);
        }
        self.spend(wanted.names.len())?;
        Some(!wanted.names.is_empty() && wanted.names.is_subset(&own.names))
    }

    fn covers_urls(&mut self, own: &[&Rule], wanted: &Rule) -> Option<bool> {
        for url in &wanted.urls {
            let mut found = false;
            for rule in own {
                self.spend(1 + rule.urls.len())?;
                found |= rule
                    .urls
                    .iter()
                    .any(|own| own == url || url_covers(own, url));
            }
            if !found {
                return Some(false);
            }
        }
        Some(true)
    }

    fn covers_resources(&mut self, own: &[&Rule], wanted: &Rule) -> Option<bool> {
        for group in &wanted.groups {
            let own = self.select(own, |rule| has(&rule.groups, group))?;
            for resource in &wanted.resources {
                let own = self.select(&own, |rule| rule.has_resource(resource))?;
                if !self.covers_names(&own, &wanted.names)? {
                    return Some(false);
                }
            }
        }
        Some(true)
    }

    /// Returns true if rules are about all of these names; about all objects if there are none.
    fn covers_names(&mut self, own: &[&Rule], names: &BTreeSet<String>) -> Option<bool> {
        if own.iter().any(|rule| rule.names.is_empty()) {
            return Some(true);
        }
        for name in names {
            self.spend(own.len())?;
            if !own.iter().any(|rule| rule.names.contains(name)) {
                return Some(false);
            }
        }
        Some(!names.is_empty())
    }

    fn select<'r>(
        &mut self,
        rules: &[&'r Rule],
        is_meant: impl Fn(&Rule) -> bool,
    ) -> Option<Vec<&'r Rule>> {
        self.spend(1 + rules.len())?;
        let meant = rules.iter().copied().filter(|rule| is_meant(rule));
        Some(meant.collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rule(value: Value) -> Rule {
        let role = json!({"rules": [value]});
        Rule::all(&role).remove(0)
    }

    fn covers(own: &[&Rule], wanted: &Rule) -> bool {
        missing_rules(own, std::slice::from_ref(wanted))
            .rules
            .is_empty()
    }

    fn many(count: usize, text: &dyn Fn(usize) -> String) -> BTreeSet<String> {
        (0..count).map(text).collect()
    }

    #[test]
    fn rules_cover_what_they_contain() {
        let own = rule(
            json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/status"]}),
        );
        let all = rule(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
        let cases = [
            (
                &own,
                json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}),
                true,
            ),
            (
                &own,
                json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}),
                true,
            ),
            (
                &own,
                json!({"verbs": ["get", "watch"], "apiGroups": [""], "resources": ["pods"]}),
                false,
            ),
            (
                &own,
                json!({"verbs": ["*"], "apiGroups": [""], "resources": ["pods"]}),
                false,
            ),
            (
                &own,
                json!({"verbs": ["get"], "apiGroups": [""], "resources": ["nodes/status"]}),
                true,
            ),
            (
                &own,
                json!({"verbs": ["get"], "apiGroups": [""], "resources": ["*"]}),
                false,
            ),
            (
                &all,
                json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
                true,
            ),
            (
                &all,
                json!({"verbs": ["get"], "nonResourceURLs": ["/x"]}),
                false,
            ),
        ];
        for (own, wanted, expected) in cases {
            assert_eq!(covers(&[own], &rule(wanted.clone())), expected, "{wanted}");
        }
    }

    /// A rule stands for the product of its lists.
    #[test]
    fn rules_that_stand_for_many_rights_are_compared_in_bounded_time() {
        let own = rule(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}));
        let distinct = Rule {
            verbs: many(1000, &|number| format!("verb{number}")),
            groups: many(1000, &|number| format!("group{number}")),
            resources: many(1000, &|number| format!("resource{number}")),
            ..Rule::default()
        };
        assert!(!covers(&[&own], &distinct));
        assert!(covers(&[&own, &distinct], &distinct));
        let all = rule(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
        assert!(covers(&[&all], &distinct));
        let mut halves = [distinct.clone(), distinct.clone()];
        halves[0].verbs.pop_first();
        halves[1].verbs.pop_last();
        let [first, second] = &halves;
        let missing = missing_rules(&[first, second], std::slice::from_ref(&distinct));
        assert_eq!(missing.rules, [&distinct]);
        assert!(missing.is_cut);
    }

    #[test]
    fn all_rules_of_a_request_share_one_budget() {
        let own = Rule {
            names: many(100_000, &|number| format!("name{number}")),
            ..rule(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}))
        };
        let other = Rule {
            names: BTreeSet::from(["other".to_owned()]),
            ..own.clone()
        };
        let wanted = |number: usize| Rule {
            names: own
                .names
                .iter()
                .skip(number)
                .chain(&other.names)
                .cloned()
                .collect(),
            ..own.clone()
        };
        let wanted: Vec<Rule> = (0..50).map(wanted).collect();
        let missing = missing_rules(&[&own, &other], &wanted[..2]);
        assert_eq!((missing.rules.len(), missing.is_cut), (0, false));
        let missing = missing_rules(&[&own, &other], &wanted);
        assert!(missing.is_cut);
        let same = vec![wanted[0].clone(); 50];
        assert!(!missing_rules(&[&own, &other], &same).is_cut);
    }
}
