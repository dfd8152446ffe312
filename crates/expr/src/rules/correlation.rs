//! What a value was before, for ratcheting: found on the way down, compared at most once.

use std::cell::OnceCell;

use deltaplane_schema::Node;
use serde_json::Value as Json;

/// A value, and what it was.
pub(super) struct Pair<'a> {
    new: &'a Json,
    old: &'a Json,
    node: Node<'a>,
    unchanged: OnceCell<bool>,
}

/// The past of the value that is being judged: its own or, if it has none that can be told, that
/// of the nearest value around it that has.
#[derive(Clone, Copy, Default)]
pub(super) struct Past<'p, 'a> {
    own: Option<&'p Pair<'a>>,
    nearest: Option<&'p Pair<'a>>,
}

// === impl Pair ===

impl<'a> Pair<'a> {
    pub(super) fn new(new: &'a Json, old: &'a Json, node: Node<'a>) -> Self {
        Self {
            new,
            old,
            node,
            unchanged: OnceCell::new(),
        }
    }

    fn unchanged(&self) -> bool {
        *self
            .unchanged
            .get_or_init(|| self.node.is_unchanged(self.new, self.old))
    }

    /// The field `name`, if it was there before.
    pub(super) fn field(&self, name: &str) -> Option<Self> {
        let (new, old) = (self.new.get(name)?, self.old.get(name)?);
        Some(Self::new(new, old, self.node.child(name)?))
    }

    /// An item, and what it was.
    pub(super) fn item(&self, new: &'a Json, old: &'a Json) -> Option<Self> {
        Some(Self::new(new, old, self.node.items()?))
    }
}

// === impl Past ===

impl<'p, 'a> Past<'p, 'a> {
    pub(super) fn of(pair: Option<&'p Pair<'a>>) -> Self {
        Self {
            own: pair,
            nearest: None,
        }
    }

    /// Whether rules that fail are only warned of.
    pub(super) fn unchanged(&self) -> bool {
        self.own.or(self.nearest).is_some_and(Pair::unchanged)
    }

    pub(super) fn own(&self) -> Option<&'p Pair<'a>> {
        self.own
    }

    /// Whether this is the whole object.
    pub(super) fn is_root(&self) -> bool {
        self.nearest.is_none()
    }

    /// The past of a value in this one.
    pub(super) fn below<'q>(self, child: Option<&'q Pair<'a>>) -> Past<'q, 'a>
    where
        'p: 'q,
    {
        match self.own {
            Some(own) => Past {
                own: child,
                nearest: Some(own),
            },
            None => self,
        }
    }
}
