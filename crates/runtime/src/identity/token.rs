//! Tokens that let one zone join, for a while: signed here, verified here.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::tls::check;

/// Signs and verifies, with one key.
pub struct ZoneTokens {
    sign: EncodingKey,
    verify: DecodingKey,
    key_id: String,
}

/// The key cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key for zones' tokens is not a P-256 key in PKCS#8")]
pub struct KeyError;

/// Who may join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneGrant {
    /// The zone's name.
    pub zone: String,
    /// The uid of its object: a zone that is deleted and made anew is another one.
    pub uid: String,
    /// Whose zone it is.
    pub tenant: String,
    /// The token's own name, by which it can be revoked.
    pub id: String,
    /// From then on it is worth nothing. Tokens know no fractions of a second.
    pub expires: SystemTime,
}

/// The token lets nobody join.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// No token is so long.
    #[error("the join token is longer than {MAX_BYTES} bytes")]
    TooLong,
    /// Not a token, or none of ours.
    #[error("the join token cannot be read")]
    Malformed,
    /// Signed by another hub, by this one before its key was replaced, or altered.
    #[error("the join token was not signed by this hub's present key")]
    OtherKey,
    /// Good for something else.
    #[error("the token is not for joining")]
    Audience,
    /// Its time is over.
    #[error("the join token expired at {}", Shown(*at))]
    Expired {
        /// Since then.
        at: SystemTime,
    },
}

#[derive(Serialize, Deserialize)]
struct Claims {
    aud: String,
    sub: String,
    uid: String,
    tenant: String,
    jti: String,
    exp: u64,
}

struct Shown(SystemTime);

const AUDIENCE: &str = "deltaplane-zone-join";
/// Several times what a token with the longest names takes.
const MAX_BYTES: usize = 4 * 1024;

// === impl ZoneTokens ===

impl ZoneTokens {
    /// With this key: EC P-256, PKCS#8, PEM (`Material::zone_key`).
    pub fn new(key_pem: &str) -> Result<Self, KeyError> {
        let key = check::key(key_pem).map_err(|_| KeyError)?;
        let public = key.public_key_raw();
        Ok(Self {
            sign: EncodingKey::from_ec_pem(key_pem.as_bytes()).map_err(|_| KeyError)?,
            verify: DecodingKey::from_ec_der(public),
            key_id: URL_SAFE_NO_PAD.encode(Sha256::digest(public)),
        })
    }

    /// The token that says so: a compact JWT.
    pub fn sign(&self, grant: &ZoneGrant) -> Result<String, jsonwebtoken::errors::Error> {
        let header = Header {
            kid: Some(self.key_id.clone()),
            ..Header::new(Algorithm::ES256)
        };
        jsonwebtoken::encode(&header, &Claims::from(grant), &self.sign)
    }

    /// What a token says, if it was signed here and still holds. Whether it was revoked is the
    /// caller's to know.
    pub fn verify(&self, token: &str, now: SystemTime) -> Result<ZoneGrant, TokenError> {
        if token.len() > MAX_BYTES {
            return Err(TokenError::TooLong);
        }
        let mut validation = Validation::new(Algorithm::ES256);
        // Time and audience are checked below: the library reads the system's clock.
        validation.validate_exp = false;
        validation.validate_aud = false;
        validation.required_spec_claims.clear();
        let Claims {
            aud,
            sub,
            uid,
            tenant,
            jti,
            exp,
        } = jsonwebtoken::decode(token, &self.verify, &validation)
            .map_err(
                |error| match matches!(error.kind(), ErrorKind::InvalidSignature) {
                    true => TokenError::OtherKey,
                    false => TokenError::Malformed,
                },
            )?
            .claims;
        if aud != AUDIENCE {
            return Err(TokenError::Audience);
        }
        let expires = UNIX_EPOCH
            .checked_add(Duration::from_secs(exp))
            .ok_or(TokenError::Malformed)?;
        if expires <= now {
            return Err(TokenError::Expired { at: expires });
        }
        Ok(ZoneGrant {
            zone: sub,
            uid,
            tenant,
            id: jti,
            expires,
        })
    }
}

// === impl Claims ===

impl From<&ZoneGrant> for Claims {
    fn from(grant: &ZoneGrant) -> Self {
        let end = grant.expires.duration_since(UNIX_EPOCH);
        Self {
            aud: AUDIENCE.to_owned(),
            sub: grant.zone.clone(),
            uid: grant.uid.clone(),
            tenant: grant.tenant.clone(),
            jti: grant.id.clone(),
            exp: end.unwrap_or_default().as_secs(),
        }
    }
}

// === impl Shown ===

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::try_from(self.0) {
            Ok(time) => write!(f, "{time}"),
            Err(_) => f.write_str("a time long ago"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tokens() -> ZoneTokens {
        let pair = rcgen::KeyPair::generate().expect("a key");
        ZoneTokens::new(&pair.serialize_pem()).expect("usable")
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn grant() -> ZoneGrant {
        ZoneGrant {
            zone: "berlin".to_owned(),
            uid: "5f0e".to_owned(),
            tenant: "acme".to_owned(),
            id: "token-1".to_owned(),
            expires: at(2_000),
        }
    }

    fn check(tokens: &ZoneTokens, token: &str, expected: &str) {
        let error = tokens.verify(token, at(1_000)).expect_err("refused");
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn own_tokens_hold_until_they_end() {
        let tokens = tokens();
        let token = tokens.sign(&grant()).expect("signed");
        let header = jsonwebtoken::decode_header(&token).expect("a header");
        assert_eq!(header.typ.as_deref(), Some("JWT"));
        assert_eq!(header.kid.as_deref(), Some(tokens.key_id.as_str()));
        assert_eq!(tokens.verify(&token, at(1_999)), Ok(grant()));
        let error = tokens.verify(&token, at(2_000)).expect_err("over");
        assert_eq!(
            error.to_string(),
            "the join token expired at 1970-01-01T00:33:20Z"
        );
    }

    #[test]
    fn others_are_refused_with_a_reason() {
        let own = tokens();
        let malformed = "the join token cannot be read";
        let token = own.sign(&grant()).expect("signed");
        let other = "the join token was not signed by this hub's present key";
        check(&tokens(), &token, other);
        let mut parts: Vec<&str> = token.split('.').collect();
        let forged = URL_SAFE_NO_PAD.encode(r#"{"aud":"deltaplane-zone-join"}"#);
        parts[1] = &forged;
        check(&own, &parts.join("."), other);
        for text in ["", "a.b.c", "..", "eyJhbGciOiJub25lIn0.e30.", &token[..40]] {
            check(&own, text, malformed);
        }
        check(
            &own,
            &"a".repeat(MAX_BYTES + 1),
            "the join token is longer than 4096 bytes",
        );
        let signed = |claims: &Claims| {
            jsonwebtoken::encode(&Header::new(Algorithm::ES256), claims, &own.sign).expect("signed")
        };
        let elsewhere = Claims {
            aud: "https://kubernetes.default.svc".to_owned(),
            ..Claims::from(&grant())
        };
        check(&own, &signed(&elsewhere), "the token is not for joining");
        let endless = Claims {
            exp: u64::MAX,
            ..Claims::from(&grant())
        };
        check(&own, &signed(&endless), malformed);
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).expect("a key");
        assert!(ZoneTokens::new(&pair.serialize_pem()).is_err());
    }

    #[test]
    fn the_longest_names_fit() {
        let name = "x".repeat(253);
        let grant = ZoneGrant {
            zone: name.clone(),
            uid: name.clone(),
            tenant: name.clone(),
            id: name,
            expires: at(2_000),
        };
        let tokens = tokens();
        let token = tokens.sign(&grant).expect("signed");
        assert_eq!(tokens.verify(&token, at(0)), Ok(grant));
    }

    proptest! {
        #[test]
        fn no_text_is_a_token(text in any::<String>(), parts in prop::array::uniform3(".*")) {
            static TOKENS: std::sync::OnceLock<ZoneTokens> = std::sync::OnceLock::new();
            let tokens = TOKENS.get_or_init(tokens);
            prop_assert!(tokens.verify(&text, at(0)).is_err());
            let parts = parts.map(|part| URL_SAFE_NO_PAD.encode(part));
            prop_assert!(tokens.verify(&parts.join("."), at(0)).is_err());
        }
    }
}
