//! kubectl as a process, as users have it, and waiting for what it shows.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::peers;

/// How long anything may take that should take a moment.
const PATIENCE: Duration = Duration::from_secs(60);

/// kubectl with a kubeconfig, perhaps in another context than its own, or as somebody else.
pub(crate) struct Kubectl {
    kubeconfig: PathBuf,
    context: Option<String>,
    user: Option<String>,
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) good: bool,
    pub(crate) out: String,
    pub(crate) err: String,
}

// === impl Kubectl ===

impl Kubectl {
    pub(crate) fn new(kubeconfig: &Path) -> Self {
        Self {
            kubeconfig: kubeconfig.to_owned(),
            context: None,
            user: None,
        }
    }

    /// The same, in a context.
    pub(crate) fn in_context(self, context: &str) -> Self {
        let context = Some(context.to_owned());
        Self { context, ..self }
    }

    /// The same, as another user.
    pub(crate) fn acting_as(self, user: &str) -> Self {
        let user = Some(user.to_owned());
        Self { user, ..self }
    }

    /// Runs it to its end, whatever that is.
    pub(crate) fn answer(&self, words: &[&str], stdin: &str) -> Result<Answer> {
        let mut command = Command::new(peers::path("kubectl")?);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        if let Some(context) = &self.context {
            command.args(["--context", context]);
        }
        if let Some(user) = &self.user {
            command.args(["--as", user]);
        }
        Answer::of(command.args(words), stdin)
    }

    /// Runs it to a good end.
    pub(crate) fn ok(&self, words: &[&str]) -> Result<String> {
        self.reading(words, "")
    }

    /// Runs it to a good end, with something to read.
    pub(crate) fn reading(&self, words: &[&str], stdin: &str) -> Result<String> {
        let answer = self.answer(words, stdin)?;
        ensure!(answer.good, "kubectl {}: {}", words.join(" "), answer.err);
        Ok(answer.out)
    }

    pub(crate) fn apply(&self, object: &Value) -> Result<()> {
        self.reading(&["apply", "-f", "-"], &object.to_string())?;
        Ok(())
    }

    pub(crate) fn raw(&self, path: &str) -> Result<Value> {
        let answer = self.ok(&["get", "--raw", path])?;
        serde_json::from_str(&answer).with_context(|| format!("reading {path}"))
    }

    /// An object with its managed fields, if it is there.
    pub(crate) fn find(&self, kind: &str, name: &str, namespace: &str) -> Result<Option<Value>> {
        let words = [
            "get",
            kind,
            name,
            "-n",
            namespace,
            "-o",
            "json",
            "--ignore-not-found",
            "--show-managed-fields",
        ];
        let answer = self.ok(&words)?;
        match answer.trim() {
            "" => Ok(None),
            text => Ok(Some(
                serde_json::from_str(text).context("reading an object")?,
            )),
        }
    }
}

/// A hub's administrator.
impl Kubectl {
    pub(crate) fn make_zone(&self, zone: &str) -> Result<()> {
        self.apply(&json!({
            "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "Zone",
            "metadata": {"name": zone}, "spec": {},
        }))
    }

    /// What a zone joins with.
    pub(crate) fn join(&self, zone: &str) -> Result<String> {
        let path = format!("/apis/fleet.deltaplane.io/v1alpha1/zones/{zone}/_token");
        let answer = self.reading(&["create", "--raw", &path, "-f", "-"], "{}")?;
        let answer: Value = serde_json::from_str(&answer).context("reading a join string")?;
        let join = answer["join"].as_str();
        Ok(join.context("no join string")?.to_owned())
    }
}

// === impl Answer ===

impl Answer {
    /// Runs a command to its end, whatever that is.
    pub(crate) fn of(command: &mut Command, stdin: &str) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", command.get_program().display()))?;
        if let Some(mut pipe) = child.stdin.take() {
            // It may end without having read it.
            let _ = pipe.write_all(stdin.as_bytes());
        }
        let output = child.wait_with_output().context("waiting for a command")?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Self {
            good: output.status.success(),
            out: text(output.stdout),
            err: text(output.stderr),
        })
    }
}

/// Waits until there is something.
pub(crate) fn await_that<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if Instant::now() > deadline {
            bail!("waited in vain for {what}");
        }
        thread::sleep(Duration::from_millis(100));
    }
}
