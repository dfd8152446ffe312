//! What a zone tells the hub of itself: that it is there, and how it stands with what it sends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use deltaplane_border::Sending;
use deltaplane_runtime::Clock;
use deltaplane_sync::{Counts, SyncKind, Uploaded};
use deltaplane_sync_grpc::encode_uploaded;
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::ZoneReport;
use futures::{Stream, stream};
use tokio::sync::watch;

use crate::kinds_file::Kinds;
use crate::uploads::UnreadKinds;

/// The reports of one connection.
pub(crate) struct Reports {
    sending: Arc<Sending>,
    clock: Clock,
    news: (watch::Receiver<u64>, watch::Receiver<u64>),
    /// The kinds that cannot be read here.
    unread: watch::Receiver<UnreadKinds>,
    /// The kinds that are synced: of others nothing is told.
    synced: watch::Receiver<Arc<Kinds>>,
    /// What the hub was told last.
    told: Option<BTreeMap<SyncKind, Counts>>,
    /// When the hub must be told again that the zone is there.
    due: Duration,
}

/// How often the hub is told that the zone is there. That a connection is lost is noticed sooner.
pub const REPORT: Duration = Duration::from_secs(30);
/// What changes from moment to moment is told together.
const GATHER: Duration = Duration::from_secs(1);

// === impl Reports ===

impl Reports {
    pub(crate) fn new(
        sending: Arc<Sending>,
        unread: watch::Receiver<UnreadKinds>,
        synced: watch::Receiver<Arc<Kinds>>,
        clock: Clock,
    ) -> Self {
        Self {
            news: sending.news(),
            unread,
            synced,
            due: clock.elapsed(),
            sending,
            clock,
            told: None,
        }
    }

    /// The first at once, then whenever something changed, and now and then.
    pub(crate) fn stream(self) -> impl Stream<Item = ZoneReport> + Send {
        stream::unfold(self, |mut reports| async move {
            let report = reports.next().await;
            Some((report, reports))
        })
    }

    async fn next(&mut self) -> ZoneReport {
        loop {
            let is_due = self.is_due_or_news().await;
            let uploaded = self.uploaded();
            if is_due || uploaded.is_some() {
                self.due = self.clock.elapsed() + REPORT;
                let at = self.clock.now().duration_since(UNIX_EPOCH);
                return ZoneReport {
                    at: at.unwrap_or_default().as_secs(),
                    uploaded: uploaded.as_ref().map(encode_uploaded),
                    fared: None,
                };
            }
        }
    }

    /// Whether the hub must be told again, whatever there is to tell.
    async fn is_due_or_news(&mut self) -> bool {
        let left = self.due.saturating_sub(self.clock.elapsed());
        let (said, changes) = &mut self.news;
        tokio::select! {
            biased;
            () = self.clock.sleep(left) => true,
            // They end with the process.
            Ok(()) = said.changed() => self.gathered().await,
            Ok(()) = changes.changed() => self.gathered().await,
            Ok(()) = self.unread.changed() => self.gathered().await,
            Ok(()) = self.synced.changed() => self.gathered().await,
        }
    }

    async fn gathered(&mut self) -> bool {
        self.clock.sleep(GATHER).await;
        self.news.0.borrow_and_update();
        self.news.1.borrow_and_update();
        false
    }

    /// How it stands, if the hub does not know that yet.
    fn uploaded(&mut self) -> Option<Uploaded> {
        let (revision, mut kinds) = self.sending.all_counts()?;
        kinds = of_synced(kinds, &self.synced.borrow_and_update());
        for (kind, reason) in self.unread.borrow_and_update().iter() {
            let counts = kinds.entry(kind.clone()).or_default();
            counts.unread = Some(reason.clone());
        }
        if self.told.as_ref() == Some(&kinds) {
            return None;
        }
        self.told = Some(kinds.clone());
        Some(Uploaded { revision, kinds })
    }
}

/// The counts of the kinds that are uploaded: those of a SyncedKind that is gone end with it.
fn of_synced(mut counts: BTreeMap<SyncKind, Counts>, synced: &Kinds) -> BTreeMap<SyncKind, Counts> {
    let upward = synced.values().filter(|kind| kind.synced.goes_up());
    let upward: BTreeSet<&SyncKind> = upward.map(|kind| &kind.synced.kind).collect();
    counts.retain(|kind, _| upward.contains(kind));
    counts
}

#[cfg(test)]
mod tests {
    use deltaplane_sync::{Crossing, Epoch, ObjectName, Position};
    use serde_json::json;

    use super::*;
    use crate::kinds_file::Kind;

    #[test]
    fn counts_end_with_their_synced_kind() {
        let kind = |name: &str| SyncKind::new("", name).expect("legal");
        let synced = |plural: &str, name: &str, direction: &str| {
            let object = json!({
                "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
                "metadata": {"name": plural},
                "spec": {"kind": name, "direction": direction},
            });
            let version = Crossing::of(&object).expect("an object").version();
            let at = Position {
                epoch: Epoch("hub".into()),
                revision: 1,
            };
            let name = ObjectName::new("", plural).expect("legal");
            let kind = Kind::received(&name, object, version, at).expect("a synced kind");
            (name, kind)
        };
        let synced = Kinds::from([
            synced("configmaps", "ConfigMap", "Both"),
            synced("services", "Service", "HubToZone"),
        ]);
        let counts = ["ConfigMap", "Secret", "Service"].map(|name| (kind(name), Counts::default()));
        let left = of_synced(BTreeMap::from(counts), &synced);
        assert_eq!(left.into_keys().collect::<Vec<_>>(), [kind("ConfigMap")]);
    }
}
