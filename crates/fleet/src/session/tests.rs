//! What a zone says of objects that are not its own, past the rules of the protocol.

use std::convert::Infallible;

use deltaplane_api::identity::Identity;
use deltaplane_client::in_process;
use deltaplane_sync::{Crossing, Relayed};
use http::{Request as HttpRequest, Response as HttpResponse};
use kube::client::Body;
use serde_json::json;

use super::*;
use crate::kinds::SyncedKind;

/// What comes from a zone whose ConfigMaps the hub takes, at an API that nobody may ask anything.
fn from_zone() -> FromZone {
    let server = tower::service_fn(|request: HttpRequest<Body>| async move {
        panic!("{} {}", request.method(), request.uri());
        #[expect(unreachable_code, reason = "the type of the answer")]
        Ok::<_, Infallible>(HttpResponse::new(String::new()))
    });
    let mirror = Arc::new(Mirror::new(MirrorConfig {
        client: in_process(server, Identity::authenticated("sync", &[])),
        pace: Pace::system(),
        place: Origin::Hub,
        sender: Origin::Zone("evil".parse().expect("legal")),
        guarded: true,
    }));
    let synced = json!({
        "metadata": {"name": "configmaps"},
        "spec": {"kind": "ConfigMap", "direction": "Both", "acrossZones": true},
    });
    let synced = SyncedKind::of(&synced).expect("well-formed");
    mirror.learn(&synced.kind, "configmaps");
    let mut known = Known::default();
    let plural = (String::new(), "configmaps".to_owned());
    known.synced.insert(plural, synced);
    let (_, known) = watch::channel(Arc::new(known));
    let losses = Arc::default();
    FromZone {
        mirror,
        known,
        losses,
    }
}

/// The receiver refuses such messages before it comes to this.
#[tokio::test]
async fn a_zone_orphans_and_relays_nothing() {
    let target = from_zone();
    let kind = SyncKind::new("", "ConfigMap").expect("legal");
    let name: ObjectName = "team/a".parse().expect("legal");
    let orphaned = target.orphan(&kind, &name).await.expect_err("refused");
    assert!(
        orphaned.reason.contains("only the hub orphans"),
        "{orphaned:?}"
    );
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "team"},
    });
    let crossing = Crossing::of(&object).expect("an object");
    let body = serde_json::to_vec(crossing.object()).expect("JSON");
    for owner in ["good", "evil"] {
        let item = Item {
            version: crossing.version(),
            body: body.clone().into(),
            relayed: Some(Relayed {
                zone: owner.parse().expect("legal"),
                name: "a".into(),
            }),
        };
        let at = "e@1".parse().expect("legal");
        let applied = target.apply(&kind, &name, &item, &at).await;
        let why = applied.expect_err("refused").reason;
        assert!(why.contains("its own objects only"), "{why}");
    }
}
