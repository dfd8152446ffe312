//! Plurals of kinds: of the nouns that they are likely to be made of, and of those that are published.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use deltaplane_schema::plural::pluralize;
use serde_json::json;

use super::super::{Report, oracle};
use super::Answer;
use crate::golang::{self, KRO, STAGING};

/// Where we differ: kro has a dictionary, and we have rules.
const KNOWN: [(&str, &str); 0] = [];

/// What kinds are likely to be called.
const NOUNS: &str = include_str!("nouns.txt");

pub(super) fn run(program: &Path) -> Result<Report> {
    let mut report = Report::new("plurals", &KNOWN);
    let mut words: BTreeSet<String> = NOUNS.split_whitespace().map(str::to_owned).collect();
    let compounds = words
        .iter()
        .flat_map(|noun| ["web", "My", "x", "data"].map(|first| format!("{first}{noun}")));
    let compounds: Vec<String> = compounds.collect();
    words.extend(compounds);
    words.extend(published()?);
    // Kinds are asked for without capitals.
    let words: BTreeSet<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let questions: Vec<_> = words.iter().map(|word| json!({"kind": word})).collect();
    let answers: Vec<Answer> = oracle::ask(program, &questions)?;
    for (word, theirs) in words.iter().zip(&answers) {
        let ours = pluralize(word);
        let outcome = match ours == theirs.plural {
            true => Ok(()),
            false => Err(format!("{ours}, kro: {}", theirs.plural)),
        };
        report.case(word, outcome);
    }
    Ok(report)
}

/// The names of types in the sources of kro and of Kubernetes' kinds, kinds among them.
fn published() -> Result<BTreeSet<String>> {
    let mut words = BTreeSet::new();
    for module in [
        format!("github.com/kubernetes-sigs/kro@v{KRO}"),
        format!("k8s.io/api@v{STAGING}"),
    ] {
        collect(&golang::download(&module)?, &mut words)?;
    }
    Ok(words)
}

fn collect(dir: &Path, words: &mut BTreeSet<String>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, words)?;
            continue;
        }
        let extension = path.extension().unwrap_or_default();
        if extension != "go" {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        let found = text.lines().filter_map(|line| line.strip_prefix("type "));
        let found = found.filter_map(|line| line.strip_suffix(" struct {"));
        let found = found.filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase()));
        words.extend(found.map(str::to_owned));
    }
    Ok(())
}
