//! Gates, and what others have made.

use super::nodes::{check_switched, shop};
use super::*;

/// It changes whatever it has: that it is not known what that is does not make it a repair.
#[test]
fn what_somebody_else_applied_goes_through_the_gate() {
    let definition = r#"
schema: {kind: Shop, apiVersion: v1, spec: {size: string, name: string, extra: boolean}}
resources:
- id: web
  propagateWhen: ["schema.spec.size == '1'"]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {size: "${schema.spec.size}"}}
"#;
    check(
        definition,
        shop(),
        "pass
         foreign web
         set schema spec.size=\"2\"
         pass
         set schema spec.size=\"1\"
         pass",
        expect![[r#"
            > pass
            apply ConfigMap team/web (Absent)
            web: Ready
            status {}
            > foreign web
            > set schema spec.size="2"
            > pass
            web: Ready
              frozen ConfigMap team/web: closed: schema.spec.size == '1': schema.spec.size: "2"
            status {}
            > set schema spec.size="1"
            > pass
            apply ConfigMap team/web (Changed)
            web: Ready
            status {}
        "#]],
    );
}

/// What is others' is not in flight, however it stands: nobody here changes it.
#[test]
fn what_is_others_takes_no_place() {
    let definition = r#"
schema: {kind: Shop, apiVersion: v1, spec: {size: string, name: string, extra: boolean}}
resources:
- id: switch
  externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: switch}}
  readyWhen: ["${switch.data.web == 'on'}"]
- id: web
  propagateWhen: ["linearlyReady(web, [switch], 1)"]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {size: "${schema.spec.size}"}}
"#;
    check_switched(
        definition,
        "pass",
        expect![[r#"
        > pass
        apply ConfigMap team/web (Absent)
        switch: ConfigMap team/switch is not ready: Condition { source: "${switch.data.web == 'on'}" }
        web: Ready
        status {}
    "#]],
    );
}
