//! Small files that are whole or absent, whenever the power goes.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A file operation failed.
#[derive(Debug, thiserror::Error)]
#[error("failed to {operation} {path:?}")]
pub struct FileError {
    operation: &'static str,
    /// Which file.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: io::Error,
}

// === impl FileError ===

impl FileError {
    /// Returns true if there was no room: on the file system, or within a quota or a limit.
    pub fn is_full(&self) -> bool {
        matches!(
            self.source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        )
    }

    /// What is at `path` could not be read.
    pub fn reading(path: &Path, source: io::Error) -> Self {
        failed("read", path)(source)
    }
}

/// Readable and writable by the owner only.
const PRIVATE: u32 = 0o600;

/// Makes a directory that only its owner may enter, and those above it.
pub fn create_private_dir(path: &Path) -> Result<(), FileError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(path).map_err(failed("create", path))
}

/// Replaces `path` by a file with this content, for its owner only, durably and at once: readers
/// see the old content or the new, also after a crash.
pub fn write_private(path: &Path, content: &[u8]) -> Result<(), FileError> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    };
    let temporary = temporary(path);
    let write = || {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(PRIVATE)
            .open(&temporary)?;
        // The mode above is that of a new file; one may be left from a crash.
        file.set_permissions(Permissions::from_mode(PRIVATE))?;
        file.write_all(content)?;
        file.sync_all()
    };
    write().map_err(failed("write", &temporary))?;
    fs::rename(&temporary, path).map_err(failed("replace", path))?;
    let sync = || File::open(directory)?.sync_all();
    sync().map_err(failed("sync", directory))
}

/// Moves a file to another name in its directory, if it is there. It takes no room.
pub fn rename_if_exists(path: &Path, to: &Path) -> Result<(), FileError> {
    match fs::rename(path, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("rename", path)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// A file's content, or `None` if there is no such file.
pub fn read_if_exists(path: &Path) -> Result<Option<String>, FileError> {
    match fs::read_to_string(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path)(error)),
    }
}

/// A file's bytes, whatever they are, or `None` if there is no such file.
pub fn read_bytes_if_exists(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path)(error)),
    }
}

/// A file's content.
pub fn read(path: &Path) -> Result<String, FileError> {
    fs::read_to_string(path).map_err(failed("read", path))
}

/// The permissions of a file, if it is there and others than its owner may read or write it.
pub fn exposed(path: &Path) -> Option<u32> {
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & 0o066 != 0).then_some(mode)
}

/// Removes a file, if it is there.
pub fn remove_if_exists(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed("remove", path)(error)),
    }
}

fn temporary(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".new");
    path.with_file_name(name)
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    let path = path.to_owned();
    move |source| FileError {
        operation,
        path,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        let metadata = fs::metadata(path).expect("the file is there");
        metadata.permissions().mode() & 0o777
    }

    #[test]
    fn written_whole_and_private() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let nested = directory.path().join("a/b");
        create_private_dir(&nested).expect("created");
        create_private_dir(&nested).expect("exists");
        assert_eq!(mode(&nested), 0o700);
        let path = nested.join("key");
        assert_eq!(read_if_exists(&path).expect("readable"), None);
        // As a crash in the middle of a write leaves it.
        fs::write(temporary(&path), "half of it, and far longer").expect("written");
        for content in ["one", "two"] {
            write_private(&path, content.as_bytes()).expect("written");
            let read = read_if_exists(&path).expect("readable");
            assert_eq!(read.as_deref(), Some(content));
            assert_eq!(mode(&path), 0o600);
        }
        assert_eq!(exposed(&path), None);
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("ours");
        assert_eq!(exposed(&path), Some(0o640));
        assert_eq!(fs::read_dir(&nested).expect("readable").count(), 1);
        remove_if_exists(&path).expect("removed");
        remove_if_exists(&path).expect("absent already");
        assert_eq!(read_if_exists(&path).expect("readable"), None);
        assert_eq!(exposed(&path), None);
        let missing = read(&path).expect_err("it was removed");
        assert_eq!(missing.source.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn errors_name_the_file() {
        let error = write_private(Path::new("/nonexistent/key"), b"").expect_err("no directory");
        assert_eq!(
            error.to_string(),
            "failed to write \"/nonexistent/.key.new\""
        );
    }
}
