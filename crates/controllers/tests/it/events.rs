use std::time::Duration;

use deltaplane_client::{ObjectKey, Resource};
use serde_json::json;

use crate::world::{EVENT_LIFETIME, World};

#[tokio::test]
async fn events_go_when_their_time_is_over() {
    let world = World::start().await;
    let events = Resource::namespaced("", "v1", "events", "Event");
    let event = |name: &str| {
        json!({
            "metadata": {"name": name, "namespace": "default"},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web"},
            "reason": "Started",
            "type": "Normal",
        })
    };
    world.create(&events, event("early")).await;
    let (early, late) = (
        ObjectKey::new("default", "early"),
        ObjectKey::new("default", "late"),
    );
    world.hand.advance(EVENT_LIFETIME - Duration::from_secs(60));
    assert!(world.get(&events, &early).await.is_some());
    // The server's clock stands still compared to ours: what it makes now is as old as `early`,
    // but says that it was seen later.
    let now = std::time::SystemTime::now() + Duration::from_secs(1800);
    let seen = deltaplane_api::time::Time::from_system(now).to_string();
    let mut other = event("late");
    other["lastTimestamp"] = json!(seen);
    world.create(&events, other).await;
    world.hand.advance(Duration::from_secs(120));
    world.until_gone(&events, &early).await;
    assert!(world.get(&events, &late).await.is_some());
    world.hand.advance(EVENT_LIFETIME);
    world.until_gone(&events, &late).await;
}
