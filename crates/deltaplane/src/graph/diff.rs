//! `graph diff`: what changes from one definition to another.

mod compare;
mod shown;

use clap::Args;
use deltaplane_graph::{Definition, Graph};

use super::set::{Compiled, Set};
use super::{Files, GraphError, TextOutput, valid};
use crate::said::Said;

#[derive(Debug, Args)]
pub(super) struct Question {
    /// The old and the new definition, in this order; `-` is standard input
    #[arg(
        short = 'f',
        long = "filename",
        value_name = "FILE",
        required_unless_present = "from",
        conflicts_with_all = ["from", "to"]
    )]
    files: Vec<String>,
    /// The old one
    #[arg(long, value_name = "FILE", requires = "to")]
    from: Option<String>,
    /// The new one
    #[arg(long, value_name = "FILE", requires = "from")]
    to: Option<String>,
    /// Definitions of kinds that are used: CustomResourceDefinitions, or other graphs
    #[arg(long, value_name = "FILE_OR_DIR")]
    crds: Vec<String>,
    /// End with exit code 1 if instances that were valid may not be so any more
    #[arg(long)]
    fail_on_breaking: bool,
    #[arg(short, long, value_enum, default_value_t = TextOutput::Text)]
    output: TextOutput,
}

// === impl Question ===

impl Question {
    pub(super) fn run(self) -> Result<Said, GraphError> {
        let Self {
            files, from, to, ..
        } = &self;
        let (from, to) = match (from, to, files.as_slice()) {
            (Some(from), Some(to), _) | (None, None, [from, to]) => (from, to),
            (_, _, files) => return Err(GraphError::NotTwo(files.len())),
        };
        let old = match self.side(from)? {
            Ok(set) => set,
            Err(said) => return Ok(said),
        };
        let new = match self.side(to)? {
            Ok(set) => set,
            Err(said) => return Ok(said),
        };
        let diff = compare::compare(only(&old)?, only(&new)?);
        let out = match self.output {
            TextOutput::Text => shown::text(&diff),
            TextOutput::Json => format!("{:#}\n", shown::json(&diff)),
        };
        let good = !(self.fail_on_breaking && diff.is_breaking());
        let err = match good {
            true => String::new(),
            false => "there are breaking changes\n".to_owned(),
        };
        Ok(Said { out, err, good })
    }

    fn side(&self, file: &str) -> Result<Result<Set, Said>, GraphError> {
        valid(&Files {
            files: vec![file.to_owned()],
            crds: self.crds.clone(),
        })
    }
}

/// What changes from one definition to another, as people read it: of each the title, the definition
/// and its graph.
pub(super) fn between(
    from: (String, &Definition, &Graph),
    to: (String, &Definition, &Graph),
) -> String {
    let [old, new] = [from, to].map(|(title, definition, graph)| compare::Side {
        title,
        definition,
        graph,
    });
    shown::text(&compare::compare(old, new))
}

/// The one definition of a side.
fn only(set: &Set) -> Result<compare::Side<'_>, GraphError> {
    let graphs = set.graphs();
    match graphs.as_slice() {
        [(one, graph)] => Ok(side(one, graph)),
        // The other side has one.
        graphs => Err(GraphError::NotTwo(graphs.len() + 1)),
    }
}

fn side<'s>(one: &'s Compiled, graph: &'s Graph) -> compare::Side<'s> {
    compare::Side {
        title: one.title(),
        definition: &one.definition,
        graph,
    }
}
