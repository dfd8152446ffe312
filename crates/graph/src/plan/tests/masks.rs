//! Expressions come to the same over an object of which only what they read is kept.

use super::*;

/// Everything that an expression may do with an object.
const EXPRESSIONS: [&str; 32] = [
    "source.spec.text",
    "source.spec['dotted.key']",
    "source.spec[source.spec.pointer]",
    "source.spec[schema.spec.key]",
    "source.spec.?absent.orValue('none')",
    "source.spec[?'absent'].orValue(source.spec.text)",
    "source.spec.absent.deep",
    "source.status.absent",
    "has(source.status.absent) ? 'yes' : 'no'",
    "has(source.status.nested.value) ? source.status.nested.value : 'no'",
    "source.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True') ? 'a' : 'b'",
    "source.status.conditions.filter(c, c.status == 'True').map(c, c.type).join(',')",
    "source.status.conditions[0].type",
    "source.status.conditions[source.status.at].reason",
    "source.status.conditions[7].type",
    "string(source.status.conditions.size())",
    "string(size(source.spec))",
    "source.spec.map(key, key).join(',')",
    "source.spec.transformList(key, value, key + value).join(',')",
    "cel.bind(c, source.status.conditions, c[1].type + c[0].reason)",
    "cel.bind(all, source, all.status.nested.value)",
    "(source.status.at == 0 ? source.status.nested : source.spec).value",
    "[source.status.nested, source.status.nested][1].value",
    "{'a': source.status.nested}['a'].value",
    "source.metadata.labels['app']",
    "source.metadata.annotations.exists(key, key == 'note') ? 'noted' : 'not'",
    "source.metadata.name + source.metadata.namespace",
    "source.status.nested.value.matches('^v') ? source.kind : source.apiVersion",
    "string(source.status.nested == {'value': 'v1', 'more': {'x': 1}})",
    "string(source.status.missing == null)",
    "source.status.none.field",
    "json.marshal(source)",
];

#[test]
fn expressions_see_all_that_they_read() {
    let source = json!({
        "spec": {
            "text": "plain", "dotted.key": "dot", "pointer": "text", "other": "unread", "chosen": "it",
            "value": "data",
        },
        "status": {
            "at": 1, "none": null, "nested": {"value": "v1", "more": {"x": 1}}, "unread": {"a": [1]},
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "Fine"},
                {"type": "Other", "status": "False", "reason": "Wrong"},
            ],
        },
    });
    for expression in EXPRESSIONS {
        // As the value of a status field, of a template and of a condition.
        let definition = format!(
            r#"
schema:
  kind: Shop
  apiVersion: v1
  spec: {{key: string}}
  status: {{value: {status}}}
resources:
- id: source
  template: {{apiVersion: example.com/v1, kind: Loose, metadata: {{name: source}}}}
- id: copy
  includeWhen: [{condition}]
  template: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: copy}}, data: {{a: {status}}}}}
"#,
            status = json!(format!("${{{expression}}}")),
            condition = json!(format!("${{string({expression}) != ''}}")),
        );
        let instance = json!({"spec": {"key": "chosen"}});
        let mut world = World::new(&definition, instance);
        // It compares plans over whole objects and over what is stored of them.
        world.pass();
        let extend = |json: &mut Json| {
            for (key, value) in source.as_object().expect("an object") {
                json[key] = value.clone();
            }
            json["metadata"]["labels"]["app"] = "shop".into();
            json["metadata"]["annotations"]["note"] = "kept".into();
        };
        world.change("source", extend);
        world.pass();
        let stored = world.stored();
        let whole: usize = world.observed.of("source").map(|live| weight(live)).sum();
        let kept: usize = stored.of("source").map(|live| weight(live)).sum();
        let reads_all = ["all.status", "marshal"].iter();
        let mut reads_all = reads_all.filter(|word| expression.contains(*word));
        assert_eq!(kept < whole, reads_all.next().is_none(), "{expression}");
    }
}

fn weight(live: &Live) -> usize {
    live.json().to_string().len()
}
