//! The revisioned store: all objects of a control plane, their recent history,
//! and a way to follow their changes.
//!
//! Every write is a transaction at one [`Revision`]. What a [`Store`] shows is
//! durable. Reads come from memory; a [`Watch`] sees every change after a
//! revision exactly once, in order, or is told to start over.
//!
//! Not here: what objects mean. Bodies are bytes, and only the small
//! [`Header`] is parsed from them. No clocks: compaction is the caller's call.
//!
//! Invariants:
//! - Revisions are totally ordered and never reused.
//! - Acknowledged means durable: it survives `kill -9` and power loss.
//! - Nothing that is not durable is visible to readers or watchers.
//! - A slow watcher costs no memory and slows nobody.
//!
//! ```
//! use deltaplane_store::{Collection, Draft, Embedded, Options, Scope, Txn};
//!
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path();
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let store = Embedded::open(dir, Options::default())?;
//! let maps = Collection::new("default", "configmaps")?;
//! let mut watch = store.watch(Scope::collection(&maps), store.revision())?;
//!
//! let body = r#"{"metadata":{"name":"a","resourceVersion":""}}"#;
//! let at = body.find("\"\"").unwrap() as u32 + 1;
//! let key = maps.key("web", "a")?;
//! let created = store.commit(Txn::create(key, Draft::stamped(body, at))).await?;
//!
//! let batch = watch.next_batch(100).await?;
//! let shown = batch.events[0].object().bytes();
//! assert_eq!(shown, br#"{"metadata":{"name":"a","resourceVersion":"1"}}"#);
//! assert_eq!(batch.revision, created.revision);
//! store.close().await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod driver;
mod embedded;
mod event;
mod feed;
pub mod header;
mod health;
mod index;
mod key;
mod list;
pub mod memory;
mod metrics;
mod object;
mod retention;
mod revision;
mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod txn;
mod watch;

pub use self::{
    driver::{CloseError, CompactError, Epoch},
    embedded::{Embedded, Fill, Medium, OpenError, Options},
    event::{Change, Event},
    feed::RingLimits,
    header::{Header, HeaderFn, Labels, Uid},
    health::{Health, HealthWatch},
    index::Held,
    key::{Collection, Key, KeyError, Scope},
    list::{ListQuery, Page, ReadError},
    metrics::Metrics,
    object::{Draft, Identity, Object},
    retention::{History, Retention, RetentionPolicy},
    revision::{Revision, Row},
    store::{Snapshot, Store},
    txn::{
        CommitError, Committed, Expect, InvalidTxn, Op, Prepared, PreparedDraft, PreparedOp, Txn,
    },
    watch::{Batch, Watch, WatchError},
};
