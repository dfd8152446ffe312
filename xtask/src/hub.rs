//! Our own server as a process, for suites and measurements: release build, fresh data directory.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::{paths, process};

/// Time to become ready: generous, because a laptop may be compiling meanwhile.
const READY: Duration = Duration::from_secs(60);

/// A running hub; it ends with this value.
pub(crate) struct Hub {
    child: Child,
    kubeconfig: PathBuf,
    dir: TempDir,
}

/// The release binary, built first.
pub(crate) fn binary() -> Result<PathBuf> {
    let root = paths::workspace();
    process::run(Command::new("cargo").current_dir(&root).args([
        "build",
        "--release",
        "--package",
        "deltaplane",
    ]))?;
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release/deltaplane"))
}

// === impl Hub ===

impl Hub {
    /// Starts the binary on a free port; returns when its kubeconfig appears, which it does last.
    pub(crate) fn start(binary: &Path) -> Result<Self> {
        let dir = tempfile::tempdir().context("making a temporary directory")?;
        let mut hub = Self {
            child: spawn(binary, dir.path())?,
            kubeconfig: dir.path().join("data/kubeconfig"),
            dir,
        };
        hub.await_ready()?;
        Ok(hub)
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it and starts it again on the same data; gives the time until it is ready.
    pub(crate) fn restart(&mut self, binary: &Path) -> Result<Duration> {
        self.child.kill().context("killing the hub")?;
        self.child.wait().context("waiting for the hub's end")?;
        fs::remove_file(&self.kubeconfig).context("removing a kubeconfig")?;
        let started = Instant::now();
        self.child = spawn(binary, self.dir.path())?;
        self.await_ready()?;
        Ok(started.elapsed())
    }

    /// A kubeconfig of an administrator.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    fn await_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + READY;
        while !self.kubeconfig.is_file() {
            let exited = self
                .child
                .try_wait()
                .context("looking after the hub")?
                .is_some();
            if exited || Instant::now() > deadline {
                let log = fs::read_to_string(self.dir.path().join("hub.log")).unwrap_or_default();
                bail!("the hub did not become ready; its log is\n{log}");
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

fn spawn(binary: &Path, dir: &Path) -> Result<Child> {
    let log = fs::File::create(dir.join("hub.log")).context("creating a log file")?;
    Command::new(binary)
        .args(["hub", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(dir.join("data"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .with_context(|| format!("starting {}", binary.display()))
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
