//! What an object should be: the values of its template's holes, and a digest of them.

use deltaplane_api::field;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use super::walk::Walk;
use super::{Unknown, Wrong};
use crate::digest::feed;
use crate::graph::Node;
use crate::observed::{Content, ObjectId};
use crate::template::{Filled, Hole, Step, Template};

/// An object that is wanted; rendered only if it is to be applied.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) id: ObjectId,
    pub(super) content: Content,
    pub(super) filled: Vec<Filled>,
}

const NAME: [&str; 2] = ["metadata", "name"];
const NAMESPACE: [&str; 2] = ["metadata", "namespace"];

pub(super) fn wanted<'a>(
    walk: &mut Walk<'a>,
    node: &'a Node,
    template: &'a Template,
) -> Result<Wanted, Unknown> {
    let filled = fill(walk, template)?;
    finish(walk, node, template, filled)
}

/// What goes into all holes.
pub(super) fn fill<'a>(
    walk: &mut Walk<'a>,
    template: &'a Template,
) -> Result<Vec<Filled>, Unknown> {
    let holes = template.holes();
    // What may fail is collected without knowing how much there will be.
    let mut filled = Vec::with_capacity(holes.len());
    for hole in holes {
        filled.push(fill_one(walk, hole)?);
    }
    Ok(filled)
}

pub(super) fn fill_one<'a>(walk: &mut Walk<'a>, hole: &'a Hole) -> Result<Filled, Unknown> {
    let filled = hole.fill(&walk.bindings, &mut walk.meter);
    filled.map_err(|unfilled| {
        let unknown = Unknown::of(unfilled, hole.source(), hole.path().as_str());
        walk.inputs
            .graph
            .redact(hole.reads(), hole.source(), unknown)
    })
}

/// With values for all holes it is known which object is wanted, and what of it.
pub(super) fn finish(
    walk: &Walk<'_>,
    node: &Node,
    template: &Template,
    filled: Vec<Filled>,
) -> Result<Wanted, Unknown> {
    let place = || format!("spec.resources[{}].template", node.source());
    let name = text_of(template, &filled, &NAME).unwrap_or_default();
    if name.is_empty() {
        let place = field::Path::new(&place()).child("metadata").child("name");
        let wrong = Wrong::at(place.as_str(), "the name is empty");
        return Err(Unknown::Wrong(wrong));
    }
    let given = text_of(template, &filled, &NAMESPACE).unwrap_or_default();
    let namespace = match (node.namespaced(), given) {
        (false, _) => "",
        (true, "") => walk.inputs.instance.namespace(),
        (true, given) => given,
    };
    if node.namespaced() && namespace.is_empty() {
        let place = field::Path::new(&place())
            .child("metadata")
            .child("namespace");
        let message = "metadata.namespace is empty, and the instance has no namespace to inherit";
        return Err(Unknown::Wrong(Wrong::at(place.as_str(), message)));
    }
    let id = ObjectId {
        gvk: node.gvk().clone(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    Ok(Wanted {
        content: digest(node, template, &filled),
        id,
        filled,
    })
}

/// The object, with nothing written on it yet.
pub(super) fn rendered(node: &Node, template: &Template, wanted: &Wanted) -> Json {
    let mut object = template.render(wanted.filled.iter().cloned());
    if node.namespaced() && super::text(&object, &NAMESPACE).is_none() {
        object["metadata"]["namespace"] = wanted.id.namespace.as_str().into();
    }
    object
}

/// The text at a path, without rendering the rest.
pub(super) fn text_of<'t>(
    template: &'t Template,
    filled: &'t [Filled],
    path: &[&str],
) -> Option<&'t str> {
    let mut holes = template.holes().iter().zip(filled);
    let hole = holes.find(|(hole, _)| is_at(hole.steps(), path));
    match hole {
        Some((_, Filled::Value(value))) => value.as_str(),
        Some((_, Filled::Omitted)) => None,
        None => super::text(template.literal(), path),
    }
}

fn is_at(steps: &[Step], path: &[&str]) -> bool {
    let key = |step: &Step, name: &str| matches!(step, Step::Key(key) if **key == *name);
    steps.len() == path.len() && steps.iter().zip(path).all(|(step, name)| key(step, name))
}

/// Two objects with the same digest are rendered to the same. Which item of a collection it is does
/// not count: otherwise one more item would change all of them.
fn digest(node: &Node, template: &Template, filled: &[Filled]) -> Content {
    let mut hasher = Sha256::new();
    hasher.update(template.fingerprint());
    hasher.update(node.apply_order().to_le_bytes());
    for filled in filled {
        match filled {
            Filled::Omitted => hasher.update([0]),
            Filled::Value(value) => {
                hasher.update([1]);
                feed(&mut hasher, value);
            }
        }
    }
    Content::of(&hasher.finalize())
}
