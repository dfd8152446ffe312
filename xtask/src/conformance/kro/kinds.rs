//! Kinds that definitions use: those of Kubernetes, and those that are defined.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use deltaplane_api::field::Path;
use deltaplane_apiserver::typepack;
use deltaplane_graph::{Gvk, Known, Lookup};
use deltaplane_schema::crd;
use serde_json::Value;

/// A CustomResourceDefinition, and what we make of it.
pub(super) struct Custom {
    pub(super) definition: Value,
    versions: BTreeMap<Gvk, Lookup>,
}

/// Definitions by the kinds that they define.
#[derive(Clone, Default)]
pub(super) struct Customs {
    kinds: BTreeMap<Gvk, Arc<Custom>>,
}

// === impl Custom ===

impl Custom {
    pub(super) fn new(definition: &Value) -> Self {
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let versions = spec["versions"].as_array().into_iter().flatten();
        let versions = versions.map(|version| {
            let kind = text(&spec["names"]["kind"]);
            let gvk = Gvk::new(&text(&spec["group"]), &text(&version["name"]), &kind);
            let plural = text(&spec["names"]["plural"]);
            let options = crd::Options {
                status_subresource: version["subresources"]["status"].is_object(),
                accepted: true,
            };
            let schema = &version["schema"]["openAPIV3Schema"];
            let lookup = match crd::compile(schema, &Path::root(), options) {
                Ok(schema) => {
                    let namespaced = spec["scope"] == "Namespaced";
                    let known = Known::new(gvk.clone(), &plural, namespaced, schema);
                    Lookup::Known(Arc::new(known))
                }
                Err(errors) => Lookup::Unavailable(format!("its schema is not valid: {errors:?}")),
            };
            (gvk, lookup)
        });
        Self {
            definition: definition.clone(),
            versions: versions.collect(),
        }
    }
}

// === impl Customs ===

impl Customs {
    pub(super) fn new(definitions: &[Value]) -> Self {
        let mut customs = Self::default();
        for definition in definitions {
            customs.add(&Arc::new(Custom::new(definition)));
        }
        customs
    }

    /// Later ones replace those that define the same kind.
    pub(super) fn add(&mut self, custom: &Arc<Custom>) {
        for gvk in custom.versions.keys() {
            self.kinds.insert(gvk.clone(), custom.clone());
        }
    }

    pub(super) fn get(&self, gvk: &Gvk) -> Option<&Arc<Custom>> {
        self.kinds.get(gvk)
    }

    /// All of them, each once.
    pub(super) fn definitions(&self) -> Vec<&Value> {
        let mut found: Vec<&Arc<Custom>> = Vec::new();
        for custom in self.kinds.values() {
            if !found.iter().any(|one| Arc::ptr_eq(one, custom)) {
                found.push(custom);
            }
        }
        found.into_iter().map(|one| &one.definition).collect()
    }

    pub(super) fn look_up(&self, gvk: &Gvk) -> Lookup {
        let custom = self.kinds.get(gvk);
        let found = custom.and_then(|custom| custom.versions.get(gvk));
        found.cloned().unwrap_or_else(|| builtin(gvk))
    }
}

/// A kind of Kubernetes, read once.
pub(super) fn builtin(gvk: &Gvk) -> Lookup {
    thread_local! {
        static READ: RefCell<BTreeMap<Gvk, Lookup>> = const { RefCell::new(BTreeMap::new()) };
    }
    READ.with_borrow_mut(|read| {
        let lookup = read.entry(gvk.clone()).or_insert_with(|| {
            let pack = typepack::load();
            let kind = pack.kind(&gvk.group, &gvk.version, &gvk.kind);
            match kind.filter(|kind| kind.stored.is_some()) {
                Some(kind) => {
                    let schema = pack.schema(kind);
                    let known = Known::new(gvk.clone(), kind.plural, kind.namespaced, schema);
                    Lookup::Known(Arc::new(known))
                }
                None => Lookup::Absent,
            }
        });
        lookup.clone()
    })
}

/// The kinds that an object asks for, as far as they are written as they should be.
pub(super) fn wanted(object: &Value) -> Vec<Gvk> {
    let resources = object["spec"]["resources"].as_array();
    let kinds = resources.into_iter().flatten().filter_map(|resource| {
        let body = ["template", "externalRef"]
            .iter()
            .find_map(|name| resource.get(name))?;
        let (version, kind) = (body["apiVersion"].as_str()?, body["kind"].as_str()?);
        Gvk::parse(version, kind)
    });
    kinds.collect()
}
