//! The last decision of a hub, made again from what it was made of. Pure.

use deltaplane_fleet::difference::{Field, difference};
use deltaplane_propagation::stages::{Inputs, Outcome};
use serde_json::{Value, json};

use super::PolicyError;
use crate::hunks::shortened;
use crate::table::counted;

/// What came of it.
pub(super) struct Replayed {
    inputs: Inputs,
    outcome: Outcome,
    /// Whether it led to what is recorded, and not only to what would be decided now.
    recorded: bool,
    differences: Vec<(&'static str, Vec<Field>)>,
}

/// So many fields of a difference are shown.
const SHOWN: usize = 20;

// === impl Replayed ===

impl Replayed {
    /// Of what the hub says that it decided, and by what.
    pub(super) fn of(decision: &Value) -> Result<Self, PolicyError> {
        let unreadable = || PolicyError::Unreadable(None);
        let inputs = Inputs::read(&decision["inputs"]).ok_or_else(unreadable)?;
        let outcome = inputs.decide().map_err(|_| unreadable())?;
        let again = inputs.decide().map_err(|_| unreadable())?;
        let here = outcome.write();
        let mut differences = Vec::new();
        let mut compare = |what: &'static str, one: &Value, other: &Value| {
            let found = difference(Some(one), Some(other));
            if !found.is_empty() {
                differences.push((what, found));
            }
        };
        compare("decided here twice", &here, &again.write());
        compare("decided by the hub and here", &decision["outcome"], &here);
        let recorded = &decision["recorded"];
        if !recorded.is_null() {
            compare(
                "recorded by the hub and decided here",
                recorded,
                &here["record"],
            );
        }
        Ok(Self {
            inputs,
            outcome,
            recorded: !recorded.is_null(),
            differences,
        })
    }

    pub(super) fn is_same(&self) -> bool {
        self.differences.is_empty()
    }

    pub(super) fn text(&self, policy: &str) -> String {
        let facts = &self.inputs.facts;
        let mut text = format!(
            "{policy}: as of {}: {}, {}, {}\n",
            self.inputs.now,
            counted(facts.zones.len(), "zone"),
            counted(facts.releases.len(), "release"),
            counted(facts.approvals.len(), "approval")
        );
        text.push_str(match self.recorded {
            true => "this led to what the hub has recorded\n",
            false => "the hub has decided nothing since it started; this is what it knows now\n",
        });
        for (what, fields) in &self.differences {
            text.push_str(&format!("\nnot the same: {what}\n"));
            for field in fields.iter().take(SHOWN) {
                text.push_str(&format!("  {}\n", shortened(&field.json().to_string())));
            }
        }
        if self.is_same() {
            let record = &self.outcome.record;
            text.push_str(&format!(
                "the same decisions: {}, {}, {} pieces of evidence\n",
                counted(record.zones.len(), "zone"),
                counted(record.stages.len(), "stage"),
                record.evidence.len()
            ));
            let last = record.evidence.last();
            if let Some(last) = last.filter(|last| !last.digest.is_empty()) {
                text.push_str(&format!("digest of the last evidence: {}\n", last.digest));
            }
        }
        text
    }

    pub(super) fn json(&self) -> Value {
        let differences = self.differences.iter().map(|(what, fields)| {
            let fields = fields.iter().map(Field::json);
            json!({"what": what, "fields": fields.collect::<Vec<_>>()})
        });
        json!({
            "same": self.is_same(),
            "recorded": self.recorded,
            "differences": differences.collect::<Vec<_>>(),
            "inputs": self.inputs.write(),
            "outcome": self.outcome.write(),
        })
    }
}
