//! What instances refer to.

use super::*;

/// A ConfigMap that says what another says, which is not the graph's, and how many are labelled.
fn referring() -> Value {
    json!({
        "metadata": {"name": "shop"},
        "spec": {
            "schema": {
                "kind": "Shop", "apiVersion": "v1",
                "spec": {"name": "string", "reads": "string | default=house"},
                "status": {"greets": "${own.data.greeting}"},
            },
            "resources": [
                {"id": "house", "externalRef": {
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "${schema.spec.reads}"},
                }},
                {"id": "guests", "externalRef": {
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"selector": {"matchLabels": {"guest": "yes"}}},
                }},
                {"id": "own", "template": {
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "${schema.spec.name}-own"},
                    "data": {"greeting": "${house.data.greeting} ${string(guests.size())}"},
                }},
            ],
        },
    })
}

fn map(name: &str, greeting: &str, labels: Value) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "data": {"greeting": greeting},
    })
}

impl Graphs {
    async fn until_greets(&self, greeting: &str) {
        let is = |object: &Value| {
            object["status"]["greets"] == greeting && object["status"]["state"] == "ACTIVE"
        };
        self.world.until(&shops(), &key("a"), is).await;
    }
}

#[tokio::test]
async fn what_an_instance_refers_to_is_waited_for_and_followed() {
    let mut graphs = Graphs::start().await;
    graphs.trust().await;
    graphs.define(referring()).await;
    graphs.world.create(&shops(), shop("a")).await;
    let waiting = graphs.until_state("a", "IN_PROGRESS").await;
    assert_eq!(
        waiting["status"]["conditions"][2]["message"],
        "house: ConfigMap default/house is not there; own: waits for house"
    );
    let world = &graphs.world;
    world
        .create(&config_maps(), map("house", "hi", json!({})))
        .await;
    graphs.until_greets("hi 0").await;
    let guest = |labels| map("guest", "", labels);
    world
        .create(&config_maps(), guest(json!({"guest": "yes"})))
        .await;
    graphs.until_greets("hi 1").await;
    let louder = json!({"data": {"greeting": "HI"}});
    graphs.change(&config_maps(), &key("house"), louder).await;
    graphs.until_greets("HI 1").await;
    // It refers to another from now on, and what it referred to does not matter any more.
    world
        .create(&config_maps(), map("inn", "hey", json!({})))
        .await;
    graphs
        .change(&shops(), &key("a"), json!({"spec": {"reads": "inn"}}))
        .await;
    graphs.until_greets("hey 1").await;
    graphs.restart().await;
    let gone = json!({"metadata": {"labels": {"guest": null}}});
    graphs.change(&config_maps(), &key("guest"), gone).await;
    graphs.until_greets("hey 0").await;
    // What is others' stays.
    let world = &graphs.world;
    world.delete(&shops(), &key("a"), "Background").await;
    world.until_gone(&shops(), &key("a")).await;
    for name in ["house", "inn", "guest"] {
        assert!(
            world.get(&config_maps(), &key(name)).await.is_some(),
            "{name}"
        );
    }
    graphs.end().await;
}

#[tokio::test]
async fn what_becomes_the_graphs_own_is_not_taken_from_others() {
    let graphs = Graphs::start().await;
    graphs.trust().await;
    graphs.define(referring()).await;
    let world = &graphs.world;
    world
        .create(&config_maps(), map("house", "hi", json!({})))
        .await;
    world.create(&shops(), shop("a")).await;
    graphs.until_greets("hi 0").await;
    // From now on the graph has a house of its own.
    graphs.redefine(&with_own_house()).await;
    graphs.until_greets("home 0").await;
    assert!(world.get(&config_maps(), &key("house")).await.is_some());
    graphs.end().await;
}

/// With a house of the graph's own.
fn with_own_house() -> Value {
    let mut own = referring();
    own["spec"]["resources"][0] = json!({"id": "house", "template": {
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "${schema.spec.name}-house"}, "data": {"greeting": "home"},
    }});
    own
}

/// Unless it is the same, which is what the author refers to.
#[tokio::test]
async fn what_was_the_graphs_own_goes_when_it_refers_to_others() {
    let graphs = Graphs::start().await;
    graphs.trust().await;
    graphs.define(with_own_house()).await;
    let world = &graphs.world;
    world
        .create(&config_maps(), map("house", "hi", json!({})))
        .await;
    let mut same = shop("a");
    same["spec"]["reads"] = json!("a-house");
    world.create(&shops(), same).await;
    graphs.until_greets("home 0").await;
    world.create(&shops(), shop("b")).await;
    world.until(&config_maps(), &key("b-house"), |_| true).await;
    graphs.redefine(&referring()).await;
    world.until_gone(&config_maps(), &key("b-house")).await;
    let moved = |object: &Value| {
        let shown = object["status"]["conditions"].to_string();
        object["status"]["state"] == "ACTIVE" && shown.contains("revision 2")
    };
    for name in ["a", "b"] {
        world.until(&shops(), &key(name), moved).await;
    }
    for name in ["a-house", "house"] {
        let there = world.get(&config_maps(), &key(name)).await;
        assert!(there.is_some(), "{name}");
    }
    graphs.end().await;
}

/// Whoever may read what a graph refers to need not be allowed to read everything.
#[tokio::test]
async fn nothing_is_read_but_what_is_referred_to() {
    let mut graphs = Graphs::start().await;
    graphs.trust().await;
    graphs.tasks.shutdown(GRACE).await.expect("a clean end");
    let client = graphs.world.client.clone();
    let service = tower::service_fn(move |mut request: http::Request<kube::client::Body>| {
        let uri = request.uri();
        let maps = request.method() == Method::GET && uri.path().ends_with("/configmaps");
        let some = |query: &str| query.contains("Selector=");
        if maps && !uri.query().is_some_and(some) {
            // There is no such kind.
            *request.uri_mut() = "/api/v1/everything".parse().expect("a path");
        }
        let client = client.clone();
        async move { client.send(request).await }
    });
    let client = kube::Client::new(service, "default");
    (graphs.tasks, graphs.requests) = run_with(client);
    graphs.define(referring()).await;
    let world = &graphs.world;
    let house = map("house", "hi", json!({"guest": "yes"}));
    world.create(&config_maps(), house).await;
    world.create(&shops(), shop("a")).await;
    graphs.until_greets("hi 1").await;
    let gone = json!({"metadata": {"labels": {"guest": null}}});
    graphs.change(&config_maps(), &key("house"), gone).await;
    graphs.until_greets("hi 0").await;
    graphs.end().await;
}

/// A ConfigMap for each Secret that is labelled like this.
fn hotel() -> Value {
    json!({
        "metadata": {"name": "shop"},
        "spec": {
            "schema": {
                "kind": "Shop", "apiVersion": "v1",
                "spec": {"name": "string", "takes": "string | default=guest"},
            },
            "resources": [
                {"id": "guests", "externalRef": {
                    "apiVersion": "v1", "kind": "Secret",
                    "metadata": {"selector": {"matchLabels": {"is": "${schema.spec.takes}"}}},
                }},
                {"id": "rooms", "forEach": [{"guest": "${guests}"}], "template": {
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "room-${guest.metadata.name}"},
                }},
            ],
        },
    })
}

impl Graphs {
    /// An instance with two rooms.
    async fn two_rooms(&self) {
        self.define(hotel()).await;
        for name in ["ann", "bob"] {
            let labels = json!({"is": "guest"});
            let metadata = json!({"name": name, "namespace": "default", "labels": labels});
            let guest = json!({"metadata": metadata});
            self.world.create(&secrets(), guest).await;
        }
        self.world.create(&shops(), shop("a")).await;
        self.until_state("a", "ACTIVE").await;
        self.assert_two_rooms().await;
    }

    async fn assert_two_rooms(&self) {
        for name in ["room-ann", "room-bob"] {
            let room = self.world.get(&config_maps(), &key(name)).await;
            assert!(room.is_some(), "{name}");
        }
    }

    async fn until_unseen(&self) {
        let told = |object: &Value| {
            let said = object["status"]["conditions"][2]["message"].as_str();
            said.is_some_and(|said| {
                said.starts_with("guests: it cannot be seen: ")
                    && said.contains("no (403 Forbidden)")
            })
        };
        let told = self.world.until(&shops(), &key("a"), told).await;
        assert_eq!(told["status"]["state"], "ERROR");
    }
}

/// What objects are selected from, as it is listed and watched.
fn follows_secrets(method: &Method, path: &str) -> bool {
    method == Method::GET && path == "/api/v1/secrets"
}

#[tokio::test]
async fn what_is_made_of_what_cannot_be_listed_after_a_restart_stays() {
    let mut graphs = Graphs::start().await;
    graphs.trust().await;
    graphs.two_rooms().await;
    let deleted = Arc::new(AtomicUsize::new(0));
    let counted = deleted.clone();
    let refused = graphs
        .restart_refused(move |method, path| {
            if method == Method::DELETE && path.contains("/configmaps/") {
                counted.fetch_add(1, Ordering::SeqCst);
            }
            follows_secrets(method, path)
        })
        .await;
    graphs.until_unseen().await;
    graphs.assert_two_rooms().await;
    refused.store(false, Ordering::SeqCst);
    graphs.until_state("a", "ACTIVE").await;
    graphs.assert_two_rooms().await;
    assert_eq!(deleted.load(Ordering::SeqCst), 0);
    graphs.end().await;
}

/// Nor does what is selected otherwise from now on count as nothing before it was listed.
#[tokio::test]
async fn what_is_made_of_what_cannot_be_listed_after_a_change_stays() {
    let mut graphs = Graphs::start().await;
    graphs.trust().await;
    let refused = graphs.restart_refused(follows_secrets).await;
    refused.store(false, Ordering::SeqCst);
    graphs.two_rooms().await;
    refused.store(true, Ordering::SeqCst);
    let friends = json!({"spec": {"takes": "friend"}});
    graphs.change(&shops(), &key("a"), friends).await;
    graphs.until_unseen().await;
    graphs.assert_two_rooms().await;
    refused.store(false, Ordering::SeqCst);
    // There are none.
    for name in ["room-ann", "room-bob"] {
        graphs.world.until_gone(&config_maps(), &key(name)).await;
    }
    graphs.until_state("a", "ACTIVE").await;
    graphs.end().await;
}
