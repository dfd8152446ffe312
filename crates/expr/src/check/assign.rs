//! Assignability, and what the variables of types stand for.

use crate::types::{Primitive, Type};

/// Types of more parts are not worked with.
const MAX_PARTS: usize = 512;

/// What each type variable stands for, with a trail to go back by.
#[derive(Debug, Default)]
pub(super) struct Mapping {
    bound: Vec<Option<Type>>,
    trail: Vec<(u32, Option<Type>)>,
}

// === impl Mapping ===

impl Mapping {
    /// A new variable.
    pub(super) fn fresh(&mut self) -> Type {
        Type::Param(self.reserve(1))
    }

    /// Makes `count` variables; returns the first.
    pub(super) fn reserve(&mut self, count: u32) -> u32 {
        let first = u32::try_from(self.bound.len()).unwrap_or(u32::MAX);
        self.bound.resize(self.bound.len() + count as usize, None);
        first
    }

    /// The last variable of those that stand for each other from `param` on. Chains of them are as
    /// long as an expression, so nothing recurses along them.
    fn last(&self, param: u32) -> u32 {
        let mut param = param;
        while let Some(Type::Param(next)) = self.find(param) {
            param = *next;
        }
        param
    }

    /// Lets every variable stand for the last one of its chain directly.
    pub(super) fn shorten(&mut self) {
        for start in 0..self.bound.len() {
            let mut param = u32::try_from(start).unwrap_or(u32::MAX);
            let last = self.last(param);
            while let Some(Type::Param(next)) = self.find(param)
                && *next != last
            {
                let next = *next;
                self.bound[param as usize] = Some(Type::Param(last));
                param = next;
            }
        }
    }

    /// Whether the type, with all that its variables stand for, is small enough to be worked
    /// with: what is shared in it is counted, and later compared, each time.
    pub(super) fn fits(&self, ty: &Type) -> bool {
        let mut left = MAX_PARTS;
        let mut parts = vec![ty];
        while let Some(part) = parts.pop() {
            if left == 0 {
                return false;
            }
            left -= 1;
            if let Type::Param(param) = part {
                parts.extend(self.find(self.last(*param)));
            } else {
                parts.extend(part.children());
            }
        }
        true
    }

    fn find(&self, param: u32) -> Option<&Type> {
        self.bound.get(param as usize).and_then(Option::as_ref)
    }

    fn bind(&mut self, param: u32, ty: Type) {
        if let Some(slot) = self.bound.get_mut(param as usize) {
            let old = slot.replace(ty);
            self.trail.push((param, old));
        }
    }

    /// Whether a `from` goes where a `to` is wanted; what variables stand for is kept if so.
    pub(super) fn assignable(&mut self, to: &Type, from: &Type) -> bool {
        self.attempt(|mapping| mapping.unify(to, from))
    }

    /// The same for lists of equal length.
    pub(super) fn all_assignable(&mut self, to: &[Type], from: &[Type]) -> bool {
        self.attempt(|mapping| mapping.unify_all(to.iter(), from.iter()))
    }

    fn attempt(&mut self, try_it: impl FnOnce(&mut Self) -> bool) -> bool {
        let mark = self.trail.len();
        let fits = try_it(self);
        if !fits {
            while self.trail.len() > mark {
                if let Some((param, old)) = self.trail.pop() {
                    self.bound[param as usize] = old;
                }
            }
        }
        if mark == 0 {
            self.trail.clear();
        }
        fits
    }

    fn unify_all<'t>(
        &mut self,
        mut a: impl ExactSizeIterator<Item = &'t Type>,
        mut b: impl ExactSizeIterator<Item = &'t Type>,
    ) -> bool {
        a.len() == b.len()
            && std::iter::from_fn(|| Some((a.next()?, b.next()?))).all(|(a, b)| self.unify(a, b))
    }

    fn unify(&mut self, a: &Type, b: &Type) -> bool {
        if let Type::Param(param) = b {
            let param = self.last(*param);
            let (valid, known) = self.substitution(a, param);
            if valid || known {
                return valid;
            }
        }
        if let Type::Param(param) = a {
            let param = self.last(*param);
            return self.substitution(b, param).0;
        }
        if a.is_dyn_or_error() || b.is_dyn_or_error() {
            return true;
        }
        match (a, b) {
            (Type::Null, other) | (other, Type::Null) => takes_null(other),
            (Type::Wrapper(a), Type::Wrapper(b)) => a == b,
            (Type::Wrapper(a), other) | (other, Type::Wrapper(a)) => &a.plain() == other,
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
                self.unify(a, b)
            }
            (Type::Map(a), Type::Map(b)) => self.unify(&a.0, &b.0) && self.unify(&a.1, &b.1),
            (Type::Opaque(a), Type::Opaque(b)) => {
                a.name == b.name && self.unify_all(a.params.iter(), b.params.iter())
            }
            _ => a == b,
        }
    }

    /// Whether `ty` can stand for the variable, and whether something does already.
    fn substitution(&mut self, ty: &Type, param: u32) -> (bool, bool) {
        let last;
        let mut ty = ty;
        if let Type::Param(other) = ty {
            last = Type::Param(self.last(*other));
            ty = &last;
        }
        if *ty == Type::Param(param) {
            return (true, true);
        }
        if let Some(known) = self.find(param).cloned() {
            if *ty == known {
                return (true, true);
            }
            if self.unify(ty, &known) {
                let general = most_general(ty, &known).clone();
                if !self.occurs(param, &general) {
                    self.bind(param, general);
                }
                return (true, true);
            }
            return (false, true);
        }
        if self.occurs(param, ty) {
            return (false, false);
        }
        self.bind(param, ty.clone());
        (true, false)
    }

    /// Whether the variable is inside the type.
    fn occurs(&self, param: u32, ty: &Type) -> bool {
        if let Type::Param(other) = ty {
            let last = self.last(*other);
            return last == param || self.find(last).is_some_and(|ty| self.occurs(param, ty));
        }
        let children = ty.children();
        children.into_iter().any(|child| self.occurs(param, child))
    }

    /// The type with variables replaced by what they stand for.
    pub(super) fn substitute(&self, ty: &Type) -> Type {
        if !ty.is_generic() {
            return ty.clone();
        }
        ty.rebuild(&mut |param| {
            let last = self.last(param);
            match self.find(last) {
                Some(ty) => self.substitute(ty),
                None => Type::Param(last),
            }
        })
    }

    /// The same, and variables that stand for nothing are `dyn`.
    pub(super) fn finished(&self, ty: &Type) -> Type {
        if !ty.is_generic() {
            return ty.clone();
        }
        ty.rebuild(&mut |param| match self.find(self.last(param)) {
            Some(ty) => self.finished(ty),
            None => Type::Dyn,
        })
    }
}

/// Types whose values may be null.
fn takes_null(ty: &Type) -> bool {
    match ty {
        Type::Null
        | Type::Wrapper(
            Primitive::Bool
            | Primitive::Int
            | Primitive::Uint
            | Primitive::Double
            | Primitive::String
            | Primitive::Bytes,
        )
        | Type::Timestamp
        | Type::Duration
        | Type::Optional(_)
        | Type::Opaque(_)
        | Type::Object(_) => true,
        Type::Dyn
        | Type::Error
        | Type::Bool
        | Type::Int
        | Type::Uint
        | Type::Double
        | Type::String
        | Type::Bytes
        | Type::List(_)
        | Type::Map(_)
        | Type::Type(_)
        | Type::Param(_) => false,
    }
}

/// The more general of two types that unify.
pub(super) fn most_general<'t>(a: &'t Type, b: &'t Type) -> &'t Type {
    match (a, b) {
        // A type whose values may be null covers null.
        (a, Type::Null) if takes_null(a) => a,
        (a, b) if less_specific(a, b) => a,
        (_, b) => b,
    }
}

fn less_specific(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Dyn | Type::Param(_), _) => true,
        (_, Type::Dyn | Type::Param(_)) => false,
        (Type::Opaque(a), Type::Opaque(b)) => {
            a.name == b.name
                && a.params.len() == b.params.len()
                && a.params
                    .iter()
                    .zip(&b.params)
                    .all(|(a, b)| less_specific(a, b))
        }
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
            less_specific(a, b)
        }
        (Type::Map(a), Type::Map(b)) => less_specific(&a.0, &b.0) && less_specific(&a.1, &b.1),
        (Type::Type(_), Type::Type(_)) => true,
        // Of a primitive and its wrapper, cel-go keeps the one that came first.
        (Type::Wrapper(a), other) => &a.plain() == other || *other == Type::Wrapper(*a),
        (other, Type::Wrapper(b)) => other == &b.plain(),
        _ => a == b,
    }
}
