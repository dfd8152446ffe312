//! Plurals of kinds: of the nouns that they are likely to be made of, of those that are published, of
//! every word that kro's library names, and of every ending of three letters.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use deltaplane_schema::plural::pluralize;
use serde_json::json;

use super::super::{Report, oracle};
use super::Answer;
use crate::golang::{self, KRO, STAGING};

const CAPITALS: &str = "kro writes capitals into the plural, which no API server takes";

/// Where we differ: abbreviations that the library knows, and that end in an S.
const KNOWN: [(&str, &str); 12] = [
    ("aes", CAPITALS),
    ("bss", CAPITALS),
    ("cmos", CAPITALS),
    ("des", CAPITALS),
    ("dns", CAPITALS),
    ("ess", CAPITALS),
    ("fcs", CAPITALS),
    ("https", CAPITALS),
    ("ids", CAPITALS),
    ("ips", CAPITALS),
    ("mpls", CAPITALS),
    ("pots", CAPITALS),
];

/// The library that kro has plurals from.
const LIBRARY: &str = "github.com/gobuffalo/flect@v1.0.3";

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
    words.extend(library_words()?);
    words.extend(endings());
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

/// The words and endings that kro's library names, alone and at the end of others.
fn library_words() -> Result<BTreeSet<String>> {
    let dir = golang::download(LIBRARY)?;
    let mut words = BTreeSet::new();
    for file in ["plural_rules.go", "acronyms.go"] {
        let path = dir.join(file);
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let quoted = text
            .lines()
            .flat_map(|line| line.split('"').skip(1).step_by(2));
        let named = quoted.filter(|word| word.chars().all(|c| c.is_ascii_alphanumeric()));
        for word in named.filter(|word| !word.is_empty()) {
            words.extend(["", "git", "x"].map(|first| format!("{first}{word}")));
        }
    }
    Ok(words)
}

/// A word for each ending of three letters.
fn endings() -> impl Iterator<Item = String> {
    let letters = || 'a'..='z';
    let pairs = letters().flat_map(move |a| letters().map(move |b| (a, b)));
    pairs.flat_map(move |(a, b)| letters().map(move |c| format!("w{a}{b}{c}")))
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
