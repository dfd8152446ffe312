//! NetworkPolicies.

use deltaplane_api::field::{Error, Path};
use deltaplane_api::selector::check_form;
use serde_json::Value;

use super::{GENERIC, Strategy, pods};
use crate::value;

pub(crate) static NETWORK_POLICY: Strategy = Strategy {
    generation: true,
    validate: Some(validate_network_policy),
    ..GENERIC
};

/// The directions of traffic: where their rules are, and where the peers of a rule are.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];
const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";

fn validate_network_policy(new: &Value, _old: Option<&Value>) -> Vec<Error> {
    let mut errors = Vec::new();
    let spec = &new["spec"];
    let path = Path::new("spec");
    let selector = &spec["podSelector"];
    errors.extend(check_form(selector, &path.child("podSelector")));
    for (direction, peers) in DIRECTIONS {
        for (index, rule) in value::list(spec, direction).iter().enumerate() {
            let path = path.child(direction).index(index);
            for (index, port) in value::list(rule, "ports").iter().enumerate() {
                validate_port(port, &path.child("ports").index(index), &mut errors);
            }
            for (index, peer) in value::list(rule, peers).iter().enumerate() {
                validate_peer(peer, &path.child(peers).index(index), &mut errors);
            }
        }
    }
    errors
}

/// A single port, by number or name, or a range of numbers.
fn validate_port(port: &Value, path: &Path, errors: &mut Vec<Error>) {
    let is_port = |number: i64| (1..=65535).contains(&number);
    let start = &port["port"];
    if let Some(end) = port["endPort"].as_i64() {
        let mut refuse = |detail: &str| {
            errors.push(Error::invalid(path.child("endPort"), end, detail));
        };
        if start.is_null() {
            refuse("may not be specified when `port` is not specified");
        } else if start.is_string() {
            refuse("may not be specified when `port` is non-numeric");
        } else {
            if start.as_i64().is_some_and(|start| end < start) {
                refuse("must be greater than or equal to `port`");
            }
            if !is_port(end) {
                refuse(PORT_RANGE);
            }
        }
    }
    if start.is_number() && !start.as_i64().is_some_and(is_port) {
        errors.push(Error::invalid(
            path.child("port"),
            start.clone(),
            PORT_RANGE,
        ));
    }
    if let Some(name) = start.as_str() {
        let faults = pods::port_name_faults(name).into_iter();
        errors.extend(faults.map(|fault| Error::invalid(path.child("port"), name, fault)));
    }
}

/// Selectors or a block of addresses, and not both.
fn validate_peer(peer: &Value, path: &Path, errors: &mut Vec<Error>) {
    let selecting = ["podSelector", "namespaceSelector"];
    for field in selecting {
        errors.extend(check_form(&peer[field], &path.child(field)));
    }
    let by_selector = selecting.iter().any(|field| !peer[*field].is_null());
    let by_block = !peer["ipBlock"].is_null();
    if !by_selector && !by_block {
        errors.push(Error::required(path.clone(), "must specify a peer"));
    }
    if by_selector && by_block {
        let detail = "may not specify both ipBlock and another peer";
        errors.push(Error::forbidden(path.clone(), detail));
    }
}
