//! Why there is no answer, and what to do about it.

use deltaplane_api::time::Time;
use deltaplane_client::RequestError;
use deltaplane_graph::Problems;

use super::names::InstanceName;
use super::policy::PolicyError;
use crate::client::ClientError;
use crate::graph::GraphError;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RolloutError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the API did not answer")]
    Ask(#[source] Box<RequestError>),
    #[error("there is no ResourceGraphDefinition {name}")]
    NoDefinition {
        name: String,
        near: Option<String>,
        known: Vec<String>,
    },
    #[error("{definition} has no instance {name}")]
    NoInstance {
        definition: String,
        name: InstanceName,
        known: Vec<String>,
    },
    #[error("{definition} has several instances {name}")]
    Several {
        definition: String,
        name: InstanceName,
        known: Vec<String>,
    },
    #[error("there is no kind {word} of a graph")]
    NoKind { word: String, known: Vec<String> },
    #[error("{definition} has no revision {number}")]
    NoRevision {
        definition: String,
        number: i64,
        known: Vec<i64>,
    },
    #[error("{until} is over")]
    Over { until: Time },
    #[error("no deletions of {definition} are held")]
    NothingHeld {
        definition: String,
        /// The version of the definition as it is now.
        now: Option<String>,
        /// Zones that did not answer.
        lost: Vec<String>,
    },
    #[error("several versions of {definition} hold deletions")]
    SeveralHeld {
        definition: String,
        versions: Vec<String>,
    },
    #[error("{0} was nothing else before")]
    NothingBefore(String),
    #[error("the API did not write it")]
    Write {
        #[source]
        source: Box<RequestError>,
        /// What would do where the object is from.
        instead: Option<String>,
    },
    #[error("revision {number} of {definition} cannot be used here")]
    Compile {
        definition: String,
        number: i64,
        #[source]
        source: Box<Problems>,
    },
    #[error(transparent)]
    Graph(#[from] GraphError),
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

/// So many names are listed in a hint.
const LISTED: usize = 20;

// === impl RolloutError ===

impl RolloutError {
    /// Of a request that only reads.
    pub(crate) fn request(error: RequestError) -> Self {
        let refusal = error.refusal();
        let zone = refusal.filter(|refusal| refusal.code == 404 && refusal.kind == "zones");
        match zone.and_then(|refusal| refusal.name.parse().ok()) {
            Some(zone) => Self::Client(ClientError::NoZone(zone)),
            None => Self::Ask(Box::new(error)),
        }
    }

    /// Whether it may be otherwise when the same is asked again.
    pub(super) fn is_passing(&self) -> bool {
        let Self::Ask(error) = self else {
            return false;
        };
        error.code().is_none_or(|code| code == 429 || code >= 500)
    }

    pub(crate) fn hint(&self) -> String {
        match self {
            Self::Client(error) => error.hint(),
            Self::Ask(error) => match error.code() {
                None => "check that it runs, and that the kubeconfig is its own".to_owned(),
                Some(401 | 403) => "use a kubeconfig of a user who may do this".to_owned(),
                Some(404) => "graphs are not served there; check the kubeconfig".to_owned(),
                Some(_) => "what the API said is above".to_owned(),
            },
            Self::NoDefinition {
                near: Some(near), ..
            } => near.clone(),
            Self::NoDefinition { known, .. } => match known.as_slice() {
                [] => "there are none; apply one, or ask elsewhere with --kubeconfig or --zone"
                    .to_owned(),
                known => format!("there are {}", first(known)),
            },
            Self::NoInstance { known, .. } => match known.as_slice() {
                [] => "it has no instances at all; ask elsewhere with --kubeconfig or --zone"
                    .to_owned(),
                known => format!("there are {}", first(known)),
            },
            Self::Several { known, .. } => {
                format!("say which with -n <namespace>: {}", first(known))
            }
            Self::NoKind { known, .. } => match known.as_slice() {
                [] => "no graph makes a kind here; ask elsewhere with --kubeconfig or --zone"
                    .to_owned(),
                known => format!("there are {}", first(known)),
            },
            Self::NoRevision { known, .. } => match known.as_slice() {
                [] => "it has no revisions yet".to_owned(),
                known => {
                    let known: Vec<String> = known.iter().map(ToString::to_string).collect();
                    format!("there are {}", known.join(", "))
                }
            },
            Self::Over { .. } => {
                "give a time to come, or how long (2h), or nothing: until it is released".to_owned()
            }
            Self::NothingHeld {
                definition,
                now,
                lost,
            } => {
                let beforehand = match now {
                    Some(now) => format!(
                        "to approve what it may come to delete: deltaplane rollout approve graph/{definition} --deletions --version {now}"
                    ),
                    None => "the definition is not valid; see its conditions".to_owned(),
                };
                match lost.as_slice() {
                    [] => beforehand,
                    lost => format!("these zones did not answer: {}; {beforehand}", first(lost)),
                }
            }
            Self::SeveralHeld { versions, .. } => {
                format!("say which with --version: {}", first(versions))
            }
            Self::NothingBefore(name) => {
                format!("deltaplane rollout history graph/{name} lists what it was")
            }
            Self::Write {
                instead: Some(instead),
                ..
            } => instead.clone(),
            Self::Write { source, .. } => match source.code() {
                Some(405) => "zones are only read through their hub; use the zone's own kubeconfig"
                    .to_owned(),
                Some(409) => "somebody else changed it meanwhile; try again".to_owned(),
                Some(401 | 403) => "use a kubeconfig of a user who may do this".to_owned(),
                Some(_) | None => "what the API said is above".to_owned(),
            },
            Self::Compile { .. } => {
                "the kinds that it uses may have changed since; see above".to_owned()
            }
            Self::Graph(error) => error.hint(),
            Self::Policy(error) => error.hint(),
        }
    }
}

/// The first of some names.
pub(super) fn first(names: &[String]) -> String {
    match names.len() {
        0..=LISTED => names.join(", "),
        more => format!("{} and {} more", names[..LISTED].join(", "), more - LISTED),
    }
}
