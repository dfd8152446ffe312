//! Go programs of ours that answer questions, one JSON object a line.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How these programs read and write values; part of each of them.
pub(super) const VALUES: &str = include_str!("../../go/values.go");

/// Asks a program, all at once.
pub(super) fn ask<A: DeserializeOwned>(
    program: &Path,
    questions: &[impl Serialize],
) -> Result<Vec<A>> {
    ask_with(program, &[], questions)
}

/// Asks a program that is started with arguments.
pub(super) fn ask_with<A: DeserializeOwned>(
    program: &Path,
    arguments: &[&OsStr],
    questions: &[impl Serialize],
) -> Result<Vec<A>> {
    let mut input = Vec::new();
    for question in questions {
        serde_json::to_writer(&mut input, question)?;
        input.push(b'\n');
    }
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting the oracle")?;
    let mut stdin = child
        .stdin
        .take()
        .context("the oracle has no standard input")?;
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().context("waiting for the oracle")?;
    writer.join().ok().context("writing to the oracle")??;
    let answers: Vec<A> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).context("reading an answer"))
        .collect::<Result<_>>()?;
    if answers.len() != questions.len() {
        bail!("{} answers to {} questions", answers.len(), questions.len());
    }
    Ok(answers)
}
