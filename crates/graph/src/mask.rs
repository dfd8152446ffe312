//! Which fields of an object somebody reads, so that whoever keeps objects keeps no others.
//!
//! Invariant: an expression that reads a selection comes to the same as with the whole object, also
//! where it waits or fails: what leads to a field is kept as it is, and lists keep their length.

use std::collections::BTreeMap;

use deltaplane_expr::{Step, unescape};
use serde_json::{Map, Value as Json};

/// Fields of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldMask(Mask);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Mask {
    /// The value with all that is in it.
    Whole,
    Parts {
        /// By their keys.
        fields: BTreeMap<Box<str>, Mask>,
        /// Of each item of a list, and of each entry of a map.
        each: Option<Box<Mask>>,
    },
}

// === impl FieldMask ===

impl FieldMask {
    /// No field.
    pub fn empty() -> Self {
        Self(Mask::EMPTY)
    }

    /// All fields.
    pub fn whole() -> Self {
        Self(Mask::Whole)
    }

    pub fn is_whole(&self) -> bool {
        self.0 == Mask::Whole
    }

    /// Adds what an expression reaches by these steps, with all that is in it.
    pub(crate) fn add(&mut self, steps: &[Step]) {
        self.0.add(steps);
    }

    /// Adds a field that is reached by these keys.
    pub(crate) fn add_field(&mut self, keys: &[&str]) {
        let at = keys.iter().fold(&mut self.0, |mask, key| mask.field(key));
        *at = Mask::Whole;
    }

    /// Adds all fields of another.
    pub fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }

    /// Returns true if all fields of the other are among these.
    pub fn covers(&self, other: &Self) -> bool {
        self.0.covers(&other.0)
    }

    /// The object with these fields.
    pub fn select(&self, object: &Json) -> Json {
        self.0.select(object)
    }
}

// === impl Mask ===

impl Mask {
    const EMPTY: Self = Self::Parts {
        fields: BTreeMap::new(),
        each: None,
    };

    /// The mask of a field; what is whole stays so, and the answer is of no consequence then.
    fn field(&mut self, key: &str) -> &mut Self {
        match self {
            Self::Whole => self,
            Self::Parts { fields, .. } => fields.entry(key.into()).or_insert(Self::EMPTY),
        }
    }

    /// Expressions are nested no deeper than their parser lets them.
    fn add(&mut self, steps: &[Step]) {
        let Some((step, rest)) = steps.split_first() else {
            *self = Self::Whole;
            return;
        };
        match step {
            Step::Field(name) => {
                self.field(name).add(rest);
                // A field of a schema may be written otherwise than the data has it.
                if let Some(key) = unescape(name).filter(|key| key != name) {
                    self.field(&key).add(rest);
                }
            }
            Step::Index(_) | Step::Any => {
                if let Self::Parts { each, .. } = self {
                    each.get_or_insert_with(|| Box::new(Self::EMPTY)).add(rest);
                }
            }
        }
    }

    fn merge(&mut self, other: &Self) {
        let Self::Parts { fields, each } = self else {
            return;
        };
        match other {
            Self::Whole => *self = Self::Whole,
            Self::Parts {
                fields: others,
                each: other,
            } => {
                for (key, mask) in others {
                    let own = fields.entry(key.clone()).or_insert(Self::EMPTY);
                    own.merge(mask);
                }
                if let Some(mask) = other {
                    each.get_or_insert_with(|| Box::new(Self::EMPTY))
                        .merge(mask);
                }
            }
        }
    }

    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Whole, _) => true,
            (Self::Parts { .. }, Self::Whole) => false,
            (
                Self::Parts { fields, each },
                Self::Parts {
                    fields: others,
                    each: other,
                },
            ) => {
                let own = |key: &str| fields.get(key).or(each.as_deref());
                let mut others = others.iter();
                others.all(|(key, mask)| own(key).is_some_and(|own| own.covers(mask)))
                    && other
                        .as_ref()
                        .is_none_or(|mask| each.as_ref().is_some_and(|each| each.covers(mask)))
            }
        }
    }

    /// What is nested is bounded by what objects may be.
    fn select(&self, value: &Json) -> Json {
        let Self::Parts { fields, each } = self else {
            return value.clone();
        };
        match value {
            Json::Object(map) => {
                let entries = map.iter().filter_map(|(key, value)| {
                    let selected = match (fields.get(&**key), each) {
                        (Some(field), Some(each)) => {
                            let mut both = field.clone();
                            both.merge(each);
                            both.select(value)
                        }
                        (Some(field), None) => field.select(value),
                        (None, Some(each)) => each.select(value),
                        (None, None) => return None,
                    };
                    Some((key.clone(), selected))
                });
                Json::Object(entries.collect::<Map<String, Json>>())
            }
            Json::Array(items) => match each {
                Some(each) => items.iter().map(|item| each.select(item)).collect(),
                // Its length is all that shows: whoever compares or counts it reads all of it.
                None => items.iter().map(|_| Json::Null).collect(),
            },
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => value.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn steps(path: &str) -> Vec<Step> {
        let step = |word: &str| match word.parse() {
            Ok(index) => Step::Index(index),
            Err(_) if word == "*" => Step::Any,
            Err(_) => Step::Field(word.to_owned()),
        };
        path.split('.').map(step).collect()
    }

    fn mask(paths: &[&str]) -> FieldMask {
        let mut mask = FieldMask::empty();
        paths.iter().for_each(|path| mask.add(&steps(path)));
        mask
    }

    #[test]
    fn what_leads_to_a_field_stays() {
        let object = json!({
            "metadata": {"name": "a", "labels": {"x": "1", "y": "2"}},
            "spec": {
                "a-b": 1, "other": {"deep": true}, "empty": {}, "none": null,
                "items": [{"name": "one", "value": 1}, {"name": "two"}, "text"],
            },
        });
        let check = |paths: &[&str], expected: Json| {
            let mask = mask(paths);
            let selected = mask.select(&object);
            assert_eq!(selected, expected, "{paths:?}");
            assert_eq!(mask.select(&selected), selected);
        };
        check(&[], json!({}));
        check(
            &["metadata.labels.x"],
            json!({"metadata": {"labels": {"x": "1"}}}),
        );
        check(
            &["metadata.labels.*", "metadata.labels.x"],
            json!({"metadata": object["metadata"].get("labels").map(|labels| json!({"labels": labels})).expect("there")}),
        );
        // Whether a field is there can be told of what leads to it.
        check(&["spec.other.no.more"], json!({"spec": {"other": {}}}));
        check(&["spec.none.more"], json!({"spec": {"none": null}}));
        check(&["spec.a__dash__b"], json!({"spec": {"a-b": 1}}));
        check(
            &["spec.items.0.name"],
            json!({"spec": {"items": [{"name": "one"}, {"name": "two"}, "text"]}}),
        );
        check(
            &["spec.items.name"],
            json!({"spec": {"items": [null, null, null]}}),
        );
    }

    #[test]
    fn masks_are_merged_and_compared() {
        let whole = FieldMask::whole();
        let all = [
            "spec", "spec.a", "spec.a.b", "spec.*.b", "spec.0", "status.a",
        ];
        for one in all {
            for other in all {
                let (first, second) = (mask(&[one]), mask(&[other]));
                let mut both = first.clone();
                both.merge(&second);
                assert_eq!(both, mask(&[other, one]), "{one} {other}");
                assert!(both.covers(&first) && both.covers(&second), "{one} {other}");
                assert!(whole.covers(&both) && !both.covers(&whole));
                assert_eq!(
                    first.covers(&second),
                    both == first
                        || one == "spec.0" && other.starts_with("spec.")
                        || one == "spec.*.b" && other == "spec.a.b",
                    "{one} {other}"
                );
            }
        }
        assert!(mask(&[]).covers(&FieldMask::empty()));
        let mut merged = mask(&["spec.a"]);
        merged.merge(&whole);
        assert!(merged.is_whole());
    }
}
