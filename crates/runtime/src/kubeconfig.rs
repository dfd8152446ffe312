//! The file that tells clients where the server is and how to prove who they are.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::files::{self, FileError};
use crate::tls::Leaf;

/// One user; one cluster and context, which is the current one, and others below it.
#[derive(Clone, Debug)]
pub struct Kubeconfig<'a> {
    /// The name of the user, and of the first cluster and context.
    pub context: &'a str,
    /// Where the server is, such as `https://127.0.0.1:7443`.
    pub server: &'a str,
    /// The authority that signed the server's certificate, PEM; the system's if absent.
    pub ca: Option<&'a str>,
    /// The user's certificate.
    pub user: &'a Leaf,
    /// Names of further contexts, and the paths below the server that they are for.
    pub further: &'a [(String, String)],
}

// === impl Kubeconfig ===

impl Kubeconfig<'_> {
    /// Writes it for its owner only, durably; clients see it whole or not at all.
    pub fn write(&self, path: &Path) -> Result<(), FileError> {
        files::write_private(path, self.to_yaml().as_bytes())
    }

    /// Its text.
    pub fn to_yaml(&self) -> String {
        let Self {
            context,
            server,
            ca,
            user,
            further,
        } = self;
        let authority = match ca {
            Some(pem) => format!("\n    certificate-authority-data: {}", STANDARD.encode(pem)),
            None => String::new(),
        };
        let certificate = STANDARD.encode(&user.chain);
        let key = STANDARD.encode(&user.key.0);
        let clusters: String = further
            .iter()
            .map(|(name, path)| {
                let server = format!("{server}{path}");
                format!("- name: {name:?}\n  cluster:\n    server: {server:?}{authority}\n")
            })
            .collect();
        let contexts: String = further
            .iter()
            .map(|(name, _)| {
                format!(
                    "- name: {name:?}\n  context:\n    cluster: {name:?}\n    user: {context:?}\n"
                )
            })
            .collect();
        format!(
            "apiVersion: v1
kind: Config
current-context: {context:?}
clusters:
- name: {context:?}
  cluster:
    server: {server:?}{authority}
{clusters}users:
- name: {context:?}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: {context:?}
  context:
    cluster: {context:?}
    user: {context:?}
{contexts}"
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::tls::SecretPem;

    use super::*;

    #[test]
    fn written_as_clients_expect_it() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("kubeconfig");
        let user = Leaf {
            chain: "certificate".to_owned(),
            key: SecretPem("key".to_owned()),
        };
        let config = Kubeconfig {
            context: "hub",
            server: "https://[::1]:7443",
            ca: Some("authority"),
            user: &user,
            further: &[("eu".to_owned(), "/zones/eu".to_owned())],
        };
        config.write(&path).expect("written");
        let expected = r#"apiVersion: v1
kind: Config
current-context: "hub"
clusters:
- name: "hub"
  cluster:
    server: "https://[::1]:7443"
    certificate-authority-data: YXV0aG9yaXR5
- name: "eu"
  cluster:
    server: "https://[::1]:7443/zones/eu"
    certificate-authority-data: YXV0aG9yaXR5
users:
- name: "hub"
  user:
    client-certificate-data: Y2VydGlmaWNhdGU=
    client-key-data: a2V5
contexts:
- name: "hub"
  context:
    cluster: "hub"
    user: "hub"
- name: "eu"
  context:
    cluster: "eu"
    user: "hub"
"#;
        let content = files::read_if_exists(&path).expect("readable");
        assert_eq!(content.as_deref(), Some(expected));
    }
}
