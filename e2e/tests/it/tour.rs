//! The tour: `examples/tour/tour.txt` is played as it is written, and says what was really seen.
//!
//! `UPDATE_EXPECT=1` writes that into the file.

use std::path::{Path, PathBuf};
use std::process::Command;

use deltaplane_e2e::script::{self, Step};
use deltaplane_e2e::{Answer, Kubectl, Server, plain, programs};
use expect_test::expect_file;

/// Where the tour goes on.
struct Tour {
    data: tempfile::TempDir,
    server: Option<Server>,
    files: PathBuf,
}

// === impl Tour ===

impl Tour {
    fn new() -> Self {
        let data = tempfile::tempdir().expect("a temporary directory");
        let server = Some(Server::fleet(data.path()));
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest.parent().expect("the package is in the workspace");
        let files = root.join("examples/tour");
        Self {
            data,
            server,
            files,
        }
    }

    fn run(&mut self, step: &Step) -> Answer {
        let (program, words) = step.words.split_first().expect("a program");
        let words: Vec<String> = words.iter().map(|word| self.file(word)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let kubeconfig = self.data.path().join("kubeconfig");
        match program.as_str() {
            "kubectl" => Kubectl::new(&kubeconfig, "default").said(&words),
            "deltaplane" => deltaplane(&kubeconfig, &words),
            "kill" => self.restart(),
            other => panic!("the tour does not know {other}"),
        }
    }

    /// Files are beside the tour.
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

/// Our own commands, for one hub.
fn deltaplane(kubeconfig: &Path, words: &[&str]) -> Answer {
    let mut command = Command::new(programs::deltaplane());
    let command = command.args(words).env_clear();
    let output = command.env("KUBECONFIG", kubeconfig).output();
    let output = output.expect("deltaplane starts");
    let text = |bytes: Vec<u8>| plain::text(&String::from_utf8(bytes).expect("UTF-8"));
    Answer {
        code: output.status.code().unwrap_or(-1),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// The parts of the tour: what is told, and then what is done.
fn parts(tour: &str) -> Vec<(String, String)> {
    let mut parts: Vec<(String, String)> = Vec::new();
    for line in tour.lines() {
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

#[test]
fn the_tour_is_as_it_is_told() {
    let mut tour = Tour::new();
    let parts = parts(include_str!("../../../examples/tour/tour.txt"));
    let played = parts.iter().map(|(tells, steps)| {
        let steps = script::parse(steps).expect("a script");
        let steps = steps.iter().map(|step| {
            let answer = tour.run(step);
            script::render(step, &answer)
        });
        format!("{tells}{}", steps.collect::<String>())
    });
    let played = played.collect::<Vec<_>>().join("\n");
    expect_file!["../../../examples/tour/tour.txt"].assert_eq(&played);
}
