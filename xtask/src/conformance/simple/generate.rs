//! Sources from a seed: most of them right, many nearly so.
//!
//! Where we differ from kro on purpose, cases are written by hand: none of that is made here.

use serde_json::{Map, Value, json};

use super::super::random::Random;
use super::Document;

/// Types and what kind of value they are: the custom ones are those of `types`.
const TYPES: [(&str, &str); 22] = [
    ("string", "string"),
    ("string", "string"),
    ("integer", "integer"),
    ("boolean", "boolean"),
    ("float", "number"),
    ("object", "object"),
    ("[]string", "array"),
    ("[] integer", "array"),
    ("[][]boolean", "array"),
    ("[]Port", "array"),
    ("map[string]string", "object"),
    ("map[string][]Name", "object"),
    ("map[string]map[string] Port", "object"),
    ("Name", "string"),
    ("Alias", "string"),
    ("Count", "integer"),
    ("Names", "array"),
    ("Port", "object"),
    ("Outer", "object"),
    ("[]Outer", "array"),
    // And some that are none.
    ("Missing", "string"),
    ("map[integer]string", "object"),
];

const MARKERS: [&str; 16] = [
    "required",
    "default",
    "description",
    "minimum",
    "maximum",
    "validation",
    "immutable",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "listType",
    "listMapKey",
];

/// Which markers suit any value, and which one of a kind.
const ANY: [&str; 5] = [
    "required",
    "default",
    "description",
    "validation",
    "immutable",
];
const SUITING: [(&str, &[&str]); 5] = [
    ("string", &["enum", "pattern", "minLength", "maxLength"]),
    ("integer", &["enum", "minimum", "maximum"]),
    ("number", &["minimum", "maximum"]),
    (
        "array",
        &["minItems", "maxItems", "uniqueItems", "listType"],
    ),
    ("object", &["description"]),
];

pub(super) fn document(seed: u64, random: &mut Random) -> Document {
    // Wrong ones are told apart from right ones by one mistake, not by ten.
    let wrong = if random.chance(40) { 6 } else { 0 };
    let mut maker = Maker { random, wrong };
    Document {
        name: format!("seed {seed}"),
        types: maker.types(),
        spec: maker.structure(3),
    }
}

struct Maker<'r> {
    random: &'r mut Random,
    /// How often something is wrong, in percent.
    wrong: usize,
}

// === impl Maker ===

impl Maker<'_> {
    /// The custom types of [`TYPES`]; some are structs or aliases of others.
    fn types(&mut self) -> Value {
        let mut types = Map::new();
        for (name, expr, kind) in [
            ("Name", "string", "string"),
            ("Alias", "Name", "string"),
            ("Count", "integer", "integer"),
            ("Names", "[]Name", "array"),
        ] {
            let field = self.with_markers(expr, kind);
            types.insert(name.to_owned(), field.into());
        }
        types.insert("Port".to_owned(), self.port());
        let mut outer = Map::from_iter([("ports".to_owned(), json!("[]Port"))]);
        outer.insert(
            "port".to_owned(),
            self.with_markers("Port", "object").into(),
        );
        types.insert("Outer".to_owned(), outer.into());
        if self.random.chance(self.wrong) {
            let circle = self.random.pick(&["Name", "Circle", "[]Outer", "Nobody"]);
            let outer = json!({"inner": circle, "back": "map[string]Circle"});
            types.insert("Circle".to_owned(), outer);
        }
        types.into()
    }

    fn port(&mut self) -> Value {
        let number = self.with_markers("Count", "integer");
        json!({"name": self.with_markers("Alias", "string"), "number": number})
    }

    fn structure(&mut self, depth: usize) -> Value {
        let count = self.random.below(5);
        let mut fields = Map::new();
        for _ in 0..count {
            let name = self.random.pick(&["a", "b", "c", "d", "name", "x-y", "é"]);
            let field = match self.random.below(10) {
                0..2 if depth > 0 => self.structure(depth - 1),
                _ if self.random.chance(self.wrong / 3) => self.random.anything(1),
                _ => self.field().into(),
            };
            fields.insert(name.to_owned(), field);
        }
        fields.into()
    }

    fn field(&mut self) -> String {
        let right = TYPES.len() - 2;
        let choices = if self.random.chance(self.wrong) {
            TYPES.len()
        } else {
            right
        };
        let (expr, kind) = TYPES[self.random.below(choices)];
        self.with_markers(expr, kind)
    }

    fn with_markers(&mut self, expr: &str, kind: &str) -> String {
        let count = match self.random.below(4) {
            0 => 0,
            _ => 1 + self.random.below(3),
        };
        if count == 0 {
            return expr.to_owned();
        }
        let markers: Vec<String> = (0..count).map(|_| self.marker(kind)).collect();
        let bar = self.random.pick(&["|", " | ", " |  ", "| "]);
        let space = self.random.pick(&[" ", "  ", "\t", " \n "]);
        format!("{expr}{bar}{}", markers.join(space))
    }

    fn marker(&mut self, kind: &str) -> String {
        let suiting = SUITING.iter().find(|(suited, _)| *suited == kind);
        let suiting = suiting.map_or(&[] as &[&str], |(_, markers)| markers);
        let key = match self.random.below(3) {
            _ if self.random.chance(self.wrong) => self.random.pick(&MARKERS),
            0 | 1 if !suiting.is_empty() => self.random.pick(suiting),
            _ => self.random.pick(&ANY),
        };
        if key == "listType" && self.random.chance(50) {
            return "listType=map listMapKey=name".to_owned();
        }
        let value = match self.random.chance(self.wrong) {
            true if key == "default" => self.wrong_default(kind),
            true => self.wrong_value(),
            false => self.value(key, kind),
        };
        let space = if self.random.chance(self.wrong) {
            " "
        } else {
            ""
        };
        format!("{key}{space}={value}")
    }

    /// Texts may be anything, and other JSON is looked at only where it is used.
    fn wrong_default(&mut self, kind: &str) -> String {
        match kind {
            "integer" | "number" | "boolean" => self.wrong_value(),
            _ => self.random.pick(&["{\"a\"", "a]"]).to_owned(),
        }
    }

    fn wrong_value(&mut self) -> String {
        let values = [
            "x",
            "",
            "-",
            "1.5.",
            "\"a",
            "{\"a\"",
            "a]",
            "(",
            "a,,b",
            "x y",
            "99999999999999999999",
            "=",
            "\\",
            "1e999",
            "tRue",
        ];
        self.random.pick(&values).to_owned()
    }

    fn value(&mut self, key: &str, kind: &str) -> String {
        let choices: &[&str] = match (key, kind) {
            ("required" | "immutable" | "uniqueItems", _) => &["true", "false", "1", "T", "False"],
            ("default", "string") => &["a", "\"a b\"", "\"\"", r"a\nb", "é", "a=b", "[x y]", "5"],
            ("default", "integer") => &["0", "5", "-3", "\"7\"", "9223372036854775807"],
            ("default", "number") => &["0.5", "-3", "1e3", "2.50", "\"1\""],
            ("default", "boolean") => &["true", "false", "\"true\""],
            ("default", "array") => &["[]", "[\"a\", \"b\"]", "[ 1 ]", "null"],
            ("default", _) => &["{}", "{\"a\": 1}", "{\"name\":\"x y\", \"b\":[{}]}", "null"],
            ("description", _) => &[
                "a",
                "\"a b\"",
                r#""say \"hi\"""#,
                r#""\n \\ \q""#,
                "\"\"",
                "[a b]",
            ],
            ("minimum" | "maximum", _) => &["0", "+1", "-1.5", ".5", "1e2", "1e25", "\"3\""],
            ("validation", _) => &[
                "\"self > 1\"",
                "self!=2",
                "\"self == \\\"a\\\"\"",
                "self.all(x,x>1)",
            ],
            ("enum", "integer") => &["1", "1,2", "\"3, 4\"", "-1,0"],
            ("enum", _) => &["a", "a,b", "\"a b, c\"", "é,\\", "\"x\\\"y\""],
            ("pattern", _) => &[
                "^a+$",
                "a|b",
                "\"[a-z ]{1,3}\"",
                r"\d+",
                r#""\\.x""#,
                "(?i)x",
            ],
            ("listType", _) => &["atomic", "set", "map"],
            ("listMapKey", _) => &["name", "x"],
            (_, _) => &["0", "1", "12", "+5", "007", "-1"],
        };
        self.random.pick(choices).to_owned()
    }
}
