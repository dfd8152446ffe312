//! Gates, asked for a collection that is read from a file.

use deltaplane_expr::{Absent, Decl, Timestamp};
use deltaplane_propagation::{
    Answer, Gate, GateProblem, Given, Health, Hold, Limits, Progress, Scope, Standing, Subject,
    Surroundings, Terms, Verdict, Window, pass,
};
use serde_json::{Map, Value, json};

use super::{CelError, Output, Question, Variable, read};
use crate::graph;
use crate::said::Said;
use crate::table::Table;

/// The annotation of an item that says how it stands.
const STANDING: &str = "deltaplane.io/standing";

/// An item of a collection.
struct CollectionItem {
    key: String,
    object: Map<String, Value>,
    standing: Standing,
}

/// The names of an item and of its collection.
struct CollectionNames {
    item: Vec<String>,
    items: Vec<String>,
}

/// Answers for a collection, or checks the names that gates have; none if the expression asks for
/// nothing that only gates have.
pub(super) fn answer(
    question: &Question,
    variables: &[Variable],
    evaluates: bool,
) -> Result<Option<Said>, CelError> {
    let file = question.zones.as_ref().or(question.items.as_ref());
    let now = Timestamp::from_system(crate::rollout::clock());
    let items = match file {
        Some(file) => collection(file, now)?,
        None => Vec::new(),
    };
    if let Some(file) = &question.zones {
        check_zones(file, &items)?;
    }
    let names = CollectionNames::of(question, &items);
    let scope = names.scope(variables);
    let windows: Vec<&str> = question.windows.iter().map(|one| &*one.name).collect();
    let scope = scope.windows(&windows);
    let gate = Gate::compile(&[question.expression.as_str()], scope);
    match (file, gate) {
        (Some(_), Err(problems)) => Ok(Some(refused(&problems.0, question.output))),
        // Without a collection it may be any expression.
        (None, _) if is_plain(question, variables) => Ok(None),
        (None, Err(problems)) => Ok(Some(refused(&problems.0, question.output))),
        (_, Ok(_)) if !evaluates => Ok(Some(Said::good(match question.output {
            Output::Text => "bool\n".to_owned(),
            Output::Json => format!("{}\n", json!({"type": "bool"})),
        }))),
        (Some(_), Ok(gate)) => {
            let answer = ask(question, &gate, &items, variables);
            Ok(Some(shown(&answer, &items, question.output)))
        }
        (None, Ok(gate)) if names.are_read_by(&gate) => Err(CelError::NoCollection),
        (None, Ok(gate)) => Ok(Some(asked_once(question, &gate, variables))),
    }
}

/// Returns true if the expression uses nothing that only gates have: it has a value then, with a
/// type and a cost.
fn is_plain(question: &Question, variables: &[Variable]) -> bool {
    let declared = variables.iter();
    let declared = declared.map(|one| (one.name.clone(), one.decl.clone()));
    let plain = question.env.build(false).with_variables(declared);
    question.compile(&plain).is_ok()
}

/// Evaluates a gate that reads neither an item nor a collection.
fn asked_once(question: &Question, gate: &Gate, variables: &[Variable]) -> Said {
    let item = CollectionItem {
        key: String::new(),
        object: Map::new(),
        standing: Standing::Behind {
            health: Health::Broken,
            hold: Hold::Free,
        },
    };
    let answer = ask(question, gate, &[item], variables);
    let value = match answer.blocked.first().map(|one| &one.verdict) {
        None | Some(Verdict::Open) => true,
        Some(Verdict::Closed { .. }) => false,
        Some(Verdict::Waiting { path, .. }) => {
            return question.failed(format!("waiting for {path}"), json!({"waiting": path}));
        }
        Some(Verdict::Error { message, .. }) => {
            return question.failed(message.clone(), json!({"error": message}));
        }
        Some(verdict @ Verdict::Limit { .. }) => {
            let why = verdict.sentence();
            return question.failed(why.clone(), json!({"error": why}));
        }
    };
    Said::good(match question.output {
        Output::Text => format!("{value}\n"),
        Output::Json => format!("{}\n", json!({"value": value, "type": "bool"})),
    })
}

/// Reads the items of a file.
fn collection(file: &str, now: Timestamp) -> Result<Vec<CollectionItem>, CelError> {
    // What cannot be read at all is said as for other files.
    read(file)?;
    let wrong = |why: String| CelError::Collection {
        file: file.to_owned(),
        why,
    };
    let objects = graph::objects(&[file.to_owned()]).map_err(|error| wrong(error.to_string()))?;
    let objects = objects.map_err(|why| wrong(why.trim_end().to_owned()))?;
    let items = objects.into_iter().map(|object| {
        let Value::Object(object) = object else {
            return Err(wrong("it is not an object".to_owned()));
        };
        CollectionItem::read(object, now).map_err(wrong)
    });
    items.collect()
}

/// Refuses other objects than zones, of which a gate would find nothing.
fn check_zones(file: &str, items: &[CollectionItem]) -> Result<(), CelError> {
    let kind = |item: &CollectionItem| {
        item.object
            .get("kind")
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let other = items.iter().find_map(|item| {
        let kind = kind(item).unwrap_or_default();
        (kind != "Zone").then_some((kind, &item.key))
    });
    match other {
        None => Ok(()),
        Some((kind, key)) => Err(CelError::Collection {
            file: file.to_owned(),
            why: format!("{kind} {key} is no Zone; give other objects with --items"),
        }),
    }
}

fn ask(
    question: &Question,
    gate: &Gate,
    items: &[CollectionItem],
    variables: &[Variable],
) -> Answer {
    let now = Timestamp::from_system(crate::rollout::clock());
    let subjects: Vec<Subject<'_>> = items
        .iter()
        .map(|item| Subject {
            key: &item.key,
            object: Some(&item.object),
            standing: item.standing,
        })
        .collect();
    let given = variables.iter();
    let given = given.filter_map(|one| Some((one.name.as_str(), Given::Data(one.value.as_ref()?))));
    let given: Surroundings<'_> = given.collect();
    pass(
        &subjects,
        Terms {
            gate,
            order: None,
            given: &given,
            now,
            windows: &|name, _| Window {
                open: question
                    .windows
                    .iter()
                    .any(|one| one.name == name && one.is_open),
                edge: None,
            },
            limits: Limits::default(),
        },
    )
}

fn shown(answer: &Answer, items: &[CollectionItem], output: Output) -> Said {
    let is_evaluated = |verdict: &Verdict| {
        matches!(
            verdict,
            Verdict::Open | Verdict::Closed { .. } | Verdict::Waiting { .. }
        )
    };
    let good = answer.blocked.iter().all(|one| is_evaluated(&one.verdict));
    let admitted = answer.admitted.iter();
    let admitted = admitted.map(|index| (*index, "open".to_owned()));
    let blocked = answer.blocked.iter();
    let blocked = blocked.map(|one| (one.index, one.verdict.to_string()));
    let mut verdicts: Vec<(usize, String)> = admitted.chain(blocked).collect();
    verdicts.sort_by_key(|(index, _)| *index);
    let out = match output {
        Output::Text if verdicts.is_empty() => "no item waits for the gate\n".to_owned(),
        Output::Text => {
            let mut table = Table::new(&["ITEM", "VERDICT"]);
            for (index, verdict) in verdicts {
                table.add(vec![items[index].key.clone(), verdict]);
            }
            table.text()
        }
        Output::Json => {
            let all = verdicts.iter();
            let all = all.map(|(index, verdict)| {
                json!({"item": items[*index].key, "open": verdict == "open", "verdict": verdict})
            });
            format!("{}\n", json!({"items": all.collect::<Vec<_>>()}))
        }
    };
    Said {
        out,
        err: String::new(),
        good,
    }
}

/// Shows what is wrong with a gate.
fn refused(problems: &[GateProblem], output: Output) -> Said {
    let place = |problem: &GateProblem| problem.span.position(&problem.text);
    let (out, err) = match output {
        Output::Text => {
            let lines = problems.iter().map(|problem| {
                let at = place(problem);
                format!("{}:{}: {}\n", at.line, at.column + 1, problem.message)
            });
            (String::new(), lines.collect())
        }
        Output::Json => {
            let all = problems.iter().map(|problem| {
                let at = place(problem);
                json!({"line": at.line, "column": at.column + 1, "message": problem.message})
            });
            let all: Vec<Value> = all.collect();
            (format!("{}\n", json!({"problems": all})), String::new())
        }
    };
    Said {
        out,
        err,
        good: false,
    }
}

// === impl CollectionItem ===

impl CollectionItem {
    fn read(object: Map<String, Value>, now: Timestamp) -> Result<Self, String> {
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        let text = |field: &str| metadata[field].as_str().unwrap_or_default();
        let key = match (text("namespace"), text("name")) {
            (_, "") => return Err("an object has no name".to_owned()),
            ("", name) => name.to_owned(),
            (namespace, name) => format!("{namespace}/{name}"),
        };
        let said = metadata["annotations"][STANDING].as_str();
        let behind = |hold: Hold| Standing::Behind {
            health: Health::Ready { since: now },
            hold,
        };
        let standing = match said.unwrap_or("Behind") {
            "Behind" => behind(Hold::Free),
            "Held" => behind(Hold::Held),
            "Updating" => Standing::Updating {
                progress: Progress::UnderWay,
            },
            "Failed" => Standing::Updating {
                progress: Progress::Failed,
            },
            "Current" => Standing::Current { since: now },
            other => {
                return Err(format!(
                    "{key}: {STANDING} is {other:?}, and may be Behind, Held, Updating, Failed or Current"
                ));
            }
        };
        Ok(Self {
            key,
            object,
            standing,
        })
    }
}

// === impl CollectionNames ===

impl CollectionNames {
    /// Those of zones, unless the items are instances of a graph.
    fn of(question: &Question, items: &[CollectionItem]) -> Self {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        if question.items.is_none() {
            return Self {
                item: owned(&["zone"]),
                items: owned(&["zones"]),
            };
        }
        let kind = items.first().and_then(|item| item.object.get("kind"));
        let singular = kind
            .and_then(Value::as_str)
            .unwrap_or("item")
            .to_lowercase();
        let plural = deltaplane_schema::plural::pluralize(&singular);
        Self {
            item: owned(&["instance", &singular]),
            items: owned(&["instances", &plural]),
        }
    }

    fn scope(&self, variables: &[Variable]) -> Scope {
        let names = |names: &'_ [String]| -> Vec<String> { names.to_vec() };
        let (item, items) = (names(&self.item), names(&self.items));
        let item: Vec<&str> = item.iter().map(String::as_str).collect();
        let items: Vec<&str> = items.iter().map(String::as_str).collect();
        let scope = Scope::new(Decl::dynamic(Absent::Waits).clone(), &item).collection(&items);
        let known = |name: &str| item.contains(&name) || items.contains(&name);
        let given = variables.iter().filter(|one| !known(&one.name));
        let scope = given.fold(scope, |scope, one| scope.data(&one.name, one.decl.clone()));
        match variables.iter().any(|one| one.name == "release") {
            true => scope,
            false => scope.data("release", Decl::dynamic(Absent::Waits).clone()),
        }
    }

    fn are_read_by(&self, gate: &Gate) -> bool {
        let mut names = self.item.iter().chain(&self.items);
        let reads = gate.reads();
        names.any(|name| reads.contains(name.as_str()))
    }
}
