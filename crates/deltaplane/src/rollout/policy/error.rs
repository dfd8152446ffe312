//! Why there is no answer about a policy, and what to do about it.

use deltaplane_client::RequestError;

use super::super::error::first;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PolicyError {
    #[error("there is no PropagationPolicy {name}")]
    NoPolicy {
        name: String,
        near: Option<String>,
        known: Vec<String>,
    },
    #[error("there is no PropagationPolicy and no ResourceGraphDefinition {name}")]
    Neither {
        name: String,
        near: Option<String>,
        /// As `policy/web` and `graph/shop`.
        known: Vec<String>,
    },
    #[error("policies are not served there")]
    NotServed(#[source] Box<RequestError>),
    #[error("both a PropagationPolicy and a ResourceGraphDefinition are called {0}")]
    Ambiguous(String),
    #[error("it is not known whether {name} is a PropagationPolicy or a ResourceGraphDefinition")]
    Unclear {
        name: String,
        #[source]
        source: Box<RequestError>,
    },
    #[error("{0} is for policies alone, and this is a graph")]
    NotForGraphs(&'static str),
    #[error("{0} is for graphs alone, and this is a policy")]
    NotForPolicies(&'static str),
    #[error("{policy} has no release {number}")]
    NoRelease {
        policy: String,
        number: u64,
        known: Vec<u64>,
    },
    #[error("{policy} has no stage {stage}")]
    NoStage {
        policy: String,
        stage: String,
        known: Vec<String>,
    },
    #[error("{policy} is not for zone {zone}")]
    NoZone {
        policy: String,
        zone: String,
        known: Vec<String>,
    },
    #[error("nothing of {policy} waits for approval")]
    NothingWaits { policy: String, instead: String },
    #[error("{policy} has no older release with another content that completed all stages")]
    NothingBefore { policy: String },
    #[error("the hub's answer cannot be read")]
    Unreadable(#[source] Option<serde_json::Error>),
}

// === impl PolicyError ===

impl PolicyError {
    pub(crate) fn hint(&self) -> String {
        let known = |names: &[String]| match names {
            [] => "there are none".to_owned(),
            names => format!("there are {}", first(names)),
        };
        match self {
            Self::NoPolicy {
                near: Some(near), ..
            }
            | Self::Neither {
                near: Some(near), ..
            } => near.clone(),
            Self::NotServed(_) => "only hubs serve them; use the kubeconfig of a hub".to_owned(),
            Self::NoPolicy { known: names, .. }
            | Self::Neither { known: names, .. }
            | Self::NoStage { known: names, .. }
            | Self::NoZone { known: names, .. } => known(names),
            Self::Ambiguous(name) | Self::Unclear { name, .. } => {
                format!("say policy/{name} or graph/{name}")
            }
            Self::NotForGraphs(_) | Self::NotForPolicies(_) => {
                "deltaplane rollout --help lists what there is".to_owned()
            }
            Self::NoRelease { known: numbers, .. } => {
                let names: Vec<String> = numbers.iter().map(ToString::to_string).collect();
                known(&names)
            }
            Self::NothingWaits { instead, .. } => instead.clone(),
            Self::NothingBefore { policy } => {
                format!(
                    "deltaplane rollout history policy/{policy} lists what is kept; --to brings back any of it"
                )
            }
            Self::Unreadable(_) => "use the deltaplane of the same version as the hub".to_owned(),
        }
    }
}
