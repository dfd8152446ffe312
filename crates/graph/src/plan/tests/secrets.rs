//! What Secrets hold is in no reason.

use super::*;

/// A Secret says which entry of a ConfigMap goes where.
const KEYED: &str = r#"
schema:
  kind: Keyed
  apiVersion: v1
  spec: {name: string}
resources:
- id: creds
  readyWhen: ["${READY}"]
  template:
    apiVersion: v1
    kind: Secret
    metadata: {name: creds}
    stringData: {key: hunter2}
- id: config
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: config}, data: {a: b}}
- id: chosen
  propagateWhen: ["${GATE}"]
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: chosen}
    data: {value: "${HOLE}"}
"#;

/// Plans until nothing is to be done; returns all that is said.
fn said(ready: &str, gate: &str, hole: &str) -> String {
    let definition = KEYED.replace("${READY}", ready);
    let definition = definition.replace("${GATE}", gate).replace("${HOLE}", hole);
    let mut world = World::new(&definition, json!({"spec": {"name": "k"}}));
    world.step("pass");
    world.said
}

#[test]
fn reasons_do_not_quote_secrets() {
    let secret = "creds.stringData.key";
    for (ready, gate, hole, reason) in [
        // An entry that is not there.
        (
            "${true}".to_owned(),
            "true".to_owned(),
            format!("${{config.data[{secret}]}}"),
            "chosen: waits for config.data[*]",
        ),
        // A value that is no number.
        (
            "${true}".to_owned(),
            "true".to_owned(),
            format!("${{string(int({secret}))}}"),
            "the reason is not shown",
        ),
        // A readyWhen of the Secret itself.
        (
            format!("${{creds.metadata.annotations[{secret}] == 'x'}}"),
            "true".to_owned(),
            "x".to_owned(),
            "creds: Secret team/creds is not ready",
        ),
        // A gate that is closed by a value of the Secret.
        (
            "${true}".to_owned(),
            format!("{secret} == 'other'"),
            "x".to_owned(),
            "chosen: ",
        ),
    ] {
        let said = said(&ready, &gate, &hole);
        assert!(said.contains(reason), "{said}");
        let shown = said.lines().filter(|line| !line.starts_with("apply"));
        let quoted: Vec<&str> = shown.filter(|line| line.contains("hunter2")).collect();
        assert!(quoted.is_empty(), "{quoted:#?}");
    }
}
