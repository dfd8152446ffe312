//! What the server shows to clients, kept valid while it runs.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, SystemTime};

use deltaplane_runtime::files;
use deltaplane_runtime::kubeconfig::Kubeconfig;
use deltaplane_runtime::tls::{Leaf, Made, Material, SecretPem, ServerConfig};
use deltaplane_runtime::{Clock, Stop};

use crate::config::{Certificates, PlaneConfig};
use crate::error::PlaneError;
use crate::layout::Layout;

/// What was loaded.
pub(crate) struct Loaded {
    /// The hub's own material.
    pub(crate) material: Material,
    /// What the listener shows.
    pub(crate) server: Leaf,
    /// The authority that signed that, if clients do not know it anyway.
    pub(crate) ca: Option<String>,
    /// When to load again.
    pub(crate) again_at: SystemTime,
}

/// Loads again when it is time, and gives the result to all who use it.
pub(crate) struct Renewal {
    pub(crate) config: PlaneConfig,
    pub(crate) layout: Layout,
    pub(crate) tls: ServerConfig,
    pub(crate) url: String,
    pub(crate) clock: Clock,
    pub(crate) again_at: SystemTime,
}

/// How often the operator's files are read again: whoever replaces them gets no event to us.
const REREAD: Duration = Duration::from_secs(600);
/// How long to wait after a failure; there is much time left when renewal is due.
const RETRY: Duration = Duration::from_secs(3600);

/// Loads the certificates, making or renewing what is due. Blocking.
pub(crate) fn load(
    config: &PlaneConfig,
    layout: &Layout,
    now: SystemTime,
) -> Result<Loaded, PlaneError> {
    let material = Material::open(&layout.pki, &config.names(), now)?;
    match &config.certificates {
        Certificates::Made => Ok(Loaded {
            server: material.server.clone(),
            ca: Some(material.ca.clone()),
            again_at: material.renew_at,
            material,
        }),
        Certificates::Given {
            certificate,
            key,
            ca,
        } => Ok(Loaded {
            server: Leaf {
                chain: read("--tls-cert", certificate)?,
                key: SecretPem(read("--tls-key", key)?),
            },
            ca: match ca {
                Some(ca) => Some(read("--tls-ca", ca)?),
                None => None,
            },
            again_at: material.renew_at.min(now + REREAD),
            material,
        }),
    }
}

/// The file of the operator's that this flag names.
pub(crate) fn read(flag: &'static str, path: &Path) -> Result<String, PlaneError> {
    files::read(path).map_err(|source| PlaneError::CertificateFile { flag, source })
}

pub(crate) fn write_kubeconfig(
    config: &PlaneConfig,
    layout: &Layout,
    url: &str,
    loaded: &Loaded,
) -> Result<(), PlaneError> {
    let kubeconfig = Kubeconfig {
        context: &config.name,
        server: url,
        ca: loaded.ca.as_deref(),
        user: &loaded.material.admin,
        further: &config.contexts,
    };
    let write = || {
        // Most often nothing has changed, and then it takes no room, which there may not be.
        let last = files::read_if_exists(&layout.last_kubeconfig)?;
        if last.is_some_and(|last| last == kubeconfig.to_yaml()) {
            return files::rename_if_exists(&layout.last_kubeconfig, &layout.kubeconfig);
        }
        kubeconfig.write(&layout.kubeconfig)?;
        files::remove_if_exists(&layout.last_kubeconfig)
    };
    write().map_err(PlaneError::Kubeconfig)
}

/// Like [`write_kubeconfig`], but a disk that is full is only logged, since what is stored can be
/// read, and the kubeconfig of the last time stays. Gives when to load and write again.
pub(crate) fn write_kubeconfig_if_room(
    config: &PlaneConfig,
    layout: &Layout,
    url: &str,
    loaded: &Loaded,
    clock: &Clock,
) -> Result<SystemTime, PlaneError> {
    match write_kubeconfig(config, layout, url, loaded) {
        Err(PlaneError::Kubeconfig(error)) if error.is_full() => {
            let error = &error as &dyn std::error::Error;
            let hint = "free some room on the disk; a new kubeconfig is written within an hour, or when it is started again";
            tracing::error!(
                error,
                hint,
                "the disk is full; the kubeconfig is not written"
            );
            files::rename_if_exists(&layout.last_kubeconfig, &layout.kubeconfig)
                .map_err(PlaneError::Kubeconfig)?;
            Ok(loaded.again_at.min(clock.now() + RETRY))
        }
        written => written.map(|()| loaded.again_at),
    }
}

// === impl Loaded ===

impl Loaded {
    /// Says what was lost, if keys had to be made although there are objects already.
    pub(crate) fn warn_of_lost(&self, layout: &Layout) {
        let Made {
            authority,
            service_account_key,
        } = self.material.made;
        let path = layout.pki.display();
        let hint = "if that was not meant, stop the hub and restore the directory from a backup";
        if authority {
            tracing::warn!(%path, hint, "the authority was missing and has been made anew: \
                certificates and kubeconfigs issued before no longer work");
        }
        if service_account_key {
            tracing::warn!(%path, hint, "the key of service accounts was missing and has been \
                made anew: tokens issued before no longer work");
        }
    }
}

// === impl Renewal ===

impl Renewal {
    /// Renews, until told to stop.
    pub(crate) async fn run(mut self, stop: Stop) {
        while stop
            .unless(self.clock.sleep_until(self.again_at))
            .await
            .is_some()
        {
            let now = self.clock.now();
            self.again_at = match self.renew(now) {
                Ok(again_at) => again_at,
                Err(error) => {
                    let error = &error as &dyn Error;
                    tracing::error!(error, "failed to renew certificates; will try again");
                    now + RETRY
                }
            };
        }
    }

    /// A few small files, rarely: not worth another thread.
    fn renew(&self, now: SystemTime) -> Result<SystemTime, PlaneError> {
        let loaded = load(&self.config, &self.layout, now)?;
        loaded.warn_of_lost(&self.layout);
        self.tls.replace(&loaded.server)?;
        write_kubeconfig(&self.config, &self.layout, &self.url, &loaded)?;
        Ok(loaded.again_at)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    /// A full disk must not keep a hub from starting, which can be read.
    #[test]
    fn a_kubeconfig_that_has_not_changed_is_not_written_again() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let config = PlaneConfig::new(directory.path().join("data"), ([127, 0, 0, 1], 0).into());
        let layout = Layout::open(&config.data_dir).expect("made");
        let loaded = load(&config, &layout, SystemTime::now()).expect("made");
        let write = |url: &str| write_kubeconfig(&config, &layout, url, &loaded).expect("written");
        let inode = || {
            std::fs::metadata(&layout.kubeconfig)
                .map(|file| file.ino())
                .ok()
        };
        let aside = || {
            let aside = files::rename_if_exists(&layout.kubeconfig, &layout.last_kubeconfig);
            aside.expect("renamed");
        };
        aside();
        write("https://127.0.0.1:7443");
        let first = inode();
        aside();
        assert_eq!(inode(), None);
        write("https://127.0.0.1:7443");
        assert_eq!(inode(), first);
        aside();
        write("https://127.0.0.1:7444");
        assert_ne!(inode(), first);
        assert!(!layout.last_kubeconfig.exists());
    }

    #[test]
    fn what_is_due_is_renewed_everywhere() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let config = PlaneConfig::new(directory.path().join("data"), ([127, 0, 0, 1], 0).into());
        let layout = Layout::open(&config.data_dir).expect("made");
        let now = SystemTime::now();
        let loaded = load(&config, &layout, now).expect("made");
        let url = "https://127.0.0.1:7443".to_owned();
        write_kubeconfig(&config, &layout, &url, &loaded).expect("written");
        let read = || files::read_if_exists(&layout.kubeconfig).expect("readable");
        let before = read();
        let renewal = Renewal {
            tls: ServerConfig::new(&loaded.server, &[&loaded.material.ca]).expect("usable"),
            again_at: loaded.again_at,
            layout: layout.clone(),
            clock: Clock::system(),
            config,
            url,
        };
        let day = Duration::from_secs(24 * 3600);
        assert_eq!(
            renewal.renew(now + day).expect("nothing is due"),
            loaded.again_at
        );
        assert_eq!(read(), before);
        let again_at = renewal.renew(loaded.again_at).expect("renewed");
        assert!(again_at > loaded.again_at + 200 * day);
        assert_ne!(read(), before);
    }
}
