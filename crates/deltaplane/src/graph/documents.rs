//! The documents of files, directories and standard input.
//!
//! Invariant: a document that cannot be read is reported and keeps no other from being read. Only
//! a file that is not there, or too large, is an error.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use deltaplane_api::field;
use deltaplane_graph::Problem;
use serde_json::Value;

use super::GraphError;
use super::found::Found;
use crate::yaml::{self, DuplicateKey, MAX_DEPTH as MAX_YAML_DEPTH};

/// An object, and where it was read.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) place: Place,
    pub(super) json: Value,
}

/// Which document of which file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) file: String,
    /// From 1.
    pub(super) number: usize,
    /// Whether there are others in the file.
    pub(super) among_others: bool,
}

/// All documents that could be read, and what is wrong with the others.
#[derive(Debug, Default)]
pub(super) struct Documents {
    pub(super) list: Vec<Document>,
    pub(super) wrong: Vec<Found>,
    /// What kubectl warns of, a line each.
    pub(super) warnings: Vec<String>,
    read: u64,
}

/// All files together are no larger.
const MAX_BYTES: u64 = 64 << 20;
/// And have no more documents.
pub(super) const MAX_DOCUMENTS: usize = 10_000;

// === impl Document ===

impl Document {
    pub(super) fn api_version(&self) -> &str {
        self.json["apiVersion"].as_str().unwrap_or_default()
    }

    pub(super) fn kind(&self) -> &str {
        self.json["kind"].as_str().unwrap_or_default()
    }

    pub(super) fn name(&self) -> &str {
        self.json["metadata"]["name"].as_str().unwrap_or_default()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        match self.among_others {
            true => write!(f, "#{}", self.number),
            false => Ok(()),
        }
    }
}

// === impl Documents ===

impl Documents {
    /// Reads files, directories and, for `-`, standard input.
    pub(super) fn read(files: &[String]) -> Result<Self, GraphError> {
        let mut documents = Self::default();
        for file in files {
            documents.add(file)?;
        }
        Ok(documents)
    }

    fn add(&mut self, file: &str) -> Result<(), GraphError> {
        if file == "-" {
            let text = self.all("standard input", &mut io::stdin().lock())?;
            return self.split("standard input", &text);
        }
        let failed = |source| GraphError::Read {
            file: file.to_owned(),
            source,
        };
        if !fs::metadata(file).map_err(failed)?.is_dir() {
            return self.file(file);
        }
        for path in inside(Path::new(file)).map_err(failed)? {
            self.file(&path.to_string_lossy())?;
        }
        Ok(())
    }

    fn file(&mut self, file: &str) -> Result<(), GraphError> {
        let opened = fs::File::open(file).map_err(|source| GraphError::Read {
            file: file.to_owned(),
            source,
        });
        let text = self.all(file, &mut opened?)?;
        self.split(file, &text)
    }

    /// All of it, if it is not too much.
    fn all(&mut self, file: &str, from: &mut dyn Read) -> Result<String, GraphError> {
        let mut text = String::new();
        let left = MAX_BYTES - self.read;
        let length = from.take(left + 1).read_to_string(&mut text);
        let length = length.map_err(|source| GraphError::Read {
            file: file.to_owned(),
            source,
        })? as u64;
        if length > left {
            return Err(GraphError::TooLarge(MAX_BYTES));
        }
        self.read += length;
        Ok(text)
    }

    fn split(&mut self, file: &str, text: &str) -> Result<(), GraphError> {
        let parts = parts(text);
        let among_others = parts.len() > 1;
        for (index, part) in parts.into_iter().enumerate() {
            let place = Place {
                file: file.to_owned(),
                number: index + 1,
                among_others,
            };
            match part.parse() {
                Ok((Value::Null, _)) => {}
                Ok((json, duplicates)) => {
                    let warnings = duplicates.iter();
                    let warnings = warnings.map(|one| format!("warning: {file}: {one}\n"));
                    self.warnings.extend(warnings);
                    self.object(place, json);
                }
                Err(why) => self.refuse(place, format!("it is not YAML: {why}")),
            }
            if self.list.len() + self.wrong.len() > MAX_DOCUMENTS {
                return Err(GraphError::TooMany);
            }
        }
        Ok(())
    }

    /// What `kubectl get` prints of several objects is one, which has them in it.
    fn object(&mut self, place: Place, mut json: Value) {
        if deltaplane_schema::too_deep(&json) {
            let most = deltaplane_schema::MAX_DEPTH;
            return self.refuse(place, format!("it is nested deeper than {most} levels"));
        }
        if !json.is_object() {
            return self.refuse(place, "it is not an object".to_owned());
        }
        if json["kind"] == "List" && json["items"].is_array() {
            if let Value::Array(items) = json["items"].take() {
                let of_list = items.into_iter().filter(Value::is_object);
                self.list.extend(of_list.map(|json| Document {
                    place: place.clone(),
                    json,
                }));
            }
            return;
        }
        self.list.push(Document { place, json });
    }

    fn refuse(&mut self, place: Place, message: String) {
        let problem = Problem::new(&field::Path::root(), message);
        self.wrong.push(Found { place, problem });
    }
}

/// The files of a directory that look like manifests, in the order of their names. What is in
/// directories in it is not looked at, as with kubectl.
fn inside(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let named = path.extension().and_then(|end| end.to_str());
        if matches!(named, Some("yaml" | "yml" | "json")) && path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The text of one document, and how many lines are before it.
struct Part<'t> {
    text: &'t str,
    before: usize,
}

impl Part<'_> {
    /// Reads it, with the keys that are set twice, by the lines of the file.
    fn parse(&self) -> Result<(Value, Vec<DuplicateKey>), String> {
        // JSON is YAML, but can be deeper and is read faster.
        if self.text.trim_start().starts_with('{')
            && let Ok(json) = serde_json::from_str(self.text)
        {
            return Ok((json, Vec::new()));
        }
        let read = yaml::read(self.text).map_err(|error| self.fault(&error))?;
        let duplicates = read.duplicates.into_iter().map(|one| DuplicateKey {
            line: one.line + self.before as u64,
            ..one
        });
        Ok((read.value, duplicates.collect()))
    }

    /// What is wrong, at which line of the file.
    fn fault(&self, error: &serde_saphyr::Error) -> String {
        use serde_saphyr::Error as Fault;
        use serde_saphyr::budget::BudgetBreach;
        let mut fault = error.without_snippet();
        while let Fault::AliasError { error, .. } = fault {
            fault = error;
        }
        let too_deep = matches!(
            fault,
            Fault::Budget {
                breach: BudgetBreach::Depth { .. },
                ..
            }
        );
        let too_much = matches!(
            fault,
            Fault::Budget { .. }
                | Fault::AliasReplayLimitExceeded { .. }
                | Fault::AliasExpansionLimitExceeded { .. }
                | Fault::AliasReplayStackDepthExceeded { .. }
        );
        let text = match (too_deep, too_much) {
            (true, _) => {
                format!("it is nested deeper than {MAX_YAML_DEPTH} levels, which only JSON may be")
            }
            (false, true) => "it has more values or aliases than can be read".to_owned(),
            (false, false) => fault.to_string(),
        };
        // It ends with the place in the document, and goes on with the text that is there.
        let first = text.lines().next().unwrap_or_default();
        let first = first.trim_start_matches("error: ");
        let first = first.split(" at line ").next().unwrap_or_default();
        // Options are for programs to set.
        let first = first.split(", set Dup").next().unwrap_or_default();
        match fault.location() {
            Some(at) => format!("line {}: {first}", self.before as u64 + at.line()),
            None => first.to_owned(),
        }
    }
}

/// The documents of a text: those between lines that begin with `---`, which nothing inside of a
/// document can. What has nothing but comments in it is none.
fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let (mut start, mut at, mut first_line) = (0, 0, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let rest = line.strip_prefix("---");
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace)) {
            parts.push(Part {
                text: &text[start..at],
                before: first_line,
            });
            // Something may be written behind it.
            start = at + 3;
            first_line = number;
        }
        at += line.len();
    }
    parts.push(Part {
        text: &text[start..],
        before: first_line,
    });
    let says = |line: &str| {
        let line = line.trim();
        !(line.is_empty() || line.starts_with('#') || line == "...")
    };
    parts.retain(|part| part.text.lines().any(says));
    parts
}
