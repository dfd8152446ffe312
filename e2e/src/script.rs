//! Scripts: what to run, and what is expected, as in a terminal. Pure.
//!
//! `$ words` runs kubectl; words may be quoted, and those of the form `NAME=value` in front of the
//! verb are environment. `< text` lines after it are what it reads.
//! Then comes what it says: standard output as it is, standard error behind `! `, and the exit
//! code as `[1]` if it is not 0. Lines in front of the first step are remarks.
//! `% words` is the same, but what it says depends on timing and is left out; the code is not.

use crate::kubectl::Answer;

/// Whether what a step says is part of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// It is.
    Shown,
    /// It depends on timing.
    LeftOut,
}

/// One run of kubectl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Whether what it says is part of the script.
    pub output: Output,
    /// As it was written.
    pub line: String,
    /// Further environment.
    pub env: Vec<(String, String)>,
    /// The arguments.
    pub words: Vec<String>,
    /// What it reads.
    pub stdin: Option<String>,
}

/// The steps of a script.
///
/// # Errors
///
/// If a quote is not closed.
pub fn parse(script: &str) -> Result<Vec<Step>, String> {
    let mut steps: Vec<Step> = Vec::new();
    for line in script.lines() {
        if let Some((output, line)) = command(line) {
            let mut words = split(line).ok_or_else(|| format!("quote not closed: {line}"))?;
            let verb = words.iter().position(|word| !is_setting(word));
            let words_after = words.split_off(verb.unwrap_or(words.len()));
            let env = words.iter().filter_map(|word| word.split_once('='));
            steps.push(Step {
                output,
                line: line.to_owned(),
                env: env
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect(),
                words: words_after,
                stdin: None,
            });
        } else if let (Some(text), Some(step)) = (input(line), steps.last_mut()) {
            let stdin = step.stdin.get_or_insert_default();
            stdin.push_str(text);
            stdin.push('\n');
        }
    }
    Ok(steps)
}

/// What is in front of the first step.
pub(crate) fn preface(script: &str) -> &str {
    let mut end = 0;
    for line in script.split_inclusive('\n') {
        if command(line).is_some() {
            break;
        }
        end += line.len();
    }
    script[..end].trim_end()
}

fn command(line: &str) -> Option<(Output, &str)> {
    let shown = line.strip_prefix("$ ").map(|line| (Output::Shown, line));
    shown.or_else(|| Some((Output::LeftOut, line.strip_prefix("% ")?)))
}

fn input(line: &str) -> Option<&str> {
    match line {
        "<" => Some(""),
        // Not `<none>` or the like, which something may have said.
        line => line.strip_prefix("< "),
    }
}

/// A step and its answer, as a script has them.
pub fn render(step: &Step, answer: &Answer) -> String {
    let mut text = match step.output {
        Output::Shown => format!("$ {}\n", step.line),
        Output::LeftOut => format!("% {}\n", step.line),
    };
    let mut add = |prefix: &str, lines: &str| {
        for line in lines.lines() {
            text.push_str(format!("{prefix}{line}").trim_end());
            text.push('\n');
        }
    };
    add("< ", step.stdin.as_deref().unwrap_or_default());
    match step.output {
        Output::Shown => {
            add("", &answer.stdout);
            add("! ", &answer.stderr);
        }
        Output::LeftOut => {}
    }
    if answer.code != 0 {
        add("", &format!("[{}]", answer.code));
    }
    text
}

fn is_setting(word: &str) -> bool {
    let upper = |c: char| c.is_ascii_uppercase() || c == '_';
    word.split_once('=')
        .is_some_and(|(name, _)| !name.is_empty() && name.chars().all(upper))
}

/// Words as a shell splits them; quotes take everything but their like literally.
fn split(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_does() {
        let check = |line, words: Option<&[&str]>| {
            let words = words.map(|words| words.iter().map(|&word| word.to_owned()).collect());
            assert_eq!(split(line), words, "{line}");
        };
        check("get  cm", Some(&["get", "cm"]));
        check(
            r#"-p '{"a": "b c"}' ''"#,
            Some(&["-p", r#"{"a": "b c"}"#, ""]),
        );
        check(r#"a'b c'"d 'e""#, Some(&["ab cd 'e"]));
        check("a 'b", None);
    }

    #[test]
    fn steps_have_environment_and_input() {
        let script = "About this.\n\n$ A='b c' edit x=y\n< one\n<\n<   two\n<none> said\n";
        let step = Step {
            output: Output::Shown,
            line: "A='b c' edit x=y".to_owned(),
            env: vec![("A".to_owned(), "b c".to_owned())],
            words: vec!["edit".to_owned(), "x=y".to_owned()],
            stdin: Some("one\n\n  two\n".to_owned()),
        };
        assert_eq!(parse(script), Ok(vec![step.clone()]));
        assert_eq!(preface(script), "About this.");
        let answer = Answer {
            code: 3,
            stdout: "out\n\n".to_owned(),
            stderr: "err\n".to_owned(),
        };
        let expected = "$ A='b c' edit x=y\n< one\n<\n<   two\nout\n\n! err\n[3]\n";
        assert_eq!(render(&step, &answer), expected);
        let steps = parse("% wait a\na condition met\n").expect("a script");
        assert_eq!(render(&steps[0], &answer), "% wait a\n[3]\n");
    }
}
