//! Calls.

use std::ops::Add as _;

use super::{Coster, Interval, Operand, Step};
use crate::cost::{Cost, MAX_FORMAT_REGEX, REGEX, TRAVERSAL};
use crate::syntax::{Literal, Node, NodeId};
use crate::types::Type;

/// What a call costs, and how large its result is.
struct Estimated {
    cost: Interval,
    size: Option<Interval>,
}

fn only(cost: Interval) -> Estimated {
    Estimated { cost, size: None }
}

fn with(cost: Interval, size: Interval) -> Estimated {
    Estimated {
        cost,
        size: Some(size),
    }
}

/// A character takes up to four bytes.
fn as_bytes(text: Interval) -> Interval {
    Interval::new(text.min, text.max.wrapping_mul(4))
}

fn as_text(bytes: Interval) -> Interval {
    Interval::new(bytes.min / 4, bytes.max)
}

/// Every character may need an escape, and there are two quotes.
fn quoted(text: Interval) -> Interval {
    Interval::new(
        text.min.saturating_add(2),
        text.max.saturating_mul(2).saturating_add(2),
    )
}

impl Coster<'_> {
    /// The cost of a call with its arguments; that of a target is the caller's.
    pub(super) fn call_cost(
        &mut self,
        id: NodeId,
        operands: &[Operand],
        costs: &[Interval],
        member: bool,
    ) -> Interval {
        let arguments = costs
            .iter()
            .fold(Interval::fixed(0), |sum, cost| sum.add(*cost));
        let Some(overloads) = self.checked.overloads(id).cloned() else {
            return Interval::fixed(0);
        };
        if overloads
            .iter()
            .any(|overload| overload.function() == "dyn")
            && let Some(argument) = operands.first().and_then(|operand| operand.node)
        {
            self.sizes[id.index()] = self.size(argument);
            self.entries[id.index()] = self.entry(argument);
            return Interval::fixed(1).add(arguments);
        }
        let mut cost = Interval::NOTHING;
        let mut size: Option<Interval> = None;
        for overload in overloads.iter() {
            let estimated = self.function(overload.cost, overload.function(), operands, member);
            cost = cost.union(estimated.cost.add(arguments));
            size = match (size, estimated.size) {
                (Some(a), Some(b)) => Some(a.union(b)),
                (a, b) => a.or(b),
            };
            let step = match overload.id() {
                "index_list" => Some(Step::Items),
                "index_map" => Some(Step::Values),
                _ => None,
            };
            let container = operands.first().and_then(|operand| operand.node);
            if let (Some(step), Some(container)) = (step, container) {
                size = self.entry(container).map(|entry| entry.value);
                self.paths[id.index()] = self.extended(container, step);
            }
            if size.is_none() {
                size = self.size(id);
            }
        }
        if let Some(size) = size {
            self.sizes[id.index()] = Some(size);
        }
        self.joined_entries(id, operands);
        cost
    }

    /// Adding two lists whose items have known sizes.
    fn joined_entries(&mut self, id: NodeId, operands: &[Operand]) {
        let is_addition = matches!(
            self.ast.node(id),
            Node::Binary(crate::syntax::Binary::Add, ..)
        );
        if let ([a, b], true) = (operands, is_addition)
            && let (Some(a), Some(b)) = (a.node, b.node)
            && let (Some(a), Some(b)) = (self.entry(a), self.entry(b))
        {
            self.entries[id.index()] = Some(a.union(b));
        }
    }

    fn sized(&self, operand: &Operand) -> Interval {
        operand
            .size
            .or_else(|| self.declared(operand.path.as_ref()))
            .unwrap_or(Interval::UNKNOWN)
    }

    /// The items of a list, as an operand of their own; nothing for what is no list.
    fn items(&self, list: &Operand) -> Option<Operand> {
        let ty = match &list.ty {
            Type::List(item) | Type::Optional(item) => (**item).clone(),
            Type::Map(pair) => pair.0.clone(),
            Type::Dyn
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
            | Type::Type(_)
            | Type::Param(_)
            | Type::Opaque(_)
            | Type::Object(_) => return None,
        };
        let path = list
            .path
            .as_deref()
            .map(|path| path.iter().cloned().chain([Step::Items]).collect());
        Some(Operand {
            size: None,
            path,
            ty,
            node: None,
        })
    }

    fn function(&self, cost: Cost, name: &str, operands: &[Operand], member: bool) -> Estimated {
        // What cel-go knows itself takes only what was computed, not what is declared.
        let computed = |at: usize| {
            operands
                .get(at)
                .and_then(|one| one.size)
                .unwrap_or(Interval::UNKNOWN)
        };
        let sized = |at: usize| {
            operands
                .get(at)
                .map_or(Interval::UNKNOWN, |one| self.sized(one))
        };
        let unit = Interval::fixed(1);
        let scan = |size: Interval| size.scale(TRAVERSAL);
        match cost {
            Cost::Free => only(Interval::fixed(0)),
            Cost::Unit => only(unit),
            Cost::Fixed(amount) => only(Interval::fixed(amount)),
            Cost::Scan => with(scan(sized(0)), sized(0)),
            Cost::Parse => only(scan(sized(0))),
            Cost::ParseTwice => only(sized(0).scale(2.0 * TRAVERSAL)),
            Cost::Prefix => only(scan(computed(1))),
            Cost::ToBytes => with(scan(computed(0)), as_bytes(computed(0))),
            Cost::FromBytes => with(scan(computed(0)), as_text(computed(0))),
            Cost::Quote => with(scan(computed(0)), quoted(computed(0))),
            Cost::Format => only(scan(computed(0))),
            Cost::InList => only(computed(1)),
            Cost::Compare => only(self.comparison(name, operands)),
            Cost::Concatenate => {
                let size = computed(0).add(computed(1));
                Estimated {
                    cost: scan(size),
                    size: Some(size),
                }
            }
            Cost::AddLists => Estimated {
                cost: unit,
                size: Some(computed(0).add(computed(1))),
            },
            Cost::Matches if member => only(pattern(computed(0), computed(1))),
            Cost::Matches => only(unit),
            Cost::Find => Estimated {
                cost: pattern(sized(0), sized(1)),
                size: Some(Interval::new(0, sized(0).max)),
            },
            Cost::Contains => only(scan(computed(0)).multiply(scan(computed(1)))),
            Cost::Traverse => only(self.traversal(operands)),
            Cost::Replace => self.replacement(operands),
            Cost::Split => self.splitting(operands),
            Cost::Join => self.joining(operands),
            Cost::ContainsIp => only(scan(ADDRESS.add(ADDRESS))),
            Cost::ContainsIpString => only(scan(ADDRESS.add(ADDRESS)).add(scan(sized(1)))),
            Cost::ContainsCidr => only(scan(ADDRESS.add(ADDRESS)).add(scan(ADDRESS)).add(unit)),
            Cost::ContainsCidrString => only(
                scan(ADDRESS.add(ADDRESS))
                    .add(scan(ADDRESS))
                    .add(unit)
                    .add(scan(sized(1))),
            ),
            Cost::Validate => only(scan(sized(1)).scale(REGEX * float(MAX_FORMAT_REGEX))),
            Cost::Selector => {
                let requirements = sized(1).scale(0.5).scale(50.0);
                only(Interval::fixed(10).add(scan(sized(1))).add(requirements))
            }
            Cost::Sets(factor) => only(sized(0).multiply(sized(1)).scale(float(factor)).add(unit)),
            Cost::ListCopy => self.copying(name, operands),
            Cost::Flatten => {
                let depth = match operands.get(1) {
                    Some(depth) => self.literal(depth).unwrap_or(u64::MAX),
                    None => 1,
                };
                allocating(float(depth), sized(0))
            }
            Cost::SelfCompare => {
                let texts = name == "sort"
                    && matches!(&operands[0].ty, Type::List(item) if matches!(**item, Type::String | Type::Bytes));
                allocating(if texts { 2.1 } else { 2.0 }, sized(0).multiply(sized(0)))
            }
        }
    }

    fn comparison(&self, name: &str, operands: &[Operand]) -> Interval {
        let [a, b] = operands else {
            return Interval::fixed(1);
        };
        if name == "_==_"
            && let (Type::Opaque(x), Type::Opaque(y)) = (&a.ty, &b.ty)
            && x.name == y.name
        {
            let most = match &*x.name {
                "net.IP" | "net.CIDR" | "kubernetes.Quantity" | "kubernetes.Semver" => {
                    return Interval::fixed(1);
                }
                "kubernetes.NamedFormat" => Some(64),
                "kubernetes.URL" => Some(b.size.map_or(1, |size| size.max)),
                _ => None,
            };
            if let Some(most) = most {
                return Interval::new(1, most).scale(TRAVERSAL);
            }
        }
        let size = |operand: &Operand| operand.size.unwrap_or(Interval::UNKNOWN);
        let most = size(a).max.min(size(b).max);
        Interval::new(u64::from(most > 0), most).scale(TRAVERSAL)
    }

    fn traversal(&self, operands: &[Operand]) -> Interval {
        let target = self.sized(&operands[0]);
        let Some(item) = self.items(&operands[0]) else {
            return target.scale(TRAVERSAL);
        };
        let mut each = Interval::fixed(1);
        if matches!(item.ty, Type::String | Type::Bytes) {
            each = each.add(self.sized(&item).scale(TRAVERSAL));
        }
        target.multiply(each)
    }

    /// The number that an operand is, if it is a literal.
    fn literal(&self, operand: &Operand) -> Option<u64> {
        if let Node::Literal(Literal::Int(value)) = self.ast.node(operand.node?) {
            Some(u64::try_from(*value).unwrap_or(0))
        } else {
            None
        }
    }

    fn copying(&self, name: &str, operands: &[Operand]) -> Estimated {
        let size = match name {
            "slice" => {
                let start = self.literal(&operands[1]).unwrap_or(0);
                let end = self
                    .literal(&operands[2])
                    .unwrap_or(self.sized(&operands[0]).max);
                Interval::fixed(end.wrapping_sub(start))
            }
            "lists.range" => Interval::fixed(self.literal(&operands[0]).unwrap_or(u64::MAX)),
            _ => self.sized(&operands[0]),
        };
        allocating(1.0, size)
    }

    fn replacement(&self, operands: &[Operand]) -> Estimated {
        let [size, from, to] = [0, 1, 2].map(|at| self.sized(&operands[at]));
        let (mut count, mut kept) = (Interval::fixed(0), Interval::fixed(0));
        if from.min == 0 {
            count.max = size.max.saturating_add(1);
            kept.max = size.max;
        } else if to.max <= from.min {
            kept.max = size.max;
        } else {
            count.max = divided(size.max, from.min);
        }
        if from.max == 0 {
            count.min = size.min.saturating_add(1);
            kept.min = size.min;
        } else if from.max <= to.min {
            kept.min = size.min;
        } else {
            count.min = divided(size.min, from.max);
        }
        Estimated {
            cost: size.scale(2.0 * TRAVERSAL),
            size: Some(count.multiply(to).add(kept)),
        }
    }

    fn splitting(&self, operands: &[Operand]) -> Estimated {
        let size = self.sized(&operands[0]);
        let most = match operands
            .get(2)
            .and_then(|limit| limit.node)
            .map(|node| self.ast.node(node))
        {
            Some(Node::Literal(Literal::Int(limit))) => limit.cast_unsigned(),
            _ => size.max,
        };
        Estimated {
            cost: size.scale(2.0 * TRAVERSAL),
            size: Some(Interval::new(0, most)),
        }
    }

    fn joining(&self, operands: &[Operand]) -> Estimated {
        let count = self.sized(&operands[0]);
        let mut size = match self.items(&operands[0]) {
            Some(item) => count.multiply(self.sized(&item)),
            None => Interval::fixed(0),
        };
        if let Some(separator) = operands.get(1) {
            let gaps = Interval::new(count.min.saturating_sub(1), count.max.saturating_sub(1));
            size = size.add(self.sized(separator).multiply(gaps));
        }
        Estimated {
            cost: size.scale(TRAVERSAL),
            size: Some(size),
        }
    }
}

/// The bytes of an address.
const ADDRESS: Interval = Interval::new(4, 16);

fn pattern(text: Interval, pattern: Interval) -> Interval {
    let text = text.add(Interval::fixed(1)).scale(TRAVERSAL);
    text.multiply(pattern.scale(REGEX))
}

fn allocating(factor: f64, size: Interval) -> Estimated {
    Estimated {
        cost: size.scale(factor).add(Interval::fixed(1 + 10)),
        size: Some(size),
    }
}

#[expect(clippy::cast_precision_loss, reason = "as in cel-go")]
fn float(value: u64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is too large saturates"
)]
fn divided(a: u64, b: u64) -> u64 {
    (float(a) / float(b)).ceil() as u64
}
