//! URLs, read as Go reads them.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::cost::Cost;
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::fault::Fault;
use crate::host::Opaque;
use crate::meter::Meter;
use crate::types::Type;
use crate::value::{Map, OwnedMap, Value};

pub(in crate::library) const TABLES: &[&[Row]] = &[ROWS];
pub(in crate::library) const TYPE: &str = "kubernetes.URL";

const ROWS: &[Row] = &[
    Row::new(
        "url",
        "string_to_url",
        "(string) -> kubernetes.URL",
        Cost::Scan,
        url,
    ),
    Row::new(
        "isURL",
        "is_url_string",
        "(string) -> bool",
        Cost::Unit,
        is_url,
    ),
    Row::new(
        "getScheme",
        "url_get_scheme",
        "kubernetes.URL.() -> string",
        Cost::Unit,
        scheme,
    ),
    Row::new(
        "getHost",
        "url_get_host",
        "kubernetes.URL.() -> string",
        Cost::Unit,
        host,
    ),
    Row::new(
        "getHostname",
        "url_get_hostname",
        "kubernetes.URL.() -> string",
        Cost::Unit,
        hostname,
    ),
    Row::new(
        "getPort",
        "url_get_port",
        "kubernetes.URL.() -> string",
        Cost::Unit,
        port,
    ),
    Row::new(
        "getEscapedPath",
        "url_get_escaped_path",
        "kubernetes.URL.() -> string",
        Cost::Unit,
        escaped_path,
    ),
    Row::new(
        "getQuery",
        "url_get_query",
        "kubernetes.URL.() -> map(string, list(string))",
        Cost::Unit,
        query,
    ),
];

/// A URL in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    text: String,
    scheme: String,
    host: String,
    path: String,
    query: String,
}

impl Opaque for Url {
    fn ty(&self) -> Type {
        Type::opaque(TYPE)
    }

    fn equals(&self, other: &dyn Opaque) -> Result<bool, Box<Fault>> {
        let other: &dyn std::any::Any = other;
        Ok(other
            .downcast_ref::<Self>()
            .is_some_and(|other| self.text == other.text))
    }

    fn to_json(&self) -> Option<Json> {
        Some(Json::String(self.text.clone()))
    }
}

// === impl Url ===

impl Url {
    /// Reads a URL that is absolute, or an absolute path. An error says why it is none.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        Self::read(text, true)?;
        let (plain, fragment) = text.split_once('#').unwrap_or((text, ""));
        unescape(fragment, false).ok_or_else(|| wrong(text, "invalid URL escape"))?;
        Self::read(plain, false).map(|url| Self {
            text: text.to_owned(),
            ..url
        })
    }

    fn read(text: &str, request: bool) -> Result<Self, String> {
        let bad = |why: &str| Err(wrong(text, why));
        if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return bad("net/url: invalid control character in URL");
        }
        if text.is_empty() && request {
            return bad("empty url");
        }
        let mut url = Self {
            text: text.to_owned(),
            scheme: String::new(),
            host: String::new(),
            path: String::new(),
            query: String::new(),
        };
        if text == "*" {
            url.path = "*".to_owned();
            return Ok(url);
        }
        let Some((scheme, rest)) = split_scheme(text) else {
            return bad("missing protocol scheme");
        };
        url.scheme = scheme.to_ascii_lowercase();
        let (mut rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        url.query = query.to_owned();
        if !rest.starts_with('/') {
            if !url.scheme.is_empty() {
                // Opaque: no host and no path.
                return Ok(url);
            }
            if request {
                return bad("invalid URI for request");
            }
            let segment = rest.split('/').next().unwrap_or_default();
            if segment.contains(':') {
                return bad("first path segment in URL cannot contain colon");
            }
        }
        let has_authority = !url.scheme.is_empty() || (!request && !rest.starts_with("///"));
        if has_authority && let Some(after) = rest.strip_prefix("//") {
            let end = after.find('/').unwrap_or(after.len());
            let (authority, path) = after.split_at(end);
            match parse_authority(authority) {
                Ok(host) => url.host = host,
                Err(why) => return bad(why),
            }
            rest = path;
        }
        if unescape(rest, false).is_none() {
            return bad("invalid URL escape");
        }
        url.path = rest.to_owned();
        Ok(url)
    }

    /// Host and port apart.
    fn split_host(&self) -> (&str, &str) {
        let host = self.host.as_str();
        let (name, port) = match host.rfind(':') {
            Some(colon) if is_port(&host[colon..]) => (&host[..colon], &host[colon + 1..]),
            Some(_) | None => (host, ""),
        };
        let inner = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'));
        (inner.unwrap_or(name), port)
    }

    fn escaped_path(&self) -> String {
        let fine =
            |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!'()*[]%".contains(&byte);
        if self.path == "*" || self.path.bytes().all(fine) {
            return self.path.clone();
        }
        let plain = unescape(&self.path, false).unwrap_or_default();
        let kept = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte);
        let mut out = String::new();
        for byte in plain {
            if kept(byte) {
                out.push(char::from(byte));
            } else {
                out.push_str(&format!("%{byte:02X}"));
            }
        }
        out
    }

    /// The values of each key, in the order of the keys.
    fn pairs(&self) -> Vec<(String, Vec<String>)> {
        let mut pairs: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for part in self
            .query
            .split('&')
            .filter(|part| !part.is_empty() && !part.contains(';'))
        {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let text = |part: &str| {
                unescape(part, true).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            };
            let (Some(key), Some(value)) = (text(key), text(value)) else {
                continue;
            };
            pairs.entry(key).or_default().push(value);
        }
        pairs.into_iter().collect()
    }
}

/// The error of Go's parser.
fn wrong(text: &str, why: &str) -> String {
    format!("parse {}: {why}", crate::syntax::quote(text))
}

/// Scheme and rest; nothing when the scheme is missing before its colon.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    for (at, c) in text.char_indices() {
        match c {
            c if c.is_ascii_alphabetic() => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return None,
            ':' => return Some((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Some(("", text))
}

fn is_port(text: &str) -> bool {
    text.is_empty()
        || text
            .strip_prefix(':')
            .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The host of `user@host:port`, checked.
fn parse_authority(authority: &str) -> Result<String, &'static str> {
    let host = match authority.rsplit_once('@') {
        Some((user, host)) => {
            let fine =
                |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
            if !user.bytes().all(fine) || unescape(user, false).is_none() {
                return Err("net/url: invalid userinfo");
            }
            host
        }
        None => authority,
    };
    if host.starts_with('[') {
        let Some(end) = host.rfind(']') else {
            return Err("missing ']' in host");
        };
        if !is_port(&host[end + 1..]) {
            return Err("invalid port after host");
        }
    } else if let Some(colon) = host.rfind(':')
        && !is_port(&host[colon..])
    {
        return Err("invalid port after host");
    }
    let fine = |byte: u8| {
        byte >= 0x80 || byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"%".contains(&byte)
    };
    if !host.bytes().all(fine) {
        return Err("invalid character in host name");
    }
    match unescape(host, false).map(String::from_utf8) {
        Some(Ok(host)) => Ok(host),
        Some(Err(_)) | None => Err("invalid URL escape"),
    }
}

/// The bytes behind `%` escapes; nothing when one is not complete.
fn unescape(text: &str, plus: bool) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'%' => {
                let digits = text.get(at + 1..at + 3)?;
                digits
                    .bytes()
                    .all(|byte| byte.is_ascii_hexdigit())
                    .then_some(())?;
                out.push(u8::from_str_radix(digits, 16).ok()?);
                at += 3;
                continue;
            }
            b'+' if plus => out.push(b' '),
            byte => out.push(byte),
        }
        at += 1;
    }
    Some(out)
}

fn url<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(text)] => match Url::parse(text.as_str()) {
            Ok(url) => Ok(Value::opaque(url)),
            Err(why) => Err(Fault::invalid(format!(
                "URL parse error during conversion from string: {why}"
            ))),
        },
        _ => Err(no_overload("url", args)),
    }
}

fn is_url<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(Url::read(text.as_str(), true).is_ok())),
        _ => Err(no_overload("isURL", args)),
    }
}

fn part<'a>(name: &str, args: &[Value<'a>], part: fn(&Url) -> String) -> Outcome<'a> {
    match args.first().and_then(Value::as_opaque::<Url>) {
        Some(url) => Ok(Value::string(part(url))),
        None => Err(no_overload(name, args)),
    }
}

fn scheme<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    part("getScheme", args, |url| url.scheme.clone())
}

fn host<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    part("getHost", args, |url| url.host.clone())
}

fn hostname<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    part("getHostname", args, |url| url.split_host().0.to_owned())
}

fn port<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    part("getPort", args, |url| url.split_host().1.to_owned())
}

fn escaped_path<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    part("getEscapedPath", args, Url::escaped_path)
}

fn query<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let Some(url) = args.first().and_then(Value::as_opaque::<Url>) else {
        return Err(no_overload("getQuery", args));
    };
    let mut map = OwnedMap::new();
    for (key, values) in url.pairs() {
        map.insert(
            Value::string(key),
            Value::flat_list(values.into_iter().map(Value::string)),
        )?;
    }
    Ok(Value::Map(Map::owned(map)))
}
