use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

/// `!` marks what breaks, `+` what relaxes or does not matter.
fn told(changes: &[Change]) -> String {
    let mark = |change: &Change| if change.is_breaking() { '!' } else { '+' };
    changes
        .iter()
        .map(|change| format!("{} {change}\n", mark(change)))
        .collect()
}

/// One field's schema, there and back.
fn check(old: Value, new: Value, expected: Expect) {
    let object = |field: &Value| json!({"type": "object", "properties": {"f": field}});
    let (old, new) = (object(&old), object(&new));
    let there = told(&changes(&old, &new));
    let back = told(&changes(&new, &old));
    expected.assert_eq(&format!("{there}--\n{back}"));
}

#[test]
fn kinds_of_values() {
    check(
        json!({"type": "integer", "minimum": 1}),
        json!({"type": "number", "description": "d"}),
        expect![[r#"
            + f: description "d" is added
            ! f: type is "number", was "integer"
            --
            + f: description "d" is removed
            ! f: type is "integer", was "number"
        "#]],
    );
    check(
        json!({"type": "string", "nullable": true, "format": "date"}),
        json!({"type": "string", "nullable": false, "format": "uuid"}),
        expect![[r#"
            ! f: format is "uuid", was "date"
            ! f: nullable is false, was true
            --
            ! f: format is "date", was "uuid"
            + f: nullable is true, was false
        "#]],
    );
    check(
        json!({"x-kubernetes-int-or-string": true}),
        json!({"x-kubernetes-embedded-resource": true}),
        expect![[r#"
            ! f: x-kubernetes-embedded-resource is added
            ! f: x-kubernetes-int-or-string is removed
            --
            ! f: x-kubernetes-embedded-resource is removed
            + f: x-kubernetes-int-or-string is added
        "#]],
    );
}

#[test]
fn bounds() {
    check(
        json!({"type": "string", "minLength": 1, "maxLength": 9, "pattern": "a"}),
        json!({"type": "string", "minLength": 2, "maxLength": 10, "pattern": "b"}),
        expect![[r#"
            + f: maxLength is 10, was 9
            ! f: minLength is 2, was 1
            ! f: pattern is "b", was "a"
            --
            ! f: maxLength is 9, was 10
            + f: minLength is 1, was 2
            ! f: pattern is "a", was "b"
        "#]],
    );
    check(
        json!({"type": "number", "minimum": 1.0, "multipleOf": 4}),
        json!({"type": "number", "minimum": 1, "exclusiveMinimum": true, "multipleOf": 2, "maximum": 5}),
        expect![[r#"
            ! f: exclusiveMinimum is added
            ! f: maximum 5 is added
            + f: multipleOf is 2, was 4
            --
            + f: exclusiveMinimum is removed
            + f: maximum 5 is removed
            ! f: multipleOf is 4, was 2
        "#]],
    );
    check(
        json!({"type": "array", "items": {"type": "string"}, "minItems": 1}),
        json!({"type": "array", "items": {"type": "string", "maxLength": 3}, "uniqueItems": true}),
        expect![[r#"
            + f: minItems 1 is removed
            ! f: uniqueItems is added
            ! f[*]: maxLength 3 is added
            --
            ! f: minItems 1 is added
            + f: uniqueItems is removed
            + f[*]: maxLength 3 is removed
        "#]],
    );
}

#[test]
fn choices() {
    check(
        json!({"type": "string", "enum": ["a", "b"]}),
        json!({"type": "string", "enum": ["b", "c"]}),
        expect![[r#"
            ! f: "a" is not allowed any more
            + f: "c" is allowed now
            --
            ! f: "c" is not allowed any more
            + f: "a" is allowed now
        "#]],
    );
    check(
        json!({"type": "integer"}),
        json!({"type": "integer", "enum": [1, 2]}),
        expect![[r#"
            ! f: enum [1,2] is added
            --
            + f: enum [1,2] is removed
        "#]],
    );
}

#[test]
fn fields() {
    check(
        json!({"type": "object", "required": ["a", "b"], "properties": {
            "a": {"type": "string"}, "b": {"type": "string", "default": "x"},
            "c": {"type": "string"}, "d": {"type": "string"},
        }}),
        json!({"type": "object", "required": ["b", "c", "e", "f"], "properties": {
            "a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": "string"},
            "e": {"type": "string"}, "f": {"type": "string", "default": "y"}, "g": {},
        }}),
        expect![[r#"
            + f.a is not required any more
            ! f.b is required and has no default any more
            ! f.c is required now
            + f.b: default "x" is removed
            ! f.d is removed
            ! f.e is added, is required and has no default
            + f.f is added
            + f.g is added
            --
            ! f.a is required now
            + f.c is not required any more
            + f.e is not required any more
            + f.f is not required any more
            + f.b: default "x" is added
            + f.d is added
            ! f.e is removed
            ! f.f is removed
            ! f.g is removed
        "#]],
    );
}

#[test]
fn other_fields() {
    check(
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        json!({"type": "object", "additionalProperties": {"type": "integer"}}),
        expect![[r#"
            ! f[*]: type is "integer", was "string"
            --
            ! f[*]: type is "string", was "integer"
        "#]],
    );
    check(
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        json!({"type": "object", "maxProperties": 2, "properties": {"a": {"type": "string"}}}),
        expect![[r#"
            ! f: maxProperties 2 is added
            ! f: x-kubernetes-preserve-unknown-fields is removed
            ! f.a is added where any value was kept before
            --
            + f: maxProperties 2 is removed
            + f: x-kubernetes-preserve-unknown-fields is added
            ! f.a is removed
        "#]],
    );
    check(
        json!({"type": "object", "additionalProperties": true}),
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        expect![[r#"
            ! f: additionalProperties is {"type":"string"}, was true
            --
            + f: additionalProperties is true, was {"type":"string"}
        "#]],
    );
}

#[test]
fn lists() {
    check(
        json!({"type": "array", "items": {"type": "object"}}),
        json!({"type": "array", "items": {"type": "object"},
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}),
        expect![[r#"
            ! f: x-kubernetes-list-map-keys ["a"] is added
            ! f: x-kubernetes-list-type "map" is added
            --
            + f: x-kubernetes-list-map-keys ["a"] is removed
            + f: x-kubernetes-list-type "map" is removed
        "#]],
    );
    check(
        json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "atomic"}),
        json!({"type": "array", "x-kubernetes-list-type": "set"}),
        expect![[r#"
            ! f: x-kubernetes-list-type is "set", was "atomic"
            ! f: items {"type":"object"} is removed
            --
            + f: x-kubernetes-list-type is "atomic", was "set"
            ! f: items {"type":"object"} is added
        "#]],
    );
}

#[test]
fn rules() {
    check(
        json!({"type": "string", "x-kubernetes-validations": [
            {"rule": "self != ''", "message": "m"}, {"rule": "self == oldSelf"},
        ]}),
        json!({"type": "string", "x-kubernetes-validations": [
            {"rule": "self != ''", "message": "n"},
            {"rule": "self == oldSelf", "optionalOldSelf": true},
            {"rule": "self.size() > 3"},
        ]}),
        expect![[r#"
            + f: what is said with rule `self != ''` changes
            ! f: what is said with rule `self == oldSelf` changes
            ! f: rule `self.size() > 3` is added
            --
            + f: what is said with rule `self != ''` changes
            + f: what is said with rule `self == oldSelf` changes
            + f: rule `self.size() > 3` is removed
        "#]],
    );
}

#[test]
fn defaults() {
    check(
        json!({"type": "boolean", "default": false}),
        json!({"type": "boolean"}),
        expect![[r#"
            + f: default false is removed
            --
            + f: default false is added
        "#]],
    );
    check(
        json!({"type": "number", "default": 1, "description": "", "required": []}),
        json!({"type": "number", "default": 1.0, "nullable": false}),
        expect![[r#"
            --
        "#]],
    );
}

#[test]
fn versions() {
    let old = json!({"name": "v1", "served": true, "subresources": {"status": {}},
        "selectableFields": [{"jsonPath": ".spec.a"}], "schema": {"openAPIV3Schema": {"type": "object"}}});
    let new = json!({"name": "v1", "served": false, "additionalPrinterColumns": [{"name": "A"}],
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": {}}}}});
    let there = told(&version_changes(&old, &new));
    let back = told(&version_changes(&new, &old));
    expect![[r#"
        ! served is false, was true
        ! subresources.status {} is removed
        + additionalPrinterColumns [{"name":"A"}] is added
        ! selectableFields is [], was [".spec.a"]
        + a is added
        --
        + served is true, was false
        + subresources.status {} is added
        + additionalPrinterColumns [{"name":"A"}] is removed
        + selectableFields is [".spec.a"], was []
        ! a is removed
    "#]]
    .assert_eq(&format!("{there}--\n{back}"));
    let renamed = json!({"name": "v2", "served": false});
    expect![[r#"
        ! name is "v2", was "v1"
    "#]]
    .assert_eq(&told(&version_changes(&old, &renamed)));
}

#[test]
fn schemas_that_nest_too_deeply_are_not_compared() {
    let deep = (0..200).fold(json!({}), |inner, _| json!({"items": inner}));
    assert_eq!(
        told(&changes(&deep, &json!({}))),
        "! the schemas are nested too deeply to be compared\n"
    );
}
