//! What no API takes is said at once, and what kro takes is taken.

use expect_test::expect;

use super::{check, with_resources};

#[test]
fn names_of_a_kind_are_what_an_api_serves() {
    check(
        "schema: {kind: App, apiVersion: v1, scope: ''}",
        expect![[r#"
            spec.schema.scope: "" is not a scope
              hint: it is `Namespaced` or `Cluster`
        "#]],
    );
    check(
        "
schema:
  kind: Abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabc
  apiVersion: v1
  group: example
  shortNames: [a, a]
  categories: [all, b, all]
  metadata: {labels: {a b: c, d: e f}, annotations: {Fine/one: a b, not fine: a}}
",
        expect![[r#"
            spec.schema.categories[2]: it is there twice
            spec.schema.group: it should be a domain with at least one dot
            spec.schema.kind: its kind of lists, AbcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcList, is longer than 63 characters
            spec.schema.kind: its plural, abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcs, is longer than 63 characters
            spec.schema.metadata.annotations[not fine]: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            spec.schema.metadata.labels[a b]: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            spec.schema.metadata.labels[d]: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
            spec.schema.shortNames[1]: it is there twice
        "#]],
    );
}

#[test]
fn columns_are_what_an_api_shows() {
    let columns = |columns: &str| {
        format!("schema: {{kind: App, apiVersion: v1, additionalPrinterColumns: {columns}}}")
    };
    check(
        &columns(
            "[text, {name: 1, type: string, path: .a}, {name: a, type: b, jsonPath: c, priority: high}]",
        ),
        expect![[r#"
            spec.schema.additionalPrinterColumns[0]: expected an object, got string
            spec.schema.additionalPrinterColumns[1].jsonPath: it is required
            spec.schema.additionalPrinterColumns[1].name: expected a string, got integer
            spec.schema.additionalPrinterColumns[1].path: there is no such field
            spec.schema.additionalPrinterColumns[2].priority: expected an integer, got string
        "#]],
    );
    check(
        &columns(
            "[{name: '', type: text, jsonPath: a, format: name}, {name: a, type: date, jsonPath: .b, format: date-time, priority: 1}]",
        ),
        expect![[r#"
            spec.schema.additionalPrinterColumns[0].format: "name" is not one of byte, date, date-time, double, float, int32, int64, password
            spec.schema.additionalPrinterColumns[0].jsonPath: it must be a simple JSON path that starts with a dot
            spec.schema.additionalPrinterColumns[0].name: it is required
            spec.schema.additionalPrinterColumns[0].type: "text" is not one of boolean, date, integer, number, string
        "#]],
    );
}

#[test]
fn deletion_budgets_are_counts_and_shares() {
    let budget =
        |budget: &str| format!("schema: {{kind: App, apiVersion: v1}}\ndeletionBudget: {budget}");
    check(
        &budget("{max: -1, percent: 101, most: 3}"),
        expect![[r#"
            spec.deletionBudget.max: it is less than 0
            spec.deletionBudget.most: there is no such field
            spec.deletionBudget.percent: it is not between 0 and 100
        "#]],
    );
    check(
        &budget("{max: some, percent: 1.5}"),
        expect![[r#"
            spec.deletionBudget.max: expected an integer, got string
            spec.deletionBudget.percent: expected an integer, got number
        "#]],
    );
}

#[test]
fn rules_of_a_spec_compile() {
    check(
        "
schema:
  kind: App
  apiVersion: v1
  spec: {name: 'string | validation=\"self +\"', deep: {size: 'integer | validation=\"self > other\"'}}
",
        expect![[r#"
            spec.schema.spec.properties[deep].properties[size].x-kubernetes-validations[0].rule: compilation failed: ERROR: <input>:1:8: undeclared reference to 'other'
            spec.schema.spec.properties[name].x-kubernetes-validations[0].rule: compilation failed: ERROR: <input>:1:7: Syntax error: unexpected end of the expression, expecting an expression
        "#]],
    );
}

#[test]
fn references_can_be_found() {
    check(
        &with_resources(
            "
- {id: a, externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${omit()}'}}}
- {id: b, externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {selector: {matchLabels: {a b: c, d: e f}}}}}
- {id: c, externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {selector: {matchExpressions: [{key: a b, operator: In, values: [c d]}]}}}}
",
        ),
        expect![[r#"
            spec.resources[0].externalRef.metadata.name: omit() cannot be used here: the field must have a value
              | ${omit()}
              |   ^^^^^^
            spec.resources[1].externalRef.metadata.selector: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
            spec.resources[1].externalRef.metadata.selector: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            spec.resources[2].externalRef.metadata.selector: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
            spec.resources[2].externalRef.metadata.selector: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
        "#]],
    );
}

#[test]
fn whole_numbers_are_integers_as_far_as_they_can_be() {
    let port = |port: &str| {
        with_resources(&format!(
            "- {{id: a, template: {{apiVersion: v1, kind: Service, metadata: {{name: a}}, spec: {{ports: [{{port: {port}}}]}}}}}}"
        ))
    };
    let graph = super::compiled(&port("80.0")).unwrap();
    let literal = graph.nodes()[0].template().literal();
    assert_eq!(literal["spec"]["ports"][0]["port"].as_i64(), Some(80));
    check(
        &port("80.5"),
        expect![[r#"
            spec.resources[0].template.spec.ports[0].port: expected integer type for path spec.ports[0].port, got number
        "#]],
    );
    check(
        &port("9223372036854775808"),
        expect![[r#"
            spec.resources[0].template.spec.ports[0].port: expected integer type for path spec.ports[0].port, got number
        "#]],
    );
}

#[test]
fn values_of_no_json_are_objects_in_a_status() {
    check(
        "
schema:
  kind: App
  apiVersion: v1
  spec: {name: string}
  status: {one: '${quantity(schema.spec.name)}', many: '${[url(schema.spec.name)]}'}
",
        expect![[r#"
            apps.kro.run/v1 App (namespaced)
            spec {"type":"object"}
              name {"type":"string"}
            status {"type":"object"}
              many {"type":"array"}
                [] {"type":"object"}
                  {} true
              one {"type":"object"}
                {} true
                many = ${[url(schema.spec.name)]}
                one = ${quantity(schema.spec.name)}
        "#]],
    );
}
