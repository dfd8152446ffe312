//! How many objects each version of a graph deleted, and whether it may delete more. Pure.
//!
//! Invariants: what is granted is counted before it is answered; a version that nobody approved of
//! never counts more than its budget allows; an object is counted once for as long as this is kept.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_propagation::stages::BudgetSpec;
use serde_json::{Value, json};

/// What the versions of a graph deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DeletionLedger {
    accounts: BTreeMap<String, VersionAccount>,
    /// By the uid of the instance.
    grants: BTreeMap<String, InstanceGrants>,
    /// Whether all instances have said what they hold, so that nothing is held beyond that.
    complete: bool,
}

/// What a version deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct VersionAccount {
    /// The children that were there when the version came.
    pub(super) baseline: u64,
    pub(super) deleted: u64,
    /// As it was read.
    held: u64,
}

/// What is known of the deletions of one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
struct InstanceGrants {
    version: String,
    /// The uids of objects whose deletions were counted, and are not over yet.
    granted: BTreeSet<String>,
    held: u64,
}

/// Deletions that an instance asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeletionRequest {
    /// The uid of the instance.
    pub(super) instance: String,
    /// The version that it runs.
    pub(super) version: String,
    pub(super) wants: Vec<WantedDeletion>,
}

/// An object to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WantedDeletion {
    pub(super) uid: String,
    pub(super) wave: u32,
    /// So many objects go with it, itself included.
    pub(super) weight: u64,
}

/// What may be deleted without being asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeletionTerms {
    pub(super) budget: BudgetSpec,
    /// Whether somebody approved of the deletions of the version.
    pub(super) approved: bool,
}

/// What becomes of a request. What is in neither waits until others are gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DeletionAnswer {
    /// The uids of what may be deleted.
    pub(super) granted: BTreeSet<String>,
    /// The uids of what is held.
    pub(super) held: BTreeSet<String>,
    /// So many objects would go.
    pub(super) held_weight: u64,
    pub(super) baseline: u64,
    pub(super) allowed: u64,
}

// === impl DeletionLedger ===

impl DeletionLedger {
    /// As it was written into the status of the definition.
    pub(super) fn read(told: &Value) -> Self {
        let all = told.as_array().into_iter().flatten();
        let accounts = all.filter_map(|one| {
            let count = |field: &str| one[field].as_u64().unwrap_or(0);
            let account = VersionAccount {
                baseline: count("baseline"),
                deleted: count("deleted"),
                held: count("held"),
            };
            Some((one["version"].as_str()?.to_owned(), account))
        });
        Self {
            accounts: accounts.collect(),
            ..Self::default()
        }
    }

    /// As it is written there.
    pub(super) fn told(&self) -> Value {
        let all = self.accounts.iter().map(|(version, account)| {
            json!({
                "version": version,
                "baseline": account.baseline,
                "deleted": account.deleted,
                "held": self.held(version),
            })
        });
        all.collect()
    }

    /// Takes over what was written by an earlier process.
    pub(super) fn resume(&mut self, recorded: Self) {
        for (version, account) in recorded.accounts {
            let known = self.accounts.entry(version).or_insert(account);
            known.deleted = known.deleted.max(account.deleted);
            known.baseline = account.baseline;
            known.held = account.held;
        }
    }

    pub(super) fn has(&self, version: &str) -> bool {
        self.accounts.contains_key(version)
    }

    /// A version came when there were so many children.
    pub(super) fn open(&mut self, version: &str, baseline: u64) {
        let account = VersionAccount {
            baseline,
            ..VersionAccount::default()
        };
        self.accounts.entry(version.to_owned()).or_insert(account);
    }

    /// Forgets versions that are not in use any more.
    pub(super) fn retain(&mut self, in_use: impl Fn(&str) -> bool) {
        self.accounts.retain(|version, _| in_use(version));
    }

    /// How many objects a version would delete if it were approved.
    fn held(&self, version: &str) -> u64 {
        let ours = self.grants.values().filter(|one| one.version == version);
        let known: u64 = ours.map(|one| one.held).sum();
        let recorded = self.accounts.get(version).map_or(0, |one| one.held);
        match self.complete {
            true => known,
            // Instances that were not looked at yet hold what they held.
            false => known.max(recorded),
        }
    }

    pub(super) fn all_held(&self) -> u64 {
        self.accounts.keys().map(|version| self.held(version)).sum()
    }

    pub(super) fn all_deleted(&self) -> u64 {
        self.accounts.values().map(|one| one.deleted).sum()
    }

    /// All instances have been looked at.
    pub(super) fn complete(&mut self) {
        self.complete = true;
    }

    /// Whether something is remembered of an instance.
    pub(super) fn knows(&self, instance: &str) -> bool {
        self.grants.contains_key(instance)
    }

    /// The instance is gone.
    pub(super) fn forget(&mut self, instance: &str) {
        self.grants.remove(instance);
    }

    /// Grants what may be deleted now: of the highest wave that is asked for, and nothing of others
    /// before that is gone.
    pub(super) fn grant(
        &mut self,
        request: &DeletionRequest,
        terms: DeletionTerms,
    ) -> DeletionAnswer {
        let version = &request.version;
        let account = self.accounts.entry(version.clone()).or_default();
        let before = self.grants.remove(&request.instance);
        let before = before.filter(|before| before.version == *version);
        let before = before.map(|before| before.granted).unwrap_or_default();
        let mut answer = DeletionAnswer {
            baseline: account.baseline,
            allowed: terms.budget.allowed(account.baseline),
            ..DeletionAnswer::default()
        };
        let mut wants: Vec<&WantedDeletion> = request.wants.iter().collect();
        wants.sort_by(|a, b| b.wave.cmp(&a.wave).then_with(|| a.uid.cmp(&b.uid)));
        let highest = wants.first().map(|one| one.wave);
        for one in wants {
            let granted = before.contains(&one.uid);
            let fits = terms.approved || account.deleted + one.weight <= answer.allowed;
            if granted {
                answer.granted.insert(one.uid.clone());
            } else if Some(one.wave) == highest && fits {
                account.deleted += one.weight;
                answer.granted.insert(one.uid.clone());
            } else if Some(one.wave) == highest || !answer.held.is_empty() {
                answer.held.insert(one.uid.clone());
                answer.held_weight += one.weight;
            }
        }
        if !request.wants.is_empty() {
            let grants = InstanceGrants {
                version: version.clone(),
                granted: answer.granted.clone(),
                held: answer.held_weight,
            };
            self.grants.insert(request.instance.clone(), grants);
        }
        answer
    }
}
