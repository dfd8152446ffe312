//! Every Rust file belongs to a module tree; no `mod.rs`; files stay readable in size.

use std::collections::{BTreeMap, BTreeSet};

use super::metadata::Metadata;
use super::{Finding, Source};

/// Lines of a file without its tests.
const LIMIT: usize = 800;

pub(super) fn check(metadata: &Metadata, sources: &[Source]) -> Vec<Finding> {
    let files: BTreeMap<&str, &str> = sources
        .iter()
        .filter(|source| source.is_rust())
        .filter_map(|source| Some((source.path.as_str(), source.text()?)))
        .collect();
    let roots = metadata
        .packages
        .iter()
        .flat_map(|package| package.roots.iter().map(String::as_str));
    let mut findings = orphans(&files, roots);
    for (path, text) in &files {
        if path.ends_with("/mod.rs") {
            findings.push(Finding::new(
                *path,
                "modules are foo.rs and foo/, not mod.rs",
            ));
        }
        let lines = lines_without_tests(text);
        if lines > LIMIT && !is_test(path) {
            findings.push(Finding::new(
                *path,
                format!("{lines} lines without tests, the limit is {LIMIT}"),
            ));
        }
    }
    findings
}

/// Files that no `mod` declaration leads to: nobody compiles them.
fn orphans<'a>(
    files: &BTreeMap<&'a str, &'a str>,
    roots: impl Iterator<Item = &'a str>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut reached: BTreeSet<String> = BTreeSet::new();
    let mut queue: Vec<(String, bool)> = roots.map(|root| (root.to_owned(), true)).collect();
    while let Some((path, is_root)) = queue.pop() {
        let Some(text) = files.get(path.as_str()) else {
            continue;
        };
        if !reached.insert(path.clone()) {
            continue;
        }
        if text
            .lines()
            .any(|line| line.trim_start().starts_with("#[path"))
        {
            findings.push(Finding::new(
                &path,
                "modules are found by their names, not by #[path]",
            ));
        }
        let dir = match (is_root, path.rsplit_once('/')) {
            (true, Some((dir, _))) => dir.to_owned(),
            _ => path.trim_end_matches(".rs").to_owned(),
        };
        queue.extend(declared(text).map(|name| (format!("{dir}/{name}.rs"), false)));
    }
    let missed = files.keys().filter(|path| !reached.contains(**path));
    findings
        .extend(missed.map(|path| Finding::new(*path, "no `mod` declaration leads to this file")));
    findings
}

/// The names in `mod name;` declarations.
fn declared(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = match line.strip_prefix("pub") {
            Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1,
            Some(rest) => rest,
            None => line,
        };
        let name = line
            .trim_start()
            .strip_prefix("mod ")?
            .split(';')
            .next()?
            .trim();
        let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_');
        (is_name && line.contains(';')).then_some(name)
    })
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// Lines up to a test module at the end of the file.
fn lines_without_tests(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let tests = lines
        .windows(2)
        .position(|pair| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod tests {"));
    tests.unwrap_or(lines.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_a_declaration_are_found() {
        let files = BTreeMap::from([
            (
                "a/src/lib.rs",
                "pub mod one;\n    pub(crate) mod two;\nmod inline { }\n",
            ),
            ("a/src/one.rs", "mod deep;\n"),
            ("a/src/one/deep.rs", ""),
            ("a/src/two.rs", "// mod three;\n"),
            ("a/src/three.rs", ""),
            ("a/src/deep.rs", ""),
        ]);
        let found = orphans(&files, ["a/src/lib.rs"].into_iter());
        let paths: Vec<&str> = found.iter().map(|finding| finding.at.as_str()).collect();
        assert_eq!(paths, ["a/src/deep.rs", "a/src/three.rs"]);
    }

    #[test]
    fn tests_at_the_end_do_not_count() {
        assert_eq!(
            lines_without_tests("a\nb\n#[cfg(test)]\nmod tests {\n}\n"),
            2
        );
        assert_eq!(lines_without_tests("a\n#[cfg(test)]\nmod tests;\n"), 3);
    }
}
