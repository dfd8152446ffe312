//! Definitions that kro publishes: manifests, and those in its documentation.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Case;
use crate::manifests;

/// Where definitions are.
const DIRECTORIES: [&str; 4] = [
    "examples",
    "test/e2e",
    "test/upgrade/fixtures",
    "website/docs",
];
/// Where kinds are that they may use.
const KINDS: [&str; 2] = ["test/integration/crds", "helm/crds"];

/// What was found.
#[derive(Default)]
pub(super) struct Published {
    pub(super) definitions: Vec<Case>,
    /// CustomResourceDefinitions.
    pub(super) customs: Vec<Value>,
    /// Files with definitions that cannot be read, templates of others among them.
    pub(super) unreadable: Vec<String>,
}

pub(super) fn read(kro: &Path) -> Result<Published> {
    let mut published = Published::default();
    for directory in DIRECTORIES.iter().chain(&KINDS) {
        published.directory(kro, &kro.join(directory))?;
    }
    Ok(published)
}

// === impl Published ===

impl Published {
    fn directory(&mut self, root: &Path, directory: &Path) -> Result<()> {
        let entries = fs::read_dir(directory)
            .with_context(|| format!("reading {}", directory.display()))?
            .collect::<Result<Vec<_>, _>>()?;
        let mut paths: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let extension = path.extension().and_then(|end| end.to_str());
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy();
            let text = || fs::read_to_string(&path).with_context(|| format!("reading {name}"));
            match extension {
                _ if path.is_dir() => self.directory(root, &path)?,
                Some("yaml" | "yml") => self.manifest(&name, &text()?),
                Some("md" | "mdx") => {
                    let text = text()?;
                    let blocks: Vec<String> = fenced(&text);
                    self.manifest(&name, &blocks.join("\n---\n"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The documents of a text that are of use.
    fn manifest(&mut self, name: &str, text: &str) {
        let mut count = 0;
        for document in manifests::documents(text) {
            if !document.contains("ResourceGraphDefinition")
                && !document.contains("CustomResourceDefinition")
            {
                continue;
            }
            match manifests::parse(&document) {
                Ok(value) => self.value(name, &value, &mut count),
                Err(_) => self.unreadable.push(name.to_owned()),
            }
        }
    }

    /// A definition, or whatever has one in it.
    fn value(&mut self, name: &str, value: &Value, count: &mut usize) {
        match value {
            Value::Object(map) => match value["kind"].as_str() {
                // With a status it is what a test waits for.
                Some("ResourceGraphDefinition")
                    if value["spec"]["schema"].is_object() && value.get("status").is_none() =>
                {
                    *count += 1;
                    self.definitions.push(Case {
                        name: match count {
                            1 => name.to_owned(),
                            count => format!("{name}#{count}"),
                        },
                        place: name.to_owned(),
                        object: value.clone(),
                    });
                }
                Some("CustomResourceDefinition") if value["spec"]["versions"].is_array() => {
                    self.customs.push(value.clone());
                }
                _ => map.values().for_each(|one| self.value(name, one, count)),
            },
            Value::Array(items) => items.iter().for_each(|one| self.value(name, one, count)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// The blocks of YAML in a text of Markdown.
fn fenced(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for line in text.lines() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        match &mut open {
            None if trimmed.starts_with("```yaml") => open = Some((indent, String::new())),
            None => {}
            Some(_) if trimmed.starts_with("```") => {
                blocks.extend(open.take().map(|(_, block)| block));
            }
            Some((skipped, block)) => {
                block.push_str(line.get(indent.min(*skipped)..).unwrap_or_default());
                block.push('\n');
            }
        }
    }
    blocks
}
