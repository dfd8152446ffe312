//! What a suite found.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};

/// Counts, and every case that is not a plain pass.
pub(crate) struct Report {
    suite: &'static str,
    /// Cases that are known to fail, with the reason: an exception, not a failure. One that passes
    /// is reported as stale.
    known: BTreeMap<&'static str, &'static str>,
    passed: usize,
    failed: Vec<(String, String)>,
    exceptions: Vec<(String, &'static str)>,
    skipped: BTreeMap<String, usize>,
    /// Passed, but not by equality.
    notes: BTreeMap<&'static str, usize>,
    stale: Vec<String>,
    /// Known exceptions that were met.
    met: BTreeSet<&'static str>,
}

// === impl Report ===

impl Report {
    pub(crate) fn new(suite: &'static str, known: &[(&'static str, &'static str)]) -> Self {
        Self {
            suite,
            known: known.iter().copied().collect(),
            passed: 0,
            failed: Vec::new(),
            exceptions: Vec::new(),
            skipped: BTreeMap::new(),
            notes: BTreeMap::new(),
            stale: Vec::new(),
            met: BTreeSet::new(),
        }
    }

    /// Counts one case; an error says why it failed.
    pub(crate) fn case(&mut self, name: &str, outcome: Result<(), String>) {
        let known = self.known.get_key_value(name);
        self.met.extend(known.map(|(name, _)| *name));
        match (outcome, known.map(|(_, reason)| *reason)) {
            (Ok(()), None) => self.passed += 1,
            (Ok(()), Some(_)) => {
                self.passed += 1;
                self.stale.push(name.to_owned());
            }
            (Err(_), Some(reason)) => self.exceptions.push((name.to_owned(), reason)),
            (Err(why), None) => self.failed.push((name.to_owned(), why)),
        }
    }

    /// All cases have run: an exception that was not met is stale too.
    pub(crate) fn expect_all(&mut self) {
        let unmet = self.known.keys().filter(|name| !self.met.contains(*name));
        self.stale.extend(unmet.map(|name| (*name).to_owned()));
    }

    /// Counts a case that cannot apply.
    pub(crate) fn skip(&mut self, reason: &str) {
        *self.skipped.entry(reason.to_owned()).or_default() += 1;
    }

    /// Counts something about a case that passes and that a reader should know.
    pub(crate) fn note(&mut self, what: &'static str) {
        *self.notes.entry(what).or_default() += 1;
    }

    /// Everything that is not a plain pass, then one line with the counts.
    pub(crate) fn print(&self) {
        for (name, why) in &self.failed {
            println!("FAILED    {name}: {why}");
        }
        for (name, reason) in &self.exceptions {
            println!("EXCEPTION {name}: {reason}");
        }
        for (reason, count) in &self.skipped {
            println!("SKIPPED   {count}: {reason}");
        }
        for (what, count) in &self.notes {
            println!("NOTE      {count}: {what}");
        }
        for name in &self.stale {
            println!("STALE     {name} does not differ: remove it from the known exceptions");
        }
        println!(
            "{}: {} passed, {} failed, {} known exceptions, {} skipped",
            self.suite,
            self.passed,
            self.failed.len(),
            self.exceptions.len(),
            self.skipped.values().sum::<usize>()
        );
    }

    /// An error when something failed, an exception is none any more, or nothing ran.
    pub(crate) fn verdict(&self) -> Result<()> {
        if !self.failed.is_empty() {
            bail!("{}: {} cases failed", self.suite, self.failed.len());
        }
        if !self.stale.is_empty() {
            bail!("{}: {} exceptions are stale", self.suite, self.stale.len());
        }
        if self.passed == 0 {
            bail!("{}: nothing ran", self.suite);
        }
        Ok(())
    }
}
