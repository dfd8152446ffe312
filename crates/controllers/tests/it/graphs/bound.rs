//! That an instance is ready is said together with the revision at which it is.

use deltaplane_api::admission::ADMISSION;
use deltaplane_expr::Timestamp;
use deltaplane_propagation::readiness::{self, State};

use super::edits::most_moving;
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

impl Graphs {
    /// The first is ready at the second revision, and had given its place to another, when the
    /// process ended before it could write so; and there is a third.
    async fn overtaken() -> Self {
        let graphs = Self::midway().await;
        graphs.tasks.shutdown(GRACE).await.expect("a clean end");
        graphs.approve("a", "hi?").await;
        let a = graphs.world.get(&shops(), &key("a")).await.expect("there");
        let admitted = &a["metadata"]["annotations"][ADMISSION];
        graphs.annotate("b", ADMISSION, admitted.clone()).await;
        // The next pass over it has something to write before it can tell how it stands.
        let unlabelled = json!({"metadata": {"labels": {"kro.run/owned": null}}});
        graphs.change(&shops(), &key("a"), unlabelled).await;
        graphs.redefine(&gated(".")).await;
        graphs
    }

    /// Goes on with clients that may not ask for documents, or not write to the first.
    fn go_on(&mut self) -> [Arc<AtomicBool>; 2] {
        let refused = [(); 2].map(|()| Arc::new(AtomicBool::new(true)));
        let [documents, first] = refused.clone();
        let asks = |_: &Method, path: &str| path.starts_with("/openapi/");
        let writes =
            |method: &Method, path: &str| method == Method::PATCH && path.ends_with("/shops/a");
        let client = refusing(self.world.client.clone(), asks, documents);
        (self.tasks, self.requests) = run_with(refusing(client, writes, first));
        refused
    }

    /// The first is not known, which is told; the other is on its way, and nobody else moves. Then
    /// all come to the third revision.
    async fn one_by_one(&self, first: &AtomicBool) {
        self.until_says("b", "hi.").await;
        let wanted = json!({"revision": 3, "updating": 2, "pending": 1});
        let told = self.until_propagation(wanted).await;
        let blocked = &told["blocked"][0];
        assert_eq!(blocked["instance"], "default/a", "{told}");
        assert_eq!(blocked["reason"], "Unseen", "{told}");
        self.mends("c", "hi!").await;
        first.store(false, Ordering::SeqCst);
        let owned = |object: &Value| object["metadata"]["labels"]["kro.run/owned"] == "true";
        self.world.until(&shops(), &key("a"), owned).await;
        self.mends("a", "hi?").await;
        self.approve_all("hi.").await;
        self.until_propagation(json!({"revision": 3, "current": 3}))
            .await;
    }
}

const NEW: [&str; 2] = ["hi?", "hi."];

#[tokio::test]
async fn one_of_which_nobody_could_tell_how_it_stands_is_not_taken_for_broken() {
    let mut graphs = Graphs::overtaken().await;
    let [documents, first] = graphs.go_on();
    for name in ["a", "b"] {
        graphs.until_state(name, "ERROR").await;
    }
    let most = most_moving(&graphs.world.client, &NEW, async {
        documents.store(false, Ordering::SeqCst);
        graphs.one_by_one(&first).await;
    });
    assert_eq!(most.await, 1);
    graphs.end().await;
}

#[tokio::test]
async fn one_that_cannot_be_written_is_not_taken_for_broken() {
    let mut graphs = Graphs::overtaken().await;
    let client = graphs.world.client.clone();
    let [documents, first] = graphs.go_on();
    documents.store(false, Ordering::SeqCst);
    let most = most_moving(&client, &NEW, graphs.one_by_one(&first));
    assert_eq!(most.await, 1);
    graphs.end().await;
}

/// It takes one of two places, and the others go on with the second.
#[tokio::test]
async fn one_that_cannot_be_written_keeps_no_other_from_the_next_revision() {
    let mut graphs = Graphs::overtaken().await;
    let mut by_two = gated(".");
    by_two["spec"]["propagateWhen"] = json!(["linearlyReady(shop, shops, 2)"]);
    graphs.redefine(&by_two).await;
    let client = graphs.world.client.clone();
    let [documents, first] = graphs.go_on();
    documents.store(false, Ordering::SeqCst);
    let most = most_moving(&client, &NEW, async {
        graphs.approve("b", "hi.").await;
        graphs.approve("c", "hi.").await;
        let wanted = json!({"revision": 3, "failed": 1, "current": 2});
        graphs.until_propagation(wanted).await;
        assert_eq!(graphs.greetings().await, ["hi?", "hi.", "hi."]);
        first.store(false, Ordering::SeqCst);
        graphs.approve("a", "hi.").await;
        graphs.until_propagation(json!({"current": 3})).await;
    });
    assert_eq!(most.await, 1);
    graphs.end().await;
}
