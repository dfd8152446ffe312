//! What the command line and the environment say, as types. Nothing else reads either.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::Failure;
use crate::cel::Cel;
use crate::client::{Token, Wait, Zones};
use crate::examples::Examples;
use crate::graph::Graph;
use crate::plan::Plan;
use crate::rollout::Rollout;
use crate::said::Said;
use deltaplane_api::names;
use deltaplane_plane::{Certificates, PlaneConfig};
use deltaplane_runtime::identity::{JoinString, JoinStringError};
use deltaplane_runtime::telemetry::{Filter, Format, Telemetry};
use deltaplane_sync::ZoneName;
use deltaplane_zone::{
    GraphIdentity, GraphOptions, KindName, LeftFleet, leave_cluster, leave_embedded,
};

/// A control plane for fleets that speaks the Kubernetes API
#[derive(Debug, Parser)]
#[command(name = "deltaplane", version = VERSION, propagate_version = true, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commit that this was built from; `unknown` if the build was not told, as in development.
pub(crate) const COMMIT: &str = env!("DELTAPLANE_COMMIT");
pub(crate) const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("DELTAPLANE_COMMIT"),
    ")"
);

const EXIT_CODES: &str = "\
Exit codes:
  0    stopped as asked (Ctrl-C or SIGTERM)
  1    broke down while running
  2    the command line is wrong
  3    the data directory cannot be used (in use, damaged, not writable, not ours)
  4    the address cannot be listened on
  5    the certificates cannot be used
  6    the zone could not join its hub
  7    the kubeconfig of the zone's cluster cannot be used
  130  interrupted twice; 143: terminated twice";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a hub and zones to try things out: prints how to reach them, and what to do next
    Up(Up),
    /// Start a hub for production
    Hub(Box<Hub>),
    /// Start a zone, with an API of its own or on an existing cluster, and keep it in touch with
    /// its hub
    Zone(Box<Zone>),
    /// Show the zones of a hub, and how it stands with them
    Zones(Zones),
    /// Make what a zone joins with
    Token(Token),
    /// Wait until zones have what was written
    Wait(Wait),
    /// Try out expressions
    Cel(Cel),
    /// Check, plan, draw and compare definitions of graphs, without a hub
    Graph(Graph),
    /// Say what a change would do to which zones, in which order, before anything is written
    #[command(after_help = crate::plan::EXAMPLES)]
    Plan(Box<Plan>),
    /// How far a change is, of a policy or of a graph, and what holds it; stop, resume, approve and
    /// take it back
    Rollout(Box<Rollout>),
    /// List the examples, or write them to a directory
    Examples(Examples),
    /// Print the version
    Version,
}

/// For `up`.
#[derive(Debug, Args)]
pub(crate) struct Up {
    #[command(flatten)]
    common: Common,
    /// The zones to start beside the hub; none with --zones ""
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "zone-a,zone-b,zone-c",
        value_parser = zone_name
    )]
    zones: Vec<Option<ZoneName>>,
}

/// For `zone`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Zone {
    #[command(subcommand)]
    pub(crate) command: Option<ZoneCommand>,
    #[command(flatten)]
    common: Common,
    /// What `deltaplane token create` printed at the hub; needed until the zone has joined
    #[arg(
        long,
        value_name = "STRING",
        env = "DELTAPLANE_JOIN",
        hide_env_values = true
    )]
    // Parsed later: it is a secret, and what is wrong would be printed.
    join: Option<String>,
    /// Make the cluster of this kubeconfig a zone, instead of serving an API of its own; `deltaplane
    /// zone manifest` prints the rights that this needs there
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "start_empty"])]
    kubeconfig: Option<PathBuf>,
    /// Give Deployments, Jobs, Pods and their like the status that a healthy cluster would give
    /// them: nothing runs
    #[arg(long)]
    simulate_workloads: bool,
    /// Run the graphs of the cluster of --kubeconfig, without a hub. Only one process may run graphs
    /// in a cluster: stop it before another is started
    #[arg(long, requires = "kubeconfig", conflicts_with = "join")]
    standalone: bool,
    /// Run graphs in the cluster of --kubeconfig; `deltaplane zone manifest --graphs <KINDS>` prints
    /// the further rights that this needs there. Only one process may run graphs in a cluster. A
    /// zone with an API of its own always does
    #[arg(long, requires = "kubeconfig", conflicts_with = "standalone")]
    graphs: bool,
    #[command(flatten)]
    graph_options: GraphArgs,
    /// Where to serve what is counted of the graphs that run in the cluster of --kubeconfig
    /// (/metrics, and /healthz), as plain HTTP. A zone with an API of its own serves it there
    #[arg(long, value_name = "ADDRESS", requires = "kubeconfig")]
    metrics: Option<SocketAddr>,
}

/// How graphs run.
#[derive(Debug, Args)]
struct GraphArgs {
    /// How many revisions of each graph are kept to go back to; those that instances use are kept
    /// beside them
    #[arg(long, value_name = "NUMBER", default_value_t = GraphOptions::default().revisions,
        value_parser = revisions)]
    graph_revisions: usize,
    /// Delete the kind of a graph, and so its instances, with its definition; otherwise they stay
    #[arg(long)]
    delete_graph_kinds: bool,
    /// With which rights graphs make their objects: as a service account of each namespace, or as
    /// the controller, as kro does. With the latter whoever writes a graph has the controller's
    /// rights; it is for clusters that are migrated from kro
    #[arg(long, value_enum, default_value_t = GraphIdentityArg::Account)]
    graph_identity: GraphIdentityArg,
    /// The service accounts that graphs of the hub may act as (spec.serviceAccountName)
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = account,
        default_value = deltaplane_zone::GRAPH_ACCOUNT)]
    graph_accounts: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphIdentityArg {
    Account,
    Controller,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ZoneCommand {
    /// Print what must be in a cluster before it can be a zone, for kubectl apply: an account for
    /// the agent, with the least rights that it needs
    Manifest(Manifest),
    /// Leave the fleet: what came from the hub is the zone's own then, and can be changed there. Stop
    /// the zone first; the hub need not be there, nor know the zone any more
    Leave(Leave),
}

/// For `zone leave`.
#[derive(Debug, Args)]
pub(crate) struct Leave {
    /// The zone's data directory [default: deltaplane in the user's data directory]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The cluster that is the zone, as an administrator, if it has no API of its own
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// For `zone manifest`.
#[derive(Debug, Args)]
pub(crate) struct Manifest {
    /// Where the agent's account is
    #[arg(long, value_name = "NAME", default_value = "deltaplane-system", value_parser = namespace)]
    pub(crate) namespace: String,
    /// The kinds that cross, as the hub's SyncedKinds are called: widgets.example.com,configmaps
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    pub(crate) kinds: Vec<KindName>,
    /// The kinds that graphs define which are to run in the cluster: shops.kro.run
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    pub(crate) graphs: Vec<KindName>,
    /// The kinds of the objects that graphs make or refer to: deployments.apps,configmaps
    #[arg(long, value_name = "KINDS", value_delimiter = ',', requires = "graphs")]
    pub(crate) graph_objects: Vec<KindName>,
    /// The service accounts that graphs may act as: those of --graph-accounts of the zone
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = account,
        default_value = deltaplane_zone::GRAPH_ACCOUNT)]
    pub(crate) graph_accounts: Vec<String>,
    /// With which rights graphs make their objects, as --graph-identity of the zone: with
    /// `controller` the agent itself gets the rights to write them
    #[arg(long, value_enum, default_value_t = GraphIdentityArg::Account)]
    pub(crate) graph_identity: GraphIdentityArg,
    /// Let users of the hub act in the cluster through the zone, each as himself. Whoever has the
    /// agent's credential can then act as anybody
    #[arg(long)]
    pub(crate) impersonate: bool,
}

/// For `hub`.
#[derive(Debug, Args)]
pub(crate) struct Hub {
    #[command(flatten)]
    common: Common,
    /// The server's certificate and those of its chain (PEM), instead of one made here
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of --tls-cert (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The authority that signed --tls-cert (PEM), for the kubeconfig and for programs in
    /// namespaces; leave it out if clients know it anyway
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
    /// A further authority whose client certificates are believed (PEM)
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// The host name or IP address under which clients elsewhere reach the hub
    #[arg(long, value_name = "HOST", value_parser = host)]
    advertise_address: Option<String>,
    /// How long events live after their last write
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    event_ttl: Duration,
    /// How long the certificates of zones live; they renew them in time
    #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = duration)]
    zone_certificate_ttl: Duration,
    /// How long requests have to finish when the hub is stopped
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    drain_timeout: Duration,
}

#[derive(Debug, Args)]
struct Common {
    /// Where everything is kept [default: deltaplane in the user's data directory]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7443")]
    listen: SocketAddr,
    /// Begin with an empty store if the one that belongs to the keys in the data directory is
    /// missing, instead of refusing to start
    #[arg(long)]
    start_empty: bool,
    /// How log lines look
    #[arg(long, value_enum, default_value_t = LogFormat::Human)]
    log_format: LogFormat,
    /// What is logged: off, error, warn, info, debug, trace, or target=level,… [default: $RUST_LOG,
    /// or else info (hub), warn (up)]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<Filter>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    Human,
    Json,
}

/// What was read of the environment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    pub(crate) data_home: Option<OsString>,
    pub(crate) home: Option<OsString>,
    pub(crate) kubeconfig: Option<OsString>,
    pub(crate) log: Option<String>,
}

/// What to run, and how to log.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) plane: PlaneConfig,
    pub(crate) telemetry: Telemetry,
    pub(crate) role: Role,
}

/// What a control plane is.
#[derive(Debug)]
pub(crate) enum Role {
    Hub {
        zone_certificate: Duration,
    },
    /// A hub with zones in the same process.
    Up {
        zones: Vec<ZoneName>,
    },
    Zone {
        join: Option<JoinString>,
        simulate: bool,
        graphs: GraphOptions,
    },
    /// A cluster whose graphs are run, without a hub.
    Standalone {
        kubeconfig: PathBuf,
        simulate: bool,
        graphs: GraphOptions,
        metrics: Option<SocketAddr>,
    },
    /// A zone whose API is an existing cluster's.
    Cluster {
        join: Option<JoinString>,
        kubeconfig: PathBuf,
        graphs: Option<GraphOptions>,
        metrics: Option<SocketAddr>,
    },
}

/// The command line is well-formed, but not enough.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error("there is no home directory to keep data in")]
    NoHome,
    #[error("RUST_LOG cannot be used")]
    Log(#[source] deltaplane_runtime::telemetry::TelemetryError),
    #[error("--join cannot be used")]
    Join(#[source] JoinStringError),
    #[error("workloads of a cluster that follows a hub are not simulated")]
    Simulated,
}

// === impl Environment ===

impl Environment {
    pub(crate) fn read() -> Self {
        Self {
            data_home: std::env::var_os("XDG_DATA_HOME"),
            home: std::env::var_os("HOME"),
            kubeconfig: std::env::var_os("KUBECONFIG"),
            log: std::env::var("RUST_LOG").ok(),
        }
    }

    /// The files that kubectl would read and merge; none if the variable names none.
    pub(crate) fn kubeconfigs(&self) -> Option<Vec<PathBuf>> {
        let paths = std::env::split_paths(self.kubeconfig.as_ref()?);
        let named: Vec<PathBuf> = paths.filter(|path| !path.as_os_str().is_empty()).collect();
        Some(named).filter(|named| !named.is_empty())
    }

    /// As the XDG base directory specification has it.
    pub(crate) fn data_dir(&self) -> Option<PathBuf> {
        let filled = |value: &Option<OsString>| {
            let value = value.as_ref().filter(|value| !value.is_empty());
            value.map(PathBuf::from)
        };
        let data_home = filled(&self.data_home).filter(|path| path.is_absolute());
        let fallback = || Some(filled(&self.home)?.join(".local/share"));
        Some(data_home.or_else(fallback)?.join("deltaplane"))
    }
}

// === impl Up ===

impl Up {
    pub(crate) fn settings(self, environment: &Environment) -> Result<Settings, SettingsError> {
        let Self { common, zones } = self;
        // What matters is printed; the rest would hide it.
        let settings = common.settings(environment, "warn")?;
        let mut named: Vec<ZoneName> = Vec::new();
        for zone in zones.into_iter().flatten() {
            if !named.contains(&zone) {
                named.push(zone);
            }
        }
        Ok(Settings {
            role: Role::Up { zones: named },
            ..settings
        })
    }
}

// === impl Zone ===

impl Zone {
    pub(crate) fn settings(self, environment: &Environment) -> Result<Settings, SettingsError> {
        let Self {
            command: _,
            common,
            join,
            kubeconfig,
            simulate_workloads: simulate,
            standalone,
            graphs,
            graph_options,
            metrics,
        } = self;
        let options = graph_options.options();
        let settings = common.settings(environment, "info")?;
        let join = join.map(|join| join.parse()).transpose();
        let join = join.map_err(SettingsError::Join)?;
        let role = match kubeconfig {
            Some(kubeconfig) if standalone => Role::Standalone {
                kubeconfig,
                simulate,
                graphs: options,
                metrics,
            },
            Some(_) if simulate => return Err(SettingsError::Simulated),
            Some(kubeconfig) => Role::Cluster {
                join,
                kubeconfig,
                graphs: graphs.then_some(options),
                metrics,
            },
            None => Role::Zone {
                join,
                simulate,
                graphs: options,
            },
        };
        Ok(Settings { role, ..settings })
    }
}

// === impl GraphArgs ===

impl GraphArgs {
    fn options(&self) -> GraphOptions {
        GraphOptions {
            revisions: self.graph_revisions,
            delete_kinds: self.delete_graph_kinds,
            identity: self.graph_identity.into(),
            accounts: self.graph_accounts.iter().cloned().collect(),
        }
    }
}

impl From<GraphIdentityArg> for GraphIdentity {
    fn from(identity: GraphIdentityArg) -> Self {
        match identity {
            GraphIdentityArg::Account => Self::Account,
            GraphIdentityArg::Controller => Self::Controller,
        }
    }
}

/// The name of a service account.
fn account(text: &str) -> Result<String, String> {
    match names::dns_subdomain(text).as_slice() {
        [] => Ok(text.to_owned()),
        _ => Err("write names of ServiceAccounts, such as deltaplane-graphs,deployer".to_owned()),
    }
}

/// A number of revisions: at least the one that is in force.
fn revisions(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..) => Ok(number),
        Ok(0) | Err(_) => Err("write a number of revisions, at least 1".to_owned()),
    }
}

// === impl Leave ===

impl Leave {
    /// Leaves the fleet, and says what came of it.
    pub(crate) async fn run(self, environment: &Environment) -> Result<Said, Failure> {
        let given = self.data_dir.or_else(|| environment.data_dir());
        let data_dir = given.ok_or(SettingsError::NoHome)?;
        let left = match self.kubeconfig {
            Some(kubeconfig) => leave_cluster(&kubeconfig, &data_dir).await,
            None => {
                let listen = SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, 0));
                leave_embedded(PlaneConfig::new(data_dir, listen)).await
            }
        };
        let LeftFleet { zone, orphaned } = left?;
        Ok(Said::of_data(format!(
            "zone {zone} left its fleet: {orphaned} objects that came from elsewhere are its own now\n"
        )))
    }
}

// === impl Hub ===

impl Hub {
    pub(crate) fn settings(self, environment: &Environment) -> Result<Settings, SettingsError> {
        let Self {
            common,
            tls_cert,
            tls_key,
            tls_ca,
            client_ca,
            advertise_address,
            event_ttl,
            zone_certificate_ttl,
            drain_timeout,
        } = self;
        let settings = common.settings(environment, "info")?;
        let certificates = match (tls_cert, tls_key) {
            (Some(certificate), Some(key)) => Certificates::Given {
                certificate,
                key,
                ca: tls_ca,
            },
            // Each requires the other.
            (Some(_) | None, None) | (None, Some(_)) => Certificates::Made,
        };
        let plane = PlaneConfig {
            advertise: advertise_address,
            certificates,
            client_ca,
            event_lifetime: event_ttl,
            drain: drain_timeout,
            ..settings.plane
        };
        let role = Role::Hub {
            zone_certificate: zone_certificate_ttl,
        };
        Ok(Settings {
            plane,
            role,
            ..settings
        })
    }
}

// === impl Common ===

impl Common {
    fn settings(
        self,
        environment: &Environment,
        usual_level: &str,
    ) -> Result<Settings, SettingsError> {
        let Self {
            data_dir,
            listen,
            start_empty,
            log_format,
            log_level,
        } = self;
        let data_dir = match data_dir {
            Some(data_dir) => data_dir,
            None => environment.data_dir().ok_or(SettingsError::NoHome)?,
        };
        // What is printed of it must do in another directory too.
        let data_dir = std::path::absolute(&data_dir).unwrap_or(data_dir);
        let filter = match log_level {
            Some(filter) => filter,
            None => {
                let text = environment.log.as_deref().filter(|text| !text.is_empty());
                text.unwrap_or(usual_level)
                    .parse()
                    .map_err(SettingsError::Log)?
            }
        };
        let format = match log_format {
            LogFormat::Human => Format::Human,
            LogFormat::Json => Format::Json,
        };
        Ok(Settings {
            plane: PlaneConfig {
                start_empty,
                commit: COMMIT,
                ..PlaneConfig::new(data_dir, listen)
            },
            telemetry: Telemetry { format, filter },
            role: Role::Up { zones: Vec::new() },
        })
    }
}

// === impl SettingsError ===

impl SettingsError {
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Simulated => {
                "leave --simulate-workloads out, or run the cluster alone with --standalone"
            }
            Self::NoHome => "say where with --data-dir",
            Self::Log(_) => "set it to a level such as debug, or use --log-level",
            Self::Join(_) => "give the whole line that deltaplane token create printed at the hub",
        }
    }
}

/// The name of a zone; nothing for no name.
fn zone_name(text: &str) -> Result<Option<ZoneName>, String> {
    match text {
        "" => Ok(None),
        name => name
            .parse()
            .map(Some)
            .map_err(|error: deltaplane_sync::NameError| error.to_string()),
    }
}

fn namespace(text: &str) -> Result<String, String> {
    match names::dns_label(text).as_slice() {
        [] => Ok(text.to_owned()),
        wrong => Err(wrong.join("; ")),
    }
}

/// A host name or an IP address, and nothing beside it.
fn host(text: &str) -> Result<String, String> {
    let legal = |label: &str| {
        let inside = |c: char| c.is_ascii_alphanumeric() || c == '-';
        (1..=63).contains(&label.len())
            && label.chars().all(inside)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // Names do not end with a number, so that a mistyped address is not taken for one.
    let last = text.rsplit('.').next().unwrap_or_default();
    let numeric = last.chars().all(|c| c.is_ascii_digit());
    let is_name = text.len() <= 253 && text.split('.').all(legal) && !numeric;
    match is_name || text.parse::<IpAddr>().is_ok() {
        true => Ok(text.to_owned()),
        false => Err("write a host name or an IP address, without scheme or port".to_owned()),
    }
}

/// A duration as people write it: `90s`, `15m`, `1h`, `2d`, or several of these: `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (number, unit) = rest.split_at(digits);
        let unit_end = unit
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(unit.len());
        let (unit, tail) = unit.split_at(unit_end);
        let seconds: u64 = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86400,
            _ => return Err("write it as 90s, 15m, 1h or 1h30m".to_owned()),
        };
        let part = number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(seconds));
        let part = part.ok_or("write it as 90s, 15m, 1h or 1h30m")?;
        let sum = total.checked_add(Duration::from_secs(part));
        total = sum
            .filter(|sum| *sum <= LONGEST)
            .ok_or("more than ten years")?;
        rest = tail;
    }
    match total.is_zero() {
        true => Err("must be more than nothing".to_owned()),
        false => Ok(total),
    }
}

const LONGEST: Duration = Duration::from_secs(10 * 366 * 86400);

#[cfg(test)]
mod tests;
