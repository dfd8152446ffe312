//! Rules of the house that no compiler checks: crate edges, purity, modules, sizes, artefacts.
//!
//! Every rule is a pure function from what was read to findings; all findings are printed.

mod docs;
mod edges;
mod files;
mod metadata;
mod modules;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{paths, process};

/// Something that breaks a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// A file relative to the workspace, or a crate's name.
    at: String,
    message: String,
}

/// A file of the project.
struct Source {
    /// Relative to the workspace, with slashes.
    path: String,
    bytes: Vec<u8>,
}

/// `cargo xtask tidy`.
pub(crate) fn run() -> Result<()> {
    let root = paths::workspace();
    let metadata = metadata::read(&root)?;
    let sources = sources(&root)?;
    let mut findings = edges::check(&metadata);
    findings.extend(edges::purity(&metadata, &sources));
    findings.extend(modules::check(&metadata, &sources));
    findings.extend(sources.iter().flat_map(files::check));
    findings.extend(docs::check(&metadata, &sources));
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => {
            println!(
                "tidy: {} crates, {} files, nothing to say",
                metadata.packages.len(),
                sources.len()
            );
            Ok(())
        }
        count => bail!("tidy: {count} findings"),
    }
}

/// What git knows or would add: never build output.
fn sources(root: &Path) -> Result<Vec<Source>> {
    let mut command = Command::new("git");
    command.current_dir(root).args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]);
    let listed = process::text(&mut command)?;
    let mut sources = Vec::new();
    for path in listed.split('\0').filter(|path| !path.is_empty()) {
        let full: PathBuf = root.join(path);
        // A deleted file is still in the index.
        if full.is_file() {
            let bytes = fs::read(&full).with_context(|| format!("reading {path}"))?;
            sources.push(Source {
                path: path.to_owned(),
                bytes,
            });
        }
    }
    Ok(sources)
}

// === impl Finding ===

impl Finding {
    fn new(at: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            at: at.into(),
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.message)
    }
}

// === impl Source ===

impl Source {
    /// The text; `None` for binary files.
    fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes)
            .ok()
            .filter(|text| !text.contains('\0'))
    }

    fn is_rust(&self) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|extension| extension == "rs")
    }
}
