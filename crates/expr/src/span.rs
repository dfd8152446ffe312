//! Places in the text of an expression.

use std::fmt;

/// A range of bytes in the text of an expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

/// A line (from 1) and a column (from 0, in characters), as people count them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

/// Something that is wrong with an expression: where, and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub span: Span,
    pub message: String,
}

/// Everything that is wrong with an expression, in source order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    source: Box<str>,
    problems: Vec<Problem>,
    /// What would have done, for some of them.
    expected: Vec<(Problem, Vec<String>)>,
}

/// More than these are not reported, as in cel-go.
pub(crate) const MAX_PROBLEMS: usize = 100;

/// Of longer lines only a part is shown.
const MAX_LINE: usize = 1000;

// === impl Span ===

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        let clamp = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Self {
            start: clamp(start),
            end: clamp(end),
        }
    }

    /// Where the span begins in `source`.
    pub fn position(self, source: &str) -> Position {
        let mut start = (self.start as usize).min(source.len());
        while !source.is_char_boundary(start) {
            start -= 1;
        }
        let before = &source[..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Position {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count(),
        }
    }

    /// What is said of the span, its line of `source`, and a mark under it.
    pub(crate) fn drawn(self, source: &str, message: &str) -> String {
        let at = self.position(source);
        let (line, column) = at.shown(source);
        let rest = line.chars().count().saturating_sub(column).max(1);
        let marked = source.get(self.start as usize..self.end as usize);
        let width = marked.map_or(1, |marked| marked.chars().count());
        // A tab is as wide as the tab above it.
        let before = line.chars().take(column);
        let blank: String = before.map(|c| if c == '\t' { c } else { ' ' }).collect();
        format!(
            "{}:{}: {message}\n | {line}\n | {blank}{}\n",
            at.line,
            at.column + 1,
            "^".repeat(width.clamp(1, rest))
        )
    }
}

// === impl Position ===

impl Position {
    /// The line, and where in what is shown of it the place is. Of a long line that is a part.
    fn shown(self, source: &str) -> (String, usize) {
        let line = source.lines().nth(self.line - 1).unwrap_or_default();
        if line.len() <= MAX_LINE {
            return (line.to_owned(), self.column);
        }
        let skipped = self.column.saturating_sub(MAX_LINE / 2);
        let part = line.chars().skip(skipped).take(MAX_LINE).collect();
        (part, self.column - skipped)
    }
}

// === impl Problems ===

impl Problems {
    pub(crate) fn new(source: &str, mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|problem| problem.span);
        problems.truncate(MAX_PROBLEMS);
        Self {
            source: source.into(),
            problems,
            expected: Vec::new(),
        }
    }

    pub(crate) fn expecting(self, expected: Vec<(Problem, Vec<String>)>) -> Self {
        Self { expected, ..self }
    }

    /// What would have done instead: signatures of the function that was called, those first that
    /// come nearest. Often nothing is known. Kubernetes says nothing of it, and neither does
    /// [`Self::reported`].
    pub fn expected(&self, problem: &Problem) -> &[String] {
        let found = self.expected.iter().find(|(of, _)| of == problem);
        found.map_or(&[], |(_, expected)| expected)
    }

    /// What is wrong, in source order; never empty.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter()
    }

    /// The expression.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Every problem with the line of the expression that it is in, a mark under the place, and
    /// what was expected there.
    pub fn drawn(&self) -> String {
        let mut drawn = String::new();
        for problem in &self.problems {
            drawn.push_str(&problem.span.drawn(&self.source, &problem.message));
            for (index, expected) in self.expected(problem).iter().enumerate() {
                let word = if index == 0 { "expected" } else { "or" };
                drawn.push_str(&format!(" = {word} {expected}\n"));
            }
        }
        drawn
    }

    /// As Kubernetes shows them: every problem with its line, and a mark under its first
    /// character.
    pub fn reported(&self) -> String {
        let one = |problem: &Problem| {
            let at = problem.span.position(&self.source);
            let (line, column) = at.shown(&self.source);
            format!(
                "ERROR: <input>:{}:{}: {}\n | {}\n | {}^",
                at.line,
                at.column + 1,
                problem.message,
                line.replace('\t', " "),
                ".".repeat(column)
            )
        };
        let all: Vec<String> = self.problems.iter().map(one).collect();
        all.join("\n")
    }
}

impl fmt::Display for Problems {
    /// One problem to a line, as `line:column: message`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let at = problem.span.position(&self.source);
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}:{}: {}", at.line, at.column + 1, problem.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_as_long_as_what_they_mark() {
        let source = "\t'ééé' + 1";
        assert_eq!(
            Span::new(1, 9).drawn(source, "no"),
            "1:2: no\n | \t'ééé' + 1\n | \t^^^^^\n"
        );
    }

    #[test]
    fn of_long_lines_the_part_with_the_problem_is_shown() {
        let source = format!("{}é!{}", "a".repeat(5000), "b".repeat(5000));
        let problem = Problem {
            span: Span::new(5002, 5003),
            message: "no".to_owned(),
        };
        let problems = Problems::new(&source, vec![problem]);
        for text in [problems.drawn(), problems.reported()] {
            assert!(text.len() < 3 * MAX_LINE, "{}", text.len());
            assert!(text.contains("1:5002: no"), "{text}");
            let lines: Vec<&str> = text.lines().collect();
            let mark = lines[2].chars().position(|c| c == '^').unwrap();
            assert_eq!(lines[1].chars().nth(mark), Some('!'));
        }
    }
}
