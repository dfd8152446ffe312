//! Gates that time opens, by a clock that is moved by hand.

use super::*;

/// One by one, and each ten minutes after those before it were ready.
fn soaking(mark: &str) -> Value {
    let mut definition = gated(mark);
    definition["spec"]["propagateWhen"] = json!([
        "linearlyReady(shop, shops, 1)",
        "shops.all(one, !one.updated() || readyFor(one, '10m'))",
    ]);
    definition
}

const TICK: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_gate_that_time_opens_opens_when_it_is_time() {
    let mut graphs = Graphs::start().await;
    graphs.define(soaking("!")).await;
    for name in ["a", "b", "c"] {
        graphs.world.create(&shops(), shop(name)).await;
        graphs.approve(name, "hi!").await;
        graphs.until_state(name, "ACTIVE").await;
    }
    graphs
        .until_propagation(json!({"revision": 1, "current": 3}))
        .await;
    graphs.tasks.shutdown(GRACE).await.expect("a clean end");
    (graphs.tasks, graphs.requests) = run_in(graphs.world.context());
    // What is tried again is so by this clock, too: it goes on like any other.
    let hand = graphs.world.hand.clone();
    graphs.tasks.spawn("tick", |stop| async move {
        let mut tick = tokio::time::interval(TICK);
        let ticking = async {
            loop {
                tick.tick().await;
                hand.advance(TICK);
            }
        };
        stop.unless(ticking).await;
    });
    graphs.redefine(&soaking("?")).await;
    graphs.approve("a", "hi?").await;
    let wanted = json!({"revision": 2, "current": 1, "pending": 2});
    let told = graphs.until_propagation(wanted).await;
    assert!(told["lookAgainAt"].is_string(), "{told}");
    graphs.world.hand.advance(9 * MINUTE);
    // Something happens, and it is looked again.
    graphs
        .change(&shops(), &key("c"), json!({"spec": {"greeting": "hey"}}))
        .await;
    graphs.approve("c", "hey!").await;
    graphs
        .until_propagation(json!({"current": 1, "pending": 2}))
        .await;
    assert_eq!(graphs.greetings().await, ["hi?", "hi!", "hey!"]);
    graphs.world.hand.advance(MINUTE);
    graphs.approve("b", "hi?").await;
    graphs
        .until_propagation(json!({"current": 2, "pending": 1}))
        .await;
    graphs.end().await;
}
