//! Which instances there are, so that work which ends after its instance leaves nothing of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

/// The uids of all instances of a kind. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Living(Arc<Mutex<BTreeSet<String>>>);

// === impl Living ===

impl Living {
    pub(super) fn add(&self, uid: &str) {
        self.0.lock().insert(uid.to_owned());
    }

    pub(super) fn remove(&self, uid: &str) {
        self.0.lock().remove(uid);
    }

    /// Works on an instance. What that keeps of one that went meanwhile, after it was forgotten, is
    /// forgotten again.
    pub(super) async fn during<T>(
        self,
        uid: String,
        work: impl Future<Output = T>,
        forget: impl FnOnce(&str),
    ) -> T {
        let done = work.await;
        let gone = !self.0.lock().contains(&uid);
        if gone {
            forget(&uid);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_ends_after_its_instance_is_forgotten() {
        let living = Living::default();
        living.add("a");
        let forgotten = Mutex::new(Vec::new());
        let forget = |uid: &str| forgotten.lock().push(uid.to_owned());
        living
            .clone()
            .during("a".to_owned(), async {}, forget)
            .await;
        assert_eq!(*forgotten.lock(), [""; 0]);
        let goes = async { living.remove("a") };
        living.clone().during("a".to_owned(), goes, forget).await;
        assert_eq!(*forgotten.lock(), ["a"]);
    }
}
