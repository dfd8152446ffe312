//! In which order items are asked. It is total and depends on nothing but the items.

use std::cmp::Ordering;

use deltaplane_expr::check::check;
use deltaplane_expr::syntax::{Ast, Node};
use deltaplane_expr::{
    Bindings, Budget, Env, Eval, Problem, Program, Slot, Timestamp, Type, Value,
};
use serde_json::{Map, Value as Json};

use crate::functions::WINDOW;
use crate::gate::{GateProblems, tree};
use crate::scope::Scope;
use crate::seen::Seen;
use crate::subject::{Health, Standing};

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
}

/// What an expression gave to order by. Kinds of values come one after the other.
#[derive(Clone, Debug)]
enum Rank {
    Bool(bool),
    /// As a double, then exactly.
    Number(f64, i128),
    Text(String),
    Bytes(Vec<u8>),
    Time(Timestamp),
    Duration(i64),
    /// It gave none.
    Last,
}

/// The place of an item.
#[derive(Debug)]
pub(crate) struct Key<'a> {
    rank: Rank,
    /// What is on its way to something older, then what is ready, then what is not.
    standing: u8,
    /// What does not exist yet is the youngest.
    created: Option<Timestamp>,
    namespace: &'a str,
    name: &'a str,
    pub(crate) index: usize,
}

// === impl Order ===

impl Order {
    /// Compiles `orderBy`: an expression over the item, bare or as `${…}`, that does not depend on
    /// the time.
    pub fn compile(text: &str, scope: &Scope) -> Result<Self, GateProblems> {
        let ast = tree(text, scope, &refusals).map_err(GateProblems)?;
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

    fn rank<'a>(&'a self, bindings: &mut Bindings<'a>, seen: &'a Seen<'a>) -> Result<Rank, String> {
        for slot in &self.items {
            bindings.set(*slot, Value::Host(seen));
        }
        match self.program.eval(bindings, Budget::default()) {
            Eval::Value(value) => {
                let found = Rank::of(&value);
                found.ok_or_else(|| format!("a value of type {} has no order", value.type_of()))
            }
            Eval::Waiting(path) => Err(format!("waiting for {path}")),
            Eval::Failed(failure) => Err(failure.reason.to_string()),
            Eval::Stopped(stopped) => Err(stopped.to_string()),
        }
    }
}

/// What cannot be ordered by.
fn refusals(ast: &Ast, ty: &Type) -> Vec<Problem> {
    let problem = |id, message| Problem {
        span: ast.span(id),
        message,
    };
    let unordered = || format!("type '{ty}' has no order to go by");
    let root = ast.root();
    let unordered = (!is_ordered(ty)).then(|| problem(root, unordered()));
    let timed = ast.ids().filter(|id| match ast.node(*id) {
        Node::Call {
            function, target, ..
        } => &**function == WINDOW || (&**function == "now" && target.is_some()),
        _ => false,
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
        | Type::Bytes
        | Type::Timestamp
        | Type::Duration
        | Type::Wrapper(_) => true,
        Type::Error
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

/// The candidates in order, and those of them that `orderBy` gave no place.
pub(crate) fn ordered<'a>(
    seen: &'a [Seen<'a>],
    order: Option<(&'a Order, Bindings<'a>)>,
) -> (Vec<Key<'a>>, Vec<Unordered>) {
    let mut order = order;
    let mut unordered = Vec::new();
    let mut keys: Vec<Key<'a>> = Vec::new();
    for (index, one) in seen.iter().enumerate() {
        if !one.standing().is_candidate() {
            continue;
        }
        let rank = match &mut order {
            Some((order, bindings)) => order.rank(bindings, one).unwrap_or_else(|message| {
                let key = one.subject.key.to_owned();
                unordered.push(Unordered { key, message });
                Rank::Last
            }),
            None => Rank::Last,
        };
        keys.push(Key::new(one, index, rank));
    }
    keys.sort_by(|a, b| a.compare(b));
    (keys, unordered)
}

// === impl Key ===

impl<'a> Key<'a> {
    fn new(seen: &'a Seen<'a>, index: usize, rank: Rank) -> Self {
        let key = seen.subject.key;
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        Self {
            rank,
            standing: match seen.standing() {
                Standing::Overtaken { .. } => 0,
                Standing::Behind {
                    health: Health::Ready { .. },
                    ..
                } => 1,
                Standing::Behind {
                    health: Health::Broken,
                    ..
                }
                | Standing::Starting
                | Standing::Updating { .. }
                | Standing::Current { .. } => 2,
            },
            created: seen.subject.object.and_then(created),
            namespace,
            name,
            index,
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        let younger = |key: &Self| key.created.is_none();
        self.rank
            .compare(&other.rank)
            .then(self.standing.cmp(&other.standing))
            .then(younger(self).cmp(&younger(other)))
            .then(self.created.cmp(&other.created))
            .then(self.namespace.cmp(other.namespace))
            .then(self.name.cmp(other.name))
            .then(self.index.cmp(&other.index))
    }
}

fn created(object: &Map<String, Json>) -> Option<Timestamp> {
    let created = object.get("metadata")?.get("creationTimestamp")?;
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
            Value::String(text) => Self::Text(text.as_str().to_owned()),
            Value::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
            Value::Timestamp(time) => Self::Time(*time),
            Value::Duration(duration) => Self::Duration(duration.nanos()),
            Value::Null
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
            Self::Text(_) => 2,
            Self::Bytes(_) => 3,
            Self::Time(_) => 4,
            Self::Duration(_) => 5,
            Self::Last => 6,
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Number(a, exact), Self::Number(b, other)) => {
                a.total_cmp(b).then(exact.cmp(other))
            }
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            (Self::Time(a), Self::Time(b)) => a.cmp(b),
            (Self::Duration(a), Self::Duration(b)) => a.cmp(b),
            _ => self.kind().cmp(&other.kind()),
        }
    }
}
