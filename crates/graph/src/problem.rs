//! What is wrong with a definition: where in the document, where in the expression, what would do.

use std::fmt;

use deltaplane_api::field::Path;
use deltaplane_expr::Span;

use crate::near::did_you_mean;
use crate::template::Spot;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where in the document.
    pub path: Path,
    pub message: String,
    /// Where in the expression, if it is about one.
    pub excerpt: Option<Excerpt>,
    /// What to do about it, if that is known.
    pub hint: Option<String>,
}

/// A place in the text of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    pub text: String,
    pub span: Span,
}

/// Everything that is wrong with a definition, in the order of the document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    list: Vec<Problem>,
    /// How many more there are than are kept.
    more: usize,
}

/// More than these are counted, and not kept.
const MAX: usize = 100;
/// So many names that are not known are compared with those that are: that takes long, and whoever
/// makes more mistakes has made none by mistyping.
const MAX_HINTED: usize = 20;
/// Of a longer text the part around the place is kept, in bytes on each side.
const AROUND: usize = 2048;

// === impl Problem ===

impl Problem {
    pub fn new(path: &Path, message: impl Into<String>) -> Self {
        Self {
            path: path.clone(),
            message: message.into(),
            excerpt: None,
            hint: None,
        }
    }

    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// With a hint, if there is one.
    #[must_use]
    pub(crate) fn hinted(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }

    /// The same at a path.
    #[must_use]
    pub(crate) fn below(self, path: &Path) -> Self {
        let path = path.clone();
        Self { path, ..self }
    }

    /// The same at a place in the definition.
    #[must_use]
    pub(crate) fn within(self, spot: &Spot) -> Self {
        self.below(&spot.path())
    }

    #[must_use]
    pub fn at(self, text: &str, span: Span) -> Self {
        Self {
            excerpt: Some(Excerpt::around(text, span)),
            ..self
        }
    }
}

impl fmt::Display for Problem {
    /// One line; [`Problem::drawn`] has more.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.as_str(), self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

impl Problem {
    /// As people read it: the place, what is wrong, the line of the expression with a mark under
    /// it, and a hint.
    pub fn drawn(&self) -> String {
        let mut drawn = format!("{}: {}\n", self.path.as_str(), self.message);
        if let Some(excerpt) = &self.excerpt {
            drawn.push_str(&excerpt.drawn());
        }
        if let Some(hint) = &self.hint {
            drawn.push_str(&format!("  hint: {hint}\n"));
        }
        drawn
    }
}

// === impl Excerpt ===

/// Of a longer line a part is shown.
const MAX_LINE: usize = 120;

impl Excerpt {
    fn around(text: &str, span: Span) -> Self {
        let (from, to) = (span.start as usize, span.end as usize);
        let mut start = from.saturating_sub(AROUND).min(text.len());
        let mut end = to.saturating_add(AROUND).min(start + 3 * AROUND);
        end = end.min(text.len()).max(start);
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        while !text.is_char_boundary(end) {
            end += 1;
        }
        let within = |at: u32| u32::try_from((at as usize).clamp(start, end) - start);
        let span = Span {
            start: within(span.start).unwrap_or(0),
            end: within(span.end).unwrap_or(0),
        };
        let text = text[start..end].to_owned();
        Self { text, span }
    }

    /// The line, and a mark under the place.
    fn drawn(&self) -> String {
        let at = self.span.position(&self.text);
        let line = self.text.lines().nth(at.line - 1).unwrap_or_default();
        let skipped = at.column.saturating_sub(MAX_LINE / 2);
        let line: String = line.chars().skip(skipped).take(MAX_LINE).collect();
        let column = at.column - skipped;
        let marked = self
            .text
            .get(self.span.start as usize..self.span.end as usize);
        let width = marked.map_or(1, |marked| marked.chars().count());
        let rest = line.chars().count().saturating_sub(column).max(1);
        let mark = "^".repeat(width.clamp(1, rest));
        format!("  | {line}\n  | {}{mark}\n", " ".repeat(column))
    }
}

/// By words and numbers, so that the tenth comes behind the second.
fn natural(path: &str) -> Vec<(usize, String)> {
    path.split(['.', '[', ']'])
        .map(|part| {
            (
                part.parse()
                    .map_or(0, |number: usize| number.saturating_add(1)),
                part.to_owned(),
            )
        })
        .collect()
}

// === impl Problems ===

impl Problems {
    pub fn push(&mut self, problem: Problem) {
        match self.list.len() < MAX {
            true => self.list.push(problem),
            false => self.more += 1,
        }
    }

    /// One that is made only if it is kept.
    pub(crate) fn lazily(&mut self, make: impl FnOnce() -> Problem) {
        match self.list.len() < MAX {
            true => self.list.push(make()),
            false => self.more += 1,
        }
    }

    /// One about a name that is none of those which are known, and maybe a hint at the one that was
    /// meant.
    pub(crate) fn unknown<'n, I: IntoIterator<Item = &'n str>>(
        &mut self,
        name: &str,
        known: impl FnOnce() -> I,
        make: impl FnOnce() -> Problem,
    ) {
        let hinted = self.list.len() < MAX_HINTED;
        self.lazily(|| {
            let hint = hinted.then(|| did_you_mean(name, known())).flatten();
            make().hinted(hint)
        });
    }

    /// Several at one place.
    pub(crate) fn all(&mut self, path: &Path, messages: impl IntoIterator<Item = String>) {
        for message in messages {
            self.push(Problem::new(path, message));
        }
    }

    /// What is wrong with an expression.
    pub fn expression(&mut self, path: &Path, problems: &deltaplane_expr::Problems) {
        for problem in problems.iter() {
            self.lazily(|| {
                // Nothing here has a container.
                let message = problem.message.trim_end_matches(" (in container '')");
                let found = Problem::new(path, message);
                let found = found.at(problems.source(), problem.span);
                match problems.expected(problem) {
                    [] => found,
                    expected => found.hint(format!("expected {}", expected.join(", or "))),
                }
            });
        }
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many there are, listed or not.
    pub fn count(&self) -> usize {
        self.list.len() + self.more
    }

    /// In the order of the document.
    pub(crate) fn sorted(mut self) -> Self {
        self.list.sort_by_cached_key(|problem| {
            let span = problem.excerpt.as_ref().map(|excerpt| excerpt.span);
            (
                natural(problem.path.as_str()),
                span,
                problem.message.clone(),
            )
        });
        self.list.dedup();
        self
    }

    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.list.iter()
    }

    /// How many there are besides those that are listed.
    pub fn more(&self) -> usize {
        self.more
    }

    /// The value, unless something is wrong.
    pub(crate) fn unless<T>(self, value: impl FnOnce() -> T) -> Result<T, Self> {
        match self.is_empty() {
            true => Ok(value()),
            false => Err(self.sorted()),
        }
    }
}

impl fmt::Display for Problems {
    /// One to a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.list.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for Problems {}
