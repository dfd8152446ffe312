//! What an administrator hands to a zone: one line of text. Pure.
//!
//! `deltaplane-join-v1.<payload>.<checksum>`: the payload is JSON in base64url, so that a word
//! is a word in every terminal and shell; the checksum is of all before it, and tells a line that
//! was cut off from one that is refused for what it says.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Fingerprint;

/// Everything that a zone needs to join. Its text is a secret until the token ends.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinString {
    /// Where the hub is.
    pub url: HubUrl,
    /// The authority that signed the hub's certificate.
    pub ca: Fingerprint,
    /// Signed by the hub for one zone. Not shown by `Debug`.
    pub token: String,
}

/// Where a hub is. Invariant: `https://<host>:<port>` and nothing more; the host is a name or an
/// address, one of IPv6 in brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubUrl(String);

/// It is not the address of a hub.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the address of a hub, such as https://hub.example.org:7443")]
pub struct NotAHubUrl(pub String);

/// The text is not a join string that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinStringError {
    /// Something else altogether.
    #[error("this is not a join string: those begin with {PREFIX}")]
    NotAJoinString,
    /// Another format, of which this version knows nothing.
    #[error(
        "the join string was made by a newer deltaplane (format {version}, known is {VERSION})"
    )]
    Newer {
        /// Its format.
        version: u32,
    },
    /// The checksum is missing or wrong.
    #[error("the join string is cut off, or was altered on the way")]
    Damaged,
    /// It is whole, but says nothing that makes sense.
    #[error("the join string does not say what is needed")]
    Content,
    /// It names no hub.
    #[error("the join string leads nowhere")]
    Url(#[from] NotAHubUrl),
}

#[derive(Serialize, Deserialize)]
struct Payload {
    url: String,
    ca: String,
    token: String,
}

const PREFIX: &str = "deltaplane-join-v";
const VERSION: u32 = 1;
/// Several times what a join string with the longest token takes.
const MAX_BYTES: usize = 16 * 1024;
/// So many bytes of the hash: this is against accidents, not against forgery.
const CHECKSUM_BYTES: usize = 6;

// === impl JoinString ===

impl fmt::Display for JoinString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let payload = Payload {
            url: self.url.to_string(),
            ca: self.ca.to_string(),
            token: self.token.clone(),
        };
        let json = serde_json::to_vec(&payload).map_err(|_| fmt::Error)?;
        let body = format!("{PREFIX}{VERSION}.{}", URL_SAFE_NO_PAD.encode(json));
        write!(f, "{body}.{}", checksum(&body))
    }
}

impl fmt::Debug for JoinString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, ca, token: _ } = self;
        f.debug_struct("JoinString")
            .field("url", url)
            .field("ca", ca)
            .finish_non_exhaustive()
    }
}

impl FromStr for JoinString {
    type Err = JoinStringError;

    fn from_str(text: &str) -> Result<Self, JoinStringError> {
        if text.len() > MAX_BYTES {
            return Err(JoinStringError::NotAJoinString);
        }
        // Terminals break long lines where they like.
        let text: String = text.split_ascii_whitespace().collect();
        let rest = text
            .strip_prefix(PREFIX)
            .ok_or(JoinStringError::NotAJoinString)?;
        let (version, _) = rest.split_once('.').ok_or(JoinStringError::Damaged)?;
        match version.parse() {
            Ok(VERSION) => {}
            Ok(version) if version > VERSION => return Err(JoinStringError::Newer { version }),
            Ok(_) | Err(_) => return Err(JoinStringError::NotAJoinString),
        }
        let (body, sum) = text.rsplit_once('.').ok_or(JoinStringError::Damaged)?;
        if sum != checksum(body) {
            return Err(JoinStringError::Damaged);
        }
        let payload = payload(body).ok_or(JoinStringError::Content)?;
        Ok(Self {
            url: payload.url.parse()?,
            ca: payload.ca.parse().map_err(|_| JoinStringError::Content)?,
            token: payload.token,
        })
    }
}

fn payload(body: &str) -> Option<Payload> {
    let (_, encoded) = body.split_once('.')?;
    let json = URL_SAFE_NO_PAD.decode(encoded).ok()?;
    serde_json::from_slice(&json).ok()
}

fn checksum(body: &str) -> String {
    URL_SAFE_NO_PAD.encode(&Sha256::digest(body)[..CHECKSUM_BYTES])
}

// === impl HubUrl ===

impl HubUrl {
    /// All of it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name or address, without brackets: what the hub's certificate must be for.
    pub fn host(&self) -> &str {
        let (host, _) = split(&self.0).unwrap_or_default();
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The port.
    pub fn port(&self) -> u16 {
        split(&self.0).unwrap_or_default().1
    }
}

impl FromStr for HubUrl {
    type Err = NotAHubUrl;

    fn from_str(text: &str) -> Result<Self, NotAHubUrl> {
        let hub = |(host, port): (&str, u16)| port != 0 && is_host(host);
        match split(text).is_some_and(hub) {
            true => Ok(Self(text.to_owned())),
            false => Err(NotAHubUrl(text.to_owned())),
        }
    }
}

impl fmt::Display for HubUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn split(url: &str) -> Option<(&str, u16)> {
    let (host, port) = url.strip_prefix("https://")?.rsplit_once(':')?;
    // `parse` alone would take a sign.
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    Some((host, port.parse().ok().filter(|_| digits)?))
}

fn is_host(host: &str) -> bool {
    match host.strip_prefix('[') {
        Some(rest) => rest
            .strip_suffix(']')
            .is_some_and(|address| address.parse::<Ipv6Addr>().is_ok()),
        None => {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
            !host.is_empty() && host.bytes().all(allowed)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn join() -> JoinString {
        JoinString {
            url: "https://hub.example.org:7443".parse().expect("a hub"),
            ca: Fingerprint::of(b"authority"),
            token: "secret.secret.secret".to_owned(),
        }
    }

    /// A join string with a right checksum.
    fn sealed(version: &str, payload: &str) -> String {
        let payload = URL_SAFE_NO_PAD.encode(payload);
        let body = format!("{PREFIX}{version}.{payload}");
        format!("{body}.{}", checksum(&body))
    }

    fn check(text: &str, expected: &str) {
        let error = text.parse::<JoinString>().expect_err("refused");
        assert_eq!(error.to_string(), expected, "{text}");
    }

    #[test]
    fn one_word_that_survives_terminals() {
        let text = join().to_string();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        assert!(text.chars().all(plain), "{text}");
        assert_eq!(text.parse(), Ok(join()));
        let wrapped = format!("  {}\r\n  {}\n", &text[..40], &text[40..]);
        assert_eq!(wrapped.parse(), Ok(join()));
        assert!(!format!("{:?}", join()).contains("secret"));
    }

    #[test]
    fn refused_with_a_reason() {
        let other = "this is not a join string: those begin with deltaplane-join-v";
        let damaged = "the join string is cut off, or was altered on the way";
        check("", other);
        check("apiVersion: v1", other);
        check("deltaplane-join-vx.e30.abc", other);
        check("deltaplane-join-v0.e30.abc", other);
        check(&"a".repeat(MAX_BYTES + 1), other);
        check(
            &sealed("2", "{}"),
            "the join string was made by a newer deltaplane (format 2, known is 1)",
        );
        let text = join().to_string();
        for length in PREFIX.len()..text.len() {
            check(&text[..length], damaged);
        }
        check(&text.replacen(".e", ".f", 1), damaged);
        let content = "the join string does not say what is needed";
        check(&sealed("1", "{}"), content);
        check(&sealed("1", "nonsense"), content);
        check(
            &sealed("1", r#"{"url":"https://a:1","ca":"sha256:ab","token":"t"}"#),
            content,
        );
        let url = r#"{"url":"http://a:1","ca":"sha256:ab","token":"t"}"#;
        check(&sealed("1", url), "the join string leads nowhere");
    }

    #[test]
    fn where_hubs_are() {
        for (text, host, port) in [
            ("https://hub:7443", "hub", 7443),
            ("https://10.0.0.1:1", "10.0.0.1", 1),
            ("https://[::1]:65535", "::1", 65535),
        ] {
            let url: HubUrl = text.parse().expect(text);
            assert_eq!((url.host(), url.port(), url.as_str()), (host, port, text));
        }
        for text in [
            "",
            "hub:7443",
            "http://hub:7443",
            "https://hub",
            "https://hub:",
            "https://hub:0",
            "https://hub:+1",
            "https://hub:65536",
            "https://:7443",
            "https://[::1:7443",
            "https://[hub]:7443",
            "https://::1:7443",
            "https://hub/path:7443",
            "https://me@hub:7443",
            "https://hub:7443/",
        ] {
            assert_eq!(text.parse::<HubUrl>(), Err(NotAHubUrl(text.to_owned())));
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in any::<String>(), cut in any::<prop::sample::Index>()) {
            let _ = text.parse::<JoinString>();
            let _ = format!("{PREFIX}1.{text}").parse::<JoinString>();
            let _ = sealed("1", &text).parse::<JoinString>();
            let _ = format!("https://{text}").parse::<HubUrl>();
            let _ = format!("sha256:{text}").parse::<Fingerprint>();
            let mut altered = join().to_string();
            let at = cut.index(altered.len());
            altered.replace_range(at..=at, "~");
            prop_assert!(altered.parse::<JoinString>().is_err());
        }

        #[test]
        fn any_token_comes_through(token in any::<String>()) {
            let join = JoinString { token, ..join() };
            prop_assert_eq!(join.to_string().parse(), Ok(join));
        }
    }
}
