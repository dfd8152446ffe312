//! Builds the programs that ours is compared with, from their published Go modules.
//!
//! They are cached per release under `<cache>/deltaplane/peers`, never in the tree.
//! A finished binary is moved into place as a whole: what [`path`] gives is complete.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::golang::{self, ETCD, KRO, KUBERNETES, Module};
use crate::{paths, process};

/// Which peers to build.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// kubectl, kube-apiserver, etcd, kro, e2e.test; all when none is named.
    names: Vec<String>,
    /// Build again what is already there.
    #[arg(long)]
    rebuild: bool,
}

/// One program: what it is built from and how.
struct Peer {
    name: &'static str,
    release: &'static str,
    source: Source,
}

enum Source {
    /// A main package of Kubernetes.
    Program(&'static str),
    /// A test binary of Kubernetes.
    TestBinary(&'static str),
    /// etcd's server.
    Etcd,
    /// kro's controller.
    Kro,
}

/// In the order in which they are built: what is needed most comes first.
const PEERS: [Peer; 5] = [
    Peer {
        name: "kubectl",
        release: KUBERNETES,
        source: Source::Program("k8s.io/kubernetes/cmd/kubectl"),
    },
    Peer {
        name: "kube-apiserver",
        release: KUBERNETES,
        source: Source::Program("k8s.io/kubernetes/cmd/kube-apiserver"),
    },
    Peer {
        name: "etcd",
        release: ETCD,
        source: Source::Etcd,
    },
    Peer {
        name: "kro",
        release: KRO,
        source: Source::Kro,
    },
    Peer {
        name: "e2e.test",
        release: KUBERNETES,
        source: Source::TestBinary("k8s.io/kubernetes/test/e2e"),
    },
];

/// `cargo xtask peers [NAME…]`: builds, then prints one line per peer with its path.
pub(crate) fn run(args: &Args) -> Result<()> {
    for name in &args.names {
        find(name)?;
    }
    for peer in &PEERS {
        if args.names.is_empty() || args.names.iter().any(|name| name == peer.name) {
            let path = peer.ensure(args.rebuild)?;
            println!("{} {} {}", peer.name, peer.release, path.display());
        }
    }
    Ok(())
}

/// The path of a peer's binary; builds it when it is not there yet.
pub(crate) fn path(name: &str) -> Result<PathBuf> {
    find(name)?.ensure(false)
}

fn find(name: &str) -> Result<&'static Peer> {
    let Some(peer) = PEERS.iter().find(|peer| peer.name == name) else {
        let known: Vec<_> = PEERS.iter().map(|peer| peer.name).collect();
        bail!("unknown peer {name}\nhint: one of {}", known.join(", "));
    };
    Ok(peer)
}

// === impl Peer ===

impl Peer {
    fn ensure(&self, rebuild: bool) -> Result<PathBuf> {
        let dir = paths::cache()?.join("peers").join(self.release);
        let path = dir.join(self.name);
        if path.is_file() && !rebuild {
            return Ok(path);
        }
        fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
        let partial = dir.join(format!(".{}.{}", self.name, std::process::id()));
        eprintln!("building {} {} (minutes, once)", self.name, self.release);
        let started = Instant::now();
        self.build(&partial)?;
        fs::rename(&partial, &path).with_context(|| format!("moving {} into place", self.name))?;
        eprintln!("built {} in {} s", self.name, started.elapsed().as_secs());
        Ok(path)
    }

    fn build(&self, target: &std::path::Path) -> Result<()> {
        let (module, words, package): (Module, &[&str], &str) = match self.source {
            Source::Program(package) => (golang::kubernetes_module()?, &["build"], package),
            Source::TestBinary(package) => (golang::kubernetes_module()?, &["test", "-c"], package),
            Source::Etcd => (golang::etcd_module()?, &["build"], "./etcd"),
            Source::Kro => (golang::kro_module()?, &["build"], golang::KRO_CONTROLLER),
        };
        let mut command = module.go()?;
        command
            .args(words)
            .arg("-trimpath")
            .arg("-ldflags")
            .arg(self.ldflags())
            .arg("-o")
            .arg(target)
            .arg(package);
        process::run(&mut command)
    }

    fn ldflags(&self) -> String {
        match self.source {
            Source::Program(_) | Source::TestBinary(_) | Source::Etcd => ldflags(),
            // It is a client of Kubernetes, and not of this release of it.
            Source::Kro => "-s -w".to_owned(),
        }
    }
}

/// The version that the binaries report: without it clients see v0.0.0.
fn ldflags() -> String {
    let mut parts = KUBERNETES.split('.');
    let (major, minor) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let mut flags = String::from("-s -w");
    for package in [
        "k8s.io/component-base/version",
        "k8s.io/client-go/pkg/version",
    ] {
        for (variable, value) in [
            ("gitVersion", format!("v{KUBERNETES}")),
            ("gitMajor", major.to_owned()),
            ("gitMinor", minor.to_owned()),
            ("gitTreeState", "clean".to_owned()),
        ] {
            flags.push_str(&format!(" -X {package}.{variable}={value}"));
        }
    }
    flags
}
