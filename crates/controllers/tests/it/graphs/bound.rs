//! That an instance is ready is said together with the revision at which it is.

use deltaplane_expr::Timestamp;
use deltaplane_propagation::readiness::{self, State};

use super::*;

impl Graphs {
    /// How the graph fares, as whoever reads it and its instances at this moment would say.
    async fn fares(&self) -> (State, String) {
        let definition = self.world.get(&api::definitions(), &rgd()).await;
        let instances = self.world.list(&shops()).await;
        let now = Timestamp::parse("2026-03-01T12:00:00Z").expect("a time");
        let judgement = readiness::graph(&definition.expect("there"), &instances, now);
        (judgement.state, judgement.reason)
    }

    async fn until_fares(&self, state: State) {
        let waiting = async {
            while self.fares().await.0 != state {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let in_time = tokio::time::timeout(GRACE, waiting).await;
        assert!(in_time.is_ok(), "{:?}", self.fares().await);
    }
}

/// Without a gate an instance moves at once, and its annotation says so before anything is made of
/// it: for a moment it is at the new revision, and ready since the older one.
#[tokio::test]
async fn ready_at_the_revision_before_is_not_ready() {
    let mut graphs = Graphs::start().await;
    let statuses = |_: &Method, path: &str| path.contains("/shops/") && path.contains("/status");
    graphs.define(definition()).await;
    assert_eq!(graphs.fares().await.0, State::NoEvidence);
    graphs.active("a").await;
    graphs.until_fares(State::Ready).await;
    // The moment lasts for as long as the status cannot be written.
    let refused = graphs.restart_refused(statuses).await;
    let mut changed = definition();
    changed["spec"]["resources"][0]["template"]["data"]["mark"] = "2".into();
    graphs.redefine(&changed).await;
    let moved = |object: &Value| admission_of(object) == "started/2";
    let stale = graphs.world.until(&shops(), &key("a"), moved).await;
    assert!(condition(&stale, "Ready", "True"), "{stale}");
    graphs.until_definition("Ready", "True").await;
    let (state, why) = graphs.fares().await;
    assert_eq!(state, State::Waiting, "{why}");
    assert!(
        why.ends_with("default/a: it runs revision 1, and not 2 yet"),
        "{why}"
    );
    refused.store(false, Ordering::SeqCst);
    graphs.until_fares(State::Ready).await;
    graphs.end().await;
}

/// A gate is not part of what instances run: one that is edited leaves nobody behind.
#[tokio::test]
async fn instances_run_a_revision_that_differs_in_its_gate_alone() {
    let graphs = Graphs::start().await;
    let gated = |gate: &str| {
        let mut definition = definition();
        definition["spec"]["propagateWhen"] = json!([gate]);
        definition
    };
    graphs.define(gated("linearlyReady(shop, shops, 1)")).await;
    graphs.active("a").await;
    graphs.until_fares(State::Ready).await;
    graphs
        .redefine(&gated("linearlyReady(shop, shops, 2)"))
        .await;
    let second = |object: &Value| object["status"]["lastIssuedRevision"] == 2;
    graphs
        .world
        .until(&api::definitions(), &rgd(), second)
        .await;
    graphs.until_definition("Ready", "True").await;
    graphs.until_fares(State::Ready).await;
    graphs.end().await;
}
