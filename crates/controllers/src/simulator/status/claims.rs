//! What is given something: an address, or a volume. What never gets it waits for ever.

use serde_json::{Value, json};

use super::super::digest;
use super::super::object::Object;
use super::Stage;

pub(super) fn service(object: &Object, stage: Stage) -> Value {
    let has_address = !object.status["loadBalancer"]["ingress"].is_null();
    match (object.spec["type"] == "LoadBalancer", stage) {
        (true, Stage::Healthy) => {
            let address = digest::outer_address(&object.uid).to_string();
            json!({"loadBalancer": {"ingress": [{"ip": address, "ipMode": "VIP"}]}})
        }
        // It is no longer reached from outside.
        (false, Stage::Healthy | Stage::Failed) if has_address => json!({"loadBalancer": {}}),
        (true | false, _) => object.status.clone(),
    }
}

pub(super) fn ingress(object: &Object, stage: Stage) -> Value {
    match stage {
        Stage::Healthy => {
            let address = digest::outer_address(&object.uid).to_string();
            json!({"loadBalancer": {"ingress": [{"ip": address}]}})
        }
        Stage::UnderWay | Stage::Failed => object.status.clone(),
    }
}

pub(super) fn volume(object: &Object, stage: Stage) -> Value {
    let is_bound = object.status["phase"] == "Bound";
    match stage {
        Stage::Healthy => {
            let mut status = json!({"phase": "Bound"});
            if let modes @ Value::Array(_) = &object.spec["accessModes"] {
                status["accessModes"] = modes.clone();
            }
            if let size @ Value::String(_) = &object.spec["resources"]["requests"]["storage"] {
                status["capacity"] = json!({"storage": size});
            }
            status
        }
        // One that is to grow stays bound.
        Stage::UnderWay | Stage::Failed if is_bound => object.status.clone(),
        Stage::UnderWay | Stage::Failed => json!({"phase": "Pending"}),
    }
}
