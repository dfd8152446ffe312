//! Kinds that are questions: who am I, may I, is this token good, give me a token.

use std::collections::BTreeSet;

use deltaplane_api::field;
use deltaplane_api::identity::Identity;
use http::StatusCode;
use serde_json::{Value, json};

use crate::auth::rbac::{Action, ResourceAction, Rule};
use crate::auth::tokens::{AUDIENCE, Account, Claims, ISSUER, Reference};
use crate::auth::verify_token;
use crate::context::{Answer, json as answer};
use crate::decode;
use crate::encode;
use crate::error::{About, Error};
use crate::request::{ResourceRequest, Verb};
use crate::server::Inner;
use crate::value;

/// The groups that answer questions.
pub(crate) const GROUPS: [(&str, &str); 2] = [
    ("authentication.k8s.io", "v1"),
    ("authorization.k8s.io", "v1"),
];

/// Tokens hold for this long unless the client asks otherwise.
const TOKEN_SECONDS: i64 = 3600;
/// The shortest time that a token may hold.
const TOKEN_MIN_SECONDS: i64 = 600;
/// The longest.
const TOKEN_MAX_SECONDS: i64 = 1 << 32;

/// An access review names so many groups at most: each is looked up.
const MAX_GROUPS: usize = 1_000;
/// A review of rules shows so many bytes of them.
const MAX_RULES: usize = 1 << 20;

/// A kind of question: group, plural, kind, namespaced.
const QUESTIONS: [(&str, &str, &str, bool); 6] = [
    (
        "authentication.k8s.io",
        "selfsubjectreviews",
        "SelfSubjectReview",
        false,
    ),
    (
        "authentication.k8s.io",
        "tokenreviews",
        "TokenReview",
        false,
    ),
    (
        "authorization.k8s.io",
        "localsubjectaccessreviews",
        "LocalSubjectAccessReview",
        true,
    ),
    (
        "authorization.k8s.io",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
        false,
    ),
    (
        "authorization.k8s.io",
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
        false,
    ),
    (
        "authorization.k8s.io",
        "subjectaccessreviews",
        "SubjectAccessReview",
        false,
    ),
];

/// A question and who asks it.
pub(crate) struct Question<'a> {
    pub(crate) server: &'a Inner,
    pub(crate) user: &'a Identity,
    pub(crate) target: &'a ResourceRequest,
    pub(crate) content_type: &'a str,
    pub(crate) body: &'a [u8],
}

/// How discovery lists the questions of a group.
pub(crate) fn resources(group: &str, version: &str) -> Vec<Value> {
    let questions = QUESTIONS
        .iter()
        .filter(|(of, ..)| *of == group && version == "v1");
    let mut rows: Vec<Value> = questions
        .map(|(_, plural, kind, namespaced)| {
            json!({
                "name": plural,
                "singularName": kind.to_lowercase(),
                "namespaced": namespaced,
                "kind": kind,
                "verbs": ["create"],
            })
        })
        .collect();
    if group.is_empty() && version == "v1" {
        rows.push(json!({
            "name": "serviceaccounts/token",
            "singularName": "",
            "namespaced": true,
            "group": "authentication.k8s.io",
            "version": "v1",
            "kind": "TokenRequest",
            "verbs": ["create"],
        }));
    }
    rows
}

/// Whether a request is a question.
pub(crate) fn is_question(target: &ResourceRequest) -> bool {
    let token = target.group.is_empty()
        && target.resource == "serviceaccounts"
        && target.subresource == "token";
    // Elsewhere than in its place a question is not known: rights in one namespace must not
    // answer for all.
    let review = QUESTIONS.iter().any(|(group, plural, _, namespaced)| {
        *group == target.group
            && *plural == target.resource
            && *namespaced != target.namespace.is_empty()
            && target.name.is_empty()
            && target.subresource.is_empty()
    });
    target.version == "v1" && (token || review)
}

// === impl Question ===

impl Question<'_> {
    /// The question with its answer filled in.
    pub(crate) fn answer(&self) -> Result<Answer, Error> {
        if self.target.verb != Verb::Create {
            let verb = self.target.verb.as_str();
            return Err(Error::method_not_allowed(self.target.about(), verb));
        }
        let mut question = self.read()?;
        let status = match self.target.resource.as_str() {
            "selfsubjectreviews" => json!({"userInfo": user_info(self.user)}),
            "tokenreviews" => self.token_review(&question)?,
            "selfsubjectaccessreviews" => {
                check_access(&question["spec"], &[])?;
                self.access(self.user, &question["spec"])
            }
            "subjectaccessreviews" => {
                check_access(&question["spec"], &[check_subject])?;
                self.access(&subject(&question["spec"]), &question["spec"])
            }
            "localsubjectaccessreviews" => {
                self.check_namespace(&question)?;
                check_access(&question["spec"], &[check_subject])?;
                self.access(&subject(&question["spec"]), &question["spec"])
            }
            "selfsubjectrulesreviews" => self.rules(&question)?,
            _ => self.token_request(&mut question)?,
        };
        value::set(&mut question, "status", status);
        Ok(answer(StatusCode::CREATED, encode::bytes(&question)))
    }

    /// The question, of the kind that the path names.
    fn read(&self) -> Result<Value, Error> {
        let (group, kind) = match self.target.subresource.as_str() {
            "token" => ("authentication.k8s.io", "TokenRequest"),
            _ => QUESTIONS
                .iter()
                .find(|(_, plural, ..)| *plural == self.target.resource)
                .map(|(group, _, kind, _)| (*group, *kind))
                .ok_or_else(Error::no_such_path)?,
        };
        let mut question = match self.body.is_empty() {
            true => json!({}),
            false => decode::object(self.content_type, self.body, kind)?.value,
        };
        let said = value::text(&question, "kind");
        if !said.is_empty() && said != kind {
            return Err(Error::bad_request(format!(
                "the object provided must be of type {kind}"
            )));
        }
        question["kind"] = json!(kind);
        question["apiVersion"] = json!(format!("{group}/v1"));
        if !question["metadata"].is_object() {
            question["metadata"] = json!({"creationTimestamp": null});
        }
        Ok(question)
    }

    fn token_review(&self, review: &Value) -> Result<Value, Error> {
        let token = value::text(review, "spec.token");
        if token.is_empty() {
            let message = "token is required for TokenReview in authentication";
            return Err(Error::bad_request(message));
        }
        let asked: Vec<&str> = value::texts(review, "spec.audiences").collect();
        let audiences = if asked.is_empty() {
            vec![AUDIENCE]
        } else {
            asked
        };
        Ok(match verify_token(self.server, token, &audiences) {
            Some(claims) => json!({
                "authenticated": true,
                "user": user_info(&claims.identity()),
                "audiences": claims.audiences_among(&audiences),
            }),
            None => json!({"user": {}, "error": "invalid bearer token"}),
        })
    }

    fn access(&self, user: &Identity, spec: &Value) -> Value {
        let resource = &spec["resourceAttributes"];
        let path = &spec["nonResourceAttributes"];
        let action = match resource.is_null() {
            true => Action::Path {
                verb: value::text(path, "verb"),
                path: value::text(path, "path"),
            },
            false => Action::Resource(ResourceAction {
                verb: value::text(resource, "verb"),
                group: value::text(resource, "group"),
                resource: value::text(resource, "resource"),
                subresource: value::text(resource, "subresource"),
                namespace: value::text(resource, "namespace"),
                name: value::text(resource, "name"),
            }),
        };
        json!({"allowed": self.server.rights().allows(user, action)})
    }

    fn check_namespace(&self, review: &Value) -> Result<(), Error> {
        let asked = value::text(review, "spec.resourceAttributes.namespace");
        match asked == self.target.namespace {
            true => Ok(()),
            false => Err(Error::unprocessable(format!(
                "spec.resourceAttributes.namespace: Invalid value: {asked:?}: must match metadata.namespace"
            ))),
        }
    }

    fn rules(&self, review: &Value) -> Result<Value, Error> {
        let namespace = value::text(review, "spec.namespace");
        if namespace.is_empty() {
            return Err(Error::bad_request("no namespace on request"));
        }
        let rbac = self.server.rights();
        let everything = Rule::everything();
        let is_master = self.user.is_in(deltaplane_api::identity::MASTERS);
        let everything = everything.iter().filter(|_| is_master);
        let (mut resources, mut paths) = (Vec::new(), Vec::new());
        let mut room = MAX_RULES;
        let mut is_cut = false;
        for rule in rbac.rules(self.user, namespace).chain(everything) {
            let Some(left) = room.checked_sub(rule.size()) else {
                is_cut = true;
                continue;
            };
            room = left;
            let list = if rule.urls.is_empty() {
                &mut resources
            } else {
                &mut paths
            };
            list.push(rule.to_value());
        }
        let mut status = json!({
            "resourceRules": resources,
            "nonResourceRules": paths,
            "incomplete": is_cut,
        });
        if is_cut {
            status["evaluationError"] = "there are more rules than one answer shows".into();
        }
        Ok(status)
    }

    /// A token for the service account that the path names.
    fn token_request(&self, request: &mut Value) -> Result<Value, Error> {
        let (namespace, name) = (&self.target.namespace, &self.target.name);
        let account = self.reference("serviceaccounts", name)?;
        let bound = request["spec"]["boundObjectRef"].clone();
        let reference = match bound.is_null() {
            true => None,
            false => Some(self.bound(&bound)?),
        };
        let seconds = expiration(request)?;
        let asked: Vec<String> = value::texts(request, "spec.audiences")
            .map(str::to_owned)
            .collect();
        let audiences = if asked.is_empty() {
            vec![AUDIENCE.to_owned()]
        } else {
            asked
        };
        let now = self.server.now();
        let (secret, pod) = match value::text(&bound, "kind") {
            "Secret" => (reference, None),
            _ => (None, reference),
        };
        let claims = Claims {
            iss: ISSUER.to_owned(),
            sub: Claims::user_name(namespace, name),
            aud: audiences.clone(),
            exp: Some(now.unix() + seconds),
            iat: Some(now.unix()),
            nbf: Some(now.unix()),
            jti: Some(uuid::Uuid::new_v4().to_string()),
            account: Account {
                namespace: namespace.clone(),
                serviceaccount: account,
                secret,
                pod,
            },
        };
        let token = self.server.tokens.sign(&claims).map_err(Error::internal)?;
        value::set_at(request, "spec.audiences", json!(audiences));
        value::set_at(request, "spec.expirationSeconds", json!(seconds));
        request["metadata"]["name"] = json!(name);
        request["metadata"]["namespace"] = json!(namespace);
        request["metadata"]["creationTimestamp"] = now.to_value();
        Ok(json!({"token": token, "expirationTimestamp": now.plus(seconds).to_value()}))
    }

    /// What a token shall be bound to: it ends with that object.
    fn bound(&self, bound: &Value) -> Result<Reference, Error> {
        let collection = match value::text(bound, "kind") {
            "Pod" => "pods",
            "Secret" => "secrets",
            other => {
                return Err(Error::bad_request(format!(
                    "cannot bind token to a {other:?}: only Pod and Secret are supported"
                )));
            }
        };
        let reference = self.reference(collection, value::text(bound, "name"))?;
        let wanted = value::text(bound, "uid");
        if !wanted.is_empty() && wanted != reference.uid {
            let about = About {
                group: "",
                resource: collection,
                name: &reference.name,
            };
            let why = "the UID in the bound object reference does not match the UID in record";
            return Err(Error::conflict(about, why));
        }
        Ok(reference)
    }

    fn reference(&self, collection: &str, name: &str) -> Result<Reference, Error> {
        let missing = || {
            Error::not_found(About {
                group: "",
                resource: collection,
                name,
            })
        };
        let tenant = crate::server::TENANT;
        let key = deltaplane_store::Key::new(tenant, collection, &self.target.namespace, name);
        let object = self
            .server
            .store
            .get(&key.map_err(|_| missing())?)
            .ok_or_else(missing)?;
        let uid = object.header().uid().ok_or_else(missing)?;
        Ok(Reference {
            name: name.to_owned(),
            uid: uid.to_string(),
        })
    }
}

fn expiration(request: &Value) -> Result<i64, Error> {
    let path = field::Path::new("spec").child("expirationSeconds");
    let asked = value::at(request, "spec.expirationSeconds");
    let seconds = asked.as_i64().unwrap_or(TOKEN_SECONDS);
    let detail = match seconds {
        seconds if seconds < TOKEN_MIN_SECONDS => "may not specify a duration less than 10 minutes",
        seconds if seconds > TOKEN_MAX_SECONDS => {
            "may not specify a duration larger than 2^32 seconds"
        }
        seconds => return Ok(seconds),
    };
    let error = field::Error::invalid(path, seconds, detail);
    Err(Error::invalid(
        "authentication.k8s.io",
        "TokenRequest",
        "",
        &[error],
    ))
}

fn user_info(user: &Identity) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = json!(user.uid);
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

/// The rules of all access reviews, and these.
fn check_access(spec: &Value, rules: &[fn(&Value) -> Option<field::Error>]) -> Result<(), Error> {
    let path = field::Path::new("spec").child("resourceAttributes");
    let resource = &spec["resourceAttributes"];
    let mut errors = Vec::new();
    if resource.is_null() == spec["nonResourceAttributes"].is_null() {
        let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.push(field::Error::invalid(path, resource.clone(), detail));
    }
    errors.extend(rules.iter().filter_map(|rule| rule(spec)));
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Error::invalid("authorization.k8s.io", "", "", &errors)),
    }
}

fn check_subject(spec: &Value) -> Option<field::Error> {
    let groups = value::list(spec, "groups");
    let path = field::Path::new("spec");
    if value::text(spec, "user").is_empty() && groups.is_empty() {
        let detail = "at least one of user or group must be specified";
        return Some(field::Error::invalid(path.child("user"), "", detail));
    }
    let count = groups.len();
    (count > MAX_GROUPS).then(|| field::Error::too_many(path.child("groups"), count, MAX_GROUPS))
}

/// The user that an access review asks about.
fn subject(spec: &Value) -> Identity {
    let groups: BTreeSet<&str> = value::texts(spec, "groups").collect();
    Identity {
        name: value::text(spec, "user").to_owned(),
        uid: value::text(spec, "uid").to_owned(),
        groups: groups.into_iter().map(str::to_owned).collect(),
        ..Identity::default()
    }
}
