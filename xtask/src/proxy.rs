//! Plain HTTP to an API server, through `kubectl proxy`: it does TLS and credentials.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::peers;

/// What to accept in order to get a Table with whole objects.
pub(crate) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
/// Plain JSON.
pub(crate) const JSON: &str = "application/json";
/// Kubernetes' protobuf.
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A running `kubectl proxy`; it ends with this value.
pub(crate) struct Proxy {
    child: Child,
    base: String,
    agent: ureq::Agent,
}

/// An answer, whatever its status.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

// === impl Proxy ===

impl Proxy {
    pub(crate) fn start(kubeconfig: &Path) -> Result<Self> {
        let mut child = Command::new(peers::path("kubectl")?)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["proxy", "--port=0", "--disable-filter=true"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("starting kubectl proxy")?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout)
                .read_line(&mut line)
                .context("reading from kubectl proxy")?;
        }
        let Some(address) = line.trim().strip_prefix("Starting to serve on ") else {
            let _ = child.kill();
            bail!("kubectl proxy said {line:?}");
        };
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .allow_non_standard_methods(true)
            .timeout_global(Some(Duration::from_secs(60)))
            .build();
        Ok(Self {
            child,
            base: format!("http://{address}"),
            agent: config.new_agent(),
        })
    }

    pub(crate) fn get(&self, path: &str, accept: &str) -> Result<Reply> {
        let (status, body) = self.get_bytes(path, accept)?;
        Reply::parse(status, &body)
    }

    /// The answer as it is, for encodings other than JSON.
    pub(crate) fn get_bytes(&self, path: &str, accept: &str) -> Result<(u16, Vec<u8>)> {
        let response = self
            .agent
            .get(format!("{}{path}", self.base))
            .header("Accept", accept)
            .call();
        let mut response = response.with_context(|| format!("GET {path}"))?;
        Ok((
            response.status().as_u16(),
            response.body_mut().read_to_vec()?,
        ))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Reply> {
        self.send("POST", path, body)
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Result<Reply> {
        self.send("PUT", path, body)
    }

    pub(crate) fn delete(&self, path: &str) -> Result<Reply> {
        let response = self
            .agent
            .delete(format!("{}{path}", self.base))
            .header("Accept", JSON)
            .call();
        let mut response = response.with_context(|| format!("DELETE {path}"))?;
        let status = response.status().as_u16();
        Reply::parse(status, &response.body_mut().read_to_vec()?)
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Result<Reply> {
        let url = format!("{}{path}", self.base);
        let request = match method {
            "POST" => self.agent.post(url),
            "PUT" => self.agent.put(url),
            other => bail!("{other} has no body here"),
        };
        let sent = request
            .header("Content-Type", JSON)
            .header("Accept", JSON)
            .send(body.to_string().as_bytes());
        let mut response = sent.with_context(|| format!("{method} {path}"))?;
        let status = response.status().as_u16();
        let body = response.body_mut().read_to_vec()?;
        Reply::parse(status, &body).with_context(|| format!("{method} {path}"))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// === impl Reply ===

impl Reply {
    fn parse(status: u16, body: &[u8]) -> Result<Self> {
        let body = serde_json::from_slice(body)
            .with_context(|| format!("status {status}: {}", String::from_utf8_lossy(body)))?;
        Ok(Self { status, body })
    }

    /// The body of a success; otherwise an error with the server's message.
    pub(crate) fn ok(self) -> Result<Value> {
        match self.status {
            200..300 => Ok(self.body),
            status => bail!("status {status}: {}", self.message()),
        }
    }

    pub(crate) fn message(&self) -> &str {
        self.body
            .get("message")
            .and_then(Value::as_str)
            .unwrap_or("no message")
    }
}
