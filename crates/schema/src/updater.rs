//! Who owns which fields after a change, and what an apply makes of an object.
//!
//! This is the core of server-side apply, without Kubernetes' conventions (`managed` adds those):
//! managers are names, each with the fields it owns at one version of the kind.
//!
//! Invariant: no manager owns nothing; such managers are dropped.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::fieldset::{FieldPath, Filter, Set};
use crate::node::Schema;
use crate::order;
use crate::typed::{self, Comparison, TypeErrors};

/// The versions of a kind.
pub trait Versions {
    /// The schema of a version; nothing if it is no longer served.
    fn schema(&self, api_version: &str) -> Option<&Schema>;

    /// `object`, which is at version `from`, at version `to`. Unless told otherwise, all versions
    /// have the same fields.
    fn convert<'o>(
        &self,
        object: &'o Value,
        from: &str,
        to: &str,
    ) -> Result<Cow<'o, Value>, Conversion> {
        let _ = from;
        match self.schema(to) {
            Some(_) => Ok(Cow::Borrowed(object)),
            None => Err(Conversion::Gone),
        }
    }
}

/// Why an object cannot be had at a version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Conversion {
    #[error("the version is not served")]
    Gone,
    #[error("{0}")]
    Failed(String),
}

/// What one manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    pub set: Set,
    /// The version at which the fields were owned.
    pub api_version: Box<str>,
    /// Owned by applying, rather than by updating.
    pub applied: bool,
}

/// Owners by name.
pub type Managers = BTreeMap<String, Owned>;

/// One field that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    pub manager: String,
    pub path: FieldPath,
}

/// An object at a version.
#[derive(Clone, Debug)]
pub struct Versioned<'o> {
    pub object: Cow<'o, Value>,
    pub api_version: &'o str,
}

/// Why there is no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    #[error("conflicts with {} fields of other managers", .0.len())]
    Conflicts(Vec<Conflict>),
    #[error("failed to {doing}: {error}")]
    Types {
        doing: &'static str,
        error: TypeErrors,
    },
    #[error("failed to convert: {0}")]
    Conversion(String),
}

/// What a manager asks for.
#[derive(Clone, Copy, Debug)]
pub struct Change<'r> {
    pub live: &'r Value,
    /// The object to be, or the configuration that is applied.
    pub new: &'r Value,
    /// The version of both.
    pub api_version: &'r str,
    pub manager: &'r str,
}

/// Computes owners and merges objects of one kind.
#[derive(Clone, Copy)]
pub struct Updater<'a> {
    pub versions: &'a dyn Versions,
    /// Which fields are looked at, by version. The others belong to nobody.
    pub filter: &'a dyn Fn(&str) -> &'a Filter,
}

// === impl Versioned ===

impl<'o> Versioned<'o> {
    /// `object`, which is at `api_version`.
    pub fn new(object: &'o Value, api_version: &'o str) -> Self {
        Self {
            object: Cow::Borrowed(object),
            api_version,
        }
    }
}

// === impl Updater ===

impl<'a> Updater<'a> {
    /// The owners after the manager has replaced the object.
    pub fn update(&self, change: Change<'_>, managers: Managers) -> Result<Managers, UpdateError> {
        let Change {
            live,
            new,
            api_version,
            manager,
        } = change;
        let live = Versioned::new(live, api_version);
        let new = Versioned::new(new, api_version);
        let mut managers = self.reconcile(&live, managers)?;
        let changes = self.settle(&live, &new, &mut managers, manager, true)?;
        let set = match managers.remove(manager) {
            Some(owned) => owned
                .set
                .difference(&changes.removed)
                .union(&changes.modified)
                .union(&changes.added),
            None if changes.modified.is_empty() => changes.added,
            None => changes.modified.union(&changes.added),
        };
        self.own(&mut managers, manager, set, api_version, false);
        Ok(managers)
    }

    /// The object after the manager has applied its configuration, if that changes it, and the
    /// owners.
    pub fn apply(
        &self,
        change: Change<'_>,
        managers: Managers,
        force: bool,
    ) -> Result<(Option<Value>, Managers), UpdateError> {
        let Change {
            live,
            new: config,
            api_version,
            manager,
        } = change;
        let live = Versioned::new(live, api_version);
        let mut managers = self.reconcile(&live, managers)?;
        let schema = self.schema(api_version)?;
        let merged = typed::merge(&live.object, config, schema.root()).map_err(|error| {
            UpdateError::Types {
                doing: "merge config",
                error,
            }
        })?;
        let merged = Versioned {
            object: Cow::Owned(merged.unwrap_or(Value::Null)),
            api_version,
        };
        let last = managers.remove(manager);
        let set = (self.filter)(api_version).apply(typed::fields(config, schema.root()));
        // Pruning asks what everybody owns, the applying manager included, even nothing.
        managers.insert(
            manager.to_owned(),
            Owned {
                set,
                api_version: api_version.into(),
                applied: true,
            },
        );
        let new = match last {
            Some(last) => self.prune(merged, &managers, manager, &last)?,
            None => merged,
        };
        self.settle(&live, &new, &mut managers, manager, force)?;
        let changed = !order::equal(&live.object, &new.object);
        Ok((changed.then(|| new.object.into_owned()), managers))
    }

    fn own(
        &self,
        managers: &mut Managers,
        manager: &str,
        set: Set,
        api_version: &str,
        applied: bool,
    ) {
        let set = (self.filter)(api_version).apply(set);
        if !set.is_empty() {
            let owned = Owned {
                set,
                api_version: api_version.into(),
                applied,
            };
            managers.insert(manager.to_owned(), owned);
        }
    }

    fn schema(&self, api_version: &str) -> Result<&'a Schema, UpdateError> {
        self.versions.schema(api_version).ok_or_else(|| {
            UpdateError::Conversion(format!("version {api_version:?} is not served"))
        })
    }

    /// The object at `to`; nothing if that version is gone.
    fn convert<'o>(
        &self,
        object: &'o Versioned<'_>,
        to: &'o str,
    ) -> Result<Option<Versioned<'o>>, UpdateError> {
        match self
            .versions
            .convert(&object.object, object.api_version, to)
        {
            Ok(object) => Ok(Some(Versioned {
                object,
                api_version: to,
            })),
            Err(Conversion::Gone) => Ok(None),
            Err(Conversion::Failed(error)) => Err(UpdateError::Conversion(error)),
        }
    }

    fn compare(&self, old: &Versioned<'_>, new: &Versioned<'_>) -> Result<Comparison, UpdateError> {
        let schema = self.schema(new.api_version)?;
        let comparison =
            typed::compare(&old.object, &new.object, schema.root()).map_err(|error| {
                UpdateError::Types {
                    doing: "compare objects",
                    error,
                }
            })?;
        Ok(comparison.filter((self.filter)(new.api_version)))
    }

    /// Takes from all managers but `workflow` what the change from `old` to `new` takes from them;
    /// without `force` it may take nothing but what is removed.
    fn settle(
        &self,
        old: &Versioned<'_>,
        new: &Versioned<'_>,
        managers: &mut Managers,
        workflow: &str,
        force: bool,
    ) -> Result<Comparison, UpdateError> {
        let changes = self.compare(old, new)?;
        let mut elsewhere: BTreeMap<Box<str>, Option<Comparison>> = BTreeMap::new();
        let mut conflicts = Vec::new();
        let mut settled = Managers::new();
        for (name, mut owned) in std::mem::take(managers) {
            if name == workflow {
                settled.insert(name, owned);
                continue;
            }
            let changes = if *owned.api_version == *new.api_version {
                Some(&changes)
            } else {
                if !elsewhere.contains_key(&owned.api_version) {
                    let compared = self.compare_at(old, new, &owned.api_version)?;
                    elsewhere.insert(owned.api_version.clone(), compared);
                }
                elsewhere.get(&owned.api_version).and_then(Option::as_ref)
            };
            // A version that is gone takes its owners along.
            let Some(changes) = changes else { continue };
            if owned.set.intersects(&changes.modified) || owned.set.intersects(&changes.added) {
                let taken = owned
                    .set
                    .intersection(&changes.modified.union(&changes.added));
                let manager = || name.clone();
                conflicts.extend(taken.paths().into_iter().map(|path| Conflict {
                    manager: manager(),
                    path,
                }));
                owned.set = owned.set.difference(&taken);
            }
            if !changes.removed.is_empty() {
                owned.set = owned.set.difference(&changes.removed);
            }
            settled.insert(name, owned);
        }
        if !force && !conflicts.is_empty() {
            return Err(UpdateError::Conflicts(conflicts));
        }
        settled.retain(|_, owned| !owned.set.is_empty());
        *managers = settled;
        Ok(changes)
    }

    fn compare_at(
        &self,
        old: &Versioned<'_>,
        new: &Versioned<'_>,
        api_version: &str,
    ) -> Result<Option<Comparison>, UpdateError> {
        let Some(old) = self.convert(old, api_version)? else {
            return Ok(None);
        };
        let Some(new) = self.convert(new, api_version)? else {
            return Ok(None);
        };
        self.compare(&old, &new).map(Some)
    }

    /// Removes what `manager` applied last time, did not apply this time, and nobody else owns.
    fn prune<'o>(
        &self,
        merged: Versioned<'o>,
        managers: &Managers,
        manager: &str,
        last: &Owned,
    ) -> Result<Versioned<'o>, UpdateError> {
        // Where nothing is given up, nothing goes. (Kubernetes goes on, and loses an object field
        // that was applied empty and has come to hold an empty keyed list.)
        let current = &managers[manager];
        let given_up = || last.set.difference(&current.set);
        if last.set.is_empty() || (last.api_version == current.api_version && given_up().is_empty())
        {
            return Ok(merged);
        }
        let Some(converted) = self.convert(&merged, &last.api_version)? else {
            return Ok(merged);
        };
        let root = self.schema(&last.api_version)?.root();
        let set = typed::with_declared_parents(&last.set, Some(root));
        let pruned = typed::remove_items(&converted.object, &set, root);
        let pruned = Versioned {
            object: Cow::Owned(pruned),
            api_version: &last.api_version,
        };
        let pruned = self.add_back_owned(&converted, pruned, managers, &last.api_version)?;
        let pruned = self.add_back_dangling(&converted, &pruned, last)?;
        let pruned = Versioned {
            object: Cow::Owned(pruned),
            api_version: &last.api_version,
        };
        match self.convert(&pruned, merged.api_version)? {
            Some(pruned) => {
                let object = Cow::Owned(pruned.object.into_owned());
                Ok(Versioned {
                    object,
                    api_version: merged.api_version,
                })
            }
            None => Err(UpdateError::Conversion(
                "the applied version is not served".to_owned(),
            )),
        }
    }

    /// `pruned`, with everything put back that somebody owns. At the pruned version first, because
    /// conversions may need it.
    fn add_back_owned<'o>(
        &self,
        merged: &Versioned<'_>,
        pruned: Versioned<'o>,
        managers: &'o Managers,
        pruned_version: &str,
    ) -> Result<Versioned<'o>, UpdateError> {
        let mut by_version: BTreeMap<&str, Set> = BTreeMap::new();
        for owned in managers.values() {
            let set = by_version.entry(&owned.api_version).or_default();
            *set = set.union(&owned.set);
        }
        let mut versions: Vec<(&str, Set)> = by_version.into_iter().collect();
        versions.sort_by_key(|(version, _)| *version != pruned_version);
        let mut merged = Versioned {
            object: Cow::Borrowed(&*merged.object),
            api_version: merged.api_version,
        };
        let mut pruned = pruned;
        for (version, owned) in versions {
            let Some(at) = self.convert(&merged, version)? else {
                continue;
            };
            let at = Versioned {
                object: Cow::Owned(at.object.into_owned()),
                api_version: version,
            };
            let Some(pruned_at) = self.convert(&pruned, version)? else {
                merged = at;
                continue;
            };
            let root = self.schema(version)?.root();
            let all = |value: &Value| {
                typed::with_declared_parents(&typed::fields(value, root), Some(root))
            };
            let kept =
                all(&pruned_at.object).union(&typed::with_declared_parents(&owned, Some(root)));
            let gone = all(&at.object).difference(&kept);
            let object = Cow::Owned(typed::remove_items(&at.object, &gone, root));
            pruned = Versioned {
                object,
                api_version: version,
            };
            merged = at;
        }
        Ok(pruned)
    }

    /// `merged` without what is not in `pruned` and was owned by the applying manager. What it did
    /// not own stays, owned or not.
    fn add_back_dangling(
        &self,
        merged: &Versioned<'_>,
        pruned: &Versioned<'_>,
        last: &Owned,
    ) -> Result<Value, UpdateError> {
        let Some(pruned) = self.convert(pruned, &last.api_version)? else {
            return Ok(merged.object.clone().into_owned());
        };
        let root = self.schema(&last.api_version)?.root();
        let all =
            |value: &Value| typed::with_declared_parents(&typed::fields(value, root), Some(root));
        let gone = all(&merged.object).difference(&all(&pruned.object));
        let gone = gone.intersection(&typed::with_declared_parents(&last.set, Some(root)));
        Ok(typed::remove_items(&merged.object, &gone, root))
    }

    /// The owners under the schema of today.
    fn reconcile(&self, live: &Versioned<'_>, managers: Managers) -> Result<Managers, UpdateError> {
        let mut out = Managers::new();
        for (name, mut owned) in managers {
            if *owned.api_version != *live.api_version
                && self.convert(live, &owned.api_version)?.is_none()
            {
                continue;
            }
            let schema = self.schema(&owned.api_version)?;
            if let Some(set) = typed::reconcile(&owned.set, schema.root()) {
                owned.set = set;
            }
            out.insert(name, owned);
        }
        Ok(out)
    }
}
