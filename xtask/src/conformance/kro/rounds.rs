//! Asking, in rounds: a definition may use the kinds of others, which must be made before.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, bail};
use deltaplane_graph::{Gvk, Lookup};
use serde_json::{Value, json};

use super::compare::{Answer, Same, same};
use super::kinds::{Custom, Customs, builtin, wanted};
use super::{Case, Oracle, Report};

/// What came of all rounds.
#[derive(Default)]
pub(super) struct Settled {
    /// By both.
    pub(super) accepted: Vec<Case>,
    /// The kinds that each definition could use, by its place.
    pub(super) made: BTreeMap<String, Customs>,
}

/// Definitions in their order, and the kinds that kro made of them.
struct Rounds<'r> {
    customs: &'r Customs,
    cases: Vec<Case>,
    /// Which cases define a kind.
    makers: BTreeMap<Gvk, Vec<usize>>,
    /// Of those that were judged.
    made: BTreeMap<usize, Option<Arc<Custom>>>,
}

/// What can be done with a definition now.
enum Turn {
    Ask(Customs),
    /// It uses a kind of one that was not judged yet.
    Wait,
    /// There is no such kind.
    Never(Gvk),
}

/// Judges definitions that may use each other's kinds.
pub(super) fn judge(
    oracle: &Oracle,
    cases: Vec<Case>,
    customs: &Customs,
    report: &mut Report,
) -> Result<Settled> {
    let mut rounds = Rounds::new(cases, customs);
    let mut settled = Settled::default();
    let mut left: Vec<usize> = (0..rounds.cases.len()).collect();
    while !left.is_empty() {
        let before = left.len();
        let asked = rounds.turns(&mut left, report);
        let questions = asked.iter();
        let questions = questions.map(|(at, customs)| question(&rounds.cases[*at], customs));
        let answers = oracle.ask(&questions.collect::<Vec<_>>())?;
        for ((at, customs), answer) in asked.into_iter().zip(&answers) {
            rounds.made.insert(at, custom(answer));
            let case = &rounds.cases[at];
            report.note("published by kro");
            if counted(case, &customs, answer, report) == Some(Same::Accepted) {
                settled.made.insert(case.name.clone(), customs);
                settled.accepted.push(case.clone());
            }
        }
        if left.len() == before {
            bail!("{} definitions wait for each other's kinds", left.len());
        }
    }
    Ok(settled)
}

/// The kind that kro made, if it can be served.
fn custom(answer: &Answer) -> Option<Arc<Custom>> {
    let served = answer.definition.is_object() && answer.unserved.is_empty();
    served.then(|| Arc::new(Custom::new(&answer.definition)))
}

/// Judges definitions that use what others of the same place could use.
pub(super) fn judge_with(
    oracle: &Oracle,
    cases: Vec<Case>,
    made: &BTreeMap<String, Customs>,
    report: &mut Report,
) -> Result<()> {
    let none = Customs::default();
    let customs = |case: &Case| made.get(&case.place).unwrap_or(&none);
    let questions: Vec<Value> = cases
        .iter()
        .map(|one| question(one, customs(one)))
        .collect();
    let answers = oracle.ask(&questions)?;
    for (case, answer) in cases.iter().zip(&answers) {
        counted(case, customs(case), answer, report);
    }
    Ok(())
}

fn question(case: &Case, customs: &Customs) -> Value {
    json!({"object": case.object, "definitions": customs.definitions()})
}

fn counted(case: &Case, customs: &Customs, answer: &Answer, report: &mut Report) -> Option<Same> {
    let outcome = same(&case.object, customs, answer);
    if let Ok(same) = &outcome {
        report.note(same.note());
    }
    let same = outcome.as_ref().ok().copied();
    report.case(&case.name, outcome.map(|_| ()));
    same
}

// === impl Rounds ===

impl<'r> Rounds<'r> {
    fn new(cases: Vec<Case>, customs: &'r Customs) -> Self {
        let mut makers: BTreeMap<Gvk, Vec<usize>> = BTreeMap::new();
        for (at, case) in cases.iter().enumerate() {
            if let Some(gvk) = maker(&case.object) {
                makers.entry(gvk).or_default().push(at);
            }
        }
        Self {
            customs,
            cases,
            makers,
            made: BTreeMap::new(),
        }
    }

    /// Those that can be asked now; those that have to wait are left.
    fn turns(&mut self, left: &mut Vec<usize>, report: &mut Report) -> Vec<(usize, Customs)> {
        let mut asked = Vec::new();
        for at in std::mem::take(left) {
            match self.turn(at) {
                Turn::Ask(customs) => asked.push((at, customs)),
                Turn::Wait => left.push(at),
                Turn::Never(gvk) => {
                    report.skip(&format!("{}: there is no {gvk}", self.cases[at].name));
                    self.made.insert(at, None);
                }
            }
        }
        asked
    }

    fn turn(&self, at: usize) -> Turn {
        let mut customs = Customs::default();
        for gvk in wanted(&self.cases[at].object) {
            if let Lookup::Known(_) = builtin(&gvk) {
                continue;
            }
            match (self.nearest(at, &gvk), self.customs.get(&gvk)) {
                (_, Some(custom)) => customs.add(custom),
                (Some(maker), None) => match self.made.get(&maker) {
                    Some(Some(custom)) => customs.add(custom),
                    Some(None) => return Turn::Never(gvk),
                    None => return Turn::Wait,
                },
                (None, None) => return Turn::Never(gvk),
            }
        }
        Turn::Ask(customs)
    }

    /// Of several that define a kind the one whose place has the most in common.
    fn nearest(&self, at: usize, gvk: &Gvk) -> Option<usize> {
        let place = &self.cases[at].place;
        let makers = self.makers.get(gvk)?.iter().copied();
        let others = makers.filter(|maker| *maker != at);
        others
            .rev()
            .max_by_key(|maker| common(place, &self.cases[*maker].place))
    }
}

fn maker(object: &Value) -> Option<Gvk> {
    let schema = &object["spec"]["schema"];
    let group = schema["group"].as_str().unwrap_or("kro.run");
    let (version, kind) = (schema["apiVersion"].as_str()?, schema["kind"].as_str()?);
    Some(Gvk::new(group, version, kind))
}

fn common(a: &str, b: &str) -> usize {
    let pairs = a.split('/').zip(b.split('/'));
    pairs.take_while(|(a, b)| a == b).count()
}
