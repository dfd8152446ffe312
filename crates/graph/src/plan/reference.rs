//! Objects of others: what a node refers to, and which of those that are there it means.

use std::sync::Arc;

use deltaplane_api::selector::LabelSelector;

use super::content::{fill, text_of};
use super::walk::Walk;
use super::{Standing, Unknown, Wrong, ready};
use crate::graph::{Node, NodeIndex};
use crate::kinds::Gvk;
use crate::observed::{Live, ObjectId};
use crate::template::Template;

/// What a node refers to. Whoever observes objects shows these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    pub gvk: Gvk,
    /// Nothing for those of all namespaces, or for kinds that are in none.
    pub namespace: Option<String>,
    pub which: Which,
}

/// Which objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    Named(String),
    Labelled(LabelSelector),
}

/// An object of others, by its name.
pub(super) fn named<'a>(
    walk: &mut Walk<'a>,
    (index, node): (NodeIndex, &'a Node),
    template: &'a Template,
) -> Result<Standing, Unknown> {
    let filled = fill(walk, template)?;
    let text = |field: &str| text_of(template, &filled, &[field]).unwrap_or_default();
    let namespace = match (node.namespaced(), text("namespace")) {
        (false, _) => "",
        (true, "") => walk.inputs.instance.namespace(),
        (true, given) => given,
    };
    let id = ObjectId {
        gvk: node.gvk().clone(),
        namespace: namespace.to_owned(),
        name: text("name").to_owned(),
    };
    let reference = Reference {
        gvk: id.gvk.clone(),
        namespace: node.namespaced().then(|| id.namespace.clone()),
        which: Which::Named(id.name.clone()),
    };
    walk.references.push((index, reference));
    let Some(live) = walk.inputs.observed.get(node.id(), &id) else {
        return Ok(Standing::Missing { id });
    };
    walk.show(node, live);
    Ok(ready::of_one(walk, node, live))
}

/// All objects of others with certain labels.
pub(super) fn labelled<'a>(
    walk: &mut Walk<'a>,
    (index, node): (NodeIndex, &'a Node),
    template: &'a Template,
) -> Result<Standing, Unknown> {
    let filled = fill(walk, template)?;
    let object = template.render(filled);
    let Some(selector) = LabelSelector::from_object(&object["selector"]) else {
        let place = format!(
            "spec.resources[{}].externalRef.metadata.selector",
            node.source()
        );
        let wrong = Wrong::at(place, "it cannot select labels");
        return Err(Unknown::Wrong(wrong));
    };
    let given = super::text(&object, &["namespace"]).filter(|given| !given.is_empty());
    let namespace = given.filter(|_| node.namespaced()).map(str::to_owned);
    let reference = Reference {
        gvk: node.gvk().clone(),
        namespace,
        which: Which::Labelled(selector),
    };
    let all = walk.inputs.observed.of(node.id());
    let objects: Vec<&'a Arc<Live>> = all.filter(|live| reference.means(live)).collect();
    walk.references.push((index, reference));
    // Taken for none, they would take with them all that was made for each of them.
    if (walk.inputs.unseen)(index) {
        return Ok(Standing::Unseen);
    }
    walk.show_all(node, &objects);
    let unready = ready::of_all(walk, node, &objects);
    Ok(unready.map_or(Standing::Ready, Standing::NotReady))
}

// === impl Reference ===

impl Reference {
    /// Whether this is one of those.
    pub fn means(&self, live: &Live) -> bool {
        let id = &live.id;
        let namespace = self.namespace.as_ref();
        let there = id.gvk == self.gvk && namespace.is_none_or(|one| *one == id.namespace);
        there
            && match &self.which {
                Which::Named(name) => *name == id.name,
                Which::Labelled(selector) => {
                    let labels = &live.json()["metadata"]["labels"];
                    selector.matches(|key| labels[key].as_str())
                }
            }
    }
}
