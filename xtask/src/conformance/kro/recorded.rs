//! Definitions that kro's integration tests create, recorded without a cluster.
//!
//! Their set-up is replaced by ours (`xtask/go/core`) in a copy of the module in the cache, and they
//! are run once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

use super::Case;
use super::published::Published;
use crate::golang::{self, KRO};
use crate::paths;

const SUITE: &str = "test/integration/suites/core";
const SETUP: &str = include_str!("../../../go/core/setup_test.go");
/// What the tests are made of.
const PARTS: [&str; 5] = ["go.mod", "go.sum", "api", "pkg", "test/integration"];

/// Something that a spec created.
#[derive(Deserialize)]
struct Line {
    file: String,
    spec: String,
    object: Value,
}

/// Adds what was recorded; each spec is a place of its own.
pub(super) fn read(kro: &Path, published: &mut Published) -> Result<()> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for line in recording(kro)?.lines() {
        let line: Line = serde_json::from_str(line).context("reading the recording")?;
        if line.object["kind"] == "CustomResourceDefinition" {
            published.customs.push(line.object);
            continue;
        }
        let words: Vec<&str> = line.spec.split(['/', ' ', '\n', '\t']).collect();
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let place = format!("{SUITE}/{}/{}", line.file, words.join(" "));
        let count = counts.entry(place.clone()).or_default();
        *count += 1;
        published.definitions.push(Case {
            name: match count {
                1 => place.clone(),
                count => format!("{place}#{count}"),
            },
            place,
            object: line.object,
        });
    }
    Ok(())
}

/// Made once and kept in the cache.
fn recording(kro: &Path) -> Result<String> {
    let digest = golang::digest(&[KRO, SETUP]);
    let dir = paths::cache()?
        .join("conformance")
        .join(format!("kro-{digest}"));
    let kept = dir.join("recording.jsonl");
    if !kept.exists() {
        let fresh = record(kro, &dir)?;
        fs::rename(&fresh, &kept).context("keeping the recording")?;
    }
    fs::read_to_string(&kept).with_context(|| format!("reading {}", kept.display()))
}

fn record(kro: &Path, dir: &Path) -> Result<PathBuf> {
    let copy = dir.join("module");
    for part in PARTS {
        golang::copy(&kro.join(part), &copy.join(part))?;
    }
    fs::write(copy.join(SUITE).join("setup_test.go"), SETUP).context("writing the set-up")?;
    let fresh = dir.join("recording.new");
    // Specs fail that need more than definitions, and so does the run.
    golang::go_in(&copy)?
        .args(["test", "-count=1", "-timeout=20m", "-run=^TestCore$"])
        .arg(format!("./{SUITE}"))
        .env("KRO_RECORD", &fresh)
        .stdout(std::process::Stdio::null())
        .status()
        .context("running kro's integration tests")?;
    if fs::metadata(&fresh).map_or(0, |file| file.len()) == 0 {
        bail!("kro's integration tests created nothing");
    }
    Ok(fresh)
}
