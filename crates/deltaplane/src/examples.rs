//! `deltaplane examples`: the examples of the repository, in the binary.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use crate::said::Said;
use crate::table::Table;

/// For `examples`.
#[derive(Debug, Args)]
pub(crate) struct Examples {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the examples
    List,
    /// Write the examples to a directory; files that are there already are kept
    Write {
        /// The directory; it is created if it does not exist
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

/// Why examples could not be written.
#[derive(Debug, thiserror::Error)]
#[error("failed to write {}", path.display())]
pub(crate) struct ExamplesError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// One file.
struct Example {
    path: &'static str,
    text: &'static str,
}

macro_rules! examples {
    ($($path:literal,)*) => {
        &[$(Example {
            path: $path,
            text: include_str!(concat!("../../../examples/", $path)),
        },)*]
    };
}

const EXAMPLES: &[Example] = examples![
    "gears.yaml",
    "graphs/broken/webapp.yaml",
    "graphs/changed/shop.yaml",
    "graphs/changed/webapp.yaml",
    "graphs/shop-instances.yaml",
    "graphs/shop.yaml",
    "graphs/tenants-instance.yaml",
    "graphs/tenants.yaml",
    "graphs/webapp-instance.yaml",
    "graphs/webapp.yaml",
    "local-widget.yaml",
    "rollouts/policy.yaml",
    "rollouts/settings.yaml",
    "synced-configmaps.yaml",
    "synced-widgets.yaml",
    "tour/1-kind.yaml",
    "tour/2-banner.yaml",
    "tour/3-graph.yaml",
    "tour/4-apps.yaml",
    "tour/5-policy.yaml",
    "tour/6-good.yaml",
    "tour/7-bad.yaml",
    "tour/tour.txt",
    "widget.yaml",
    "widgets.yaml",
];

// === impl Examples ===

impl Examples {
    pub(crate) fn run(&self) -> Result<Said, ExamplesError> {
        match &self.verb {
            Verb::List => Ok(Said {
                out: list(),
                err: "hint: deltaplane examples write DIR writes them; begin with tour/tour.txt\n"
                    .to_owned(),
                good: true,
            }),
            Verb::Write { directory } => write(directory),
        }
    }
}

// === impl ExamplesError ===

impl ExamplesError {
    pub(crate) fn hint(&self) -> &'static str {
        "give a directory that you may write to"
    }
}

fn list() -> String {
    let mut table = Table::new(&["FILE", "ABOUT"]);
    for example in EXAMPLES {
        table.add(vec![example.path.to_owned(), example.about()]);
    }
    table.text()
}

fn write(directory: &Path) -> Result<Said, ExamplesError> {
    let mut said = Said {
        good: true,
        ..Said::default()
    };
    for example in EXAMPLES {
        let path = directory.join(example.path);
        let failed = |source| ExamplesError {
            path: path.clone(),
            source,
        };
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        match create(&path, example.text) {
            Ok(()) => said.out.push_str(&format!("{}\n", path.display())),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                said.err
                    .push_str(&format!("{} exists and is kept\n", path.display()));
            }
            Err(error) => return Err(failed(error)),
        }
    }
    let tour = directory.join("tour");
    said.err.push_str(&format!(
        "hint: start with deltaplane up; then go to {} and follow tour.txt\n",
        tour.display()
    ));
    Ok(said)
}

fn create(path: &Path, text: &str) -> io::Result<()> {
    let mut file = std::fs::File::create_new(path)?;
    io::Write::write_all(&mut file, text.as_bytes())
}

// === impl Example ===

impl Example {
    /// Returns the first sentence of its comment, or the kinds of its objects.
    fn about(&self) -> String {
        let comment = self.text.lines().map_while(|line| line.strip_prefix("# "));
        let comment = comment.collect::<Vec<&str>>().join(" ");
        if !comment.is_empty() {
            let first = comment
                .split_once(". ")
                .map_or(&*comment, |(first, _)| first);
            return first.trim_end_matches('.').to_owned();
        }
        let kinds = self
            .text
            .lines()
            .filter_map(|line| line.strip_prefix("kind: "));
        let mut kinds: Vec<&str> = kinds.map(str::trim).collect();
        kinds.dedup();
        kinds.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The files below a directory, as paths in it.
    fn files(directory: &Path, below: &Path) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for entry in std::fs::read_dir(below).expect("a directory") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => found.extend(files(directory, &path)),
                false => {
                    let path = path.strip_prefix(directory).expect("below it");
                    found.insert(path.to_string_lossy().into_owned());
                }
            }
        }
        found
    }

    #[test]
    fn all_examples_are_in_the_binary() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        let there = files(&directory, &directory);
        let have: BTreeSet<String> = EXAMPLES.iter().map(|one| one.path.to_owned()).collect();
        assert_eq!(have, there);
    }

    #[test]
    fn written_examples_are_kept_when_they_are_written_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let target = directory.path().join("new");
        let said = write(&target).expect("written");
        assert_eq!(said.out.lines().count(), EXAMPLES.len());
        let tour = target.join("tour/tour.txt");
        std::fs::write(&tour, "mine").expect("written");
        let said = write(&target).expect("written");
        assert_eq!(said.out, "");
        assert!(
            said.err.contains("tour.txt exists and is kept"),
            "{}",
            said.err
        );
        assert_eq!(std::fs::read_to_string(&tour).expect("there"), "mine");
        assert!(list().contains("tour/tour.txt"));
    }

    #[test]
    fn examples_are_described_by_whole_sentences() {
        let described = |path: &str| {
            let mut found = EXAMPLES.iter().filter(|one| one.path == path);
            found.next().expect("an example").about()
        };
        assert_eq!(
            described("tour/5-policy.yaml"),
            "A change of the graph goes to the canary zone first; when it was ready there for a second, to the others, in growing waves"
        );
        assert_eq!(described("tour/4-apps.yaml"), "Two Apps, in every zone");
        assert_eq!(described("widget.yaml"), "Widget");
    }
}
