//! Services and what leads to and from them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    NONE, Row, UNKNOWN, UNSET, field, labels, marked, or, printed, selector, shortened, texts,
};

pub(super) fn service(row: Row<'_>) -> Vec<Value> {
    let ports: Vec<String> = row
        .list("/spec/ports")
        .iter()
        .map(|port| {
            service_port(Row {
                object: port,
                now: row.now,
            })
        })
        .collect();
    vec![
        row.name(),
        row.text("/spec/type").into(),
        row.text_or("/spec/clusterIPs/0", NONE),
        external_address(row).into(),
        or(ports.join(","), NONE).into(),
        row.age(),
        labels(row.map("/spec/selector")).into(),
    ]
}

fn service_port(port: Row<'_>) -> String {
    let (number, protocol) = (port.number("/port"), port.text("/protocol"));
    match port.number("/nodePort") {
        ..=0 => format!("{number}/{protocol}"),
        node => format!("{number}:{node}/{protocol}"),
    }
}

fn external_address(row: Row<'_>) -> String {
    let external = texts(row.list("/spec/externalIPs"), ",");
    match row.text("/spec/type") {
        "ClusterIP" | "NodePort" => or(external, NONE),
        "LoadBalancer" => match (balancer(row), external.as_str()) {
            (balancer, "") => or(balancer, "<pending>"),
            (balancer, external) if balancer.is_empty() => external.to_owned(),
            (balancer, external) => format!("{balancer},{external}"),
        },
        "ExternalName" => row.text("/spec/externalName").to_owned(),
        _ => UNKNOWN.to_owned(),
    }
}

/// Addresses of a load balancer, each once, sorted.
fn balancer(row: Row<'_>) -> String {
    let addresses: BTreeSet<&str> = row
        .list("/status/loadBalancer/ingress")
        .iter()
        .map(|ingress| match field(ingress, "ip") {
            "" => field(ingress, "hostname"),
            ip => ip,
        })
        .filter(|address| !address.is_empty())
        .collect();
    addresses.into_iter().collect::<Vec<_>>().join(",")
}

pub(super) fn endpoints(row: Row<'_>) -> Vec<Value> {
    let mut shown = Vec::new();
    for subset in row.list("/subsets") {
        let subset = Row {
            object: subset,
            now: row.now,
        };
        let addresses = subset
            .list("/addresses")
            .iter()
            .map(|address| field(address, "ip"));
        match subset.list("/ports") {
            [] => shown.extend(addresses.map(str::to_owned)),
            ports => {
                for port in ports.iter().filter_map(|port| port.get("port")) {
                    shown.extend(addresses.clone().map(|ip| match ip.contains(':') {
                        true => format!("[{ip}]:{port}"),
                        false => format!("{ip}:{port}"),
                    }));
                }
            }
        }
    }
    let text = match row.count("/subsets") {
        0 => NONE.to_owned(),
        _ => shortened(shown, 3, ","),
    };
    vec![row.name(), text.into(), row.age()]
}

pub(super) fn endpoint_slice(row: Row<'_>) -> Vec<Value> {
    let port = |port: &Value| match (printed(port.get("port")), port.get("name")) {
        (Some(number), _) => number,
        (None, Some(name)) => name.as_str().unwrap_or_default().to_owned(),
        (None, None) => "*".to_owned(),
    };
    let ports = row.list("/ports").iter().map(port).collect();
    let addresses = row
        .list("/endpoints")
        .iter()
        .filter_map(|endpoint| endpoint.get("addresses")?.as_array());
    let addresses = addresses
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    vec![
        row.name(),
        row.text("/addressType").into(),
        or(shortened(ports, 3, ","), UNSET).into(),
        or(shortened(addresses, 3, ","), UNSET).into(),
        row.age(),
    ]
}

pub(super) fn ingress(row: Row<'_>) -> Vec<Value> {
    let rules = row.list("/spec/rules");
    let mut hosts = Vec::new();
    let mut more = false;
    for host in rules.iter().map(|rule| field(rule, "host")) {
        more |= hosts.len() == 3;
        if !more && !host.is_empty() {
            hosts.push(host);
        }
    }
    let hosts = match (hosts.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (false, false) => hosts.join(","),
        (false, true) => format!("{} + {} more...", hosts.join(","), rules.len() - 3),
    };
    let ports = if row.count("/spec/tls") == 0 {
        "80"
    } else {
        "80, 443"
    };
    vec![
        row.name(),
        row.text_or("/spec/ingressClassName", NONE),
        hosts.into(),
        balancer(row).into(),
        ports.into(),
        row.age(),
    ]
}

pub(super) fn ingress_class(row: Row<'_>) -> Vec<Value> {
    let parameters = match (
        row.at("/spec/parameters"),
        row.text("/spec/parameters/apiGroup"),
    ) {
        (None, _) => NONE.to_owned(),
        (Some(to), "") => format!("{}/{}", field(to, "kind"), field(to, "name")),
        (Some(to), group) => format!("{}.{group}/{}", field(to, "kind"), field(to, "name")),
    };
    vec![
        marked(row, &["ingressclass.kubernetes.io/is-default-class"]),
        row.text("/spec/controller").into(),
        parameters.into(),
        row.age(),
    ]
}

pub(super) fn network_policy(row: Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        or(selector(row.at("/spec/podSelector")), NONE).into(),
        row.age(),
    ]
}

pub(super) fn ip_address(row: Row<'_>) -> Vec<Value> {
    let parent = row.at("/spec/parentRef").map_or_else(
        || NONE.to_owned(),
        |parent| {
            let resource = match field(parent, "group") {
                "" => field(parent, "resource").to_owned(),
                group => format!("{}.{group}", field(parent, "resource")),
            };
            let parts = [
                resource.as_str(),
                field(parent, "namespace"),
                field(parent, "name"),
            ];
            parts
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join("/")
        },
    );
    vec![row.name(), parent.into()]
}

pub(super) fn service_cidr(row: Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        texts(row.list("/spec/cidrs"), ",").into(),
        row.age(),
    ]
}
