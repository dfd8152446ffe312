//! Nobody does by a policy what RBAC at the hub refuses to them.

use deltaplane_apiserver::seams::Access;

use super::*;

const WEB: &str = "web";

fn on_policy() -> Resource<'static> {
    of_fleet("PropagationPolicy", "propagationpolicies", WEB)
}

/// A policy for these targets with these overrides.
fn overriding(targets: &Value, overrides: &Value) -> Value {
    let mut policy = policy(WEB, "2026-01-01T00:00:00Z", "web");
    policy["spec"]["targets"] = targets.clone();
    policy["spec"]["overrides"] = overrides.clone();
    policy
}

fn patch_of(targets: &Value) -> Value {
    let patch = json!([{"op": "add", "path": "/data/key", "value": "other"}]);
    if targets.is_null() {
        return json!([{ "patch": patch }]);
    }
    json!([{"targets": targets, "patch": patch}])
}

/// Rights as lines of `verb kind namespace/name`; `*` is everything of the kind.
fn rights(given: &'static [&'static str]) -> impl Fn(Access<'_>) -> bool + Send + Sync {
    move |access| {
        let Access {
            verb,
            kind,
            namespace,
            name,
            ..
        } = access;
        given.contains(&format!("{verb} {kind} *").as_str())
            || given.contains(&format!("{verb} {kind} {namespace}/{name}").as_str())
    }
}

#[tokio::test]
async fn overrides_need_the_right_to_update_what_they_change() {
    let maps = json!([{"kind": "ConfigMap"}]);
    let named = json!([{"kind": "ConfigMap", "names": ["shop/a"]}]);
    let anywhere = json!([{"kind": "ConfigMap", "names": ["a"]}]);
    let selected = json!([{"kind": "ConfigMap", "selector": {"matchLabels": {"team": "web"}}}]);
    let all = "you cannot update ConfigMap in all namespaces at the hub, which spec.overrides[0] changes in zones";
    let one = "you cannot update ConfigMap shop/a at the hub";
    let hub = Hub::new().await;
    let check = |targets: &Value, own: &Value, given: &'static [&'static str], why: &str| {
        let policy = overriding(targets, &patch_of(own));
        let create = (Operation::Create, on_policy());
        let written = hub.write_with("ann", create, (None, policy), &rights(given));
        match why {
            "" => written.is_taken(),
            why => written.is_refused(why),
        }
    };
    // What the override names counts, and otherwise all that the policy governs.
    check(&maps, &Value::Null, &[], all);
    check(&maps, &Value::Null, &["update ConfigMap shop/a"], all);
    check(&maps, &Value::Null, &["get ConfigMap *"], all);
    check(&maps, &Value::Null, &["update ConfigMap *"], "");
    check(&maps, &selected, &["update ConfigMap shop/a"], all);
    check(&maps, &named, &[], one);
    check(&maps, &named, &["update ConfigMap shop/a"], "");
    check(&named, &Value::Null, &["update ConfigMap shop/a"], "");
    let everywhere = "you cannot update ConfigMap a in all namespaces at the hub";
    check(&maps, &anywhere, &["update ConfigMap shop/a"], everywhere);
    check(&maps, &anywhere, &["update ConfigMap /a"], "");
}

#[tokio::test]
async fn overrides_of_secrets_need_the_right_to_read_them() {
    let hub = Hub::new().await;
    let secrets = json!([{"kind": "Secret", "names": ["shop/pin"]}]);
    let check = |given: &'static [&'static str]| {
        let policy = overriding(&secrets, &patch_of(&Value::Null));
        let create = (Operation::Create, on_policy());
        hub.write_with("ann", create, (None, policy), &rights(given))
    };
    let why =
        "you cannot get Secret shop/pin at the hub, whose content spec.overrides[0] could test";
    check(&["update Secret shop/pin"]).is_refused(why);
    check(&["update Secret shop/pin", "get Secret shop/pin"]).is_taken();
}

#[tokio::test]
async fn rights_are_asked_for_when_overrides_may_come_to_something_else() {
    let hub = Hub::new().await;
    let old = overriding(&json!([{"kind": "ConfigMap"}]), &patch_of(&Value::Null));
    let update = |change: fn(&mut Value)| {
        let mut new = old.clone();
        change(&mut new["spec"]);
        let update = (Operation::Update, on_policy());
        hub.write_with("bob", update, (Some(&old), new), &|_| false)
    };
    update(|spec| spec["paused"] = true.into()).is_taken();
    update(|spec| spec["stages"] = json!([{"name": "all"}])).is_taken();
    for change in [
        |spec: &mut Value| spec["overrides"][0]["patch"][0]["value"] = "third".into(),
        |spec: &mut Value| spec["zones"] = json!({"matchLabels": {"a": "b"}}),
        |spec: &mut Value| spec["targets"] = json!([{"kind": "Secret"}]),
    ] {
        update(change).is_refused("you cannot update");
    }
}

#[tokio::test]
async fn overrides_never_change_what_gives_rights() {
    let role = json!([{"group": "rbac.authorization.k8s.io", "kind": "ClusterRoleBinding"}]);
    let account = json!([{"kind": "ServiceAccount", "names": ["shop/robot"]}]);
    for (kind, protected) in [("ClusterRoleBinding", role), ("ServiceAccount", account)] {
        let hub = Hub::new().await;
        let why = format!(
            "spec.overrides[0].targets: Forbidden: overrides cannot target objects of kind {kind}"
        );
        for own in [&Value::Null, &protected] {
            let policy = overriding(&protected, &patch_of(own));
            let create = (Operation::Create, on_policy());
            hub.write("root", create, (None, policy)).is_refused(&why);
        }
        // It may be governed, beside something that is overridden.
        let mut targets = protected.clone();
        let maps = json!([{"kind": "ConfigMap"}]);
        targets
            .as_array_mut()
            .expect("a list")
            .push(maps[0].clone());
        let policy = overriding(&targets, &patch_of(&maps));
        let create = (Operation::Create, on_policy());
        hub.write("root", create, (None, policy)).is_taken();
    }
}

#[tokio::test]
async fn expressions_over_secrets_need_the_right_to_read_them() {
    let with = |targets: Value, by_stage: &[&str]| {
        let mut policy = overriding(&targets, &json!([]));
        policy["spec"]["stages"][0]["readyWhen"] = json!(by_stage);
        policy
    };
    let expression = "size(object.data) > 0";
    let secrets = |ready: &[&str]| json!([{"kind": "Secret", "readyWhen": ready}]);
    let named = json!([{"kind": "Secret", "names": ["shop/a"], "readyWhen": [expression]}]);
    let why = "you cannot get Secret in all namespaces at the hub, which readyWhen reads in zones";
    let by_name = "you cannot get Secret shop/a at the hub";
    for (policy, given, refused) in [
        (with(secrets(&[]), &[]), &[][..], ""),
        (with(secrets(&[expression]), &[]), &[], why),
        (with(secrets(&[]), &[expression]), &[], why),
        (with(secrets(&[expression]), &[]), &["update Secret *"], why),
        (with(secrets(&[expression]), &[]), &["get Secret *"], ""),
        (with(named.clone(), &[]), &[], by_name),
        (with(named, &[]), &["get Secret shop/a"], ""),
        (with(json!([{"kind": "ConfigMap"}]), &[expression]), &[], ""),
    ] {
        let hub = Hub::new().await;
        let create = (Operation::Create, on_policy());
        let written = hub.write_with("ann", create, (None, policy), &rights(given));
        match refused {
            "" => written.is_taken(),
            why => written.is_refused(why),
        }
    }
}

/// A release of ConfigMaps at these versions.
fn release(number: u64, maps: &[(&str, &str)], overrides: &Value) -> Value {
    let versions = maps.iter().map(|(name, digit)| {
        let version = json!(digit.repeat(64));
        (format!("shop/{name}"), version)
    });
    let versions: Map<String, Value> = versions.collect();
    json!({
        "metadata": {"name": format!("web-{number}"), "uid": format!("release-{number}")},
        "spec": {
            "policy": WEB, "policyUID": "uid-web", "number": number, "digest": number.to_string(),
            "revision": number, "removes": [], "overrides": overrides, "authors": ["ann"],
            "objects": [{"group": "", "kind": "ConfigMap", "versions": versions}],
        },
    })
}

#[tokio::test]
async fn a_rollback_needs_the_right_to_update_what_differs() {
    let hub = Hub::new().await;
    let there = policy(WEB, "2026-01-01T00:00:00Z", "web");
    hub.knows(there.clone());
    let named = patch_of(&json!([{"kind": "ConfigMap", "names": ["shop/d"]}]));
    for (number, maps, overrides) in [
        (
            1,
            &[("a", "1"), ("b", "1"), ("c", "1"), ("d", "1")][..],
            json!([]),
        ),
        (2, &[("a", "2"), ("b", "1"), ("d", "1")][..], named),
        (3, &[("a", "2"), ("b", "1"), ("d", "1")][..], json!([])),
    ] {
        let mut governing = hub.policing.0.inner().governing.lock();
        governing.release(&release(number, maps, &overrides), true);
    }
    let ask = |said: &str, given: &'static [&'static str]| {
        let mut asking = there.clone();
        asking["metadata"]["annotations"][ROLLBACK] = said.into();
        let update = (Operation::Update, on_policy());
        hub.write_with("ann", update, (Some(&there), asking), &rights(given))
    };
    let cannot = |name: &str| {
        format!(
            "you cannot update ConfigMap shop/{name} at the hub, which the rollback changes in zones"
        )
    };
    ask("1 instead of 3", &[]).is_refused(&cannot("a"));
    ask("1 instead of 3", &["update ConfigMap shop/a"]).is_refused(&cannot("c"));
    let both = &["update ConfigMap shop/a", "update ConfigMap shop/c"];
    ask("1 instead of 3", both).is_taken();
    // What an override of it changes differs, too.
    ask("2 instead of 3", &[]).is_refused(&cannot("d"));
    ask("2 instead of 3", &["update ConfigMap shop/d"]).is_taken();
    // A wish that comes to nothing needs no rights, and none comes true by a later release.
    ask("1 instead of 2", &[]).is_taken();
    ask("1 instead of 4", &["update ConfigMap *"]).is_refused("there is no release 4");
    // Whoever leaves what was asked for as it is asks for nothing.
    let mut asked = there.clone();
    asked["metadata"]["annotations"][ROLLBACK] = "1 instead of 3".into();
    let mut labelled = asked.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    let update = (Operation::Update, on_policy());
    hub.write_with("eve", update, (Some(&asked), labelled), &|_| false)
        .is_taken();
    let mut resumed = asked.clone();
    resumed["spec"]["paused"] = true.into();
    hub.write_with("eve", update, (Some(&asked), resumed), &|_| false)
        .is_taken();
}

/// Otherwise the wish would come true with the first release of that number.
#[tokio::test]
async fn a_new_policy_asks_for_no_rollback() {
    let hub = Hub::new().await;
    let mut new = policy(WEB, "2026-01-01T00:00:00Z", "web");
    new["metadata"]["annotations"] = json!({ROLLBACK: "1 instead of 2"});
    let create = (Operation::Create, on_policy());
    let written = hub.write_with("ann", create, (None, new), &|_| false);
    written.is_taken();
    assert!(written.object["metadata"]["annotations"][ROLLBACK].is_null());
}

/// Otherwise whoever may label an object would pass every approval.
#[tokio::test]
async fn who_takes_an_object_out_of_a_policy_that_needs_approval_is_its_author() {
    for (approval, waits) in [
        ("RequiredByOther", true),
        ("Required", true),
        ("None", false),
    ] {
        let hub = Hub::new().await;
        let mut there = policy(WEB, "2026-01-01T00:00:00Z", "web");
        there["spec"]["stages"] = json!([{"name": "rest", "approval": approval}]);
        hub.knows(there);
        hub.has(&config("web", "1"));
        let update = (Operation::Update, CONFIG_MAPS);
        let lose = || {
            let old = config("web", "1");
            hub.write("ann", update, (Some(&old), config("mobile", "2")))
        };
        let at_once =
            "policy web no longer governs this object: all zones get its current version at once";
        // What was never released is with no zone.
        assert_eq!(lose().warnings, [at_once]);
        {
            let mut governing = hub.policing.0.inner().governing.lock();
            governing.release(&release(1, &[("a", "1")], &json!([])), true);
        }
        let again = (Operation::Create, CONFIG_MAPS);
        let made = hub.write("ann", again, (None, config("mobile", "2")));
        for (written, before) in [(lose(), &[at_once][..]), (made, &[][..])] {
            written.is_taken();
            let author = waits.then_some("ann");
            assert_eq!(written.author(), author, "{approval}");
            if waits {
                let warning = written.warnings.concat();
                assert!(
                    warning.contains("needs approval like any change"),
                    "{warning}"
                );
            } else {
                assert_eq!(written.warnings, before);
            }
        }
    }
}
