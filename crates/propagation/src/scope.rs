//! What the expressions of a gate may name.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use deltaplane_expr::{Decl, Env, Type, env};
use serde_json::Value as Json;

use crate::functions;
use crate::subject::Subject;

/// The names of a gate: its item, the collection that the item is in, and what else there is.
#[derive(Debug)]
pub struct Scope {
    item: Decl,
    names: BTreeMap<String, Name>,
    windows: Vec<String>,
    env: OnceLock<Env>,
}

/// What a name stands for.
#[derive(Clone, Debug)]
pub(crate) enum Name {
    Item,
    Items,
    Subject(Decl),
    Subjects(Decl),
    Data(Decl),
}

/// What names other than those of the item and its collection stand for, in one pass. What is
/// not here has not come yet.
pub type Surroundings<'a> = BTreeMap<&'a str, Given<'a>>;

/// What one name stands for.
#[derive(Clone, Debug)]
pub enum Given<'a> {
    Data(&'a Json),
    Subject(Subject<'a>),
    Subjects(Vec<Subject<'a>>),
}

/// The variable for `time.now()`, which no text can name.
pub(crate) const NOW: &str = "@now";

// === impl Scope ===

impl Scope {
    /// An item, known by these names.
    pub fn new(item: Decl, names: &[&str]) -> Self {
        let scope = Self {
            item,
            names: BTreeMap::new(),
            windows: Vec::new(),
            env: OnceLock::new(),
        };
        names
            .iter()
            .fold(scope, |scope, name| scope.named(name, Name::Item))
    }

    /// The collection that the item is in, known by these names.
    #[must_use]
    pub fn collection(self, names: &[&str]) -> Self {
        names
            .iter()
            .fold(self, |scope, name| scope.named(name, Name::Items))
    }

    /// Something else that can be ready and updated.
    #[must_use]
    pub fn subject(self, name: &str, decl: Decl) -> Self {
        self.named(name, Name::Subject(decl))
    }

    /// A list of things that can be.
    #[must_use]
    pub fn subjects(self, name: &str, decl: Decl) -> Self {
        self.named(name, Name::Subjects(decl))
    }

    /// Data that is neither.
    #[must_use]
    pub fn data(self, name: &str, decl: Decl) -> Self {
        self.named(name, Name::Data(decl))
    }

    /// The windows that are declared.
    #[must_use]
    pub fn windows(mut self, names: &[&str]) -> Self {
        self.windows = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    fn named(mut self, name: &str, stands_for: Name) -> Self {
        self.names.insert(name.to_owned(), stands_for);
        self.env = OnceLock::new();
        self
    }

    pub(crate) fn item(&self) -> &Decl {
        &self.item
    }

    pub(crate) fn names(&self) -> &BTreeMap<String, Name> {
        &self.names
    }

    pub(crate) fn is_item(&self, name: &str) -> bool {
        matches!(self.names.get(name), Some(Name::Item))
    }

    pub(crate) fn is_items(&self, name: &str) -> bool {
        matches!(self.names.get(name), Some(Name::Items))
    }

    /// The declaration of the items of a collection.
    pub(crate) fn element(&self, name: &str) -> Option<&Decl> {
        match self.names.get(name)? {
            Name::Items => Some(&self.item),
            Name::Subjects(decl) => Some(decl),
            Name::Item | Name::Subject(_) | Name::Data(_) => None,
        }
    }

    pub(crate) fn declared_windows(&self) -> &[String] {
        &self.windows
    }

    /// The environment in which texts are checked.
    pub(crate) fn env(&self) -> &Env {
        self.env.get_or_init(|| {
            let builder = functions::declare(env::gate(), &self.subject_types());
            builder.build().with_variables(self.variables())
        })
    }

    /// All variables, each with its declaration, in a fixed order.
    pub(crate) fn variables(&self) -> Vec<(String, Decl)> {
        let list = |decl: &Decl| Decl::of_type(Type::list(decl.ty().clone()), decl.absent());
        let declared = |name: &Name| match name {
            Name::Item => self.item.clone(),
            Name::Items => list(&self.item),
            Name::Subject(decl) | Name::Data(decl) => decl.clone(),
            Name::Subjects(decl) => list(decl),
        };
        let all = self.names.iter();
        all.map(|(name, of)| (name.clone(), declared(of))).collect()
    }

    /// The types of what can be ready and updated, each once; `dyn` takes all of them.
    fn subject_types(&self) -> Vec<Type> {
        let mut types = vec![self.item.ty().clone()];
        for name in self.names.values() {
            if let Name::Subject(decl) | Name::Subjects(decl) = name
                && !types.contains(decl.ty())
            {
                types.push(decl.ty().clone());
            }
        }
        if types.contains(&Type::Dyn) {
            return vec![Type::Dyn];
        }
        types
    }
}
