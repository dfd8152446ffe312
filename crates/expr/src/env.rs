//! What an expression may name: variables, functions, types, macros.
//!
//! An environment is shared: adding variables to one copies no functions.

mod catalog;
mod function;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::decl::{Absent, Decl};
use crate::library::Library;
use crate::syntax::{Ast, Limits, MacroSet, NodeId, Syntax};
use crate::types::Type;

pub use catalog::{conformance, gate, kro, kubernetes, standard};
pub(crate) use function::{Fun, Row, Run};
pub use function::{Function, Overload};

/// An environment. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Env {
    base: Arc<Base>,
    variables: Arc<Variables>,
    /// Variables that come behind the others, and hide those of the same name.
    locals: Option<Arc<Variables>>,
}

/// How the checker and the parser behave.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Items of a list literal, and keys and values of a map literal, have one type each.
    pub homogeneous: bool,
    /// Numbers of different kinds can be ordered without conversion.
    pub cross_type_numbers: bool,
    /// `has()` costs as much as a selection.
    pub presence_costs: bool,
    /// Literals that must parse (regular expressions, durations, timestamps) are checked.
    pub validate_literals: bool,
    /// `format` is of its first release, which takes other types.
    pub first_format: bool,
    /// What the specification calls an error is one: a key that is written twice in a map, and a
    /// field, behind an optional, of what has no fields. cel-go, and with it Kubernetes and kro,
    /// takes the last value of a key, and finds nothing in what has no fields.
    pub strict: bool,
    /// NaN is neither less nor greater than anything; otherwise it is an error to ask.
    pub unordered_nan: bool,
}

/// Everything but the variables.
#[derive(Debug, Default)]
struct Base {
    functions: HashMap<Arc<str>, Function>,
    types: HashMap<Arc<str>, Type>,
    /// The first segments of those with dots in their names.
    dotted: HashSet<Box<str>>,
    /// The string fields of types that libraries bring.
    fields: HashMap<&'static str, &'static [&'static str]>,
    macros: MacroSet,
    optionals: bool,
    limits: Limits,
    options: Options,
}

#[derive(Debug, Default)]
struct Variables {
    list: Vec<Variable>,
    by_name: HashMap<Arc<str>, Slot>,
    container: String,
    /// The most dots in the name of a variable or type.
    dots: usize,
}

/// A variable.
#[derive(Clone, Debug)]
pub struct Variable {
    pub name: Arc<str>,
    pub decl: Arc<Decl>,
}

/// Which variable of an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot(pub(crate) u32);

/// What a name stands for.
#[derive(Clone, Debug)]
pub(crate) enum Named {
    Variable(Slot),
    Type(Type),
}

/// Makes an environment.
#[derive(Debug, Default)]
pub struct Builder {
    base: Base,
}

/// The types that always have a name.
const TYPES: [(&str, Type); 9] = [
    ("bool", Type::Bool),
    ("int", Type::Int),
    ("uint", Type::Uint),
    ("double", Type::Double),
    ("string", Type::String),
    ("bytes", Type::Bytes),
    ("null_type", Type::Null),
    ("google.protobuf.Timestamp", Type::Timestamp),
    ("google.protobuf.Duration", Type::Duration),
];

// === impl Builder ===

impl Builder {
    pub fn new(options: Options) -> Self {
        let mut builder = Self::default();
        builder.base.options = options;
        for (name, ty) in TYPES {
            builder = builder.ty(name, ty);
        }
        builder
            .ty("list", Type::list(Type::Dyn))
            .ty("map", Type::map(Type::Dyn, Type::Dyn))
            .ty("type", Type::of_type(Type::Dyn))
    }

    /// Gives a type a name.
    #[must_use]
    pub fn ty(mut self, name: &str, ty: Type) -> Self {
        if let Some((first, _)) = name.split_once('.') {
            self.base.dotted.insert(first.into());
        }
        self.base.types.insert(name.into(), ty);
        self
    }

    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.base.limits = limits;
        self
    }

    /// Adds a library.
    #[must_use]
    pub fn library(mut self, library: Library) -> Self {
        let contents = library.contents();
        for row in contents.rows.iter().flat_map(|rows| rows.iter()) {
            self = self.overload(Overload::from_row(row));
        }
        for name in contents.types {
            self = self.ty(name, Type::opaque(name));
        }
        self.base.fields.extend(contents.fields.iter().copied());
        (contents.syntax)(&mut self.base.macros, &mut self.base.optionals);
        self
    }

    /// Adds an overload to the function of its name.
    #[must_use]
    pub fn overload(mut self, overload: Overload) -> Self {
        let name: Arc<str> = overload.function().into();
        let function = self
            .base
            .functions
            .entry(name.clone())
            .or_insert_with(|| Function::new(name));
        function.push(overload);
        self
    }

    #[must_use]
    pub fn macros(mut self, change: impl FnOnce(&mut MacroSet)) -> Self {
        change(&mut self.base.macros);
        self
    }

    pub fn build(self) -> Env {
        Env {
            base: Arc::new(self.base),
            variables: Arc::default(),
            locals: None,
        }
    }
}

// === impl Variables ===

impl Variables {
    /// Variables whose slots begin at `first`.
    fn new(
        container: &str,
        first: usize,
        variables: impl IntoIterator<Item = (String, Decl)>,
    ) -> Self {
        let mut table = Self {
            container: container.to_owned(),
            ..Self::default()
        };
        for (name, decl) in variables {
            let name: Arc<str> = name.into();
            let slot = Slot(u32::try_from(first + table.list.len()).unwrap_or(u32::MAX));
            table.dots = table.dots.max(name.matches('.').count());
            table.by_name.insert(name.clone(), slot);
            table.list.push(Variable {
                name,
                decl: Arc::new(decl),
            });
        }
        table
    }
}

// === impl Env ===

impl Env {
    /// The same environment with these variables instead of its own.
    #[must_use]
    pub fn with_variables(&self, variables: impl IntoIterator<Item = (String, Decl)>) -> Self {
        self.with_container("", variables)
    }

    /// Like [`Self::with_variables`], and names are looked up in the container first.
    #[must_use]
    pub fn with_container(
        &self,
        container: &str,
        variables: impl IntoIterator<Item = (String, Decl)>,
    ) -> Self {
        Self {
            base: self.base.clone(),
            variables: Arc::new(Variables::new(container, 0, variables)),
            locals: None,
        }
    }

    /// The same environment with more variables, whose slots come behind those of its own. What it
    /// has is shared, so that many can add a few each.
    #[must_use]
    pub fn with_locals(&self, locals: impl IntoIterator<Item = (String, Decl)>) -> Self {
        let first = self.variables.list.len();
        Self {
            base: self.base.clone(),
            variables: self.variables.clone(),
            locals: Some(Arc::new(Variables::new("", first, locals))),
        }
    }

    /// The same environment with variables whose data is of any shape.
    #[must_use]
    pub fn with_dynamic(&self, names: &[&str], absent: Absent) -> Self {
        self.with_variables(
            names
                .iter()
                .map(|name| ((*name).to_owned(), Decl::dynamic(absent).clone())),
        )
    }

    pub fn options(&self) -> Options {
        self.base.options
    }

    pub(crate) fn syntax(&self) -> Syntax {
        Syntax {
            limits: self.base.limits,
            macros: self.base.macros,
            optionals: self.base.optionals,
        }
    }

    /// All variables, by slot.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.tables().flat_map(|table| &table.list)
    }

    /// How many variables there are.
    pub(crate) fn size(&self) -> usize {
        self.tables().map(|table| table.list.len()).sum()
    }

    fn tables(&self) -> impl DoubleEndedIterator<Item = &Variables> {
        [Some(&self.variables), self.locals.as_ref()]
            .into_iter()
            .flatten()
            .map(|table| &**table)
    }

    /// The slot of a variable.
    pub fn slot(&self, name: &str) -> Option<Slot> {
        let mut tables = self.tables().rev();
        tables.find_map(|table| table.by_name.get(name).copied())
    }

    pub(crate) fn variable(&self, slot: Slot) -> &Variable {
        let at = slot.0 as usize;
        match (self.variables.list.get(at), &self.locals) {
            (Some(variable), _) => variable,
            (None, Some(locals)) => &locals.list[at - self.variables.list.len()],
            (None, None) => panic!("a slot of another environment"),
        }
    }

    /// The most segments that a name can have.
    fn max_segments(&self) -> usize {
        let dots = self.tables().map(|table| table.dots).max();
        // Types of the language have up to two dots.
        dots.unwrap_or(0).max(2) + 1
    }

    /// What the name at the bottom of a spine stands for, dotted as far as something is declared,
    /// and how many nodes it takes. Variables of macros are for the caller to look for first.
    pub(crate) fn leading(&self, ast: &Ast, spine: &[NodeId]) -> Option<(Named, usize)> {
        let names = ast.dotted(spine, self.max_segments());
        // Most names have no dots, and need not be put together to be looked up.
        if self.variables.container.is_empty()
            && let Some(first) = names.first()
            && !first.starts_with('.')
            && !self.base.dotted.contains(*first)
            && self.tables().all(|table| table.dots == 0)
        {
            return Some((self.exact(first)?, 1));
        }
        (1..=names.len())
            .rev()
            .find_map(|count| Some((self.name(&names[..count].join("."))?, count)))
    }

    pub(crate) fn container(&self) -> &str {
        &self.variables.container
    }

    /// What `name` can mean, most specific first.
    fn candidates<'n>(&'n self, name: &'n str) -> impl Iterator<Item = String> + 'n {
        let rooted = name.strip_prefix('.');
        let mut container = match rooted {
            Some(_) => None,
            None => Some(self.variables.container.as_str()),
        };
        let plain = rooted.unwrap_or(name);
        std::iter::from_fn(move || {
            let now = container?;
            if now.is_empty() {
                container = None;
                return Some(plain.to_owned());
            }
            container = Some(now.rsplit_once('.').map_or("", |(outer, _)| outer));
            Some(format!("{now}.{plain}"))
        })
        .chain(rooted.map(str::to_owned))
    }

    /// What a name, dotted or not, stands for.
    pub(crate) fn name(&self, name: &str) -> Option<Named> {
        if self.variables.container.is_empty() && !name.starts_with('.') {
            return self.exact(name);
        }
        self.candidates(name)
            .find_map(|candidate| self.exact(&candidate))
    }

    fn exact(&self, name: &str) -> Option<Named> {
        if let Some(slot) = self.slot(name) {
            return Some(Named::Variable(slot));
        }
        self.base.types.get(name).cloned().map(Named::Type)
    }

    /// The names of the fields of a library's type, which are strings.
    pub(crate) fn fields(&self, ty: &str) -> &'static [&'static str] {
        self.base.fields.get(ty).copied().unwrap_or_default()
    }

    /// All functions, by name.
    pub fn functions(&self) -> Vec<&Function> {
        let mut functions: Vec<&Function> = self.base.functions.values().collect();
        functions.sort_by(|a, b| a.name().cmp(b.name()));
        functions
    }

    /// The function of a name.
    pub(crate) fn function(&self, name: &str) -> Option<&Function> {
        if self.variables.container.is_empty() && !name.starts_with('.') {
            return self.base.functions.get(name);
        }
        self.candidates(name)
            .find_map(|candidate| self.base.functions.get(candidate.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bindings, Budget, Eval, Value};

    #[test]
    fn variables_that_are_added_come_behind_and_hide_others() {
        let any = || Decl::dynamic(Absent::Waits).clone();
        let shared = standard().with_dynamic(&["a", "b"], Absent::Waits);
        let env = shared.with_locals([("c".to_owned(), any()), ("a".to_owned(), any())]);
        let names: Vec<&str> = env.variables().map(|variable| &*variable.name).collect();
        assert_eq!(names, ["a", "b", "c", "a"]);
        assert_eq!(shared.slot("b"), env.slot("b"));
        assert_eq!(env.slot("a"), Some(Slot(3)));
        assert!(shared.slot("c").is_none());

        let program = crate::compile("a + b + c", &env).unwrap();
        let mut bindings = Bindings::new(&env);
        for (slot, value) in (0..4).zip([100, 20, 3, 1]) {
            bindings.set(Slot(slot), Value::Int(value));
        }
        let sum = program.eval(&bindings, Budget::default());
        assert!(matches!(sum, Eval::Value(Value::Int(24))), "{sum:?}");
    }
}
