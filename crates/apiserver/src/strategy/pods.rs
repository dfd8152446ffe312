//! What must hold of the pods that all workload kinds describe, as far as whoever writes them would
//! notice. What only a node, a scheduler or a volume plugin would notice is not checked.

use std::collections::BTreeSet;

use deltaplane_api::field::{Error, Path};
use deltaplane_api::names;
use serde_json::Value;

use crate::value;

/// For how long pods may run, and when they run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lives {
    /// As they like.
    Freely,
    /// For ever, as part of this kind.
    For(&'static str),
    /// Once, until they succeed.
    Once,
}

/// The lists of containers, in the order in which they are looked at.
const CONTAINERS: [&str; 2] = ["containers", "initContainers"];
const MAX_PORT_NAME: usize = 15;

/// All that is wrong with a pod's `spec`.
pub(super) fn validate(spec: &Value, path: &Path, lives: Lives, errors: &mut Vec<Error>) {
    let volumes = validate_volumes(spec, &path.child("volumes"), errors);
    if value::list(spec, "containers").is_empty() {
        errors.push(Error::required(path.child("containers"), ""));
    }
    let mut names = BTreeSet::new();
    for field in CONTAINERS {
        for (index, container) in value::list(spec, field).iter().enumerate() {
            let path = path.child(field).index(index);
            validate_name(container, &path, &mut names, errors);
            validate_container(container, &path, &volumes, errors);
        }
    }
    validate_life(spec, path, lives, errors);
}

fn validate_life(spec: &Value, path: &Path, lives: Lives, errors: &mut Vec<Error>) {
    let policy = value::text(spec, "restartPolicy");
    let policy_path = path.child("restartPolicy");
    let deadline = &spec["activeDeadlineSeconds"];
    let deadline_path = path.child("activeDeadlineSeconds");
    match lives {
        Lives::Once if policy.is_empty() || policy == "Always" => {
            let detail = "valid values: \"OnFailure\", \"Never\"";
            errors.push(Error::required(policy_path, detail));
        }
        Lives::For(_) if !policy.is_empty() && policy != "Always" => {
            errors.push(Error::not_supported(policy_path, policy, &["Always"]));
        }
        Lives::Freely | Lives::For(_) | Lives::Once => {}
    }
    match (lives, deadline.as_i64()) {
        (_, None) => {}
        (Lives::For(kind), Some(_)) => {
            let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
            errors.push(Error::forbidden(deadline_path, detail));
        }
        (Lives::Freely | Lives::Once, Some(seconds)) => {
            if !(1..=i64::from(i32::MAX)).contains(&seconds) {
                let detail = format!("must be between 1 and {}, inclusive", i32::MAX);
                errors.push(Error::invalid(deadline_path, seconds, detail));
            }
        }
    }
}

/// A name that is a label, and nobody else's.
fn validate_name<'a>(
    named: &'a Value,
    path: &Path,
    names: &mut BTreeSet<&'a str>,
    errors: &mut Vec<Error>,
) {
    let path = path.child("name");
    match value::text(named, "name") {
        "" => errors.push(Error::required(path, "")),
        name => {
            let faults = names::dns_label(name);
            if faults.is_empty() && !names.insert(name) {
                errors.push(Error::duplicate(path, name));
                return;
            }
            let faults = faults.into_iter();
            errors.extend(faults.map(|fault| Error::invalid(path.clone(), name, fault)));
        }
    }
}

/// Gives the volumes' names.
fn validate_volumes<'a>(
    spec: &'a Value,
    path: &Path,
    errors: &mut Vec<Error>,
) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for (index, volume) in value::list(spec, "volumes").iter().enumerate() {
        validate_name(volume, &path.index(index), &mut names, errors);
    }
    names
}

fn validate_container(
    container: &Value,
    path: &Path,
    volumes: &BTreeSet<&str>,
    errors: &mut Vec<Error>,
) {
    let image = value::text(container, "image");
    if image.is_empty() {
        errors.push(Error::required(path.child("image"), ""));
    } else if image.trim() != image {
        let detail = "must not have leading or trailing whitespace";
        errors.push(Error::invalid(path.child("image"), image, detail));
    }
    validate_ports(container, &path.child("ports"), errors);
    for (index, variable) in value::list(container, "env").iter().enumerate() {
        validate_variable(variable, &path.child("env").index(index), errors);
    }
    for (index, mount) in value::list(container, "volumeMounts").iter().enumerate() {
        let path = path.child("volumeMounts").index(index);
        match value::text(mount, "name") {
            "" => errors.push(Error::required(path.child("name"), "")),
            name if volumes.contains(name) => {}
            name => errors.push(Error::not_found(path.child("name"), name)),
        }
        if value::text(mount, "mountPath").is_empty() {
            errors.push(Error::required(path.child("mountPath"), ""));
        }
    }
}

fn validate_ports(container: &Value, path: &Path, errors: &mut Vec<Error>) {
    let mut names = BTreeSet::new();
    for (index, port) in value::list(container, "ports").iter().enumerate() {
        let path = path.index(index);
        let name = value::text(port, "name");
        let faults = port_name_faults(name);
        if faults.is_empty() && !name.is_empty() && !names.insert(name) {
            errors.push(Error::duplicate(path.child("name"), name));
        }
        let faults = faults.into_iter();
        errors.extend(faults.map(|fault| Error::invalid(path.child("name"), name, fault)));
        let path = path.child("containerPort");
        match port["containerPort"].as_i64().unwrap_or(0) {
            0 => errors.push(Error::required(path, "")),
            1..=65535 => {}
            other => {
                let detail = "must be between 1 and 65535, inclusive";
                errors.push(Error::invalid(path, other, detail));
            }
        }
    }
}

/// All that is wrong with a port's name; it need not have one.
pub(super) fn port_name_faults(name: &str) -> Vec<&'static str> {
    if name.is_empty() {
        return Vec::new();
    }
    if name.len() > MAX_PORT_NAME {
        return vec!["must be no more than 15 characters"];
    }
    let legal = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-';
    let rules = [
        (
            name.chars().all(legal),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (
            name.chars().any(|one| one.is_ascii_lowercase()),
            "must contain at least one letter (a-z)",
        ),
        (!name.contains("--"), "must not contain consecutive hyphens"),
        (
            !name.starts_with('-') && !name.ends_with('-'),
            "must not begin or end with a hyphen",
        ),
    ];
    let broken = rules.into_iter().filter(|(kept, _)| !kept);
    broken.map(|(_, words)| words).collect()
}

fn validate_variable(variable: &Value, path: &Path, errors: &mut Vec<Error>) {
    let name = value::text(variable, "name");
    let printable = |one: char| (' '..='~').contains(&one) && one != '=';
    if name.is_empty() {
        errors.push(Error::required(path.child("name"), ""));
    } else if !name.chars().all(printable) {
        let detail = "a valid environment variable name must consist only of printable ASCII characters other than '='";
        errors.push(Error::invalid(path.child("name"), name, detail));
    }
    if !value::text(variable, "value").is_empty() && !variable["valueFrom"].is_null() {
        let detail = "may not be specified when `value` is not empty";
        errors.push(Error::invalid(path.child("valueFrom"), "", detail));
    }
}
