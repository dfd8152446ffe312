//! A certificate, by its hash.

use std::fmt;
use std::str::FromStr;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use sha2::{Digest, Sha256};

/// The SHA-256 of a certificate's DER. Shown as `sha256:` and hex digits, as kubeadm does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

/// It is not the text of a fingerprint.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint is {PREFIX} and 64 hex digits")]
pub struct NoFingerprint;

const PREFIX: &str = "sha256:";

// === impl Fingerprint ===

impl Fingerprint {
    /// Of a certificate, DER.
    pub fn of(der: &[u8]) -> Self {
        Self(Sha256::digest(der).into())
    }

    /// Of the first certificate in a text; `None` if there is none.
    pub fn of_pem(pem: &str) -> Option<Self> {
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
        Some(Self::of(&der))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = NoFingerprint;

    fn from_str(text: &str) -> Result<Self, NoFingerprint> {
        let digits = text.strip_prefix(PREFIX).ok_or(NoFingerprint)?.as_bytes();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return Err(NoFingerprint);
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = 16 * nibble(pair[0])? + nibble(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

fn nibble(digit: u8) -> Result<u8, NoFingerprint> {
    let value = char::from(digit).to_digit(16).ok_or(NoFingerprint)?;
    u8::try_from(value).map_err(|_| NoFingerprint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_and_read() {
        let fingerprint = Fingerprint::of(b"abc");
        let text = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(fingerprint.to_string(), text);
        assert_eq!(text.parse(), Ok(fingerprint));
        let wrong = [
            "",
            "sha256:",
            &text[7..],
            &text[..70],
            &text.replace('b', "g"),
            &format!("{text}0"),
            &text.replacen("ba", "é", 1),
        ];
        for text in wrong {
            assert_eq!(text.parse::<Fingerprint>(), Err(NoFingerprint), "{text}");
        }
        assert_eq!(Fingerprint::of_pem("nonsense"), None);
    }
}
