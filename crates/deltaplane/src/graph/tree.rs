//! `graph tree`: what depends on what, as text, Mermaid or SVG.

use clap::{Args, ValueEnum};
use deltaplane_graph::{Gate, Graph, Node, NodeIndex, Role};

use super::live::{self, Live};
use super::plan::{Played, State, World, no_instance, state};
use super::{Files, GraphError, svg, valid};
use crate::said::Said;

#[derive(Debug, Args)]
pub(super) struct Question {
    /// A file of one or more YAML or JSON documents, a directory of such files, or `-` for standard
    /// input. Kinds that are defined in one are known in all
    #[arg(
        short = 'f',
        long = "filename",
        value_name = "FILE",
        required_unless_present = "live"
    )]
    files: Vec<String>,
    /// More definitions of kinds that are used: CustomResourceDefinitions, or other graphs
    #[arg(long, value_name = "FILE_OR_DIR", conflicts_with = "live")]
    crds: Vec<String>,
    #[command(flatten)]
    world: World,
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    #[command(flatten)]
    live: Live,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// For a terminal
    Text,
    /// For documents that draw flowcharts
    Mermaid,
    /// A picture, self-contained
    Svg,
}

/// A graph to be drawn.
pub(super) struct Drawing<'g> {
    pub(super) title: String,
    pub(super) graph: &'g Graph,
    /// How its nodes stand, if there is an instance.
    played: Option<Played>,
}

// === impl Question ===

impl Question {
    pub(super) fn run(self) -> Result<Said, GraphError> {
        let files = Files {
            files: self.files,
            crds: self.crds,
        };
        let set = match valid(&files)? {
            Ok(set) => set,
            Err(said) => return Ok(said),
        };
        let given = match self.world.read(&set)? {
            Ok(given) => given,
            Err(said) => return Ok(said),
        };
        let mut drawings = Vec::new();
        for (one, graph) in set.graphs() {
            let played = match given.play(&set, graph)? {
                Ok(played) => played,
                Err(said) => return Ok(said),
            };
            let title = one.title();
            let mut instances = played.into_iter();
            let first = instances.next();
            let rest = instances.map(Some);
            drawings.extend(std::iter::once(first).chain(rest).map(|played| Drawing {
                title: title.clone(),
                graph,
                played,
            }));
        }
        if self.world.is_given() && drawings.iter().all(|drawing| drawing.played.is_none()) {
            return Err(no_instance(&set));
        }
        Ok(Said::of_data(Drawing::drawn(&drawings, self.output)))
    }

    /// What to ask an API, if one is to be asked; otherwise the question again.
    pub(super) fn live(self: Box<Self>) -> Result<live::Question, Box<Self>> {
        match self.live.question(self.output) {
            Some(question) => Ok(question),
            None => Err(self),
        }
    }
}

// === impl Drawing ===

impl<'g> Drawing<'g> {
    /// Of a graph with an instance.
    pub(super) fn of_instance(title: &str, graph: &'g Graph, played: Played) -> Self {
        Self {
            title: title.to_owned(),
            graph,
            played: Some(played),
        }
    }

    pub(super) fn played(&self) -> Option<&Played> {
        self.played.as_ref()
    }

    /// All of them.
    pub(super) fn drawn(drawings: &[Self], output: Output) -> String {
        match output {
            Output::Text => {
                let texts: Vec<String> = drawings.iter().map(text).collect();
                texts.join("\n")
            }
            Output::Mermaid => mermaid(drawings),
            Output::Svg => svg::draw(drawings),
        }
    }

    /// `webapp: WebApp prod/shop (kro.run/v1alpha1)`.
    pub(super) fn head(&self) -> String {
        let kind = self.graph.kind();
        let metadata = self.played.as_ref().map(|one| &one.instance["metadata"]);
        let word = |field: &str| metadata.and_then(|metadata| metadata[field].as_str());
        let instance = match (word("namespace"), word("name")) {
            (Some(namespace), Some(name)) => format!(" {namespace}/{name}"),
            (None, Some(name)) => format!(" {name}"),
            (_, None) => String::new(),
        };
        format!(
            "{}: {}{instance} ({}/{})",
            self.title, kind.kind, kind.group, kind.version
        )
    }

    /// How a node stands.
    pub(super) fn state(&self, index: NodeIndex) -> Option<State> {
        let played = self.played.as_ref()?;
        Some(state(self.graph, &played.plan, index))
    }
}

/// What else there is to know of a node, a line each: the word, and an expression.
pub(super) fn notes(node: &Node) -> Vec<(String, String)> {
    let mut notes = Vec::new();
    let mut note = |word: &str, source: &str| notes.push((word.to_owned(), alone(source)));
    match node.role() {
        Role::One(_) => {}
        Role::Each { dimensions, .. } => {
            for dimension in dimensions {
                let word = format!("for each {} in", dimension.name());
                note(&word, dimension.list().source());
            }
        }
        Role::External(_) => note("made by others", ""),
        Role::Selected(_) => note("made by others, selected by labels", ""),
    }
    for condition in node.include_when() {
        note("included when", condition.source());
    }
    for condition in node.ready_when() {
        note("ready when", condition.source());
    }
    notes.extend(gates(node.gate()));
    notes
}

fn gates(gate: &Gate) -> Vec<(String, String)> {
    let when = gate.when().into_iter().flatten();
    let when = when.map(|one| ("propagates when".to_owned(), alone(&one.source)));
    let order = gate.order_by().into_iter();
    let order = order.map(|one| ("in the order of".to_owned(), alone(&one.source)));
    when.chain(order).collect()
}

/// An expression on one line, without `${` and `}`.
fn alone(source: &str) -> String {
    let text = source.trim();
    let inner = text
        .strip_prefix("${")
        .and_then(|text| text.strip_suffix('}'));
    let words: Vec<&str> = inner.unwrap_or(text).split_whitespace().collect();
    words.join(" ")
}

/// Every node is below the last of those that it reads.
fn text(drawing: &Drawing<'_>) -> String {
    let graph = drawing.graph;
    let mut text = format!("{}\n", drawing.head());
    for (word, expression) in gates(graph.gate()) {
        text.push_str(&format!("│  {word} {expression}\n"));
    }
    let mut roots = Vec::new();
    let mut children: Vec<Vec<NodeIndex>> = vec![Vec::new(); graph.nodes().len()];
    for (index, node) in graph.indexed() {
        match node.depends_on().last() {
            Some(parent) => children[parent.get()].push(index),
            None => roots.push(index),
        }
    }
    let mut stack = Vec::new();
    push(&mut stack, &roots, "");
    while let Some((index, prefix, is_last)) = stack.pop() {
        let node = graph.node(index);
        let (branch, below) = match is_last {
            true => ("└─ ", "   "),
            false => ("├─ ", "│  "),
        };
        let below = format!("{prefix}{below}");
        text.push_str(&format!("{prefix}{branch}{}\n", line(drawing, index, node)));
        let children = &children[index.get()];
        let bar = match children.is_empty() {
            true => "   ",
            false => "│  ",
        };
        for (word, expression) in notes(node) {
            let note = format!("{below}{bar}{word} {expression}");
            text.push_str(&format!("{}\n", note.trim_end()));
        }
        push(&mut stack, children, &below);
    }
    text.push_str(&status(graph));
    text
}

/// Puts nodes on a stack, so that the first comes first.
fn push(stack: &mut Vec<(NodeIndex, String, bool)>, nodes: &[NodeIndex], prefix: &str) {
    for (at, index) in nodes.iter().enumerate().rev() {
        stack.push((*index, prefix.to_owned(), at + 1 == nodes.len()));
    }
}

/// The id, the kind, what else it reads, and how it stands.
fn line(drawing: &Drawing<'_>, index: NodeIndex, node: &Node) -> String {
    let mut line = format!("{}: {}", node.id(), node.gvk());
    if let Some((_, others @ [_, ..])) = node.depends_on().split_last() {
        let others: Vec<&str> = others
            .iter()
            .map(|on| drawing.graph.node(*on).id())
            .collect();
        line.push_str(&format!(", reads {} too", others.join(", ")));
    }
    if let Some(State { word, why, .. }) = drawing.state(index) {
        match why.as_str() {
            "" => line.push_str(&format!("  [{word}]")),
            why => line.push_str(&format!("  [{word}: {why}]")),
        }
    }
    line
}

/// Which nodes the status reads.
fn status(graph: &Graph) -> String {
    let mut text = String::new();
    for hole in graph.status().holes() {
        let nodes = &hole.reads().nodes;
        let ids: Vec<&str> = nodes.iter().map(|on| graph.node(*on).id()).collect();
        let path = hole.path();
        let field = path.as_str().trim_start_matches("spec.schema.");
        text.push_str(&match ids.as_slice() {
            [] => format!("{field}: reads no resource\n"),
            ids => format!("{field}: reads {}\n", ids.join(", ")),
        });
    }
    text
}

fn mermaid(drawings: &[Drawing<'_>]) -> String {
    let mut text = "flowchart LR\n".to_owned();
    for (at, drawing) in drawings.iter().enumerate() {
        let graph = drawing.graph;
        text.push_str(&format!(
            "  subgraph g{at}[\"{}\"]\n",
            escaped(&drawing.head())
        ));
        for (index, node) in graph.indexed() {
            let mut lines = vec![node.id().to_owned(), node.gvk().to_string()];
            let notes = notes(node).into_iter();
            lines.extend(notes.map(|(word, expression)| format!("{word} {expression}")));
            lines.extend(
                drawing
                    .state(index)
                    .map(|state| format!("[{}]", state.word)),
            );
            let lines: Vec<String> = lines.iter().map(|line| escaped(line.trim_end())).collect();
            let id = index.get();
            text.push_str(&format!("    g{at}n{id}[\"{}\"]\n", lines.join("<br/>")));
        }
        for (index, node) in graph.indexed() {
            for on in node.depends_on() {
                text.push_str(&format!(
                    "    g{at}n{} --> g{at}n{}\n",
                    on.get(),
                    index.get()
                ));
            }
        }
        text.push_str("  end\n");
    }
    text
}

/// Nothing that would end a quoted text, or be taken for markup.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '#' => escaped.push_str("#35;"),
            '"' => escaped.push_str("#quot;"),
            '&' => escaped.push_str("#amp;"),
            '<' => escaped.push_str("#lt;"),
            '>' => escaped.push_str("#gt;"),
            '`' => escaped.push_str("#96;"),
            c => escaped.push(c),
        }
    }
    escaped
}
