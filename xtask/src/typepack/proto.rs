//! Just enough of a `.proto` reader for Kubernetes' generated files: flat messages of plain fields.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::golang::{STAGING, download};

/// Fields by number, by full message name.
pub(super) type Messages = BTreeMap<String, BTreeMap<u32, Field>>;

pub(super) struct Field {
    pub(super) name: String,
    /// Such as `string`, `repeated Container`, `map<string,bytes>`.
    pub(super) r#type: String,
}

/// Every message of the modules that hold API types.
pub(super) fn read() -> Result<Messages> {
    let mut messages = Messages::new();
    for module in ["api", "apimachinery", "apiextensions-apiserver"] {
        let dir = download(&format!("k8s.io/{module}@v{STAGING}"))?;
        visit(&dir, &mut messages)?;
    }
    Ok(messages)
}

fn visit(dir: &Path, messages: &mut Messages) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            visit(&path, messages)?;
        } else if path
            .file_name()
            .is_some_and(|name| name == "generated.proto")
        {
            let text =
                fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            parse(&text, messages).with_context(|| format!("in {}", path.display()))?;
        }
    }
    Ok(())
}

fn parse(text: &str, messages: &mut Messages) -> Result<()> {
    let mut package = "";
    let mut message: Option<String> = None;
    for line in text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
    {
        if let Some(name) = line.strip_prefix("package ") {
            package = name.trim_end_matches(';');
        } else if let Some(name) = line
            .strip_prefix("message ")
            .and_then(|rest| rest.strip_suffix(" {"))
        {
            let name = format!("{package}.{name}");
            messages.entry(name.clone()).or_default();
            message = Some(name);
        } else if line == "}" {
            message = None;
        } else if let Some(name) = &message {
            let (number, field) = field(line).with_context(|| format!("{name}: {line}"))?;
            messages
                .entry(name.clone())
                .or_default()
                .insert(number, field);
        }
    }
    Ok(())
}

/// `optional string name = 1;`, `repeated X x = 2;`, `map<string, bytes> data = 3;`
fn field(line: &str) -> Result<(u32, Field)> {
    let line = line
        .strip_suffix(';')
        .context("a field ends with a semicolon")?;
    let (left, number) = line.rsplit_once(" = ").context("a field has a number")?;
    let (kind, name) = left.rsplit_once(' ').context("a field has a name")?;
    let kind = kind
        .strip_prefix("optional ")
        .or_else(|| kind.strip_prefix("required "))
        .unwrap_or(kind);
    if kind.contains('[') || number.contains('[') {
        bail!("field options are not known here");
    }
    Ok((
        number.parse()?,
        Field {
            name: name.to_owned(),
            r#type: kind.replace(", ", ","),
        },
    ))
}
