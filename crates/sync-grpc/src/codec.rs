//! From messages to bytes' messages and back. What comes is checked here, once.

use std::collections::BTreeMap;

use deltaplane_sync::{
    Item, Known, ObjectName, Position, ProtocolError, Rejection, Relayed, Request, Response,
    SyncKind, Verdict, Version,
};
use prost::Message as _;
use prost_types::value::Kind;
use prost_types::{Any, ListValue, Struct, Value};

use crate::bounded::check_bounds;
use crate::proto::deltaplane::sync::v1::{
    Orphaned, Rejected, Rejection as WireRejection, SyncedObject, rejection,
};
use crate::proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, Node, Resource,
};
use crate::proto::google::rpc::Status;

const OBJECT: &str = "type.googleapis.com/deltaplane.sync.v1.SyncedObject";
const ORPHANED: &str = "type.googleapis.com/deltaplane.sync.v1.Orphaned";
const REJECTED: &str = "type.googleapis.com/deltaplane.sync.v1.Rejected";
const ALL: &str = "*";
const COMPLETE: &str = "complete";
const APPROVED: &str = "approved";
const POSITION: &str = "position";
const BEYOND: &str = "beyond";
const SOURCES: &str = "sources";
/// What stands for the version of an object that is not there.
const NONE: &str = "";
/// google.rpc.Code: INVALID_ARGUMENT.
const INVALID_ARGUMENT: i32 = 3;

fn malformed(text: impl Into<String>) -> ProtocolError {
    ProtocolError::Malformed(text.into())
}

// --- responses

pub fn encode_response(response: &Response) -> DeltaDiscoveryResponse {
    let object = |(name, item): &(ObjectName, Item)| {
        let relayed = item.relayed.as_ref();
        let body = SyncedObject {
            object: item.body.to_vec(),
            relayed_from: relayed.map_or_else(String::new, |relayed| relayed.zone.to_string()),
            relayed_name: relayed.map_or_else(String::new, |relayed| relayed.name.to_string()),
        };
        Resource {
            version: item.version.to_string(),
            resource: Some(any(OBJECT, &body)),
            name: name.to_string(),
            aliases: Vec::new(),
        }
    };
    let orphan = |name: &ObjectName| Resource {
        resource: Some(any(ORPHANED, &Orphaned {})),
        name: name.to_string(),
        ..Resource::default()
    };
    let objects = response.items.iter().map(object);
    let orphans = response.orphaned.iter().map(orphan);
    let mut info = response.at.to_string();
    for (flag, text) in [(response.complete, COMPLETE), (response.approved, APPROVED)] {
        if flag {
            info.push(' ');
            info.push_str(text);
        }
    }
    for (policy, release) in &response.releases {
        info.push_str(&format!(" {policy}={release}"));
    }
    DeltaDiscoveryResponse {
        system_version_info: info,
        resources: objects.chain(orphans).collect(),
        type_url: response.kind.to_string(),
        nonce: response.nonce.to_string(),
        removed_resources: response.removed.iter().map(ToString::to_string).collect(),
        control_plane: None,
    }
}

pub fn decode_response(wire: DeltaDiscoveryResponse) -> Result<Response, ProtocolError> {
    let mut info = wire.system_version_info.split(' ');
    let at: Position = parse(info.next().unwrap_or_default())?;
    let flags: Vec<&str> = info.collect();
    let mut response = Response {
        kind: parse(&wire.type_url)?,
        nonce: parse_nonce(&wire.nonce)?,
        at,
        complete: flags.contains(&COMPLETE),
        items: Vec::new(),
        orphaned: Vec::new(),
        removed: wire
            .removed_resources
            .iter()
            .map(|name| parse(name))
            .collect::<Result<_, _>>()?,
        approved: flags.contains(&APPROVED),
        releases: decode_releases(&flags)?,
    };
    for resource in wire.resources {
        let name: ObjectName = parse(&resource.name)?;
        let body = resource.resource.unwrap_or_default();
        match body.type_url.as_str() {
            OBJECT => {
                let object = SyncedObject::decode(&*body.value);
                let object = object.map_err(|_| malformed(format!("{name} is no object")))?;
                let relayed = match object.relayed_from.as_str() {
                    "" => None,
                    zone => Some(Relayed {
                        zone: parse(zone)?,
                        name: object.relayed_name.into(),
                    }),
                };
                let item = Item {
                    version: parse_version(&resource.version)?,
                    body: object.object.into(),
                    relayed,
                };
                response.items.push((name, item));
            }
            ORPHANED => response.orphaned.push(name),
            other => {
                return Err(malformed(format!(
                    "{name} is a {other:?}, which is unknown"
                )));
            }
        }
    }
    Ok(response)
}

/// The words `<policy>=<release>`; others are of newer versions.
fn decode_releases(words: &[&str]) -> Result<BTreeMap<String, u64>, ProtocolError> {
    let releases = words.iter().filter_map(|word| word.split_once('='));
    let releases = releases.map(|(policy, release)| {
        let release = release.parse();
        let release = release.map_err(|_| malformed(format!("{policy} has no such release")))?;
        Ok((policy.to_owned(), release))
    });
    releases.collect()
}

// --- requests

pub fn encode_request(request: &Request) -> DeltaDiscoveryRequest {
    match request {
        Request::Subscribe { kind, known } => encode_subscribe(kind, known),
        Request::Ack {
            kind,
            nonce,
            rejected,
        } => DeltaDiscoveryRequest {
            type_url: kind.to_string(),
            response_nonce: nonce.to_string(),
            error_detail: (!rejected.is_empty()).then(|| encode_rejected(rejected)),
            ..DeltaDiscoveryRequest::default()
        },
        Request::Repair { kind, names } => DeltaDiscoveryRequest {
            type_url: kind.to_string(),
            resource_names_subscribe: names.iter().map(ToString::to_string).collect(),
            ..DeltaDiscoveryRequest::default()
        },
    }
}

/// No subscription with this takes more bytes, without writing it: versions of many objects are
/// many bytes, and all of them are one message.
pub fn size_of_subscription(known: &Known) -> usize {
    let names: Box<dyn Iterator<Item = &ObjectName>> = match known {
        Known::Versions { held, .. } => Box::new(held.keys()),
        Known::Position { beyond, .. } => Box::new(beyond.keys()),
    };
    let entry = |name: &ObjectName| name.namespace().len() + 1 + name.name().len() + ENTRY;
    SUBSCRIPTION + names.map(entry).sum::<usize>()
}

/// What an entry takes beside the name: 64 digits of a version, and what tells fields apart.
const ENTRY: usize = 64 + 32;
/// What a subscription takes beside its entries: the kind, and a few positions.
const SUBSCRIPTION: usize = 64 << 10;

fn encode_subscribe(kind: &SyncKind, known: &Known) -> DeltaDiscoveryRequest {
    let mut fields = BTreeMap::new();
    let mut versions = BTreeMap::new();
    match known {
        Known::Versions { held, sources } => {
            versions.extend(
                held.iter()
                    .map(|(name, version)| (name.to_string(), version.to_string())),
            );
            let sources = sources.iter().map(|source| text(source.to_string()));
            fields.insert(SOURCES.to_owned(), list(sources.collect()));
        }
        Known::Position { position, beyond } => {
            fields.insert(POSITION.to_owned(), text(position.to_string()));
            let beyond = beyond.iter().map(|(name, version)| {
                let version =
                    version.map_or_else(|| NONE.to_owned(), |version| version.to_string());
                (name.to_string(), text(version))
            });
            let beyond = Struct {
                fields: beyond.collect(),
            };
            let kind = Some(Kind::StructValue(beyond));
            fields.insert(BEYOND.to_owned(), Value { kind });
        }
    }
    let node = Node {
        metadata: Some(Struct { fields }),
        ..Node::default()
    };
    DeltaDiscoveryRequest {
        node: Some(node),
        type_url: kind.to_string(),
        resource_names_subscribe: vec![ALL.to_owned()],
        initial_resource_versions: versions.into_iter().collect(),
        ..DeltaDiscoveryRequest::default()
    }
}

fn encode_rejected(rejected: &[Rejection]) -> Status {
    let rejections = rejected.iter().map(|one| WireRejection {
        name: one.name.to_string(),
        reason: one.reason.clone(),
        verdict: encode_verdict(one.verdict).into(),
    });
    let body = Rejected {
        rejections: rejections.collect(),
    };
    Status {
        code: INVALID_ARGUMENT,
        message: format!("{} objects were rejected", rejected.len()),
        details: vec![any(REJECTED, &body)],
    }
}

pub fn decode_request(wire: DeltaDiscoveryRequest) -> Result<Request, ProtocolError> {
    let kind = parse(&wire.type_url)?;
    if wire.response_nonce.is_empty() {
        return match is_repair(&wire) {
            true => decode_repair(kind, &wire),
            false => {
                let known = decode_known(wire)?;
                Ok(Request::Subscribe { kind, known })
            }
        };
    }
    Ok(Request::Ack {
        kind,
        nonce: parse_nonce(&wire.response_nonce)?,
        rejected: wire.error_detail.map_or(Ok(Vec::new()), decode_rejected)?,
    })
}

/// Whether it subscribes to single resources, of a type that is subscribed to already: the first
/// request of a type alone says who asks.
fn is_repair(wire: &DeltaDiscoveryRequest) -> bool {
    let names = &wire.resource_names_subscribe;
    wire.node.is_none() && !names.is_empty() && *names != [ALL]
}

fn decode_repair(kind: SyncKind, wire: &DeltaDiscoveryRequest) -> Result<Request, ProtocolError> {
    let names = wire.resource_names_subscribe.iter();
    let names = names.map(|name| parse(name));
    let names = names.collect::<Result<_, _>>()?;
    Ok(Request::Repair { kind, names })
}

fn decode_known(wire: DeltaDiscoveryRequest) -> Result<Known, ProtocolError> {
    if wire.resource_names_subscribe != [ALL] {
        return Err(malformed("a subscription must be to all of a type (\"*\")"));
    }
    let metadata = wire.node.and_then(|node| node.metadata);
    let mut fields = metadata.unwrap_or_default().fields;
    let string = |value: &Value| match &value.kind {
        Some(Kind::StringValue(text)) => Ok(text.clone()),
        _ => Err(malformed("a text was expected")),
    };
    if let Some(position) = fields.remove(POSITION) {
        let position: Position = parse(&string(&position)?)?;
        let beyond = match fields.remove(BEYOND).and_then(|value| value.kind) {
            Some(Kind::StructValue(beyond)) => beyond.fields,
            Some(_) => return Err(malformed("what is beyond must be versions by name")),
            None => Default::default(),
        };
        let beyond = beyond.iter().map(|(name, version)| {
            let version = match string(version)?.as_str() {
                NONE => None,
                version => Some(parse_version(version)?),
            };
            Ok((parse(name)?, version))
        });
        let beyond = beyond.collect::<Result<_, ProtocolError>>()?;
        return Ok(Known::Position { position, beyond });
    }
    let sources = match fields.remove(SOURCES).and_then(|value| value.kind) {
        Some(Kind::ListValue(sources)) => sources.values,
        Some(_) => return Err(malformed("sources must be a list")),
        None => Vec::new(),
    };
    let sources = sources.iter().map(|source| parse(&string(source)?));
    let held = wire.initial_resource_versions.iter();
    let held = held.map(|(name, version)| Ok((parse(name)?, parse_version(version)?)));
    Ok(Known::Versions {
        held: held.collect::<Result<_, ProtocolError>>()?,
        sources: sources.collect::<Result<_, _>>()?,
    })
}

fn decode_rejected(status: Status) -> Result<Vec<Rejection>, ProtocolError> {
    let details = status.details.iter();
    let Some(body) = details.into_iter().find(|any| any.type_url == REJECTED) else {
        return Err(malformed(format!(
            "an error without the objects that it is about: {}",
            status.message
        )));
    };
    check_bounds::<Rejected>(&body.value).map_err(|error| malformed(error.to_string()))?;
    let body = Rejected::decode(&*body.value);
    let body = body.map_err(|_| malformed("the rejected objects cannot be read"))?;
    let rejections = body.rejections.into_iter().map(|one| {
        Ok(Rejection {
            name: parse(&one.name)?,
            verdict: decode_verdict(one.verdict()),
            reason: cut(one.reason, MAX_REASON),
        })
    });
    rejections.collect()
}

fn encode_verdict(verdict: Verdict) -> rejection::Verdict {
    match verdict {
        Verdict::Failed => rejection::Verdict::Failed,
        Verdict::Held => rejection::Verdict::Held,
        Verdict::Own => rejection::Verdict::Own,
        Verdict::Foreign => rejection::Verdict::Foreign,
    }
}

/// One that is not known here reads as the first.
fn decode_verdict(verdict: rejection::Verdict) -> Verdict {
    match verdict {
        rejection::Verdict::Failed => Verdict::Failed,
        rejection::Verdict::Held => Verdict::Held,
        rejection::Verdict::Own => Verdict::Own,
        rejection::Verdict::Foreign => Verdict::Foreign,
    }
}

/// So much of a reason is kept, for as long as the object is rejected.
const MAX_REASON: usize = 1024;

/// What a peer says is shown to people, and kept: it ends somewhere, and a terminal shows it as
/// text. Lines may end; every other control character is replaced.
pub fn cut(mut text: String, most: usize) -> String {
    let is_unsafe = |one: char| one.is_control() && one != '\n';
    if text.contains(is_unsafe) {
        text = text.replace(is_unsafe, "\u{fffd}");
    }
    if text.len() > most {
        let end = (0..=most).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
        text.push('…');
    }
    text
}

// --- parts

fn any(type_url: &str, message: &impl prost::Message) -> Any {
    Any {
        type_url: type_url.to_owned(),
        value: message.encode_to_vec(),
    }
}

fn text(text: String) -> Value {
    Value {
        kind: Some(Kind::StringValue(text)),
    }
}

fn list(values: Vec<Value>) -> Value {
    Value {
        kind: Some(Kind::ListValue(ListValue { values })),
    }
}

fn parse_version(text: &str) -> Result<Version, ProtocolError> {
    text.parse()
        .map_err(|()| malformed(format!("{text:?} is no version")))
}

fn parse_nonce(text: &str) -> Result<u64, ProtocolError> {
    text.parse()
        .map_err(|_| malformed(format!("{text:?} is no nonce of ours")))
}

/// A name, a type or a position.
pub(crate) fn parse<T: std::str::FromStr<Err = deltaplane_sync::NameError>>(
    text: &str,
) -> Result<T, ProtocolError> {
    text.parse()
        .map_err(|why: deltaplane_sync::NameError| malformed(why.to_string()))
}
