use serde_json::json;

use super::*;

fn selects(selector: &str, labels: &[(&str, &str)]) -> Option<bool> {
    let selector: LabelSelector = selector.parse().ok()?;
    Some(selector.matches(|key| labels.iter().find(|(k, _)| *k == key).map(|(_, v)| *v)))
}

#[test]
fn label_selectors() {
    let labels = [("app", "web"), ("tier", "1"), ("empty", "")];
    let cases = [
        ("", Some(true)),
        ("app", Some(true)),
        ("!app", Some(false)),
        ("app=web", Some(true)),
        ("app==web,tier=1", Some(true)),
        ("app!=web", Some(false)),
        ("other!=web", Some(true)),
        ("app in (api, web)", Some(true)),
        ("app notin (api,web)", Some(false)),
        ("other notin (x)", Some(true)),
        ("tier>0,tier<2", Some(true)),
        ("tier>1", Some(false)),
        ("empty=", Some(true)),
        ("empty in (,x)", Some(true)),
        ("in in (a)", Some(false)),
        ("app=web,", None),
        (",", None),
        ("app in web", None),
        ("app in (web", None),
        ("app>x", None),
        ("a b", None),
        ("-bad=x", None),
        ("app=a b", None),
        ("app=web app", None),
    ];
    for (selector, expected) in cases {
        assert_eq!(selects(selector, &labels), expected, "{selector:?}");
    }
}

#[test]
fn selectors_can_be_objects() {
    let matches = |selector: Value| {
        let selector = LabelSelector::from_object(&selector)?;
        Some(selector.matches(|key| (key == "app").then_some("web")))
    };
    let expression = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "app", "operator": operator, "values": values}]});
    let cases = [
        (json!({}), Some(true)),
        (Value::Null, Some(true)),
        // What is not understood does not select everything.
        (json!("app is web"), None),
        (json!([]), None),
        (json!({"matchLabels": "app=web"}), None),
        (json!({"matchExpressions": {}}), None),
        (json!({"matchFields": []}), None),
        (json!({"matchLabels": {"app": "web"}}), Some(true)),
        (json!({"matchLabels": {"app": "api"}}), Some(false)),
        (expression("In", json!(["web"])), Some(true)),
        (expression("NotIn", json!(["web"])), Some(false)),
        (expression("Exists", Value::Null), Some(true)),
        (expression("DoesNotExist", json!([])), Some(false)),
        (expression("In", json!([])), None),
        (expression("Exists", json!(["a"])), None),
        (expression("Gt", json!(["1"])), None),
        (json!({"matchLabels": {"app": 1}}), None),
    ];
    for (selector, expected) in cases {
        assert_eq!(matches(selector.clone()), expected, "{selector}");
    }
}

/// Selectors, and what kube-apiserver 1.36 answers to them. `KEY` and `VALUE` stand for what it says
/// about any key and value.
const FAULTS: &str = r#"
!! | unable to parse requirement: found '!', expected: identifier
! | unable to parse requirement: found '', expected: identifier
a in | unable to parse requirement: found '' expected: '('
a in b | unable to parse requirement: found 'b' expected: '('
a in (b | unable to parse requirement: found '', expected: ',' or ')'
a in (b, | unable to parse requirement: found '', expected: ',', or identifier
a in (b,=c) | unable to parse requirement: found '=', expected: ',', or identifier
a in (!) | unable to parse requirement: found '!', expected: ',', ')' or identifier
a in (b c) | unable to parse requirement: found 'c', expected: ',' or ')'
a b | unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt
a===b | unable to parse requirement: found '=', expected: identifier
a=b c | found 'c', expected: ',' or 'end of string'
!a=b | found '=', expected: ',' or 'end of string'
a=b, | found '', expected: identifier after ','
a,,b | found ',', expected: identifier after ','
=b | found '=', expected: !, identifier, or 'end of string'
a> | unable to parse requirement: values[0]: Invalid value: "": for 'Gt', 'Lt' operators, the value must be an integer
a>x | unable to parse requirement: values[0]: Invalid value: "x": for 'Gt', 'Lt' operators, the value must be an integer
a>-x | unable to parse requirement: [values[0]: Invalid value: "-x": for 'Gt', 'Lt' operators, the value must be an integer, values[0][a]: Invalid value: "-x": VALUE]
a in (c,-b) | unable to parse requirement: values[0][a]: Invalid value: "-b": VALUE
a/b/c=d | unable to parse requirement: <nil>: Invalid value: "a/b/c": KEY
"#;
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const KEY: &str = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";

#[test]
fn faults_are_told_in_the_words_of_kubernetes() {
    for line in FAULTS.trim().lines() {
        let (selector, expected) = line.split_once(" | ").expect("two parts");
        let expected = expected.replace("VALUE", VALUE).replace("KEY", KEY);
        let error = selector.parse::<LabelSelector>().unwrap_err();
        assert_eq!(error.to_string(), expected, "{selector}");
    }
    let cases = [
        (
            "metadata.name",
            "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
        ),
        (
            "a=b=c",
            "invalid field selector: unescaped character in value: 61",
        ),
        (
            r"a=\x",
            r"invalid field selector: invalid escape sequence: \x",
        ),
    ];
    for (selector, expected) in cases {
        let error = selector.parse::<FieldSelector>().unwrap_err();
        assert_eq!(error.to_string(), expected, "{selector}");
    }
}

#[test]
fn field_selectors() {
    let matches = |text: &str| {
        let selector: FieldSelector = text.parse().ok()?;
        Some(selector.matches(|field| match field {
            "metadata.name" => "a,b",
            _ => "",
        }))
    };
    let cases = [
        ("", Some(true)),
        (r"metadata.name=a\,b", Some(true)),
        (r"metadata.name==a\,b,metadata.namespace=", Some(true)),
        (r"metadata.name!=a\,b", Some(false)),
        ("metadata.name", None),
        (r"metadata.name=\x", None),
        ("metadata.name=a=b", None),
    ];
    for (selector, expected) in cases {
        assert_eq!(matches(selector), expected, "{selector:?}");
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_a_selector_or_an_error(text in ".{0,40}") {
        let _ = text.parse::<LabelSelector>();
        let _ = text.parse::<FieldSelector>();
    }
}

#[test]
fn what_is_written_is_read() {
    for text in [
        "",
        "a",
        "!a",
        "a in (x)",
        "a in (x,y),b notin (z)",
        "a>3,b<7",
        "c,example.com/a in ()",
    ] {
        let selector: LabelSelector = text.parse().expect("a selector");
        assert_eq!(selector.to_query().as_deref(), Some(text));
    }
    let equal: LabelSelector = "a=x".parse().expect("a selector");
    assert_eq!(equal.to_query().as_deref(), Some("a in (x)"));
    let query = |labels: &[(&str, &str)]| LabelSelector::from_labels(labels.to_vec()).to_query();
    let any_order = query(&[("b", "y"), ("a", "x")]);
    assert_eq!(any_order.as_deref(), Some("a in (x),b in (y)"));
    for forged in ["x),b in (y", "x y", "x,y"] {
        assert_eq!(query(&[("a", forged)]), None, "{forged}");
    }
}

#[test]
fn selectors_are_bounded() {
    let parse = |text: String| text.parse::<LabelSelector>();
    // What is said twice counts once.
    assert!(parse(["a"; 30_000].join(",")).is_ok());
    let keys = |count: usize| -> Vec<String> { (0..count).map(|one| format!("k{one}")).collect() };
    assert!(parse(keys(MAX_TERMS).join(",")).is_ok());
    assert!(parse(keys(MAX_TERMS + 1).join(",")).is_err());
    assert!(parse(format!("a in ({})", keys(MAX_TERMS).join(","))).is_err());
}

#[test]
fn field_selectors_have_so_many_terms_at_most() {
    let different = |count: usize| -> String {
        let terms = (0..count).map(|number| format!("metadata.name!=n{number}"));
        terms.collect::<Vec<_>>().join(",")
    };
    assert!(different(64).parse::<FieldSelector>().is_ok());
    let error = different(65).parse::<FieldSelector>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the field selector has more than 64 terms"
    );
    // A term that is written again adds nothing.
    let same = vec!["metadata.name!=a"; 5000].join(",");
    let selector: FieldSelector = same.parse().unwrap();
    assert_eq!(selector.terms.len(), 1);
}
