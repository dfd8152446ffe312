//! Macros that go through lists and maps, and `optMap`.

use std::sync::Arc;

use super::Checker;
use crate::syntax::{Fold, FoldKind, NodeId};
use crate::types::Type;

impl Checker<'_> {
    pub(super) fn fold(&mut self, fold: &Fold) -> Type {
        self.node(fold.range);
        let range = self.resolved(fold.range);
        let (key, value) = self.variables(fold, &range);
        let names = match &fold.var2 {
            Some(second) => vec![(fold.var.clone(), key.clone()), (second.clone(), value)],
            None => {
                let single = if matches!(range, Type::Map(_)) {
                    key.clone()
                } else {
                    value
                };
                vec![(fold.var.clone(), single)]
            }
        };
        let item = names[names.len() - 1].1.clone();
        self.scoped(&names, |checker| {
            if let Some(filter) = fold.filter {
                checker.node(filter);
                checker.expect(filter, &Type::Bool);
            }
            checker.node(fold.body);
            checker.fold_result(fold, &range, key, item)
        })
    }

    /// The types of the variables: index or key, and item or value.
    fn variables(&mut self, fold: &Fold, range: &Type) -> (Type, Type) {
        match range {
            Type::List(item) => (Type::Int, (**item).clone()),
            Type::Map(pair) => pair.as_ref().clone(),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.mapping.assignable(&Type::Dyn, range);
                (Type::Dyn, Type::Dyn)
            }
            other @ (Type::Null
            | Type::Bool
            | Type::Int
            | Type::Uint
            | Type::Double
            | Type::String
            | Type::Bytes
            | Type::Timestamp
            | Type::Duration
            | Type::Wrapper(_)
            | Type::Optional(_)
            | Type::Type(_)
            | Type::Opaque(_)
            | Type::Object(_)) => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension \
                     (must be list, map, or dynamic)"
                );
                self.problem(self.ast.span(fold.range), message);
                (Type::Error, Type::Error)
            }
        }
    }

    fn fold_result(&mut self, fold: &Fold, range: &Type, key: Type, item: Type) -> Type {
        match fold.kind {
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne | FoldKind::ExistsOneCamel => {
                self.expect(fold.body, &Type::Bool);
                Type::Bool
            }
            FoldKind::Filter => {
                self.expect(fold.body, &Type::Bool);
                Type::list(item)
            }
            FoldKind::Map | FoldKind::TransformList => Type::list(self.resolved(fold.body)),
            FoldKind::TransformMap => Type::map(key, self.resolved(fold.body)),
            FoldKind::TransformMapEntry => {
                let wanted = Type::map(self.mapping.fresh(), self.mapping.fresh());
                self.expect(fold.body, &wanted);
                self.mapping.substitute(&wanted)
            }
            FoldKind::SortBy => {
                self.sort_key(fold.body);
                if let Type::List(_) = range {
                    range.clone()
                } else {
                    Type::list(Type::Dyn)
                }
            }
        }
    }

    fn sort_key(&mut self, body: NodeId) {
        let ty = self.resolved(body);
        let ordered = ty.is_dyn_or_error()
            || matches!(ty, Type::String | Type::Bytes | Type::Param(_))
            || (ty.is_scalar() && !matches!(ty, Type::Optional(_)));
        if !ordered {
            let message = format!("type '{ty}' has no order to sort by");
            self.problem(self.ast.span(body), message);
        }
    }

    pub(super) fn opt_map(
        &mut self,
        target: NodeId,
        name: &Arc<str>,
        (body, flat): (NodeId, bool),
    ) -> Type {
        self.node(target);
        let wanted = Type::optional(self.mapping.fresh());
        self.expect(target, &wanted);
        let inner = match self.mapping.substitute(&wanted) {
            Type::Optional(inner) => (*inner).clone(),
            other @ (Type::Dyn
            | Type::Error
            | Type::Null
            | Type::Bool
            | Type::Int
            | Type::Uint
            | Type::Double
            | Type::String
            | Type::Bytes
            | Type::Timestamp
            | Type::Duration
            | Type::Wrapper(_)
            | Type::List(_)
            | Type::Map(_)
            | Type::Type(_)
            | Type::Param(_)
            | Type::Opaque(_)
            | Type::Object(_)) => other,
        };
        let body_type = self.scoped(&[(name.clone(), inner)], |checker| checker.node(body));
        if !flat {
            return Type::optional(self.mapping.substitute(&body_type));
        }
        let wanted = Type::optional(self.mapping.fresh());
        self.expect(body, &wanted);
        self.mapping.substitute(&wanted)
    }
}
