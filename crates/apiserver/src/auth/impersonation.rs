//! Acting as someone else, for those who may: `kubectl --as`.

use deltaplane_api::identity::{self, Identity};
use http::HeaderMap;

use super::rbac::{Action, ResourceAction};
use crate::error::{About, Error};
use crate::server::Inner;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// The user whom the request is carried out as: its own, or the one it names, if it may.
pub(crate) fn impersonate(
    server: &Inner,
    user: Identity,
    headers: &HeaderMap,
) -> Result<Identity, Error> {
    let Some(wanted) = parse(headers)? else {
        return Ok(user);
    };
    refuse_own(&wanted)?;
    for (group, resource, subresource, namespace, name) in rights(&wanted) {
        let action = ResourceAction {
            verb: "impersonate",
            group,
            resource,
            subresource: &subresource,
            namespace: &namespace,
            name: &name,
        };
        if !server.rbac.read().allows(&user, Action::Resource(action)) {
            return Err(super::forbidden(&user, &action));
        }
    }
    Ok(complete(wanted))
}

/// Nobody acts as one of our own parts, whatever their rights: what is known to have written something
/// did write it. A service account is none of them: its name begins with `system:serviceaccount:` and
/// its groups with `system:serviceaccounts`, whatever it is called.
fn refuse_own(wanted: &Identity) -> Result<(), Error> {
    let groups = wanted.groups.iter().map(|group| ("groups", group));
    let names = std::iter::once(("users", &wanted.name)).chain(groups);
    for (resource, name) in names {
        if name.starts_with(identity::OWN_PREFIX) {
            let about = About {
                group: "",
                resource,
                name,
            };
            let why = format!(
                "names that begin with {:?} are those of the system itself, which nobody can impersonate",
                identity::OWN_PREFIX
            );
            return Err(Error::forbidden(about, &why));
        }
    }
    Ok(())
}

/// Whom the headers name. Groups without a user make no sense.
fn parse(headers: &HeaderMap) -> Result<Option<Identity>, Error> {
    let mut wanted = Identity {
        name: texts(headers, USER)?.into_iter().next().unwrap_or_default(),
        uid: texts(headers, UID)?.into_iter().next().unwrap_or_default(),
        groups: texts(headers, GROUP)?,
        extra: Default::default(),
    };
    for header in headers.keys() {
        if let Some(key) = header.as_str().strip_prefix(EXTRA) {
            let key = percent_encoding::percent_decode_str(key)
                .decode_utf8_lossy()
                .into_owned();
            wanted.extra.insert(key, texts(headers, header.as_str())?);
        }
    }
    let others = !wanted.groups.is_empty() || !wanted.uid.is_empty() || !wanted.extra.is_empty();
    match (wanted.name.is_empty(), others) {
        (true, true) => Err(Error::bad_request(
            "requested impersonation of groups, uid or extra without impersonating a user",
        )),
        (true, false) => Ok(None),
        (false, _) => Ok(Some(wanted)),
    }
}

/// All values of a header. One that cannot be read is refused: without it the request would be
/// carried out as somebody else.
fn texts(headers: &HeaderMap, name: &str) -> Result<Vec<String>, Error> {
    let text = |value: &http::HeaderValue| str::from_utf8(value.as_bytes()).map(str::to_owned);
    let texts: Result<Vec<String>, _> = headers.get_all(name).iter().map(text).collect();
    texts.map_err(|_| Error::bad_request(format!("the header {name} is not valid UTF-8")))
}

type Right = (&'static str, &'static str, String, String, String);

/// The rights that acting as `wanted` takes.
fn rights(wanted: &Identity) -> Vec<Right> {
    const AUTHENTICATION: &str = "authentication.k8s.io";
    let none = String::new;
    let mut rights = vec![match service_account(&wanted.name) {
        Some((namespace, name)) => (
            "",
            "serviceaccounts",
            none(),
            namespace.to_owned(),
            name.to_owned(),
        ),
        None => ("", "users", none(), none(), wanted.name.clone()),
    }];
    for group in &wanted.groups {
        rights.push(("", "groups", none(), none(), group.clone()));
    }
    if !wanted.uid.is_empty() {
        rights.push((AUTHENTICATION, "uids", none(), none(), wanted.uid.clone()));
    }
    for (key, values) in &wanted.extra {
        for value in values {
            rights.push((
                AUTHENTICATION,
                "userextras",
                key.clone(),
                none(),
                value.clone(),
            ));
        }
    }
    rights
}

fn service_account(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("system:serviceaccount:")?.split_once(':')
}

/// The groups that everyone of this kind is in.
fn complete(mut user: Identity) -> Identity {
    if user.groups.is_empty()
        && let Some((namespace, _)) = service_account(&user.name)
    {
        user.groups.push(identity::SERVICE_ACCOUNTS.to_owned());
        user.groups
            .push(format!("{}:{namespace}", identity::SERVICE_ACCOUNTS));
    }
    let group = match user.name == identity::ANONYMOUS {
        true => identity::UNAUTHENTICATED,
        false => identity::AUTHENTICATED,
    };
    if !user.is_in(group) {
        user.groups.push(group.to_owned());
    }
    user
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_other_takes_a_right() {
        let mut headers = HeaderMap::new();
        headers.insert(USER, "system:serviceaccount:dev:web".parse().unwrap());
        headers.append(GROUP, "ops".parse().unwrap());
        headers.insert("impersonate-extra-scopes", "a".parse().unwrap());
        let wanted = parse(&headers).unwrap().unwrap();
        let names: Vec<String> = rights(&wanted)
            .into_iter()
            .map(|(_, resource, sub, namespace, name)| {
                format!("{resource} {sub} {namespace} {name}")
            })
            .collect();
        assert_eq!(
            names,
            [
                "serviceaccounts  dev web",
                "groups   ops",
                "userextras scopes  a"
            ]
        );
    }

    #[test]
    fn groups_alone_are_nobody() {
        let mut headers = HeaderMap::new();
        headers.append(GROUP, "system:masters".parse().unwrap());
        assert_eq!(parse(&headers).unwrap_err().code.as_u16(), 400);
    }
}
