//! One process per store: an advisory lock on a file beside it, which the
//! kernel drops with the process, however it ends.

use std::{
    fs,
    io::{self, Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// Held as long as this value lives.
#[derive(Debug)]
pub(super) struct Lock {
    _file: fs::File,
}

/// Why the lock was not taken.
#[derive(Debug)]
pub(super) enum LockError {
    /// Another process, named by the text in the file, holds it.
    Held {
        holder: String,
    },
    Io(io::Error),
}

impl Lock {
    pub(super) fn take(path: &Path) -> Result<Self, LockError> {
        let mut file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(LockError::Io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Err(LockError::Held {
                    holder: holder(&mut file),
                });
            }
            Err(fs::TryLockError::Error(error)) => return Err(LockError::Io(error)),
        }
        // Only a hint for people: a full disk must not keep a store closed.
        if let Err(error) = sign(&mut file) {
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "the lock is not signed"
            );
        }
        Ok(Self { _file: file })
    }
}

fn sign(file: &mut fs::File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    write!(file, "process {}", std::process::id())
}

fn holder(file: &mut fs::File) -> String {
    let mut text = String::new();
    match file.take(64).read_to_string(&mut text) {
        Ok(len) if len > 0 => text,
        Ok(_) | Err(_) => "another process".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_taker_is_told_who_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = Lock::take(&path).unwrap();
        let expected = format!("process {}", std::process::id());
        let second = Lock::take(&path);
        assert!(matches!(second, Err(LockError::Held { holder }) if holder == expected));
        drop(first);
        Lock::take(&path).unwrap();
    }
}
