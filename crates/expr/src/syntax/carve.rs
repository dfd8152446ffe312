//! Parts of a tree as trees of their own, with variables in place of what is computed elsewhere.

use std::sync::Arc;

use super::ast::{Ast, Node, NodeId};

impl Ast {
    /// The tree below `id`, with the same text and the same places in it. Where `name` gives one,
    /// a variable of that name stands for the node and all below it.
    pub fn carved(&self, id: NodeId, name: &dyn Fn(NodeId) -> Option<Arc<str>>) -> Self {
        let mut names: Vec<Option<Arc<str>>> = vec![None; self.len()];
        let mut wanted = vec![false; self.len()];
        let mut left = vec![id];
        while let Some(at) = left.pop() {
            wanted[at.index()] = true;
            names[at.index()] = name(at);
            if names[at.index()].is_none() {
                left.extend(self.node(at).children());
            }
        }
        // Children come before their parents, so that their new ids are known.
        let mut out = Self::new(self.source().clone());
        let mut moved: Vec<Option<NodeId>> = vec![None; self.len()];
        for at in self.ids().filter(|at| wanted[at.index()]) {
            let node = match names[at.index()].take() {
                Some(name) => Node::Ident(name),
                None => self.node(at).moved(&moved),
            };
            moved[at.index()] = Some(out.push(node, self.span(at)));
        }
        let root = moved[id.index()].unwrap_or(id);
        out.finish(root, Vec::new());
        out
    }
}

impl Node {
    /// The same node over the new ids of its children.
    fn moved(&self, ids: &[Option<NodeId>]) -> Self {
        let mut node = self.clone();
        node.each_child(|id| *id = ids[id.index()].unwrap_or(*id));
        node
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::print;
    use crate::{env, parse};

    #[test]
    fn parts_stand_alone_and_leave_a_name_behind() {
        let source = "a.b > 1 && c.filter(x, x.ok && has(a.d)).size() < f(a, [a.b + 2])";
        let ast = parse(source, &env::gate().build()).unwrap();
        let text = |id| print(&ast.carved(id, &|_| None));
        let all: Vec<String> = ast.ids().map(text).collect();
        assert!(all.contains(&"x.ok && has(a.d)".to_owned()), "{all:?}");
        assert_eq!(text(ast.root()), source);

        let is = |id: NodeId, wanted: &str| text(id) == wanted;
        let changed = ast.carved(ast.root(), &|id| {
            let names = [("a.b", "p"), ("c.filter(x, x.ok && has(a.d)).size()", "q")];
            let found = names.iter().find(|(part, _)| is(id, part));
            found.map(|(_, name)| Arc::from(*name))
        });
        assert_eq!(print(&changed), "p > 1 && q < f(a, [p + 2])");
        let start = changed.span(changed.root()).start;
        assert_eq!(
            (start, &**changed.source()),
            (ast.span(ast.root()).start, source)
        );
    }
}
