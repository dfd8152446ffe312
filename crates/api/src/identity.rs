//! Who makes a request, once that is established.

use std::collections::BTreeMap;

/// An authenticated user. Put into a request's extensions by whoever authenticated it
/// (the TLS listener for client certificates, the in-process client for our own controllers);
/// the API server trusts it there, so nothing but those two may insert one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The user's name, such as `admin` or `system:serviceaccount:default:web`.
    pub name: String,
    /// The user's uid, where the source of identities has one.
    pub uid: String,
    /// The groups the user is a member of, `system:authenticated` included.
    pub groups: Vec<String>,
    /// Whatever else the source of identities says.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Members may do everything, whatever RBAC says, so that nobody can lock everyone out.
pub const MASTERS: &str = "system:masters";
/// Every request that proved who it is from.
pub const AUTHENTICATED: &str = "system:authenticated";
/// Every request that did not.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The name of whoever did not say who they are.
pub const ANONYMOUS: &str = "system:anonymous";
/// With this begin the names of our own parts, and of groups of them.
pub const OWN_PREFIX: &str = "system:deltaplane:";
/// All service accounts.
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
/// The service account that graphs act as unless they name another.
pub const GRAPH_ACCOUNT: &str = "deltaplane-graphs";

/// With this begin the names of the hub's own users in zones, so that they are not taken for those
/// of the zone.
const OF_THE_HUB: &str = "hub:";

/// The hub's user as a zone's API should see them; none for whoever did not say who they are.
///
/// Names that begin with `system:` are given by the API that knows their owners. The hub's service
/// account `default/web` is not the zone's, and must not have its rights; but all APIs mean the
/// same by administrators, and by whoever proved who they are.
pub fn hub_user_in_zone(user: &str, groups: &[String]) -> Option<Identity> {
    if user.is_empty() || user == ANONYMOUS {
        return None;
    }
    let translated = |name: &str| match name {
        MASTERS | AUTHENTICATED => name.to_owned(),
        own if own.starts_with("system:") => format!("{OF_THE_HUB}{own}"),
        other => other.to_owned(),
    };
    // As a user's name, those of groups mean nothing.
    let name = match user {
        MASTERS | AUTHENTICATED => format!("{OF_THE_HUB}{user}"),
        other => translated(other),
    };
    let groups: Vec<String> = groups.iter().map(|group| translated(group)).collect();
    let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
    Some(Identity::authenticated(&name, &groups))
}

// === impl Identity ===

impl Identity {
    /// A user with these groups, and `system:authenticated`.
    pub fn authenticated(name: &str, groups: &[&str]) -> Self {
        let mut groups: Vec<String> = groups.iter().map(|&group| group.to_owned()).collect();
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self {
            name: name.to_owned(),
            groups,
            ..Self::default()
        }
    }

    /// Nobody in particular.
    pub fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// Whether this user is a member of `group`.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|one| one == group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_hub_are_not_those_of_the_zone() {
        let check = |user: &str, groups: &[&str], expected: (&str, &[&str])| {
            let groups: Vec<String> = groups.iter().map(|&group| group.to_owned()).collect();
            let expected = Identity::authenticated(expected.0, expected.1);
            assert_eq!(hub_user_in_zone(user, &groups), Some(expected));
        };
        check(
            "anna",
            &["ops", AUTHENTICATED],
            ("anna", &["ops", AUTHENTICATED]),
        );
        check("admin", &[MASTERS], ("admin", &[MASTERS]));
        check(
            "system:serviceaccount:default:web",
            &["system:serviceaccounts", AUTHENTICATED],
            (
                "hub:system:serviceaccount:default:web",
                &["hub:system:serviceaccounts", AUTHENTICATED],
            ),
        );
        check(
            MASTERS,
            &["system:nodes"],
            ("hub:system:masters", &["hub:system:nodes"]),
        );
        assert_eq!(hub_user_in_zone("", &[]), None);
        assert_eq!(hub_user_in_zone(ANONYMOUS, &[]), None);
    }
}
