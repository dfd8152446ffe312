//! The memories of all instances, each in a Secret of its own. They are read once, when the first
//! graph with a gate needs them: from then on only we write them.
//!
//! Invariant: what is remembered is written before it is answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use deltaplane_client::{ObjectKey, Query, RequestError, Resource, feed, request};
use deltaplane_runtime::TaskGroup;
use parking_lot::Mutex;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::following::{Interest, Telling};
use super::memory::Memory;
use crate::Context;
use crate::queue::Failure;

/// All of them. Cheap to clone.
#[derive(Clone)]
pub(super) struct Memories {
    context: Context,
    tasks: TaskGroup,
    shared: Arc<Mutex<Shared>>,
    /// Whether there is a gate that needs them.
    needed: Arc<watch::Sender<bool>>,
}

#[derive(Default)]
struct Shared {
    /// That it was begun; kept, so that it is done once.
    reading: Option<Interest>,
    /// By the uid of the instance.
    known: BTreeMap<String, Known>,
}

#[derive(Default)]
struct Known {
    now: Arc<Memory>,
    written: Arc<Memory>,
}

/// Whose memory it is.
pub(super) struct Whose<'a> {
    pub(super) uid: &'a str,
    /// Of the instance; empty for one that is in none.
    pub(super) namespace: &'a str,
    /// The instance, as the owner of the Secret.
    pub(super) owner: Value,
}

/// The label of these Secrets, with the uid of the instance.
const LABEL: &str = "deltaplane.io/remembers";
/// Where it is in the Secret.
const KEY: &str = "gates";
/// Those of instances that are in no namespace.
const NAMESPACE: &str = "deltaplane-system";

// === impl Memories ===

impl Memories {
    pub(super) fn new(context: Context, tasks: TaskGroup) -> Self {
        Self {
            context,
            tasks,
            shared: Arc::default(),
            needed: Arc::new(watch::Sender::new(false)),
        }
    }

    /// There is a gate that needs them.
    pub(super) fn need(&self) {
        self.needed
            .send_if_modified(|needed| !std::mem::replace(needed, true));
    }

    /// Reads what was remembered, unless that was done; in sync once it was.
    pub(super) fn recall(&self) -> Interest {
        let mut shared = self.shared.lock();
        if let Some(reading) = &shared.reading {
            return reading.clone();
        }
        let all = self.clone();
        let reading = Interest::start(&self.tasks, |telling| async move {
            all.read(&telling).await;
        });
        shared.reading = Some(reading.clone());
        reading
    }

    async fn read(&self, telling: &Telling) {
        let Context { client, pace } = &self.context;
        let query = Query::all(secrets()).with_labels(LABEL);
        let mut failures = 0;
        loop {
            let mut found = BTreeMap::new();
            let listed = feed::list(client, &query, |item| {
                found.extend(item.parse().ok().and_then(|secret| remembered(&secret)));
            });
            let Err(error) = listed.await else {
                self.shared.lock().known.append(&mut found);
                telling.trouble.send_replace(None);
                telling.synced.send_replace(true);
                return;
            };
            telling.trouble.send_replace(Some(error.to_string()));
            failures += 1;
            if matches!(error.code(), Some(401 | 403)) {
                // Who may not read them and needs none does not ask again.
                let mut needed = self.needed.subscribe();
                let _ = needed.wait_for(|needed| *needed).await;
            }
            pace.rest(failures, error.retry_after()).await;
        }
    }

    /// Whether something is remembered of an instance.
    pub(super) fn has(&self, uid: &str) -> bool {
        self.shared.lock().known.contains_key(uid)
    }

    pub(super) fn of(&self, uid: &str) -> Arc<Memory> {
        let shared = self.shared.lock();
        let known = shared.known.get(uid);
        known.map(|known| known.now.clone()).unwrap_or_default()
    }

    /// Remembers this, and no more. It is written if what was written does not say it.
    pub(super) async fn remember(&self, whose: &Whose<'_>, memory: Memory) -> Result<(), Failure> {
        let memory = Arc::new(memory);
        let written = {
            let mut shared = self.shared.lock();
            if memory.is_empty() && !shared.known.contains_key(whose.uid) {
                return Ok(());
            }
            let known = shared.known.entry(whose.uid.to_owned()).or_default();
            known.written.clone()
        };
        if memory.is_empty() {
            return self.forget(whose.uid, whose.namespace).await;
        }
        if written.covers(&memory) {
            self.known(whose.uid, |known| known.now = memory);
            return Ok(());
        }
        let doing = "keep what gates decided";
        let bytes = memory.encode().map_err(Failure::to(doing))?;
        let written = self.write(whose, &bytes).await;
        written.map_err(Failure::to(doing))?;
        // Not before: what could not be written is tried again.
        self.known(whose.uid, |known| {
            known.now = memory.clone();
            known.written = memory;
        });
        Ok(())
    }

    fn known(&self, uid: &str, change: impl FnOnce(&mut Known)) {
        let mut shared = self.shared.lock();
        change(shared.known.entry(uid.to_owned()).or_default());
    }

    /// There is nothing to be remembered of the instance.
    pub(super) async fn forget(&self, uid: &str, namespace: &str) -> Result<(), Failure> {
        if !self.shared.lock().known.contains_key(uid) {
            return Ok(());
        }
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        let deleted = request::delete(&self.context.client, &path(uid, namespace), &options).await;
        match deleted {
            Err(error) if !error.is_not_found() => {
                Err(Failure::to("forget what gates decided")(error))
            }
            Ok(()) | Err(_) => {
                self.shared.lock().known.remove(uid);
                Ok(())
            }
        }
    }

    async fn write(&self, whose: &Whose<'_>, bytes: &[u8]) -> Result<(), RequestError> {
        let namespace = namespace(whose.namespace);
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "deltaplane.io/gates",
            "metadata": {
                "name": name(whose.uid), "namespace": namespace,
                "labels": {LABEL: whose.uid},
                "ownerReferences": [whose.owner],
            },
            "data": {KEY: STANDARD.encode(bytes)},
        });
        let client = &self.context.client;
        let path = format!(
            "{}?fieldManager=deltaplane&force=true",
            path(whose.uid, whose.namespace)
        );
        match request::apply::<IgnoredAny>(client, &path, &secret).await {
            Err(error) if error.is_not_found() && namespace == NAMESPACE => {
                let made = json!({
                    "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE},
                });
                let at = format!("/api/v1/namespaces/{NAMESPACE}?fieldManager=deltaplane");
                request::apply::<IgnoredAny>(client, &at, &made).await?;
                request::apply::<IgnoredAny>(client, &path, &secret).await?;
            }
            other => {
                other?;
            }
        }
        Ok(())
    }
}

fn secrets() -> Resource {
    Resource::namespaced("", "v1", "secrets", "Secret")
}

fn name(uid: &str) -> String {
    format!("deltaplane-{uid}")
}

fn namespace(of: &str) -> &str {
    match of {
        "" => NAMESPACE,
        of => of,
    }
}

fn path(uid: &str, of: &str) -> String {
    secrets().object_path(&ObjectKey::new(namespace(of), &name(uid)))
}

/// Whose memory a Secret is, and what it says. One that cannot be read says nothing.
fn remembered(secret: &Value) -> Option<(String, Known)> {
    let uid = secret["metadata"]["labels"][LABEL].as_str()?;
    let text = secret["data"][KEY].as_str()?;
    let memory = Memory::decode(&STANDARD.decode(text).ok()?);
    if let Err(error) = &memory {
        tracing::warn!(uid, %error, "what gates decided cannot be read");
    }
    let memory = Arc::new(memory.ok()?);
    let known = Known {
        now: memory.clone(),
        written: memory,
    };
    Some((uid.to_owned(), known))
}
