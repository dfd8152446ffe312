//! Whose doing releases are, for those who must not approve them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_propagation::stages::{self, asked_for};
use deltaplane_sync::Version;
use serde_json::{Value, json};

use super::AUTHOR;
use super::governor::{Governor, HeadObject};
use super::release::{Id, Manifest, Released, digest, ids, write_id};
use crate::divergence::ReleaseFloor;
use crate::kinds::CONTROLLERS;

/// Who changed what since it was last released, as far as is known. An object says who wrote it
/// last, and no more: whoever comes after somebody must not take that name away.
#[derive(Clone, Debug, Default)]
pub(super) struct Authors {
    objects: BTreeMap<Id, BTreeSet<Arc<str>>>,
    overrides: BTreeSet<String>,
}

/// Whose doing a release is.
pub(super) struct Authorship {
    /// Those who must not approve it where another is required.
    pub(super) authors: Vec<String>,
    /// Those of them who are known to have written what is new.
    pub(super) writers: Vec<String>,
}

/// Who made all that came after a release, by its number.
pub(crate) type Since = BTreeMap<u64, BTreeSet<String>>;

/// Who wrote the object of a policy last.
fn author_of(policy: &Value) -> Option<&str> {
    policy["metadata"]["annotations"][AUTHOR].as_str()
}

// === impl Authors ===

impl Authors {
    /// As it is kept; nothing if there is nothing.
    pub(super) fn write(&self) -> Option<Value> {
        if self.objects.is_empty() && self.overrides.is_empty() {
            return None;
        }
        let objects = self.objects.iter().map(|(id, by)| {
            let mut written = write_id(id);
            let by = by.iter().map(|one| Value::from(&**one));
            written["by"] = by.collect();
            written
        });
        let objects: Vec<Value> = objects.collect();
        Some(json!({"objects": objects, "overrides": self.overrides}))
    }

    /// Takes in what was kept.
    pub(super) fn read(&mut self, written: &Value) {
        let texts = |list: &Value| -> Vec<String> {
            let list = list.as_array().into_iter().flatten();
            list.filter_map(|one| one.as_str().map(str::to_owned))
                .collect()
        };
        for (id, one) in ids(&written["objects"]) {
            let known = id.map(|id| self.objects.entry(id).or_default());
            let by = texts(&one["by"]).into_iter().map(Arc::from);
            known.into_iter().for_each(|known| known.extend(by.clone()));
        }
        self.overrides.extend(texts(&written["overrides"]));
    }

    /// An object became another. What was released is nobody's any more.
    pub(super) fn changed(&mut self, id: &Id, head: &HeadObject, released: Option<Version>) {
        if released == Some(head.version) {
            self.objects.remove(id);
        } else if let Some(author) = &head.author {
            let known = self.objects.entry(id.clone()).or_default();
            known.insert(author.clone());
        }
    }

    /// The policy became another.
    pub(super) fn updated(&mut self, before: &Value, now: &Value) {
        if before["spec"]["overrides"] != now["spec"]["overrides"] {
            self.overrides.extend(author_of(now).map(str::to_owned));
        }
    }

    /// A release is there that shows what was there at some time: what became another since is not
    /// in it.
    pub(super) fn released(&mut self, release: &Released, head: &BTreeMap<Id, HeadObject>) {
        if release.decided.restores.is_some() {
            return;
        }
        self.objects.retain(|id, _| {
            let head = head.get(id);
            head.is_some_and(|head| release.manifest.get(id) != Some(&head.version))
        });
        self.overrides.clear();
    }
}

// === impl Governor ===

impl Governor {
    /// Whose doing it is that something is not as it was. What nobody signed, because it was there
    /// before the policy or because it is not known any more, is for whoever wrote the policy; so
    /// are overrides, and going back, unless the hub does that by itself.
    pub(super) fn authors(
        &self,
        (before, now): (&Manifest, &Manifest),
        overrides: &Value,
        restores: Option<u64>,
    ) -> Authorship {
        let of_policy = author_of(&self.object);
        if restores.is_some() {
            let newest = self.releases.keys().next_back().copied().unwrap_or(0);
            let asked = asked_for(&self.object, newest) == restores;
            let author = of_policy.filter(|_| asked).unwrap_or(CONTROLLERS);
            return Authorship {
                authors: vec![author.to_owned()],
                writers: vec![author.to_owned()],
            };
        }
        let head = self.head.iter();
        let changed = head.filter(|(id, head)| {
            let version = Some(&head.version);
            now.get(*id) == version && before.get(*id) != version
        });
        let changed: Vec<(&Id, &HeadObject)> = changed.collect();
        let earlier = changed
            .iter()
            .filter_map(|(id, _)| self.unreleased.objects.get(*id));
        let earlier = earlier.flatten().map(|author| Some(&**author));
        let last = changed.iter().map(|(_, head)| head.author.as_deref());
        let removed = before.keys().filter(|id| !now.contains_key(*id));
        let removed = removed.map(|id| self.deleters.get(id).map(|by| &**by));
        // The garbage collector does not say on whose behalf it deletes: nobody knows who did it.
        let by_hub = removed.clone().any(|by| by == Some(CONTROLLERS));
        let departing = self.departure_authors();
        let patched = self.is_patched_otherwise(overrides);
        let patchers = self
            .unreleased
            .overrides
            .iter()
            .map(|one| Some(one.as_str()));
        let patched = patched.then(|| patchers.chain([None]));
        let patched = patched.into_iter().flatten();
        let signed = earlier.chain(last).chain(removed).chain(departing);
        let names = |all: BTreeSet<&str>| all.into_iter().map(str::to_owned).collect();
        Authorship {
            writers: names(
                signed
                    .clone()
                    .flatten()
                    .chain(patched.clone().filter_map(|by| by.or(of_policy)))
                    .collect(),
            ),
            authors: names(
                signed
                    .chain(patched)
                    .filter_map(|by| by.or(of_policy))
                    .filter(|_| !by_hub)
                    .collect(),
            ),
        }
    }

    /// Whether the newest release has other overrides.
    pub(super) fn is_patched_otherwise(&self, overrides: &Value) -> bool {
        let newest = self.newest();
        newest.is_some_and(|one| one.overrides != *overrides)
    }

    /// Who made what comes after each release that is there, the next one included, so that it is
    /// known when those in between are gone. Nobody where anything is not known.
    pub(super) fn authors_since(&self, next: &[String]) -> Since {
        let mut since = Since::new();
        let mut all: Option<BTreeSet<String>> = known(next);
        let releases = self.releases.iter().rev();
        for (number, release) in releases {
            since.insert(*number, all.clone().unwrap_or_default());
            let authors = known(&self.decided(release).authors);
            all = all
                .zip(authors)
                .map(|(all, more)| all.into_iter().chain(more).collect());
        }
        since
    }

    /// A release as it is decided about. Who made those that are gone, after the one before it that
    /// is there, is an author of it, too.
    pub(super) fn decided(&self, release: &Released) -> stages::Release {
        let mut decided = release.decided.clone();
        let before = self.releases.range(..release.number).next_back();
        let since = match before {
            Some((before, _)) if before + 1 == release.number => None,
            Some((before, _)) => release.authors_since.get(before),
            None => release.authors_since.values().next(),
        };
        if let Some(since) = since {
            decided.authors = since.iter().cloned().collect();
        }
        if let Some((manifest, departing)) = self.without_departed(release) {
            decided.content.manifest = Some(digest(&manifest, &Value::Null, &departing));
        }
        // Zones may have followed another content in a lost future of the store: nobody knows that
        // the next release changes nothing there.
        if release.number < ReleaseFloor::of(&self.object).number {
            decided.content = stages::ContentId::default();
        }
        decided
    }
}

fn known(authors: &[String]) -> Option<BTreeSet<String>> {
    (!authors.is_empty()).then(|| authors.iter().cloned().collect())
}
