//! The documents that a newcomer starts from exist and name every crate.

use super::metadata::Metadata;
use super::{Finding, Source};

const ARCHITECTURE: &str = "docs/ARCHITECTURE.md";
const ARCHITECTURE_LINES: usize = 200;

pub(super) fn check(metadata: &Metadata, sources: &[Source]) -> Vec<Finding> {
    let text = |path: &str| {
        sources
            .iter()
            .find(|source| source.path == path)
            .and_then(Source::text)
    };
    let mut findings = Vec::new();
    for path in ["README.md", "CONTRIBUTING.md", "LICENSE", ARCHITECTURE] {
        if text(path).is_none() {
            findings.push(Finding::new(path, "is missing"));
        }
    }
    let Some(architecture) = text(ARCHITECTURE) else {
        return findings;
    };
    let lines = architecture.lines().count();
    if lines > ARCHITECTURE_LINES {
        findings.push(Finding::new(
            ARCHITECTURE,
            format!("{lines} lines, the limit is {ARCHITECTURE_LINES}"),
        ));
    }
    for package in &metadata.packages {
        let named = [
            format!("`{}`", package.dir),
            format!("`{}/`", package.dir),
            format!("`{}`", package.name),
        ];
        if !named.iter().any(|name| architecture.contains(name)) {
            findings.push(Finding::new(
                ARCHITECTURE,
                format!("does not name `{}`", package.dir),
            ));
        }
    }
    findings
}
