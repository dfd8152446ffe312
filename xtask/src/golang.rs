//! Go modules of ours, made by this tool, through which published Go code is built and called.
//!
//! `k8s.io/kubernetes` replaces its staging modules by directories of its own repository, which a
//! dependent module does not inherit: [`kubernetes_module`] repeats them as published versions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::{paths, process};

/// The Kubernetes release that everything here is made from and compared with.
pub(crate) const KUBERNETES: &str = "1.36.3";
/// The same release as its staging modules number it.
pub(crate) const STAGING: &str = "0.36.3";
/// The etcd release used beside kube-apiserver.
pub(crate) const ETCD: &str = "3.7.3";
/// The release of cel-go that ours is measured beside: kro's.
const CEL: &str = "0.31.0";
/// The release of kro whose expressions ours are compared with.
pub(crate) const KRO: &str = "0.9.4";

/// kro's main package.
pub(crate) const KRO_CONTROLLER: &str = "github.com/kubernetes-sigs/kro/cmd/controller";

/// A directory with a `go.mod` of ours.
pub(crate) struct Module {
    dir: PathBuf,
}

/// Where a published module is on this machine.
#[derive(Deserialize)]
struct Downloaded {
    #[serde(rename = "Dir")]
    dir: PathBuf,
}

/// The module through which Kubernetes is built.
pub(crate) fn kubernetes_module() -> Result<Module> {
    let upstream = download(&format!("k8s.io/kubernetes@v{KUBERNETES}"))?;
    let text = fs::read_to_string(upstream.join("go.mod")).context("reading Kubernetes' go.mod")?;
    let mut replaces = String::new();
    for name in staged(&text) {
        replaces.push_str(&format!("\t{name} => {name} v{STAGING}\n"));
    }
    if replaces.is_empty() {
        bail!("Kubernetes' go.mod names no staging modules: its layout has changed");
    }
    let go = go_directive(&text)?;
    let body = format!(
        "module deltaplane.io/peers/kubernetes\n\ngo {go}\n\nrequire k8s.io/kubernetes v{KUBERNETES}\n\nreplace (\n{replaces})\n"
    );
    Module::create(
        &paths::cache()?
            .join("go")
            .join(format!("kubernetes-{KUBERNETES}")),
        &body,
    )
}

/// The module through which etcd is built; it holds one main package.
pub(crate) fn etcd_module() -> Result<Module> {
    let body = format!(
        "module deltaplane.io/peers/etcd\n\ngo 1.26\n\nrequire go.etcd.io/etcd/server/v3 v{ETCD}\n"
    );
    let module = Module::create(
        &paths::cache()?.join("go").join(format!("etcd-{ETCD}")),
        &body,
    )?;
    module.package(
        "etcd",
        "package main\n\nimport (\n\t\"os\"\n\n\t\"go.etcd.io/etcd/server/v3/etcdmain\"\n)\n\nfunc main() { etcdmain.Main(os.Args) }\n",
    )?;
    Ok(module)
}

/// The module through which cel-go is measured; it holds one main package.
pub(crate) fn cel_module(main: &str) -> Result<Module> {
    let body = format!(
        "module deltaplane.io/peers/cel\n\ngo 1.26\n\nrequire github.com/google/cel-go v{CEL}\n"
    );
    let module = Module::create(
        &paths::cache()?.join("go").join(format!("cel-{CEL}")),
        &body,
    )?;
    module.package("bench", main)?;
    Ok(module)
}

/// The module through which kro's packages are called.
pub(crate) fn kro_module() -> Result<Module> {
    let body = format!(
        "module deltaplane.io/peers/kro\n\ngo 1.26\n\nrequire github.com/kubernetes-sigs/kro v{KRO}\n"
    );
    Module::create(
        &paths::cache()?.join("go").join(format!("kro-{KRO}")),
        &body,
    )
}

/// The files of kro's own kinds.
pub(crate) fn kro_kinds() -> Result<PathBuf> {
    let module = download(&format!("github.com/kubernetes-sigs/kro@v{KRO}"))?;
    Ok(module.join("helm/crds"))
}

/// The directory of a published module (`path@version`), downloaded when it is not there yet.
pub(crate) fn download(module: &str) -> Result<PathBuf> {
    let json = process::output(go()?.args(["mod", "download", "-json", module]))?;
    let downloaded: Downloaded =
        serde_json::from_slice(&json).with_context(|| format!("reading where {module} is"))?;
    Ok(downloaded.dir)
}

// === impl Module ===

impl Module {
    /// Writes `go.mod` when it is new or differs in what we ask for; Go adds the rest to it.
    fn create(dir: &Path, body: &str) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
        let wanted = dir.join("wanted.mod");
        if fs::read_to_string(&wanted).ok().as_deref() != Some(body) {
            write(&dir.join("go.mod"), body)?;
            write(&wanted, body)?;
        }
        Ok(Self {
            dir: dir.to_path_buf(),
        })
    }

    /// Puts a main package of ours into the module.
    pub(crate) fn package(&self, name: &str, main: &str) -> Result<()> {
        self.file(name, "main.go", main)
    }

    /// Puts a file of ours into a package.
    pub(crate) fn file(&self, package: &str, name: &str, text: &str) -> Result<()> {
        let dir = self.dir.join(package);
        fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
        let file = dir.join(name);
        if fs::read_to_string(&file).ok().as_deref() != Some(text) {
            write(&file, text)?;
        }
        Ok(())
    }

    /// A `go` command that runs inside the module.
    pub(crate) fn go(&self) -> Result<Command> {
        go_in(&self.dir)
    }
}

/// A `go` command that runs inside a module.
pub(crate) fn go_in(module: &Path) -> Result<Command> {
    let mut command = go()?;
    command
        .current_dir(module)
        .env("GOFLAGS", "-mod=mod -buildvcs=false")
        .env("CGO_ENABLED", "0");
    Ok(command)
}

/// Copies a file or a directory. The module cache is read-only, so contents are written anew.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    if from.is_file() {
        let parent = to.parent().unwrap_or(to);
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
        let body = fs::read(from).with_context(|| format!("reading {}", from.display()))?;
        return fs::write(to, body).with_context(|| format!("writing {}", to.display()));
    }
    fs::create_dir_all(to).with_context(|| format!("creating {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// A short name for what is made of these texts.
pub(crate) fn digest(texts: &[&str]) -> String {
    let mut hash = Sha256::new();
    texts.iter().for_each(|text| hash.update(text));
    let digest = hash.finalize();
    digest
        .iter()
        .take(6)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A `go` command with our build cache, so that nothing of ours lands in the user's.
fn go() -> Result<Command> {
    let mut command = Command::new("go");
    if let Err(error) = Command::new("go").arg("version").output() {
        let hint = "hint: install Go 1.26 or newer (https://go.dev/dl) and put `go` on PATH";
        return Err(
            anyhow::Error::new(error).context(format!("the Go toolchain is needed\n{hint}"))
        );
    }
    command
        .env("GOCACHE", paths::cache()?.join("go-build"))
        .env("GOWORK", "off");
    Ok(command)
}

fn write(path: &Path, body: &str) -> Result<()> {
    fs::write(path, body).with_context(|| format!("writing {}", path.display()))
}

/// The modules that a go.mod replaces by `./staging/src/<name>`.
fn staged(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let (name, target) = line
            .trim()
            .trim_start_matches("replace ")
            .split_once(" => ")?;
        target
            .strip_prefix("./staging/src/")
            .filter(|rest| *rest == name)
    })
}

fn go_directive(text: &str) -> Result<&str> {
    text.lines()
        .find_map(|line| line.strip_prefix("go "))
        .context("Kubernetes' go.mod has no go directive")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staging_modules_are_found_in_a_go_mod() {
        let text = "module x\n\ngo 1.26.0\n\nreplace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n\tother => ../other\n)\n";
        assert_eq!(staged(text).collect::<Vec<_>>(), ["k8s.io/api"]);
        assert_eq!(go_directive(text).unwrap(), "1.26.0");
    }
}
