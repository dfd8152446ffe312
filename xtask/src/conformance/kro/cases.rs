//! Definitions of our own: one that is valid, and what is done to it (`cases.yaml`).

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Case;
use super::kinds::Customs;
use super::mutate::places;

const CASES: &str = include_str!("cases.yaml");

#[derive(Deserialize)]
struct Cases {
    /// CustomResourceDefinitions that can be used.
    kinds: Vec<Value>,
    /// A spec that is valid.
    base: Value,
    /// Values that are put at a place of it, one after the other.
    at: BTreeMap<String, Vec<Value>>,
    /// Places that are taken away.
    without: Vec<String>,
    /// Several values at once.
    with: BTreeMap<String, BTreeMap<String, Value>>,
}

/// Our definitions, all of one place, and the kinds that they can use there.
pub(super) fn read() -> Result<(Vec<Case>, BTreeMap<String, Customs>)> {
    let cases: Cases = serde_saphyr::from_str(CASES).context("reading cases.yaml")?;
    let mut made = vec![case("ours", &cases.base)];
    for (place, values) in &cases.at {
        for value in values {
            let mut spec = cases.base.clone();
            ensure!(places::set(&mut spec, place, value.clone()), "{place}");
            made.push(case(&format!("ours: {place} is {value}"), &spec));
        }
    }
    for place in &cases.without {
        let mut spec = cases.base.clone();
        ensure!(places::remove(&mut spec, place), "{place}");
        made.push(case(&format!("ours: without {place}"), &spec));
    }
    for (name, values) in &cases.with {
        let mut spec = cases.base.clone();
        for (place, value) in values {
            ensure!(places::set(&mut spec, place, value.clone()), "{place}");
        }
        made.push(case(&format!("ours: {name}"), &spec));
    }
    let customs = Customs::new(&cases.kinds);
    Ok((made, BTreeMap::from([(PLACE.to_owned(), customs)])))
}

const PLACE: &str = "ours";

fn case(name: &str, spec: &Value) -> Case {
    Case {
        name: name.to_owned(),
        place: PLACE.to_owned(),
        object: json!({
            "apiVersion": "kro.run/v1alpha1",
            "kind": "ResourceGraphDefinition",
            "metadata": {"name": "ours"},
            "spec": spec,
        }),
    }
}
