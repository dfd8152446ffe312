//! Who may write which part of an object: the rules of `sync`, asked before every write.

use std::sync::Arc;
use std::time::Duration;

use deltaplane_api::computed::SUBRESOURCE;
use deltaplane_api::field::{self, Path};
use deltaplane_api::keys;
use deltaplane_apiserver::error::About;
use deltaplane_apiserver::seams::{Access, Admission, BoxFuture, Operation, Review};
use deltaplane_apiserver::{Error, Revision};
use deltaplane_border::Shared;
use deltaplane_propagation::Timestamp;
use deltaplane_sync::{
    Origin, Part, Write, Writer, ZoneName, judge, restore_computed, salt_secret,
};
use serde_json::Value;
use tokio::sync::watch;
use uuid::Uuid;

use crate::kinds::{CONTROLLERS, GROUP, SYNC_USER};
use crate::known::Known;

/// Keeps the rules, at the hub or in a zone.
pub struct Ownership {
    place: Origin,
    known: watch::Receiver<Arc<Known>>,
    /// What `known` follows; nothing where it says itself how far it is.
    follows: Option<Arc<Shared>>,
}

const DEFINITIONS: &str = "apiextensions.k8s.io";
/// Whoever writes a definition waits no longer until its rules are known.
const LATE: Duration = Duration::from_secs(5);
/// Graphs, and what is kept of them.
const OURS: [&str; 2] = [
    "resourcegraphdefinitions.kro.run",
    "graphrevisions.internal.kro.run",
];
const SYNCED_KINDS: &str = "syncedkinds";

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

    /// In a zone, where [`crate::follow_definitions`] fills it.
    pub fn in_zone(zone: ZoneName, known: watch::Receiver<Arc<Known>>) -> Self {
        Self {
            place: Origin::Zone(zone),
            known,
            follows: None,
        }
    }

    /// Waits until it is known what may not be written. Only definitions' own kinds have such rules,
    /// and sync keeps them by itself.
    async fn ready(&self, review: &Review<'_>) {
        let must_wait = self.follows.is_none()
            && is_custom(review.resource.group)
            && review.user.name != SYNC_USER;
        if must_wait {
            // An error means that the process stops.
            let _ = self.known.clone().wait_for(|known| known.at > 0).await;
        }
    }

    /// Keeps computed fields that a change leaves out. Sync applies what its origin has, and the
    /// subresource writes these fields: both may leave them out to remove them.
    fn restore_computed(&self, review: &mut Review<'_>) {
        let resource = &review.resource;
        let writes_them = review.user.name == SYNC_USER || resource.subresource == SUBRESOURCE;
        if let Some(old) = review.old.filter(|_| !writes_them)
            && review.operation == Operation::Update
        {
            let known = self.known.borrow();
            let fields = known.computed(resource.group, resource.plural);
            restore_computed(fields, review.object, old);
        }
    }

    /// Gives a Secret that crosses a salt, but for the copies that sync applies.
    fn salt_secret(&self, review: &mut Review<'_>) {
        let resource = &review.resource;
        let is_secret = (resource.group, resource.kind) == ("", "Secret");
        let is_written = review.operation != Operation::Delete && resource.subresource.is_empty();
        if is_secret && is_written && review.user.name != SYNC_USER {
            let fresh = || Uuid::new_v4().simple().to_string();
            let may_read = || {
                (review.may)(Access {
                    verb: "get",
                    group: resource.group,
                    kind: resource.kind,
                    namespace: resource.namespace,
                    name: resource.name,
                })
            };
            salt_secret(review.object, review.old, may_read, fresh);
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
            custom: is_custom(resource.group),
            computed: known.computed(resource.group, resource.plural),
            writer: match review.user.name.as_str() {
                SYNC_USER => Writer::Sync,
                CONTROLLERS => Writer::Controllers,
                _ => Writer::Other,
            },
            part: match resource.subresource {
                "status" => Part::Status,
                SUBRESOURCE => Part::Computed,
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
        judge(&write).map_err(|refusal| Error::forbidden(about, &refusal.to_string()))?;
        if review.operation == Operation::Delete
            && resource.group == DEFINITIONS
            && is_ours(resource.name)
            && review.user.name != CONTROLLERS
        {
            let why = "Deltaplane needs this CustomResourceDefinition: its deletion would delete all its objects, and let go what they hold back; keep it";
            return Err(Error::forbidden(about, why));
        }
        let is_changed = review.operation == Operation::Update
            && resource.subresource.is_empty()
            && review
                .old
                .is_some_and(|old| old["spec"] != review.object["spec"]);
        if is_changed
            && resource.group == DEFINITIONS
            && resource.name.ends_with(&format!(".{GROUP}"))
            && review.user.name != CONTROLLERS
        {
            let why = "only Deltaplane changes the spec of its own CustomResourceDefinitions; leave the spec as it is";
            return Err(Error::forbidden(about, why));
        }
        let is_new = matches!(review.operation, Operation::Create);
        match is_new && (resource.group, resource.plural) == (GROUP, SYNCED_KINDS) {
            true => unique(&known, review.object).map_err(|why| Error::forbidden(about, &why)),
            false => Ok(()),
        }
    }
}

/// Refuses a hold that is neither a time nor `true` or `false`: it would hold until somebody takes it
/// away, and whoever wrote `tomorrow` expects that it ends. One that is stored already stays.
fn check_hold(review: &Review<'_>) -> Result<(), Error> {
    let resource = &review.resource;
    let by_people = ![SYNC_USER, CONTROLLERS].contains(&review.user.name.as_str());
    let is_written = review.operation != Operation::Delete && resource.subresource.is_empty();
    let hold = |object: &Value| object["metadata"]["annotations"][keys::HOLD].clone();
    let (now, before) = (hold(review.object), review.old.map(hold));
    let Some(said) = now.as_str().filter(|_| by_people && is_written) else {
        return Ok(());
    };
    let is_known = Timestamp::parse(said.trim()).is_some()
        || ["true", "false"].contains(&said.trim().to_ascii_lowercase().as_str());
    if is_known || before.as_ref() == Some(&now) {
        return Ok(());
    }
    let path = Path::new("metadata").child("annotations").key(keys::HOLD);
    let detail = "must be a time such as 2026-12-01T08:00:00Z, or true: until it is taken away";
    let error = field::Error::invalid(path, said, detail);
    Err(Error::invalid(
        resource.group,
        resource.kind,
        resource.name,
        &[error],
    ))
}

/// A kind crosses once: of two that say how, each would take the other's objects for gone.
fn unique(known: &Known, object: &Value) -> Result<(), String> {
    let spec = |field: &str| object["spec"][field].as_str().unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    // One of the same name is there already, which is said elsewhere.
    let mut others = known.synced.values().filter(|other| other.name() != name);
    let other =
        others.find(|other| other.spec.group == spec("group") && other.spec.kind == spec("kind"));
    other.map_or(Ok(()), |other| {
        Err(format!(
            "the SyncedKind {} is for {} already; change that one, or delete it first",
            other.name(),
            spec("kind")
        ))
    })
}

impl Admission for Ownership {
    fn admit<'a>(&'a self, mut review: Review<'a>) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            self.ready(&review).await;
            self.restore_computed(&mut review);
            self.salt_secret(&mut review);
            check_hold(&review)?;
            self.judge(&review)
        })
    }

    fn caught_up<'a>(
        &'a self,
        group: &str,
        _plural: &str,
        revision: Revision,
    ) -> Option<BoxFuture<'a, ()>> {
        if group != GROUP && group != DEFINITIONS {
            return None;
        }
        let at = revision.get();
        // An error means that the process stops.
        Some(match &self.follows {
            Some(follows) => {
                let mut positions = follows.positions();
                Box::pin(async move { drop(positions.wait_for(|now| *now >= at).await) })
            }
            None if group == DEFINITIONS => {
                let mut known = self.known.clone();
                Box::pin(async move {
                    let caught_up = known.wait_for(|known| known.at >= at);
                    // A deletion may not be told when what is there is told anew.
                    drop(tokio::time::timeout(LATE, caught_up).await);
                })
            }
            None => return None,
        })
    }
}

/// Whether a definition is one of those that the process itself installs, and follows.
fn is_ours(definition: &str) -> bool {
    let (_, group) = definition.split_once('.').unwrap_or_default();
    group == GROUP || OURS.contains(&definition)
}

/// Groups of definitions have a dot, and Kubernetes' own groups end like this.
fn is_custom(group: &str) -> bool {
    group.contains('.') && !group.ends_with(".k8s.io")
}

#[cfg(test)]
mod api_tests;

#[cfg(test)]
mod tests {
    use deltaplane_api::identity::Identity;
    use deltaplane_apiserver::seams::Resource;
    use deltaplane_sync::Computed;
    use futures::FutureExt;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_zone_does_not_guess_what_is_computed() {
        let (known, follows) = watch::channel(Arc::<Known>::default());
        let zone = "eu-1".parse().expect("legal");
        let ownership = Ownership::in_zone(zone, follows);
        let user = Identity::authenticated("ann", &[]);
        let (mut object, mut warnings) = (json!({"spec": {"state": "on"}}), Vec::new());
        let resource = Resource {
            group: "example.com",
            version: "v1",
            kind: "Gear",
            plural: "gears",
            subresource: "",
            namespace: "",
            name: "a",
        };
        let mut admitted = ownership.admit(Review {
            user: &user,
            operation: Operation::Create,
            resource,
            object: &mut object,
            old: None,
            dry_run: false,
            warnings: &mut warnings,
            may: &|_| true,
        });
        assert!((&mut admitted).now_or_never().is_none(), "not known yet");
        known.send_modify(|known| {
            let key = ("example.com".to_owned(), "gears".to_owned());
            let known = Arc::make_mut(known);
            known.computed.insert(key, Computed::list("spec.state"));
            known.at = 7;
        });
        let refusal = admitted.await.expect_err("it is computed").to_string();
        assert!(refusal.contains("spec.state is computed"), "{refusal}");
        let revision = |number: u64| Revision::new(number);
        let waits = |number| {
            let caught_up = ownership.caught_up(DEFINITIONS, "", revision(number));
            caught_up.expect("it follows definitions").now_or_never()
        };
        assert!(waits(7).is_some());
        assert!(waits(8).is_none());
    }

    #[tokio::test]
    async fn computed_fields_that_are_left_out_are_unchanged() {
        let mut known = Known::default();
        let key = ("example.com".to_owned(), "gears".to_owned());
        let computed = Computed::list("spec.state, spec.network.address");
        known.computed.insert(key, computed);
        known.at = 7;
        let (_known, follows) = watch::channel(Arc::new(known));
        let ownership = Ownership::in_zone("eu-1".parse().expect("legal"), follows);
        let network = json!({"address": "10.0.0.1"});
        let old = json!({"spec": {"size": 1, "state": "on", "network": network}});
        fn resource(subresource: &str) -> Resource<'_> {
            Resource {
                group: "example.com",
                version: "v1",
                kind: "Gear",
                plural: "gears",
                subresource,
                namespace: "",
                name: "a",
            }
        }
        let write = async |user: &str, subresource: &str, mut object: Value| {
            let user = Identity::authenticated(user, &[]);
            let mut warnings = Vec::new();
            let review = Review {
                may: &|_| true,
                user: &user,
                operation: Operation::Update,
                resource: resource(subresource),
                object: &mut object,
                old: Some(&old),
                dry_run: false,
                warnings: &mut warnings,
            };
            let admitted = ownership.admit(review).await;
            admitted.map(|()| object["spec"].clone()).ok()
        };
        let kept = json!({"size": 2, "state": "on", "network": network});
        let without = json!({"spec": {"size": 2}});
        assert_eq!(write("ann", "", without.clone()).await, Some(kept.clone()));
        let equal = json!({"spec": kept.clone()});
        assert_eq!(write("ann", "", equal).await, Some(kept));
        let other = json!({"spec": {"size": 2, "state": "off"}});
        assert_eq!(write("ann", "", other).await, None);
        let other = json!({"spec": {"size": 2, "network": {"address": "10.0.0.2"}}});
        assert_eq!(write("ann", "", other).await, None);
        let removed = json!({"spec": {"size": 1}});
        let left = Some(json!({"size": 1}));
        assert_eq!(write("robot", "computed", removed.clone()).await, left);
        // Sync itself may, of what it applied.
        let mut review_old = old.clone();
        review_old["metadata"] = json!({"labels": {"deltaplane.io/origin": "hub"}});
        let mut object = json!({"metadata": review_old["metadata"], "spec": {"size": 1}});
        let user = Identity::authenticated(SYNC_USER, &[]);
        let mut warnings = Vec::new();
        let review = Review {
            may: &|_| true,
            user: &user,
            operation: Operation::Update,
            resource: resource(""),
            object: &mut object,
            old: Some(&review_old),
            dry_run: false,
            warnings: &mut warnings,
        };
        ownership.admit(review).await.expect("it is sync's");
        assert_eq!(object["spec"], json!({"size": 1}));
    }

    #[tokio::test]
    async fn secrets_that_cross_are_salted_when_they_are_written() {
        let (_known, follows) = watch::channel(Arc::<Known>::default());
        let ownership = Ownership::in_zone("eu-1".parse().expect("legal"), follows);
        let salt = async |user: &str, kind: &'static str| {
            let user = Identity::authenticated(user, &[]);
            let labels = json!({"deltaplane.io/sync": "true"});
            let mut object = json!({"metadata": {"name": "a", "labels": labels}});
            let review = Review {
                may: &|_| true,
                user: &user,
                operation: Operation::Create,
                resource: Resource {
                    group: "",
                    version: "v1",
                    kind,
                    plural: "any",
                    subresource: "",
                    namespace: "team",
                    name: "a",
                },
                object: &mut object,
                old: None,
                dry_run: false,
                warnings: &mut Vec::new(),
            };
            ownership.admit(review).await.expect("admitted");
            object["metadata"]["annotations"]["deltaplane.io/salt"].clone()
        };
        let first = salt("ann", "Secret").await;
        assert!(
            first.as_str().is_some_and(|salt| salt.len() >= 32),
            "{first}"
        );
        assert_ne!(salt("ann", "Secret").await, first);
        assert_eq!(salt("ann", "ConfigMap").await, Value::Null);
        assert_eq!(salt(SYNC_USER, "Secret").await, Value::Null);
    }

    #[tokio::test]
    async fn a_hold_that_is_no_time_is_refused() {
        let known = Known {
            at: 7,
            ..Known::default()
        };
        let (_known, follows) = watch::channel(Arc::new(known));
        let ownership = Ownership::in_zone("eu-1".parse().expect("legal"), follows);
        let held = |hold: &str| json!({"metadata": {"annotations": {keys::HOLD: hold}}});
        let write = async |user: &str, old: Option<&Value>, hold: &str| {
            let review = Review {
                user: &Identity::authenticated(user, &[]),
                operation: old.map_or(Operation::Create, |_| Operation::Update),
                resource: Resource {
                    group: GROUP,
                    version: "v1alpha1",
                    kind: "Zone",
                    plural: "zones",
                    subresource: "",
                    namespace: "",
                    name: "eu-1",
                },
                object: &mut held(hold),
                old,
                dry_run: false,
                warnings: &mut Vec::new(),
                may: &|_| true,
            };
            let admitted = ownership.admit(review).await;
            admitted.map_err(|error| error.to_string())
        };
        for good in [
            "true",
            "False",
            "2026-12-01T08:00:00Z",
            " 2026-12-01T08:00:00+02:00",
        ] {
            assert_eq!(write("ann", None, good).await, Ok(()), "{good}");
        }
        let refused = write("ann", None, "tomorrow").await.expect_err("no time");
        let why = "metadata.annotations[deltaplane.io/hold]: Invalid value: \"tomorrow\": must be a time such as 2026-12-01T08:00:00Z, or true";
        assert!(refused.contains(why), "{refused}");
        let before = held("true");
        assert!(write("ann", Some(&before), "2026-12-01").await.is_err());
        // Values that earlier versions took stay as they are, and so do those that come from elsewhere.
        let before = held("tomorrow");
        assert_eq!(write("ann", Some(&before), "tomorrow").await, Ok(()));
        assert_eq!(write(SYNC_USER, None, "tomorrow").await, Ok(()));
    }

    #[tokio::test]
    async fn nobody_deletes_what_the_process_is_run_by() {
        let (_known, follows) = watch::channel(Arc::<Known>::default());
        let ownership = Ownership::in_zone("eu-1".parse().expect("legal"), follows);
        let delete = |user: &'static str, name: &'static str| {
            let ownership = &ownership;
            async move {
                let user = Identity::authenticated(user, &[]);
                let (mut object, mut warnings) = (json!({}), Vec::new());
                let resource = Resource {
                    group: DEFINITIONS,
                    version: "v1",
                    kind: "CustomResourceDefinition",
                    plural: "customresourcedefinitions",
                    subresource: "",
                    namespace: "",
                    name,
                };
                let review = Review {
                    user: &user,
                    operation: Operation::Delete,
                    resource,
                    object: &mut object,
                    old: Some(&json!({"metadata": {"name": name}})),
                    dry_run: false,
                    warnings: &mut warnings,
                    may: &|_| true,
                };
                ownership.admit(review).await.is_ok()
            }
        };
        for ours in [
            "zones.fleet.deltaplane.io",
            "resourcegraphdefinitions.kro.run",
        ] {
            assert!(!delete("ann", ours).await, "{ours}");
            assert!(delete(CONTROLLERS, ours).await, "{ours}");
        }
        assert!(delete("ann", "zones.example.com").await);
        assert!(delete("ann", "shops.kro.run").await);
    }

    /// Otherwise whoever may change definitions takes the rules out of ours.
    #[tokio::test]
    async fn nobody_changes_what_the_process_is_run_by() {
        let (_known, follows) = watch::channel(Arc::<Known>::default());
        let ownership = Ownership::in_zone("eu-1".parse().expect("legal"), follows);
        let update = async |user: &str, name: &str| {
            let user = Identity::authenticated(user, &[]);
            let old = json!({"metadata": {"name": name}, "spec": {"rules": 1}});
            let mut object = json!({"metadata": {"name": name}, "spec": {}});
            let review = Review {
                user: &user,
                operation: Operation::Update,
                resource: Resource {
                    group: DEFINITIONS,
                    version: "v1",
                    kind: "CustomResourceDefinition",
                    plural: "customresourcedefinitions",
                    subresource: "",
                    namespace: "",
                    name,
                },
                object: &mut object,
                old: Some(&old),
                dry_run: false,
                warnings: &mut Vec::new(),
                may: &|_| true,
            };
            ownership.admit(review).await.is_ok()
        };
        assert!(!update("ann", "approvals.fleet.deltaplane.io").await);
        assert!(update(CONTROLLERS, "approvals.fleet.deltaplane.io").await);
        assert!(update("ann", "zones.example.com").await);
    }
}
