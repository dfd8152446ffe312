//! In which order items are asked. It is total and depends on nothing but the items.

use std::cmp::Ordering;

use deltaplane_expr::check::check;
use deltaplane_expr::syntax::{Ast, Node};
use deltaplane_expr::{Bindings, Env, Fault, Problem, Program, Slot, Timestamp, Type, Value};
use serde_json::{Map, Value as Json};

use crate::functions::WINDOW;
use crate::gate::{GateProblems, tree};
use crate::scope::Scope;
use crate::seen::Seen;
use crate::subject::{Health, Standing};
use crate::work::Work;

/// What items are ordered by before anything else, smallest first.
#[derive(Debug)]
pub struct Order {
    program: Program,
    items: Vec<Slot>,
}

/// Why an item has no place of its own: it comes after those that have one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unordered {
    pub key: String,
    pub message: String,
    /// Its value is of a type that has no order, and not only missing.
    pub wrong_type: bool,
}

/// What an expression gave to order by. Kinds of values come one after the other.
#[derive(Clone, Debug)]
enum Rank {
    Bool(bool),
    /// As a double, then exactly.
    Number(f64, i128),
    /// Its first bytes, then all: most are told apart without looking elsewhere for them.
    Text(u128, String),
    Time(Timestamp),
    /// It gave none.
    Last,
}

/// The place of a candidate, as far as it takes no more than numbers to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    standing: Turn,
    /// What does not exist yet is the youngest.
    created: (bool, Option<Timestamp>),
    /// Their first bytes.
    namespace: u128,
    name: u128,
}

/// Whose turn it is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Overtaken,
    Failed,
    Ready,
    Broken,
}

// === impl Order ===

impl Order {
    /// Compiles `orderBy`: an expression over the item, bare or as `${…}`, that does not depend on
    /// the time.
    pub fn compile(text: &str, scope: &Scope) -> Result<Self, GateProblems> {
        let ast = tree(text, scope.env(), &refusals).map_err(GateProblems)?;
        let env = scope.env();
        let checked = check(&ast, env).expect("it was checked");
        let names = scope.names().keys().filter(|name| scope.is_item(name));
        Ok(Self {
            items: names.filter_map(|name| env.slot(name)).collect(),
            program: deltaplane_expr::lower(&ast, Some(&checked), env)
                .expect("what is wrong with patterns is found when they are used"),
        })
    }

    pub(crate) fn env(&self) -> &Env {
        self.program.env()
    }

    fn rank<'a>(
        &'a self,
        bindings: &mut Bindings<'a>,
        seen: &'a Seen<'a>,
        work: &mut Work,
    ) -> Result<Rank, (String, bool)> {
        for slot in &self.items {
            bindings.set(*slot, Value::Host(seen));
        }
        match work.eval(&self.program, bindings) {
            Ok(value) => {
                let found = Rank::of(&value);
                found.ok_or_else(|| (no_order(&value.type_of().to_string()), true))
            }
            Err(Fault::Waiting(path)) => Err((format!("waiting for {path}"), false)),
            Err(Fault::Failed(failure)) => Err((failure.reason.to_string(), false)),
            Err(Fault::Stopped(stopped)) => Err((stopped.to_string(), false)),
        }
    }
}

fn no_order(found: &str) -> String {
    format!("orderBy must be a number, string, boolean or timestamp, and is of type '{found}'")
}

/// What cannot be ordered by.
fn refusals(ast: &Ast, ty: &Type) -> Vec<Problem> {
    let problem = |id, message| Problem {
        span: ast.span(id),
        message,
    };
    let unordered = || no_order(&ty.to_string());
    let root = ast.root();
    let unordered = (!is_ordered(ty)).then(|| problem(root, unordered()));
    let is_timed = |function: &str, target: bool| match function {
        WINDOW => !target,
        "now" => target,
        _ => false,
    };
    let timed = ast.ids().filter(|id| {
        matches!(
            ast.node(*id),
            Node::Call { function, target, .. } if is_timed(function, target.is_some())
        )
    });
    let timed = timed.map(|id| problem(id, "the order does not depend on the time".to_owned()));
    unordered.into_iter().chain(timed).collect()
}

fn is_ordered(ty: &Type) -> bool {
    match ty {
        Type::Dyn
        | Type::Bool
        | Type::Int
        | Type::Uint
        | Type::Double
        | Type::String
        | Type::Timestamp
        | Type::Wrapper(_) => true,
        Type::Error
        | Type::Bytes
        | Type::Duration
        | Type::Null
        | Type::List(_)
        | Type::Map(_)
        | Type::Optional(_)
        | Type::Type(_)
        | Type::Param(_)
        | Type::Opaque(_)
        | Type::Object(_) => false,
    }
}

/// The candidates in order, and those of them that `orderBy` gave no place: also those for which
/// nothing was left to evaluate it with.
pub(crate) fn ordered<'a>(
    seen: &'a [Seen<'a>],
    order: Option<(&'a Order, Bindings<'a>)>,
    work: &mut Work,
) -> (Vec<usize>, Vec<Unordered>) {
    let candidates = seen.iter().enumerate();
    let candidates = candidates.filter(|(_, one)| one.standing().is_candidate());
    let mut keys: Vec<(Key, usize)> = candidates
        .map(|(index, one)| (Key::new(one), index))
        .collect();
    let by_default = |(a, i): &(Key, usize), (b, j): &(Key, usize)| {
        a.cmp(b)
            .then_with(|| names(&seen[*i]).cmp(&names(&seen[*j])))
            .then(i.cmp(j))
    };
    keys.sort_unstable_by(by_default);
    let indices: Vec<usize> = keys.into_iter().map(|(_, index)| index).collect();
    let Some((order, mut bindings)) = order else {
        return (indices, Vec::new());
    };
    let mut unordered = Vec::new();
    let ranked = indices.into_iter().map(|index| {
        let rank = order.rank(&mut bindings, &seen[index], work);
        let rank = rank.unwrap_or_else(|(message, wrong_type)| {
            let key = seen[index].subject.key.to_owned();
            unordered.push(Unordered {
                key,
                message,
                wrong_type,
            });
            Rank::Last
        });
        (rank, index)
    });
    let mut ranked: Vec<(Rank, usize)> = ranked.collect();
    // Among equals it stays as it is.
    ranked.sort_by(|(a, _), (b, _)| a.compare(b));
    let indices = ranked.into_iter().map(|(_, index)| index);
    (indices.collect(), unordered)
}

/// Namespace and name.
fn names<'a>(seen: &Seen<'a>) -> (&'a str, &'a str) {
    let key = seen.subject.key;
    key.split_once('/').unwrap_or(("", key))
}

/// The first bytes of a text: as numbers they are in the order of the texts, or equal.
fn prefix(text: &str) -> u128 {
    let mut bytes = [0; 16];
    let length = text.len().min(bytes.len());
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    u128::from_be_bytes(bytes)
}

// === impl Key ===

impl Key {
    fn new(seen: &Seen<'_>) -> Self {
        let (namespace, name) = names(seen);
        let created = seen.subject.object.and_then(created);
        Self {
            standing: match seen.standing() {
                Standing::Overtaken { .. } => Turn::Overtaken,
                Standing::Behind {
                    health: Health::Failed,
                    ..
                } => Turn::Failed,
                Standing::Behind {
                    health: Health::Ready { .. },
                    ..
                } => Turn::Ready,
                Standing::Behind {
                    health: Health::Broken,
                    ..
                }
                | Standing::Starting
                | Standing::Updating { .. }
                | Standing::Current { .. } => Turn::Broken,
            },
            created: (created.is_none(), created),
            namespace: prefix(namespace),
            name: prefix(name),
        }
    }
}

/// When an object was made.
fn created(object: &Map<String, Json>) -> Option<Timestamp> {
    // These have few keys, and going through them is faster than searching.
    let (_, metadata) = object.iter().find(|(key, _)| *key == "metadata")?;
    let mut metadata = metadata.as_object()?.iter();
    let (_, created) = metadata.find(|(key, _)| *key == "creationTimestamp")?;
    Timestamp::parse(created.as_str()?)
}

// === impl Rank ===

impl Rank {
    fn of(value: &Value<'_>) -> Option<Self> {
        Some(match value {
            Value::Bool(value) => Self::Bool(*value),
            #[expect(clippy::cast_precision_loss, reason = "the exact number decides then")]
            Value::Int(value) => Self::Number(*value as f64, i128::from(*value)),
            #[expect(clippy::cast_precision_loss, reason = "the exact number decides then")]
            Value::Uint(value) => Self::Number(*value as f64, i128::from(*value)),
            #[expect(clippy::cast_possible_truncation, reason = "it saturates")]
            Value::Double(value) => Self::Number(*value + 0.0, *value as i128),
            Value::String(text) => Self::Text(prefix(text.as_str()), text.as_str().to_owned()),
            Value::Timestamp(time) => Self::Time(*time),
            Value::Bytes(_)
            | Value::Duration(_)
            | Value::Null
            | Value::Type(_)
            | Value::List(_)
            | Value::Map(_)
            | Value::Optional(_)
            | Value::Opaque(_)
            | Value::Host(_) => return None,
        })
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Bool(_) => 0,
            Self::Number(..) => 1,
            Self::Text(..) => 2,
            Self::Time(_) => 3,
            Self::Last => 4,
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Number(a, exact), Self::Number(b, other)) => {
                a.total_cmp(b).then(exact.cmp(other))
            }
            (Self::Text(first, a), Self::Text(other, b)) => first.cmp(other).then_with(|| a.cmp(b)),
            (Self::Time(a), Self::Time(b)) => a.cmp(b),
            _ => self.kind().cmp(&other.kind()),
        }
    }
}
