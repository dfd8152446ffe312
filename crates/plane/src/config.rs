//! What a control plane is told, as types.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deltaplane_apiserver::seams::{Admission, TableColumns, VirtualSubresource};
use deltaplane_apiserver::{ApiServer, Limits as ApiLimits};
use deltaplane_client::RequestError;
use deltaplane_store::RetentionPolicy;
use futures::future::BoxFuture;

use crate::listener::{Limits, ZoneGate};
use crate::routes::Route;

/// Everything that a control plane is told.
#[derive(Clone, Debug)]
pub struct PlaneConfig {
    /// Where everything is kept.
    pub data_dir: PathBuf,
    /// What it is called in its kubeconfig.
    pub name: String,
    /// Further contexts of its kubeconfig, and the paths that they are for.
    pub contexts: Vec<(String, String)>,
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Under which name or address clients elsewhere reach it, if it is not the one above.
    pub advertise: Option<String>,
    /// What the server shows to clients.
    pub certificates: Certificates,
    /// A further authority whose client certificates are believed, a PEM file.
    pub client_ca: Option<PathBuf>,
    /// How long an event lives after its last write.
    pub event_lifetime: Duration,
    /// Whether to begin with an empty store if there is none beside the keys of an earlier one.
    /// Otherwise that is taken for a loss, and refused.
    pub start_empty: bool,
    /// How much history the store keeps.
    pub retention: RetentionPolicy,
    /// The commit that the program was built from, or `unknown`; shown at `/version`.
    pub commit: &'static str,
    /// Limits on connections.
    pub connections: Limits,
    /// Limits on requests.
    pub requests: ApiLimits,
    /// How long requests have to finish when the hub stops.
    pub drain: Duration,
}

/// What others add to a control plane.
#[derive(Default)]
pub struct Extensions {
    /// Decides about writes, in this order.
    pub admission: Vec<Arc<dyn Admission>>,
    /// Subresources that are computed.
    pub subresources: Vec<Arc<dyn VirtualSubresource>>,
    /// Columns for Tables.
    pub columns: Vec<Arc<dyn TableColumns>>,
    /// Requests that are not for the API.
    pub routes: Vec<Arc<dyn Route>>,
    /// Says which certificates of zones count. Without it none does.
    pub zone_gate: Option<Arc<dyn ZoneGate>>,
    /// What must be done before it is ready.
    pub beginning: Option<Beginning>,
}

/// Done with an API that serves, and is not ready yet; again if it fails because the store takes no
/// writes.
pub type Beginning =
    Box<dyn Fn(ApiServer) -> BoxFuture<'static, Result<(), RequestError>> + Send + Sync>;

/// What the server shows to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificates {
    /// A certificate of its own authority, made at the first start and renewed in time.
    Made,
    /// The operator's, PEM files; read again now and then.
    Given {
        /// The certificate, and those of its chain.
        certificate: PathBuf,
        /// Its key.
        key: PathBuf,
        /// The authority that signed it; those that clients know anyway if absent.
        ca: Option<PathBuf>,
    },
}

/// Names under which programs in a cluster look for its API.
const WELL_KNOWN: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

// === impl PlaneConfig ===

impl PlaneConfig {
    /// A hub with all its data in this directory, on this address, and the rest as usual.
    pub fn new(data_dir: PathBuf, listen: SocketAddr) -> Self {
        Self {
            data_dir,
            name: "hub".to_owned(),
            contexts: Vec::new(),
            listen,
            advertise: None,
            certificates: Certificates::Made,
            client_ca: None,
            event_lifetime: Duration::from_secs(3600),
            start_empty: false,
            retention: RetentionPolicy::default(),
            commit: "unknown",
            connections: Limits::default(),
            requests: ApiLimits::default(),
            drain: Duration::from_secs(10),
        }
    }

    /// The names and addresses that the server's certificate must be for.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = WELL_KNOWN.iter().map(|&name| name.to_owned()).collect();
        let mut add = |name: String| {
            if !names.contains(&name) {
                names.push(name);
            }
        };
        add(IpAddr::from(Ipv4Addr::LOCALHOST).to_string());
        add(IpAddr::from(Ipv6Addr::LOCALHOST).to_string());
        add(self.reachable().to_string());
        if let Some(name) = &self.advertise {
            add(name.clone());
        }
        names
    }

    /// The URL for the kubeconfig, given the port that is listened on.
    pub(crate) fn url(&self, port: u16) -> String {
        let ip = match self.listen.ip() {
            // Whoever reads the kubeconfig is on this machine.
            ip if ip.is_unspecified() => IpAddr::from(Ipv4Addr::LOCALHOST),
            ip => ip,
        };
        match &self.advertise {
            Some(name) => match name.parse::<Ipv6Addr>() {
                Ok(ip) => format!("https://[{ip}]:{port}"),
                Err(_) => format!("https://{name}:{port}"),
            },
            None => format!("https://{}", SocketAddr::new(ip, port)),
        }
    }

    /// The address for clients elsewhere, given the port that is listened on.
    pub(crate) fn public(&self, port: u16) -> SocketAddr {
        let advertised = self.advertise.as_ref().and_then(|name| name.parse().ok());
        SocketAddr::new(advertised.unwrap_or_else(|| self.reachable()), port)
    }

    /// An address of this machine that others may reach: the one that is listened on, or if that
    /// is all of them, the one that packets to elsewhere leave from.
    fn reachable(&self) -> IpAddr {
        match self.listen.ip() {
            ip if ip.is_unspecified() => outward().unwrap_or(Ipv4Addr::LOCALHOST.into()),
            ip => ip,
        }
    }
}

/// Connecting a datagram socket sends nothing, but chooses the address to send from.
fn outward() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // An address for documentation, which nobody has.
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_unspecified()).then_some(ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(listen: &str, advertise: Option<&str>) -> PlaneConfig {
        let listen = listen.parse().expect("an address");
        PlaneConfig {
            advertise: advertise.map(str::to_owned),
            ..PlaneConfig::new(PathBuf::from("data"), listen)
        }
    }

    #[test]
    fn where_clients_find_it() {
        let check = |listen, advertise, url: &str| {
            assert_eq!(config(listen, advertise).url(7443), url);
        };
        check("127.0.0.1:0", None, "https://127.0.0.1:7443");
        check("[::1]:0", None, "https://[::1]:7443");
        check("0.0.0.0:0", None, "https://127.0.0.1:7443");
        check(
            "10.0.0.1:0",
            Some("hub.example.com"),
            "https://hub.example.com:7443",
        );
        check(
            "10.0.0.1:0",
            Some("2001:db8::1"),
            "https://[2001:db8::1]:7443",
        );
        let public = config("0.0.0.0:0", Some("10.0.0.7")).public(7443);
        assert_eq!(public.to_string(), "10.0.0.7:7443");
        let named = config("10.0.0.1:0", Some("hub.example.com")).public(7443);
        assert_eq!(named.to_string(), "10.0.0.1:7443");
    }

    #[test]
    fn names_for_the_certificate() {
        let names = config("10.0.0.1:7443", Some("hub.example.com")).names();
        for name in [
            "localhost",
            "127.0.0.1",
            "::1",
            "10.0.0.1",
            "hub.example.com",
        ] {
            assert!(names.iter().any(|one| one == name), "{name}");
        }
        let all = config("0.0.0.0:7443", None).names();
        assert!(!all.iter().any(|one| one == "0.0.0.0"));
        let local = config("127.0.0.1:7443", None).names();
        let twice = local.iter().filter(|one| *one == "127.0.0.1").count();
        assert_eq!(twice, 1);
    }
}
