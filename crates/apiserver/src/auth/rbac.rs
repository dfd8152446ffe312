//! Role-based access control: who may do what. Pure.
//!
//! One writer (the follower of the store) applies changes one by one; everyone else asks.
//! Invariant: what is not allowed by a rule is refused.

use std::collections::{BTreeSet, HashMap};

use deltaplane_api::identity::{Identity, MASTERS};
use serde_json::{Value, json};

use super::aggregation::{RoleEntry, RolesAfterWrite};
use crate::value;

/// The group of roles and bindings.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// All roles and bindings, indexed by subject.
#[derive(Default)]
pub(crate) struct Rbac {
    roles: HashMap<RoleKey, RoleEntry>,
    bindings: HashMap<BindingKey, Binding>,
    by_subject: HashMap<Subject, BTreeSet<BindingKey>>,
}

/// What someone wants to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action<'a> {
    Resource(ResourceAction<'a>),
    Path { verb: &'a str, path: &'a str },
}

/// What someone wants to do to objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResourceAction<'a> {
    pub(crate) verb: &'a str,
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

/// So many comparisons decide whether somebody may grant a rule: a quarter of a second.
const MOST_COMPARISONS: u64 = 30_000_000;

/// What a role allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) verbs: Vec<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) names: Vec<String>,
    pub(crate) urls: Vec<String>,
}

/// The kinds of objects that the rules are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Role,
    Binding,
}

/// Namespace (empty for cluster roles) and name.
pub(crate) type RoleKey = (String, String);
/// Namespace (empty for cluster role bindings) and name.
type BindingKey = (String, String);

#[derive(PartialEq, Eq)]
struct Binding {
    subjects: Vec<Subject>,
    role: RoleKey,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Subject {
    User(String),
    Group(String),
}

// === impl Rbac ===

impl Rbac {
    /// Takes in a role or binding as it now is; none means that it is gone. Says whether someone
    /// may have lost rights by it.
    pub(crate) fn apply(
        &mut self,
        part: Part,
        namespace: &str,
        name: &str,
        object: Option<&Value>,
    ) -> bool {
        let key = (namespace.to_owned(), name.to_owned());
        match part {
            Part::Role => {
                let before = self.roles.remove(&key);
                let now = object.map(RoleEntry::parse);
                let rules = |role: &RoleEntry| role.rules.clone();
                let lost =
                    before.is_some() && before.as_ref().map(rules) != now.as_ref().map(rules);
                self.roles.extend(now.map(|role| (key, role)));
                lost
            }
            Part::Binding => {
                let before = self.unbind(&key);
                let now = object.map(|object| Binding::parse(namespace, object));
                let lost = before.is_some() && before != now;
                if let Some(binding) = now {
                    self.bind(key, binding);
                }
                lost
            }
        }
    }

    fn unbind(&mut self, key: &BindingKey) -> Option<Binding> {
        let binding = self.bindings.remove(key)?;
        for subject in &binding.subjects {
            let Some(keys) = self.by_subject.get_mut(subject) else {
                continue;
            };
            keys.remove(key);
            if keys.is_empty() {
                self.by_subject.remove(subject);
            }
        }
        Some(binding)
    }

    fn bind(&mut self, key: BindingKey, binding: Binding) {
        for subject in &binding.subjects {
            self.by_subject
                .entry(subject.clone())
                .or_default()
                .insert(key.clone());
        }
        self.bindings.insert(key, binding);
    }

    /// Whether `user` may do this.
    pub(crate) fn allows(&self, user: &Identity, action: Action<'_>) -> bool {
        let namespace = match action {
            Action::Resource(action) => action.namespace,
            Action::Path { .. } => "",
        };
        user.is_in(MASTERS) || self.rules(user, namespace).any(|rule| rule.allows(action))
    }

    /// The rules that hold for `user` in `namespace`; cluster-wide ones if it is empty.
    pub(crate) fn rules<'a>(
        &'a self,
        user: &'a Identity,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Rule> {
        let groups = user
            .groups
            .iter()
            .map(|group| Subject::Group(group.clone()));
        let subjects = std::iter::once(Subject::User(user.name.clone())).chain(groups);
        subjects
            .filter_map(|subject| self.by_subject.get(&subject))
            .flatten()
            .filter(move |(scope, _)| scope.is_empty() || scope == namespace)
            .filter_map(|key| self.bindings.get(key))
            .filter_map(|binding| self.roles.get(&binding.role))
            .flat_map(|role| &role.rules)
    }

    /// The rules of one role, those that it will aggregate included.
    pub(crate) fn resulting_rules(&self, namespace: &str, name: &str) -> Option<Vec<Rule>> {
        let key = (namespace.to_owned(), name.to_owned());
        RolesAfterWrite::new(&self.roles, None).resulting_rules(&key)
    }

    /// All roles as they would be if `role` were stored.
    pub(crate) fn roles_after(&self, key: RoleKey, role: &Value) -> RolesAfterWrite<'_> {
        RolesAfterWrite::new(&self.roles, Some((key, RoleEntry::parse(role))))
    }
}

// === impl Binding ===

impl Binding {
    fn parse(namespace: &str, object: &Value) -> Self {
        let role_namespace = match value::text(object, "roleRef.kind") {
            "Role" => namespace,
            _ => "",
        };
        let subjects = value::list(object, "subjects").iter();
        Self {
            subjects: subjects
                .filter_map(|one| Subject::parse(namespace, one))
                .collect(),
            role: (
                role_namespace.to_owned(),
                value::text(object, "roleRef.name").to_owned(),
            ),
        }
    }
}

// === impl Subject ===

impl Subject {
    fn parse(namespace: &str, subject: &Value) -> Option<Self> {
        let name = value::text(subject, "name");
        match value::text(subject, "kind") {
            "User" => Some(Self::User(name.to_owned())),
            "Group" => Some(Self::Group(name.to_owned())),
            "ServiceAccount" => {
                let of = match value::text(subject, "namespace") {
                    "" => namespace,
                    of => of,
                };
                Some(Self::User(format!("system:serviceaccount:{of}:{name}")))
            }
            _ => None,
        }
    }
}

// === impl Rule ===

impl Rule {
    /// The rules of a role.
    pub(crate) fn all(role: &Value) -> Vec<Self> {
        value::list(role, "rules").iter().map(Self::parse).collect()
    }

    /// The rules that allow everything.
    pub(crate) fn everything() -> [Self; 2] {
        let any = || vec!["*".to_owned()];
        [
            Self {
                verbs: any(),
                groups: any(),
                resources: any(),
                ..Self::default()
            },
            Self {
                verbs: any(),
                urls: any(),
                ..Self::default()
            },
        ]
    }

    fn parse(rule: &Value) -> Self {
        let texts = |field: &str| value::texts(rule, field).map(str::to_owned).collect();
        Self {
            verbs: texts("verbs"),
            groups: texts("apiGroups"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            urls: texts("nonResourceURLs"),
        }
    }

    fn allows(&self, action: Action<'_>) -> bool {
        match action {
            Action::Resource(action) => self.allows_resource(action),
            Action::Path { verb, path } => {
                has(&self.verbs, verb) && self.urls.iter().any(|url| url_covers(url, path))
            }
        }
    }

    fn allows_resource(&self, action: ResourceAction<'_>) -> bool {
        has(&self.verbs, action.verb)
            && has(&self.groups, action.group)
            && self.allows_kind(action.resource, action.subresource)
            && (self.names.is_empty()
                || (!action.name.is_empty() && self.names.iter().any(|name| name == action.name)))
    }

    fn allows_kind(&self, resource: &str, subresource: &str) -> bool {
        self.resources
            .iter()
            .any(|allowed| match allowed.split_once('/') {
                _ if allowed == "*" => true,
                None => subresource.is_empty() && allowed == resource,
                Some((of, sub)) => sub == subresource && (of == "*" || of == resource),
            })
    }

    /// Returns true if every single right of `wanted` is among these rules. A rule that stands for
    /// more combinations than can be looked at counts only if one rule has all of them.
    pub(crate) fn cover(rules: &[&Self], wanted: &Self) -> bool {
        let distinct = |list: &'_ [String]| -> Vec<String> {
            let distinct: BTreeSet<&String> = list.iter().collect();
            distinct.into_iter().cloned().collect()
        };
        let wanted = Self {
            verbs: distinct(&wanted.verbs),
            groups: distinct(&wanted.groups),
            resources: distinct(&wanted.resources),
            names: distinct(&wanted.names),
            urls: distinct(&wanted.urls),
        };
        let sizes = [&wanted.verbs, &wanted.groups, &wanted.resources];
        let resources = sizes.map(|list| list.len() as u64).iter().product::<u64>();
        let urls = wanted.verbs.len() as u64 * wanted.urls.len() as u64;
        let own: u64 = rules.iter().map(|rule| rule.entries()).sum();
        if (resources + urls).saturating_mul(own) > MOST_COMPARISONS {
            return rules.iter().any(|rule| rule.has_all(&wanted));
        }
        wanted.verbs.iter().all(|verb| {
            let rules = rules.iter().filter(|rule| has(&rule.verbs, verb));
            let rules: Vec<&Self> = rules.copied().collect();
            let urls = wanted.urls.iter().all(|url| {
                let mut own = rules.iter().flat_map(|rule| &rule.urls);
                own.any(|own| own == url || url_covers(own, url))
            });
            urls && wanted.groups.iter().all(|group| {
                let rules = rules.iter().filter(|rule| has(&rule.groups, group));
                let rules: Vec<&Self> = rules.copied().collect();
                let mut resources = wanted.resources.iter();
                resources.all(|resource| Self::cover_names(&rules, resource, &wanted.names))
            })
        })
    }

    /// Returns true if rules give a right on all names of a resource; on all objects if none is
    /// named.
    fn cover_names(rules: &[&Self], resource: &str, names: &[String]) -> bool {
        let mut own = BTreeSet::new();
        for rule in rules.iter().filter(|rule| rule.has_resource(resource)) {
            if rule.names.is_empty() {
                return true;
            }
            own.extend(&rule.names);
        }
        !names.is_empty() && names.iter().all(|name| own.contains(name))
    }

    /// Returns true if this one rule has all rights of another.
    fn has_all(&self, wanted: &Self) -> bool {
        let all = |own: &[String], wanted: &[String]| {
            own.iter().any(|one| one == "*") || {
                let own: BTreeSet<&String> = own.iter().collect();
                wanted.iter().all(|one| own.contains(one))
            }
        };
        let urls = || {
            let mut urls = wanted.urls.iter();
            urls.all(|url| self.urls.iter().any(|own| own == "*" || own == url))
        };
        let every_resource = self.resources.iter().any(|own| own == "*");
        all(&self.verbs, &wanted.verbs)
            && all(&self.groups, &wanted.groups)
            && (every_resource || all(&self.resources, &wanted.resources))
            && (self.names.is_empty()
                || (!wanted.names.is_empty() && all(&self.names, &wanted.names)))
            && (wanted.urls.len() * self.urls.len()) as u64 <= MOST_COMPARISONS
            && urls()
    }

    /// The entries that a comparison with this rule looks at.
    fn entries(&self) -> u64 {
        let lists = [
            &self.verbs,
            &self.groups,
            &self.resources,
            &self.urls,
            &self.names,
        ];
        lists.iter().map(|list| list.len() as u64).sum()
    }

    /// Returns true if the rule is about what `resource` (perhaps a wildcard) stands for.
    fn has_resource(&self, resource: &str) -> bool {
        self.resources.iter().any(|own| {
            own == "*"
                || own == resource
                || match (own.strip_prefix("*/"), resource.split_once('/')) {
                    (Some(own), Some((_, sub))) => own == sub,
                    _ => false,
                }
        })
    }

    /// The rule as it is written in a role.
    pub(crate) fn to_value(&self) -> Value {
        let mut rule = json!({ "verbs": self.verbs });
        let lists = [
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.urls),
        ];
        for (field, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            rule[field] = json!(list);
        }
        rule
    }
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|one| one == "*" || one == wanted)
}

fn url_covers(url: &str, path: &str) -> bool {
    match url.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => url == path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rbac() -> Rbac {
        let mut rbac = Rbac::default();
        let rules = json!({"rules": [
            {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"]},
            {"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*/scale"]},
            {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"]},
            {"verbs": ["get"], "nonResourceURLs": ["/metrics", "/logs/*"]},
        ]});
        rbac.apply(Part::Role, "", "reader", Some(&rules));
        rbac.apply(Part::Binding, "dev", "b", Some(&json!({
            "roleRef": {"kind": "ClusterRole", "name": "reader"},
            "subjects": [{"kind": "User", "name": "eve"}, {"kind": "ServiceAccount", "name": "robot"}],
        })));
        rbac.apply(
            Part::Binding,
            "",
            "c",
            Some(&json!({
                "roleRef": {"kind": "ClusterRole", "name": "reader"},
                "subjects": [{"kind": "Group", "name": "ops"}],
            })),
        );
        rbac
    }

    fn check(rbac: &Rbac, user: &Identity, line: &str) -> bool {
        let parts: Vec<&str> = line.split(' ').collect();
        match parts.as_slice() {
            [verb, path] => rbac.allows(user, Action::Path { verb, path }),
            [verb, group, resource, namespace, name] => {
                let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                let clean = |text: &&str| {
                    if *text == "-" {
                        String::new()
                    } else {
                        (*text).to_owned()
                    }
                };
                let (group, namespace, name) = (clean(group), clean(namespace), clean(name));
                rbac.allows(
                    user,
                    Action::Resource(ResourceAction {
                        verb,
                        group: &group,
                        resource,
                        subresource,
                        namespace: &namespace,
                        name: &name,
                    }),
                )
            }
            _ => panic!("{line}"),
        }
    }

    #[test]
    fn rules_hold_where_they_are_bound() {
        let rbac = rbac();
        let eve = Identity::authenticated("eve", &[]);
        let ops = Identity::authenticated("oscar", &["ops"]);
        let robot = Identity::authenticated("system:serviceaccount:dev:robot", &[]);
        let cases = [
            (&eve, "get - pods dev p", true),
            (&eve, "get - pods/log dev p", true),
            (&eve, "get - pods/exec dev p", false),
            (&eve, "delete - pods dev p", false),
            (&eve, "get - pods prod p", false),
            (&eve, "list - pods - -", false),
            (&eve, "get - secrets dev mine", true),
            (&eve, "get - secrets dev other", false),
            (&eve, "list - secrets dev -", false),
            (&eve, "update apps deployments/scale dev d", true),
            (&eve, "update apps deployments dev d", false),
            (&eve, "get /metrics", false),
            (&robot, "get - pods dev p", true),
            (&ops, "list - pods - -", true),
            (&ops, "get - pods prod p", true),
            (&ops, "get /logs/x", true),
            (&ops, "get /log", false),
        ];
        for (user, line, expected) in cases {
            assert_eq!(check(&rbac, user, line), expected, "{} {line}", user.name);
        }
    }

    #[test]
    fn rights_end_with_the_binding_and_with_the_role() {
        let ops = Identity::authenticated("oscar", &["ops"]);
        let mut unbound = rbac();
        unbound.apply(Part::Binding, "", "c", None);
        assert!(!check(&unbound, &ops, "list - pods - -"));
        let mut roleless = rbac();
        roleless.apply(Part::Role, "", "reader", None);
        assert!(!check(&roleless, &ops, "list - pods - -"));
    }

    #[test]
    fn rules_cover_what_they_contain() {
        let rule = |value: Value| Rule::parse(&value);
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
            assert_eq!(
                Rule::cover(&[own], &rule(wanted.clone())),
                expected,
                "{wanted}"
            );
        }
    }

    /// A rule stands for the product of its lists.
    #[test]
    fn rules_that_stand_for_many_rights_are_compared_in_bounded_time() {
        let many = |count: usize, text: &dyn Fn(usize) -> String| -> Vec<String> {
            (0..count).map(text).collect()
        };
        let same = |text: &'static str| many(1000, &|_| text.to_owned());
        let own = Rule {
            verbs: vec!["get".to_owned()],
            groups: vec![String::new()],
            resources: vec!["configmaps".to_owned()],
            ..Rule::default()
        };
        let repeated = Rule {
            verbs: same("get"),
            groups: same(""),
            resources: same("configmaps"),
            names: same("a"),
            urls: Vec::new(),
        };
        assert!(Rule::cover(&[&own], &repeated));
        let distinct = Rule {
            verbs: many(1000, &|number| format!("verb{number}")),
            groups: many(1000, &|number| format!("group{number}")),
            resources: many(1000, &|number| format!("resource{number}")),
            ..Rule::default()
        };
        assert!(!Rule::cover(&[&own], &distinct));
        assert!(Rule::cover(&[&own, &distinct], &distinct));
        let star = || vec!["*".to_owned()];
        let all = Rule {
            verbs: star(),
            groups: star(),
            resources: star(),
            ..Rule::default()
        };
        assert!(Rule::cover(&[&all], &distinct));
    }
}
