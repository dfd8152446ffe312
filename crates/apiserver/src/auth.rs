//! Who asks, and whether they may.

use std::time::SystemTime;

use deltaplane_api::identity::{self, Identity};
use deltaplane_store::Key;
use http::header::AUTHORIZATION;
use http::{Extensions, HeaderMap};

use crate::ValidUntil;
use crate::context::Cx;
use crate::error::{About, Error};
use crate::request::{ResourceRequest, Target};
use crate::server::{Inner, TENANT};
use rbac::{Action, ResourceAction};
use tokens::Claims;

pub(crate) mod aggregation;
pub(crate) mod coverage;
pub(crate) mod escalation;
pub(crate) mod impersonation;
pub(crate) mod rbac;
pub mod tokens;

/// Whoever did not say who they are may see these, and nothing else, whatever RBAC says.
const PUBLIC: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// Who makes a request.
pub(crate) struct Caller {
    /// Whom it is carried out as.
    pub(crate) user: Identity,
    /// When the token ends that says so.
    pub(crate) until: Option<SystemTime>,
}

/// Who makes a request: whoever the transport authenticated, or the owner of its token; or
/// whom these act as, if they may.
pub(crate) fn caller(
    server: &Inner,
    extensions: &Extensions,
    headers: &HeaderMap,
) -> Result<Caller, Error> {
    let Caller { user, until } = authenticate(server, extensions, headers)?;
    let user = impersonation::impersonate(server, user, headers)?;
    Ok(Caller { user, until })
}

fn authenticate(
    server: &Inner,
    extensions: &Extensions,
    headers: &HeaderMap,
) -> Result<Caller, Error> {
    if let Some(user) = extensions.get::<Identity>() {
        let until = extensions.get::<ValidUntil>();
        return Ok(Caller {
            user: user.clone(),
            until: until.map(|ValidUntil(until)| *until),
        });
    }
    if !headers.contains_key(AUTHORIZATION) {
        return Ok(Caller {
            user: Identity::anonymous(),
            until: None,
        });
    }
    let token = bearer(headers).ok_or_else(Error::unauthorized)?;
    let claims = verify_token(server, token, &[tokens::AUDIENCE]);
    let claims = claims.ok_or_else(Error::unauthorized)?;
    Ok(Caller {
        user: claims.identity(),
        until: claims.end(),
    })
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let header = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Returns true if the headers hold a token that counts now.
pub(crate) fn knows_token(server: &Inner, headers: &HeaderMap) -> bool {
    bearer(headers).is_some_and(|token| verify_token(server, token, &[tokens::AUDIENCE]).is_some())
}

/// The claims of a token that holds now: signed here, in time, and what it is bound to exists.
pub(crate) fn verify_token(server: &Inner, token: &str, audiences: &[&str]) -> Option<Claims> {
    let claims = server.tokens.verify(token, audiences, server.now())?;
    let account = &claims.account;
    let lives = |collection: &str, reference: &tokens::Reference| {
        let key = Key::new(TENANT, collection, &account.namespace, &reference.name).ok()?;
        let object = server.store.get(&key)?;
        let uid = deltaplane_store::Uid::new(&reference.uid);
        (object.header().uid() == Some(uid) && !object.header().deleting()).then_some(())
    };
    lives("serviceaccounts", &account.serviceaccount)?;
    if let Some(secret) = &account.secret {
        lives("secrets", secret)?;
    }
    if let Some(pod) = &account.pod {
        lives("pods", pod)?;
    }
    Some(claims)
}

/// Whether the path is for everybody to see.
pub(crate) fn is_public(path: &str) -> bool {
    PUBLIC.iter().any(|open| {
        path.strip_prefix(open)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Refuses what the user may not do. `selected` is the one name that a collection is asked for by
/// its field selector, if it is: who may use that object may list it.
pub(crate) fn authorize(
    server: &Inner,
    user: &Identity,
    target: &Target,
    selected: &str,
) -> Result<(), Error> {
    match target {
        Target::Path { path, .. } if is_public(path) => Ok(()),
        Target::Path { verb, path } => {
            known(user)?;
            match server.rbac.read().allows(user, Action::Path { verb, path }) {
                true => Ok(()),
                false => {
                    let why = format!("User {:?} cannot {verb}", user.name);
                    Err(Error::forbidden_path(path, &why))
                }
            }
        }
        Target::Resource(request) => {
            known(user)?;
            permit(
                server,
                user,
                action_of(request, request.verb.as_str(), selected),
            )
        }
    }
}

fn known(user: &Identity) -> Result<(), Error> {
    match user.name == identity::ANONYMOUS {
        true => Err(Error::unauthorized()),
        false => Ok(()),
    }
}

/// PUT and apply may create, if their user may.
pub(crate) fn authorize_create(cx: &Cx) -> Result<(), Error> {
    permit(&cx.server, &cx.user, action_of(&cx.target, "create", ""))
}

fn permit(server: &Inner, user: &Identity, action: ResourceAction<'_>) -> Result<(), Error> {
    match server.rbac.read().allows(user, Action::Resource(action)) {
        true => Ok(()),
        false => Err(forbidden(user, &action)),
    }
}

/// What a request does; to `selected` if its path names nothing.
pub(crate) fn action_of<'a>(
    request: &'a ResourceRequest,
    verb: &'a str,
    selected: &'a str,
) -> ResourceAction<'a> {
    ResourceAction {
        verb,
        group: &request.group,
        resource: &request.resource,
        subresource: &request.subresource,
        namespace: &request.namespace,
        name: match request.name.as_str() {
            "" => selected,
            name => name,
        },
    }
}

/// The text that Kubernetes gives.
pub(crate) fn forbidden(user: &Identity, action: &ResourceAction<'_>) -> Error {
    let resource = match action.subresource {
        "" => action.resource.to_owned(),
        sub => format!("{}/{sub}", action.resource),
    };
    let place = match action.namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let why = format!(
        "User {:?} cannot {} resource {resource:?} in API group {:?} {place}",
        user.name, action.verb, action.group
    );
    let about = About {
        group: action.group,
        resource: action.resource,
        name: action.name,
    };
    Error::forbidden(about, &why)
}
