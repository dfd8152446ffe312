//! Defaults that depend on other fields. Each rule sees one message's object, outer before inner.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::fixed::{API, APIEXTENSIONS};

type Object = Map<String, Value>;
type Rule = fn(&mut Object);

/// Message (without `k8s.io.api.`) and its rule.
const RULES: &[(&str, Rule)] = &[
    ("apps.v1.DaemonSetUpdateStrategy", daemon_set_strategy),
    ("apps.v1.DeploymentStrategy", deployment_strategy),
    ("apps.v1.StatefulSetSpec", stateful_set),
    ("apps.v1.StatefulSetUpdateStrategy", stateful_set_strategy),
    ("autoscaling.v2.HorizontalPodAutoscalerSpec", autoscaler),
    ("batch.v1.Job", job),
    ("core.v1.Container", pull_policy),
    ("core.v1.EphemeralContainerCommon", pull_policy),
    ("core.v1.ImageVolumeSource", volume_pull_policy),
    ("core.v1.LimitRangeItem", limit_range),
    ("core.v1.Namespace", namespace),
    ("core.v1.NodeStatus", node),
    ("core.v1.Pod", pod),
    ("core.v1.PodSpec", service_account),
    ("core.v1.ReplicationController", replication_controller),
    ("core.v1.Secret", secret),
    ("core.v1.Service", service),
    ("core.v1.Volume", volume),
    ("networking.v1.NetworkPolicySpec", network_policy),
    ("rbac.v1.Subject", subject),
    ("resource.v1.Device", device),
    ("resource.v1.DeviceSubRequest", device_request),
    ("resource.v1.ExactDeviceRequest", device_request),
    ("storage.v1.CSIDriverSpec", csi_driver),
];

const DEFINITIONS: &[(&str, Rule)] = &[("CustomResourceDefinition", definition)];

/// The rule of a message.
pub(super) fn of(message: &str) -> Option<Rule> {
    let (table, name) = match (
        message.strip_prefix(API),
        message.strip_prefix(APIEXTENSIONS),
    ) {
        (Some(name), _) => (RULES, name),
        (None, Some(name)) => (DEFINITIONS, name),
        (None, None) => return None,
    };
    table
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, rule)| *rule)
}

#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = String> {
    let rules = RULES.iter().map(|(name, _)| format!("{API}{name}"));
    rules.chain(
        DEFINITIONS
            .iter()
            .map(|(name, _)| format!("{APIEXTENSIONS}{name}")),
    )
}

// --- looking and setting ---

fn text<'a>(object: &'a Object, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn is_absent(object: &Object, name: &str) -> bool {
    object.get(name).is_none_or(Value::is_null)
}

fn set_if_absent(object: &mut Object, name: &str, value: impl Into<Value>) {
    if is_absent(object, name) {
        object.insert(name.to_owned(), value.into());
    }
}

/// The object in a field, made when it is absent; `None` when the field holds something else.
fn child<'a>(object: &'a mut Object, name: &str) -> Option<&'a mut Object> {
    set_if_absent(object, name, Object::new());
    object.get_mut(name)?.as_object_mut()
}

fn existing<'a>(object: &'a mut Object, name: &str) -> Option<&'a mut Object> {
    object.get_mut(name)?.as_object_mut()
}

fn items<'a>(object: &'a mut Object, name: &str) -> impl Iterator<Item = &'a mut Object> {
    let list = object.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Adds the entries of `from` that `to` does not have.
fn fill(to: &mut Object, from: &Object) {
    for (key, value) in from {
        if !to.contains_key(key) {
            to.insert(key.clone(), value.clone());
        }
    }
}

// --- apps ---

fn deployment_strategy(strategy: &mut Object) {
    if text(strategy, "type") == "RollingUpdate"
        && let Some(rolling) = child(strategy, "rollingUpdate")
    {
        set_if_absent(rolling, "maxUnavailable", "25%");
        set_if_absent(rolling, "maxSurge", "25%");
    }
}

fn daemon_set_strategy(strategy: &mut Object) {
    if text(strategy, "type") == "RollingUpdate"
        && let Some(rolling) = child(strategy, "rollingUpdate")
    {
        set_if_absent(rolling, "maxUnavailable", 1);
        set_if_absent(rolling, "maxSurge", 0);
    }
}

fn stateful_set_strategy(strategy: &mut Object) {
    if text(strategy, "type").is_empty() {
        strategy.insert("type".to_owned(), "RollingUpdate".into());
        set_if_absent(strategy, "rollingUpdate", Object::new());
    }
    if text(strategy, "type") == "RollingUpdate"
        && let Some(rolling) = existing(strategy, "rollingUpdate")
    {
        set_if_absent(rolling, "partition", 0);
    }
}

/// Claims in a template say what they are.
fn stateful_set(spec: &mut Object) {
    for claim in items(spec, "volumeClaimTemplates") {
        claim.insert("apiVersion".to_owned(), "v1".into());
        claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
    }
}

// --- autoscaling ---

fn autoscaler(spec: &mut Object) {
    if is_absent(spec, "metrics") {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        spec.insert("metrics".to_owned(), json!([metric]));
    }
    let Some(behavior) = existing(spec, "behavior") else {
        return;
    };
    if let Some(up) = child(behavior, "scaleUp") {
        set_if_absent(up, "stabilizationWindowSeconds", 0);
        set_if_absent(up, "selectPolicy", "Max");
        let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
        let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
        set_if_absent(up, "policies", json!([pods, percent]));
    }
    if let Some(down) = child(behavior, "scaleDown") {
        set_if_absent(down, "selectPolicy", "Max");
        set_if_absent(
            down,
            "policies",
            json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]),
        );
    }
}

// --- batch ---

/// Only of a job itself: a cron job's template is completed when a job is made from it.
fn job(job: &mut Object) {
    let Some(spec) = child(job, "spec") else {
        return;
    };
    if is_absent(spec, "parallelism") {
        set_if_absent(spec, "completions", 1);
    }
    set_if_absent(spec, "parallelism", 1);
    let limit = if is_absent(spec, "backoffLimitPerIndex") {
        6
    } else {
        i32::MAX
    };
    set_if_absent(spec, "backoffLimit", limit);
    set_if_absent(spec, "completionMode", "NonIndexed");
    set_if_absent(spec, "suspend", false);
    let policy = if is_absent(spec, "podFailurePolicy") {
        "TerminatingOrFailed"
    } else {
        "Failed"
    };
    set_if_absent(spec, "podReplacementPolicy", policy);
    set_if_absent(spec, "manualSelector", false);
    labels_of_template(job);
}

/// An object without labels takes those of its pods.
fn labels_of_template(object: &mut Object) {
    let labels = object
        .get("spec")
        .and_then(|spec| spec.pointer("/template/metadata/labels"))
        .cloned();
    if let (Some(labels), Some(metadata)) = (labels, child(object, "metadata"))
        && metadata
            .get("labels")
            .and_then(Value::as_object)
            .is_none_or(Map::is_empty)
    {
        metadata.insert("labels".to_owned(), labels);
    }
}

// --- core ---

fn pull_policy(container: &mut Object) {
    let policy = policy_of_image(text(container, "image"));
    set_if_absent(container, "imagePullPolicy", policy);
}

fn volume_pull_policy(volume: &mut Object) {
    let policy = policy_of_image(text(volume, "reference"));
    set_if_absent(volume, "pullPolicy", policy);
}

/// Always for `latest`, which is also what no tag and no digest means. What is not an image's name
/// has no tag at all.
fn policy_of_image(image: &str) -> &'static str {
    let (name, digest) = image
        .split_once('@')
        .map_or((image, None), |(name, digest)| (name, Some(digest)));
    let (path, tag) = match name.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
        Some(_) | None => (name, None),
    };
    let repository = path.split_once('/').map_or(path, |(_, rest)| rest);
    if path.is_empty()
        || repository
            .chars()
            .any(|c| c.is_ascii_uppercase() || c.is_whitespace())
    {
        return "IfNotPresent";
    }
    match (tag, digest) {
        (Some("latest"), _) | (None, None) => "Always",
        (Some(_), _) | (None, Some(_)) => "IfNotPresent",
    }
}

fn limit_range(item: &mut Object) {
    if text(item, "type") != "Container" {
        return;
    }
    let map = |item: &Object, name: &str| {
        item.get(name)
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default()
    };
    let (mut default, mut request) = (map(item, "default"), map(item, "defaultRequest"));
    fill(&mut default, &map(item, "max"));
    fill(&mut request, &default);
    fill(&mut request, &map(item, "min"));
    for (name, map) in [("default", default), ("defaultRequest", request)] {
        if !map.is_empty() {
            item.insert(name.to_owned(), Value::Object(map));
        }
    }
}

fn namespace(namespace: &mut Object) {
    let Some(metadata) = existing(namespace, "metadata") else {
        return;
    };
    let name = text(metadata, "name").to_owned();
    if !name.is_empty()
        && let Some(labels) = child(metadata, "labels")
    {
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
}

fn node(status: &mut Object) {
    if let Some(capacity) = status.get("capacity").cloned() {
        set_if_absent(status, "allocatable", capacity);
    }
}

fn pod(pod: &mut Object) {
    let Some(spec) = existing(pod, "spec") else {
        return;
    };
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["containers", "initContainers"] {
        for container in items(spec, list) {
            requests_from_limits(container);
            if host_network {
                items(container, "ports").for_each(host_port);
            }
        }
    }
    set_if_absent(spec, "enableServiceLinks", true);
}

fn requests_from_limits(container: &mut Object) {
    let Some(resources) = existing(container, "resources") else {
        return;
    };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else {
        return;
    };
    if let Some(requests) = child(resources, "requests") {
        fill(requests, &limits);
    }
}

fn host_port(port: &mut Object) {
    if let Some(number) = port.get("containerPort").cloned() {
        let is_unset = port
            .get("hostPort")
            .is_none_or(|port| port.as_i64() == Some(0));
        if is_unset {
            port.insert("hostPort".to_owned(), number);
        }
    }
}

/// The deprecated field always repeats the current one, and stands in for it.
fn service_account(spec: &mut Object) {
    let name = match (
        text(spec, "serviceAccountName"),
        text(spec, "serviceAccount"),
    ) {
        ("", "") => return,
        ("", old) => old.to_owned(),
        (name, _) => name.to_owned(),
    };
    for field in ["serviceAccountName", "serviceAccount"] {
        spec.insert(field.to_owned(), name.clone().into());
    }
}

fn replication_controller(controller: &mut Object) {
    let labels = controller
        .get("spec")
        .and_then(|spec| spec.pointer("/template/metadata/labels"))
        .cloned();
    if let (Some(labels), Some(spec)) = (labels, existing(controller, "spec")) {
        set_if_absent(spec, "selector", labels);
    }
    labels_of_template(controller);
}

/// Text is another way of writing data, and is never kept.
fn secret(secret: &mut Object) {
    if let Some(Value::Object(texts)) = secret.remove("stringData")
        && let Some(data) = child(secret, "data")
    {
        for (key, value) in texts {
            let encoded = STANDARD.encode(value.as_str().unwrap_or_default());
            data.insert(key, encoded.into());
        }
    }
}

fn service(service: &mut Object) {
    let Some(spec) = child(service, "spec") else {
        return;
    };
    session_affinity(spec);
    for port in items(spec, "ports") {
        let target = port.get("targetPort");
        if target.is_none_or(|target| target.as_i64() == Some(0) || target.as_str() == Some(""))
            && let Some(number) = port.get("port").cloned()
        {
            port.insert("targetPort".to_owned(), number);
        }
    }
    set_if_absent(spec, "type", "ClusterIP");
    let kind = text(spec, "type").to_owned();
    let balanced = kind == "LoadBalancer";
    let external = spec
        .get("externalIPs")
        .and_then(Value::as_array)
        .is_some_and(|list| !list.is_empty());
    if balanced || kind == "NodePort" || (kind == "ClusterIP" && external) {
        set_if_absent(spec, "externalTrafficPolicy", "Cluster");
    }
    if balanced || kind == "NodePort" || kind == "ClusterIP" {
        set_if_absent(spec, "internalTrafficPolicy", "Cluster");
    }
    if balanced {
        set_if_absent(spec, "allocateLoadBalancerNodePorts", true);
        let status =
            existing(service, "status").and_then(|status| existing(status, "loadBalancer"));
        for ingress in status
            .into_iter()
            .flat_map(|balancer| items(balancer, "ingress"))
        {
            if !text(ingress, "ip").is_empty() {
                set_if_absent(ingress, "ipMode", "VIP");
            }
        }
    }
}

fn session_affinity(spec: &mut Object) {
    set_if_absent(spec, "sessionAffinity", "None");
    match text(spec, "sessionAffinity") {
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            let config =
                child(spec, "sessionAffinityConfig").and_then(|config| child(config, "clientIP"));
            if let Some(client) = config {
                set_if_absent(client, "timeoutSeconds", 10_800);
            }
        }
        _ => {}
    }
}

fn volume(volume: &mut Object) {
    if volume.keys().all(|key| key == "name") {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
}

// --- the rest ---

fn network_policy(spec: &mut Object) {
    if is_absent(spec, "policyTypes") {
        let types = if is_absent(spec, "egress") {
            json!(["Ingress"])
        } else {
            json!(["Ingress", "Egress"])
        };
        spec.insert("policyTypes".to_owned(), types);
    }
}

fn subject(subject: &mut Object) {
    if matches!(text(subject, "kind"), "User" | "Group") {
        set_if_absent(subject, "apiGroup", "rbac.authorization.k8s.io");
    }
}

fn device(device: &mut Object) {
    if let Some(mappings) = existing(device, "nodeAllocatableResourceMappings") {
        for mapping in mappings.values_mut().filter_map(Value::as_object_mut) {
            set_if_absent(mapping, "allocationMultiplier", "1");
        }
    }
}

fn device_request(request: &mut Object) {
    if text(request, "allocationMode") == "ExactCount" {
        set_if_absent(request, "count", 1);
    }
}

fn csi_driver(spec: &mut Object) {
    set_if_absent(spec, "volumeLifecycleModes", json!(["Persistent"]));
}

fn definition(definition: &mut Object) {
    if let Some(names) = existing(definition, "spec").and_then(|spec| existing(spec, "names")) {
        let kind = text(names, "kind").to_owned();
        if !kind.is_empty() {
            set_if_absent(names, "singular", kind.to_lowercase());
            set_if_absent(names, "listKind", format!("{kind}List"));
        }
    }
    let versions = definition
        .get("spec")
        .and_then(|spec| spec.get("versions"))
        .and_then(Value::as_array);
    let stored = versions
        .into_iter()
        .flatten()
        .find(|version| version.get("storage") == Some(&Value::Bool(true)));
    let stored = stored.and_then(|version| version.get("name")).cloned();
    if let (Some(stored), Some(status)) = (stored, child(definition, "status")) {
        set_if_absent(status, "storedVersions", json!([stored]));
    }
}
