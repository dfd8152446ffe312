//! `graph plan`: what would be done for an instance, and what waits for what.

mod change;
mod play;
mod shown;

use clap::{Args, ValueEnum};
use deltaplane_graph::Graph;
use serde_json::Value;

use super::documents::{Document, Documents};
use super::kinds::Kinds;
use super::set::{Checked, Set};
use super::{Files, GraphError, json_stream, refused, refused_at, valid, yaml};
use crate::said::Said;

pub(super) use play::Played;
pub(super) use shown::{State, cause, state};

use change::Change;
use play::Play;

#[derive(Debug, Args)]
pub(super) struct Question {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    pub(super) world: World,
    /// A summary, the objects that would be applied, or all that is known
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// What is taken to be there.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct World {
    /// Objects that are there, as kubectl prints them; those that do not belong to the instance are
    /// left alone
    #[arg(long, value_name = "FILE_OR_DIR")]
    observed: Vec<String>,
    /// Change an object that is there, or is taken to be, by the id of its resource (`web[1]` is the
    /// second of a collection), or the instance (schema); an object of others that is not there is
    /// made up. The value is YAML
    #[arg(long = "set", value_name = "PATH=VALUE")]
    changes: Vec<String>,
    /// Take what would be applied to be there, as the API would default it, and go on, until
    /// nothing is left to do or something waits
    #[arg(long)]
    assume_applied: bool,
}

/// The same, read.
pub(super) struct Given {
    there: Vec<Document>,
    changes: Vec<Change>,
    assume_applied: bool,
}

/// So many ids are named to whoever mistyped one.
const MAX_IDS: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Yaml,
    Json,
}

// === impl Question ===

impl Question {
    pub(super) fn run(self) -> Result<Said, GraphError> {
        let set = match valid(&self.files)? {
            Ok(set) => set,
            Err(said) => return Ok(said),
        };
        let given = match self.world.read(&set)? {
            Ok(given) => given,
            Err(said) => return Ok(said),
        };
        let mut told = Vec::new();
        for (_, graph) in set.graphs() {
            match given.play(&set, graph)? {
                Ok(played) => told.extend(played.into_iter().map(|played| (graph, played))),
                Err(said) => return Ok(said),
            }
        }
        if told.is_empty() {
            return Err(no_instance(&set));
        }
        self.tell(&told)
    }

    fn tell(&self, told: &[(&Graph, Played)]) -> Result<Said, GraphError> {
        let mut err = unused(told);
        let good = told.iter().all(|(_, played)| played.good());
        let out = match self.output {
            Output::Table => {
                let texts: Result<Vec<_>, _> = told
                    .iter()
                    .map(|(graph, played)| shown::text(graph, played))
                    .collect();
                texts?.join("\n")
            }
            Output::Yaml => {
                for (graph, played) in told {
                    err.push_str(&shown::waiting(graph, played));
                }
                yaml(told.iter().flat_map(|(_, played)| played.rendered()))?
            }
            Output::Json => {
                let all: Vec<Value> = told
                    .iter()
                    .map(|(graph, played)| shown::json(graph, played))
                    .collect();
                json_stream(all.iter().collect())
            }
        };
        Ok(Said { out, err, good })
    }
}

// === impl World ===

impl World {
    /// Reads what was given, or says what is wrong.
    pub(super) fn read(&self, set: &Set) -> Result<Result<Given, Said>, GraphError> {
        let there = Documents::read(&self.observed)?;
        if !there.wrong.is_empty() {
            return Ok(Err(refused(&there.wrong)));
        }
        let changes = self.changes.iter().map(|text| text.parse::<Change>());
        let changes: Vec<Change> = changes.collect::<Result<_, _>>()?;
        let graphs = set.graphs();
        for change in changes.iter().filter(|change| !change.is_of_instance()) {
            if graphs
                .iter()
                .all(|(_, graph)| graph.find(&change.node).is_none())
            {
                let ids = graphs.iter().flat_map(|(_, graph)| graph.order());
                let ids: Vec<&str> = ids.take(MAX_IDS).collect();
                return Err(GraphError::Set {
                    text: change.text().to_owned(),
                    why: format!("no resource is {:?}, but {}", change.node, ids.join(", ")),
                });
            }
        }
        Ok(Ok(Given {
            there: there.list,
            changes,
            assume_applied: self.assume_applied,
        }))
    }

    /// Whether there is more to it than an instance.
    pub(super) fn is_given(&self) -> bool {
        !self.observed.is_empty() || !self.changes.is_empty() || self.assume_applied
    }
}

// === impl Given ===

impl Given {
    /// Plans for every instance of a graph, or says what is wrong.
    pub(super) fn play(
        &self,
        set: &Set,
        graph: &Graph,
    ) -> Result<Result<Vec<Played>, Said>, GraphError> {
        let mut played = Vec::new();
        for document in set.instances(graph) {
            let mut json = document.json.clone();
            for change in self.changes.iter().filter(|change| change.is_of_instance()) {
                change.apply(&mut json)?;
            }
            let Checked { json, wrong } = set.check(graph, &json);
            if !wrong.is_empty() {
                return Ok(Err(refused_at(&document.place, wrong)));
            }
            let mut play = Play::new(&set.kinds, graph, json, &self.changes);
            play.observe(&self.there)?;
            played.push(play.run(self.assume_applied)?);
        }
        Ok(Ok(played))
    }
}

/// Plans for an instance with what there is.
pub(super) fn planned(
    kinds: &Kinds,
    graph: &Graph,
    instance: Value,
    there: &[Document],
) -> Result<Played, GraphError> {
    let mut play = Play::new(kinds, graph, instance, &[]);
    play.observe(there)?;
    play.run(false)
}

pub(super) fn no_instance(set: &Set) -> GraphError {
    let kinds: Vec<String> = set.asked().map(|one| one.gvk().to_string()).collect();
    GraphError::NoInstance {
        kinds: kinds.join(" or "),
    }
}

/// Changes that nothing was changed by.
fn unused(told: &[(&Graph, Played)]) -> String {
    let mut text = String::new();
    for (_, played) in told {
        for (change, node) in &played.unused {
            text.push_str(&format!(
                "note: --set {change} changed nothing: there is no such object of {node} yet\n"
            ));
        }
    }
    if !text.is_empty() {
        text.push_str("hint: --assume-applied takes what would be applied to be there\n");
    }
    text
}
