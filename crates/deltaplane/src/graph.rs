//! `deltaplane graph`: definitions of graphs looked at without a server.
//!
//! Nothing here reaches a hub, but for `live`: kinds are those of Kubernetes, which are built in, and
//! those whose definitions were given.

mod diff;
mod documents;
mod found;
mod kinds;
pub(crate) mod live;
mod plan;
mod set;
mod svg;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::BTreeSet;
use std::io;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::said::Said;
use deltaplane_graph::{Graph as Compiled, Problem};
use found::Found;
use set::Set;

/// For `graph`.
#[derive(Debug, Args)]
pub(crate) struct Graph {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Say all that is wrong with definitions, and with instances beside them; the exit code is 1
    /// when something is
    #[command(after_help = VALIDATE_EXAMPLES)]
    Validate(Validate),
    /// Print the CustomResourceDefinition of the kind that a definition makes
    #[command(after_help = CRD_EXAMPLES)]
    Crd(Crd),
    /// Say what would be applied for an instance now, what waits for what, and its status
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(plan::Question),
    /// Draw what depends on what; with an instance, how each resource stands; with --live, how it
    /// stands with an instance that runs
    #[command(after_help = TREE_EXAMPLES)]
    Tree(Box<tree::Question>),
    /// Compare two definitions: what changes for instances, for resources and for their order
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(diff::Question),
}

const VALIDATE_EXAMPLES: &str = "\
Examples:
  deltaplane graph validate -f webapp.yaml
  deltaplane graph validate -f graphs/ --crds crds/ -o json
  kustomize build . | deltaplane graph validate -f -";

const CRD_EXAMPLES: &str = "\
Examples:
  deltaplane graph crd -f webapp.yaml
  deltaplane graph crd -f webapp.yaml -o json";

const PLAN_EXAMPLES: &str = "\
Examples:
  What would be applied first, and what waits for it:
    deltaplane graph plan -f webapp.yaml -f web.yaml
  The objects themselves:
    deltaplane graph plan -f webapp.yaml -f web.yaml -o yaml
  With what there is in a cluster:
    kubectl get deployments,configmaps -l kro.run/owned=true -o yaml >there.yaml
    deltaplane graph plan -f webapp.yaml -f web.yaml --observed there.yaml
  Played forward until something waits, or nothing is left to do:
    deltaplane graph plan -f webapp.yaml -f web.yaml --assume-applied \\
      --set deployment.status.availableReplicas=2 --set schema.spec.replicas=2";

const TREE_EXAMPLES: &str = "\
Examples:
  deltaplane graph tree -f webapp.yaml
  deltaplane graph tree -f webapp.yaml -f web.yaml
  deltaplane graph tree -f webapp.yaml -o svg >webapp.svg
  How it stands with an instance that runs:
    deltaplane graph tree webapp/shop -n prod --live --zone eu-1
    deltaplane graph tree webapp/shop -n prod --live --watch";

const DIFF_EXAMPLES: &str = "\
Examples:
  deltaplane graph diff -f old.yaml -f new.yaml
  git show HEAD:webapp.yaml | deltaplane graph diff --from - --to webapp.yaml --fail-on-breaking";

/// What is read.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Files {
    /// A file of one or more YAML or JSON documents, a directory of such files, or `-` for standard
    /// input. Kinds that are defined in one are known in all
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    files: Vec<String>,
    /// More definitions of kinds that are used: CustomResourceDefinitions, or other graphs
    #[arg(long, value_name = "FILE_OR_DIR")]
    crds: Vec<String>,
}

#[derive(Debug, Args)]
struct Validate {
    #[command(flatten)]
    files: Files,
    #[arg(short, long, value_enum, default_value_t = TextOutput::Text)]
    output: TextOutput,
}

#[derive(Debug, Args)]
struct Crd {
    #[command(flatten)]
    files: Files,
    #[arg(short, long, value_enum, default_value_t = DataOutput::Yaml)]
    output: DataOutput,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TextOutput {
    /// For people
    Text,
    /// One object that says all that is known
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DataOutput {
    Yaml,
    Json,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GraphError {
    #[error("failed to read {file}")]
    Read {
        file: String,
        #[source]
        source: io::Error,
    },
    #[error("there are more than {0} bytes to read")]
    TooLarge(u64),
    #[error("there are more than {} documents", documents::MAX_DOCUMENTS)]
    TooMany,
    #[error("there is no ResourceGraphDefinition in what was given")]
    NoDefinition,
    #[error("there is no instance in what was given")]
    NoInstance { kinds: String },
    #[error("--set {text:?} cannot be used: {why}")]
    Set { text: String, why: String },
    #[error("two definitions are compared, and not {0}")]
    NotTwo(usize),
    #[error("failed to write YAML")]
    Yaml(#[from] serde_saphyr::ser::Error),
}

/// The objects of files, directories and standard input; if some cannot be read, what is wrong
/// with them.
pub(crate) fn objects(files: &[String]) -> Result<Result<Vec<Value>, String>, GraphError> {
    let documents = documents::Documents::read(files)?;
    if documents.wrong.is_empty() {
        let objects = documents.list.into_iter().map(|document| document.json);
        return Ok(Ok(objects.collect()));
    }
    let wrong = documents.wrong.iter();
    Ok(Err(wrong
        .map(|found| format!("{}\n", found.drawn()))
        .collect()))
}

// === impl GraphError ===

impl GraphError {
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::Read { .. } => "check that the file is there and can be read".to_owned(),
            Self::TooLarge(_) | Self::TooMany => "give only what belongs together".to_owned(),
            Self::NoDefinition => {
                "give one with -f: apiVersion kro.run/v1alpha1, kind ResourceGraphDefinition"
                    .to_owned()
            }
            Self::NoInstance { kinds } => format!("give an object of {kinds} with -f"),
            Self::Set { .. } => {
                "write the id of a resource, or schema for the instance, a path and a value: \
                 --set web.status.availableReplicas=2"
                    .to_owned()
            }
            Self::NotTwo(_) => {
                "give the old and the new one: -f old.yaml -f new.yaml; others with --crds"
                    .to_owned()
            }
            Self::Yaml(_) => "this should not happen; please report it".to_owned(),
        }
    }
}

// === impl Graph ===

impl Graph {
    /// What to ask an API, if one is to be asked; otherwise the command again.
    pub(crate) fn live(self) -> Result<live::Question, Self> {
        match self.verb {
            Verb::Tree(asked) => asked.live().map_err(|asked| Self {
                verb: Verb::Tree(asked),
            }),
            verb @ (Verb::Validate(_) | Verb::Crd(_) | Verb::Plan(_) | Verb::Diff(_)) => {
                Err(Self { verb })
            }
        }
    }

    pub(crate) fn run(self) -> Result<Said, GraphError> {
        let said = match self.verb {
            Verb::Validate(asked) => asked.run(),
            Verb::Crd(asked) => asked.run(),
            Verb::Plan(asked) => asked.run(),
            Verb::Tree(asked) => asked.run(),
            Verb::Diff(asked) => asked.run(),
        }?;
        // What was read may be anybody's.
        Ok(said.printable())
    }
}

// === impl Validate ===

impl Validate {
    fn run(self) -> Result<Said, GraphError> {
        let mut set = Set::read(&self.files)?;
        if set.asked().next().is_none() && set.wrong.is_empty() {
            return Err(GraphError::NoDefinition);
        }
        let (instances, skipped) = instances(&mut set);
        let wrong: BTreeSet<_> = set.wrong.iter().map(|wrong| &wrong.place).collect();
        let valid: Vec<Value> = set
            .graphs()
            .into_iter()
            .filter(|(one, _)| !wrong.contains(&one.place))
            .map(|(one, graph)| summary(&one.title(), &one.place, graph))
            .collect();
        let good = set.wrong.is_empty();
        if self.output == TextOutput::Json {
            let out = json!({
                "valid": valid, "instances": instances, "problems": found::json(&set.wrong),
            });
            let (out, err) = (format!("{out:#}\n"), set.warnings.concat());
            return Ok(Said { out, err, good });
        }
        let lines = valid.iter().map(ok_line);
        let lines = lines.chain(instances.iter().map(ok_instance));
        let mut err = set.warnings.concat();
        err.push_str(&skipped);
        if !good {
            err.push_str(&found::drawn(&set.wrong));
        }
        let out = lines.collect();
        Ok(Said { out, err, good })
    }
}

/// Checks the instances of all graphs: those that are valid, and what is said of other objects.
fn instances(set: &mut Set) -> (Vec<Value>, String) {
    let (mut valid, mut wrong) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for (_, graph) in set.graphs() {
        for document in set.instances(graph) {
            seen.insert(document.place.clone());
            let checked = set.check(graph, &document.json);
            if checked.wrong.is_empty() {
                valid.push(json!({"name": document.name(), "kind": graph.kind().kind,
                    "file": document.place.file, "document": document.place.number}));
            }
            wrong.extend(checked.wrong.into_iter().map(|problem| Found {
                place: document.place.clone(),
                problem,
            }));
        }
    }
    let defined: BTreeSet<_> = set.definitions.iter().map(set::Compiled::gvk).collect();
    let others = set.others.iter();
    let others = others.filter(|other| !seen.contains(&other.place));
    let skipped = others.map(|other| match other.gvk() {
        Some(gvk) if defined.contains(&gvk) => {
            format!(
                "{}: not looked at, since its definition has problems\n",
                other.place
            )
        }
        Some(gvk) => format!("{}: not looked at: {gvk} is no definition\n", other.place),
        None => format!(
            "{}: not looked at: it has no apiVersion and kind\n",
            other.place
        ),
    });
    let skipped = skipped.collect();
    set.wrong.extend(wrong);
    set.wrong.sort_by(|a, b| a.place.cmp(&b.place));
    (valid, skipped)
}

fn summary(title: &str, place: &documents::Place, graph: &Compiled) -> Value {
    let kind = graph.kind();
    let group_version = format!("{}/{}", kind.group, kind.version);
    json!({
        "name": title,
        "file": place.file,
        "document": place.number,
        "apiVersion": group_version,
        "kind": kind.kind,
        "order": graph.order().collect::<Vec<_>>(),
        "version": graph.version().as_str(),
    })
}

fn ok_line(summary: &Value) -> String {
    let text = |field: &str| summary[field].as_str().unwrap_or_default();
    let order: Vec<&str> = {
        let ids = summary["order"].as_array().into_iter().flatten();
        ids.filter_map(Value::as_str).collect()
    };
    let (name, kind) = (text("name"), text("kind"));
    match order.as_slice() {
        [] => format!("ok {name}: kind {kind}, no resources\n"),
        [one] => format!("ok {name}: kind {kind}, 1 resource, {one}\n"),
        order => {
            let count = order.len();
            let order = order.join(" → ");
            format!("ok {name}: kind {kind}, {count} resources, order {order}\n")
        }
    }
}

fn ok_instance(summary: &Value) -> String {
    let text = |field: &str| summary[field].as_str().unwrap_or_default();
    format!("ok {}: instance of {}\n", text("name"), text("kind"))
}

// === impl Crd ===

impl Crd {
    fn run(self) -> Result<Said, GraphError> {
        let set = match valid(&self.files)? {
            Ok(set) => set,
            Err(said) => return Ok(said),
        };
        let crds: Vec<&Value> = set.graphs().iter().map(|(_, graph)| graph.crd()).collect();
        let out = match self.output {
            DataOutput::Yaml => yaml(crds)?,
            DataOutput::Json => json_stream(crds),
        };
        Ok(Said::of_data(out))
    }
}

/// What was given, if nothing is wrong with it; otherwise what is.
fn valid(files: &Files) -> Result<Result<Set, Said>, GraphError> {
    let set = Set::read(files)?;
    if !set.wrong.is_empty() {
        return Ok(Err(refused(&set.wrong)));
    }
    match set.graphs().is_empty() {
        false => Ok(Ok(set)),
        true => Err(GraphError::NoDefinition),
    }
}

/// Something is wrong.
fn refused(wrong: &[Found]) -> Said {
    Said {
        out: String::new(),
        err: found::drawn(wrong),
        good: false,
    }
}

/// The same for problems of one document.
fn refused_at(place: &documents::Place, problems: Vec<Problem>) -> Said {
    let found = problems.into_iter().map(|problem| Found {
        place: place.clone(),
        problem,
    });
    refused(&found.collect::<Vec<_>>())
}

/// Documents, with lines between them.
fn yaml<'v>(all: impl IntoIterator<Item = &'v Value>) -> Result<String, GraphError> {
    let mut text = String::new();
    for (index, json) in all.into_iter().enumerate() {
        if index > 0 {
            text.push_str("---\n");
        }
        text.push_str(&serde_saphyr::to_string(json)?);
    }
    Ok(text)
}

/// One is itself; several are a list, as kubectl takes them.
fn json_stream(all: Vec<&Value>) -> String {
    match all.as_slice() {
        [one] => format!("{one:#}\n"),
        all => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": all});
            format!("{list:#}\n")
        }
    }
}
