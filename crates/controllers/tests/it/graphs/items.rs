//! Gates of items: what they decided holds through restarts, and what they keep stays as it is.

use super::*;

/// A ConfigMap for each of three rooms; one after the other, ready when somebody said so.
fn rooms() -> Value {
    let ready = "${each.metadata.?annotations[?'said'].orValue('') == each.data.greeting}";
    json!({
        "metadata": {"name": "shop"},
        "spec": {
            "schema": {
                "kind": "Shop", "apiVersion": "v1",
                "spec": {"name": "string", "greeting": "string | default=hi"},
            },
            "resources": [{
                "id": "rooms",
                "forEach": [{"room": "${['a', 'b', 'c']}"}],
                "propagateWhen": ["linearlyReady(room, rooms, 1)"],
                "readyWhen": [ready],
                "template": {
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "${room}-second"},
                    "data": {"greeting": "${schema.spec.greeting}"},
                },
            }],
        },
    })
}

impl Graphs {
    pub(super) async fn rooms_of(greeting: &str) -> Self {
        let graphs = Self::start().await;
        graphs.define(rooms()).await;
        graphs.world.create(&shops(), shop("shop")).await;
        for name in ["a", "b", "c"] {
            graphs.approve(name, greeting).await;
        }
        graphs.until_state("shop", "ACTIVE").await;
        graphs
    }

    async fn greet(&self, greeting: &str) {
        let change = json!({"spec": {"greeting": greeting}});
        self.change(&shops(), &key("shop"), change).await;
    }

    async fn until_gated(&self, message: &str) {
        let is = |object: &Value| {
            let all = object["status"]["conditions"].as_array();
            let mut all = all.into_iter().flatten();
            all.any(|one| {
                one["type"] == "ResourcesPropagated"
                    && one["observedGeneration"] == object["metadata"]["generation"]
                    && one["message"] == message
            })
        };
        self.world.until(&shops(), &key("shop"), is).await;
    }

    async fn memory(&self) -> Option<Value> {
        let shop = self.world.get(&shops(), &key("shop")).await?;
        let uid = shop["metadata"]["uid"].as_str()?;
        self.world
            .get(&secrets(), &key(&format!("deltaplane-{uid}")))
            .await
    }
}

const ONE: &str = "rooms: the gate of ConfigMap default/b-second, and of 1 more, is \
    closed: linearlyReady(room, rooms, 1): 1 in flight (default/a-second); \
    0 of 3 updated and ready";

#[tokio::test]
async fn items_move_one_by_one_and_a_restart_lets_nobody_past() {
    let mut graphs = Graphs::rooms_of("hi").await;
    graphs.greet("hey").await;
    graphs.until_gated(ONE).await;
    assert_eq!(graphs.greetings().await, ["hey", "hi", "hi"]);
    // What is under way stays so although something else is wanted by now.
    graphs.restart().await;
    graphs.greet("ho").await;
    graphs.until_gated(ONE).await;
    assert_eq!(graphs.greetings().await, ["ho", "hi", "hi"]);
    for name in ["a", "b", "c"] {
        graphs.approve(name, "ho").await;
    }
    graphs.until_state("shop", "ACTIVE").await;
    assert_eq!(graphs.greetings().await, ["ho", "ho", "ho"]);
    assert_eq!(graphs.memory().await, None);
    graphs.end().await;
}

#[tokio::test]
async fn what_a_gate_keeps_is_put_right_when_somebody_changes_it() {
    let mut graphs = Graphs::rooms_of("hi").await;
    graphs.greet("hey").await;
    graphs.until_gated(ONE).await;
    for restart in [false, true] {
        if restart {
            graphs.restart().await;
        }
        let forged = json!({"data": {"greeting": "forged"}});
        graphs
            .change(&config_maps(), &key("b-second"), forged)
            .await;
        let mended = |object: &Value| object["data"]["greeting"] == "hi";
        let b = key("b-second");
        graphs.world.until(&config_maps(), &b, mended).await;
    }
    assert_eq!(graphs.greetings().await, ["hey", "hi", "hi"]);
    // It is deleted with the instance.
    assert!(graphs.memory().await.is_some());
    graphs
        .world
        .delete(&shops(), &key("shop"), "Background")
        .await;
    graphs.world.until_gone(&shops(), &key("shop")).await;
    let secrets = graphs.world.list(&secrets()).await;
    let ours = |one: &&Value| one["type"] == "deltaplane.io/gates";
    assert_eq!(secrets.iter().filter(ours).count(), 0);
    graphs.end().await;
}

/// More than is rendered at a time.
#[tokio::test]
async fn a_large_collection_is_made_in_one_pass_a_part_at_a_time() {
    let graphs = Graphs::start().await;
    let mut large = rooms();
    let room = &mut large["spec"]["resources"][0];
    let names: Vec<String> = (0..8).map(|at| format!("'n{at}'")).collect();
    room["forEach"][0]["room"] = json!(format!("${{[{}]}}", names.join(",")));
    room["template"]["data"]["much"] = "x".repeat(800 << 10).into();
    for gate in ["propagateWhen", "readyWhen"] {
        room.as_object_mut().expect("a resource").remove(gate);
    }
    graphs.define(large).await;
    graphs.world.create(&shops(), shop("shop")).await;
    graphs.until_state("shop", "ACTIVE").await;
    assert!(
        graphs
            .world
            .get(&config_maps(), &key("n7-second"))
            .await
            .is_some()
    );
    graphs.end().await;
}

/// Gates that come again believe nothing of what others remembered before.
#[tokio::test]
async fn what_gates_remembered_goes_with_them_also_when_nobody_looked() {
    let mut graphs = Graphs::rooms_of("hi").await;
    graphs.greet("ho").await;
    graphs.until_says("a", "ho").await;
    let secret = graphs.memory().await.expect("one is on its way");
    graphs.tasks.shutdown(GRACE).await.expect("a clean end");
    let mut open = rooms();
    let room = open["spec"]["resources"][0].as_object_mut();
    room.expect("a resource").remove("propagateWhen");
    graphs.redefine(&open).await;
    (graphs.tasks, graphs.requests) = run(&graphs.world);
    let name = secret["metadata"]["name"].as_str().expect("a name");
    graphs.world.until_gone(&secrets(), &key(name)).await;
    graphs.end().await;
}
