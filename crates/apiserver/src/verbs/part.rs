//! The narrowest part of a collection that can match a list or watch.

use deltaplane_store::{Collection, Key, Scope};

use crate::context::Cx;
use crate::error::Error;
use crate::filter::Filter;

/// Where everything is that a list or watch asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// At one key: found without a search.
    Object(Key),
    Namespace(String),
    All,
}

// === impl Part ===

impl Part {
    pub(crate) fn of(cx: &Cx, filter: &Filter) -> Result<Self, Error> {
        let collection = cx.server.collection(&cx.kind)?;
        let namespace = match cx.target.namespace.as_str() {
            "" => filter.namespace().unwrap_or_default(),
            namespace => namespace,
        };
        let name = filter.name();
        Ok(Self::narrowest(
            &collection,
            cx.kind.namespaced,
            namespace,
            name,
        ))
    }

    /// What cannot be a name is searched for all the same, and not found.
    fn narrowest(
        collection: &Collection,
        namespaced: bool,
        namespace: &str,
        name: Option<&str>,
    ) -> Self {
        let key = match (namespaced, name) {
            (false, Some(name)) => collection.key("", name).ok(),
            (true, Some(name)) if !namespace.is_empty() => collection.key(namespace, name).ok(),
            (true | false, _) => None,
        };
        match key {
            Some(key) => Self::Object(key),
            None if namespaced && !namespace.is_empty() => Self::Namespace(namespace.to_owned()),
            None => Self::All,
        }
    }

    /// What to watch.
    pub(crate) fn scope(&self, collection: &Collection) -> Result<Scope, Error> {
        match self {
            Self::Object(key) => Ok(Scope::object(key)),
            Self::Namespace(namespace) => Scope::namespace(collection, namespace)
                .map_err(|_| Error::bad_request("a selector names what cannot be a name")),
            Self::All => Ok(Scope::collection(collection)),
        }
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        match self {
            Self::Object(key) => Some(key.namespace()).filter(|namespace| !namespace.is_empty()),
            Self::Namespace(namespace) => Some(namespace),
            Self::All => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_a_known_place_is_a_key() {
        let things = Collection::new("default", "things").unwrap();
        let check = |namespaced, namespace, name, expected: Part| {
            let part = Part::narrowest(&things, namespaced, namespace, name);
            assert_eq!(part, expected, "{namespaced} {namespace} {name:?}");
        };
        let object = |namespace, name| Part::Object(things.key(namespace, name).unwrap());
        check(true, "a", Some("b"), object("a", "b"));
        check(false, "", Some("b"), object("", "b"));
        check(true, "", Some("b"), Part::All);
        check(true, "a", None, Part::Namespace("a".to_owned()));
        check(true, "a", Some("b\0"), Part::Namespace("a".to_owned()));
        check(true, "", None, Part::All);
        check(false, "", None, Part::All);
    }
}
