//! Scripts: what to run, and what is expected, as in a terminal. Pure.
//!
//! `$ words` runs kubectl; words may be quoted, and those of the form `NAME=value` in front of the
//! verb are environment. `< text` lines after it are what it reads.
//! Then comes what it says: standard output as it is, standard error behind `! `, and the exit
//! code as `[1]` if it is not 0. Lines in front of the first step are remarks.

use crate::kubectl::Answer;

/// One run of kubectl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
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
        if let Some(line) = line.strip_prefix("$ ") {
            let mut words = split(line).ok_or_else(|| format!("quote not closed: {line}"))?;
            let verb = words.iter().position(|word| !is_setting(word));
            let words_after = words.split_off(verb.unwrap_or(words.len()));
            let env = words.iter().filter_map(|word| word.split_once('='));
            steps.push(Step {
                line: line.to_owned(),
                env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
                words: words_after,
                stdin: None,
            });
        } else if let (Some(text), Some(step)) = (line.strip_prefix('<'), steps.last_mut()) {
            let stdin = step.stdin.get_or_insert_default();
            stdin.push_str(text.strip_prefix(' ').unwrap_or(text));
            stdin.push('\n');
        }
    }
    Ok(steps)
}

/// What is in front of the first step.
pub(crate) fn preface(script: &str) -> &str {
    let end = match script.starts_with("$ ") {
        true => Some(0),
        false => script.find("\n$ ").map(|at| at + 1),
    };
    script[..end.unwrap_or(script.len())].trim_end()
}

/// A step and its answer, as a script has them.
pub(crate) fn render(step: &Step, answer: &Answer) -> String {
    let mut text = format!("$ {}\n", step.line);
    let mut add = |prefix: &str, lines: &str| {
        for line in lines.lines() {
            text.push_str(format!("{prefix}{line}").trim_end());
            text.push('\n');
        }
    };
    add("< ", step.stdin.as_deref().unwrap_or_default());
    add("", &answer.stdout);
    add("! ", &answer.stderr);
    if answer.code != 0 {
        add("", &format!("[{}]", answer.code));
    }
    text
}

fn is_setting(word: &str) -> bool {
    let upper = |c: char| c.is_ascii_uppercase() || c == '_';
    word.split_once('=').is_some_and(|(name, _)| !name.is_empty() && name.chars().all(upper))
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
        check(r#"-p '{"a": "b c"}' ''"#, Some(&["-p", r#"{"a": "b c"}"#, ""]));
        check(r#"a'b c'"d 'e""#, Some(&["ab cd 'e"]));
        check("a 'b", None);
    }

    #[test]
    fn steps_have_environment_and_input() {
        let script = "About this.\n\n$ A='b c' edit x=y\n< one\n<\n<   two\nsaid\n";
        let step = Step {
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
    }
}
