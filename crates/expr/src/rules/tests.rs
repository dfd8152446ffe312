use deltaplane_api::field::Path;
use deltaplane_schema::{Schema, crd};
use serde_json::{Value as Json, json};

use super::{Rules, check as check_definition};

fn schema(spec: Json) -> Schema {
    let document = json!({"type": "object", "properties": {"spec": spec}});
    compiled(&document)
}

fn compiled(document: &Json) -> Schema {
    let options = crd::Options::default();
    match crd::compile(document, &Path::root(), options) {
        Ok(schema) => schema,
        Err(errors) => panic!("{errors:?}"),
    }
}

/// A schema's rule on one property of `spec`.
fn with_rule(mut node: Json, rules: Json) -> Json {
    node["x-kubernetes-validations"] = rules;
    json!({"type": "object", "properties": {"a": node}})
}

/// What an object's author hears: errors, then warnings marked as such.
#[track_caller]
fn check(spec: Json, new: Json, old: Option<Json>, expected: &[&str]) {
    let rules = Rules::of_resource(&schema(spec)).expect("there are rules");
    let (new, old) = (json!({"spec": new}), old.map(|old| json!({"spec": old})));
    let verdict = rules.judge(&new, old.as_ref());
    let errors = verdict.errors.iter().map(ToString::to_string);
    let warnings = verdict
        .warnings
        .iter()
        .map(|text| format!("warning: {text}"));
    let said: Vec<String> = errors.chain(warnings).collect();
    assert_eq!(said, expected);
}

/// What a definition's author hears.
#[track_caller]
fn refused(document: &Json, expected: &[&str]) {
    let errors = check_definition(&compiled(document), &Path::new("schema"));
    let said: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(said, expected);
}

#[test]
fn rules_hold_or_do_not() {
    let spec = |rule: Json| with_rule(json!({"type": "integer"}), json!([rule]));
    check(
        spec(json!({"rule": "self > 5"})),
        json!({"a": 6}),
        None,
        &[],
    );
    check(
        spec(json!({"rule": "self > 5"})),
        json!({"a": 5}),
        None,
        &["spec.a: Invalid value: 5: failed rule: self > 5"],
    );
    check(
        spec(json!({"rule": "self > 5", "message": " more than five "})),
        json!({"a": 5}),
        None,
        &["spec.a: Invalid value: 5: more than five"],
    );
    // What is not there, and null, is for the rules around it.
    check(spec(json!({"rule": "self > 5"})), json!({}), None, &[]);
    check(
        spec(json!({"rule": "self > 5"})),
        json!({"a": null}),
        None,
        &[],
    );
    check(
        spec(json!({"rule": "1 / self > 0"})),
        json!({"a": 0}),
        None,
        &[r#"spec.a: Invalid value: "integer": division by zero evaluating rule: 1 / self > 0"#],
    );
}

#[test]
fn objects_and_lists_are_not_shown() {
    let list = json!({"type": "array", "items": {"type": "string"}});
    check(
        with_rule(list, json!([{"rule": "self.size() < 2"}])),
        json!({"a": ["x", "y"]}),
        None,
        &["spec.a: Invalid value: failed rule: self.size() < 2"],
    );
}

#[test]
fn reasons_and_places() {
    let node = || {
        json!({"type": "object", "properties": {
            "x": {"type": "string"},
            "m": {"type": "object", "additionalProperties": {"type": "string"}},
        }})
    };
    let spec = |rule: Json| with_rule(node(), json!([rule]));
    let object = || json!({"a": {"x": "1"}});
    for (reason, path, expected) in [
        ("FieldValueInvalid", ".x", "spec.a.x: Invalid value: no"),
        ("FieldValueForbidden", ".x", "spec.a.x: Forbidden: no"),
        ("FieldValueRequired", ".x", "spec.a.x: Required value: no"),
        (
            "FieldValueDuplicate",
            ".m['k']",
            "spec.a.m[k]: Duplicate value",
        ),
    ] {
        let rule = json!({"rule": "false", "message": "no", "reason": reason, "fieldPath": path});
        check(spec(rule), object(), None, &[expected]);
    }
}

#[test]
fn messages_are_computed() {
    let spec = |message: &str| {
        let rule = json!({"rule": "self < 3", "message": "plain", "messageExpression": message});
        with_rule(json!({"type": "integer"}), json!([rule]))
    };
    let error = |text: &str| format!("spec.a: Invalid value: 7: {text}");
    check(
        spec("'got ' + string(self)"),
        json!({"a": 7}),
        None,
        &[&error("got 7")],
    );
    // What is empty, broken, or of several lines is not used.
    for message in ["' '", "string(1 / (self - 7))", r"'a\nb'"] {
        check(spec(message), json!({"a": 7}), None, &[&error("plain")]);
    }
}

#[test]
fn transitions_need_a_past() {
    let spec = || {
        with_rule(
            json!({"type": "integer"}),
            json!([{"rule": "self >= oldSelf", "message": "grows"}]),
        )
    };
    check(spec(), json!({"a": 1}), None, &[]);
    check(spec(), json!({"a": 1}), Some(json!({})), &[]);
    check(spec(), json!({"a": 2}), Some(json!({"a": 1})), &[]);
    let error = ["spec.a: Invalid value: 1: grows"];
    check(spec(), json!({"a": 1}), Some(json!({"a": 2})), &error);
}

#[test]
fn an_optional_past_is_asked_for() {
    let rule = json!([{
        "rule": "oldSelf.hasValue() ? self >= oldSelf.value() : self == 0",
        "optionalOldSelf": true,
        "message": "starts at zero and grows",
    }]);
    let spec = || with_rule(json!({"type": "integer"}), rule.clone());
    let error = ["spec.a: Invalid value: 1: starts at zero and grows"];
    check(spec(), json!({"a": 0}), None, &[]);
    check(spec(), json!({"a": 1}), None, &error);
    check(spec(), json!({"a": 1}), Some(json!({"a": 1})), &[]);
    check(spec(), json!({"a": 1}), Some(json!({"a": 2})), &error);
}

#[test]
fn items_of_keyed_lists_have_a_past() {
    let item = json!({
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.size == oldSelf.size", "message": "stays"}],
    });
    let spec = || {
        let list = json!({
            "type": "array", "items": item,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        });
        json!({"type": "object", "properties": {"a": list}})
    };
    let few = |sizes: &[(usize, usize)]| -> Json {
        let items = sizes
            .iter()
            .map(|(name, size)| json!({"name": name.to_string(), "size": size}));
        json!({"a": items.collect::<Vec<_>>()})
    };
    let old = few(&[(1, 1), (2, 2)]);
    check(
        spec(),
        few(&[(2, 2), (3, 9), (1, 1)]),
        Some(old.clone()),
        &[],
    );
    let error = ["spec.a[0]: Invalid value: stays"];
    check(spec(), few(&[(2, 1), (1, 1)]), Some(old), &error);
    // Long lists are found through an index.
    let many: Vec<(usize, usize)> = (0..100).map(|at| (at, at)).collect();
    let mut changed: Vec<(usize, usize)> = many.iter().rev().copied().collect();
    check(spec(), few(&changed), Some(few(&many)), &[]);
    changed[0].1 = 7;
    check(spec(), few(&changed), Some(few(&many)), &error);
}

#[test]
fn what_did_not_change_is_warned_of() {
    let spec = || {
        let rule = json!([{"rule": "self.size() < 3", "message": "short"}]);
        let text = with_rule(json!({"type": "string"}), rule);
        let mut spec = text;
        spec["properties"]["b"] = json!({"type": "string"});
        spec
    };
    let was = || Some(json!({"a": "long"}));
    let said = r#"spec.a: Invalid value: "long": short"#;
    check(
        spec(),
        json!({"a": "long", "b": "new"}),
        was(),
        &[&format!("warning: {said}")],
    );
    check(
        spec(),
        json!({"a": "long"}),
        Some(json!({"a": "other"})),
        &[said],
    );
    check(spec(), json!({"a": "long"}), None, &[said]);
}

#[test]
fn transitions_are_never_ratcheted() {
    let rule = json!([{"rule": "self != oldSelf", "message": "changes"}]);
    let spec = with_rule(json!({"type": "integer"}), rule);
    let error = ["spec.a: Invalid value: 1: changes"];
    check(spec, json!({"a": 1}), Some(json!({"a": 1})), &error);
}

#[test]
fn items_without_a_past_follow_the_list() {
    let spec = || {
        let item = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == 'ok'", "message": "bad"}]});
        json!({"type": "object", "properties": {
            "a": {"type": "array", "items": item}, "b": {"type": "integer"},
        }})
    };
    let said = r#"spec.a[1]: Invalid value: "no": bad"#;
    let was = || Some(json!({"a": ["ok", "no"]}));
    check(
        spec(),
        json!({"a": ["ok", "no"], "b": 1}),
        was(),
        &[&format!("warning: {said}")],
    );
    check(spec(), json!({"a": ["ok", "no", "ok"]}), was(), &[said]);
}

#[test]
fn of_metadata_only_the_name_is_seen() {
    let document = |rule: &str| {
        json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}],
            "properties": {"spec": {"type": "object"}}})
    };
    refused(&document("self.metadata.name.startsWith('x')"), &[]);
    let schema = compiled(&document("self.metadata.labels.size() == 0"));
    let errors = check_definition(&schema, &Path::root());
    assert!(
        errors[0].detail.contains("undefined field 'labels'"),
        "{errors:?}"
    );
}

#[test]
fn what_has_no_schema_has_no_rules() {
    assert!(Rules::of_resource(&Schema::deduced()).is_none());
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let document = json!({"type": "object", "properties": {
        "spec": with_rule(json!({"type": "integer"}), json!([{"rule": "self > 1"}])),
        "any": open,
    }});
    refused(&document, &[]);
}

#[test]
fn definitions_are_checked() {
    let document = |node: Json, rule: Json| json!({"type": "object", "properties": {"spec": with_rule(node, json!([rule]))}});
    let integer = || json!({"type": "integer"});
    let at = "schema.properties[spec].properties[a].x-kubernetes-validations[0]";
    let shown = |rule: &str| json!({"Rule": rule, "Message": "", "MessageExpression": "", "Reason": null, "FieldPath": "", "OptionalOldSelf": null});
    let expect =
        |rule: &str, why: &str| format!("{at}.rule: Invalid value: {}: {why}", shown(rule));
    refused(&document(integer(), json!({"rule": "self > 1"})), &[]);
    refused(
        &document(integer(), json!({"rule": "self"})),
        &[&expect("self", "cel expression must evaluate to a bool")],
    );
    let object = json!({"type": "object", "properties": {"x": {"type": "integer"}}});
    refused(
        &document(object, json!({"rule": "self.nope == 1"})),
        &[&expect(
            "self.nope == 1",
            "compilation failed: ERROR: <input>:1:5: undefined field 'nope'\n | self.nope == 1\n | ....^",
        )],
    );
    refused(
        &document(
            integer(),
            json!({"rule": "self > 1", "optionalOldSelf": true}),
        ),
        &[&format!(
            "{at}.optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule"
        )],
    );
    let item = with_rule(integer(), json!([{"rule": "self > oldSelf"}]));
    refused(
        &json!({"type": "object", "properties": {"spec": {"type": "array", "maxItems": 3, "items": item}}}),
        &[
            r#"schema.properties[spec].items.properties[a].x-kubernetes-validations[0].rule: Invalid value: "self > oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema within schema.properties[spec]"#,
        ],
    );
}

#[test]
fn expensive_rules_are_refused() {
    let list = json!({"type": "array", "items": {"type": "string"}});
    let rule = json!([{"rule": "self.all(x, self.all(y, x == y))"}]);
    let document = json!({"type": "object", "properties": {"spec": with_rule(list, rule)}});
    let advice = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)";
    let at = "schema.properties[spec].properties[a].x-kubernetes-validations[0].rule";
    let total = [
        format!(
            "{at}: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        ),
        format!(
            "schema: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of more than 100x {advice}"
        ),
    ];
    let own = format!(
        "{at}: Forbidden: estimated rule cost exceeds budget by factor of more than 100x {advice}"
    );
    refused(&document, &[&own, &total[0], &total[1]]);
}

#[test]
fn defaults_must_obey() {
    let node = json!({"type": "integer", "default": 1});
    let rule = json!([{"rule": "self > 1", "message": "more"}]);
    let document = json!({"type": "object", "properties": {"spec": with_rule(node, rule)}});
    refused(
        &document,
        &["schema.properties[spec].properties[a].default: Invalid value: 1: more"],
    );
}

#[test]
fn an_object_has_a_budget() {
    let rule = json!([{"rule": "self.all(x, self.all(y, x == y))"}]);
    let mut list = json!({"type": "array", "items": {"type": "integer"}});
    list["x-kubernetes-validations"] = rule;
    let spec = json!({"type": "object", "properties": {"a": {"type": "array", "items": list}}});
    let rules = Rules::of_resource(&schema(spec)).expect("there are rules");
    let judged = |lists: usize, length: usize| -> Vec<String> {
        let object = json!({"spec": {"a": vec![vec![1; length]; lists]}});
        let verdict = rules.judge(&object, None);
        verdict.errors.iter().map(ToString::to_string).collect()
    };
    assert_eq!(judged(1, 300), [""; 0]);
    let all = judged(40, 300);
    assert_eq!(all.len(), 1, "{all:?}");
    let over = "running out of cost budget, no further validation rules will be run";
    assert!(all[0].contains(over), "{all:?}");
    assert_eq!(
        judged(2, 1000),
        [
            r#"spec.a[0]: Invalid value: "array": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: self.all(x, self.all(y, x == y))"#
        ],
    );
}

#[test]
fn nobody_reads_a_million_errors() {
    let item = json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]});
    let spec = json!({"type": "object", "properties": {"a": {"type": "array", "items": item}}});
    let rules = Rules::of_resource(&schema(spec)).expect("there are rules");
    let object = json!({"spec": {"a": vec![0; 100_000]}});
    assert_eq!(rules.judge(&object, None).errors.len(), 1_000);
    let old = json!({"spec": {"a": vec![0; 100_000]}, "x": 1});
    let verdict = rules.judge(&object, Some(&old));
    assert_eq!((verdict.errors.len(), verdict.warnings.len()), (0, 32));
}

#[test]
fn patterns_from_the_data_are_paid_for() {
    let item = json!({"type": "string", "x-kubernetes-validations": [{"rule": "'a'.matches(self) || true"}]});
    let spec = json!({"type": "object", "properties": {"a": {"type": "array", "items": item}}});
    let rules = Rules::of_resource(&schema(spec)).expect("there are rules");
    let judged = |patterns: Vec<String>| {
        let verdict = rules.judge(&json!({"spec": {"a": patterns}}), None);
        verdict.errors.len()
    };
    // One that expands to far more than it says is no pattern, but `|| true` forgives that.
    assert_eq!(judged(vec![r"(\pL{50}){50}".to_owned(); 100]), 0);
    // Many different ones are too much work; many that are the same are not.
    assert_eq!(judged((0..5_000).map(|n| format!("x{n}")).collect()), 1);
    assert_eq!(judged(vec!["x".to_owned(); 5_000]), 0);
}

#[test]
fn long_lists_that_do_not_change_are_cheap_to_compare() {
    let rule = json!([{"rule": "self == oldSelf", "message": "immutable"}]);
    let lists = [
        json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
        json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
            "items": {"type": "object", "required": ["n"], "properties": {"n": {"type": "string"}}}}),
    ];
    let texts = (0..20_000).map(|n| json!(n.to_string()));
    let objects = (0..20_000).map(|n| json!({"n": n.to_string()}));
    for (list, items) in lists
        .into_iter()
        .zip([texts.collect(), objects.collect::<Vec<_>>()])
    {
        let items = json!({"a": items});
        check(
            with_rule(list, rule.clone()),
            items.clone(),
            Some(items),
            &[],
        );
    }
}

/// All rules of a definition share what may be compiled and done, those of defaults included.
#[test]
fn patterns_and_work_of_a_definition_are_bounded_together() {
    let field = |n: usize| {
        // Each pattern takes two megabytes.
        let matches = (0..6).map(|m| format!(r"self.matches('\\pL{{20}}{n}x{m}')"));
        let rule = matches.collect::<Vec<_>>().join(" || ");
        let rules = json!([{"rule": format!("{rule} || true")}]);
        json!({"type": "string", "maxLength": 10, "default": "a", "x-kubernetes-validations": rules})
    };
    let document = |fields: usize| {
        let fields = (0..fields).map(|n| (format!("f{n}"), field(n)));
        let fields: serde_json::Map<String, Json> = fields.collect();
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}})
    };
    refused(&document(2), &[]);
    let errors = check_definition(&compiled(&document(8)), &Path::new("schema"));
    let said = errors.iter().map(ToString::to_string).collect::<String>();
    assert!(
        said.contains("all expressions together are too large"),
        "{said}"
    );
}

/// However much is wrong, a hundred problems are shown.
#[test]
fn problems_of_literals_are_bounded() {
    let literals = vec!["duration('')"; 500].join(", ");
    let rules = json!([{"rule": format!("[{literals}].size() > 0")}]);
    let spec = with_rule(json!({"type": "string", "maxLength": 10}), rules);
    let document = json!({"type": "object", "properties": {"spec": spec}});
    let errors = check_definition(&compiled(&document), &Path::new("schema"));
    let said = errors.iter().map(ToString::to_string).collect::<String>();
    assert_eq!(said.matches("ERROR:").count(), 100);
}
