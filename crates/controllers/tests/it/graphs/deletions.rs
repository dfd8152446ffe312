//! What a version of a graph may delete: what exceeds its budget is held until somebody approves it.

use deltaplane_api::keys;
use deltaplane_graph::Definition;

use super::*;

/// Two ConfigMaps of each shop, of which a definition may lose the second, and a budget.
fn pairs(budget: Value) -> Value {
    rooms_by(json!({"own": {}, "extra": {}}), budget)
}

/// A ConfigMap for each node, with what is said of the node beside its template.
fn rooms_by(nodes: Value, budget: Value) -> Value {
    let nodes = nodes.as_object().cloned().unwrap_or_default();
    let resources = nodes.into_iter().map(|(id, fields)| {
        let item = match fields["forEach"].is_null() {
            true => String::new(),
            false => "-${room}".to_owned(),
        };
        let mut resource = json!({"id": id, "template": {
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("${{schema.spec.name}}-{id}{item}")},
            "data": {"greeting": "hi"},
        }});
        for (name, value) in fields.as_object().into_iter().flatten() {
            resource[name] = value.clone();
        }
        if !resource["externalRef"].is_null() {
            resource.as_object_mut().expect("a node").remove("template");
        }
        resource
    });
    json!({
        "metadata": {"name": "shop"},
        "spec": {
            "schema": {
                "kind": "Shop", "apiVersion": "v1",
                "spec": {
                    "name": "string", "open": "string | default=yes",
                    "rooms": r#"[]string | default=["a","b","c"]"#,
                },
            },
            "resources": resources.collect::<Vec<_>>(),
            "deletionBudget": budget,
        },
    })
}

fn strict(max: u64) -> Value {
    json!({"max": max, "percent": 0})
}

impl Graphs {
    /// Runs shops of these names, which are ready.
    async fn open_shops(&self, definition: Value, names: &[&str]) {
        self.define(definition).await;
        for name in names {
            self.world.create(&shops(), shop(name)).await;
            self.until_state(name, "ACTIVE").await;
        }
    }

    /// The version of the definition as it is now.
    async fn version(&self) -> String {
        let now = self.world.get(&api::definitions(), &rgd()).await;
        let now = Definition::read(&now.expect("there")).expect("a definition");
        now.content_version().as_str().to_owned()
    }

    /// Waits until the version of now deleted and holds so many.
    async fn until_counted(&self, deleted: u64, held: u64) -> Value {
        let version = self.version().await;
        let is = |object: &Value| {
            let all = object["status"]["deletions"].as_array();
            let mut all = all.into_iter().flatten();
            all.any(|one| {
                one["version"] == version[..10] && one["deleted"] == deleted && one["held"] == held
            })
        };
        let told = self.world.until(&api::definitions(), &rgd(), is).await;
        let all = told["status"]["deletions"].as_array().cloned();
        let mut all = all.unwrap_or_default().into_iter();
        all.find(|one| one["version"] == version[..10])
            .expect("it was there")
    }

    async fn approve_deletions(&self, version: &str) {
        let change = json!({"metadata": {"annotations": {keys::APPROVED_DELETIONS: version}}});
        self.change(&api::definitions(), &rgd(), change).await;
    }

    /// How many ConfigMaps there are of a node.
    async fn count(&self, node: &str) -> usize {
        let maps = self.world.list(&config_maps()).await;
        let of = maps
            .iter()
            .filter(|map| map["metadata"]["labels"]["kro.run/node-id"] == node);
        of.filter(|map| map["metadata"]["deletionTimestamp"].is_null())
            .count()
    }

    /// Waits until one shop says that deletions of it are held. The definition counts them before.
    async fn until_one_holds(&self) -> Value {
        for _ in 0..200 {
            let mut all = self.world.list(&shops()).await;
            all.retain(|one| condition_of(one, "ResourcesPropagated")["reason"] == "DeletionsHeld");
            if let [one] = &all[..] {
                return one.clone();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("no shop, or more than one, holds deletions");
    }

    async fn until_count(&self, node: &str, count: usize) {
        let world = &self.world;
        for _ in 0..200 {
            if self.count(node).await == count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let maps = world.list(&config_maps()).await;
        panic!(
            "{} of {node}, not {count}: {maps:#?}",
            self.count(node).await
        );
    }

    /// An instance was looked at, with all that follows from what was done before.
    async fn looked_at(&self, name: &str) {
        let own = key(&format!("{name}-own"));
        self.change(
            &config_maps(),
            &own,
            json!({"data": {"greeting": "forged"}}),
        )
        .await;
        let mended = |object: &Value| object["data"]["greeting"] == "hi";
        self.world.until(&config_maps(), &own, mended).await;
    }

    async fn until_held(&self, name: &str) -> Value {
        let is = |object: &Value| {
            let held = condition_of(object, "ResourcesPropagated");
            held["reason"] == "DeletionsHeld" && held["status"] == "False"
        };
        let shop = self.world.until(&shops(), &key(name), is).await;
        condition_of(&shop, "ResourcesPropagated")
    }
}

fn condition_of(object: &Value, r#type: &str) -> Value {
    let all = object["status"]["conditions"].as_array();
    let mut all = all.into_iter().flatten();
    let found = all.find(|one| one["type"] == r#type);
    found.cloned().unwrap_or_default()
}

#[tokio::test]
async fn a_node_that_is_dropped_takes_no_more_than_the_budget_until_it_is_approved() {
    let mut graphs = Graphs::start().await;
    graphs.open_shops(pairs(strict(2)), &["a", "b", "c"]).await;
    let before = graphs.version().await;
    let dropped = rooms_by(json!({"own": {}}), strict(2));
    graphs.redefine(&dropped).await;
    let counted = graphs.until_counted(2, 1).await;
    let after = graphs.version().await;
    let expected = json!({"version": after[..10], "baseline": 6, "deleted": 2, "held": 1});
    assert_eq!(counted, expected);
    graphs.until_count("extra", 1).await;
    // It says so, and is ready all the same.
    let one = graphs.until_one_holds().await;
    let name = one["metadata"]["name"].as_str().expect("a name").to_owned();
    assert_eq!(condition_of(&one, "Ready")["status"], "True");
    let message = graphs.until_held(&name).await["message"].clone();
    let expected = format!(
        "1 deletion is held: ConfigMap default/{name}-extra; version {} may delete 2 objects \
         without approval (2, or 0 % of 6 objects that there were); to approve: deltaplane rollout \
         approve graph/shop --deletions",
        &after[..10]
    );
    assert_eq!(message, expected);
    let is = |object: &Value| condition_of(object, "DeletionsApproved")["status"] == "False";
    let told = graphs.world.until(&api::definitions(), &rgd(), is).await;
    let expected = format!(
        "version {} holds 1 deletions and deleted 2 objects; to approve: deltaplane rollout approve \
         graph/shop --deletions",
        &after[..10]
    );
    assert_eq!(
        condition_of(&told, "DeletionsApproved")["message"],
        expected
    );
    assert_eq!(condition_of(&told, "Ready")["status"], "True");
    // Nor does a restart delete any more, or the approval of another version.
    graphs.restart().await;
    graphs.looked_at(&name).await;
    graphs.approve_deletions(&before).await;
    graphs.looked_at(&name).await;
    graphs.until_counted(2, 1).await;
    assert_eq!(graphs.count("extra").await, 1);
    graphs.approve_deletions(&after[..10]).await;
    graphs.until_count("extra", 0).await;
    graphs.until_counted(3, 0).await;
    let is = |object: &Value| condition_of(object, "ResourcesPropagated").is_null();
    graphs.world.until(&shops(), &key(&name), is).await;
    let is = |object: &Value| condition_of(object, "DeletionsApproved").is_null();
    graphs.world.until(&api::definitions(), &rgd(), is).await;
    graphs.end().await;
}

/// A change of the definition, or of an object.
enum Cause {
    Definition(Value),
    Object(Resource, ObjectKey, Value),
}

/// Three rooms are to go by this cause, of which one may.
async fn check_cause(before: Value, cause: Cause) {
    let mut graphs = Graphs::start().await;
    let house = json!({
        "metadata": {"name": "house", "namespace": "default"},
        "data": {"rooms": "a,b,c", "open": "yes"},
    });
    graphs.world.create(&config_maps(), house).await;
    graphs.open_shops(rooms_by(before, strict(1)), &["a"]).await;
    graphs.until_count("rooms", 3).await;
    match cause {
        Cause::Definition(after) => graphs.redefine(&rooms_by(after, strict(1))).await,
        Cause::Object(kind, key, change) => graphs.change(&kind, &key, change).await,
    }
    graphs.until_counted(1, 2).await;
    graphs.until_count("rooms", 2).await;
    graphs.until_held("a").await;
    // What the owner does next releases nothing, before and after a restart.
    for (rooms, restart) in [(json!(["a", "b"]), false), (json!(["b"]), true)] {
        if restart {
            graphs.restart().await;
        }
        let change = json!({"spec": {"rooms": rooms}});
        graphs.change(&shops(), &key("a"), change).await;
        graphs.looked_at("a").await;
        graphs.until_counted(1, 2).await;
        assert_eq!(graphs.count("rooms").await, 2);
    }
    let version = graphs.version().await;
    graphs.approve_deletions(&version).await;
    graphs.until_count("rooms", 0).await;
    graphs.until_counted(3, 0).await;
    graphs.end().await;
}

const ROOMS: &str = "${['a', 'b', 'c']}";

fn house() -> Value {
    json!({"externalRef": {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "house"},
    }})
}

#[tokio::test]
async fn a_node_that_a_definition_excludes_is_counted() {
    let with = |when: &str| {
        let rooms = json!({"forEach": [{"room": ROOMS}], "includeWhen": [when]});
        json!({"own": {}, "rooms": rooms})
    };
    let after = Cause::Definition(with("${schema.spec.open == 'never'}"));
    check_cause(with("${schema.spec.open == 'yes'}"), after).await;
}

#[tokio::test]
async fn items_that_a_definition_drops_are_counted() {
    let with = |rooms: &str| json!({"own": {}, "rooms": {"forEach": [{"room": rooms}]}});
    check_cause(
        with(ROOMS),
        Cause::Definition(with("${['x'].filter(r, false)}")),
    )
    .await;
}

#[tokio::test]
async fn items_that_a_reference_drops_are_counted() {
    let rooms = "${house.data.rooms.split(',').filter(r, r != '')}";
    let nodes = json!({"own": {}, "house": house(), "rooms": {"forEach": [{"room": rooms}]}});
    let change = json!({"data": {"rooms": ""}});
    check_cause(nodes, Cause::Object(config_maps(), key("house"), change)).await;
}

#[tokio::test]
async fn a_node_that_a_reference_excludes_is_counted() {
    let rooms = json!({
        "forEach": [{"room": ROOMS}], "includeWhen": ["${house.data.open == 'yes'}"],
    });
    let nodes = json!({"own": {}, "house": house(), "rooms": rooms});
    let change = json!({"data": {"open": "no"}});
    check_cause(nodes, Cause::Object(config_maps(), key("house"), change)).await;
}

#[tokio::test]
async fn items_that_the_state_of_a_child_drops_are_counted() {
    let rooms = "${['a', 'b', 'c'].filter(r, own.data.?closed.orValue('no') == 'no')}";
    let nodes = json!({"own": {}, "rooms": {"forEach": [{"room": rooms}]}});
    let change = json!({"data": {"closed": "yes"}});
    check_cause(nodes, Cause::Object(config_maps(), key("a-own"), change)).await;
}

#[tokio::test]
async fn what_an_owner_changes_or_deletes_is_not_counted() {
    let mut graphs = Graphs::start().await;
    // One after the other goes, in two waves.
    let nodes = json!({
        "own": {},
        "rooms": {"forEach": [{"room": "${schema.spec.rooms}"}]},
        "second": {
            "includeWhen": ["${schema.spec.open == 'yes'}"],
            "template": {
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "${own.metadata.name}-second"},
                "data": {"greeting": "hi"},
            },
        },
        "third": {"template": {
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "${second.metadata.name}-third"}, "data": {"greeting": "hi"},
        }},
    });
    graphs
        .open_shops(rooms_by(nodes, strict(0)), &["a", "b"])
        .await;
    let fewer = json!({"spec": {"rooms": ["a"]}});
    graphs.change(&shops(), &key("a"), fewer).await;
    graphs.until_count("rooms", 4).await;
    graphs.until_state("a", "ACTIVE").await;
    // The third stays for a while, and the process ends meanwhile.
    let third = key("a-own-second-third");
    let held = json!({"metadata": {"finalizers": ["test.io/hold"]}});
    graphs.change(&config_maps(), &third, held).await;
    let closed = json!({"spec": {"open": "no"}});
    graphs.change(&shops(), &key("a"), closed).await;
    graphs.until_count("third", 1).await;
    graphs.restart().await;
    graphs.looked_at("b").await;
    let free = json!({"metadata": {"finalizers": []}});
    graphs.change(&config_maps(), &third, free).await;
    graphs.until_count("second", 1).await;
    let active = graphs.until_state("a", "ACTIVE").await;
    assert_eq!(condition_of(&active, "ResourcesPruned"), Value::Null);
    graphs.world.delete(&shops(), &key("b"), "Background").await;
    graphs.world.until_gone(&shops(), &key("b")).await;
    graphs.until_counted(0, 0).await;
    graphs.end().await;
}

#[tokio::test]
async fn a_newer_version_has_a_budget_and_needs_an_approval_of_its_own() {
    let graphs = Graphs::start().await;
    graphs.open_shops(pairs(strict(0)), &["a", "b"]).await;
    let mut dropped = rooms_by(json!({"own": {}}), strict(0));
    graphs.redefine(&dropped).await;
    graphs.until_counted(0, 2).await;
    let second = graphs.version().await;
    dropped["spec"]["resources"][0]["template"]["data"]["more"] = json!("yes");
    graphs.redefine(&dropped).await;
    graphs.until_counted(0, 2).await;
    assert_ne!(graphs.version().await, second);
    graphs.approve_deletions(&second).await;
    graphs.looked_at("a").await;
    graphs.looked_at("b").await;
    assert_eq!(graphs.count("extra").await, 2);
    // Another budget is no other version, and counts at once.
    let third = graphs.version().await;
    let more = json!({"spec": {"deletionBudget": {"max": 1}}});
    graphs.change(&api::definitions(), &rgd(), more).await;
    graphs.until_counted(1, 1).await;
    assert_eq!(graphs.version().await, third);
    graphs.until_count("extra", 1).await;
    graphs.approve_deletions(&third).await;
    graphs.until_count("extra", 0).await;
    graphs.end().await;
}

#[tokio::test]
async fn a_rollout_stops_at_what_is_held() {
    let graphs = Graphs::start().await;
    let gated = |nodes: Value| {
        let mut definition = rooms_by(nodes, strict(0));
        definition["spec"]["propagateWhen"] = json!(["linearlyReady(shop, shops, 1)"]);
        definition
    };
    let both = gated(json!({"own": {}, "extra": {}}));
    graphs.open_shops(both, &["a", "b"]).await;
    graphs.redefine(&gated(json!({"own": {}}))).await;
    graphs.until_held("a").await;
    let wanted = json!({"revision": 2, "updating": 1, "pending": 1});
    graphs.until_propagation(wanted.clone()).await;
    graphs.looked_at("a").await;
    graphs.looked_at("b").await;
    graphs.until_propagation(wanted).await;
    let version = graphs.version().await;
    graphs.approve_deletions(&version).await;
    graphs
        .until_propagation(json!({"revision": 2, "current": 2}))
        .await;
    graphs.until_count("extra", 0).await;
    graphs.end().await;
}

#[tokio::test]
async fn what_an_instance_made_that_goes_with_another_is_counted() {
    let graphs = Graphs::start().await;
    graphs.define(pairs(strict(20))).await;
    let mall = |nodes: Value| {
        json!({
            "metadata": {"name": "mall"},
            "spec": {
                "schema": {"kind": "Mall", "apiVersion": "v1", "spec": {"name": "string"}},
                "resources": nodes,
                "deletionBudget": {"max": 2, "percent": 0},
            },
        })
    };
    let inner = json!({"id": "inner", "template": {
        "apiVersion": "kro.run/v1", "kind": "Shop",
        "metadata": {"name": "${schema.spec.name}"}, "spec": {"name": "${schema.spec.name}"},
    }});
    let own = json!({"id": "own", "template": {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${schema.spec.name}-mall"},
    }});
    let world = &graphs.world;
    let malls = Resource::namespaced("kro.run", "v1", "malls", "Mall");
    let name = ObjectKey::cluster("mall");
    world
        .create(&api::definitions(), mall(json!([own, inner])))
        .await;
    let ready = |object: &Value| condition(object, "Ready", "True");
    world.until(&api::definitions(), &name, ready).await;
    world.create(&malls, shop("m")).await;
    let active = |object: &Value| object["status"]["state"] == "ACTIVE";
    world.until(&malls, &key("m"), active).await;
    let change = json!({"spec": mall(json!([own]))["spec"]});
    graphs.change(&api::definitions(), &name, change).await;
    let is = |object: &Value| {
        let all = object["status"]["deletions"].as_array();
        let mut all = all.into_iter().flatten();
        all.any(|one| one["held"] == 3 && one["baseline"] == 4)
    };
    world.until(&api::definitions(), &name, is).await;
    assert!(world.get(&shops(), &key("m")).await.is_some());
    let more = json!({"spec": {"deletionBudget": {"max": 3}}});
    graphs.change(&api::definitions(), &name, more).await;
    world.until_gone(&shops(), &key("m")).await;
    graphs.end().await;
}
