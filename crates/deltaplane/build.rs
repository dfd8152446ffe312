//! Says which commit is built: in release builds by asking git, if it is there; otherwise as the
//! environment says.
//!
//! Builds for development are not told, since they would have to be made anew for every commit.

use std::env;
use std::io::{self, Write};
use std::process::Command;

const VARIABLE: &str = "DELTAPLANE_COMMIT";

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "cargo::rerun-if-changed=build.rs")?;
    writeln!(out, "cargo::rerun-if-env-changed={VARIABLE}")?;
    let mut commit = env::var(VARIABLE).ok().filter(|commit| !commit.is_empty());
    let release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if commit.is_none() && release {
        commit = git(&["rev-parse", "--short=12", "HEAD"]);
        // The log changes with every commit and checkout.
        for path in ["HEAD", "logs/HEAD"] {
            if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", path]) {
                writeln!(out, "cargo::rerun-if-changed={path}")?;
            }
        }
    }
    let commit = commit.as_deref().unwrap_or("unknown");
    writeln!(out, "cargo::rustc-env={VARIABLE}={commit}")
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}
