//! Looking at what there is where graphs run, and waiting for it.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{NAMESPACE, Stage};
use crate::kubectl::await_that;

// === impl Stage ===

impl Stage {
    /// An object in the namespace, if it is there.
    pub(in super::super) fn find(&self, kind: &str, name: &str) -> Result<Option<Value>> {
        self.here.kubectl().find(kind, name, NAMESPACE)
    }

    /// An object in the namespace, which is there.
    pub(in super::super) fn get(&self, kind: &str, name: &str) -> Result<Value> {
        let found = self.find(kind, name)?;
        found.with_context(|| format!("there is no {kind} {name}"))
    }

    /// The objects of a kind in the namespace with a label.
    pub(in super::super) fn labelled(&self, kind: &str, label: &str) -> Result<Vec<Value>> {
        let words = ["get", kind, "-n", NAMESPACE, "-o", "json", "-l", label];
        let list = self.here.kubectl().ok(&words)?;
        let list: Value = serde_json::from_str(&list).context("reading a list")?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Waits until an object is there and as it should be.
    pub(in super::super) fn until(
        &self,
        kind: &str,
        name: &str,
        is_fine: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let mut last = Value::Null;
        let waited = await_that(&format!("{kind} {name}"), || {
            // The kind may not be served yet.
            let found = self.find(kind, name).ok().flatten();
            last = found.clone().unwrap_or_default();
            last["metadata"]["managedFields"] = Value::Null;
            Ok(found.filter(|object| is_fine(object)))
        });
        waited.with_context(|| format!("the last of it was {last}"))
    }

    pub(in super::super) fn until_gone(&self, kind: &str, name: &str) -> Result<()> {
        await_that(&format!("the end of {kind} {name}"), || {
            Ok(self.find(kind, name)?.is_none().then_some(()))
        })
    }

    pub(in super::super) fn until_state(
        &self,
        kind: &str,
        name: &str,
        state: &str,
    ) -> Result<Value> {
        self.until(kind, name, |object| object["status"]["state"] == state)
    }

    /// Waits until a ConfigMap says this.
    pub(in super::super) fn until_data(&self, name: &str, key: &str, text: &str) -> Result<Value> {
        self.until("configmap", name, |object| object["data"][key] == text)
    }

    /// Waits until a definition, as it is now, has a condition.
    pub(in super::super) fn until_definition(
        &self,
        name: &str,
        condition: &str,
        status: &str,
    ) -> Result<Value> {
        let home = self.home("rgd").kubectl().find("rgd", name, "")?;
        let home = home.with_context(|| format!("there is no definition {name}"))?;
        self.until("rgd", name, |object| {
            let found = self::condition(object, condition);
            object["spec"] == home["spec"]
                && found["status"] == status
                && found["observedGeneration"] == object["metadata"]["generation"]
        })
    }

    /// Waits until a definition, as it is now, is refused where it was authored. It does not reach
    /// zones.
    pub(in super::super) fn until_refused(&self, name: &str) -> Result<Value> {
        let home = self.home("rgd").kubectl();
        await_that(&format!("a refusal of {name}"), || {
            let found = home.find("rgd", name, "")?;
            Ok(found.filter(|object| {
                let accepted = self::condition(object, "GraphAccepted");
                accepted["status"] == "False"
                    && accepted["observedGeneration"] == object["metadata"]["generation"]
            }))
        })
    }
}

/// The condition of a type, or nothing.
pub(in super::super) fn condition<'o>(object: &'o Value, r#type: &str) -> &'o Value {
    let all = object["status"]["conditions"].as_array();
    let found = all.into_iter().flatten().find(|one| one["type"] == r#type);
    found.unwrap_or(&Value::Null)
}

/// A text that has this in it.
pub(in super::super) fn ensure_says(text: &Value, expected: &str) -> Result<()> {
    let said = text.as_str().is_some_and(|text| text.contains(expected));
    ensure!(said, "{expected:?} is not said, but {text}");
    Ok(())
}
