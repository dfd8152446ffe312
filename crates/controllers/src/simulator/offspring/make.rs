//! New objects of a workload, as Kubernetes' controllers would make them.

use serde_json::{Map, Value, json};

use super::super::kind::Kind;
use super::super::order;
use super::{CHANGE_CAUSE, Family, REVISION, REVISION_HASH, Siblings, TEMPLATE_HASH};

/// Generated names keep so much of what they begin with.
const MAX_PREFIX: usize = 58;

impl<S: Siblings> Family<'_, S> {
    /// What stands for the present template in the workload's history.
    pub(super) fn revision_object(&self, kind: Kind, number: i64) -> Value {
        if kind == Kind::ControllerRevision {
            self.controller_revision(number)
        } else {
            self.replica_set(number)
        }
    }

    fn replica_set(&self, number: i64) -> Value {
        let spec = &self.object.spec;
        let hash = self.object.template_hash();
        let mut template = spec["template"].clone();
        let labels = with_entry(&template["metadata"]["labels"], TEMPLATE_HASH, &hash);
        template["metadata"]["labels"] = labels.clone();
        let mut selector = spec["selector"].clone();
        selector["matchLabels"] = with_entry(&selector["matchLabels"], TEMPLATE_HASH, &hash);
        let mut annotations = self.annotations();
        annotations.insert(REVISION.to_owned(), json!(number.to_string()));
        json!({
            "metadata": self.metadata(&self.object.revision_name(), labels, annotations),
            "spec": {
                "replicas": self.wanted_replicas(),
                "minReadySeconds": spec["minReadySeconds"],
                "selector": selector,
                "template": template,
            },
        })
    }

    /// The template as a patch that restores it, which is how `kubectl rollout undo` reads it.
    fn controller_revision(&self, number: i64) -> Value {
        let hash = self.object.template_hash();
        let mut template = self.object.spec["template"].clone();
        let labels = with_entry(&template["metadata"]["labels"], REVISION_HASH, &hash);
        template["$patch"] = json!("replace");
        let name = self.object.revision_name();
        json!({
            "metadata": self.metadata(&name, labels, self.annotations()),
            "data": {"spec": {"template": template}},
            "revision": number,
        })
    }

    pub(super) fn pod_object(&self, name: &str, index: usize) -> Value {
        let template = &self.object.spec["template"];
        let metadata = &template["metadata"];
        let mut labels = metadata["labels"].clone();
        let mut spec = template["spec"].clone();
        if matches!(self.kind, Kind::DaemonSet | Kind::StatefulSet) {
            labels = with_entry(&labels, REVISION_HASH, &self.object.template_hash());
        }
        if self.kind == Kind::StatefulSet {
            labels = with_entry(&labels, "statefulset.kubernetes.io/pod-name", name);
            labels = with_entry(&labels, "apps.kubernetes.io/pod-index", &index.to_string());
            spec["hostname"] = json!(name);
            spec["subdomain"] = self.object.spec["serviceName"].clone();
        }
        let mut annotations = metadata["annotations"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        let simulate = self.pod_simulate();
        if !simulate.is_empty() {
            annotations.insert(order::ANNOTATION.to_owned(), json!(simulate));
        }
        let mut metadata = self.metadata(name, labels, annotations);
        if self.kind != Kind::StatefulSet {
            metadata["generateName"] = json!(self.pod_prefix());
        }
        json!({"metadata": metadata, "spec": spec})
    }

    /// How the simulation of a Pod is to go: as the workload's own annotation says, or the
    /// template's.
    pub(super) fn pod_simulate(&self) -> &str {
        let inner = &self.object.spec["template"]["metadata"]["annotations"];
        match self.object.simulate() {
            "" => inner[order::ANNOTATION].as_str().unwrap_or_default(),
            own => own,
        }
    }

    /// What the names of Pods begin with.
    pub(super) fn pod_prefix(&self) -> String {
        let mut prefix = format!("{}-", self.object.name);
        // Names are ASCII.
        prefix.truncate(MAX_PREFIX);
        prefix
    }

    /// Those of the workload's annotations that concern what it makes.
    fn annotations(&self) -> Map<String, Value> {
        let passed_on = [order::ANNOTATION, CHANGE_CAUSE].into_iter();
        passed_on
            .map(|key| (key, self.object.annotation(key)))
            .filter(|(_, text)| !text.is_empty())
            .map(|(key, text)| (key.to_owned(), json!(text)))
            .collect()
    }

    fn metadata(&self, name: &str, labels: Value, annotations: Map<String, Value>) -> Value {
        let object = self.object;
        let resource = self.kind.resource();
        let owner = json!({
            "apiVersion": resource.api_version(),
            "kind": resource.kind,
            "name": object.name,
            "uid": object.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        });
        json!({
            "name": name,
            "namespace": object.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner],
        })
    }
}

/// A map of texts with one more.
fn with_entry(map: &Value, key: &str, text: &str) -> Value {
    let mut map = map.as_object().cloned().unwrap_or_default();
    map.insert(key.to_owned(), json!(text));
    Value::Object(map)
}
