//! A process of ours that is started, killed and started again; it ends with the value.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

/// One program, in whichever of its lives.
pub(crate) struct Program {
    binary: PathBuf,
    log: PathBuf,
    child: Option<Child>,
}

// === impl Program ===

impl Program {
    /// Not started yet. What it says goes to the end of the log.
    pub(crate) fn new(binary: &Path, log: PathBuf) -> Self {
        Self {
            binary: binary.to_owned(),
            log,
            child: None,
        }
    }

    pub(crate) fn start(&mut self, words: &[String]) -> Result<()> {
        let mut log = OpenOptions::new();
        let log = log.create(true).append(true).open(&self.log);
        let child = Command::new(&self.binary)
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.context("creating a log file")?)
            .spawn()
            .with_context(|| format!("starting {}", self.binary.display()))?;
        self.child = Some(child);
        Ok(())
    }

    /// Kills it with no warning.
    pub(crate) fn kill(&mut self) -> Result<()> {
        let mut child = self.child.take().context("it is not running")?;
        child.kill().context("killing it")?;
        child.wait().context("waiting for its end")?;
        Ok(())
    }

    /// Its process, which must be running.
    pub(crate) fn process(&mut self) -> Result<u32> {
        let child = self.child.as_mut().context("it was not started")?;
        let ended = child.try_wait().context("looking after it")?;
        ensure!(ended.is_none(), "it ended: {ended:?}");
        Ok(child.id())
    }

    /// What it has said since its first start.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
