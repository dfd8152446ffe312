//! A real kube-apiserver with its etcd, for comparing: no controllers, no nodes.
//!
//! Everything lives in a temporary directory and ends with the value.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::peers;
use crate::proxy::{JSON, Proxy};

/// Time for a server to become ready on a busy machine.
const READY: Duration = Duration::from_secs(120);

/// A running kube-apiserver with etcd, reached through a proxy.
pub(crate) struct Cluster {
    // Dropped in this order: the clients first, the directory last.
    proxy: Proxy,
    apiserver: Owned,
    etcd: Owned,
    kubeconfig: PathBuf,
    layout: Layout,
    _dir: TempDir,
}

/// A child process that ends with the value.
struct Owned(Child);

/// What one start needs to know.
struct Layout {
    audited: bool,
    dir: PathBuf,
    etcd_port: u16,
    etcd_peer_port: u16,
    port: u16,
}

const TOKEN: &str = "deltaplane-peer";
/// Another administrator, whose requests are written down where that is wanted.
const WATCHED_TOKEN: &str = "deltaplane-watched";
const WATCHED: &str = "watched";

// === impl Cluster ===

impl Cluster {
    pub(crate) fn start() -> Result<Self> {
        Self::start_as(false)
    }

    /// One that writes down every request of [`Cluster::watched`] and of service accounts.
    pub(crate) fn start_audited() -> Result<Self> {
        Self::start_as(true)
    }

    fn start_as(audited: bool) -> Result<Self> {
        let dir = tempfile::tempdir().context("making a temporary directory")?;
        let [etcd_port, etcd_peer_port, port] = free_ports()?;
        let layout = Layout {
            audited,
            dir: dir.path().to_path_buf(),
            etcd_port,
            etcd_peer_port,
            port,
        };
        eprintln!("starting etcd and kube-apiserver");
        layout.credentials()?;
        let etcd = layout.etcd()?;
        let mut apiserver = layout.apiserver()?;
        let kubeconfig = layout.kubeconfig()?;
        let proxy = Proxy::start(&kubeconfig)?;
        await_ready(&proxy, &mut apiserver, &layout.dir)?;
        Ok(Self {
            proxy,
            apiserver,
            etcd,
            kubeconfig,
            layout,
            _dir: dir,
        })
    }

    /// The processes of kube-apiserver and etcd.
    pub(crate) fn pids(&self) -> Vec<u32> {
        vec![self.apiserver.0.id(), self.etcd.0.id()]
    }

    /// Kills kube-apiserver.
    pub(crate) fn stop_apiserver(&mut self) -> Result<()> {
        let child = &mut self.apiserver.0;
        child.kill().context("killing kube-apiserver")?;
        child.wait().context("waiting for kube-apiserver's end")?;
        Ok(())
    }

    /// Starts kube-apiserver again, with the same keys and port, after it was stopped.
    pub(crate) fn start_apiserver(&mut self) -> Result<()> {
        self.apiserver = self.layout.apiserver()?;
        await_ready(&self.proxy, &mut self.apiserver, &self.layout.dir)
    }

    /// Where its files are.
    pub(crate) fn dir(&self) -> &Path {
        &self.layout.dir
    }

    /// The kubeconfig of another administrator, whose requests are counted.
    pub(crate) fn watched(&self) -> Result<PathBuf> {
        let path = self.layout.dir.join("watched.kubeconfig");
        self.layout.write_kubeconfig(WATCHED_TOKEN, &path)
    }

    /// Where the requests of that one are written down.
    pub(crate) fn audit(&self) -> PathBuf {
        self.layout.audit()
    }

    /// A kubeconfig with another token, written into `dir`.
    pub(crate) fn kubeconfig_with(&self, token: &str, dir: &Path) -> Result<PathBuf> {
        self.layout
            .write_kubeconfig(token, &dir.join("agent.kubeconfig"))
    }

    /// A kubeconfig of an administrator.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

impl Deref for Cluster {
    type Target = Proxy;

    fn deref(&self) -> &Proxy {
        &self.proxy
    }
}

fn await_ready(proxy: &Proxy, apiserver: &mut Owned, dir: &Path) -> Result<()> {
    let deadline = Instant::now() + READY;
    loop {
        // The bootstrap of RBAC, priority classes and the like ends before this answers `ok`.
        if let Ok((200, _)) = proxy.get_bytes("/readyz", JSON)
            && let Ok((200, _)) = proxy.get_bytes("/api/v1/namespaces/default", JSON)
        {
            return Ok(());
        }
        let exited = apiserver
            .0
            .try_wait()
            .context("looking after kube-apiserver")?
            .is_some();
        if exited || Instant::now() > deadline {
            let log = fs::read_to_string(dir.join("kube-apiserver.log")).unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(5).collect();
            bail!(
                "kube-apiserver did not become ready; its log ends with\n{}",
                tail.join("\n")
            );
        }
        thread::sleep(Duration::from_millis(100));
    }
}

// === impl Layout ===

impl Layout {
    fn etcd(&self) -> Result<Owned> {
        let client = format!("http://127.0.0.1:{}", self.etcd_port);
        let peer = format!("http://127.0.0.1:{}", self.etcd_peer_port);
        let args = [
            "--name=peer".to_owned(),
            format!("--data-dir={}", self.dir.join("etcd").display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=peer={peer}"),
        ];
        self.spawn("etcd", &args)
    }

    /// What must be the same whenever kube-apiserver is started.
    fn credentials(&self) -> Result<()> {
        let pair = rcgen::KeyPair::generate().context("making a key for service accounts")?;
        fs::write(self.key(), pair.serialize_pem())
            .context("writing the key for service accounts")?;
        fs::write(self.public(), pair.public_key_pem())
            .context("writing the key for service accounts")?;
        fs::write(
            self.tokens(),
            format!(
                "{TOKEN},admin,admin,system:masters\n{WATCHED_TOKEN},{WATCHED},{WATCHED},system:masters\n"
            ),
        )
        .context("writing tokens")?;
        let policy = serde_json::json!({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [
                {"level": "Metadata", "users": [WATCHED]},
                {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
                {"level": "None"},
            ],
        });
        fs::write(self.policy(), policy.to_string()).context("writing an audit policy")
    }

    fn key(&self) -> PathBuf {
        self.dir.join("service-account.key")
    }

    fn public(&self) -> PathBuf {
        self.dir.join("service-account.pub")
    }

    fn policy(&self) -> PathBuf {
        self.dir.join("audit-policy.json")
    }

    fn audit(&self) -> PathBuf {
        self.dir.join("audit.log")
    }

    fn tokens(&self) -> PathBuf {
        self.dir.join("tokens.csv")
    }

    fn apiserver(&self) -> Result<Owned> {
        let mut args = vec![
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_port),
            format!("--cert-dir={}", self.dir.join("certs").display()),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.port),
            format!("--token-auth-file={}", self.tokens().display()),
            "--authorization-mode=RBAC".to_owned(),
            // What kubeadm takes: examples of others name addresses in it.
            "--service-cluster-ip-range=10.96.0.0/12".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", self.public().display()),
            format!(
                "--service-account-signing-key-file={}",
                self.key().display()
            ),
            // Without controllers no service account would ever be made for a pod.
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            "--allow-privileged=true".to_owned(),
        ];
        if self.audited {
            args.extend([
                format!("--audit-policy-file={}", self.policy().display()),
                format!("--audit-log-path={}", self.audit().display()),
                // Megabytes: never a second file.
                "--audit-log-maxsize=100000".to_owned(),
            ]);
        }
        self.spawn("kube-apiserver", &args)
    }

    fn spawn(&self, peer: &str, args: &[String]) -> Result<Owned> {
        let log = fs::File::create(self.dir.join(format!("{peer}.log")))
            .context("creating a log file")?;
        let child = Command::new(peers::path(peer)?)
            .args(args)
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {peer}"))?;
        Ok(Owned(child))
    }

    fn kubeconfig(&self) -> Result<PathBuf> {
        self.write_kubeconfig(TOKEN, &self.dir.join("kubeconfig"))
    }

    fn write_kubeconfig(&self, token: &str, path: &Path) -> Result<PathBuf> {
        let server = format!("https://127.0.0.1:{}", self.port);
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "peer",
            "clusters": [{"name": "peer", "cluster": {"server": server, "insecure-skip-tls-verify": true}}],
            "users": [{"name": "peer", "user": {"token": token}}],
            "contexts": [{"name": "peer", "context": {"cluster": "peer", "user": "peer"}}],
        });
        fs::write(path, config.to_string()).context("writing a kubeconfig")?;
        Ok(path.to_owned())
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Ports that were free a moment ago; all are held until all are known, so they differ.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let listeners = std::iter::repeat_with(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .take(N)
        .collect::<Result<Vec<_>, _>>()
        .context("looking for free ports")?;
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr().context("reading a free port")?.port();
    }
    Ok(ports)
}
