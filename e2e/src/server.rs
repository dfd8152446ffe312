//! The hub in a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tempfile::TempDir;

use crate::{PATIENCE, programs};

/// A hub that runs; killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Locked for sharing only: it is listened to by whoever owns the server.
    lines: Mutex<Receiver<Line>>,
    stdout: String,
    stderr: String,
    kubeconfig: PathBuf,
    _home: TempDir,
}

/// Something that it said.
enum Line {
    Stdout(String),
    Stderr(String),
}

/// So many lines of it are shown when a test fails.
const TOLD: usize = 60;

/// How a hub ended, or did not start.
#[derive(Debug)]
pub struct Ended {
    /// With which code, or by which signal.
    pub status: ExitStatus,
    /// What it said on standard output.
    pub stdout: String,
    /// What it said on standard error.
    pub stderr: String,
}

/// One server for several tests: whoever comes first starts it, whoever goes last ends it.
///
/// A static is never dropped, so it must not own the process.
#[derive(Debug)]
pub struct Shared {
    current: Mutex<Weak<SharedServer>>,
    start: fn(&Path) -> Server,
}

/// A server with a data directory of its own.
#[derive(Debug)]
pub struct SharedServer {
    /// The server; dropped before its data.
    pub server: Server,
    _data: TempDir,
}

// === impl Server ===

impl Server {
    /// Starts `deltaplane up` without zones and waits until it is ready.
    ///
    /// # Panics
    ///
    /// If it does not become ready.
    pub fn up(data_dir: &Path) -> Self {
        match Self::start(&["up", "--zones", ""], data_dir) {
            Ok(server) => server,
            Err(ended) => panic!("did not become ready: {ended:?}"),
        }
    }

    /// Starts `deltaplane up` with its usual zones and waits until it is ready.
    ///
    /// # Panics
    ///
    /// If it does not become ready.
    pub fn fleet(data_dir: &Path) -> Self {
        match Self::start(&["up"], data_dir) {
            Ok(server) => server,
            Err(ended) => panic!("did not become ready: {ended:?}"),
        }
    }

    /// Starts `deltaplane` with this subcommand and further flags, and waits until it is ready.
    /// Whatever the flags do not say: the data directory given, a free port.
    pub fn start(words: &[&str], data_dir: &Path) -> Result<Self, Ended> {
        Self::spawn(Command::new(programs::deltaplane()), words, data_dir)
    }

    /// Like [`Server::start`], where no file can be written until [`Server::free_disk`].
    ///
    /// A limit stands for a full disk, which only root could make: what is written fails, and what
    /// is there can be read.
    pub fn start_on_full_disk(words: &[&str], data_dir: &Path) -> Result<Self, Ended> {
        let mut shell = Command::new("sh");
        let limited = r#"trap '' XFSZ; ulimit -S -f 0; exec "$0" "$@""#;
        shell.arg("-c").arg(limited).arg(programs::deltaplane());
        Self::spawn(shell, words, data_dir)
    }

    /// Lets it write files again.
    ///
    /// # Panics
    ///
    /// If that is not allowed.
    pub fn free_disk(&self) {
        let id = i32::try_from(self.id()).ok().and_then(Pid::from_raw);
        let limit = prlimit(
            id,
            Resource::Fsize,
            Rlimit {
                current: None,
                maximum: None,
            },
        );
        limit.expect("the process is ours");
    }

    fn spawn(mut command: Command, words: &[&str], data_dir: &Path) -> Result<Self, Ended> {
        let home = tempfile::tempdir().expect("a temporary directory");
        command.args(words);
        if !words.contains(&"--data-dir") {
            command.arg("--data-dir").arg(data_dir);
        }
        if !words.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let mut child = command
            .env_clear()
            .env("HOME", home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let (sender, lines) = channel();
        forward(
            child.stdout.take().expect("piped"),
            sender.clone(),
            Line::Stdout,
        );
        forward(child.stderr.take().expect("piped"), sender, Line::Stderr);
        let mut server = Self {
            child,
            lines: Mutex::new(lines),
            stdout: String::new(),
            stderr: String::new(),
            kubeconfig: data_dir.join("kubeconfig"),
            _home: home,
        };
        match server.listen(is_ready) {
            true => Ok(server),
            false => Err(server.ended()),
        }
    }

    /// Waits until it says this, on standard error.
    ///
    /// # Panics
    ///
    /// If it ends without having said it.
    pub fn says(&mut self, text: &str) {
        let said = self.listen(|line| matches!(line, Line::Stderr(line) if line.contains(text)));
        assert!(said, "it never said {text:?}: {}", self.stderr);
    }

    /// What it printed when it was ready.
    pub fn greeting(&self) -> &str {
        &self.stdout
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it with no warning, and waits until it is gone.
    pub fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }

    /// Asks it to stop, and waits until it did.
    ///
    /// # Panics
    ///
    /// If it does not stop.
    pub fn terminate(self) -> Ended {
        self.end("TERM")
    }

    /// Presses Ctrl-C, and waits until it stopped.
    ///
    /// # Panics
    ///
    /// If it does not stop.
    pub fn interrupt(self) -> Ended {
        self.end("INT")
    }

    /// Stops it where it is: it neither ends nor answers.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    fn end(mut self, signal: &str) -> Ended {
        self.signal(signal);
        self.listen(|_| false);
        self.ended()
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let mut kill = Command::new("sh");
        kill.args(["-c", "kill -\"$1\" \"$2\"", "kill", signal, &id]);
        assert!(kill.status().expect("a shell").success());
    }

    /// Listens until it says such a thing, or ends; whether it said it.
    ///
    /// # Panics
    ///
    /// If neither happens in time.
    fn listen(&mut self, until: impl Fn(&Line) -> bool) -> bool {
        loop {
            let lines = self.lines.get_mut().unwrap_or_else(PoisonError::into_inner);
            let line = match lines.recv_timeout(PATIENCE) {
                Ok(line) => line,
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => panic!("too slow: {}", self.stderr),
            };
            let done = until(&line);
            match line {
                Line::Stdout(line) => self.stdout.push_str(&line),
                Line::Stderr(line) => self.stderr.push_str(&line),
            }
            if done {
                return true;
            }
        }
    }

    /// What it said last, for whoever looks for the cause of a failure.
    fn tell(&mut self) {
        let lines = self.lines.get_mut().unwrap_or_else(PoisonError::into_inner);
        for line in lines.iter() {
            if let Line::Stderr(line) = line {
                self.stderr.push_str(&line);
            }
        }
        let last = self.stderr.lines().rev().take(TOLD).collect::<Vec<_>>();
        let last: Vec<&str> = last.into_iter().rev().collect();
        eprintln!(
            "process {} said last:\n{}",
            self.child.id(),
            last.join("\n")
        );
    }

    /// Its output is closed: it is about to end.
    fn ended(mut self) -> Ended {
        Ended {
            status: self.child.wait().expect("gone"),
            stdout: std::mem::take(&mut self.stdout),
            stderr: std::mem::take(&mut self.stderr),
        }
    }
}

/// The last line of what `up` says, and the one that `hub` logs.
fn is_ready(line: &Line) -> bool {
    match line {
        Line::Stdout(line) => line.starts_with("Ctrl-C"),
        Line::Stderr(line) => line.contains("INFO") && line.contains(": ready"),
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails only if it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            self.tell();
        }
    }
}

// === impl Shared ===

impl Shared {
    /// Nothing yet; started like this.
    pub const fn new(start: fn(&Path) -> Server) -> Self {
        Self {
            current: Mutex::new(Weak::new()),
            start,
        }
    }

    /// The server, for as long as the answer is kept.
    pub fn get(&self) -> Arc<SharedServer> {
        // A test that failed while it started one left nothing half-made.
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = current.upgrade() {
            return shared;
        }
        let data = tempfile::tempdir().expect("a temporary directory");
        let shared = Arc::new(SharedServer {
            server: (self.start)(&data.path().join("data")),
            _data: data,
        });
        *current = Arc::downgrade(&shared);
        shared
    }
}

/// The lines of a stream, with their ends, as they come.
pub(crate) fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    forward(stream, sender, |line| line);
    receiver
}

/// No test leaves more lines unread; if one does, the writer waits.
fn channel<T>() -> (SyncSender<T>, Receiver<T>) {
    sync_channel(10_000)
}

fn forward<T: Send + 'static>(
    stream: impl Read + Send + 'static,
    sender: SyncSender<T>,
    wrap: fn(String) -> T,
) {
    std::thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        while matches!(stream.read_line(&mut line), Ok(1..)) {
            if sender.send(wrap(std::mem::take(&mut line))).is_err() {
                return;
            }
        }
    });
}
