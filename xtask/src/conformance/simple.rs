//! SimpleSchema, plurals of kinds and changes of schemas, beside kro's own Go code.
//!
//! The answers come from kro, through a program of ours (`xtask/go/simple`) that is built outside
//! the tree. Cases are written by hand (`simple/cases.json`) or made from a seed.

mod generate;
mod plurals;

use std::path::{Path as File, PathBuf};

use anyhow::{Context, Result};
use deltaplane_api::field::Path;
use deltaplane_schema::compat;
use deltaplane_schema::simple::{self, Source};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::random::Random;
use super::{Report, oracle};
use crate::golang::{self, KRO};
use crate::{paths, process};

const MAIN: &str = include_str!("../../go/simple/main.go");
const CASES: &str = include_str!("simple/cases.json");

const SPACE: &str = "white space at the end is no marker";
const BARS: &str = "markers may be set apart by |";
const QUOTES: &str = "a default is a text as it is written, where kro writes JSON that is none";
const TYPED: &str = "a default of another type is refused by every API server, and here at once";
const DECIMAL: &str = "bounds are decimal numbers";
const DEPTH: &str = "a schema is never deeper than what can be stored";

/// Where we differ on purpose.
const KNOWN: [(&str, &str); 19] = [
    ("string | required=true ", SPACE),
    ("string | minLength=1\n", SPACE),
    ("string | minLength=1 | maxLength=2", BARS),
    ("string | required=true |default=a", BARS),
    (r#"string | default="say \"hi\"""#, QUOTES),
    (r#"string | default="C:\dir""#, QUOTES),
    ("string | default=\"two\nlines\"", QUOTES),
    (r#"string | default=a"b"c"#, QUOTES),
    (r#"string | default="a"b"#, QUOTES),
    (r#"string | default="a""b""#, QUOTES),
    (
        "string | enum=a\u{7}b",
        "choices are JSON, whatever is in them",
    ),
    ("boolean | default=1", TYPED),
    ("boolean | default=0", TYPED),
    ("[]string | default=5", TYPED),
    ("[]string | default={}", TYPED),
    ("object | default=[]", TYPED),
    (
        "default that is no JSON in an unused type",
        "what is wrong is told, used or not",
    ),
    ("float | minimum=0x1p4", DECIMAL),
    ("structs in structs, 60 deep", DEPTH),
];

/// Cases that are written by hand.
#[derive(Deserialize)]
struct Cases {
    /// One field each.
    fields: Vec<String>,
    documents: Vec<Document>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Document {
    #[serde(default, skip_serializing)]
    name: String,
    spec: Value,
    types: Value,
}

/// What kro says.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    failed: String,
    schema: Value,
    plural: String,
    breaking: Vec<String>,
    changes: usize,
}

/// `cases` that are made from `seed`, and those written by hand: one report for each question.
pub(crate) fn run(cases: u64, seed: u64) -> Result<Vec<Report>> {
    let program = build()?;
    let mut documents = by_hand()?;
    let made = (0..cases).map(|number| {
        let seed = seed.wrapping_add(number);
        generate::document(seed, &mut Random::new(seed))
    });
    documents.extend(made);
    Ok(vec![
        schemas(&program, &documents)?,
        changes(&program, &documents)?,
        plurals::run(&program)?,
    ])
}

fn build() -> Result<PathBuf> {
    let module = golang::kro_module()?;
    module.package("simple", MAIN)?;
    let program = paths::cache()?.join("bin").join("simple-oracle");
    process::run(
        module
            .go()?
            .args(["build", "-o"])
            .arg(&program)
            .arg("./simple"),
    )
    .with_context(|| format!("building with kro {KRO}"))?;
    Ok(program)
}

fn by_hand() -> Result<Vec<Document>> {
    let cases: Cases = serde_json::from_str(CASES).context("reading cases.json")?;
    let fields = cases.fields.into_iter().map(|field| Document {
        spec: json!({"f": field}),
        types: json!({}),
        name: field,
    });
    let deep = (0..60).fold(json!("string"), |inner, _| json!({"a": inner}));
    let deep = Document {
        name: "structs in structs, 60 deep".to_owned(),
        spec: deep,
        types: json!({}),
    };
    Ok(fields.chain(cases.documents).chain([deep]).collect())
}

/// Which sources are accepted, and the schemas that they become.
fn schemas(program: &File, documents: &[Document]) -> Result<Report> {
    let mut report = Report::new("simple-schema", &KNOWN);
    let answers: Vec<Answer> = oracle::ask(program, documents)?;
    for (document, theirs) in documents.iter().zip(&answers) {
        report.note(match theirs.failed.is_empty() {
            true => "accepted by kro",
            false => "refused by kro",
        });
        report.case(&document.name, same_schema(document, theirs));
    }
    Ok(report)
}

fn same_schema(document: &Document, theirs: &Answer) -> Result<(), String> {
    let shown = || format!("spec {}, types {}", document.spec, document.types);
    match (compiled(document), theirs.failed.is_empty()) {
        (Err(_), false) => Ok(()),
        (Ok(schema), true) if plain(&schema) == plain(&theirs.schema) => Ok(()),
        (Ok(schema), true) => Err(format!("{schema}, kro: {}; {}", theirs.schema, shown())),
        (Ok(schema), false) => Err(format!("{schema}, kro: {}; {}", theirs.failed, shown())),
        (Err(why), true) => Err(format!("{why}, kro: {}; {}", theirs.schema, shown())),
    }
}

fn compiled(document: &Document) -> Result<Value, String> {
    let source = Source {
        spec: Some(&document.spec),
        types: Some(&document.types),
        path: &Path::new("schema"),
    };
    simple::compile(&source).map_err(|problems| problems[0].message.clone())
}

/// What kro finds between two schemas must be found here: this check sees more, not less.
fn changes(program: &File, documents: &[Document]) -> Result<Report> {
    let mut report = Report::new("compat", &[]);
    let schemas = documents
        .iter()
        .filter_map(|document| Some((document.name.as_str(), compiled(document).ok()?)));
    let schemas: Vec<(&str, Value)> = schemas.collect();
    let pairs: Vec<_> = schemas
        .iter()
        .zip(schemas.iter().skip(1))
        .flat_map(|(a, b)| [(a, b), (b, a)])
        .collect();
    let questions: Vec<Value> = pairs
        .iter()
        .map(|(old, new)| json!({"old": old.1, "new": new.1}))
        .collect();
    let answers: Vec<Answer> = oracle::ask(program, &questions)?;
    for ((old, new), theirs) in pairs.iter().zip(&answers) {
        let ours = compat::changes(&old.1, &new.1);
        let breaking = ours.iter().any(compat::Change::is_breaking);
        let outcome = match (theirs.breaking.is_empty(), theirs.changes) {
            (false, _) if !breaking => Err(format!("kro: {:?}", theirs.breaking)),
            (true, changes) if changes > ours.len() => {
                Err(format!("{} changes, kro: {changes}", ours.len()))
            }
            _ => Ok(()),
        };
        if breaking && theirs.breaking.is_empty() {
            report.note("breaking, where kro sees nothing that breaks");
        }
        report.case(&format!("{} to {}", old.0, new.0), outcome);
    }
    Ok(report)
}

/// Numbers as floats, and no field required twice (kro names it as often as it is said).
fn plain(value: &Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().into(),
        Value::Array(list) => list.iter().map(plain).collect(),
        Value::Object(map) => {
            let fields = map.iter().map(|(key, value)| match (key.as_str(), value) {
                ("required", Value::Array(names)) => {
                    let mut names = names.clone();
                    names.dedup();
                    (key.clone(), names.into())
                }
                _ => (key.clone(), plain(value)),
            });
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}
