//! URLs, read as Go reads them.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

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
    /// The whole, as Go writes it.
    text: String,
    scheme: String,
    host: String,
    path: String,
    query: String,
}

/// Who, and where: `user:password@host:port`.
struct Authority {
    /// Escaped.
    user: Option<String>,
    host: String,
}

/// What is not escaped in a part, beside letters, digits and `-_.~`.
const PATH: &[u8] = b"$&+,/:;=@";
const FRAGMENT: &[u8] = b"$&+,/:;=?@!()*";
const USER: &[u8] = b"$&+,;=";
const HOST: &[u8] = b"!$&'()*+,;=:[]<>\"";
/// What may be in a path or in a fragment as it was given.
const GIVEN: &[u8] = b"!$&'()*+,;=:@[]%";

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

    fn weight(&self) -> u64 {
        self.text.len() as u64
    }

    fn text(&self) -> Option<String> {
        Some(self.text.clone())
    }

    fn to_json(&self) -> Option<Json> {
        self.text().map(Json::String)
    }
}

// === impl Url ===

impl Url {
    /// Reads a URL that is absolute, or an absolute path. An error says why it is none.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        Self::read(text, true)?;
        let (plain, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = Self::read(plain, false)?;
        if !fragment.is_empty() {
            let plain =
                unescape(fragment, false).ok_or_else(|| wrong(text, "invalid URL escape"))?;
            url.text.push('#');
            url.text.push_str(&escaped(fragment, &plain, FRAGMENT));
        }
        Ok(url)
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
            text: String::new(),
            scheme: String::new(),
            host: String::new(),
            path: String::new(),
            query: String::new(),
        };
        if text == "*" {
            url.path = "*".to_owned();
            url.text = url.path.clone();
            return Ok(url);
        }
        let Some((scheme, rest)) = split_scheme(text) else {
            return bad("missing protocol scheme");
        };
        url.scheme = scheme.to_ascii_lowercase();
        let (mut rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        url.query = query.unwrap_or_default().to_owned();
        let asked = query.map_or(String::new(), |query| format!("?{query}"));
        if !rest.starts_with('/') {
            if !url.scheme.is_empty() {
                // Opaque: no host and no path.
                url.text = format!("{}:{rest}{asked}", url.scheme);
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
        let mut authority = None;
        if has_authority && let Some(after) = rest.strip_prefix("//") {
            let end = after.find('/').unwrap_or(after.len());
            let (text, path) = after.split_at(end);
            match Authority::parse(&url.scheme, text) {
                Ok(found) => {
                    url.host.clone_from(&found.host);
                    authority = Some(found);
                }
                Err(why) => return bad(why),
            }
            rest = path;
        }
        if unescape(rest, false).is_none() {
            return bad("invalid URL escape");
        }
        url.path = rest.to_owned();
        if !url.scheme.is_empty() {
            url.text = format!("{}:", url.scheme);
        }
        let written = authority.map(|authority| authority.written(&url));
        url.text.push_str(&written.unwrap_or_default());
        url.text.push_str(&url.escaped_path());
        url.text.push_str(&asked);
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
        if self.path == "*" {
            return self.path.clone();
        }
        let plain = unescape(&self.path, false).unwrap_or_default();
        escaped(&self.path, &plain, PATH)
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

// === impl Authority ===

impl Authority {
    fn parse(scheme: &str, text: &str) -> Result<Self, &'static str> {
        let Some((user, host)) = text.rsplit_once('@') else {
            let host = parse_host(scheme, text)?;
            return Ok(Self { user: None, host });
        };
        let host = parse_host(scheme, host)?;
        let fine = |byte: u8| is_plain(byte) || b":!$&'()*+,;=%@".contains(&byte);
        if !user.bytes().all(fine) {
            return Err("net/url: invalid userinfo");
        }
        let again = |text: &str| match unescape(text, false) {
            Some(plain) => Ok(escape(&plain, USER)),
            None => Err("invalid URL escape"),
        };
        let user = match user.split_once(':') {
            Some((name, password)) => format!("{}:{}", again(name)?, again(password)?),
            None => again(user)?,
        };
        Ok(Self {
            user: Some(user),
            host,
        })
    }

    /// As Go writes it between the scheme and the path of `url`.
    fn written(&self, url: &Url) -> String {
        let host = escape(self.host.as_bytes(), HOST);
        match &self.user {
            Some(user) => format!("//{user}@{host}"),
            None if !host.is_empty() => format!("//{host}"),
            None if !url.scheme.is_empty() && !url.path.is_empty() => "//".to_owned(),
            None => String::new(),
        }
    }
}

/// The host of `host:port`, checked, with its port.
fn parse_host(scheme: &str, host: &str) -> Result<String, &'static str> {
    match host.rfind('[') {
        Some(0) => parse_literal(host),
        Some(_) => Err("invalid IP-literal"),
        None => {
            // Databases write several hosts with ports in one.
            let colon = match scheme {
                "http" | "https" => host.find(':'),
                _ => host.rfind(':'),
            };
            match colon {
                Some(at) if !is_port(&host[at..]) => Err("invalid port after host"),
                Some(_) | None => unescape_host(host, false),
            }
        }
    }
}

/// An IPv6 address in brackets, with its zone and its port.
fn parse_literal(host: &str) -> Result<String, &'static str> {
    let end = host.rfind(']').ok_or("missing ']' in host")?;
    let port = &host[end + 1..];
    if !is_port(port) {
        return Err("invalid port after host");
    }
    let name = &host[1..end];
    let (address, zone) = name.split_at(name.find("%25").unwrap_or(name.len()));
    let name = unescape_host(address, false)? + &unescape_host(zone, true)?;
    let (address, zone) = match name.split_once('%') {
        Some((address, zone)) => (address, Some(zone)),
        None => (name.as_str(), None),
    };
    if zone == Some("") || address.parse::<Ipv6Addr>().is_err() {
        return Err("invalid host");
    }
    Ok(format!("[{name}]{port}"))
}

/// Like [`unescape`]: a host has few characters, and escapes are for those that it has not; those
/// of a zone are for those that a host has, and for spaces.
fn unescape_host(text: &str, zone: bool) -> Result<String, &'static str> {
    let fine = |byte: u8| is_plain(byte) || HOST.contains(&byte);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            if byte.is_ascii() && !fine(byte) {
                return Err("invalid character in host name");
            }
            continue;
        }
        let digits = [bytes.next(), bytes.next()].map(|digit| {
            let digit = digit.and_then(|digit| char::from(digit).to_digit(16));
            digit.and_then(|digit| u8::try_from(digit).ok())
        });
        let allowed = match digits {
            [Some(high), Some(low)] => match high << 4 | low {
                b'%' => true,
                code if zone => code == b' ' || fine(code),
                code => !code.is_ascii(),
            },
            _ => false,
        };
        if !allowed {
            return Err("invalid URL escape");
        }
    }
    match unescape(text, false).map(String::from_utf8) {
        Some(Ok(host)) => Ok(host),
        Some(Err(_)) | None => Err("invalid URL escape"),
    }
}

/// What is written plainly everywhere.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte)
}

/// A text whose bytes are `plain`: as it was given, if that could be, or else escaped.
fn escaped(given: &str, plain: &[u8], kept: &[u8]) -> String {
    let fine = |byte: u8| is_plain(byte) || kept.contains(&byte) || GIVEN.contains(&byte);
    if given.bytes().all(fine) {
        return given.to_owned();
    }
    escape(plain, kept)
}

fn escape(plain: &[u8], kept: &[u8]) -> String {
    let mut out = String::new();
    for &byte in plain {
        if is_plain(byte) || kept.contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
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

/// What an entry of a query takes, beside its text: a list in a map.
const ENTRY: u64 = 16;

fn query<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let Some(url) = args.first().and_then(Value::as_opaque::<Url>) else {
        return Err(no_overload("getQuery", args));
    };
    let mut map = OwnedMap::new();
    for (key, values) in url.pairs() {
        let texts = key.len() + values.iter().map(String::len).sum::<usize>();
        meter.step(ENTRY * (1 + values.len() as u64))?;
        meter.write(texts)?;
        map.insert(
            Value::string(key),
            Value::flat_list(values.into_iter().map(Value::string)),
        )?;
    }
    Ok(Value::Map(Map::owned(map)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_written_as_go_writes_them() {
        let cases = [
            (
                "HTTPS://Example.COM/Path?q#f",
                "https://Example.COM/Path?q#f",
            ),
            ("https://u%2fx:p%40@h:8080/", "https://u%2Fx:p%40@h:8080/"),
            ("https://u!:@h", "https://u%21:@h"),
            ("https://h/a b/%7E", "https://h/a%20b/~"),
            ("https://h/[x]%7E", "https://h/[x]%7E"),
            ("https://h/x?#", "https://h/x?"),
            ("https://h/x#a b", "https://h/x#a%20b"),
            ("https://é/", "https://%C3%A9/"),
            (
                "https://[fe80::1%25e%6e0]:80/",
                "https://[fe80::1%25en0]:80/",
            ),
            ("mailto:a@b?c", "mailto:a@b?c"),
            ("file:/etc", "file:/etc"),
            ("file:///etc", "file:///etc"),
            ("///path", "///path"),
            ("postgres://a:1,b:2/db", "postgres://a:1,b:2/db"),
            ("*", "*"),
        ];
        for (text, expected) in cases {
            assert_eq!(Url::parse(text).unwrap().text, expected, "{text}");
        }
        for bad in [
            "https://[nope]/",
            "https://[1.2.3.4]/",
            "https://[fe80::1%25]/",
            "https://a[::1]/",
            "https://a:b:1/",
            "https://ex%41mple/",
            "https://a b/",
            "https://h/x#%",
            "relative",
        ] {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
    }
}
