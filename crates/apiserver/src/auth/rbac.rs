//! Role-based access control: who may do what. Pure.
//!
//! One writer (the follower of the store) applies changes one by one; everyone else asks.
//! Invariant: what is not allowed by a rule is refused.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use deltaplane_api::identity::{Identity, MASTERS};
use serde_json::{Value, json};

use super::aggregation::{RoleEntry, RolesAfterWrite};
use crate::value;

/// The group of roles and bindings.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// All roles and bindings, indexed by subject. A clone shares roles and bindings.
#[derive(Clone, Default)]
pub(crate) struct Rbac {
    roles: HashMap<RoleKey, Arc<RoleEntry>>,
    bindings: HashMap<BindingKey, Arc<Binding>>,
    granted: HashMap<Subject, GrantedRoles>,
}

/// The roles of a subject by the namespace in which they hold (empty: in all), and how many
/// bindings give each: a request costs the roles that concern it, however many bindings there are.
type GrantedRoles = BTreeMap<String, BTreeMap<RoleKey, usize>>;

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

/// What a role allows.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rule {
    pub(crate) verbs: BTreeSet<String>,
    pub(crate) groups: BTreeSet<String>,
    pub(crate) resources: BTreeSet<String>,
    pub(crate) names: BTreeSet<String>,
    pub(crate) urls: BTreeSet<String>,
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
                let now = object.map(|role| Arc::new(RoleEntry::parse(role)));
                let same = match (&before, &now) {
                    (Some(before), Some(now)) => before.rules == now.rules,
                    (before, _) => before.is_none(),
                };
                self.roles.extend(now.map(|role| (key, role)));
                !same
            }
            Part::Binding => {
                let before = self.unbind(&key);
                let now = object.map(|object| Arc::new(Binding::parse(namespace, object)));
                let lost = before.is_some() && before != now;
                if let Some(binding) = now {
                    self.bind(key, binding);
                }
                lost
            }
        }
    }

    fn unbind(&mut self, key: &BindingKey) -> Option<Arc<Binding>> {
        let binding = self.bindings.remove(key)?;
        for subject in &binding.subjects {
            let Entry::Occupied(mut granted) = self.granted.entry(subject.clone()) else {
                continue;
            };
            revoke(granted.get_mut(), &key.0, &binding.role);
            if granted.get().is_empty() {
                granted.remove();
            }
        }
        Some(binding)
    }

    fn bind(&mut self, key: BindingKey, binding: Arc<Binding>) {
        for subject in &binding.subjects {
            let granted = self.granted.entry(subject.clone()).or_default();
            let roles = granted.entry(key.0.clone()).or_default();
            *roles.entry(binding.role.clone()).or_default() += 1;
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
        let scopes =
            move || std::iter::once("").chain((!namespace.is_empty()).then_some(namespace));
        subjects
            .filter_map(|subject| self.granted.get(&subject))
            .flat_map(move |granted| scopes().filter_map(|scope| granted.get(scope)))
            .flat_map(BTreeMap::keys)
            .filter_map(|role| self.roles.get(role))
            .flat_map(|role| &role.rules)
    }

    /// The rules of one role, those that it will aggregate included.
    pub(crate) fn resulting_rules(&self, namespace: &str, name: &str) -> Option<Vec<Rule>> {
        let key = (namespace.to_owned(), name.to_owned());
        RolesAfterWrite::new(&self.roles, None).resulting_rules(&key)
    }

    /// All roles as they would be if `role` were stored.
    pub(crate) fn roles_after(&self, key: RoleKey, role: &Value) -> RolesAfterWrite<'_> {
        let role = Arc::new(RoleEntry::parse(role));
        RolesAfterWrite::new(&self.roles, Some((key, role)))
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
        let any = || BTreeSet::from(["*".to_owned()]);
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
                || (!action.name.is_empty() && self.names.contains(action.name)))
    }

    fn allows_kind(&self, resource: &str, subresource: &str) -> bool {
        if subresource.is_empty() {
            return has(&self.resources, resource);
        }
        self.resources.contains("*")
            || self
                .resources
                .contains(&format!("{resource}/{subresource}"))
            || self.resources.contains(&format!("*/{subresource}"))
    }

    /// Returns true if the rule is about what `resource` (perhaps a wildcard) stands for.
    pub(crate) fn has_resource(&self, resource: &str) -> bool {
        let subresource = resource.split_once('/').map(|(_, name)| name);
        has(&self.resources, resource)
            || subresource.is_some_and(|name| self.resources.contains(&format!("*/{name}")))
    }

    /// Returns about how long the rule is when it is written.
    pub(crate) fn size(&self) -> usize {
        let lists = [
            &self.verbs,
            &self.groups,
            &self.resources,
            &self.names,
            &self.urls,
        ];
        let texts = lists.into_iter().flatten();
        100 + texts.map(|text| text.len() + 3).sum::<usize>()
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

/// Takes one binding's share of a role away.
fn revoke(granted: &mut GrantedRoles, scope: &str, role: &RoleKey) {
    let Some(roles) = granted.get_mut(scope) else {
        return;
    };
    if let Some(times) = roles.get_mut(role) {
        *times -= 1;
        if *times == 0 {
            roles.remove(role);
        }
    }
    if roles.is_empty() {
        granted.remove(scope);
    }
}

/// Returns true if a list of a rule has an entry, or stands for all.
pub(crate) fn has(list: &BTreeSet<String>, wanted: &str) -> bool {
    list.contains(wanted) || list.contains("*")
}

pub(crate) fn url_covers(url: &str, path: &str) -> bool {
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
    fn a_role_that_is_bound_many_times_counts_once() {
        let mut rbac = rbac();
        let eve = Identity::authenticated("eve", &[]);
        let before = rbac.rules(&eve, "dev").count();
        let binding = json!({
            "roleRef": {"kind": "ClusterRole", "name": "reader"},
            "subjects": [{"kind": "User", "name": "eve"}, {"kind": "User", "name": "eve"}],
        });
        for number in 0..100 {
            let name = format!("again-{number}");
            rbac.apply(Part::Binding, "dev", &name, Some(&binding));
            rbac.apply(Part::Binding, "other", &name, Some(&binding));
        }
        assert_eq!(rbac.rules(&eve, "dev").count(), before);
        for number in 0..100 {
            rbac.apply(Part::Binding, "dev", &format!("again-{number}"), None);
        }
        assert!(check(&rbac, &eve, "get - pods dev p"), "b binds it, too");
        rbac.apply(Part::Binding, "dev", "b", None);
        assert!(!check(&rbac, &eve, "get - pods dev p"));
        assert!(check(&rbac, &eve, "get - pods other p"));
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
}
