//! What the operating system lets this process have.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Takes as many open files as the system allows, and says how many that are.
///
/// The usual limit is low for the sake of old programs that cannot have more; each connection is
/// one. `None` means that there is no limit.
pub fn raise_open_files() -> Option<u64> {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: before.maximum,
        maximum: before.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => before.maximum,
        Err(_) => before.current,
    }
}

/// Whether an operation failed because this process, or the machine, has too many open files.
pub fn out_of_files(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE]
        .map(|errno| Some(errno.raw_os_error()))
        .contains(&number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_to_the_most() {
        let most = getrlimit(Resource::Nofile).maximum;
        assert_eq!(raise_open_files(), most);
        assert_eq!(getrlimit(Resource::Nofile).current, most);
    }

    #[test]
    fn too_many_open_files_are_known() {
        assert!(out_of_files(&Errno::MFILE.into()));
        assert!(!out_of_files(&Errno::ACCESS.into()));
        assert!(!out_of_files(&io::ErrorKind::Other.into()));
    }
}
