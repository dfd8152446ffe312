//! No artefacts, no large or binary files, no paths of anyone's machine, no tests that nobody runs.

use std::path::Path;

use super::{Finding, Source};

/// Bytes of the largest file that belongs into the tree.
const LARGEST: usize = 1024 * 1024;

/// Endings of what editors, tools and builds leave behind.
const ARTEFACTS: [&str; 14] = [
    "orig", "rej", "swp", "bak", "tmp", "log", "pyc", "o", "a", "so", "rlib", "profraw", "pb", "db",
];

/// Pictures and fonts may be binary; nothing else.
const BINARY: [&str; 5] = ["png", "ico", "woff2", "gif", "webp"];

/// Directories that exist on one machine only. Written in halves, so that this file passes.
const MACHINE: [&str; 5] = [
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/main"),
    concat!("/wo", "rk/shared"),
    concat!("/Us", "ers/"),
    concat!("/tmp/tar", "get"),
];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let path = source.path.as_str();
    let mut messages: Vec<String> = Vec::new();
    let extension = Path::new(path)
        .extension()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    if ARTEFACTS.contains(&extension.as_str()) || path.ends_with('~') || path.ends_with(".DS_Store")
    {
        messages.push("an artefact does not belong into the tree".to_owned());
    }
    if source.bytes.len() > LARGEST {
        messages.push(format!(
            "{} bytes, the limit is {LARGEST}",
            source.bytes.len()
        ));
    }
    match source.text() {
        None if !BINARY.contains(&extension.as_str()) => messages.push("a binary file".to_owned()),
        None => {}
        Some(text) => messages.extend(lines(path, text)),
    }
    messages
        .into_iter()
        .map(|message| Finding::new(path, message))
        .collect()
}

fn lines(path: &str, text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if let Some(machine) = MACHINE.iter().find(|machine| line.contains(**machine)) {
            messages.push(format!(
                "line {number} names {machine}, which is on one machine only"
            ));
        }
        if path.ends_with(".rs") && line.trim_start().starts_with("#[ignore") {
            messages.push(format!(
                "line {number} ignores a test: delete it or let it run"
            ));
        }
        if line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ") {
            messages.push(format!("line {number} is left over from a merge"));
        }
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_belong_is_found() {
        let check = |path: &str, bytes: &[u8], expected: &[&str]| {
            let source = Source {
                path: path.to_owned(),
                bytes: bytes.to_vec(),
            };
            let found: Vec<String> = check(&source)
                .into_iter()
                .map(|finding| finding.message)
                .collect();
            assert_eq!(found, expected, "{path}");
        };
        check("a.rs", b"fn main() {}\n", &[]);
        check(
            "a.rs.orig",
            b"x",
            &["an artefact does not belong into the tree"],
        );
        check("a.bin", b"\0", &["a binary file"]);
        check("a.png", b"\0", &[]);
        let home = format!("see {}x\n", MACHINE[0]);
        let message = format!("line 1 names {}, which is on one machine only", MACHINE[0]);
        check("a.md", home.as_bytes(), &[&message]);
    }
}
