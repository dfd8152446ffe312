//! The few rules of workload kinds that users meet at once. The kinds are inert here: nothing
//! runs them, so what only a scheduler or a node would notice is not checked.

use deltaplane_api::field::{Error, Path};
use deltaplane_api::names::NameRule;
use deltaplane_api::selector::check_form;
use serde_json::{Value, json};

use super::pods::{self, Lives};
use super::{GENERIC, Strategy, cron, immutable, jobs, qos};
use crate::seams::Operation;
use crate::value;

pub(crate) static WORKLOAD: Strategy = Strategy {
    generation: true,
    validate: Some(validate_workload),
    ..GENERIC
};
pub(crate) static REPLICATION_CONTROLLER: Strategy = Strategy {
    generation: true,
    validate: Some(|new, _| match new["spec"]["template"].is_null() {
        true => Vec::new(),
        false => TEMPLATE_FOR_EVER.check(new),
    }),
    ..GENERIC
};
pub(crate) static JOB: Strategy = Strategy {
    generation: true,
    generate: Some(jobs::generate_selector),
    validate: Some(|new, old| {
        let mut errors = jobs::validate(new, old);
        errors.extend(counts(new, "spec", &JOB_COUNTS));
        errors.extend(TEMPLATE_ONCE.check(new));
        errors
    }),
    ..GENERIC
};
pub(crate) static CRON_JOB: Strategy = Strategy {
    generation: true,
    validate: Some(validate_cron_job),
    ..GENERIC
};
pub(crate) static POD: Strategy = Strategy {
    generation: true,
    returns_deleted: true,
    generate: Some(|pod| {
        let class = qos::class(&pod["spec"]);
        pod["status"] = json!({"phase": "Pending", "qosClass": class});
    }),
    validate: Some(validate_pod),
    ..GENERIC
};
pub(crate) static POD_TEMPLATE: Strategy = Strategy {
    returns_deleted: true,
    validate: Some(|new, _| PLAIN_TEMPLATE.check(new)),
    ..GENERIC
};
pub(crate) static SERVICE: Strategy = Strategy {
    name: NameRule::Dns1035,
    create_on_update: true,
    returns_deleted: true,
    refuse: Some(|operation, namespace, name| {
        let own = (namespace, name) == ("default", "kubernetes");
        (own && operation != Operation::Create)
            .then_some("this Service is kept by the server itself")
    }),
    ..GENERIC
};
pub(crate) static ENDPOINTS: Strategy = Strategy {
    create_on_update: true,
    ..GENERIC
};

/// Where a kind describes pods, and how they live.
struct Pods {
    spec: &'static str,
    lives: Lives,
}

const TEMPLATE: &str = "spec.template.spec";
static PODS: Pods = Pods::new("spec", Lives::Freely);
static PLAIN_TEMPLATE: Pods = Pods::new("template.spec", Lives::Freely);
static TEMPLATE_FOR_EVER: Pods = Pods::new(TEMPLATE, Lives::For("ReplicationController"));
static TEMPLATE_ONCE: Pods = Pods::new(TEMPLATE, Lives::Once);
static NESTED_ONCE: Pods = Pods::new("spec.jobTemplate.spec.template.spec", Lives::Once);

/// What distinguishes the kinds that keep pods running.
struct Workload {
    kind: &'static str,
    /// What an empty selector is invalid for.
    selects: &'static str,
    pods: Pods,
    /// Fields of `spec` that count something.
    counts: &'static [&'static str],
    /// Whether a missing selector is named as such.
    needs_selector: bool,
}

static WORKLOADS: [Workload; 4] = [
    Workload {
        kind: "Deployment",
        selects: "deployment",
        pods: Pods::new(TEMPLATE, Lives::For("ReplicaSet")),
        counts: &["replicas", "minReadySeconds", "revisionHistoryLimit"],
        needs_selector: true,
    },
    Workload {
        kind: "ReplicaSet",
        selects: "deployment",
        pods: Pods::new(TEMPLATE, Lives::For("ReplicaSet")),
        counts: &["replicas", "minReadySeconds"],
        needs_selector: true,
    },
    Workload {
        kind: "StatefulSet",
        selects: "statefulset",
        pods: Pods::new(TEMPLATE, Lives::For("StatefulSet")),
        counts: &["replicas", "minReadySeconds", "revisionHistoryLimit"],
        needs_selector: true,
    },
    Workload {
        kind: "DaemonSet",
        selects: "daemonset",
        pods: Pods::new(TEMPLATE, Lives::For("DaemonSet")),
        counts: &["minReadySeconds", "revisionHistoryLimit"],
        needs_selector: false,
    },
];

const JOB_COUNTS: [&str; 5] = [
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
];
const CRON_JOB_COUNTS: [&str; 3] = [
    "startingDeadlineSeconds",
    "successfulJobsHistoryLimit",
    "failedJobsHistoryLimit",
];
/// The names of its jobs are longer by a time.
const MAX_CRON_JOB_NAME: usize = 52;

/// The selector is there, selects the template, and does not change; the template makes pods.
fn validate_workload(new: &Value, old: Option<&Value>) -> Vec<Error> {
    let kind = value::text(new, "kind");
    let Some(workload) = WORKLOADS.iter().find(|workload| workload.kind == kind) else {
        return Vec::new();
    };
    let mut errors = Vec::new();
    let spec = Path::new("spec");
    let selector = value::at(new, "spec.selector");
    let labels = value::at(new, "spec.template.metadata.labels");
    let empty = |field: &str| {
        selector[field]
            .as_object()
            .is_none_or(serde_json::Map::is_empty)
    };
    if selector.is_null() {
        if workload.needs_selector {
            errors.push(Error::required(spec.child("selector"), ""));
        }
    } else if empty("matchLabels") && value::list(selector, "matchExpressions").is_empty() {
        let detail = format!("empty selector is invalid for {}", workload.selects);
        errors.push(Error::invalid(
            spec.child("selector"),
            selector.clone(),
            detail,
        ));
    }
    errors.extend(check_form(selector, &spec.child("selector")));
    let differs = value::entries(selector, "matchLabels").any(|(key, want)| labels[key] != *want);
    if selector.is_null() || differs {
        let path = spec.child("template").child("metadata").child("labels");
        let detail = "`selector` does not match template `labels`";
        errors.push(Error::invalid(path, labels.clone(), detail));
    }
    errors.extend(counts(new, "spec", workload.counts));
    errors.extend(workload.pods.check(new));
    if let Some(old) = old {
        immutable("spec.selector", new, old, &mut errors);
    }
    errors
}

fn validate_pod(new: &Value, old: Option<&Value>) -> Vec<Error> {
    let mut errors = PODS.check(new);
    let count = |pod: &Value| value::list(pod, "spec.containers").len();
    if old.is_some_and(|old| count(old) != count(new)) {
        let path = Path::new("spec").child("containers");
        let detail = "pod updates may not add or remove containers";
        errors.push(Error::forbidden(path, detail));
    }
    errors
}

fn validate_cron_job(new: &Value, old: Option<&Value>) -> Vec<Error> {
    let mut errors = Vec::new();
    let name = value::text(new, "metadata.name");
    if old.is_none() && name.len() > MAX_CRON_JOB_NAME {
        let path = Path::new("metadata").child("name");
        let detail = format!("must be no more than {MAX_CRON_JOB_NAME} characters");
        errors.push(Error::invalid(path, name, detail));
    }
    let path = Path::new("spec").child("schedule");
    match value::text(new, "spec.schedule") {
        "" => errors.push(Error::required(path, "")),
        schedule if schedule.contains("TZ") => {
            let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            errors.push(Error::invalid(path, schedule, detail));
        }
        schedule => {
            if let Err(fault) = cron::check(schedule) {
                errors.push(Error::invalid(path, schedule, fault));
            }
        }
    }
    errors.extend(counts(new, "spec", &CRON_JOB_COUNTS));
    errors.extend(counts(new, "spec.jobTemplate.spec", &JOB_COUNTS));
    errors.extend(NESTED_ONCE.check(new));
    errors
}

/// Fields that count something are not negative.
fn counts(object: &Value, parent: &str, fields: &[&str]) -> Vec<Error> {
    let parent_path = Path::new(parent);
    let parent = value::at(object, parent);
    let negative = fields.iter().filter_map(|field| {
        let count = parent[*field].as_i64().filter(|count| *count < 0)?;
        let detail = "must be greater than or equal to 0";
        Some(Error::invalid(parent_path.child(field), count, detail))
    });
    negative.collect()
}

// === impl Pods ===

impl Pods {
    const fn new(spec: &'static str, lives: Lives) -> Self {
        Self { spec, lives }
    }

    fn check(&self, object: &Value) -> Vec<Error> {
        let mut errors = Vec::new();
        let path = Path::new(self.spec);
        pods::validate(value::at(object, self.spec), &path, self.lives, &mut errors);
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selector_matches_the_template() {
        let check = |spec: Value, expected: &[&str]| {
            let deployment = json!({"kind": "Deployment", "spec": spec});
            let errors = validate_workload(&deployment, None);
            let texts: Vec<String> = errors.iter().map(Error::to_string).collect();
            assert_eq!(texts, expected);
        };
        let template = json!({"metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "a", "image": "i"}]}});
        check(
            json!({"selector": {"matchLabels": {"app": "a"}}, "template": template}),
            &[],
        );
        check(
            json!({"selector": {"matchLabels": {"app": "b"}}, "template": template, "replicas": -1}),
            &[
                "spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` does not match template `labels`",
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            ],
        );
        check(
            json!({"template": template}),
            &[
                "spec.selector: Required value",
                "spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` does not match template `labels`",
            ],
        );
    }
}
