//! Which names an expression may use, by where it stands.

use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;

use deltaplane_expr::check::Reference;
use deltaplane_expr::{Absent, Decl, Env, Library, env};

use crate::definition::Definition;

/// The instance.
pub(crate) const SCHEMA: &str = "schema";
/// One object of a collection.
pub(crate) const EACH: &str = "each";

/// The names of a definition.
pub(crate) struct Names<'d> {
    /// Declares them and `each`, without types.
    env: Env,
    /// The place of each resource. Of two with the same id the first one counts.
    pub(crate) ids: HashMap<&'d str, usize>,
}

/// Where an expression stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    Template,
    ForEach,
    IncludeWhen,
    /// Of one object.
    ReadyWhen,
    /// Of each object of a collection.
    ReadyWhenEach,
    /// Of each object of others: they have kro's name, the list, too.
    ReadyWhenSelected,
    Status,
    /// An entry of `status.conditions`.
    Condition,
    /// `propagateWhen` or `orderBy` of a resource.
    Gate,
}

/// The names that the expressions of one resource, or of none, can have.
pub(crate) struct Scope<'s> {
    pub(crate) names: &'s Names<'s>,
    pub(crate) env: Env,
    /// The resource, if it is one's.
    pub(crate) own: Option<usize>,
    pub(crate) iterators: Vec<&'s str>,
}

/// What an expression reads, by places in the definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Roots {
    pub(crate) schema: bool,
    pub(crate) nodes: BTreeSet<usize>,
    pub(crate) iterators: BTreeSet<usize>,
    pub(crate) each: bool,
    /// All that it reads.
    pub(crate) paths: Vec<deltaplane_expr::Path>,
}

/// kro's functions, with `omit()`, whose use is restricted here.
pub(crate) fn base() -> &'static Env {
    static BASE: OnceLock<Env> = OnceLock::new();
    BASE.get_or_init(|| env::kro().library(Library::KroOmit).build())
}

// === impl Names ===

impl<'d> Names<'d> {
    pub(crate) fn of(definition: &'d Definition) -> Self {
        let mut ids = HashMap::new();
        for (index, resource) in definition.resources().iter().enumerate() {
            ids.entry(resource.id.as_str()).or_insert(index);
        }
        let variables = definition.resources().iter().map(|one| one.id.clone());
        let variables = [SCHEMA.to_owned()].into_iter().chain(variables);
        let env = base().with_variables(variables.map(|name| (name, any())));
        Self {
            env: env.with_locals([(EACH.to_owned(), any())]),
            ids,
        }
    }

    /// The names of a resource with these iterators, or of the instance.
    pub(crate) fn scope<'s>(
        &'s self,
        own: Option<usize>,
        for_each: &'s [(String, String)],
    ) -> Scope<'s> {
        let iterators: Vec<&str> = for_each.iter().map(|(name, _)| name.as_str()).collect();
        let locals = iterators.iter().copied().chain([EACH]);
        let locals = locals.map(|name| (name.to_owned(), any()));
        Scope {
            names: self,
            env: match iterators.is_empty() {
                true => self.env.clone(),
                false => self.env.with_locals(locals),
            },
            own,
            iterators,
        }
    }
}

fn any() -> Decl {
    Decl::dynamic(Absent::Waits).clone()
}

// === impl Scope ===

impl Scope<'_> {
    /// The names that an expression may use, for those who look for the one that was meant.
    pub(crate) fn allowed(&self, context: Context) -> Vec<&str> {
        let mut allowed: Vec<&str> = Vec::new();
        for variable in self.env.variables() {
            let mut roots = Roots::default();
            if self.admit(&variable.name, context, &mut roots).is_ok() {
                allowed.push(&variable.name);
            }
        }
        allowed
    }

    /// Notes what a reference reads, or says why it may not.
    pub(crate) fn note(
        &self,
        reference: &Reference,
        context: Context,
        roots: &mut Roots,
    ) -> Result<(), Refused> {
        self.admit(&reference.path.root, context, roots)?;
        roots.paths.push(reference.path.clone());
        Ok(())
    }

    fn admit(&self, name: &str, context: Context, roots: &mut Roots) -> Result<(), Refused> {
        if let Some(at) = self.iterators.iter().position(|one| *one == name) {
            roots.iterators.insert(at);
            return match context {
                Context::Template | Context::Gate => Ok(()),
                Context::ForEach => Err(Refused::Iterator),
                Context::IncludeWhen
                | Context::ReadyWhen
                | Context::ReadyWhenEach
                | Context::ReadyWhenSelected
                | Context::Status
                | Context::Condition => Err(Refused::NotHere),
            };
        }
        match name {
            SCHEMA => {
                roots.schema = true;
                context.sees_others()
            }
            EACH => {
                roots.each = true;
                match context {
                    Context::ReadyWhenEach | Context::ReadyWhenSelected => Ok(()),
                    Context::Template
                    | Context::ForEach
                    | Context::IncludeWhen
                    | Context::ReadyWhen
                    | Context::Status
                    | Context::Condition
                    | Context::Gate => Err(Refused::NotHere),
                }
            }
            id => self.resource(id, context, roots),
        }
    }

    fn resource(&self, id: &str, context: Context, roots: &mut Roots) -> Result<(), Refused> {
        let Some(index) = self.names.ids.get(id).copied() else {
            return Err(Refused::NotHere);
        };
        if self.own != Some(index) {
            roots.nodes.insert(index);
            return context.sees_others();
        }
        match context {
            Context::ReadyWhen | Context::ReadyWhenSelected | Context::Gate => Ok(()),
            Context::ReadyWhenEach => Err(Refused::NotHere),
            Context::Template
            | Context::ForEach
            | Context::IncludeWhen
            | Context::Status
            | Context::Condition => Err(Refused::Own),
        }
    }
}

/// Why a name may not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// A resource cannot be made of itself.
    Own,
    /// Dimensions are independent of each other.
    Iterator,
    NotHere,
}

// === impl Context ===

impl Context {
    /// Whether the instance and other resources can be read.
    fn sees_others(self) -> Result<(), Refused> {
        match self {
            Self::Template
            | Self::ForEach
            | Self::IncludeWhen
            | Self::Status
            | Self::Condition
            | Self::Gate => Ok(()),
            Self::ReadyWhen | Self::ReadyWhenEach | Self::ReadyWhenSelected => {
                Err(Refused::NotHere)
            }
        }
    }

    /// What it is called.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Template => "a template",
            Self::ForEach => "forEach",
            Self::IncludeWhen => "includeWhen",
            Self::ReadyWhen => "readyWhen",
            Self::ReadyWhenEach | Self::ReadyWhenSelected => "readyWhen of a collection",
            Self::Status => "a status field",
            Self::Condition => "status.conditions",
            Self::Gate => "a gate",
        }
    }
}
