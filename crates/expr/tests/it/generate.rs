//! Random expressions, as text, for which types do not matter: every form that the grammar has.

use deltaplane_expr::syntax::{quote, quote_bytes};

use crate::choices::Choices;

/// Any expression that parses with optionals, `cel.bind` and two-variable macros; few check.
pub(crate) fn expression(choices: &mut Choices) -> String {
    let mut writer = Writer { choices, left: 40 };
    writer.part(6)
}

struct Writer<'a> {
    choices: &'a mut Choices,
    /// How many more parts may have parts themselves.
    left: usize,
}

const OPERANDS: [&str; 30] = [
    "i",
    "s",
    "b",
    "l",
    "m",
    ".i",
    "a.b.c",
    "0",
    "1",
    "-7",
    "0xfF",
    "-0x10",
    "9223372036854775807",
    "-9223372036854775808",
    "2u",
    "0xAu",
    "18446744073709551615u",
    "1.5",
    "-2.0",
    ".5",
    "1e3",
    "-1.25e-7",
    "1E300",
    "true",
    "false",
    "null",
    "[]",
    "{}",
    "duration('1h')",
    "timestamp('2026-01-01T00:00:00Z')",
];

/// Each binary operator as it is written.
const OPERATORS: [&str; 14] = [
    "+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=", "&&", "||", "in",
];

const FIELDS: [&str; 8] = [
    "x",
    "_y1",
    "namespace",
    "`a-b`",
    "`a.b/c d`",
    "`in`",
    "`true`",
    "`x`",
];

/// Characters that need care: quotes, escapes, controls, what is no ASCII and what is no BMP.
const CHARACTERS: [char; 18] = [
    'a', '\'', '"', '\\', '`', '\n', '\r', '\t', '\0', '\u{7f}', '\u{85}', '\u{2028}', 'ü', '😀',
    '?', '{', '$', '\u{feff}',
];

impl Writer<'_> {
    fn part(&mut self, depth: usize) -> String {
        if depth == 0 || self.left == 0 {
            return self.operand();
        }
        self.left -= 1;
        let depth = depth - 1;
        match self.choices.below(10) {
            0 => self.operand(),
            // Operators follow each other without parentheses: their strength decides.
            1 | 2 => {
                let operator = *self.choices.pick(&OPERATORS);
                format!("{} {operator} {}", self.part(depth), self.part(depth))
            }
            3 => format!("({})", self.part(depth)),
            4 => {
                let condition = self.chain(depth);
                let yes = self.chain(depth);
                format!("{condition} ? {yes} : {}", self.part(depth))
            }
            5 => {
                let signs = *self.choices.pick(&["!", "-", "!!", "--", "---", "!!!"]);
                let operand = self.member(depth);
                // A sign of a number does not follow other signs than its own.
                match operand.starts_with('-') {
                    true => format!("{signs}({operand})"),
                    false => format!("{signs}{operand}"),
                }
            }
            6 => self.container(depth),
            7 => self.fold(depth),
            8 => self.call(depth),
            _ => self.selection(depth),
        }
    }

    /// What may stand before a `?`: no conditional of its own, unless in parentheses.
    fn chain(&mut self, depth: usize) -> String {
        match self.choices.once_in(2) {
            true => format!("({})", self.part(depth)),
            false => {
                let operator = *self.choices.pick(&OPERATORS);
                format!("{} {operator} {}", self.member(depth), self.member(depth))
            }
        }
    }

    /// What something can be selected from as it is.
    fn member(&mut self, depth: usize) -> String {
        match self.choices.below(4) {
            0 => self.operand(),
            1 if depth > 0 => self.selection(depth - 1),
            2 if depth > 0 => self.container(depth - 1),
            _ => format!("({})", self.part(depth.saturating_sub(1))),
        }
    }

    fn operand(&mut self) -> String {
        match self.choices.below(4) {
            0 => self.string(),
            1 => self.bytes(),
            _ => (*self.choices.pick(&OPERANDS)).to_owned(),
        }
    }

    fn text(&mut self) -> String {
        let length = self.choices.below(6);
        let choose = |_| *self.choices.pick(&CHARACTERS);
        (0..length).map(choose).collect()
    }

    /// A string in any of the forms that can hold its text.
    fn string(&mut self) -> String {
        let text = self.text();
        let single = text.replace(['\n', '\r', '\'', '\\'], "");
        match self.choices.below(7) {
            0 => quote(&text),
            1 => format!("'{single}'"),
            2 => format!("r'{single}\\'"),
            3 => format!("'''{}'''", text.replace(['\'', '\\'], "")),
            4 => format!("R\"\"\"{}\\\"\"\"", text.replace('"', "")),
            5 => {
                text.chars().fold("'".to_owned(), |out, c| {
                    out + &format!("\\U{:08x}", u32::from(c))
                }) + "'"
            }
            _ => r#""\a\b\f\v\?\`\'\x41\101\u00fc""#.to_owned(),
        }
    }

    /// Bytes in any of the forms that can hold them.
    fn bytes(&mut self) -> String {
        let length = self.choices.below(5);
        let bytes: Vec<u8> = (0..length)
            .map(|_| u8::try_from(self.choices.below(256)).expect("a byte"))
            .collect();
        match self.choices.below(4) {
            0 => quote_bytes(&bytes),
            1 => {
                bytes
                    .iter()
                    .fold("b'".to_owned(), |out, byte| out + &format!("\\{byte:03o}"))
                    + "'"
            }
            2 => format!("b'''{}'''", self.text().replace(['\'', '\\'], "")),
            _ => r#"br"\n\xff""#.to_owned(),
        }
    }

    fn container(&mut self, depth: usize) -> String {
        let kind = self.choices.below(3);
        let count = self.choices.below(4);
        let entry = |writer: &mut Self| {
            let mark = if writer.choices.once_in(3) { "?" } else { "" };
            match kind {
                0 => format!("{mark}{}", writer.part(depth)),
                1 => format!("{mark}{}: {}", writer.part(depth), writer.part(depth)),
                _ => {
                    let field = *writer.choices.pick(&FIELDS);
                    format!("{mark}{field}: {}", writer.part(depth))
                }
            }
        };
        let entries: Vec<String> = (0..count).map(|_| entry(self)).collect();
        let entries = entries.join(", ");
        match kind {
            0 => format!("[{entries}]"),
            1 => format!("{{{entries}}}"),
            _ => format!(
                "{}{{{entries}}}",
                self.choices.pick(&["M", "a.b.M", ".a.M"])
            ),
        }
    }

    fn selection(&mut self, depth: usize) -> String {
        let from = self.member(depth);
        let field = *self.choices.pick(&FIELDS);
        match self.choices.below(5) {
            0 => format!("{from}.{field}"),
            1 => format!("{from}.?{field}"),
            2 => format!("{from}[{}]", self.part(depth)),
            3 => format!("{from}[?{}]", self.part(depth)),
            _ => format!("has({from}.{field})"),
        }
    }

    fn call(&mut self, depth: usize) -> String {
        let names = &[
            "size",
            "f",
            "string",
            "orValue",
            "or",
            "optional.of",
            "math.greatest",
        ];
        let name = *self.choices.pick(names);
        let count = self.choices.below(4);
        let args: Vec<String> = (0..count).map(|_| self.part(depth)).collect();
        let args = args.join(", ");
        match self.choices.once_in(2) {
            true => format!("{}.{name}({args})", self.member(depth)),
            false => format!("{name}({args})"),
        }
    }

    fn fold(&mut self, depth: usize) -> String {
        let (from, body) = (self.member(depth), self.part(depth));
        let one = &[
            "all",
            "exists",
            "exists_one",
            "map",
            "filter",
            "sortBy",
            "optMap",
            "optFlatMap",
        ];
        let two = &[
            "all",
            "exists",
            "exists_one",
            "transformList",
            "transformMap",
            "transformMapEntry",
        ];
        match self.choices.below(5) {
            0 | 1 => format!("{from}.{}(x, {body})", self.choices.pick(one)),
            2 => format!("{from}.{}(k, v, {body})", self.choices.pick(two)),
            3 => {
                let name =
                    *self
                        .choices
                        .pick(&["map(x", "transformList(k, v", "transformMap(k, v"]);
                format!("{from}.{name}, {}, {body})", self.part(depth))
            }
            _ => format!("cel.bind(y, {from}, {body})"),
        }
    }
}
