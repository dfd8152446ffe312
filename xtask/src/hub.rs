//! Our own server as a process, for suites, measurements and torture: release build, fresh data
//! directory.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{paths, process};

/// Time to become ready: generous, because a laptop may be compiling meanwhile.
const READY: Duration = Duration::from_secs(60);
const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A running hub; it ends with this value.
pub(crate) struct Hub {
    child: Child,
    kubeconfig: PathBuf,
    environment: Vec<(String, String)>,
    listen: SocketAddr,
    dir: TempDir,
}

/// The release binary, built first.
pub(crate) fn binary() -> Result<PathBuf> {
    build(&target(), &["--package", "deltaplane"])
}

/// A release binary in which bugs can be turned on, built first, in a place of its own.
pub(crate) fn sabotaged_binary() -> Result<PathBuf> {
    let arguments = [
        "--package",
        "deltaplane",
        "--package",
        "deltaplane-store",
        // Of whichever of them has it: the store.
        "--features",
        "sabotage",
        // Sooner built; nobody measures it.
        "--config",
        "profile.release.lto=\"off\"",
    ];
    build(&target().join("sabotage"), &arguments)
}

fn build(target: &Path, arguments: &[&str]) -> Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(paths::workspace())
        .args(["build", "--release", "--target-dir"])
        .arg(target)
        .args(arguments);
    process::run(&mut cargo)?;
    Ok(target.join("release/deltaplane"))
}

fn target() -> PathBuf {
    let chosen = env::var_os("CARGO_TARGET_DIR");
    chosen.map_or_else(|| paths::workspace().join("target"), PathBuf::from)
}

// === impl Hub ===

impl Hub {
    /// Starts the binary on a free port; returns when its kubeconfig appears, which it does last.
    pub(crate) fn start(binary: &Path) -> Result<Self> {
        let mut hub = Self::spawn(binary, Vec::new())?;
        hub.await_ready()?;
        Ok(hub)
    }

    /// Like [`Hub::start`], on a port that it has again after a restart.
    pub(crate) fn start_to_stay(binary: &Path) -> Result<Self> {
        let free = TcpListener::bind(ANY_PORT).and_then(|free| free.local_addr());
        let listen = free.context("looking for a free port")?;
        let mut hub = Self::spawn_on(binary, listen, Vec::new())?;
        hub.await_ready()?;
        Ok(hub)
    }

    /// Starts the binary with more in its environment, and does not wait until it is ready.
    pub(crate) fn spawn(binary: &Path, environment: Vec<(String, String)>) -> Result<Self> {
        Self::spawn_on(binary, ANY_PORT, environment)
    }

    fn spawn_on(
        binary: &Path,
        listen: SocketAddr,
        environment: Vec<(String, String)>,
    ) -> Result<Self> {
        let dir = tempfile::tempdir().context("making a temporary directory")?;
        Ok(Self {
            child: spawn(binary, dir.path(), (listen, &environment))?,
            kubeconfig: dir.path().join("data/kubeconfig"),
            environment,
            listen,
            dir,
        })
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it and starts it again on the same data; gives the time until it is ready.
    pub(crate) fn restart(&mut self, binary: &Path) -> Result<Duration> {
        self.kill()?;
        self.start_again(binary)
    }

    /// Kills it, running or stopped.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill().context("killing the hub")?;
        self.child.wait().context("waiting for the hub's end")?;
        Ok(())
    }

    /// Starts it again on the same data, after it has ended; does not wait until it is ready.
    pub(crate) fn spawn_again(&mut self, binary: &Path) -> Result<()> {
        match fs::remove_file(&self.kubeconfig) {
            // It was not ready yet.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed.context("removing a kubeconfig")?,
        }
        let how = (self.listen, self.environment.as_slice());
        self.child = spawn(binary, self.dir.path(), how)?;
        Ok(())
    }

    /// Starts it again on the same data, after it has ended; gives the time until it is ready.
    pub(crate) fn start_again(&mut self, binary: &Path) -> Result<Duration> {
        let started = Instant::now();
        self.spawn_again(binary)?;
        self.await_ready()?;
        Ok(started.elapsed())
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.child), signal).context("signalling the hub")
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("looking after the hub")
    }

    /// A kubeconfig of an administrator.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Whether it is ready; an error if it has ended.
    pub(crate) fn is_ready(&mut self) -> Result<bool> {
        if self.kubeconfig.is_file() {
            return Ok(true);
        }
        if self.ended()?.is_some() {
            bail!("the hub did not become ready; its log is\n{}", self.log());
        }
        Ok(false)
    }

    /// What it said since its first start.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("hub.log")).unwrap_or_default()
    }

    /// Leaves the data where it is, for somebody to look at.
    pub(crate) fn keep(&mut self) -> &Path {
        self.dir.disable_cleanup(true);
        self.dir.path()
    }

    fn await_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + READY;
        while !self.is_ready()? {
            if Instant::now() > deadline {
                bail!("the hub did not become ready; its log is\n{}", self.log());
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

fn spawn(
    binary: &Path,
    dir: &Path,
    (listen, environment): (SocketAddr, &[(String, String)]),
) -> Result<Child> {
    let mut log = OpenOptions::new();
    let log = log.create(true).append(true).open(dir.join("hub.log"));
    let environment = environment
        .iter()
        .map(|(name, value)| (OsStr::new(name), OsStr::new(value)));
    Command::new(binary)
        .args(["hub", "--listen", &listen.to_string(), "--data-dir"])
        .arg(dir.join("data"))
        .envs(environment)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log.context("creating a log file")?)
        .spawn()
        .with_context(|| format!("starting {}", binary.display()))
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
