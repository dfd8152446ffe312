//! Why nothing could be planned, and what to do about it.

use deltaplane_client::RequestError;

use crate::client::ClientError;
use crate::graph::GraphError;
use crate::rollout::RolloutError;

/// Why nothing could be planned.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Graph(#[from] GraphError),
    #[error(transparent)]
    Read(#[from] RolloutError),
    /// All that is wrong with them is drawn.
    #[error("there are documents that cannot be read:\n{wrong}")]
    Documents { wrong: String },
    #[error("the hub did not answer")]
    Ask(#[source] Box<RequestError>),
    #[error("the hub would not take {what}")]
    Refused {
        what: String,
        #[source]
        source: Box<RequestError>,
    },
    #[error("{word:?} is no kind and name")]
    Word { word: String },
    #[error("there is no kind {word}")]
    NoKind { word: String },
    #[error("there are several kinds {word}")]
    Several { word: String, known: Vec<String> },
    #[error("there is no {kind} {name}")]
    NoObject { kind: String, name: String },
}

// === impl PlanError ===

impl PlanError {
    /// As the help text lists them.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Graph(_) | Self::Documents { .. } | Self::Word { .. } => 2,
            Self::Client(_)
            | Self::Read(_)
            | Self::Ask(_)
            | Self::Refused { .. }
            | Self::NoKind { .. }
            | Self::Several { .. }
            | Self::NoObject { .. } => 1,
        }
    }

    pub(crate) fn hint(&self) -> String {
        match self {
            Self::Client(error) => error.hint(),
            Self::Graph(error) => error.hint(),
            Self::Read(error) => error.hint(),
            Self::Documents { .. } => "nothing was planned".to_owned(),
            Self::Ask(error) => match error.code() {
                None => "check that the hub runs, and that the kubeconfig is its own".to_owned(),
                Some(401 | 403) => {
                    "use a kubeconfig of a user who may create propagationpolicies/_plan".to_owned()
                }
                Some(_) => "what the hub said is above".to_owned(),
            },
            Self::Refused { .. } => "change it as is said above; nothing was written".to_owned(),
            Self::Word { .. } => "write it as configmap/web".to_owned(),
            Self::NoKind { .. } => "kubectl api-resources lists them".to_owned(),
            Self::Several { known, .. } => format!("say which: {}", known.join(", ")),
            Self::NoObject { .. } => "say where with -n <namespace>".to_owned(),
        }
    }
}
