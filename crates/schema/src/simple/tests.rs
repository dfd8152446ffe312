use expect_test::{Expect, expect};
use serde_json::{Map, json};

use super::*;
use crate::crd;

fn compiled(spec: &Value, types: &Value) -> Result<Value, Vec<Problem>> {
    let path = Path::new("schema");
    compile(&Source {
        spec: Some(spec),
        types: Some(types),
        path: &path,
    })
}

/// The schema, or the problems with what they are about.
fn told(spec: &Value, types: &Value) -> String {
    let problems = match compiled(spec, types) {
        Ok(schema) => return format!("{schema}\n"),
        Err(problems) => problems,
    };
    let mut out = String::new();
    for problem in problems {
        let document = json!({"schema": {"spec": spec, "types": types}});
        let place = format!("/{}", problem.path.as_str().replace('.', "/"));
        let text = document.pointer(&place).and_then(Value::as_str);
        let part = problem.span.clone().zip(text);
        let part = part.map_or(String::new(), |(span, text)| {
            format!(" at `{}`", &text[span])
        });
        let hint = problem
            .hint
            .map_or(String::new(), |hint| format!(" ({hint})"));
        out.push_str(&format!(
            "{}: {}{part}{hint}\n",
            problem.path, problem.message
        ));
    }
    out
}

fn check(spec: Value, types: Value, expected: Expect) {
    expected.assert_eq(&told(&spec, &types));
}

/// What one field becomes, each of a few.
fn check_fields(fields: &[&str], expected: Expect) {
    let each = fields.iter().map(|field| {
        let schema = compiled(&json!({"f": field}), &Value::Null);
        let shown = match &schema {
            Ok(schema) => schema["properties"]["f"].to_string(),
            Err(_) => told(&json!({"f": field}), &Value::Null),
        };
        format!(
            "{field}\n    {}\n",
            shown.trim_end().replace('\n', "\n    ")
        )
    });
    expected.assert_eq(&each.collect::<String>());
}

#[test]
fn types() {
    check_fields(
        &[
            "string",
            " integer ",
            "float",
            "object",
            "[] map[string] [] boolean",
            "",
            "[]",
            "map[string]",
            "map[integer]string",
            "number",
            "String",
            "strng",
            "string[]",
        ],
        expect![[r#"
            string
                {"type":"string"}
             integer 
                {"type":"integer"}
            float
                {"type":"number"}
            object
                {"type":"object","x-kubernetes-preserve-unknown-fields":true}
            [] map[string] [] boolean
                {"items":{"additionalProperties":{"items":{"type":"boolean"},"type":"array"},"type":"object"},"type":"array"}

                schema.spec.f: empty type at `` (write a type, such as string)
            []
                schema.spec.f: empty slice element type at `[]` (name the type of the items, such as []string)
            map[string]
                schema.spec.f: map value type is required at `map[string]` (name the type of the values, such as map[string]string)
            map[integer]string
                schema.spec.f: map key must be string at `map[integer]string` (write map[string] and the type of the values)
            number
                schema.spec.f: unknown type: number at `number` (use float)
            String
                schema.spec.f: unknown type: String at `String` (use string)
            strng
                schema.spec.f: unknown type: strng at `strng` (use string)
            string[]
                schema.spec.f: unknown type: string[] at `string[]` (use []string)
        "#]],
    );
}

#[test]
fn markers() {
    check_fields(
        &[
            "string | description=\"a \\\"b\\\" c\" pattern=a|b minLength=1 maxLength=+5 enum=a,b",
            "integer | default=3 minimum=0 maximum=1e3 enum=\"3, 4\" immutable=true",
            "float | default=1.5 minimum=.5 validation=\"self > 1.0\" validation='self!=2.0'",
            "[]string | uniqueItems=true minItems=1 maxItems=2 default=[\"a\", \"b\"]",
            "[]object | listType=map listMapKey=a listMapKey=b",
            "map[string]integer | default={\"a\": 1}",
            "object | default=null",
            "[]string | default=",
            "integer | minimum=1_000",
        ],
        expect![[r#"
            string | description="a \"b\" c" pattern=a|b minLength=1 maxLength=+5 enum=a,b
                {"description":"a \"b\" c","enum":["a","b"],"maxLength":5,"minLength":1,"pattern":"a|b","type":"string"}
            integer | default=3 minimum=0 maximum=1e3 enum="3, 4" immutable=true
                {"default":3,"enum":[3,4],"maximum":1000,"minimum":0,"type":"integer","x-kubernetes-validations":[{"message":"field is immutable","rule":"self == oldSelf"}]}
            float | default=1.5 minimum=.5 validation="self > 1.0" validation='self!=2.0'
                {"default":1.5,"minimum":0.5,"type":"number","x-kubernetes-validations":[{"message":"validation failed","rule":"self > 1.0"},{"message":"validation failed","rule":"'self!=2.0'"}]}
            []string | uniqueItems=true minItems=1 maxItems=2 default=["a", "b"]
                {"default":["a","b"],"items":{"type":"string"},"maxItems":2,"minItems":1,"type":"array","x-kubernetes-list-type":"set"}
            []object | listType=map listMapKey=a listMapKey=b
                {"items":{"type":"object","x-kubernetes-preserve-unknown-fields":true},"type":"array","x-kubernetes-list-map-keys":["a","b"],"x-kubernetes-list-type":"map"}
            map[string]integer | default={"a": 1}
                {"additionalProperties":{"type":"integer"},"default":{"a":1},"type":"object"}
            object | default=null
                {"default":null,"type":"object","x-kubernetes-preserve-unknown-fields":true}
            []string | default=
                {"default":null,"items":{"type":"string"},"type":"array"}
            integer | minimum=1_000
                {"minimum":1000,"type":"integer"}
        "#]],
    );
}

#[test]
fn more_than_kro_accepts() {
    check_fields(
        &[
            "string | required=false ",
            "string | minLength=1 | maxLength=2",
            "string | requ ired =1",
            "string | default=\"say \\\"hi\\\"\"",
            "string | default=\"C:\\dir\"",
            "string | default=\"a\\nb\"",
        ],
        expect![[r#"
            string | required=false 
                {"type":"string"}
            string | minLength=1 | maxLength=2
                {"maxLength":2,"minLength":1,"type":"string"}
            string | requ ired =1
                {"type":"string"}
            string | default="say \"hi\""
                {"default":"say \"hi\"","type":"string"}
            string | default="C:\dir"
                {"default":"C:\\dir","type":"string"}
            string | default="a\nb"
                {"default":"a\nb","type":"string"}
        "#]],
    );
}

#[test]
fn markers_that_are_none() {
    check_fields(
        &[
            "string |",
            "string || required=true",
            "string | required=true |",
            "string | required",
            "string | required default=1",
            "string | default = 5",
            "string | =5",
            "string | defualt=5",
            "string | min=5 regex=x format=date",
            "string | default=\"",
            "string | default={a",
            "string | default=a} required=true",
        ],
        expect![[r#"
            string |
                schema.spec.f: a marker is missing after '|' at `` (write a marker, such as required=true, or leave '|' out)
            string || required=true
                schema.spec.f: a marker is missing after '|' at `` (write a marker, such as required=true, or leave '|' out)
            string | required=true |
                schema.spec.f: a marker is missing after '|' at `` (write a marker, such as required=true, or leave '|' out)
            string | required
                schema.spec.f: marker key 'required' without a value at `required` (write required=true)
            string | required default=1
                schema.spec.f: marker key 'required' without a value at `required` (write required= and a value)
            string | default = 5
                schema.spec.f: marker key '5' without a value at `5` (put texts with spaces in quotes, and no space on either side of =)
            string | =5
                schema.spec.f: empty marker key at `=`
            string | defualt=5
                schema.spec.f: unknown marker: defualt at `defualt` (use default)
            string | min=5 regex=x format=date
                schema.spec.f: unknown marker: min at `min` (use minimum, minLength or minItems)
                schema.spec.f: unknown marker: regex at `regex` (use pattern)
                schema.spec.f: unknown marker: format at `format` (use pattern)
            string | default="
                schema.spec.f: unclosed quote at `"`
            string | default={a
                schema.spec.f: unclosed bracket/brace at `{a`
            string | default=a} required=true
                schema.spec.f: unmatched closing bracket/brace at `}` (put the value in quotes)
        "#]],
    );
}

#[test]
fn markers_that_do_not_apply() {
    check_fields(
        &[
            "integer | minLength=1 maxItems=x pattern=a enum=1,,2 default=007",
            "string | minLength=x minItems=1 pattern=\"a(\" uniqueItems=maybe",
            "boolean | default=True enum=true required=yes",
            "float | default=+.5 minimum=NaN maximum=",
            "[]string | default=5 listType=bag minLength=1",
            "[]object | listMapKey=a",
            "[]object | listType=set listMapKey=a",
            "[]object | listType=map listMapKey=a listMapKey=a uniqueItems=true",
            "object | default=[1] validation=\" \"",
        ],
        expect![[r#"
            integer | minLength=1 maxItems=x pattern=a enum=1,,2 default=007
                schema.spec.f: minLength marker is only valid for string types, got type: integer at `minLength=1` (use minimum)
                schema.spec.f: maxItems marker is only valid for array types, got type: integer at `maxItems=x` (use maximum)
                schema.spec.f: pattern marker is only valid for string types, got type: integer at `pattern=a`
                schema.spec.f: empty enum values are not allowed at `enum=1,,2`
                schema.spec.f: default value must be a valid integer, got: 007 at `default=007` (write 7)
            string | minLength=x minItems=1 pattern="a(" uniqueItems=maybe
                schema.spec.f: minLength must be an integer, got: x at `minLength=x`
                schema.spec.f: minItems marker is only valid for array types, got type: string at `minItems=1` (use minLength)
                schema.spec.f: invalid pattern regex: unclosed group at `pattern="a("`
                schema.spec.f: uniqueItems must be true or false, got: maybe at `uniqueItems=maybe`
            boolean | default=True enum=true required=yes
                schema.spec.f: default value must be true or false, got: True at `default=True` (write true)
                schema.spec.f: enum values only supported for string and integer types, got type: boolean at `enum=true`
                schema.spec.f: required must be true or false, got: yes at `required=yes`
            float | default=+.5 minimum=NaN maximum=
                schema.spec.f: default value must be a valid number, got: +.5 at `default=+.5` (write 0.5)
                schema.spec.f: minimum must be a number, got: NaN at `minimum=NaN`
                schema.spec.f: maximum must be a number, got:  at `maximum=`
            []string | default=5 listType=bag minLength=1
                schema.spec.f: default value must be JSON of type array, got: 5 at `default=5` (write it as ["a", "b"])
                schema.spec.f: unsupported value for listType bag, needs to be one of atomic, set, or map at `listType=bag`
                schema.spec.f: minLength marker is only valid for string types, got type: array at `minLength=1` (use minItems)
            []object | listMapKey=a
                schema.spec.f: listMapKey set while listType is unset, listType must be set to map
            []object | listType=set listMapKey=a
                schema.spec.f: listMapKey set while listType is set to set, listType must be set to map
            []object | listType=map listMapKey=a listMapKey=a uniqueItems=true
                schema.spec.f: duplicate listMapKey marker, value a at `listMapKey=a`
                schema.spec.f: cannot set uniqueItems when listType is set to map at `uniqueItems=true`
            object | default=[1] validation=" "
                schema.spec.f: default value must be JSON of type object, got: [1] at `default=[1]` (write it as {"a": 1})
                schema.spec.f: validation must be an expression, and is empty at `validation=" "`
        "#]],
    );
}

#[test]
fn parents_are_there_by_default_when_that_is_valid() {
    check(
        json!({
            "yes": {"a": "integer | default=1", "deep": {"b": "string | default=x"}},
            "no": {"a": "integer | default=1", "b": "string | required=true"},
            "none": {"a": "integer"},
        }),
        json!({}),
        expect![[r#"
            {"default":{},"properties":{"no":{"properties":{"a":{"default":1,"type":"integer"},"b":{"type":"string"}},"required":["b"],"type":"object"},"none":{"properties":{"a":{"type":"integer"}},"type":"object"},"yes":{"default":{},"properties":{"a":{"default":1,"type":"integer"},"deep":{"default":{},"properties":{"b":{"default":"x","type":"string"}},"type":"object"}},"type":"object"}},"type":"object"}
        "#]],
    );
}

#[test]
fn custom_types() {
    check(
        json!({
            "name": "Name",
            "names": "[]Name",
            "person": "Person | description=who",
            "plain": "Person | default={\"name\":\"x\"} required=true",
        }),
        json!({
            "Base": "string | required=true minLength=1",
            "Name": "Base | description=n",
            "Person": {"name": "Name", "age": "Age"},
            "Age": "integer | default=1",
        }),
        expect![[r#"
            {"properties":{"name":{"description":"n","minLength":1,"type":"string"},"names":{"items":{"description":"n","minLength":1,"type":"string"},"type":"array"},"person":{"description":"who","properties":{"age":{"default":1,"type":"integer"},"name":{"description":"n","minLength":1,"type":"string"}},"required":["name"],"type":"object"},"plain":{"default":{"name":"x"},"properties":{"age":{"default":1,"type":"integer"},"name":{"description":"n","minLength":1,"type":"string"}},"required":["name"],"type":"object"}},"required":["name","plain"],"type":"object"}
        "#]],
    );
}

#[test]
fn custom_types_that_are_none() {
    check(
        json!({"a": "Persn", "b": "Loop | minLength=1", "c": 5, "d": {"e": ["string"]}}),
        json!({
            "Person": {"of": "Nobody"},
            "Loop": "[]Ring",
            "Ring": {"a": "map[string]Loop"},
            "Self": "Self",
            "Behind": "Loop",
            "Number": 5,
        }),
        expect![[r#"
            schema.spec.a: unknown type: Persn at `Persn` (use Person)
            schema.spec.c: must be a type or a map of fields, not a number
            schema.spec.d.e: must be a type or a map of fields, not a list
            schema.types.Loop: a type cannot contain itself: Loop -> Ring -> Loop
            schema.types.Number: must be a type or a map of fields, not a number
            schema.types.Person.of: unknown type: Nobody at `Nobody`
            schema.types.Self: a type cannot contain itself: Self -> Self
        "#]],
    );
    check(
        json!("string"),
        json!(["string"]),
        expect![[r#"
        schema.spec: must be a map, not a text
        schema.types: must be a map, not a list
    "#]],
    );
}

/// The message of the first problem with the field `x` of type `T0`, among types by number.
fn first_problem(types: impl Iterator<Item = (usize, Value)>) -> String {
    let types: Map<_, _> = types.map(|(at, raw)| (format!("T{at}"), raw)).collect();
    let problems = compiled(&json!({"x": "T0"}), &types.into()).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems[0].message.clone()
}

#[test]
fn types_that_double_are_refused() {
    let twice = |next: usize| json!({"a": format!("T{next}"), "b": format!("T{next}")});
    let types = (0..60).map(|at| (at, twice(at + 1)));
    let leaf = (60, json!("string"));
    let message = first_problem(types.chain([leaf]));
    assert_eq!(
        message,
        "the schema is larger than 4194304 bytes, written out"
    );
}

#[test]
fn long_chains_of_types_are_followed() {
    let types = (0..20_000).map(|at| (at, json!(format!("T{}", at + 1))));
    assert_eq!(first_problem(types), "unknown type: T20000");
    let ring = (0..20_000).map(|at| (at, json!(format!("T{}", (at + 1) % 20_000))));
    let message = first_problem(ring);
    assert!(
        message.starts_with("a type cannot contain itself: T0 -> T1 -> "),
        "{message}"
    );
}

#[test]
fn sources_that_nest_too_deeply_are_refused() {
    let lists = |next: usize| json!(format!("{}T{next}", "[]".repeat(16)));
    let types = (0..20).map(|at| (at, lists(at + 1)));
    let message = first_problem(types.chain([(20, json!("string"))]));
    assert_eq!(message, "the schema is nested deeper than 100 levels here");

    let nested = (0..5000).fold(json!("string"), |inner, _| {
        Map::from_iter([("a".to_owned(), inner)]).into()
    });
    let problems = compiled(&nested, &Value::Null).unwrap_err();
    assert_eq!(problems[0].message, "nested deeper than 50 levels");
    // What is this deep cannot be dropped the ordinary way.
    std::mem::forget(nested);
}

#[test]
fn not_all_of_many_problems_are_told() {
    let many: Map<_, _> = (0..500).map(|at| (format!("f{at}"), json!("no"))).collect();
    let problems = compiled(&many.into(), &Value::Null).unwrap_err();
    assert_eq!(problems.len(), MAX_PROBLEMS + 1);
    assert_eq!(problems[MAX_PROBLEMS].message, "400 more problems");

    let long = "x".repeat(1 << 20);
    let problems = compiled(&json!({"f": long}), &Value::Null).unwrap_err();
    assert!(problems[0].message.len() < 400);
}

#[test]
fn the_deepest_schema_fits_into_a_definition() {
    let nested = (1..MAX_NESTING / 2 - 2).fold(json!("string"), |inner, _| json!({"a": inner}));
    let spec = compiled(&nested, &Value::Null).unwrap();
    let whole = json!({"type": "object", "properties": {"spec": spec}});
    assert!(!crate::too_deep_at(5, &whole));
    crd::compile(&whole, &Path::root(), crd::Options::default()).unwrap();
}
