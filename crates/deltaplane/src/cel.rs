//! `deltaplane cel`: expressions tried out by people.

mod gate;

use std::fs;
use std::io::{self, Read as _};

use crate::said::Said;
use clap::{Args, Subcommand, ValueEnum};
use deltaplane_api::field;
use deltaplane_expr::cost::Interval;
use deltaplane_expr::{
    Absent, Bindings, Budget, Decl, Env, Eval, Exposure, Library, Meter, Problems, Program,
    Reading, Stopped, Template, check, cost, env, is_omitted, lower, parse, parse_template, syntax,
};
use deltaplane_schema::crd;
use serde_json::{Value, json};

/// For `cel`.
#[derive(Debug, Args)]
pub(crate) struct Cel {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Evaluate an expression; the exit code is 1 when there is no value, or a gate fails for an item
    Eval(Question),
    /// Check an expression and print the type of what it gives, without evaluating it
    Check(Question),
}

#[derive(Debug, Args)]
struct Question {
    /// The expression; `-` reads it from standard input
    #[arg(allow_hyphen_values = true)]
    expression: String,
    /// Take it as a text with expressions in `${…}`, as graphs have them
    #[arg(long)]
    template: bool,
    /// A variable: NAME=@FILE reads YAML or JSON from a file, NAME=TEXT takes the text as YAML,
    /// NAME alone declares it without a value
    #[arg(long = "var", value_name = "NAME[=VALUE]")]
    variables: Vec<String>,
    /// The schema of a variable: an OpenAPI v3 schema, or a CustomResourceDefinition, whose
    /// stored version counts
    #[arg(long = "schema", value_name = "NAME=@FILE")]
    schemas: Vec<String>,
    /// Which functions there are, and what it means that data is absent
    #[arg(long, value_enum, default_value_t = Functions::Kro)]
    env: Functions,
    /// The zones that a gate of a policy sees (--env gate): a file with Zone objects. The annotation
    /// deltaplane.io/standing of each says how it stands: Behind (default), Held, Updating, Failed
    /// or Current
    #[arg(long, value_name = "FILE", conflicts_with_all = ["items", "template"])]
    zones: Option<String>,
    /// The instances that a gate of a graph sees (--env gate): a file with objects of one kind, which
    /// stand as with --zones
    #[arg(long, value_name = "FILE", conflicts_with = "template")]
    items: Option<String>,
    /// A window that a gate asks for (--env gate), and whether it is open
    #[arg(long = "window", value_name = "NAME=open|closed", value_parser = window)]
    windows: Vec<GivenWindow>,
    /// The most that evaluating may cost, in the units of Kubernetes
    #[arg(long, value_name = "UNITS", default_value_t = Budget::default().cost)]
    cost_limit: u64,
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// A window, and whether it is open now.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GivenWindow {
    name: String,
    is_open: bool,
}

fn window(text: &str) -> Result<GivenWindow, String> {
    let (name, is_open) = match text.rsplit_once('=') {
        Some((name, "open")) => (name, true),
        Some((name, "closed")) => (name, false),
        Some(_) | None => return Err("write NAME=open or NAME=closed".to_owned()),
    };
    Ok(GivenWindow {
        name: name.to_owned(),
        is_open,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Functions {
    /// The language alone
    Standard,
    /// Validation rules of CustomResourceDefinitions
    K8sCrd,
    /// Graphs
    Kro,
    /// Gates
    Gate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// The value as JSON, or what is wrong, drawn under the expression
    Text,
    /// One object that says all that is known
    Json,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CelError {
    #[error("{0:?} is no name of a variable")]
    BadName(String),
    #[error("variable {0} is given twice")]
    Twice(String),
    #[error("{file} has more than {MAX_FILE} bytes")]
    TooLarge { file: String },
    #[error("a schema must be NAME=@FILE, not {0:?}")]
    NoFile(String),
    #[error("failed to read {file}")]
    Read {
        file: String,
        #[source]
        source: io::Error,
    },
    #[error("{place} is not YAML: {why}")]
    Yaml { place: String, why: String },
    #[error("{file} is not a structural schema: {}", .faults.first().map_or_else(String::new, ToString::to_string))]
    Schema {
        file: String,
        faults: Vec<field::Error>,
    },
    #[error("expressions cannot see data of the schema in {file}")]
    Invisible { file: String },
    #[error("--zones, --items and --window are for gates")]
    NotAGate,
    #[error("the gate asks about a collection")]
    NoCollection,
    #[error("{file}: {why}")]
    Collection { file: String, why: String },
}

/// Longer files are not read.
const MAX_FILE: u64 = 64 << 20;

/// A program, the type of what it gives, and what it may cost.
struct Compiled {
    program: Program,
    ty: String,
    estimate: Interval,
}

/// A variable, and what is known of it.
struct Variable {
    name: String,
    value: Option<Value>,
    decl: Decl,
}

// === impl CelError ===

impl CelError {
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::BadName(_) | Self::NoFile(_) => "see deltaplane cel eval --help",
            Self::Twice(_) => "give each variable once",
            Self::TooLarge { .. } => "try it with a part of the data",
            Self::Read { .. } => "check that the file is there and can be read",
            Self::Yaml { .. } => {
                "quote texts, --var 'name=\"text\"'; give one document, no deeper than 64 levels"
            }
            Self::NotAGate => "add --env gate",
            Self::NoCollection => "give it with --zones FILE or --items FILE",
            Self::Collection { .. } => "give objects as kubectl get -o yaml prints them",
            Self::Schema { .. } | Self::Invisible { .. } => {
                "give an OpenAPI v3 schema of type object, or a CustomResourceDefinition"
            }
        }
    }
}

// === impl Cel ===

impl Cel {
    pub(crate) fn run(self) -> Result<Said, CelError> {
        let (mut question, evaluates) = match self.verb {
            Verb::Eval(question) => (question, true),
            Verb::Check(question) => (question, false),
        };
        if question.expression == "-" {
            let text = all("standard input", &mut io::stdin().lock())?;
            question.expression = text.trim_end().to_owned();
        }
        let has_items = question.zones.is_some() || question.items.is_some();
        let is_of_gates = has_items || !question.windows.is_empty();
        if is_of_gates && question.env != Functions::Gate {
            return Err(CelError::NotAGate);
        }
        let variables = question.variables()?;
        let declared = variables
            .iter()
            .map(|variable| (variable.name.clone(), variable.decl.clone()));
        if question.env == Functions::Gate
            && let Some(said) = gate::answer(&question, &variables, evaluates)?
        {
            return Ok(said);
        }
        let env = question.env.build(question.template);
        let env = env.with_variables(declared);
        let said = match (question.compile(&env), evaluates) {
            (Err(problems), _) => refused(&problems, question.output),
            (Ok(compiled), false) => match question.output {
                Output::Text => Said::good(format!("{}\n", compiled.ty)),
                Output::Json => {
                    let Interval { min, max } = compiled.estimate;
                    let estimate = json!({"min": min, "max": max});
                    let known = json!({"type": compiled.ty, "estimatedCost": estimate});
                    Said::good(format!("{known}\n"))
                }
            },
            (Ok(Compiled { program, ty, .. }), true) => {
                question.eval(&env, &variables, &program, &ty)
            }
        };
        Ok(said)
    }
}

fn refused(problems: &Problems, output: Output) -> Said {
    match output {
        Output::Text => Said {
            out: String::new(),
            err: problems.drawn(),
            good: false,
        },
        Output::Json => {
            let problem = |problem: &deltaplane_expr::Problem| {
                let at = problem.span.position(problems.source());
                let mut shown =
                    json!({"line": at.line, "column": at.column + 1, "message": problem.message});
                let expected = problems.expected(problem);
                if !expected.is_empty() {
                    shown["expected"] = json!(expected);
                }
                shown
            };
            let all: Vec<Value> = problems.iter().map(problem).collect();
            Said {
                out: format!("{}\n", json!({"problems": all})),
                err: String::new(),
                good: false,
            }
        }
    }
}

// === impl Question ===

impl Question {
    fn compile(&self, env: &Env) -> Result<Compiled, Problems> {
        let source = self.expression.as_str();
        let ast = if self.template {
            syntax::check_terminated(source)?;
            match parse_template(source, env)? {
                Template::Value(ast) | Template::Joined(ast) => ast,
                // Nothing but text is itself.
                Template::Text => parse(&syntax::quote(source), env)?,
            }
        } else {
            parse(source, env)?
        };
        let checked = check::check(&ast, env)?;
        Ok(Compiled {
            ty: checked.ty(ast.root()).to_string(),
            estimate: cost::estimate(&ast, &checked, env),
            program: lower(&ast, Some(&checked), env)?,
        })
    }

    fn variables(&self) -> Result<Vec<Variable>, CelError> {
        let mut variables = Vec::new();
        let absent = self.env.absent();
        for text in &self.variables {
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(data(value)?)),
                None => (text.as_str(), None),
            };
            if !is_name(name) {
                return Err(CelError::BadName(name.to_owned()));
            }
            if variables.iter().any(|one: &Variable| one.name == name) {
                return Err(CelError::Twice(name.to_owned()));
            }
            variables.push(Variable {
                name: name.to_owned(),
                value,
                decl: Decl::dynamic(absent).clone(),
            });
        }
        for text in &self.schemas {
            let (name, file) = text
                .split_once("=@")
                .ok_or_else(|| CelError::NoFile(text.clone()))?;
            let decl = self.schema(name, file)?;
            match variables.iter_mut().find(|one| one.name == name) {
                Some(variable) => variable.decl = decl,
                None => variables.push(Variable {
                    name: name.to_owned(),
                    value: None,
                    decl,
                }),
            }
        }
        Ok(variables)
    }

    fn schema(&self, name: &str, file: &str) -> Result<Decl, CelError> {
        let document = yaml(file, &read(file)?)?;
        let schema = stored_schema(&document);
        let options = crd::Options::default();
        let schema = crd::compile(schema, &field::Path::root(), options).map_err(|faults| {
            CelError::Schema {
                file: file.to_owned(),
                faults,
            }
        })?;
        let reading = Reading {
            absent: self.env.absent(),
            exposure: self.env.exposure(),
            resource: true,
        };
        Decl::of_schema(&schema, name, reading).ok_or_else(|| CelError::Invisible {
            file: file.to_owned(),
        })
    }

    fn eval(&self, env: &Env, variables: &[Variable], program: &Program, ty: &str) -> Said {
        let mut bindings = Bindings::new(env);
        for variable in variables {
            let (Some(value), Some(slot)) = (&variable.value, env.slot(&variable.name)) else {
                continue;
            };
            if let Err(fault) = bindings.set_json(env, slot, value) {
                let why = format!("{}: {fault}", variable.name);
                return self.failed(why.clone(), json!({"error": why}));
            }
        }
        let mut meter = Meter::new(Budget {
            cost: self.cost_limit,
            ..Budget::default()
        });
        let outcome = program.eval_metered(&bindings, &mut meter);
        let (cost, steps) = (meter.cost(), meter.steps());
        match outcome {
            Eval::Value(value) if is_omitted(&value) => {
                let said = "omitted: the field or item that it is for is left out";
                self.failed(said.to_owned(), json!({"omitted": true, "cost": cost}))
            }
            Eval::Value(value) => match value.to_json(&mut meter) {
                Ok(value) => Said::good(match self.output {
                    Output::Text => format!("{value:#}\n"),
                    Output::Json => {
                        let used =
                            json!({"value": value, "type": ty, "cost": cost, "steps": steps});
                        format!("{used}\n")
                    }
                }),
                Err(fault) => self.failed(fault.to_string(), json!({"error": fault.to_string()})),
            },
            Eval::Waiting(path) => self.failed(
                format!("waiting for {path}"),
                json!({"waiting": path.to_string(), "cost": cost}),
            ),
            Eval::Failed(failure) => {
                let at = failure.span.position(&self.expression);
                let error = json!({"error": failure.reason.to_string(),
                    "line": at.line, "column": at.column + 1, "cost": cost});
                let drawn = failure.drawn(&self.expression);
                self.failed(drawn.trim_end().to_owned(), error)
            }
            Eval::Stopped(stopped) => {
                let Budget { steps, .. } = Budget::default();
                let limit = match stopped {
                    Stopped::Cost => format!("{stopped}: {} (--cost-limit)", self.cost_limit),
                    Stopped::Steps => format!("{stopped}: {steps}"),
                };
                self.failed(limit.clone(), json!({"error": limit, "cost": cost}))
            }
        }
    }

    /// There is no value.
    fn failed(&self, text: String, json: Value) -> Said {
        let (out, err) = match self.output {
            Output::Text => (String::new(), format!("{text}\n")),
            Output::Json => (format!("{json}\n"), String::new()),
        };
        Said {
            out,
            err,
            good: false,
        }
    }
}

// === impl Functions ===

impl Functions {
    /// Texts with expressions can say that something is to be left out.
    fn build(self, template: bool) -> Env {
        match self {
            Self::Standard => env::standard(),
            Self::K8sCrd => env::kubernetes(),
            Self::Kro if template => env::kro().library(Library::KroOmit).build(),
            Self::Kro => env::kro().build(),
            Self::Gate => env::gate().build(),
        }
    }

    fn absent(self) -> Absent {
        match self {
            Self::Standard | Self::K8sCrd => Absent::Fails,
            Self::Kro | Self::Gate => Absent::Waits,
        }
    }

    fn exposure(self) -> Exposure {
        match self {
            Self::K8sCrd => Exposure::Declared,
            Self::Standard | Self::Kro | Self::Gate => Exposure::Open,
        }
    }
}

// === impl Said ===

impl Said {
    fn good(out: String) -> Self {
        Self {
            out,
            err: String::new(),
            good: true,
        }
    }
}

/// `@FILE`, or the text itself.
fn data(value: &str) -> Result<Value, CelError> {
    match value.strip_prefix('@') {
        Some(file) => yaml(file, &read(file)?),
        None => yaml(value, value),
    }
}

/// Whether an expression can say this name: letters, digits and underscores, dots between them.
fn is_name(text: &str) -> bool {
    let word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    text.split('.').all(word) && !matches!(text, "true" | "false" | "null" | "in")
}

fn read(file: &str) -> Result<String, CelError> {
    match fs::File::open(file) {
        Ok(mut open) => all(file, &mut open),
        Err(source) => Err(CelError::Read {
            file: file.to_owned(),
            source,
        }),
    }
}

/// All of it, if it is not too much.
fn all(file: &str, from: &mut dyn io::Read) -> Result<String, CelError> {
    let mut text = String::new();
    match from.take(MAX_FILE + 1).read_to_string(&mut text) {
        Ok(length) if length as u64 > MAX_FILE => Err(CelError::TooLarge {
            file: file.to_owned(),
        }),
        Ok(_) => Ok(text),
        Err(source) => Err(CelError::Read {
            file: file.to_owned(),
            source,
        }),
    }
}

fn yaml(place: &str, text: &str) -> Result<Value, CelError> {
    // JSON is YAML, but can be longer.
    let json = serde_json::from_str(text);
    json.or_else(|_| crate::yaml::read(text).map(|read| read.value))
        .map_err(|error| CelError::Yaml {
            place: place.to_owned(),
            why: error
                .to_string()
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned(),
        })
}

/// The schema of a definition's stored version; anything else is a schema itself.
fn stored_schema(document: &Value) -> &Value {
    if document["kind"] != "CustomResourceDefinition" {
        return document;
    }
    let versions = document["spec"]["versions"].as_array();
    let stored = versions
        .into_iter()
        .flatten()
        .find(|version| version["storage"] == true);
    stored.map_or(document, |version| &version["schema"]["openAPIV3Schema"])
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use expect_test::{Expect, expect};

    use super::Cel;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        cel: Cel,
    }

    fn check(words: &[&str], expected: Expect) {
        let line = Line::parse_from(["cel"].iter().chain(words));
        let said = match line.cel.run() {
            Ok(said) => format!(
                "{}{}{}",
                said.out,
                said.err,
                if said.good { "" } else { "[1]\n" }
            ),
            Err(error) => format!("error: {error}\nhint: {}\n", error.hint()),
        };
        expected.assert_eq(&said);
    }

    #[test]
    fn values_are_printed() {
        check(&["eval", "1 + 2"], expect!["3\n"]);
        check(&["eval", "-5 % 3"], expect!["-2\n"]);
        check(&["eval", "--var", "x=21", "-x"], expect!["-21\n"]);
        check(
            &[
                "eval",
                "app.names.map(n, n.upperAscii())",
                "--var",
                "app={names: [a, b]}",
            ],
            expect![[r#"
                [
                  "A",
                  "B"
                ]
            "#]],
        );
        check(
            &["eval", "x * 2", "--var", "x=21", "-o", "json"],
            expect![[r#"
                {"cost":2,"steps":3,"type":"int","value":42}
            "#]],
        );
    }

    #[test]
    fn other_objects_than_zones_are_refused_as_zones() {
        let shops = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cel/tests/shops.yaml");
        let words = ["eval", "zone.ready()", "--env", "gate", "--zones", shops];
        let line = Line::parse_from(["cel"].iter().chain(&words));
        let error = line.cel.run().map(drop).expect_err("shops are no zones");
        let said = format!("{shops}: Shop team/a is no Zone; give other objects with --items");
        assert_eq!(error.to_string(), said);
    }

    #[test]
    fn gates_are_asked_for_a_collection() {
        let zones = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cel/tests/zones.yaml");
        let shops = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cel/tests/shops.yaml");
        let gate =
            |verb: &'static str, expression: &'static str| vec![verb, expression, "--env", "gate"];
        check(
            &[
                &gate("eval", "linearlyReady(zone, zones, 2)")[..],
                &["--zones", zones],
            ]
            .concat(),
            expect![[r#"
                ITEM     VERDICT
                zone-c   open
                zone-d   closed: linearlyReady(zone, zones, 2): 2 in flight (zone-b, zone-c); 1 of 4 updated and ready
            "#]],
        );
        check(
            &[
                &gate("eval", "${shop.ready() && instance.spec.tier == 'gold'}")[..],
                &["--items", shops],
            ]
            .concat(),
            expect![[r#"
                ITEM     VERDICT
                team/a   open
                team/b   closed: shop.ready() && instance.spec.tier == 'gold': shop.ready(): true, instance.spec.tier: "silver"
            "#]],
        );
        check(
            &[
                &gate("eval", "zone.metadata.name.size() / 0 == 1")[..],
                &["--zones", zones],
            ]
            .concat(),
            expect![[r#"
                ITEM     VERDICT
                zone-c   error: zone.metadata.name.size() / 0 == 1: division by zero
                zone-d   error: zone.metadata.name.size() / 0 == 1: division by zero
                [1]
            "#]],
        );
        check(
            &[&gate("check", "exponentiallyReady(zone, zones)")[..]].concat(),
            expect![["bool\n"]],
        );
        check(
            &[
                &gate("eval", "window('night') && linearlyReady(zone, zones, 9)")[..],
                &["--zones", zones, "--window", "night=open"],
            ]
            .concat(),
            expect![[r#"
                ITEM     VERDICT
                zone-c   open
                zone-d   open
            "#]],
        );
        check(
            &[&gate("eval", "exponentiallyReady(zone, zones)")[..]].concat(),
            expect![[r#"
                error: the gate asks about a collection
                hint: give it with --zones FILE or --items FILE
            "#]],
        );
        check(
            &["eval", "true", "--zones", zones],
            expect![[r#"
                error: --zones, --items and --window are for gates
                hint: add --env gate
            "#]],
        );
    }

    #[test]
    fn gates_are_asked_without_a_collection() {
        let gate = |expression: &'static str, more: &[&'static str]| -> Vec<&'static str> {
            [&["eval", expression, "--env", "gate"], more].concat()
        };
        check(&gate("1 < 2", &[]), expect!["true\n"]);
        check(
            &gate("time.now() > timestamp('2020-01-01T00:00:00Z')", &[]),
            expect![[r#"
                true
            "#]],
        );
        check(
            &gate("release.number > 1", &["--var", "release={number: 2}"]),
            expect![[r#"
                true
            "#]],
        );
        check(
            &gate("release.number > 1", &[]),
            expect![[r#"
            waiting for release
            [1]
        "#]],
        );
        check(
            &gate("window('night')", &["--window", "night=closed"]),
            expect![[r#"
                false
            "#]],
        );
        check(
            &gate("window('night')", &["--window", "night=open", "-o", "json"]),
            expect![[r#"
                {"type":"bool","value":true}
            "#]],
        );
        check(
            &gate("window('night')", &[]),
            expect![[r#"
            1:8: there is no window 'night': none is declared
            [1]
        "#]],
        );
        check(
            &[
                "check",
                "window('night')",
                "--env",
                "gate",
                "--window",
                "night=open",
            ],
            expect![[r#"
                bool
            "#]],
        );
        check(
            &gate("window('night') && [1][2] > 0", &["--window", "night=open"]),
            expect![[r#"
                index out of bounds: 2
                [1]
            "#]],
        );
    }

    #[test]
    fn templates_are_texts_or_values() {
        let with_name =
            |words: &[&'static str]| [words, &["--template", "--var", "app={name: web}"]].concat();
        check(
            &with_name(&["eval", "${app.name}-svc"]),
            expect![[r#"
            "web-svc"
        "#]],
        );
        check(&with_name(&["check", "${[1]}"]), expect![["list(int)\n"]]);
        check(
            &with_name(&["eval", "a \"text\""]),
            expect![[r#"
            "a \"text\""
        "#]],
        );
        check(
            &with_name(&["check", "${app.name}-${1}"]),
            expect![[r#"
            1:15: expected type 'string' but found 'int': in a text, write string(…) around it
             | ${app.name}-${1}
             |               ^
            [1]
        "#]],
        );
    }

    #[test]
    fn what_is_omitted_is_left_out() {
        check(
            &["eval", "--template", "${{'a': [1, omit()], 'b': omit()}}"],
            expect![[r#"
                {
                  "a": [
                    1
                  ]
                }
            "#]],
        );
        check(
            &["eval", "--template", "${omit()}"],
            expect![[r#"
                omitted: the field or item that it is for is left out
                [1]
            "#]],
        );
    }

    #[test]
    fn limits_are_named() {
        check(
            &["eval", "lists.range(90000).map(x, x).size()"],
            expect![[r#"
                operation cancelled: actual cost limit exceeded: 1000000 (--cost-limit)
                [1]
            "#]],
        );
        let raised = [
            "lists.range(90000).map(x, x).size()",
            "--cost-limit",
            "2000000",
        ];
        check(&[&["eval"], &raised[..]].concat(), expect![["90000\n"]]);
    }

    #[test]
    fn numbers_of_yaml_are_kubernetes_numbers() {
        check(&["eval", "x", "--var", "x=0777"], expect![["511\n"]]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let words = ["eval", "app.status.ready", "--var", "app={}"];
        check(
            &words,
            expect![[r#"
            waiting for app.status
            [1]
        "#]],
        );
        let strict = [&words[..], &["--env", "k8s-crd"]].concat();
        check(
            &strict,
            expect![[r#"
            1:1: no such key: status
             | app.status.ready
             | ^^^^^^^^^^
            [1]
        "#]],
        );
    }

    #[test]
    fn problems_are_drawn() {
        check(
            &["check", "1 + 'a' == nope"],
            expect![[r#"
            1:1: found no matching overload for '_+_' applied to '(int, string)'
             | 1 + 'a' == nope
             | ^^^^^^^
             = expected (int, int) -> int
             = or (string, string) -> string
             = or (bytes, bytes) -> bytes
             = or (double, double) -> double
             = or (google.protobuf.Duration, google.protobuf.Duration) -> google.protobuf.Duration
             = or 4 more
            1:12: undeclared reference to 'nope' (in container '')
             | 1 + 'a' == nope
             |            ^^^^
            [1]
        "#]],
        );
        check(&["check", "[1].map(x, x > 0)"], expect!["list(bool)\n"]);
        check(
            &["check", "[1].all(x, x > 0)", "-o", "json"],
            expect![[r#"
                {"estimatedCost":{"max":16,"min":14},"type":"bool"}
            "#]],
        );
        check(
            &["check", "'a'.startsWith(1)", "-o", "json"],
            expect![[r#"
            {"problems":[{"column":1,"expected":["string.(string) -> bool"],"line":1,"message":"found no matching overload for 'startsWith' applied to 'string.(int)'"}]}
            [1]
        "#]],
        );
    }

    #[test]
    fn bad_arguments_say_what_to_do() {
        check(
            &["eval", "1", "--var", "x=@/no/such/file"],
            expect![[r#"
                error: failed to read /no/such/file
                hint: check that the file is there and can be read
            "#]],
        );
        check(
            &["eval", "1", "--var", "1a=1"],
            expect![[r#"
                error: "1a" is no name of a variable
                hint: see deltaplane cel eval --help
            "#]],
        );
        check(
            &["eval", "x", "--var", "x=1", "--var", "x=2"],
            expect![[r#"
                error: variable x is given twice
                hint: give each variable once
            "#]],
        );
    }
}
