//! How others verify the tokens of service accounts: OpenID Connect discovery.

use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use serde_json::json;

use crate::auth::tokens::ISSUER;
use crate::context::{Answer, json as answer};
use crate::encode;
use crate::server::Inner;

/// Where the issuer describes itself.
pub(crate) const CONFIGURATION_PATH: &str = "/.well-known/openid-configuration";
/// Where its keys are.
pub(crate) const KEYS_PATH: &str = "/openid/v1/jwks";

/// The description of the issuer.
pub(crate) fn configuration(server: &Inner) -> Answer {
    let document = json!({
        "issuer": ISSUER,
        "jwks_uri": format!("https://{}{KEYS_PATH}", server.config.address),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    });
    cacheable(answer(StatusCode::OK, encode::bytes(&document)))
}

/// The public keys that tokens are signed with.
pub(crate) fn keys(server: &Inner) -> Answer {
    let document = json!({"keys": [server.tokens.public_key()]});
    let mut answer = cacheable(answer(StatusCode::OK, encode::bytes(&document)));
    let kind = HeaderValue::from_static("application/jwk-set+json");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

/// Keys are kept for as long as the data directory, so an hour old is not too old.
fn cacheable(mut answer: Answer) -> Answer {
    let hour = HeaderValue::from_static("public, max-age=3600");
    answer.headers_mut().insert(CACHE_CONTROL, hour);
    answer
}
