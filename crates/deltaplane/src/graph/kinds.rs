//! Kinds without a server: those of Kubernetes, and those of definitions that were given.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_api::field;
use deltaplane_apiserver::typepack::{self, defaults};
use deltaplane_graph::{Gvk, Known, Lookup};
use deltaplane_schema::crd;
use serde_json::Value;

/// All kinds that are known.
#[derive(Default)]
pub(super) struct Kinds {
    /// Of CustomResourceDefinitions and of graphs.
    given: BTreeMap<Gvk, Given>,
    /// Of Kubernetes, as far as they were asked for.
    builtin: RefCell<BTreeMap<Gvk, Arc<Known>>>,
    /// Which versions of a kind were given, by its name.
    versions: BTreeMap<String, BTreeSet<String>>,
}

/// A kind that was given.
enum Given {
    /// Its schema is read when somebody asks.
    Unread(Version),
    Known(Arc<Known>),
    /// It cannot be used; why.
    Broken(String),
}

/// A version of a CustomResourceDefinition.
struct Version {
    plural: String,
    namespaced: bool,
    schema: Value,
    path: field::Path,
    options: crd::Options,
}

// === impl Kinds ===

impl Kinds {
    /// Adds the kinds of a CustomResourceDefinition, or of one that a graph makes.
    pub(super) fn add_definition(&mut self, crd: &Value) {
        let spec = &crd["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let versions = spec["versions"].as_array().into_iter().flatten();
        for (index, version) in versions.enumerate() {
            if version["served"] == false {
                continue;
            }
            let gvk = Gvk::new(
                &text(&spec["group"]),
                &text(&version["name"]),
                &text(&spec["names"]["kind"]),
            );
            let path = field::Path::new("spec").child("versions").index(index);
            let unread = Version {
                plural: text(&spec["names"]["plural"]),
                namespaced: spec["scope"] == "Namespaced",
                schema: version["schema"]["openAPIV3Schema"].clone(),
                path: path.child("schema").child("openAPIV3Schema"),
                options: crd::Options {
                    status_subresource: version["subresources"]["status"].is_object(),
                    accepted: false,
                },
            };
            let versions = self.versions.entry(gvk.kind.clone()).or_default();
            versions.insert(gvk.api_version());
            self.given.insert(gvk, Given::Unread(unread));
        }
    }

    /// All that is wrong with the schemas of a CustomResourceDefinition.
    pub(super) fn faults(crd: &Value) -> Vec<field::Error> {
        let mut kinds = Self::default();
        kinds.add_definition(crd);
        let versions = kinds.given.into_iter();
        versions
            .filter_map(|(gvk, given)| match given {
                Given::Unread(version) => version.known(&gvk).err(),
                Given::Known(_) | Given::Broken(_) => None,
            })
            .flatten()
            .collect()
    }

    /// The kind is defined by something that cannot be used.
    pub(super) fn add_broken(&mut self, gvk: Gvk, why: String) {
        self.given.insert(gvk, Given::Broken(why));
    }

    /// Reads the schemas of those that are wanted, so that they can be looked up.
    pub(super) fn prepare(&mut self, wanted: &BTreeSet<Gvk>) {
        for gvk in wanted {
            if let Some(given) = self.given.get_mut(gvk)
                && let Given::Unread(version) = given
            {
                *given = match version.known(gvk) {
                    Ok(known) => Given::Known(Arc::new(known)),
                    Err(errors) => {
                        let first = errors.first().map_or_else(String::new, ToString::to_string);
                        Given::Broken(format!(
                            "its CustomResourceDefinition is not valid: {first}"
                        ))
                    }
                };
            }
        }
    }

    pub(super) fn look_up(&self, gvk: &Gvk) -> Lookup {
        match self.given.get(gvk) {
            Some(Given::Known(known)) => return Lookup::Known(known.clone()),
            Some(Given::Broken(why)) => return Lookup::Unavailable(why.clone()),
            Some(Given::Unread(_)) => {
                return Lookup::Unavailable("its schema was not read".to_owned());
            }
            None => {}
        }
        if let Some(known) = self.builtin.borrow().get(gvk) {
            return Lookup::Known(known.clone());
        }
        let Some(kind) = builtin(gvk) else {
            return Lookup::Absent;
        };
        let schema = typepack::load().schema(kind);
        let known = Known::new(gvk.clone(), kind.plural, kind.namespaced, schema);
        let known = Arc::new(known);
        self.builtin.borrow_mut().insert(gvk.clone(), known.clone());
        Lookup::Known(known)
    }

    /// What to do about a kind that is not known, if the message is about one.
    pub(super) fn hint(&self, message: &str) -> Option<String> {
        let (_, kind) = message
            .strip_prefix("there is no kind ")?
            .rsplit_once(' ')?;
        let given = self.versions.get(kind).into_iter().flatten().cloned();
        let pack = typepack::load().kinds().iter();
        let pack = pack.filter(|one| one.kind == kind && is_kept(one));
        let pack = pack.map(|one| Gvk::new(one.group, one.version, one.kind).api_version());
        let others: BTreeSet<String> = given.chain(pack).collect();
        if others.is_empty() {
            return Some("give its CustomResourceDefinition with --crds".to_owned());
        }
        let others: Vec<String> = others.into_iter().collect();
        Some(format!("there is {kind} of {}", others.join(", ")))
    }

    /// What the API would make of an object before it keeps it.
    pub(super) fn fill_in(&self, known: &Known, object: &mut Value) {
        match builtin(known.gvk()) {
            Some(kind) if !self.given.contains_key(known.gvk()) => {
                defaults::apply(typepack::load(), kind, object);
            }
            Some(_) | None => known.schema().default(object),
        }
    }
}

// === impl Version ===

impl Version {
    fn known(&self, gvk: &Gvk) -> Result<Known, Vec<field::Error>> {
        let schema = crd::compile(&self.schema, &self.path, self.options)?;
        Ok(Known::new(
            gvk.clone(),
            &self.plural,
            self.namespaced,
            schema,
        ))
    }
}

fn builtin(gvk: &Gvk) -> Option<&'static typepack::Kind> {
    let kind = typepack::load().kind(&gvk.group, &gvk.version, &gvk.kind)?;
    is_kept(kind).then_some(kind)
}

/// Reviews and the like are answered, and not kept.
fn is_kept(kind: &typepack::Kind) -> bool {
    kind.stored.is_some()
}
