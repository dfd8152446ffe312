//! How a graph fares: as its instances do that run it.
//!
//! Which revision a definition is, and which one the conditions of an instance were found with,
//! are in their conditions (`api::admission::Point::told`), each written together with what it is
//! about: so that an instance was ready at an earlier revision never counts for a later one.

use deltaplane_api::admission::{DELETIONS_HELD, Point, has_failed, is_suspended};
use deltaplane_api::keys;
use deltaplane_expr::Timestamp;
use serde_json::Value;

use super::conditions::{Condition, Conditions, Holds};
use super::{Judgement, is_deleting};

/// What is found of instances.
#[derive(Default)]
struct Found {
    ready: usize,
    held: usize,
    waiting: usize,
    failed: usize,
    /// The first that waits and the first that failed, by name, and why.
    first_waiting: Option<(String, String)>,
    first_failed: Option<(String, String)>,
}

/// How an instance stands.
enum Stands {
    Ready,
    Held,
    Waiting(String),
    Failed(String),
}

/// Whether an object is the definition of a graph.
pub fn is_graph(group: &str, kind: &str) -> bool {
    (group, kind) == ("kro.run", "ResourceGraphDefinition")
}

/// How a graph fares whose instances are given, all of them: ready if every one that may run it
/// does, and is ready.
pub fn graph<'a>(
    definition: &Value,
    instances: impl IntoIterator<Item = &'a Value>,
    now: Timestamp,
) -> Judgement {
    if is_deleting(definition) {
        return Judgement::waiting("it is being deleted");
    }
    let newest = match newest(definition) {
        Ok(newest) => newest,
        Err(judgement) => return judgement,
    };
    let mut found = Found::default();
    for instance in instances.into_iter().filter(|one| !is_deleting(one)) {
        found.add(instance, stands(instance, newest, now));
    }
    found.judgement()
}

/// The revision that the definition is, as it is now; or why that is not known.
fn newest(definition: &Value) -> Result<Point, Judgement> {
    let conditions = Conditions::of(definition);
    let fresh = |r#type: &str| -> Result<Condition<'_>, Judgement> {
        let found = conditions.find(r#type);
        let found = found.ok_or_else(|| Judgement::waiting("nobody has looked at it yet"))?;
        match found.holds() {
            Holds::Stale => Err(Judgement::stale()),
            Holds::True | Holds::False | Holds::Unknown => Ok(found),
        }
    };
    for r#type in ["GraphAccepted", "KindReady"] {
        let one = fresh(r#type)?;
        match one.holds() {
            Holds::True => {}
            Holds::False => return Err(Judgement::failed(one.said())),
            Holds::Unknown | Holds::Stale => return Err(Judgement::waiting(one.said())),
        }
    }
    for r#type in ["ControllerReady", "GraphRevisionsResolved"] {
        let one = fresh(r#type)?;
        if one.holds() != Holds::True {
            return Err(Judgement::waiting(one.said()));
        }
    }
    let said = fresh("GraphRevisionsResolved")?.message();
    let newest = Point::heard(said).filter(|point| point.hash.is_some());
    newest.ok_or_else(|| Judgement::waiting("it does not say which revision it is"))
}

fn stands(instance: &Value, newest: Point, now: Timestamp) -> Stands {
    let find = |r#type: &str| Conditions::of_instance(instance, r#type);
    let resolved = find("GraphResolved");
    let at = resolved.and_then(|one| Point::heard(one.message()));
    let is_newest = at == Some(newest);
    let ready = find("Ready");
    let is_ready = ready.is_some_and(|one| one.holds() == Holds::True);
    // A gate of the graph may hold some resources at what an earlier revision made of them, and its
    // deletion budget some that are not wanted any more.
    let held = find("ResourcesPropagated");
    let held = held.filter(|one| one.holds() == Holds::False && is_ready);
    if is_newest && is_ready && held.is_none() {
        return Stands::Ready;
    }
    if let Some(held) = held.filter(|one| one.reason() == DELETIONS_HELD) {
        return Stands::Waiting(held.said());
    }
    if is_held(instance, now) {
        return Stands::Held;
    }
    let Some(ready) = ready else {
        return Stands::Waiting("nobody has looked at it yet".to_owned());
    };
    match (ready.holds(), at) {
        (Holds::Stale, _) => Stands::Waiting("its status is of an earlier generation".to_owned()),
        (_, Some(at)) if !is_newest => {
            let (at, newest) = (at.number, newest.number);
            Stands::Waiting(format!("it runs revision {at}, and not {newest} yet"))
        }
        (_, Some(_)) if let Some(held) = held => Stands::Waiting(held.said()),
        (_, None) => Stands::Waiting(match ready.holds() {
            Holds::True => "it does not say which revision it runs".to_owned(),
            Holds::False | Holds::Unknown | Holds::Stale => ready.said(),
        }),
        (_, Some(_)) => match has_failed(instance) {
            true => Stands::Failed(ready.said()),
            false => Stands::Waiting(ready.said()),
        },
    }
}

/// Whether its owner keeps it where it is.
fn is_held(instance: &Value, now: Timestamp) -> bool {
    let until = keys::hold(&instance["metadata"]).map(Timestamp::parse);
    let held = until.is_some_and(|until| until.is_none_or(|until| until > now));
    held || is_suspended(instance)
}

fn name(instance: &Value) -> String {
    let text = |field: &str| instance["metadata"][field].as_str().unwrap_or_default();
    match (text("namespace"), text("name")) {
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

// === impl Found ===

impl Found {
    fn add(&mut self, instance: &Value, stands: Stands) {
        let (count, first, why) = match stands {
            Stands::Ready => {
                self.ready += 1;
                return;
            }
            Stands::Held => {
                self.held += 1;
                return;
            }
            Stands::Waiting(why) => (&mut self.waiting, &mut self.first_waiting, why),
            Stands::Failed(why) => (&mut self.failed, &mut self.first_failed, why),
        };
        *count += 1;
        let name = name(instance);
        if first.as_ref().is_none_or(|(before, _)| name < *before) {
            *first = Some((name, why));
        }
    }

    fn judgement(self) -> Judgement {
        let Self {
            ready,
            held,
            waiting,
            failed,
            ..
        } = self;
        let aside = match held {
            0 => String::new(),
            held => format!(" ({held} held)"),
        };
        let count = ready + waiting + failed;
        if let Some((name, why)) = self.first_failed {
            return Judgement::failed(format!(
                "{failed} of {count} instances failed{aside}; first: {name}: {why}"
            ));
        }
        if let Some((name, why)) = self.first_waiting {
            return Judgement::waiting(format!(
                "{ready} of {count} instances run it and are ready{aside}; first: {name}: {why}"
            ));
        }
        match (ready, held) {
            (0, 0) => Judgement::no_evidence("it has no instances here"),
            (0, held) => Judgement::no_evidence(format!("its instances are held, all {held}")),
            (_, 0) => Judgement::ready(),
            (ready, _) => Judgement {
                reason: format!("{ready} instances run it and are ready{aside}"),
                ..Judgement::ready()
            },
        }
    }
}
