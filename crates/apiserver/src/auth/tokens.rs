//! Service accounts' tokens: signed here, verified here.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use deltaplane_api::identity::{self, Identity};
use deltaplane_api::time::Time;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Who tokens are for, when they do not say.
pub(crate) const AUDIENCE: &str = "https://kubernetes.default.svc";
/// Who makes tokens.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";

/// The length of a coordinate of a P-256 key.
const COORDINATE_BYTES: usize = 32;

/// Signs and verifies.
pub struct Tokens {
    sign: EncodingKey,
    verify: DecodingKey,
    key_id: String,
    /// The public key: an uncompressed point of the curve.
    point: Vec<u8>,
}

/// The key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It is not PEM.
    #[error("the service-account key is not a PEM file")]
    Pem(#[source] jsonwebtoken::errors::Error),
    /// It is no P-256 key.
    #[error("the service-account key is not a P-256 key in PKCS#8")]
    Kind,
}

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Who made it.
    pub iss: String,
    /// The user's name.
    pub sub: String,
    /// Who it is for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aud: Vec<String>,
    /// When it ends; never, for the tokens in Secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exp: Option<i64>,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iat: Option<i64>,
    /// When it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbf: Option<i64>,
    /// Its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jti: Option<String>,
    /// The account.
    #[serde(rename = "kubernetes.io")]
    pub account: Account,
}

/// The account that a token is of, and what it is bound to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The namespace.
    pub namespace: String,
    /// The account.
    pub serviceaccount: Reference,
    /// The Secret that the token lives in, or is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
    /// The Pod that the token is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
}

/// An object, by name and uid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// The name.
    pub name: String,
    /// The uid.
    pub uid: String,
}

// === impl Tokens ===

impl Tokens {
    /// From the signing key, PKCS#8 PEM.
    pub fn new(pem: &str) -> Result<Self, KeyError> {
        let sign = EncodingKey::from_ec_pem(pem.as_bytes()).map_err(KeyError::Pem)?;
        let der = pem_body(pem).ok_or(KeyError::Kind)?;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der)
            .map_err(|_| KeyError::Kind)?;
        let public = pair.public_key().as_ref();
        let key_id = URL_SAFE_NO_PAD.encode(Sha256::digest(public));
        Ok(Self {
            sign,
            verify: DecodingKey::from_ec_der(public),
            key_id,
            point: public.to_vec(),
        })
    }

    /// The public key as a JSON Web Key.
    pub(crate) fn public_key(&self) -> Value {
        // One byte that says "uncompressed", then two coordinates.
        let (x, y) = self.point[1..].split_at(COORDINATE_BYTES);
        json!({
            "use": "sig",
            "kty": "EC",
            "kid": self.key_id,
            "crv": "P-256",
            "alg": "ES256",
            "x": URL_SAFE_NO_PAD.encode(x),
            "y": URL_SAFE_NO_PAD.encode(y),
        })
    }

    /// A token with these claims.
    pub fn sign(&self, claims: &Claims) -> Result<String, jsonwebtoken::errors::Error> {
        let header = Header {
            kid: Some(self.key_id.clone()),
            ..Header::new(Algorithm::ES256)
        };
        jsonwebtoken::encode(&header, claims, &self.sign)
    }

    /// The claims of a token that was signed here, is for one of `audiences` and holds now.
    pub(crate) fn verify(&self, token: &str, audiences: &[&str], now: Time) -> Option<Claims> {
        let mut validation = Validation::new(Algorithm::ES256);
        // Time and audience are checked below: the library reads the system's clock.
        validation.validate_exp = false;
        validation.validate_aud = false;
        validation.required_spec_claims.clear();
        let claims = jsonwebtoken::decode::<Claims>(token, &self.verify, &validation)
            .ok()?
            .claims;
        let now = now.unix();
        let begun = claims.nbf.is_none_or(|nbf| nbf <= now.saturating_add(60));
        let lasts = claims.exp.is_none_or(|exp| now < exp);
        let ours = !claims.audiences_among(audiences).is_empty();
        (claims.iss == ISSUER && begun && lasts && ours).then_some(claims)
    }
}

fn pem_body(pem: &str) -> Option<Vec<u8>> {
    let lines = pem
        .lines()
        .map(str::trim)
        .skip_while(|line| !line.starts_with("-----BEGIN"));
    let body: String = lines
        .skip(1)
        .take_while(|line| !line.starts_with("-----END"))
        .collect();
    base64::engine::general_purpose::STANDARD.decode(body).ok()
}

// === impl Claims ===

impl Claims {
    /// The name of an account as a user.
    pub(crate) fn user_name(namespace: &str, name: &str) -> String {
        format!("system:serviceaccount:{namespace}:{name}")
    }

    /// A token without an end, for a Secret of type `kubernetes.io/service-account-token`.
    pub fn legacy(namespace: &str, account: Reference, secret: Reference) -> Self {
        Self {
            iss: ISSUER.to_owned(),
            sub: Self::user_name(namespace, &account.name),
            aud: Vec::new(),
            exp: None,
            iat: None,
            nbf: None,
            jti: None,
            account: Account {
                namespace: namespace.to_owned(),
                serviceaccount: account,
                secret: Some(secret),
                pod: None,
            },
        }
    }

    /// When the token ends, if it does.
    pub(crate) fn end(&self) -> Option<SystemTime> {
        let seconds = u64::try_from(self.exp?).unwrap_or_default();
        UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
    }

    /// Those of `asked` that the token is for. One that names none is for this server.
    pub(crate) fn audiences_among<'a>(&self, asked: &[&'a str]) -> Vec<&'a str> {
        let named = |one: &&str| match self.aud.is_empty() {
            true => *one == AUDIENCE,
            false => self.aud.iter().any(|aud| aud == one),
        };
        asked.iter().copied().filter(named).collect()
    }

    /// Who a verified token is of.
    pub(crate) fn identity(&self) -> Identity {
        let namespace = &self.account.namespace;
        let group = format!("{}:{namespace}", identity::SERVICE_ACCOUNTS);
        let mut user = Identity::authenticated(&self.sub, &[identity::SERVICE_ACCOUNTS, &group]);
        user.uid.clone_from(&self.account.serviceaccount.uid);
        if let Some(jti) = &self.jti {
            let key = "authentication.kubernetes.io/credential-id".to_owned();
            user.extra.insert(key, vec![format!("JTI={jti}")]);
        }
        user
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> Tokens {
        let pair = rcgen::KeyPair::generate().unwrap();
        Tokens::new(&pair.serialize_pem()).unwrap()
    }

    fn claims() -> Claims {
        let account = Reference {
            name: "web".to_owned(),
            uid: "u".to_owned(),
        };
        Claims {
            aud: vec![AUDIENCE.to_owned()],
            exp: Some(2_000),
            ..Claims::legacy("dev", account.clone(), account)
        }
    }

    #[test]
    fn own_tokens_hold_until_they_end() {
        let tokens = tokens();
        let token = tokens.sign(&claims()).unwrap();
        let verify = |audience: &str, now: i64| {
            tokens
                .verify(&token, &[audience], Time::from_unix(now))
                .is_some()
        };
        assert!(verify(AUDIENCE, 1_000));
        assert!(!verify(AUDIENCE, 2_000));
        assert!(!verify("someone-else", 1_000));
        let user = tokens
            .verify(&token, &[AUDIENCE], Time::from_unix(0))
            .unwrap()
            .identity();
        assert_eq!(user.name, "system:serviceaccount:dev:web");
        assert!(user.is_in("system:serviceaccounts:dev"));
    }

    #[test]
    fn foreign_and_altered_tokens_do_not() {
        let (own, other) = (tokens(), tokens());
        let token = own.sign(&claims()).unwrap();
        let now = Time::from_unix(0);
        assert!(other.verify(&token, &[AUDIENCE], now).is_none());
        let mut parts: Vec<String> = token.split('.').map(str::to_owned).collect();
        parts[1] = URL_SAFE_NO_PAD.encode(r#"{"iss":"x","sub":"admin"}"#);
        assert!(own.verify(&parts.join("."), &[AUDIENCE], now).is_none());
        for text in ["", "a.b.c", "..", "eyJhbGciOiJub25lIn0.e30."] {
            assert!(own.verify(text, &[AUDIENCE], now).is_none(), "{text}");
        }
    }
}
