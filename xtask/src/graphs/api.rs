//! Where an API is: for kubectl, and for our own commands.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::kubectl::{Answer, Kubectl};

/// An API, perhaps that of a zone behind its hub.
#[derive(Clone)]
pub(super) struct Api {
    pub(super) binary: PathBuf,
    pub(super) kubeconfig: PathBuf,
    pub(super) zone: Option<&'static str>,
}

// === impl Api ===

impl Api {
    /// An administrator.
    pub(super) fn kubectl(&self) -> Kubectl {
        let kubectl = Kubectl::new(&self.kubeconfig);
        match self.zone {
            Some(zone) => kubectl.in_context(zone),
            None => kubectl,
        }
    }

    /// What our own command says, with words that have no spaces in them.
    pub(super) fn answer(&self, line: &str) -> Result<Answer> {
        let mut command = Command::new(&self.binary);
        command
            .args(line.split(' '))
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(self.zone.map(|zone| format!("--zone={zone}")));
        Answer::of(&mut command, "")
    }

    /// The same, of one that succeeds.
    pub(super) fn says(&self, line: &str) -> Result<String> {
        let answer = self.answer(line)?;
        ensure!(answer.good, "deltaplane {line}: {}", answer.err);
        Ok(answer.out)
    }
}
