//! What other crates add to the server: decisions about writes, computed subresources, and columns.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use deltaplane_api::identity::Identity;
use deltaplane_store::Revision;
use http::{HeaderMap, Method, Response};
use serde_json::Value;

use crate::body::Body;
use crate::error::Error;

/// A boxed future, which keeps the seams usable as trait objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Decides about writes before they are stored, and may change what is stored.
///
/// Called for whatever is written, by whichever verb and subresource, after defaulting and before
/// validation, for every attempt of a write (a write that meets another is tried again), so it must
/// be repeatable. Also called for dry runs.
pub trait Admission: Send + Sync {
    /// Lets the write pass, perhaps with a changed object, or refuses it.
    fn admit<'a>(&'a self, review: Review<'a>) -> BoxFuture<'a, Result<(), Error>>;

    /// Lets the write pass, or refuses it, by the object as it would be stored, but for what the
    /// server keeps in its metadata: everyone has admitted it, and computed fields have their
    /// defaults. Not asked about deletions.
    fn conclude(&self, review: &Review<'_>) -> Result<(), Error> {
        let _ = review;
        Ok(())
    }

    /// Waits until what this remembers of the store shows `revision`, in which objects of this kind
    /// were written: the answer to the write does too, so that whatever is asked after it is decided
    /// by it. None if this remembers nothing of such objects.
    ///
    /// The group is the one in which the kind is stored. Whoever stops following the store lets go
    /// of those who wait.
    fn caught_up<'a>(
        &'a self,
        group: &str,
        plural: &str,
        revision: Revision,
    ) -> Option<BoxFuture<'a, ()>> {
        let _ = (group, plural, revision);
        None
    }
}

/// A write under review.
pub struct Review<'a> {
    /// Who writes.
    pub user: &'a Identity,
    /// What is done.
    pub operation: Operation,
    /// The kind and the object.
    pub resource: Resource<'a>,
    /// The whole object as it would be stored, whatever part of it the request is about; for a
    /// deletion, as it is told of for the last time, or until its finalizers are done. May be
    /// changed.
    pub object: &'a mut Value,
    /// The object as it is stored; none for a creation.
    pub old: Option<&'a Value>,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// Texts for the `Warning` headers of the answer.
    pub warnings: &'a mut Vec<String>,
    /// What else the user may do, by the same RBAC that allowed this write.
    pub may: &'a UserRights<'a>,
}

/// Returns true if RBAC lets the user of a request do something else.
pub type UserRights<'a> = dyn Fn(Access<'_>) -> bool + Send + Sync + 'a;

/// An action on objects of a kind, as RBAC judges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access<'a> {
    /// The verb, such as `update`.
    pub verb: &'a str,
    /// The API group.
    pub group: &'a str,
    /// The kind. A kind that is not served is covered only by rules for all resources of a group.
    pub kind: &'a str,
    /// Empty for cluster-scoped objects, and for objects in all namespaces.
    pub namespace: &'a str,
    /// Empty for all objects.
    pub name: &'a str,
}

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// An object comes to be.
    Create,
    /// An object changes.
    Update,
    /// An object is to be deleted.
    Delete,
}

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource<'a> {
    /// The API group.
    pub group: &'a str,
    /// The version that the request uses.
    pub version: &'a str,
    /// The kind, such as `ConfigMap`.
    pub kind: &'a str,
    /// The plural.
    pub plural: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// The object's name.
    pub name: &'a str,
}

/// Adds columns to the Tables of some kinds.
pub trait TableColumns: Send + Sync {
    /// What Tables of this kind get after their own columns: for most kinds nothing. Asked once for
    /// an answer, also for a watch, however long it is.
    fn columns(&self, group: &str, plural: &str) -> &[TableColumn];

    /// The cells of one object, one for each of these columns.
    fn cells(&self, resource: Resource<'_>, object: &Value) -> Vec<Value>;
}

/// A column of a Table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableColumn {
    /// What stands above it.
    pub name: &'static str,
    /// The type of its cells, as OpenAPI has it: `string`, `integer`.
    pub r#type: &'static str,
    /// What it says.
    pub description: &'static str,
    /// Shown always if zero, else to those who ask for more.
    pub priority: i32,
}

/// A subresource that is computed, not stored, such as `…/_zones`.
pub trait VirtualSubresource: Send + Sync {
    /// The last part of the path. Must begin with `_`, so that it can never hide a real one.
    fn name(&self) -> &str;

    /// Whether there is nothing to say of an object that is not there. If not, the object of the
    /// request may be null.
    fn needs_object(&self) -> bool {
        true
    }

    /// Returns true if answers wait for something that may take minutes. Such a request counts as
    /// a watch of its user, and takes no place from requests that are carried out.
    fn is_long_poll(&self) -> bool {
        false
    }

    /// Returns true if requests other than reads change something. The answer to one that does is
    /// owed to its client: it is given even if there is too little memory for it.
    fn writes(&self) -> bool {
        true
    }

    /// Answers a request that was authenticated and authorized already.
    fn handle<'a>(
        &'a self,
        request: SubresourceRequest<'a>,
    ) -> BoxFuture<'a, Result<Response<Body>, Error>>;
}

/// A request for a virtual subresource.
pub struct SubresourceRequest<'a> {
    /// Who asks.
    pub user: &'a Identity,
    /// The object.
    pub resource: Resource<'a>,
    /// The object as it is stored, in the version that the request uses; null where it is not there
    /// and need not be.
    pub object: &'a Value,
    /// The method.
    pub method: &'a Method,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The query, undecoded.
    pub query: &'a str,
    /// The body.
    pub body: &'a Bytes,
    /// What else the user may do.
    pub may: &'a UserRights<'a>,
}

// === impl Review ===

impl Review<'_> {
    /// The same for one of several who decide.
    pub(crate) fn reborrow(&mut self) -> Review<'_> {
        Review {
            user: self.user,
            operation: self.operation,
            resource: self.resource,
            object: self.object,
            old: self.old,
            dry_run: self.dry_run,
            warnings: self.warnings,
            may: self.may,
        }
    }
}
