//! Clients: to a server in this process, or to one elsewhere.

mod chunks;

use std::path::Path;

use http::header::{HeaderValue, USER_AGENT};
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use tower::{BoxError, Service, ServiceExt};

use deltaplane_api::identity::Identity;

use self::chunks::Chunks;

/// A remote client could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig is missing, or cannot be used.
    #[error("failed to read the kubeconfig")]
    Kubeconfig(#[from] KubeconfigError),
    /// What it says does not make a client.
    #[error("failed to make a client of the kubeconfig")]
    Client(#[source] Box<kube::Error>),
    /// The path below the server is none.
    #[error("failed to make an address of the path")]
    Path(#[source] http::uri::InvalidUri),
}

/// What the server writes down as the manager of the fields that we set.
const OUR_NAME: HeaderValue = HeaderValue::from_static("deltaplane");

/// A client of a server in this process, without sockets, as the given user.
///
/// The server trusts the identity that it finds in a request's extensions, which no request from
/// outside the process can carry.
pub fn in_process<S, B>(service: S, identity: Identity) -> Client
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data: Send> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let service = service.map_request(move |mut request: Request<Body>| {
        request.extensions_mut().insert(identity.clone());
        let headers = request.headers_mut();
        headers.entry(USER_AGENT).or_insert(OUR_NAME);
        request
    });
    let service = service.map_response(|response| response.map(Chunks::new));
    Client::new(service, "default")
}

/// A client of the current context of a kubeconfig.
pub async fn remote(kubeconfig: &Path) -> Result<Client, ConnectError> {
    remote_below(kubeconfig, "").await
}

/// The same, of the API below a path of that server, such as `/zones/eu-1`.
pub async fn remote_below(kubeconfig: &Path, path: &str) -> Result<Client, ConnectError> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let options = KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    if !path.is_empty() {
        let url = config.cluster_url.to_string();
        let url = format!("{}{path}", url.trim_end_matches('/'));
        config.cluster_url = url.parse().map_err(ConnectError::Path)?;
        // Whoever is behind it may be away for long, which the answer says.
        config.default_retry = false;
    }
    Client::try_from(config).map_err(|error| ConnectError::Client(Box::new(error)))
}
