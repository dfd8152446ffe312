//! Clients: to a server in this process, or to one elsewhere.

mod chunks;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::{HeaderValue, USER_AGENT};
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use kube::client::retry::RetryPolicy;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use tower::retry::Retry;
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

/// So often a request is repeated, as kubectl does.
const RETRIES: u32 = 10;
/// The pauses between, unless the server says how long to wait.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

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
    client_of(Kubeconfig::read_from(kubeconfig)?, path).await
}

/// A client of the API below a path, of the current context of several kubeconfigs that are merged
/// as kubectl merges those of `KUBECONFIG`.
pub async fn remote_merged(kubeconfigs: &[PathBuf], path: &str) -> Result<Client, ConnectError> {
    client_of(merged(kubeconfigs)?, path).await
}

async fn client_of(kubeconfig: Kubeconfig, path: &str) -> Result<Client, ConnectError> {
    let options = KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    if !path.is_empty() {
        let url = config.cluster_url.to_string();
        let url = format!("{}{path}", url.trim_end_matches('/'));
        config.cluster_url = url.parse().map_err(ConnectError::Path)?;
    }
    // kube asks so often that nobody waits for the last refusal, which says why.
    config.default_retry = false;
    let client = Client::try_from(config).map_err(|error| ConnectError::Client(Box::new(error)))?;
    if path.is_empty() {
        Ok(retrying(client))
    } else {
        // Whoever is behind it may be away for long, which the answer says.
        Ok(client)
    }
}

/// Repeats requests that are refused for the moment, and answers with the last refusal before
/// [`request`](crate::request) gives up.
fn retrying(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let policy = RetryPolicy::new(SHORTEST_PAUSE, LONGEST_PAUSE, RETRIES, true);
    let policy = policy.expect("the pauses are in order");
    let service = tower::service_fn(move |request| {
        let client = client.clone();
        async move { client.send(request).await.map_err(BoxError::from) }
    });
    Client::new(Retry::new(policy, service), namespace)
}

/// The first file that sets something wins; an empty current context sets nothing, and files that
/// do not exist are passed over, unless none does.
fn merged(files: &[PathBuf]) -> Result<Kubeconfig, KubeconfigError> {
    let mut merged: Option<Kubeconfig> = None;
    let mut missing = None;
    for file in files {
        let mut next = match Kubeconfig::read_from(file) {
            Err(KubeconfigError::ReadConfig(error, path))
                if error.kind() == io::ErrorKind::NotFound =>
            {
                missing.get_or_insert(KubeconfigError::ReadConfig(error, path));
                continue;
            }
            read => read?,
        };
        next.current_context = next.current_context.filter(|context| !context.is_empty());
        merged = Some(merged.unwrap_or_default().merge(next)?);
    }
    match (merged, missing) {
        (Some(merged), _) => Ok(merged),
        (None, Some(missing)) => Err(missing),
        (None, None) => Err(KubeconfigError::FindPath),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use serde_json::{Value, json};
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::net::TcpListener;

    use super::*;
    use crate::request;

    const CLUSTER: &str = "
apiVersion: v1
kind: Config
current-context: ''
clusters: [{name: hub, cluster: {server: 'https://hub.example:7443'}}]
contexts: [{name: spare, context: {cluster: hub, user: nobody}}]
";
    const USERS: &str = "
apiVersion: v1
kind: Config
current-context: hub
clusters: [{name: hub, cluster: {server: 'https://other.example'}}]
users: [{name: ann, user: {token: t}}]
contexts: [{name: hub, context: {cluster: hub, user: ann}}]
";

    #[tokio::test]
    async fn files_are_merged_as_kubectl_merges_them() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("a"), CLUSTER).expect("written");
        std::fs::write(path("b"), USERS).expect("written");
        let both = merged(&[path("none"), path("a"), path("b")]).expect("two can be read");
        assert_eq!(both.current_context.as_deref(), Some("hub"));
        let names: Vec<&str> = both.contexts.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["spare", "hub"]);
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(both, &options).await;
        let url = config.expect("usable").cluster_url;
        assert_eq!(url.to_string(), "https://hub.example:7443/");
        let missing = merged(&[path("none"), path("neither")]).expect_err("there is none");
        assert!(missing.to_string().contains("none"), "{missing}");
        std::fs::write(path("c"), "{").expect("written");
        assert!(
            merged(&[path("a"), path("c")]).is_err(),
            "what cannot be read is told"
        );
    }

    /// A server on a full disk refuses every write so.
    async fn full_disk(_: Request<Body>) -> Result<Response<Body>, Infallible> {
        let status = json!({"code": 503, "message": "no space left on device"});
        let answer = Response::builder().status(503).header("retry-after", "1");
        Ok(answer
            .body(Body::from(status.to_string().into_bytes()))
            .expect("a response"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_lasting_refusal_is_told_before_the_time_is_over() {
        let client = Client::new(tower::service_fn(full_disk), "default");
        let client = retrying(client);
        let error = request::create::<Value>(&client, "/api/v1/namespaces", &json!({})).await;
        let error = error.expect_err("a refusal");
        let refusal = error.refusal().expect("the server was reached");
        assert_eq!(refusal.message, "no space left on device");
    }

    /// Answers every request on a connection as a server on a full disk; counts the requests.
    async fn serve_full_disk(listener: TcpListener, requests: &Cell<usize>) {
        let (stream, _) = listener.accept().await.expect("a connection");
        let (reader, mut writer) = stream.into_split();
        let mut lines = BufReader::new(reader).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            // The end of the head; a GET has no body.
            if line.is_empty() {
                requests.set(requests.get() + 1);
                let status = json!({"code": 503, "message": "no space left on device"}).to_string();
                let head = format!("content-length: {}", status.len());
                let answer = format!("HTTP/1.1 503 Service Unavailable\r\n{head}\r\n\r\n{status}");
                writer.write_all(answer.as_bytes()).await.expect("written");
            }
        }
    }

    /// Of an API below a path no refusal is repeated, also not by kube.
    #[tokio::test]
    async fn a_refusal_of_an_api_below_a_path_is_told_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let kubeconfig = CLUSTER
            .replace("https://hub.example:7443", &format!("http://{address}"))
            .replace("current-context: ''", "current-context: spare")
            .replace(", user: nobody", "");
        let kubeconfig = Kubeconfig::from_yaml(&kubeconfig).expect("well-formed");
        let client = client_of(kubeconfig, "/zones/eu-1")
            .await
            .expect("a client");
        let requests = Cell::new(0);
        let path = "/api/v1/namespaces/default";
        let error = tokio::select! {
            found = request::get::<Value>(&client, path) => found.expect_err("a refusal"),
            () = serve_full_disk(listener, &requests) => panic!("the client goes on to ask"),
        };
        let refusal = error.refusal().expect("the server was reached");
        assert_eq!(refusal.message, "no space left on device");
        assert_eq!(requests.get(), 1);
    }
}
