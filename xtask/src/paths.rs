//! Where things are: the workspace, and the cache for what is fetched or built.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The root of the workspace.
pub(crate) fn workspace() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// The user's cache directory for this project: `$XDG_CACHE_HOME/deltaplane` or `~/.cache/deltaplane`.
pub(crate) fn cache() -> Result<PathBuf> {
    let base = match env::var_os("XDG_CACHE_HOME") {
        Some(dir) if !dir.is_empty() => PathBuf::from(dir),
        Some(_) | None => {
            let home = env::var_os("HOME").context("neither XDG_CACHE_HOME nor HOME is set")?;
            PathBuf::from(home).join(".cache")
        }
    };
    Ok(base.join("deltaplane"))
}
