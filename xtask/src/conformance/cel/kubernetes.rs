//! Kubernetes' CEL beside ours: results, types, estimated and actual costs.
//!
//! The expressions are those of the tables in Kubernetes' own tests of its libraries, and rules on
//! data with schemas (`rules.json`). The answers come from Kubernetes' Go code, through a program
//! of ours (`xtask/go/cel`) that is built outside the tree.
//!
//! An expression that fails has a cost, too: what was counted until then. cel-go carries errors
//! along as values, and so goes on to build the list or to end the loop that one of them is in;
//! we stop there, and charge a call that fails as on values of size one. So ours may be lower,
//! which is counted. It must not be higher, nor differ at all when the expression has a value:
//! where it does, the case is among the known ones.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use deltaplane_api::field;
use deltaplane_expr::cost::{self, Interval};
use deltaplane_expr::{
    Absent, Bindings, Budget, Decl, Env, Eval, Exposure, Meter, Reading, check, env, lower, parse,
};
use deltaplane_schema::crd;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::super::{Report, oracle};
use super::shown::show;
use crate::golang::{self, STAGING};
use crate::{paths, process};

const MAIN: &str = include_str!("../../../go/cel/main.go");
const RULES: &str = include_str!("rules.json");

/// Where we differ on purpose.
const KNOWN: [(&str, &str); 1] = [(
    "rules: quantity('4') == quantity('2').add(2)",
    "Kubernetes compares a sum on the right with nothing; on the left it does",
)];

/// Data with a schema, and expressions about it.
#[derive(Deserialize)]
struct Rules {
    schema: Json,
    object: Json,
    expressions: Vec<String>,
}

#[derive(Clone, Serialize)]
struct Question {
    #[serde(skip)]
    name: String,
    expression: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<Json>,
}

/// What Kubernetes or we say about an expression.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
struct Answer {
    compile_error: String,
    #[serde(rename = "type")]
    ty: String,
    min: u64,
    max: u64,
    failed: String,
    value: String,
    cost: u64,
}

pub(crate) fn run() -> Result<Report> {
    let mut report = Report::new("cel kubernetes", &KNOWN);
    let program = build()?;
    let questions = questions(&program)?;
    let answers: Vec<Answer> = oracle::ask(&program, &questions)?;
    for (question, theirs) in questions.iter().zip(&answers) {
        let ours = ours(question)?;
        report.case(&question.name, compare(&ours, theirs));
    }
    Ok(report)
}

fn build() -> Result<std::path::PathBuf> {
    let module = golang::kubernetes_module()?;
    module.package("cel", MAIN)?;
    module.file("cel", "values.go", oracle::VALUES)?;
    let program = paths::cache()?.join("bin").join("cel-oracle");
    process::run(
        module
            .go()?
            .args(["build", "-o"])
            .arg(&program)
            .arg("./cel"),
    )?;
    Ok(program)
}

fn questions(program: &Path) -> Result<Vec<Question>> {
    let mut questions = Vec::new();
    let tests = golang::download(&format!("k8s.io/apiserver@v{STAGING}"))?.join("pkg/cel/library");
    let listed = process::output(Command::new(program).arg(tests))?;
    let mut seen = BTreeMap::new();
    for line in String::from_utf8_lossy(&listed).lines() {
        let (file, expression): (String, String) =
            serde_json::from_str(line).context("reading the tables")?;
        if seen.insert(expression.clone(), ()).is_none() {
            questions.push(Question {
                name: format!("{file}: {expression}"),
                expression,
                schema: None,
                object: None,
            });
        }
    }
    if questions.is_empty() {
        bail!("no expressions found in Kubernetes' tests: their layout has changed");
    }
    let groups: Vec<Rules> = serde_json::from_str(RULES).context("reading rules.json")?;
    for group in groups {
        for expression in group.expressions {
            questions.push(Question {
                name: format!("rules: {expression}"),
                expression,
                schema: Some(group.schema.clone()),
                object: Some(group.object.clone()),
            });
        }
    }
    Ok(questions)
}

fn environment(question: &Question) -> Result<Env> {
    let env = env::kubernetes();
    let Some(schema) = &question.schema else {
        return Ok(env);
    };
    let schema = crd::compile(schema, &field::Path::root(), crd::Options::default())
        .map_err(|errors| anyhow::anyhow!("{}", errors[0]))?;
    let reading = Reading {
        absent: Absent::Fails,
        exposure: Exposure::Declared,
        resource: false,
    };
    let decl =
        Decl::of_schema(&schema, "selfType", reading).context("the schema cannot be seen")?;
    Ok(env.with_variables([("self".to_owned(), decl)]))
}

fn ours(question: &Question) -> Result<Answer> {
    let env = environment(question)?;
    let refused = |why: String| Answer {
        compile_error: why,
        ..Answer::default()
    };
    let ast = match parse(&question.expression, &env) {
        Ok(ast) => ast,
        Err(problems) => return Ok(refused(problems.to_string())),
    };
    let checked = match check::check(&ast, &env) {
        Ok(checked) => checked,
        Err(problems) => return Ok(refused(problems.to_string())),
    };
    let program = match lower(&ast, Some(&checked), &env) {
        Ok(program) => program,
        Err(problems) => return Ok(refused(problems.to_string())),
    };
    let Interval { min, max } = cost::estimate(&ast, &checked, &env);
    let mut answer = Answer {
        ty: checked.ty(ast.root()).to_string(),
        min,
        max,
        ..Answer::default()
    };
    let mut bindings = Bindings::new(&env);
    if let (Some(object), Some(slot)) = (&question.object, env.slot("self")) {
        bindings
            .set_json(&env, slot, object)
            .map_err(|fault| *fault)?;
    }
    let mut meter = Meter::new(Budget::STEPS_ONLY);
    match program.eval_metered(&bindings, &mut meter) {
        Eval::Value(value) => answer.value = show(&value),
        Eval::Failed(failure) => answer.failed = failure.reason.to_string(),
        other @ (Eval::Waiting(_) | Eval::Stopped(_)) => answer.failed = format!("{other:?}"),
    }
    answer.cost = meter.cost();
    Ok(answer)
}

fn compare(ours: &Answer, theirs: &Answer) -> Result<(), String> {
    let differs = |what: &str, ours: &dyn std::fmt::Display, theirs: &dyn std::fmt::Display| {
        Err(format!("{what}: {ours}, Kubernetes: {theirs}"))
    };
    match (
        ours.compile_error.is_empty(),
        theirs.compile_error.is_empty(),
    ) {
        (false, false) => return Ok(()),
        (true, true) => {}
        _ => return differs("compiles", &ours.compile_error, &theirs.compile_error),
    }
    match (ours.failed.is_empty(), theirs.failed.is_empty()) {
        (false, false) => {}
        (true, true) if ours.value == theirs.value => {}
        _ => {
            let text = |answer: &Answer| format!("{}{}", answer.value, answer.failed);
            return differs("value", &text(ours), &text(theirs));
        }
    }
    if ours.ty != theirs.ty {
        return differs("type", &ours.ty, &theirs.ty);
    }
    if ours.cost != theirs.cost {
        return differs("cost", &ours.cost, &theirs.cost);
    }
    if (ours.min, ours.max) != (theirs.min, theirs.max) {
        let text = |answer: &Answer| format!("{}..{}", answer.min, answer.max);
        return differs("estimate", &text(ours), &text(theirs));
    }
    Ok(())
}
