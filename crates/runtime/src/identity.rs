//! How a zone proves who it is, and how it knows the hub.
//!
//! An administrator hands a zone a [`JoinString`]: where the hub is, the [`Fingerprint`] of its
//! authority, and a short-lived token, which the hub signed for this one zone ([`ZoneTokens`]).
//! The zone dials with [`joining_config`], which learns the authority's certificate, and shows
//! the token along with the request of a [`ZoneKey`]. The hub answers with a certificate
//! ([`Material::sign_zone`]). From then on the zone has a [`Credential`], dials with
//! [`client_config`], and has the hub sign a new key when it is time ([`Credential::renew_at`]).
//!
//! Not here: who carries requests and answers, which tokens are revoked, and what a zone may do.
//!
//! Invariants: no server is trusted unless its certificate leads to the authority with the
//! fingerprint; what a certificate says of a zone comes from the hub, never from the request; a
//! zone's private key never leaves it; neither keys nor tokens are shown by `Debug`.
//!
//! [`Material::sign_zone`]: crate::tls::Material::sign_zone

mod certificate;
mod client;
mod credential;
mod fingerprint;
mod join;
mod token;

pub use certificate::{SignError, ZoneKeyFingerprint, ZoneSubject, zone_of};
pub use client::{LearnedCa, NotTheAuthority, client_config, joining_config};
pub use credential::{Credential, CredentialError, Flaw, ZoneKey};
pub use fingerprint::{Fingerprint, NoFingerprint};
pub use join::{HubUrl, JoinString, JoinStringError, NotAHubUrl};
pub use token::{KeyError, TokenError, ZoneGrant, ZoneTokens};

#[cfg(test)]
mod tests;
