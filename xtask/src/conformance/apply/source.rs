//! Makes the recording: fetches the Go module, instruments a copy, runs its tests.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::{golang, paths, process};

/// The release that Kubernetes 1.36 uses.
const MODULE: &str = "sigs.k8s.io/structured-merge-diff/v6@v6.3.3";

/// Files of ours, by their place in the module.
const FILES: [(&str, &str); 5] = [
    (
        "internal/record/record.go",
        include_str!("../../../go/smd/internal/record/record.go"),
    ),
    (
        "internal/fixture/record.go",
        include_str!("../../../go/smd/internal/fixture/record.go"),
    ),
    (
        "fieldpath/record.go",
        include_str!("../../../go/smd/fieldpath/record.go"),
    ),
    (
        "typed/record.go",
        include_str!("../../../go/smd/typed/record.go"),
    ),
    (
        "merge/record.go",
        include_str!("../../../go/smd/merge/record.go"),
    ),
];

/// Functions that our files stand in for, by the file that has them: before and after.
const RENAMED: [(&str, &str, &str); 10] = [
    (
        "typed/typed.go",
        "func (tv TypedValue) Validate(",
        "func (tv TypedValue) validateUnrecorded(",
    ),
    (
        "typed/typed.go",
        "func (tv TypedValue) ToFieldSet(",
        "func (tv TypedValue) toFieldSetUnrecorded(",
    ),
    (
        "typed/typed.go",
        "func (tv TypedValue) Merge(",
        "func (tv TypedValue) mergeUnrecorded(",
    ),
    (
        "typed/typed.go",
        "func (tv TypedValue) Compare(",
        "func (tv TypedValue) compareUnrecorded(",
    ),
    (
        "typed/typed.go",
        "func (tv TypedValue) RemoveItems(",
        "func (tv TypedValue) removeItemsUnrecorded(",
    ),
    (
        "typed/typed.go",
        "func (tv TypedValue) ExtractItems(",
        "func (tv TypedValue) extractItemsUnrecorded(",
    ),
    (
        "typed/reconcile_schema.go",
        "func ReconcileFieldSetWithSchema(",
        "func reconcileUnrecorded(",
    ),
    (
        "merge/update.go",
        "func (s *Updater) Update(",
        "func (s *Updater) updateUnrecorded(",
    ),
    (
        "merge/update.go",
        "func (s *Updater) Apply(",
        "func (s *Updater) applyUnrecorded(",
    ),
    (
        "internal/fixture/state.go",
        "func (tc TestCase) TestWithConverter(",
        "func (tc TestCase) testWithConverterUnrecorded(",
    ),
];

/// What the tests do, one JSON object per line. Made once and kept in the cache.
pub(super) fn recording() -> Result<String> {
    let mut texts = vec![MODULE];
    texts.extend(FILES.iter().map(|(_, body)| *body));
    let digest = golang::digest(&texts);
    let dir = paths::cache()?
        .join("conformance")
        .join(format!("smd-{digest}"));
    let kept = dir.join("recording.jsonl");
    if !kept.exists() {
        let copy = dir.join("module");
        instrument(&golang::download(MODULE)?, &copy)?;
        let fresh = dir.join("recording.new");
        let _ = fs::remove_file(&fresh);
        process::run(go_test(&copy, &fresh).args(["-count=1", "./merge/", "./typed/"]))?;
        // Which objects are converted depends on the order of a map. Over many runs, all are.
        process::run(
            go_test(&copy, &fresh)
                .args(["-count=25", "./merge/"])
                .env("SMD_RECORD_ONLY", "conversion"),
        )?;
        fs::rename(&fresh, &kept).context("keeping the recording")?;
    }
    fs::read_to_string(&kept).with_context(|| format!("reading {}", kept.display()))
}

fn go_test(module: &Path, recording: &Path) -> std::process::Command {
    let mut command = std::process::Command::new("go");
    // One package at a time: they write to one file.
    command.args(["test", "-p=1", "-mod=mod"]);
    command
        .current_dir(module)
        .env("SMD_RECORD", recording)
        .env("GOWORK", "off");
    command
}

fn instrument(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to).with_context(|| format!("removing {}", to.display()))?;
    }
    golang::copy(from, to)?;
    for (path, body) in FILES {
        let path = to.join(path);
        fs::create_dir_all(path.parent().unwrap_or(to))?;
        fs::write(&path, body).with_context(|| format!("writing {}", path.display()))?;
    }
    for (path, before, after) in RENAMED {
        let path = to.join(path);
        let body =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        if body.matches(before).count() != 1 {
            bail!(
                "{} does not have one `{before}…`: the module has changed",
                path.display()
            );
        }
        fs::write(&path, body.replace(before, after))?;
    }
    Ok(())
}
