//! Whatever is written in whichever order: nothing is sent that no rule releases, and a hub that
//! followed knows the same as one that starts anew.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{World, kind, object, synced, zone};

#[derive(Clone, Debug)]
enum Write {
    /// Which of three objects, its label, and its content.
    Put(u8, Option<u8>, u8),
    Delete(u8),
    /// The label that is selected, and the direction.
    Kind(Option<u8>, u8, bool),
    DropKind,
    Namespace(u8),
    DropNamespace(u8),
    /// Namespaces cross by themselves, too.
    NamespaceKind(bool),
    DropNamespaceKind,
}

fn writes() -> impl Strategy<Value = Vec<Write>> {
    let label = || proptest::option::of(0..2_u8);
    let write = prop_oneof![
        6 => (0..4_u8, label(), 0..3_u8).prop_map(|(a, b, c)| Write::Put(a, b, c)),
        2 => (0..4_u8).prop_map(Write::Delete),
        3 => (label(), 0..3_u8, any::<bool>()).prop_map(|(a, b, c)| Write::Kind(a, b, c)),
        1 => Just(Write::DropKind),
        2 => (0..2_u8).prop_map(Write::Namespace),
        1 => (0..2_u8).prop_map(Write::DropNamespace),
        1 => any::<bool>().prop_map(Write::NamespaceKind),
        1 => Just(Write::DropNamespaceKind),
    ];
    proptest::collection::vec(write, 1..24)
}

fn config_map(number: u8, label: Option<u8>, content: u8) -> Value {
    let namespace = format!("n{}", number % 2);
    let mut object = object("ConfigMap", &namespace, &format!("c{number}"));
    object["data"] = json!({"a": content});
    if let Some(label) = label {
        object["metadata"]["labels"] = json!({"l": label.to_string()});
    }
    object
}

fn synced_kind(selected: Option<u8>, direction: u8, delete: bool) -> Value {
    let direction = ["HubToZone", "Both", "ZoneToHub"][usize::from(direction)];
    let mut spec = json!({"direction": direction});
    if let Some(label) = selected {
        spec["selector"] = json!({"matchLabels": {"l": label.to_string()}});
    }
    if delete {
        spec["onWithdraw"] = "Delete".into();
    }
    synced("configmaps", "ConfigMap", &spec)
}

/// With a selector that none has, if not all are to cross.
fn namespace_kind(all: bool) -> Value {
    let mut spec = json!({"direction": "HubToZone", "onWithdraw": "Delete"});
    if !all {
        spec["selector"] = json!({"matchLabels": {"none": "has it"}});
    }
    synced("namespaces", "Namespace", &spec)
}

/// What the rules say, told in another way.
#[derive(Default)]
struct Oracle {
    objects: BTreeMap<String, (Option<u8>, Value)>,
    kind: Option<(Option<u8>, u8)>,
    namespaces: BTreeSet<String>,
    /// Whether all of them cross, if any does for itself.
    namespace_kind: Option<bool>,
}

impl Oracle {
    fn note(&mut self, write: &Write) {
        match write {
            Write::Put(number, label, content) => {
                let object = config_map(*number, *label, *content);
                let name = format!("n{}/c{number}", number % 2);
                self.objects.insert(name, (*label, object));
            }
            Write::Delete(number) => {
                self.objects.remove(&format!("n{}/c{number}", number % 2));
            }
            Write::Kind(selected, direction, _) => self.kind = Some((*selected, *direction)),
            Write::DropKind => self.kind = None,
            Write::Namespace(number) => {
                self.namespaces.insert(format!("n{number}"));
            }
            Write::DropNamespace(number) => {
                self.namespaces.remove(&format!("n{number}"));
            }
            Write::NamespaceKind(all) => self.namespace_kind = Some(*all),
            Write::DropNamespaceKind => self.namespace_kind = None,
        }
    }

    /// The namespaces that are there and needed, or cross by themselves.
    fn namespaces(&self) -> Vec<String> {
        let released = self.released();
        let needed = |namespace: &&String| {
            let inside = format!("{namespace}/");
            let used = released.iter().any(|(name, _)| name.starts_with(&inside));
            used || self.namespace_kind == Some(true)
        };
        self.namespaces.iter().filter(needed).cloned().collect()
    }

    /// Names and contents.
    fn released(&self) -> Vec<(String, Value)> {
        // What comes from zones only does not go to them.
        let Some((selected, _)) = self.kind.filter(|(_, direction)| *direction != 2) else {
            return Vec::new();
        };
        let released = self
            .objects
            .iter()
            .filter(|(_, (label, _))| selected.is_none() || selected == *label);
        released
            .map(|(name, (_, object))| (name.clone(), object["data"].clone()))
            .collect()
    }
}

async fn perform(world: &World, write: &Write) {
    let kinds = "fleet.deltaplane.io/syncedkinds";
    match write {
        Write::Put(number, label, content) => {
            world
                .put("configmaps", &config_map(*number, *label, *content))
                .await;
        }
        Write::Delete(number) => {
            world
                .delete("configmaps", &config_map(*number, None, 0))
                .await;
        }
        Write::Kind(selected, direction, delete) => {
            world
                .put(kinds, &synced_kind(*selected, *direction, *delete))
                .await;
        }
        Write::DropKind => world.delete(kinds, &synced_kind(None, 0, false)).await,
        Write::Namespace(number) => {
            let namespace = object("Namespace", "", &format!("n{number}"));
            world.put("namespaces", &namespace).await;
        }
        Write::DropNamespace(number) => {
            let namespace = object("Namespace", "", &format!("n{number}"));
            world.delete("namespaces", &namespace).await;
        }
        Write::NamespaceKind(all) => world.put(kinds, &namespace_kind(*all)).await,
        Write::DropNamespaceKind => world.delete(kinds, &namespace_kind(true)).await,
    }
}

type Released = (Vec<(String, Value)>, Vec<String>);

fn released(world: &World) -> Released {
    let objects = world.wanted(&kind("ConfigMap"), &zone("x")).into_iter();
    let objects = objects.map(|(name, body)| (name, body["data"].clone()));
    (objects.collect(), world.names(&kind("Namespace"), "x"))
}

async fn run(writes: Vec<Write>) {
    let world = World::new().await;
    let mut oracle = Oracle::default();
    for write in &writes {
        perform(&world, write).await;
        oracle.note(write);
        let expected = (oracle.released(), oracle.namespaces());
        assert_eq!(released(&world), expected, "after {write:?}");
    }
    let before = released(&world);
    let after = released(&world.restart().await);
    assert_eq!(after, before, "a hub that starts anew knows the same");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_sent_that_no_rule_releases(writes in writes()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(run(writes));
    }
}
