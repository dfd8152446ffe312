//! Requests over one connection, one after the other.

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;

use super::target::Target;

/// The media type of most requests.
pub(crate) const JSON: &str = "application/json";

/// A client with a connection of its own.
pub(crate) struct Client {
    sender: SendRequest<Full<Bytes>>,
    authorization: Option<String>,
}

// === impl Client ===

impl Client {
    pub(crate) async fn connect(target: &Target) -> Result<Self> {
        let stream = target.connect().await?;
        let (sender, connection) = handshake(TokioIo::new(stream))
            .await
            .context("starting HTTP")?;
        #[expect(clippy::disallowed_methods, reason = "the load ends with the process")]
        tokio::spawn(async move {
            // An error here shows as a failed request.
            let _ = connection.await;
        });
        Ok(Self {
            sender,
            authorization: target.authorization.clone(),
        })
    }

    /// Waits until the connection takes a request; what fails here was not sent.
    pub(crate) async fn ready(&mut self) -> Result<()> {
        self.sender.ready().await.context("the connection ended")
    }

    /// Sends a request; what fails here may have been carried out.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<http::Response<Incoming>> {
        self.ready().await?;
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "127.0.0.1")
            .header("accept", "application/json")
            .header("user-agent", "xtask/1")
            .header("content-type", content_type);
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let request = request
            .body(Full::new(body))
            .context("building a request")?;
        self.sender
            .send_request(request)
            .await
            .context("sending a request")
    }

    /// A request whose answer is read and thrown away; gives the answer's size.
    pub(crate) async fn call(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
        expected: StatusCode,
    ) -> Result<usize> {
        let answer = self.send(method, path, JSON, body).await?;
        let status = answer.status();
        let mut incoming = answer.into_body();
        let mut size = 0;
        let mut shown = Vec::new();
        while let Some(frame) = incoming.frame().await {
            let frame = frame.context("reading an answer")?;
            if let Some(data) = frame.data_ref() {
                size += data.len();
                if status != expected && shown.len() < 500 {
                    shown.extend_from_slice(data);
                }
            }
        }
        if status != expected {
            bail!("{path}: {status}: {}", String::from_utf8_lossy(&shown));
        }
        Ok(size)
    }

    /// The whole answer.
    pub(crate) async fn get(&mut self, path: &str) -> Result<Bytes> {
        let answer = self.send(Method::GET, path, JSON, Bytes::new()).await?;
        Ok(answer
            .into_body()
            .collect()
            .await
            .context("reading an answer")?
            .to_bytes())
    }

    /// The body of a watch, read as it comes.
    pub(crate) async fn watch(mut self, path: &str) -> Result<Incoming> {
        let answer = self.send(Method::GET, path, JSON, Bytes::new()).await?;
        if answer.status() != StatusCode::OK {
            bail!("{path}: {}", answer.status());
        }
        Ok(answer.into_body())
    }
}
