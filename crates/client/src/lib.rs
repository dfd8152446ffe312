//! Clients of a Kubernetes API, in this process or elsewhere, and what controllers need of one:
//! feeds of objects, caches of them, discovery.
//!
//! Not here: deciding anything about objects; serving them.
//!
//! Invariants: only [`in_process`] puts an identity into a request; an object's body is parsed
//! when it is asked for and not before; losing touch with the server never looks like a deletion.
//!
//! ```
//! use std::convert::Infallible;
//!
//! use deltaplane_api::identity::Identity;
//! use deltaplane_client::{in_process, request};
//! use http::{Request, Response};
//! use kube::client::Body;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), deltaplane_client::RequestError> {
//! // Any tower service is a server.
//! let server = tower::service_fn(|request: Request<Body>| async move {
//!     let user = &request.extensions().get::<Identity>().expect("told by the client").name;
//!     Ok::<_, Infallible>(Response::new(format!("{user:?}")))
//! });
//! let client = in_process(server, Identity::authenticated("controller", &[]));
//! let answer: String = request::get(&client, "/whoami").await?;
//! assert_eq!(answer, "controller");
//! # Ok(())
//! # }
//! ```

pub mod cache;
mod connect;
pub mod discovery;
pub mod feed;
pub mod header;
pub mod pace;
pub mod request;
pub mod resource;

pub use cache::Cache;
pub use connect::{ConnectError, in_process, remote, remote_below, remote_merged};
pub use discovery::{Catalog, Discovery};
pub use feed::{Event, Feed, Query};
pub use header::{Header, Item};
pub use pace::Pace;
pub use request::RequestError;
pub use resource::{ObjectKey, Resource};
