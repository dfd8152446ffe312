//! The rules as a user of an API server meets them.

use std::sync::Arc;

use deltaplane_api::identity::Identity;
use deltaplane_apiserver::{ApiServer, Config, Limits};
use deltaplane_runtime::{Clock, Readiness, Tasks};
use deltaplane_store::{Embedded, Options};
use deltaplane_sync::Computed;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::ServiceExt;

use super::Ownership;
use crate::known::Known;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GEARS: &str = "/apis/example.com/v1/namespaces/default/gears";

/// A zone's API with a kind of which two fields are computed and have defaults.
struct Zone {
    api: ApiServer,
    _tasks: Tasks,
    _known: watch::Sender<Arc<Known>>,
    _directory: tempfile::TempDir,
}

impl Zone {
    async fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let store = Embedded::open(directory.path(), Options::default()).expect("opened");
        let mut known = Known::default();
        let kind = ("example.com".to_owned(), "gears".to_owned());
        let computed = Computed::list("spec.state, spec.network.address");
        known.computed.insert(kind, computed);
        known.at = u64::MAX;
        let (sender, known) = watch::channel(Arc::new(known));
        let ownership = Ownership::in_zone("eu-1".parse().expect("legal"), known);
        let tasks = Tasks::new();
        let key = rcgen::KeyPair::generate().expect("a key");
        let config = Config {
            address: "127.0.0.1:7443".parse().expect("an address"),
            service_account_key: key.serialize_pem(),
            commit: "unknown",
            limits: Limits::default(),
            admission: vec![Arc::new(ownership)],
            subresources: Vec::new(),
            columns: Vec::new(),
            clock: Clock::system(),
            readiness: Readiness::new(),
        };
        let api = ApiServer::start(config, store, &tasks).await;
        let zone = Self {
            api: api.expect("started"),
            _tasks: tasks,
            _known: sender,
            _directory: directory,
        };
        zone.define().await;
        zone
    }

    async fn define(&self) {
        let spec = json!({"type": "object", "properties": {
            "size": {"type": "integer"},
            "state": {"type": "string", "default": "off"},
            "network": {"type": "object", "default": {}, "properties": {
                "address": {"type": "string", "default": "none"},
            }},
        }});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        let names = json!({"plural": "gears", "kind": "Gear"});
        let annotation =
            json!({"deltaplane.io/computed-fields": "spec.state, spec.network.address"});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "gears.example.com", "annotations": annotation},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": names,
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema}}]},
        });
        let stored = self.write(Method::POST, DEFINITIONS, &definition).await;
        let mut stored = stored.expect("defined");
        stored["status"]["acceptedNames"] = names;
        stored["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
        let status = format!("{DEFINITIONS}/gears.example.com/status");
        let established = self.write(Method::PUT, &status, &stored).await;
        established.expect("established");
    }

    async fn write(&self, method: Method, path: &str, body: &Value) -> Result<Value, StatusCode> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .extension(Identity::authenticated("ann", &["system:masters"]))
            .body(Full::from(body.to_string()))
            .expect("legal");
        let answer = self.api.clone().oneshot(request).await;
        let answer = answer.expect("it never fails");
        let code = answer.status();
        let body = answer.into_body().collect().await.expect("a body");
        if !code.is_success() {
            return Err(code);
        }
        Ok(serde_json::from_slice(&body.to_bytes()).expect("JSON"))
    }
}

fn gear(spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Gear", "metadata": {"name": "a"}, "spec": spec})
}

#[tokio::test]
async fn defaults_of_computed_fields_are_nobodys_claim() {
    let zone = Zone::start().await;
    let (one, computed) = (format!("{GEARS}/a"), format!("{GEARS}/a/computed"));
    let claimed = gear(&json!({"size": 1, "state": "on"}));
    let claimed = zone.write(Method::POST, GEARS, &claimed).await;
    assert_eq!(claimed, Err(StatusCode::FORBIDDEN));
    let small = gear(&json!({"size": 1}));
    let created = zone.write(Method::POST, GEARS, &small).await;
    let mut created = created.expect("it claims nothing");
    let network = json!({"address": "none"});
    let defaults = json!({"size": 1, "state": "off", "network": network});
    assert_eq!(created["spec"], defaults);
    // A controller computes them; whoever leaves them out leaves them as they are.
    created["spec"]["state"] = json!("on");
    created["spec"]["network"]["address"] = json!("10.0.0.1");
    let written = zone.write(Method::PUT, &computed, &created).await;
    let mut large = written.expect("controllers may");
    large["spec"] = json!({"size": 2});
    let replaced = zone.write(Method::PUT, &one, &large).await;
    let network = json!({"address": "10.0.0.1"});
    let kept = json!({"size": 2, "state": "on", "network": network});
    let mut replaced = replaced.expect("it claims nothing");
    assert_eq!(replaced["spec"], kept);
    replaced["spec"]["state"] = json!("off");
    let reset = zone.write(Method::PUT, &one, &replaced).await;
    assert_eq!(reset, Err(StatusCode::FORBIDDEN));
}
