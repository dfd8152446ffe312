//! What conditions say.

use deltaplane_api::conditions;
use serde_json::Value;

/// The conditions of an object, which may be of any shape.
#[derive(Clone, Copy)]
pub(super) struct Conditions<'a> {
    list: &'a [Value],
    generation: Option<i64>,
}

/// One of them.
#[derive(Clone, Copy)]
pub(super) struct Condition<'a> {
    value: &'a Value,
    generation: Option<i64>,
}

/// What a condition says of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    True,
    False,
    Unknown,
    /// It was said of an earlier generation.
    Stale,
}

// === impl Conditions ===

impl<'a> Conditions<'a> {
    pub(super) fn of(object: &'a Value) -> Self {
        let list = object["status"]["conditions"].as_array();
        Self {
            list: list.map_or(&[], Vec::as_slice),
            generation: object["metadata"]["generation"].as_i64(),
        }
    }

    pub(super) fn find(self, r#type: &str) -> Option<Condition<'a>> {
        let value = self.list.iter().find(|one| one["type"] == r#type)?;
        let generation = self.generation;
        Some(Condition { value, generation })
    }

    /// Finds a condition that every instance of a graph has.
    pub(super) fn of_instance(instance: &'a Value, r#type: &str) -> Option<Condition<'a>> {
        let value = conditions::of_instance(instance, r#type)?;
        let generation = instance["metadata"]["generation"].as_i64();
        Some(Condition { value, generation })
    }

    /// Whether it is there, and true of the object as it is.
    pub(super) fn holds(self, r#type: &str) -> bool {
        let found = self.find(r#type);
        found.is_some_and(|one| one.holds() == Holds::True)
    }

    /// The newest generation that one of them is of, if they say.
    pub(super) fn newest_generation(self) -> Option<i64> {
        let all = self.list.iter();
        all.filter_map(|one| one["observedGeneration"].as_i64())
            .max()
    }
}

// === impl Condition ===

impl<'a> Condition<'a> {
    pub(super) fn holds(self) -> Holds {
        let observed = self.value["observedGeneration"].as_i64();
        let older = observed.zip(self.generation);
        if older.is_some_and(|(observed, generation)| observed < generation) {
            return Holds::Stale;
        }
        match self.value["status"].as_str() {
            Some("True") => Holds::True,
            Some("False") => Holds::False,
            Some(_) | None => Holds::Unknown,
        }
    }

    pub(super) fn reason(self) -> &'a str {
        self.value["reason"].as_str().unwrap_or_default()
    }

    pub(super) fn message(self) -> &'a str {
        self.value["message"].as_str().unwrap_or_default()
    }

    /// `Reason: message`, as far as there is any; otherwise what it is.
    pub(super) fn said(self) -> String {
        match (self.reason(), self.message()) {
            ("", "") => {
                let text = |field: &str| self.value[field].as_str().unwrap_or("nothing");
                format!("{} is {}", text("type"), text("status"))
            }
            ("", message) => message.to_owned(),
            (reason, "") => reason.to_owned(),
            (reason, message) => format!("{reason}: {message}"),
        }
    }
}
