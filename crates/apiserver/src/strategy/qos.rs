//! The quality of service that a Pod gets by the compute resources it asks for.

use std::collections::BTreeMap;

use deltaplane_api::quantity::Quantity;
use serde_json::Value;

use crate::value;

/// The resources that count.
const COMPUTE: [&str; 2] = ["cpu", "memory"];

/// Sums by resource, in billionths.
type Amounts = BTreeMap<&'static str, i128>;

/// The class of a Pod with this spec, whose defaults are filled in.
pub(super) fn class(spec: &Value) -> &'static str {
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    let mut is_limited = true;
    for holder in resource_holders(spec) {
        let resources = &holder["resources"];
        add(&mut requests, &resources["requests"]);
        let own = positive(&resources["limits"]);
        is_limited &= own.len() == COMPUTE.len();
        add(&mut limits, &resources["limits"]);
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if is_limited && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// The Pod itself, if it asks for resources as a whole, or else its containers.
fn resource_holders(spec: &Value) -> Vec<&Value> {
    let resources = &spec["resources"];
    let whole = ["requests", "limits"].map(|field| positive(&resources[field]).len());
    if whole.iter().any(|count| *count > 0) {
        return vec![spec];
    }
    let containers = value::list(spec, "containers").iter();
    let all = containers.chain(value::list(spec, "initContainers"));
    all.collect()
}

/// The compute resources of which there is something.
fn positive(amounts: &Value) -> Vec<(&'static str, i128)> {
    let amount = |resource: &'static str| {
        let quantity: Quantity = amounts[resource].as_str()?.parse().ok()?;
        (quantity.nanos() > 0).then_some((resource, quantity.nanos()))
    };
    COMPUTE.into_iter().filter_map(amount).collect()
}

fn add(sums: &mut Amounts, amounts: &Value) {
    for (resource, amount) in positive(amounts) {
        let sum = sums.entry(resource).or_default();
        *sum = sum.saturating_add(amount);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn classes_follow_requests_and_limits() {
        let check = |containers: Value, expected: &str| {
            assert_eq!(class(&json!({"containers": containers})), expected);
        };
        let full = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1073741824"}});
        check(json!([{}]), "BestEffort");
        check(
            json!([{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]),
            "BestEffort",
        );
        check(
            json!([{"resources": {"requests": {"cpu": "0"}}}]),
            "BestEffort",
        );
        check(json!([{"resources": full}]), "Guaranteed");
        check(
            json!([{"resources": full}, {"resources": full}]),
            "Guaranteed",
        );
        check(json!([{"resources": full}, {}]), "Burstable");
        check(
            json!([{"resources": {"requests": {"cpu": "1"}}}]),
            "Burstable",
        );
        let less = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}});
        check(json!([{"resources": less}]), "Burstable");
        check(
            json!([{"resources": {"limits": full["limits"]}}]),
            "Burstable",
        );
    }

    #[test]
    fn init_containers_count_and_whole_pods_come_first() {
        let full = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}});
        let pod = json!({"containers": [{"resources": full}], "initContainers": [{}]});
        assert_eq!(class(&pod), "Burstable");
        let pod = json!({"containers": [{}], "resources": full});
        assert_eq!(class(&pod), "Guaranteed");
    }
}
