use std::collections::BTreeMap;

use serde_json::Value;

use super::*;
use crate::protobuf;

#[test]
fn the_committed_pack_is_consistent() {
    let pack = Pack::parse(DATA).unwrap();
    assert_eq!(pack.release(), "1.36.3");
    assert_eq!(pack.groups().len(), 20);
    assert_eq!(
        pack.groups()[0],
        Group {
            name: "",
            versions: vec!["v1"]
        }
    );
    let mut kinds = pack.kinds().to_vec();
    kinds.sort_by_key(|kind| (kind.group, kind.version, kind.plural));
    assert_eq!(kinds, pack.kinds(), "sorted, as `resource` needs it");
    for kind in pack.kinds() {
        let group = pack
            .groups()
            .iter()
            .find(|group| group.name == kind.group)
            .unwrap();
        assert!(group.versions.contains(&kind.version), "{kind:?}");
        assert!(pack.definition(kind.definition).is_some(), "{kind:?}");
        let lists = kind.verbs.contains(&"list");
        assert_eq!(
            lists,
            pack.definition(kind.list_definition).is_some(),
            "{kind:?}"
        );
        assert_eq!(lists, !kind.columns.is_empty(), "{kind:?}");
        assert_eq!(
            kind.stored.is_some(),
            !kind.storage_hash.is_empty(),
            "{kind:?}"
        );
        let version = deltaplane_api::kind::ApiVersion::new(kind.group, kind.version);
        assert!(pack.tables().knows(&version, kind.kind), "{kind:?}");
        assert_eq!(
            pack.resource(kind.group, kind.version, kind.plural),
            Some(kind)
        );
        assert_eq!(pack.kind(kind.group, kind.version, kind.kind), Some(kind));
    }
}

#[test]
fn every_definition_parses_and_refers_to_others_that_exist() {
    let pack = load();
    let parsed: BTreeMap<&str, Value> = pack
        .definitions()
        .map(|(name, text)| (name, serde_json::from_str(text).unwrap()))
        .collect();
    for (name, text) in pack.definitions() {
        for target in references(text) {
            assert!(parsed.contains_key(target), "{name} refers to {target}");
        }
    }
    let reached = pack.reachable(&["io.k8s.api.core.v1.ConfigMap"]);
    let expected = [
        "FieldsV1",
        "ManagedFieldsEntry",
        "ObjectMeta",
        "OwnerReference",
        "Time",
    ];
    let mut expected: Vec<String> = expected
        .iter()
        .map(|name| format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}"))
        .collect();
    expected.insert(0, "io.k8s.api.core.v1.ConfigMap".to_owned());
    assert_eq!(reached.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn kinds_that_share_a_store_say_so() {
    let pack = load();
    let stored =
        |group: &str, version: &str, kind: &str| pack.kind(group, version, kind).unwrap().stored;
    let core = Gvk {
        group: "",
        version: "v1",
        kind: "Event",
    };
    assert_eq!(stored("events.k8s.io", "v1", "Event"), Some(core));
    assert_eq!(stored("", "v1", "Event"), Some(core));
    assert_eq!(
        stored("autoscaling", "v1", "HorizontalPodAutoscaler").map(|gvk| gvk.version),
        Some("v2")
    );
    assert_eq!(
        stored("authorization.k8s.io", "v1", "SubjectAccessReview"),
        None
    );
    let _ = protobuf::MAX_DEPTH;
}
