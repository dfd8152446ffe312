//! Which changes go into one release: what is written together, such as all files of a folder, is
//! released together, and not one object after the other. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

/// What was changed lately, by policy.
#[derive(Debug, Default)]
pub(super) struct Gathering(BTreeMap<String, Changing>);

#[derive(Debug)]
struct Changing {
    /// Of what is there.
    digest: String,
    /// By the time that has elapsed, which no administrator sets.
    first: Duration,
    last: Duration,
}

/// Nothing more comes when nothing came for so long.
const QUIET: Duration = Duration::from_millis(250);
/// Who changes something all the time has it released every so often.
const LONGEST: Duration = Duration::from_secs(2);

// === impl Gathering ===

impl Gathering {
    /// When what is there is to be released, if nothing else comes, by the time that has elapsed.
    pub(super) fn until(&mut self, policy: &str, digest: &str, now: Duration) -> Duration {
        let changing = self.0.entry(policy.to_owned()).or_insert_with(|| Changing {
            digest: digest.to_owned(),
            first: now,
            last: now,
        });
        if changing.digest != digest {
            digest.clone_into(&mut changing.digest);
            changing.last = now;
        }
        (changing.last + QUIET).min(changing.first + LONGEST)
    }

    /// What is there was released, or is as it was.
    pub(super) fn over(&mut self, policy: &str) {
        self.0.remove(policy);
    }

    pub(super) fn keep(&mut self, policies: &[String]) {
        self.0.retain(|name, _| policies.contains(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At these times, in milliseconds, what is there has another digest.
    fn check(changes: &[u64], expected: u64) {
        let at = Duration::from_millis;
        let mut gathering = Gathering::default();
        let mut until = at(0);
        for time in changes {
            until = gathering.until("web", &time.to_string(), at(*time));
            // To look again changes nothing.
            let again = gathering.until("web", &time.to_string(), at(time + 1));
            assert_eq!(again, until);
        }
        assert_eq!(until, at(expected));
    }

    #[test]
    fn what_comes_together_is_waited_for_and_not_for_ever() {
        check(&[0], 250);
        check(&[0, 100, 200, 300], 550);
        check(&(0..30).map(|n| n * 100).collect::<Vec<_>>(), 2000);
    }
}
