//! The JSON Patch test suite (RFC 6902), through the function that the API server uses.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use deltaplane_apiserver::apply_json_patch;
use serde::Deserialize;
use serde_json::Value;

use super::Report;
use crate::{paths, process};

const PACKAGE: &str = "json-patch-test-suite";
const VERSION: &str = "1.1.0";

const KNOWN: [(&str, &str); 0] = [];

/// One test of the suite.
#[derive(Deserialize)]
struct Test {
    #[serde(default)]
    comment: String,
    #[serde(default)]
    doc: Value,
    #[serde(default)]
    patch: Option<Value>,
    /// Absent, too, where a patch must merely succeed.
    #[serde(default, deserialize_with = "present")]
    expected: Option<Value>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    disabled: bool,
}

pub(crate) fn run() -> Result<Report> {
    let mut report = Report::new("jsonpatch", &KNOWN);
    let dir = fetch()?;
    for file in ["spec_tests.json", "tests.json"] {
        let text = fs::read(dir.join(file)).with_context(|| format!("reading {file}"))?;
        let tests: Vec<Test> =
            serde_json::from_slice(&text).with_context(|| format!("parsing {file}"))?;
        for (index, test) in tests.iter().enumerate() {
            case(
                &mut report,
                &format!("{file} {index} {}", test.comment),
                test,
            );
        }
    }
    Ok(report)
}

fn case(report: &mut Report, name: &str, test: &Test) {
    let Some(patch) = &test.patch else {
        return report.skip("a comment, not a test");
    };
    if test.disabled {
        return report.skip("disabled by the suite");
    }
    let mut document = test.doc.clone();
    let patched = serde_json::from_value(patch.clone())
        .map_err(|error| error.to_string())
        .and_then(|patch| {
            apply_json_patch(&patch, &mut document).map_err(|error| error.to_string())
        });
    let outcome = match (patched, &test.expected, &test.error) {
        (Ok(()), _, Some(error)) => Err(format!(
            "succeeded with {document}, expected an error: {error}"
        )),
        (Ok(()), Some(expected), None) if document != *expected => {
            Err(format!("gave {document}, expected {expected}"))
        }
        (Ok(()), _, None) | (Err(_), _, Some(_)) => Ok(()),
        (Err(error), _, None) => Err(error),
    };
    report.case(name, outcome);
}

/// A value that is there, even if it is null.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The suite's directory in the cache, fetched by npm when it is not there yet.
fn fetch() -> Result<PathBuf> {
    let dir = paths::cache()?
        .join("npm")
        .join(format!("{PACKAGE}-{VERSION}"));
    let package = dir.join("package");
    if package.join("tests.json").is_file() {
        return Ok(package);
    }
    fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
    let packed = process::text(Command::new("npm").current_dir(&dir).args([
        "pack",
        "--silent",
        &format!("{PACKAGE}@{VERSION}"),
    ]))
    .context("hint: npm, which comes with Node.js, fetches the suite")?;
    process::run(
        Command::new("tar")
            .current_dir(&dir)
            .arg("-xzf")
            .arg(packed.trim()),
    )?;
    if !package.join("tests.json").is_file() {
        bail!("{PACKAGE} {VERSION} has no tests.json");
    }
    Ok(package)
}
