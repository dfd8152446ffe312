//! Reads that must not show the past wait for the store to say that they do not.

use std::sync::Arc;

use deltaplane_store::driver::{
    BoxFuture, CloseError, CompactError, Driver, Epoch, Replay, Replayed, Version,
};
use deltaplane_store::memory::Memory;
use deltaplane_store::{CommitError, Committed, Object, Prepared, ReadError, Revision};
use serde_json::json;

use crate::harness::{Server, Setup};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Once this exists, nobody knows what is new.
const CUT_OFF: &str = "cut-off";

/// A store that loses touch with the others when it is told to.
struct Remote(Arc<dyn Driver>);

impl Driver for Remote {
    fn memory(&self) -> &Arc<Memory> {
        self.0.memory()
    }

    fn epoch(&self) -> Epoch {
        self.0.epoch()
    }

    fn commit(&self, txn: Prepared) -> BoxFuture<'_, Result<Committed, CommitError>> {
        self.0.commit(txn)
    }

    fn barrier(&self) -> BoxFuture<'_, Result<Revision, ReadError>> {
        let key = deltaplane_store::Key::new("default", "configmaps", "default", CUT_OFF);
        let cut_off = self.memory().get(&key.expect("a key")).is_some();
        match cut_off {
            true => Box::pin(async { Err(ReadError::Closed) }),
            false => self.0.barrier(),
        }
    }

    fn load(&self, wanted: Vec<Version>) -> BoxFuture<'_, Result<Vec<Arc<Object>>, ReadError>> {
        self.0.load(wanted)
    }

    fn replay(&self, request: Replay) -> BoxFuture<'_, Result<Replayed, ReadError>> {
        self.0.replay(request)
    }

    fn compact(&self, to: Revision) -> BoxFuture<'_, Result<Revision, CompactError>> {
        self.0.compact(to)
    }

    fn heal(&self) {
        self.0.heal();
    }

    fn stored_bytes(&self) -> Option<u64> {
        self.0.stored_bytes()
    }

    fn close(&self) -> BoxFuture<'_, Result<(), CloseError>> {
        self.0.close()
    }
}

#[tokio::test]
async fn whoever_may_not_see_the_past_waits_for_the_present() {
    let setup = Setup {
        in_front: |driver| Arc::new(Remote(driver)),
        ..Setup::default()
    };
    let server = Server::start_with(setup).await;
    for name in ["a", CUT_OFF] {
        let map = json!({"kind": "ConfigMap", "metadata": {"name": name}});
        server.post(MAPS, &map).await.expect(201);
    }
    let one = format!("{MAPS}/a");
    for path in [
        &one,
        MAPS,
        &format!("{MAPS}?watch=1"),
        &format!("{MAPS}?limit=1"),
    ] {
        server.get(path).await.refused(503);
    }
    let map = json!({"kind": "ConfigMap", "metadata": {"name": "a"}});
    server.post(MAPS, &map).await.refused(503);
    server.put(&one, &map).await.refused(503);
    server.patch(&one, "merge", &json!({})).await.refused(503);
    server.patch(&one, "apply", &map).await.refused(503);
    server.delete(&one, &json!({})).await.refused(503);
    server.delete(MAPS, &json!({})).await.refused(503);
    for path in [&one, MAPS] {
        let old = format!("{path}?resourceVersion=0");
        server.get(&old).await.expect(200);
    }
}
