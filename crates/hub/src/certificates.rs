//! Which certificates of zones count.

use deltaplane_fleet::Fleet;
use deltaplane_plane::ZoneGate;
use deltaplane_runtime::identity::ZoneSubject;
use futures::FutureExt;
use futures::future::BoxFuture;

/// A certificate counts while its zone is there and enabled.
pub(crate) struct ZoneCertificates(pub(crate) Fleet);

fn counts(fleet: &Fleet, subject: &ZoneSubject) -> bool {
    let zone = subject.zone.parse();
    zone.is_ok_and(|zone| fleet.admit(&zone, &subject.uid).is_ok())
}

impl ZoneGate for ZoneCertificates {
    fn admits(&self, zone: &ZoneSubject) -> bool {
        counts(&self.0, zone)
    }

    fn revoked(&self, zone: ZoneSubject) -> BoxFuture<'static, ()> {
        let fleet = self.0.clone();
        async move {
            let mut known = fleet.known();
            loop {
                known.borrow_and_update();
                if !counts(&fleet, &zone) {
                    return;
                }
                if known.changed().await.is_err() {
                    // The hub ends, and its connections with it.
                    return std::future::pending().await;
                }
            }
        }
        .boxed()
    }
}
