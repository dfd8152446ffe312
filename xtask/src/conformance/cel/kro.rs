//! kro's expressions beside ours: results of its functions, and which expressions are in a text.
//!
//! The answers come from kro's Go code, through a program of ours (`xtask/go/kro`) that is built
//! outside the tree. Costs are not compared: kro counts none.

use std::path::PathBuf;

use anyhow::{Context, Result};
use deltaplane_expr::{Absent, Bindings, Budget, Env, Eval, Library, compile, env, syntax};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::super::{Report, oracle};
use super::shown::show;
use crate::golang::{self, KRO};
use crate::{paths, process};

const MAIN: &str = include_str!("../../../go/kro/main.go");
const CASES: &str = include_str!("kro.json");

/// Where we differ on purpose.
const KNOWN: [(&str, &str); 5] = [
    (
        "json.unmarshal('\"\\\\ud800\"')",
        "half of a surrogate pair is no text, here as in the API",
    ),
    (
        "semver('v1.2', true)",
        "kro has the first release of Kubernetes' versions; ours is the one of 1.36",
    ),
    (
        "'abc'.find('[')",
        "a pattern that is none fails when it is evaluated, as that of matches does in kro, too",
    ),
    ("1 == dyn(omit())", OMIT),
    ("omit() in [1]", OMIT),
];

const OMIT: &str = "it cannot be compared, on whichever side it is";

#[derive(Deserialize)]
struct Cases {
    object: Json,
    expressions: Vec<String>,
    texts: Vec<String>,
}

#[derive(Serialize)]
struct Question<'q> {
    expression: &'q str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'q str>,
    object: &'q Json,
}

/// What kro or we say about an expression or a text.
#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
struct Answer {
    compile_error: String,
    failed: String,
    value: String,
    expressions: Vec<String>,
}

pub(crate) fn run() -> Result<Report> {
    let mut report = Report::new("cel kro", &KNOWN);
    let cases: Cases = serde_json::from_str(CASES).context("reading kro.json")?;
    let env = env::kro()
        .library(Library::KroOmit)
        .build()
        .with_dynamic(&["x", "schema"], Absent::Fails);
    let expressions = cases.expressions.iter().map(|expression| Question {
        expression,
        text: None,
        object: &cases.object,
    });
    let texts = cases.texts.iter().map(|text| Question {
        expression: "",
        text: Some(text),
        object: &Json::Null,
    });
    let questions: Vec<Question<'_>> = expressions.chain(texts).collect();
    let answers: Vec<Answer> = oracle::ask(&build()?, &questions)?;
    for (question, theirs) in questions.iter().zip(&answers) {
        let (name, ours) = match question.text {
            Some(text) => (text, extracted(text)),
            None => (
                question.expression,
                evaluated(question.expression, &env, question.object)?,
            ),
        };
        report.case(name, compare(&ours, theirs));
    }
    Ok(report)
}

fn build() -> Result<PathBuf> {
    let module = golang::kro_module()?;
    module.package("kro", MAIN)?;
    module.file("kro", "values.go", oracle::VALUES)?;
    // Functions without a body need a file of another language beside them.
    module.file("kro", "kro.s", "")?;
    let program = paths::cache()?.join("bin").join("kro-oracle");
    process::run(
        module
            .go()?
            .args(["build", "-o"])
            .arg(&program)
            .arg("./kro"),
    )
    .with_context(|| format!("building with kro {KRO}"))?;
    Ok(program)
}

/// The expressions in a text. Whether they parse is another question, which kro asks later.
fn extracted(text: &str) -> Answer {
    match syntax::expressions(text) {
        Ok(expressions) => Answer {
            expressions: expressions.into_iter().map(str::to_owned).collect(),
            ..Answer::default()
        },
        Err(problems) => Answer {
            compile_error: problems.to_string(),
            ..Answer::default()
        },
    }
}

fn evaluated(expression: &str, env: &Env, object: &Json) -> Result<Answer> {
    let program = match compile(expression, env) {
        Ok(program) => program,
        Err(problems) => {
            return Ok(Answer {
                compile_error: problems.to_string(),
                ..Answer::default()
            });
        }
    };
    let mut bindings = Bindings::new(env);
    for name in ["x", "schema"] {
        let slot = env.slot(name).context("not declared")?;
        bindings
            .set_json(env, slot, object)
            .map_err(|fault| *fault)?;
    }
    let mut answer = Answer::default();
    match program.eval(&bindings, Budget::default()) {
        Eval::Value(value) => answer.value = show(&value),
        Eval::Failed(failure) => answer.failed = failure.reason.to_string(),
        other @ (Eval::Waiting(_) | Eval::Stopped(_)) => answer.failed = format!("{other:?}"),
    }
    Ok(answer)
}

/// The same, except for the words of errors.
fn compare(ours: &Answer, theirs: &Answer) -> Result<(), String> {
    let fails = |answer: &Answer| (!answer.compile_error.is_empty(), !answer.failed.is_empty());
    let same = fails(ours) == fails(theirs)
        && ours.value == theirs.value
        && ours.expressions == theirs.expressions;
    same.then_some(())
        .ok_or_else(|| format!("{ours:?}, kro: {theirs:?}"))
}
