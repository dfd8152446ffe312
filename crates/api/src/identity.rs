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
