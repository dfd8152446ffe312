//! What is different, as people read it, and as programs do.

use std::fmt;

use serde_json::{Value, json};

use super::compare::{Diff, Named, NodeChange, ValueChange, Whole};

/// Of a value so many characters are shown.
const MAX_SHOWN: usize = 100;

pub(super) fn text(diff: &Diff) -> String {
    let Diff { from, to, .. } = diff;
    let head = |named: &Named| {
        format!(
            "{} ({}, version {})",
            named.title, named.kind, named.version
        )
    };
    let mut text = format!("from {}\nto   {}\n", head(from), head(to));
    if diff.is_empty() {
        text.push_str("\nNothing is different.\n");
        return text;
    }
    if !diff.kind.is_empty() {
        text.push_str("\nKind:\n");
    }
    for change in &diff.kind {
        text.push_str(&match change.breaking {
            true => format!("! {} (breaking)\n", change.text),
            false => format!("  {}\n", change.text),
        });
    }
    section(&mut text, "Status", &diff.status);
    section(&mut text, "Gates of instances", &diff.gates);
    text.push_str(&nodes(diff));
    if let Some((old, new)) = &diff.order {
        text.push_str(&format!(
            "\nOrder:\n  was {}\n  is  {}\n",
            old.join(" → "),
            new.join(" → ")
        ));
    }
    let breaking = diff.kind.iter().filter(|change| change.breaking).count();
    text.push_str(&match breaking {
        0 => "\nNo breaking changes.\n".to_owned(),
        1 => "\n1 breaking change.\n".to_owned(),
        count => format!("\n{count} breaking changes.\n"),
    });
    text
}

fn section(text: &mut String, title: &str, changes: &[ValueChange]) {
    if !changes.is_empty() {
        text.push_str(&format!("\n{title}:\n"));
    }
    for change in changes {
        text.push_str(&format!("  {change}\n"));
    }
}

fn nodes(diff: &Diff) -> String {
    if diff.added.is_empty() && diff.removed.is_empty() && diff.changed.is_empty() {
        return String::new();
    }
    let mut text = "\nResources:\n".to_owned();
    for node in &diff.added {
        text.push_str(&format!("+ {}: {}\n", node.id, node.kind));
    }
    for node in &diff.removed {
        text.push_str(&format!("- {}: {}", node.id, node.kind));
        text.push_str(match node.external {
            true => "\n",
            false => ": what it made is deleted\n",
        });
    }
    for node in &diff.changed {
        text.push_str(&changed(node));
    }
    text
}

fn changed(node: &NodeChange) -> String {
    let mut text = format!("~ {}: {}", node.id, node.kind);
    text.push_str(match node.replaced {
        true => ": other objects are made, and the old ones deleted\n",
        false => "\n",
    });
    for change in &node.values {
        text.push_str(&format!("    {change}\n"));
    }
    for change in &node.gates {
        text.push_str(&format!("    gate {change}\n"));
    }
    if !node.reads.is_empty() {
        text.push_str(&format!("    reads {} now\n", node.reads.join(", ")));
    }
    if !node.reads_not.is_empty() {
        text.push_str(&format!(
            "    does not read {} any more\n",
            node.reads_not.join(", ")
        ));
    }
    text
}

impl fmt::Display for ValueChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = match self.path.as_str() {
            "" => "all of it",
            path => path,
        };
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => write!(f, "{at}: {} → {}", shown(old), shown(new)),
            (None, Some(new)) => write!(f, "{at}: {} is added", shown(new)),
            (Some(old), None) => write!(f, "{at}: {} is removed", shown(old)),
            (None, None) => write!(f, "{at} is the same"),
        }
    }
}

/// Texts as they are written, everything else as JSON; not too long.
fn shown(value: &Value) -> String {
    let text = value.as_str();
    let text = text.filter(|text| text.contains("${") && !text.contains('\n'));
    let text = text.map_or_else(|| value.to_string(), str::to_owned);
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

pub(super) fn json(diff: &Diff) -> Value {
    let named =
        |named: &Named| json!({"name": named.title, "kind": named.kind, "version": named.version});
    let kind = diff.kind.iter().map(
        |change| json!({"path": change.path, "message": change.text, "breaking": change.breaking}),
    );
    let changed = diff.changed.iter().map(|node| {
        json!({
            "id": node.id,
            "kind": node.kind,
            "replaced": node.replaced,
            "changes": changes(&node.values),
            "gates": changes(&node.gates),
            "readsNow": node.reads,
            "readsNoMore": node.reads_not,
        })
    });
    let whole = |nodes: &[Whole]| -> Vec<Value> {
        let nodes = nodes.iter();
        let nodes = nodes.map(|node| json!({"id": node.id, "kind": node.kind}));
        nodes.collect()
    };
    let order = diff.order.as_ref();
    json!({
        "from": named(&diff.from),
        "to": named(&diff.to),
        "breaking": diff.is_breaking(),
        "kind": kind.collect::<Vec<_>>(),
        "status": changes(&diff.status),
        "gates": changes(&diff.gates),
        "resources": {
            "added": whole(&diff.added),
            "removed": whole(&diff.removed),
            "changed": changed.collect::<Vec<_>>(),
        },
        "order": order.map(|(old, new)| json!({"from": old, "to": new})),
    })
}

/// A side that has no value there has no field.
fn changes(all: &[ValueChange]) -> Vec<Value> {
    let one = |change: &ValueChange| {
        let mut json = json!({"path": change.path});
        for (field, value) in [("from", &change.old), ("to", &change.new)] {
            if let Some(value) = value {
                json[field] = value.clone();
            }
        }
        json
    };
    all.iter().map(one).collect()
}
