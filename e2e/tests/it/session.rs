//! A session in a terminal: kubectl and our own commands against a hub and three zones in one
//! process, which may be killed and started again in the midst of it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use deltaplane_e2e::script::{self, Step};
use deltaplane_e2e::{Answer, Kubectl, Server, plain, programs};

/// Where a session goes on.
pub(crate) struct Session {
    data: tempfile::TempDir,
    server: Option<Server>,
    /// Where files are that steps name.
    files: PathBuf,
}

// === impl Session ===

impl Session {
    /// With files of a directory of the workspace.
    pub(crate) fn new(files: &str) -> Self {
        let data = tempfile::tempdir().expect("a temporary directory");
        let server = Some(Server::fleet(data.path()));
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest.parent().expect("the package is in the workspace");
        Self {
            data,
            server,
            files: root.join(files),
        }
    }

    /// Plays a script; the script again, with what was really said.
    pub(crate) fn play(&mut self, script: &str) -> String {
        let played = parts(script).into_iter().map(|(tells, steps)| {
            let steps = script::parse(&steps).expect("a script");
            let steps = steps.iter().map(|step| {
                let answer = self.run(step);
                script::render(step, &answer)
            });
            format!("{tells}{}", steps.collect::<String>())
        });
        played.collect::<Vec<_>>().join("\n")
    }

    fn run(&mut self, step: &Step) -> Answer {
        let (program, words) = step.words.split_first().expect("a program");
        let words: Vec<String> = words.iter().map(|word| self.file(word)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let kubeconfig = self.data.path().join("kubeconfig");
        match program.as_str() {
            "kubectl" => {
                let kubectl = Kubectl::new(&kubeconfig, "default");
                said(match &step.stdin {
                    Some(stdin) => kubectl.run_reading(&words, stdin),
                    None => kubectl.run(&words),
                })
            }
            "deltaplane" => said(deltaplane(&kubeconfig, &words, step.stdin.as_deref())),
            "kill" => self.restart(),
            other => panic!("a session does not know {other}"),
        }
    }

    /// Files are those of the session.
    fn file(&self, word: &str) -> String {
        match word.ends_with(".yaml") {
            true => self.files.join(word).display().to_string(),
            false => word.to_owned(),
        }
    }

    fn restart(&mut self) -> Answer {
        if let Some(server) = self.server.take() {
            server.kill();
        }
        self.server = Some(Server::fleet(self.data.path()));
        Answer {
            code: 0,
            stdout: String::new(),
            stderr: String::new(),
        }
    }
}

/// Without what differs from run to run.
fn said(answer: Answer) -> Answer {
    Answer {
        code: answer.code,
        stdout: plain::text(&answer.stdout),
        stderr: plain::text(&answer.stderr),
    }
}

/// Our own commands, for one hub.
fn deltaplane(kubeconfig: &Path, words: &[&str], stdin: Option<&str>) -> Answer {
    let mut command = Command::new(programs::deltaplane());
    let command = command.args(words).env_clear();
    let command = command.env("KUBECONFIG", kubeconfig);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let child = command.stderr(Stdio::piped()).spawn();
    let mut child = child.expect("deltaplane starts");
    let mut input = child.stdin.take().expect("piped");
    let text = stdin.unwrap_or_default().to_owned();
    // Whoever does not read it need not.
    let writer = std::thread::spawn(move || drop(input.write_all(text.as_bytes())));
    let output = child.wait_with_output().expect("deltaplane ends");
    writer.join().expect("written");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Answer {
        code: output.status.code().unwrap_or(-1),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// The parts of a script: what is told, and then what is done.
fn parts(script: &str) -> Vec<(String, String)> {
    let mut parts: Vec<(String, String)> = Vec::new();
    for line in script.lines() {
        let told = line.starts_with("# ");
        if told && parts.last().is_none_or(|(_, steps)| !steps.is_empty()) {
            parts.push((String::new(), String::new()));
        }
        let Some((tells, steps)) = parts.last_mut() else {
            continue;
        };
        let part = if told { tells } else { steps };
        if told || !(line.is_empty() && part.is_empty()) {
            part.push_str(line);
            part.push('\n');
        }
    }
    parts
}
