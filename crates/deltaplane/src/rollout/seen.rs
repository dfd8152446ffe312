//! What there is of a definition: itself, what it was, and its instances. Pure.

use deltaplane_api::admission::{Admission, Point, is_paused, is_suspended};
use deltaplane_api::conditions::of_instance;
use deltaplane_api::keys;
use deltaplane_api::time::Time;
use deltaplane_client::ObjectKey;
use serde_json::Value;

/// The label with kro's hash of a revision.
const HASH: &str = "kro.run/graph-revision-hash";
/// So much of a hash is shown.
const SHORT: usize = 10;

/// All of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) definition: Value,
    /// By their numbers.
    pub(crate) revisions: Vec<Revision>,
    /// By their keys.
    pub(crate) instances: Vec<Value>,
}

/// What a definition was.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Revision {
    pub(crate) number: i64,
    pub(crate) hash: String,
    /// When it was made.
    pub(crate) made: Option<Time>,
    pub(crate) spec: Value,
}

/// Whether an instance is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    Free,
    /// Until this time.
    Until(Time),
    /// Until it is released.
    Held,
}

/// A condition of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) name: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

// === impl Seen ===

impl Seen {
    pub(crate) fn new(
        definition: Value,
        mut revisions: Vec<Revision>,
        mut instances: Vec<Value>,
    ) -> Self {
        revisions.sort_by_key(|revision| revision.number);
        instances.sort_by_key(key);
        Self {
            definition,
            revisions,
            instances,
        }
    }

    pub(crate) fn name(&self) -> &str {
        text(&self.definition["metadata"]["name"])
    }

    /// The revision that instances move to.
    pub(super) fn target(&self) -> Option<i64> {
        let newest = self.revisions.last().map(|newest| newest.number);
        newest.max(self.definition["status"]["lastIssuedRevision"].as_i64())
    }

    pub(super) fn is_paused(&self) -> bool {
        is_paused(&self.definition)
    }

    pub(crate) fn revision(&self, number: i64) -> Option<&Revision> {
        self.revisions.iter().find(|one| one.number == number)
    }

    /// The revision that an instance may run, if it is one of this definition: one of that name that
    /// was deleted had its own.
    pub(crate) fn revision_of(&self, admission: Admission) -> Option<&Revision> {
        let Point { number, hash } = admission.at;
        let known = self.revisions.iter().rev();
        let mut known = known.filter(|one| hash.is_none() || one.point().hash == hash);
        let exact = known.clone().find(|one| one.number == number);
        exact.or_else(|| known.next().filter(|_| hash.is_some()))
    }

    /// The first of those that make the same of an instance: revisions next to each other that
    /// differ in their gates alone.
    pub(super) fn first_alike(&self, number: i64) -> i64 {
        let mut first = None;
        let mut last = None;
        for one in self.revisions.iter().filter(|one| one.number <= number) {
            let content = content(&one.spec);
            if last.as_ref() != Some(&content) {
                first = Some(one.number);
            }
            last = Some(content);
        }
        let known = self.revision(number).is_some();
        first.filter(|_| known).unwrap_or(number)
    }

    /// The expressions of the gate of instances.
    pub(super) fn gate(&self) -> Vec<&str> {
        let when = self.definition["spec"]["propagateWhen"].as_array();
        let when = when.into_iter().flatten();
        when.filter_map(Value::as_str).collect()
    }

    /// The kind of the instances, and its group and version.
    pub(super) fn kind(&self) -> (&str, String) {
        let schema = &self.definition["spec"]["schema"];
        let group = schema["group"].as_str().unwrap_or("kro.run");
        let version = text(&schema["apiVersion"]);
        (text(&schema["kind"]), format!("{group}/{version}"))
    }
}

/// What a spec makes of instances: all but its gates and its deletion budget.
pub(super) fn content(spec: &Value) -> Value {
    const GATES: [&str; 3] = ["propagateWhen", "orderBy", "deletionBudget"];
    let mut content = spec.clone();
    let without = |value: &mut Value| {
        if let Some(map) = value.as_object_mut() {
            GATES.iter().for_each(|gate| drop(map.remove(*gate)));
        }
    };
    without(&mut content);
    let resources = content.get_mut("resources").and_then(Value::as_array_mut);
    resources.into_iter().flatten().for_each(without);
    content
}

/// The key of an object.
pub(crate) fn key(object: &Value) -> ObjectKey {
    let metadata = &object["metadata"];
    ObjectKey::new(text(&metadata["namespace"]), text(&metadata["name"]))
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether it is on its way out.
pub(super) fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// The conditions of an object, in their order.
pub(crate) fn conditions(object: &Value) -> Vec<Condition> {
    let all = object["status"]["conditions"].as_array();
    all.into_iter().flatten().map(condition).collect()
}

fn condition(one: &Value) -> Condition {
    Condition {
        name: text(&one["type"]).to_owned(),
        status: text(&one["status"]).to_owned(),
        reason: text(&one["reason"]).to_owned(),
        message: text(&one["message"]).to_owned(),
    }
}

/// Whether what a condition says is of the object as it is now.
pub(super) fn is_looked_at(object: &Value) -> bool {
    let generation = object["metadata"]["generation"].as_i64();
    let ready = of_instance(object, READY);
    ready.is_some_and(|ready| ready["observedGeneration"].as_i64() >= generation)
}

/// Whether nobody has said yet if an object is ready as it is now.
pub(super) fn is_undecided(object: &Value) -> bool {
    let unknown = ready(object).is_none_or(|ready| !matches!(&*ready.status, "True" | "False"));
    unknown || !is_looked_at(object)
}

/// The condition that follows all others.
pub(super) const READY: &str = "Ready";

/// The condition `Ready`, if it is there.
pub(super) fn ready(object: &Value) -> Option<Condition> {
    of_instance(object, READY).map(condition)
}

// === impl Revision ===

impl Revision {
    /// As it is kept. Nothing if it is not of this definition.
    pub(crate) fn read(object: &Value, definition: &str) -> Option<Self> {
        let (metadata, spec) = (&object["metadata"], &object["spec"]);
        if spec["snapshot"]["name"] != definition {
            return None;
        }
        Some(Self {
            number: spec["revision"].as_i64()?,
            hash: text(&metadata["labels"][HASH]).to_owned(),
            made: text(&metadata["creationTimestamp"]).parse().ok(),
            spec: spec["snapshot"]["spec"].clone(),
        })
    }

    fn point(&self) -> Point {
        Point::new(self.number, &self.hash)
    }

    /// The beginning of its hash.
    pub(super) fn short(&self) -> &str {
        let end = self.hash.char_indices().nth(SHORT);
        end.map_or(&*self.hash, |(end, _)| &self.hash[..end])
    }
}

// === impl Hold ===

impl Hold {
    pub(super) fn read(instance: &Value, now: Time) -> Self {
        if is_suspended(instance) {
            return Self::Held;
        }
        match keys::hold(&instance["metadata"]).map(str::parse::<Time>) {
            None => Self::Free,
            Some(Ok(until)) if until <= now => Self::Free,
            Some(Ok(until)) => Self::Until(until),
            Some(Err(_)) => Self::Held,
        }
    }
}

// === impl Condition ===

impl std::fmt::Display for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is {}", self.name, self.status)?;
        if !self.reason.is_empty() {
            write!(f, " ({})", self.reason)?;
        }
        match self.message.as_str() {
            "" => Ok(()),
            message => write!(f, ": {message}"),
        }
    }
}
