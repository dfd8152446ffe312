//! Calls: names of functions, overloads, indexing.

use std::cmp::Reverse;
use std::sync::Arc;

use super::Checker;
use crate::env::{Function, Overload};
use crate::span::MAX_PROBLEMS;
use crate::syntax::NodeId;
use crate::types::Type;

/// Of a function that is called wrongly, so many signatures are shown.
const MAX_EXPECTED: usize = 5;

/// Overloads that order numbers of different kinds: not everyone wants them.
fn is_cross_type(overload: &Overload) -> bool {
    let kinds = &overload.signature().params;
    let ordered = matches!(overload.function(), "_<_" | "_<=_" | "_>_" | "_>=_");
    ordered && kinds[0] != kinds[1]
}

impl Checker<'_> {
    pub(super) fn call(
        &mut self,
        id: NodeId,
        function: &str,
        target: Option<NodeId>,
        args: &[NodeId],
    ) -> Type {
        // What is formatted need not be of one type, nor what it is made of.
        let mixed = self.mixed;
        self.mixed |= function == "format";
        let ty = self.call_on(id, function, target, args);
        self.mixed = mixed;
        ty
    }

    fn call_on(
        &mut self,
        id: NodeId,
        function: &str,
        target: Option<NodeId>,
        args: &[NodeId],
    ) -> Type {
        for &arg in args {
            self.node(arg);
        }
        let Some(target) = target else {
            return self.resolve(id, function, args, false);
        };
        if let Some(prefix) = self.ast.qualified_name(target) {
            let name = format!("{prefix}.{function}");
            let first = prefix.split('.').next().unwrap_or_default();
            let is_local = self.scopes.iter().any(|(local, _)| &**local == first);
            if !is_local && self.env.function(&name).is_some() {
                self.namespaced[id.index()] = true;
                return self.resolve(id, &name, args, false);
            }
        }
        self.node(target);
        self.literals.call(id, function);
        let mut all = vec![target];
        all.extend_from_slice(args);
        self.resolve(id, function, &all, true)
    }

    /// Finds the overloads that take the arguments, and with them the type of the call.
    pub(super) fn resolve(
        &mut self,
        id: NodeId,
        name: &str,
        args: &[NodeId],
        member: bool,
    ) -> Type {
        let env = self.env;
        let Some(function) = env.function(name) else {
            let message = format!(
                "undeclared reference to '{name}' (in container '{}')",
                env.container()
            );
            self.problem(self.ast.span(id), message);
            return Type::Error;
        };
        let types: Vec<Type> = args.iter().map(|&arg| self.ty(arg).clone()).collect();
        match self.overloads_for(function, &types, member) {
            Some((ty, overloads)) => {
                self.overloads[id.index()] = Some(overloads);
                ty
            }
            None => {
                let found: Vec<String> = types
                    .iter()
                    .map(|ty| self.mapping.finished(ty).to_string())
                    .collect();
                let shown = match (member, found.split_first()) {
                    (true, Some((target, rest))) => format!("{target}.({})", rest.join(", ")),
                    _ => format!("({})", found.join(", ")),
                };
                let message =
                    format!("found no matching overload for '{name}' applied to '{shown}'");
                self.problem(self.ast.span(id), message);
                self.expecting(function, &types, member);
                Type::Error
            }
        }
    }

    /// Says of the last problem, a call, which calls would do: the same way of calling first, then
    /// as many arguments, then as many of their types as possible.
    fn expecting(&mut self, function: &Function, types: &[Type], member: bool) {
        // Not every problem is kept.
        if self.problems.len() >= MAX_PROBLEMS {
            return;
        }
        let Some(problem) = self.problems.last() else {
            return;
        };
        let cross = self.env.options().cross_type_numbers;
        let near = |overload: &Arc<Overload>| {
            let signature = overload.signature();
            let fits = |(ty, param): (&Type, &Type)| {
                let ty = self.mapping.finished(ty);
                ty.is_dyn_or_error()
                    || matches!(param, Type::Param(_) | Type::Dyn)
                    || ty.name() == param.name()
            };
            let fitting = types
                .iter()
                .zip(&signature.params)
                .filter(|&pair| fits(pair));
            (
                signature.member != member,
                signature.params.len() != types.len(),
                Reverse(fitting.count()),
            )
        };
        let mut nearest: Vec<&Arc<Overload>> = function.overloads().iter().collect();
        nearest.retain(|overload| cross || !is_cross_type(overload));
        nearest.sort_by_cached_key(|overload| near(overload));
        let mut shown: Vec<String> = nearest
            .iter()
            .take(MAX_EXPECTED)
            .map(|overload| overload.signature().to_string())
            .collect();
        if nearest.len() > MAX_EXPECTED {
            shown.push(format!("{} more", nearest.len() - MAX_EXPECTED));
        }
        self.expected.push((problem.clone(), shown));
    }

    fn overloads_for(
        &mut self,
        function: &Function,
        types: &[Type],
        member: bool,
    ) -> Option<(Type, Arc<[Arc<Overload>]>)> {
        let cross = self.env.options().cross_type_numbers;
        let mut result: Option<Type> = None;
        let mut found: Vec<Arc<Overload>> = Vec::new();
        for overload in function.overloads() {
            let signature = overload.signature();
            let style = signature.member == member && signature.params.len() == types.len();
            if !style || (!cross && is_cross_type(overload)) {
                continue;
            }
            let fits;
            let returned;
            if overload.generics() == 0 {
                fits = self.mapping.all_assignable(types, &signature.params);
                returned = signature.result.clone();
            } else {
                let base = self.mapping.reserve(overload.generics());
                let fresh = |ty: &Type| ty.rebuild(&mut |param| Type::Param(base + param));
                let params: Vec<Type> = signature.params.iter().map(fresh).collect();
                fits = self.mapping.all_assignable(types, &params);
                returned = fresh(&signature.result);
            }
            if !fits {
                continue;
            }
            found.push(overload.clone());
            let returned = self.mapping.substitute(&returned);
            result = Some(match result {
                None => returned,
                Some(before) if before.is_dyn() || before == returned => before,
                Some(_) => Type::Dyn,
            });
        }
        Some((result?, found.into()))
    }

    pub(super) fn index(
        &mut self,
        id: NodeId,
        operand: NodeId,
        index: NodeId,
        optional: bool,
    ) -> Type {
        self.node(index);
        let name = if optional { "_[?_]" } else { "_[_]" };
        self.resolve(id, name, &[operand, index], false)
    }
}
