//! What must hold before a commit: formatting, lints, documentation, tidiness, licences.

use std::process::Command;

use anyhow::Result;

use crate::{paths, process, tidy};

/// `cargo xtask check`.
pub(crate) fn run() -> Result<()> {
    step(&["fmt", "--all", "--check"])?;
    step(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ])?;
    eprintln!("check: cargo doc");
    process::run(
        cargo()
            .args(["doc", "--workspace", "--no-deps", "--quiet"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    eprintln!("check: tidy");
    tidy::run()?;
    match installed("deny") {
        true => step(&["deny", "check"]),
        false => {
            eprintln!(
                "check: cargo-deny is not installed: licences and advisories were not checked"
            );
            Ok(())
        }
    }
}

fn step(args: &[&str]) -> Result<()> {
    eprintln!("check: cargo {}", args.join(" "));
    process::run(cargo().args(args))
}

fn cargo() -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(paths::workspace());
    command
}

fn installed(plugin: &str) -> bool {
    Command::new(format!("cargo-{plugin}"))
        .arg("--version")
        .output()
        .is_ok()
}
