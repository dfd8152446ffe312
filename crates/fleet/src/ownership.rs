//! Who may write which part of an object: the rules of `sync`, asked before every write.

use std::sync::Arc;

use deltaplane_apiserver::error::About;
use deltaplane_apiserver::seams::{Admission, BoxFuture, Operation, Review};
use deltaplane_apiserver::{Error, Revision};
use deltaplane_border::Shared;
use deltaplane_sync::{Origin, Part, Write, Writer, ZoneName, judge};
use serde_json::Value;
use tokio::sync::watch;

use crate::kinds::{CONTROLLERS, GROUP, SYNC_USER};
use crate::known::Known;

/// Keeps the rules, at the hub or in a zone.
pub struct Ownership {
    place: Origin,
    known: watch::Receiver<Arc<Known>>,
    /// What `known` follows.
    follows: Option<Arc<Shared>>,
}

const DEFINITIONS: &str = "apiextensions.k8s.io";

// === impl Ownership ===

impl Ownership {
    /// At the hub, whose projector fills both.
    pub fn at_hub(known: watch::Receiver<Arc<Known>>, follows: Arc<Shared>) -> Self {
        Self {
            place: Origin::Hub,
            known,
            follows: Some(follows),
        }
    }

    /// In a zone, which knows of its definitions what it is told.
    pub fn in_zone(zone: ZoneName, known: watch::Receiver<Arc<Known>>) -> Self {
        Self {
            place: Origin::Zone(zone),
            known,
            follows: None,
        }
    }

    fn judge(&self, review: &Review<'_>) -> Result<(), Error> {
        let resource = &review.resource;
        let known = self.known.borrow().clone();
        let zones: Vec<ZoneName> = match (&self.place, review.operation) {
            (Origin::Hub, Operation::Create | Operation::Delete) => {
                known.zones.keys().cloned().collect()
            }
            // Nothing depends on them.
            (Origin::Hub, Operation::Update) | (Origin::Zone(_), _) => Vec::new(),
        };
        let synced = known.synced(resource.group, resource.plural);
        let new: Option<&Value> = match review.operation {
            Operation::Create | Operation::Update => Some(review.object),
            Operation::Delete => None,
        };
        let write = Write {
            place: &self.place,
            synced: synced.map(|kind| kind.synced()),
            // Groups of definitions have a dot, and Kubernetes' own groups end like this.
            custom: resource.group.contains('.') && !resource.group.ends_with(".k8s.io"),
            computed: known.computed(resource.group, resource.plural),
            writer: match review.user.name.as_str() {
                SYNC_USER => Writer::Sync,
                CONTROLLERS => Writer::Controllers,
                _ => Writer::Other,
            },
            part: match resource.subresource {
                "status" => Part::Status,
                "computed" => Part::Computed,
                _ => Part::Main,
            },
            old: review.old,
            new,
            zones: &zones,
        };
        let about = About {
            group: resource.group,
            resource: resource.plural,
            name: resource.name,
        };
        judge(&write).map_err(|refusal| Error::forbidden(about, &refusal.to_string()))
    }
}

impl Admission for Ownership {
    fn admit<'a>(&'a self, review: Review<'a>) -> BoxFuture<'a, Result<(), Error>> {
        let judged = self.judge(&review);
        Box::pin(async move { judged })
    }

    fn caught_up<'a>(
        &'a self,
        group: &str,
        _plural: &str,
        revision: Revision,
    ) -> Option<BoxFuture<'a, ()>> {
        let follows = self.follows.as_ref()?;
        if group != GROUP && group != DEFINITIONS {
            return None;
        }
        let mut positions = follows.positions();
        Some(Box::pin(async move {
            // An error means that the hub is stopping.
            let _ = positions.wait_for(|at| *at >= revision.get()).await;
        }))
    }
}
