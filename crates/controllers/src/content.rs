//! What is left of a kind that is to be emptied, and waiting until it is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use kube::Client;
use serde_json::json;

use deltaplane_client::feed::list;
use deltaplane_client::{Event, Feed, Item, Query, RequestError, Resource, request};

use crate::Context;

/// The objects that are left, as far as it matters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// By uid.
    pub(crate) objects: BTreeSet<String>,
    /// How many objects have which finalizer.
    pub(crate) finalizers: BTreeMap<String, usize>,
    /// Where they are.
    pub(crate) namespaces: BTreeSet<String>,
}

/// How long a change of what is left may wait to be noticed while other things are left.
const NOTICE: Duration = Duration::from_secs(10);

/// Looks what is left of a kind, in one namespace or everywhere.
pub(crate) async fn left(
    client: &Client,
    resource: &Resource,
    namespace: Option<&str>,
) -> Result<Left, RequestError> {
    let mut left = Left::default();
    list(client, &query(resource, namespace), |item| left.add(item)).await?;
    Ok(left)
}

/// Asks for the deletion of all objects of a kind in one namespace, or of those that live in none.
pub(crate) async fn delete_all(
    client: &Client,
    resource: &Resource,
    namespace: &str,
) -> Result<(), RequestError> {
    let options = json!({"propagationPolicy": "Background"});
    let path = resource.collection_path(Some(namespace));
    match request::delete(client, &path, &options).await {
        // The kind's objects can only be deleted one by one.
        Err(error) if error.code() == Some(405) => {}
        deleted => return deleted,
    }
    let mut keys = Vec::new();
    let query = query(resource, Some(namespace));
    list(client, &query, |item| keys.push(item.header.key())).await?;
    for key in keys {
        match request::delete(client, &resource.object_path(&key), &options).await {
            Err(error) if error.is_not_found() => {}
            deleted => deleted?,
        }
    }
    Ok(())
}

/// Ends when all of these are gone, or when some are and it is time to say so.
pub(crate) async fn fewer(context: &Context, namespace: Option<&str>, left: Vec<(Resource, Left)>) {
    let watch = |(index, resource): (usize, &Resource)| -> BoxStream<'static, (usize, Event)> {
        let query = query(resource, namespace);
        let feed = Feed::new(context.client.clone(), query, context.pace.clone());
        feed.events().map(move |event| (index, event)).boxed()
    };
    let mut events = stream::select_all(left.iter().map(|(kind, _)| kind).enumerate().map(watch));
    let mut remaining: Vec<Remaining> = left.into_iter().map(|(_, left)| left.into()).collect();
    let deadline = context.pace.clock.now() + NOTICE;
    let mut progress = false;
    while remaining
        .iter()
        .any(|remaining| !remaining.objects.is_empty())
    {
        tokio::select! {
            Some((index, event)) = events.next() => {
                if let Some(remaining) = remaining.get_mut(index) {
                    progress |= remaining.apply(event);
                }
            }
            () = context.pace.clock.sleep_until(deadline), if progress => return,
        }
    }
}

fn query(resource: &Resource, namespace: Option<&str>) -> Query {
    let query = Query::metadata(resource.clone());
    match namespace {
        Some(namespace) => query.in_namespace(namespace),
        None => query,
    }
}

/// The objects that are waited for.
#[derive(Debug)]
struct Remaining {
    objects: BTreeSet<String>,
    /// Those of them that a new picture has shown so far.
    seen: BTreeSet<String>,
}

// === impl Left ===

impl Left {
    fn add(&mut self, item: Item) {
        let header = item.header;
        self.objects.insert(header.uid);
        self.namespaces.insert(header.namespace);
        for finalizer in header.finalizers {
            *self.finalizers.entry(finalizer).or_default() += 1;
        }
    }
}

// === impl Remaining ===

impl From<Left> for Remaining {
    fn from(left: Left) -> Self {
        Self {
            objects: left.objects,
            seen: BTreeSet::new(),
        }
    }
}

impl Remaining {
    /// Whether something is gone.
    fn apply(&mut self, event: Event) -> bool {
        match event {
            Event::Restarted => {
                self.seen.clear();
                false
            }
            Event::Applied(item) => {
                self.seen.insert(item.header.uid);
                false
            }
            Event::Deleted(item) => self.objects.remove(&item.header.uid),
            Event::InSync => {
                let before = self.objects.len();
                self.objects.retain(|uid| self.seen.contains(uid));
                self.seen.clear();
                self.objects.len() < before
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn item(uid: &str) -> Item {
        let text = format!(
            r#"{{"metadata":{{"name":"{uid}","namespace":"n","uid":"{uid}","finalizers":["f"]}}}}"#
        );
        Item::new(Bytes::from(text)).expect("an object")
    }

    /// Each word is an event: a uid, `-uid`, `restart` or `sync`; `a` and `b` are waited for.
    fn check(events: &str, left: &str) {
        let mut before = Left::default();
        before.add(item("a"));
        before.add(item("b"));
        let mut remaining = Remaining::from(before);
        let mut progress = false;
        for word in events.split_whitespace() {
            progress |= remaining.apply(match (word, word.strip_prefix('-')) {
                ("restart", _) => Event::Restarted,
                ("sync", _) => Event::InSync,
                (_, Some(uid)) => Event::Deleted(item(uid)),
                (uid, None) => Event::Applied(item(uid)),
            });
        }
        let objects: Vec<_> = remaining.objects.into_iter().collect();
        assert_eq!(objects.join(" "), left, "{events}");
        assert_eq!(progress, left != "a b", "{events}");
    }

    #[test]
    fn what_is_gone_is_noticed() {
        check("", "a b");
        check("restart a b sync a", "a b");
        check("restart a", "a b");
        check("restart a sync", "a");
        check("restart a b sync -a -c", "b");
        check("restart a b sync -a -b", "");
        check("restart a b sync restart b", "a b");
        check("restart a b sync restart b sync", "b");
    }

    #[test]
    fn finalizers_are_counted() {
        let mut left = Left::default();
        left.add(item("a"));
        left.add(item("b"));
        let one = |text: &str| BTreeSet::from([text.to_owned()]);
        let expected = Left {
            objects: BTreeSet::from(["a".to_owned(), "b".to_owned()]),
            finalizers: BTreeMap::from([("f".to_owned(), 2)]),
            namespaces: one("n"),
        };
        assert_eq!(left, expected);
    }
}
