//! kubectl, as a user runs it: a kubeconfig, a home, nothing else of the environment.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use tempfile::TempDir;

use crate::script::{self, Step};
use crate::{PATIENCE, plain, programs, server};

/// kubectl for one user of one server, by default in one namespace.
#[derive(Debug)]
pub struct Kubectl {
    kubeconfig: PathBuf,
    namespace: String,
    /// Caches and temporary files of kubectl.
    home: TempDir,
}

/// How a run of kubectl ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The exit code.
    pub code: i32,
    /// What it said on standard output.
    pub stdout: String,
    /// What it said on standard error.
    pub stderr: String,
}

/// A kubectl that goes on; killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Receiver<String>,
}

// === impl Kubectl ===

impl Kubectl {
    /// With this kubeconfig and default namespace.
    pub fn new(kubeconfig: &Path, namespace: &str) -> Self {
        Self {
            kubeconfig: kubeconfig.to_owned(),
            namespace: namespace.to_owned(),
            home: tempfile::tempdir().expect("a temporary directory"),
        }
    }

    /// With this kubeconfig, in a new namespace.
    ///
    /// # Panics
    ///
    /// If the namespace cannot be created.
    pub fn in_new_namespace(kubeconfig: &Path, namespace: &str) -> Self {
        let kubectl = Self::new(kubeconfig, namespace);
        let made = kubectl.run(&["create", "namespace", namespace]);
        assert_eq!(
            made.stdout,
            format!("namespace/{namespace} created\n"),
            "{made:?}"
        );
        // Every namespace gets these, a moment later.
        let usual = ["serviceaccount/default", "configmap/kube-root-ca.crt"];
        kubectl.ok(&["wait", usual[0], usual[1], "--for=create", "--timeout=60s"]);
        kubectl
    }

    /// Runs it to its end.
    pub fn run(&self, words: &[&str]) -> Answer {
        self.run_with(words, &[], None)
    }

    /// Runs it to its end; what it said, without what differs from run to run.
    pub fn said(&self, words: &[&str]) -> Answer {
        self.plain(self.run(words))
    }

    /// Runs it to its end, with something to read.
    pub fn run_reading(&self, words: &[&str], stdin: &str) -> Answer {
        self.run_with(words, &[], Some(stdin))
    }

    /// Runs it to its end, which must be a good one; what it said on standard output.
    ///
    /// # Panics
    ///
    /// If it fails.
    pub fn ok(&self, words: &[&str]) -> String {
        let answer = self.run(words);
        assert_eq!(answer.code, 0, "kubectl {words:?}: {answer:?}");
        answer.stdout
    }

    /// Starts it, for a watch or a wait.
    pub fn start(&self, words: &[&str]) -> Running {
        let mut command = self.command(words);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("kubectl starts");
        let stdout = server::lines(child.stdout.take().expect("piped"));
        Running { child, stdout }
    }

    /// Runs the steps of a script; the script again, with what was really said.
    ///
    /// # Panics
    ///
    /// If the script is malformed.
    pub fn transcript(&self, script: &str) -> String {
        let steps = script::parse(script).unwrap_or_else(|error| panic!("{error}"));
        let steps = steps.iter().map(|step| {
            let answer = self.step(step);
            script::render(step, &self.plain(answer))
        });
        let text = steps.collect::<Vec<_>>().join("\n");
        match script::preface(script) {
            "" => text,
            preface => format!("{preface}\n{text}"),
        }
    }

    fn step(&self, step: &Step) -> Answer {
        let words: Vec<&str> = step.words.iter().map(String::as_str).collect();
        let stdin = step.stdin.as_deref().map(|text| self.fill_in(text));
        self.run_with(&words, &step.env, stdin.as_deref())
    }

    /// `{{cm/a}}` is the UID of that object.
    fn fill_in(&self, text: &str) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, (object, after))) = rest
            .split_once("{{")
            .and_then(|(before, after)| Some((before, after.split_once("}}")?)))
        {
            filled.push_str(before);
            filled.push_str(&self.ok(&["get", object, "-o", "jsonpath={.metadata.uid}"]));
            rest = after;
        }
        filled + rest
    }

    fn plain(&self, answer: Answer) -> Answer {
        let home = self.home.path().display().to_string();
        let plain = |text: String| plain::text(&text.replace(&home, "HOME"));
        Answer {
            code: answer.code,
            stdout: plain(answer.stdout),
            stderr: plain(answer.stderr),
        }
    }

    fn run_with(&self, words: &[&str], env: &[(String, String)], stdin: Option<&str>) -> Answer {
        let mut command = self.command(words);
        let mut child = command
            .envs(env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        let mut pipe = child.stdin.take().expect("piped");
        // It reads all of it before it says anything, or fails without.
        let _ = pipe.write_all(stdin.unwrap_or_default().as_bytes());
        drop(pipe);
        let stdout = server::lines(child.stdout.take().expect("piped"));
        let stderr = server::lines(child.stderr.take().expect("piped"));
        let running = Running { child, stdout };
        let (stdout, code) = running.rest();
        Answer {
            code,
            stdout,
            stderr: stderr.iter().collect(),
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(programs::kubectl());
        command
            .arg("--namespace")
            .arg(&self.namespace)
            .args(words)
            .current_dir(self.home.path())
            .env_clear()
            .env("HOME", self.home.path())
            .env("TMPDIR", self.home.path())
            .env("KUBECONFIG", &self.kubeconfig)
            // For `diff`, and for what edits.
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    }
}

// === impl Running ===

impl Running {
    /// The next line, without its end.
    ///
    /// # Panics
    ///
    /// If there is none in time.
    pub fn line(&self) -> String {
        let line = self.stdout.recv_timeout(PATIENCE);
        line.expect("another line").trim_end().to_owned()
    }

    /// The rest of what it says, and its exit code.
    ///
    /// # Panics
    ///
    /// If it does not end in time.
    pub fn rest(mut self) -> (String, i32) {
        let mut said = String::new();
        loop {
            match self.stdout.recv_timeout(PATIENCE) {
                Ok(line) => said.push_str(&line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("kubectl does not end; it said {said:?}"),
            }
        }
        let status = self.child.wait().expect("ended");
        (said, status.code().unwrap_or(-1))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails only if it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
