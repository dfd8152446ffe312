use deltaplane_sync::{Presence, SyncKind, View, Withdrawal};
use serde_json::json;

use crate::world::{World, kind, name, object, synced, zone};

#[tokio::test]
async fn a_hub_that_starts_again_knows_what_zones_should_have() {
    let world = World::new().await;
    let spec = json!({"direction": "HubToZone"});
    world
        .put(
            "fleet.deltaplane.io/syncedkinds",
            &synced("configmaps", "ConfigMap", &spec),
        )
        .await;
    world
        .put("namespaces", &object("Namespace", "", "team"))
        .await;
    // Later than the last change of its kind.
    world
        .put("configmaps", &object("ConfigMap", "team", "a"))
        .await;
    let check = |world: &World| {
        assert_eq!(world.names(&kind("ConfigMap"), "x"), ["team/a"]);
        assert_eq!(world.names(&kind("Namespace"), "x"), ["team"]);
    };
    check(&world);
    check(&world.restart().await);
}

#[tokio::test]
async fn a_synced_kind_with_the_name_of_another_kind_sends_nothing() {
    let world = World::new().await;
    let spec = json!({"direction": "Both", "acrossZones": true});
    let misnamed = synced("secrets", "ConfigMap", &spec);
    world
        .put("fleet.deltaplane.io/syncedkinds", &misnamed)
        .await;
    world.put("secrets", &object("Secret", "team", "a")).await;
    let mut of_zone = object("Secret", "team", "y.b");
    let labels = json!({"deltaplane.io/origin": "zone", "deltaplane.io/zone": "y"});
    of_zone["metadata"]["labels"] = labels;
    world.put("secrets", &of_zone).await;
    let check = |world: &World| {
        for one in ["ConfigMap", "Secret", "Namespace"] {
            assert_eq!(world.wanted(&kind(one), &zone("x")), [], "{one}");
        }
    };
    check(&world);
    check(&world.restart().await);
}

#[tokio::test]
async fn no_status_and_nothing_of_the_server_is_in_what_is_sent() {
    let world = World::new().await;
    let spec = json!({"direction": "Both"});
    world
        .put(
            "fleet.deltaplane.io/syncedkinds",
            &synced("configmaps", "ConfigMap", &spec),
        )
        .await;
    world
        .put("configmaps", &object("ConfigMap", "team", "a"))
        .await;
    let expected = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "team"},
    });
    let wanted = world.wanted(&kind("ConfigMap"), &zone("x"));
    assert_eq!(wanted, [("team/a".to_owned(), expected)]);
}

#[tokio::test]
async fn secrets_stay_unless_somebody_says_so() {
    let world = World::new().await;
    let spec = json!({"direction": "HubToZone"});
    world
        .put(
            "fleet.deltaplane.io/syncedkinds",
            &synced("secrets", "Secret", &spec),
        )
        .await;
    let secret = |name: &str, label: bool, sort: &str| {
        let mut secret = object("Secret", "team", name);
        secret["type"] = sort.into();
        if label {
            secret["metadata"]["labels"] = json!({"deltaplane.io/sync": "true"});
        }
        secret
    };
    world
        .put("secrets", &secret("plain", false, "Opaque"))
        .await;
    world.put("secrets", &secret("sent", true, "Opaque")).await;
    world
        .put(
            "secrets",
            &secret("token", true, "kubernetes.io/service-account-token"),
        )
        .await;
    assert_eq!(world.names(&kind("Secret"), "x"), ["team/sent"]);
    world.put("secrets", &secret("sent", false, "Opaque")).await;
    assert!(world.names(&kind("Secret"), "x").is_empty());
}

#[tokio::test]
async fn what_a_zone_authored_goes_to_the_others_if_that_is_asked_for() {
    let world = World::new().await;
    let kinds = "fleet.deltaplane.io/syncedkinds";
    world
        .put(
            kinds,
            &synced("configmaps", "ConfigMap", &json!({"direction": "Both"})),
        )
        .await;
    let mut mirrored = object("ConfigMap", "team", "a.mine");
    mirrored["metadata"]["labels"] =
        json!({"deltaplane.io/origin": "zone", "deltaplane.io/zone": "a"});
    mirrored["metadata"]["annotations"] = json!({
        "deltaplane.io/version": "0".repeat(64), "deltaplane.io/source": "e@1",
        "deltaplane.io/display-name": "mine",
    });
    world.put("configmaps", &mirrored).await;
    assert!(world.names(&kind("ConfigMap"), "b").is_empty());
    let across = json!({"direction": "Both", "acrossZones": true});
    world
        .put(kinds, &synced("configmaps", "ConfigMap", &across))
        .await;
    assert_eq!(world.names(&kind("ConfigMap"), "b"), ["team/a.mine"]);
    assert!(world.names(&kind("ConfigMap"), "a").is_empty());
    let catalog = world.fleet.catalog().read();
    let entry = catalog.entry(&kind("ConfigMap"), &name("team/a.mine"));
    let relayed = entry.and_then(|entry| entry.relayed().cloned());
    let relayed = relayed.map(|relayed| (relayed.zone, relayed.name.to_string()));
    assert_eq!(relayed, Some((zone("a"), "mine".to_owned())));
}

#[tokio::test]
async fn a_kind_that_does_not_cross_any_more_is_withdrawn() {
    let world = World::new().await;
    let kinds = "fleet.deltaplane.io/syncedkinds";
    let spec = json!({"direction": "HubToZone", "onWithdraw": "Delete"});
    let synced = synced("configmaps", "ConfigMap", &spec);
    world.put(kinds, &synced).await;
    world
        .put("namespaces", &object("Namespace", "", "team"))
        .await;
    world
        .put("configmaps", &object("ConfigMap", "team", "a"))
        .await;
    world.delete(kinds, &synced).await;
    let catalog = world.fleet.catalog().read();
    let reader = deltaplane_border::Reader {
        catalog: &catalog,
        zone: Some(&zone("x")),
    };
    let presence = reader.presence(&kind("ConfigMap"), &name("team/a"));
    assert_eq!(presence, Presence::Withdrawn(Withdrawal::Delete));
    // Zones may use it for objects of their own by now.
    let presence = reader.presence(&kind("Namespace"), &name("team"));
    assert_eq!(presence, Presence::Withdrawn(Withdrawal::Orphan));
}

fn presence(world: &World, kind: &SyncKind, text: &str) -> Presence {
    let catalog = world.fleet.catalog().read();
    let reader = deltaplane_border::Reader {
        catalog: &catalog,
        zone: Some(&zone("x")),
    };
    reader.presence(kind, &name(text))
}

/// A zone that was away says that it has the namespace, to a hub that never knew it.
#[tokio::test]
async fn a_namespace_that_nothing_needs_is_not_taken_away_nor_remembered() {
    let world = World::new().await;
    let kinds = "fleet.deltaplane.io/syncedkinds";
    let spec = json!({"direction": "HubToZone"});
    world
        .put(kinds, &synced("configmaps", "ConfigMap", &spec))
        .await;
    let (team, inside) = (
        object("Namespace", "", "team"),
        object("ConfigMap", "team", "a"),
    );
    world.put("namespaces", &team).await;
    world.put("configmaps", &inside).await;
    world.delete("configmaps", &inside).await;
    world.delete("namespaces", &team).await;
    let orphaned = Presence::Withdrawn(Withdrawal::Orphan);
    let namespaces = kind("Namespace");
    assert_eq!(presence(&world, &namespaces, "team"), orphaned);
    assert_eq!(world.fleet.catalog().len(&namespaces), 0, "not remembered");
    let world = world.restart().await;
    // The kind is known again.
    world
        .put("namespaces", &object("Namespace", "", "other"))
        .await;
    world
        .put("configmaps", &object("ConfigMap", "other", "a"))
        .await;
    assert_eq!(presence(&world, &namespaces, "team"), orphaned);
    let crosses = synced("namespaces", "Namespace", &spec);
    world.put(kinds, &crosses).await;
    assert_eq!(presence(&world, &namespaces, "team"), Presence::Gone);
    world.delete(kinds, &crosses).await;
    assert_eq!(presence(&world, &namespaces, "team"), orphaned);
}

/// A zone would write the labels of a namespace in every other zone, as soon as the hub has something
/// in it.
#[tokio::test]
async fn a_namespace_of_a_zone_that_others_need_goes_where_its_kind_sends_it() {
    let kinds = "fleet.deltaplane.io/syncedkinds";
    let namespaces = kind("Namespace");
    let mut of_zone = object("Namespace", "", "a-team-0123456789");
    of_zone["metadata"]["labels"] = json!({
        "deltaplane.io/origin": "zone", "deltaplane.io/zone": "a",
        "pod-security.kubernetes.io/enforce": "privileged",
    });
    let orphaned = Presence::Withdrawn(Withdrawal::Orphan);
    let world = World::new().await;
    world.put("namespaces", &of_zone).await;
    let spec = json!({"direction": "HubToZone"});
    let config_maps = synced("configmaps", "ConfigMap", &spec);
    world.put(kinds, &config_maps).await;
    let inside = object("ConfigMap", "a-team-0123456789", "c");
    world.put("configmaps", &inside).await;
    // Namespaces do not cross by themselves.
    assert_eq!(presence(&world, &namespaces, "a-team-0123456789"), orphaned);
    for (across, zones) in [(false, vec![]), (true, vec!["x"])] {
        let spec = json!({"direction": "Both", "acrossZones": across, "onWithdraw": "Delete"});
        world
            .put(kinds, &synced("namespaces", "Namespace", &spec))
            .await;
        for zone in ["a", "x"] {
            let wanted = world.names(&namespaces, zone);
            assert_eq!(!wanted.is_empty(), zones.contains(&zone), "{zone} {across}");
        }
        // What is needed is not deleted in zones that had it.
        let expected = if across { None } else { Some(orphaned.clone()) };
        let presence = presence(&world, &namespaces, "a-team-0123456789");
        assert!(expected.is_none_or(|expected| expected == presence));
    }
    // One of the hub goes where it is needed.
    world
        .put("namespaces", &object("Namespace", "", "shop"))
        .await;
    world
        .put("configmaps", &object("ConfigMap", "shop", "c"))
        .await;
    assert!(world.names(&namespaces, "a").contains(&"shop".to_owned()));
}

/// As somebody cleans up after a zone that is gone.
#[tokio::test]
async fn what_a_zone_left_behind_goes_from_the_others_when_it_is_deleted() {
    let world = World::new().await;
    let across = json!({"direction": "Both", "acrossZones": true});
    let kinds = "fleet.deltaplane.io/syncedkinds";
    world
        .put(kinds, &synced("configmaps", "ConfigMap", &across))
        .await;
    let mut mirrored = object("ConfigMap", "team", "a.mine");
    mirrored["metadata"]["labels"] =
        json!({"deltaplane.io/origin": "zone", "deltaplane.io/zone": "a"});
    mirrored["metadata"]["annotations"] = json!({
        "deltaplane.io/version": "0".repeat(64), "deltaplane.io/display-name": "mine",
    });
    world.put("configmaps", &mirrored).await;
    assert_eq!(world.names(&kind("ConfigMap"), "x"), ["team/a.mine"]);
    world.delete("configmaps", &mirrored).await;
    assert_eq!(
        presence(&world, &kind("ConfigMap"), "team/a.mine"),
        Presence::Gone
    );
}

#[tokio::test]
async fn what_comes_while_its_kind_goes_stays_nowhere() {
    let world = World::new().await;
    let spec = json!({"direction": "HubToZone"});
    let synced = synced("configmaps", "ConfigMap", &spec);
    let kinds = "fleet.deltaplane.io/syncedkinds";
    world.put(kinds, &synced).await;
    let names: Vec<String> = (0..100).map(|number| format!("a{number}")).collect();
    // Side by side, so that some of them are read together.
    let objects = names.iter().map(|name| object("ConfigMap", "team", name));
    let objects: Vec<_> = objects.collect();
    let puts = objects.iter().map(|object| world.put("configmaps", object));
    futures::future::join(
        futures::future::join_all(puts),
        world.delete(kinds, &synced),
    )
    .await;
    assert_eq!(world.names(&kind("ConfigMap"), "x"), [""; 0]);
}

#[tokio::test]
async fn changes_of_synced_kinds_are_told_from_others() {
    let world = World::new().await;
    let synced_at = || world.fleet.known().borrow().synced_at();
    let kinds = "fleet.deltaplane.io/syncedkinds";
    let spec = json!({"direction": "HubToZone"});
    let kind = synced("configmaps", "ConfigMap", &spec);
    world.put(kinds, &kind).await;
    let first = synced_at();
    assert!(first > 0);
    world
        .put("fleet.deltaplane.io/zones", &object("Zone", "", "x"))
        .await;
    assert_eq!(synced_at(), first);
    world.delete(kinds, &kind).await;
    assert!(synced_at() > first);
}
