//! The binary: reads the command line, runs what it asks for, and says how it went.
//!
//! Data goes to stdout, everything else to stderr; an error ends with what to do about it.

mod args;
mod cel;
mod client;
mod examples;
#[cfg(test)]
mod fake;
mod graph;
mod greeting;
mod hunks;
mod manifest;
mod plan;
mod rollout;
mod said;
mod table;
mod up;
mod yaml;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;

use deltaplane_hub::{Hub, HubConfig, HubError};
use deltaplane_plane::{PlaneConfig, Sort};
use deltaplane_runtime::signals::{Signal, Signals, Supervised};
use deltaplane_runtime::telemetry::TelemetryError;
use deltaplane_runtime::{Stop, Trigger, limits};
use deltaplane_zone::{
    ClusterConfig, ClusterZone, LeaveError, LinkConfig, SimulatorConfig, Standalone,
    StandaloneConfig, Zone, ZoneConfig, ZoneError,
};

use cel::CelError;
use client::{Ask, ClientError};
use examples::ExamplesError;
use graph::GraphError;

use args::{Cli, Command, Environment, Role, Settings, SettingsError, ZoneCommand};
use manifest::ManifestError;
use plan::PlanError;
use rollout::RolloutError;
use said::{Said, printable};
use up::{Up, UpError};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Why the process ends other than as asked.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    #[error("failed to start the runtime")]
    Runtime(#[source] io::Error),
    #[error(transparent)]
    Hub(Box<HubError>),
    #[error(transparent)]
    Zone(Box<ZoneError>),
    #[error(transparent)]
    Up(Box<UpError>),
    #[error(transparent)]
    Client(Box<ClientError>),
    #[error(transparent)]
    Cel(#[from] CelError),
    #[error(transparent)]
    Graph(#[from] GraphError),
    #[error(transparent)]
    Rollout(Box<RolloutError>),
    #[error(transparent)]
    Plan(Box<PlanError>),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Examples(#[from] ExamplesError),
    #[error("the zone could not leave its fleet")]
    Leave(#[from] LeaveError),
}

/// Open files that are not connections: the store, the runtime, output.
const OTHER_FILES: usize = 64;

/// What is said to whoever started it, beside logs.
struct Voice {
    /// At the first signal.
    stopping: fn(Signal),
}

/// A person in front of a terminal.
const UP: Voice = Voice {
    stopping: |signal| match signal {
        Signal::Interrupt => {
            let line =
                "stopping, as soon as open requests are answered; Ctrl-C again ends at once\n";
            let _ = io::stderr().lock().write_all(line.as_bytes());
        }
        Signal::Terminate => (HUB.stopping)(signal),
    },
};

/// A service manager.
const HUB: Voice = Voice {
    stopping: |signal| tracing::info!(%signal, "draining; a second signal ends at once"),
};

fn main() -> ExitCode {
    // Every part names the provider itself; this is for libraries that ask for the process's.
    // It fails only if there is one already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let environment = Environment::read();
    let ended = match Cli::parse().command {
        Command::Up(up) => up
            .settings(&environment)
            .map_err(Failure::from)
            .and_then(|settings| serve(settings, &UP)),
        Command::Hub(hub) => hub
            .settings(&environment)
            .map_err(Failure::from)
            .and_then(|settings| serve(settings, &HUB)),
        Command::Zone(zone) => match zone.command {
            Some(ZoneCommand::Manifest(asked)) => manifest::text(asked)
                .map(|text| {
                    print(&text);
                    ExitCode::SUCCESS
                })
                .map_err(Failure::from),
            Some(ZoneCommand::Leave(leave)) => ask(leave.run(&environment)),
            None => zone
                .settings(&environment)
                .map_err(Failure::from)
                .and_then(|settings| serve(settings, &HUB)),
        },
        Command::Cel(cel) => cel.run().map_err(Failure::from).map(|said| tell(&said)),
        Command::Graph(graph) => match graph.live() {
            Ok(question) => ask(question.run(&environment)),
            Err(graph) => graph.run().map_err(Failure::from).map(|said| tell(&said)),
        },
        Command::Zones(zones) => ask(Ask::Zones(zones).run(&environment)),
        Command::Token(token) => ask(Ask::Token(token).run(&environment)),
        Command::Wait(wait) => ask(Ask::Wait(wait).run(&environment)),
        Command::Rollout(rollout) => ask(rollout.run(&environment)),
        Command::Plan(plan) => ask(plan.run(&environment)),
        Command::Examples(examples) => examples
            .run()
            .map_err(Failure::from)
            .map(|said| tell(&said)),
        Command::Version => {
            print(&format!("deltaplane {}\n", args::VERSION));
            Ok(ExitCode::SUCCESS)
        }
    };
    ended.unwrap_or_else(|failure| {
        explain(&failure);
        ExitCode::from(failure.exit_code())
    })
}

/// Asks a hub, and says what it answered.
fn ask<E: Into<Failure>>(ask: impl Future<Output = Result<Said, E>>) -> Result<ExitCode, Failure> {
    Ok(tell(&answer(ask)?))
}

fn answer<E: Into<Failure>>(ask: impl Future<Output = Result<Said, E>>) -> Result<Said, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::Runtime)?;
    let said = runtime.block_on(ask).map_err(Into::into)?;
    // Zones and whoever writes objects have a say in it.
    Ok(said.printable())
}

fn tell(said: &Said) -> ExitCode {
    let printed = said.write(&mut io::stdout().lock(), &mut io::stderr().lock());
    match said.good && printed {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn serve(settings: Settings, voice: &Voice) -> Result<ExitCode, Failure> {
    let Settings {
        mut plane,
        telemetry,
        role,
    } = settings;
    telemetry.install()?;
    if let Some(files) = limits::raise_open_files() {
        let left = usize::try_from(files)
            .unwrap_or(usize::MAX)
            .saturating_sub(OTHER_FILES);
        plane.connections.connections = plane.connections.connections.min(left.max(1));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::Runtime)?;
    let ended = runtime.block_on(async {
        let mut signals = Signals::install().map_err(Failure::Runtime)?;
        let (trigger, stop) = Trigger::new();
        let run = run(plane, role, stop);
        match signals.supervise(&trigger, run, voice.stopping).await {
            Supervised::Ended(ended) => Ok(ended.map(|()| ExitCode::SUCCESS)?),
            Supervised::Forced(signal) => Ok(ExitCode::from(signal.exit_code())),
        }
    });
    // Whatever still runs has had its time.
    runtime.shutdown_background();
    ended
}

async fn run(plane: PlaneConfig, role: Role, stop: Stop) -> Result<(), Failure> {
    match role {
        Role::Hub { zone_certificate } => {
            let config = HubConfig {
                zone_certificate,
                ..HubConfig::new(plane)
            };
            Ok(Hub::start(config).await?.run(stop).await?)
        }
        Role::Up { zones } => {
            let up = Up::start(plane, &zones).await?;
            print(&greeting::up(up.hub(), &zones));
            Ok(up.run(stop).await?)
        }
        Role::Zone {
            join,
            simulate,
            graphs,
        } => {
            let zone = Zone::start(ZoneConfig {
                simulate: simulate.then(SimulatorConfig::default),
                graphs,
                plane,
                join,
                hub: None,
                link: LinkConfig::default(),
            });
            Ok(zone.await?.run(stop).await?)
        }
        Role::Standalone {
            kubeconfig,
            simulate,
            graphs,
            metrics,
        } => {
            let cluster = Standalone::start(StandaloneConfig {
                kubeconfig,
                simulate: simulate.then(SimulatorConfig::default),
                graphs,
                metrics,
            });
            let cluster = cluster.await?;
            Ok(cluster.run(stop).await?)
        }
        Role::Cluster {
            join,
            kubeconfig,
            graphs,
            metrics,
        } => {
            let zone = ClusterZone::start(ClusterConfig {
                kubeconfig,
                data_dir: plane.data_dir,
                join,
                link: LinkConfig::default(),
                graphs,
                metrics,
            });
            let Some(zone) = stop.unless(zone).await else {
                return Ok(());
            };
            Ok(zone?.run(stop).await?)
        }
    }
}

/// Whether it could be written.
fn print(text: &str) -> bool {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.is_ok()
}

fn explain(failure: &Failure) {
    let _ = io::stderr()
        .lock()
        .write_all(explanation(failure).as_bytes());
}

/// What failed, why, and what to do. Servers have a say in it.
fn explanation(failure: &Failure) -> String {
    let mut text = format!("error: {failure}\n");
    let mut source = failure.source();
    while let Some(cause) = source {
        text.push_str(&format!("  because: {cause}\n"));
        source = cause.source();
    }
    text.push_str(&format!("hint: {}\n", failure.hint()));
    printable(text)
}

// === impl Failure ===

impl From<HubError> for Failure {
    fn from(error: HubError) -> Self {
        Self::Hub(Box::new(error))
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::Client(Box::new(error))
    }
}

impl From<RolloutError> for Failure {
    fn from(error: RolloutError) -> Self {
        Self::Rollout(Box::new(error))
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        Self::Plan(Box::new(error))
    }
}

impl From<ZoneError> for Failure {
    fn from(error: ZoneError) -> Self {
        Self::Zone(Box::new(error))
    }
}

impl From<UpError> for Failure {
    fn from(error: UpError) -> Self {
        Self::Up(Box::new(error))
    }
}

impl Failure {
    fn hint(&self) -> String {
        match self {
            Self::Settings(error) => error.hint().to_owned(),
            Self::Hub(error) => error.hint(),
            Self::Zone(error) => error.hint(),
            Self::Up(error) => error.hint(),
            Self::Client(error) => error.hint(),
            Self::Cel(error) => error.hint().to_owned(),
            Self::Graph(error) => error.hint(),
            Self::Rollout(error) => error.hint(),
            Self::Plan(error) => error.hint(),
            Self::Examples(error) => error.hint().to_owned(),
            Self::Leave(error) => error.hint(),
            Self::Telemetry(_) | Self::Runtime(_) | Self::Manifest(_) => {
                "this should not happen; please report it".to_owned()
            }
        }
    }

    /// As the help text lists them.
    fn exit_code(&self) -> u8 {
        match self {
            Self::Settings(_) | Self::Cel(_) | Self::Graph(_) => 2,
            Self::Plan(error) => error.exit_code(),
            Self::Client(error) => error.exit_code(),
            Self::Rollout(_)
            | Self::Telemetry(_)
            | Self::Runtime(_)
            | Self::Manifest(_)
            | Self::Examples(_) => 1,
            Self::Leave(error) => leave_code(error),
            Self::Hub(error) => hub_code(error),
            Self::Zone(error) => zone_code(error),
            Self::Up(error) => match &**error {
                UpError::Hub(error) => hub_code(error),
                UpError::Zone { source, .. } => zone_code(source),
                UpError::Request(_) => 1,
            },
        }
    }
}

fn hub_code(error: &HubError) -> u8 {
    match error {
        HubError::Plane(error) => sort_code(error.sort()),
        HubError::ZoneKey(_) => sort_code(Sort::Certificates),
        HubError::Fleet(_) => 1,
    }
}

fn zone_code(error: &ZoneError) -> u8 {
    match error {
        ZoneError::Plane(error) => sort_code(error.sort()),
        ZoneError::Metrics { .. } => sort_code(Sort::Address),
        ZoneError::Join(_) => 6,
        ZoneError::Cluster(_) | ZoneError::IsHub => 7,
        ZoneError::Lineage(_) | ZoneError::Tasks(_) => 1,
    }
}

fn leave_code(error: &LeaveError) -> u8 {
    match error {
        LeaveError::NotJoined(_) | LeaveError::File(_) | LeaveError::Credential(_) => {
            sort_code(Sort::Data)
        }
        LeaveError::Connect(_) => 7,
        LeaveError::Request(_) => 1,
        LeaveError::Zone(error) => zone_code(error),
    }
}

fn sort_code(sort: Sort) -> u8 {
    match sort {
        Sort::Data => 3,
        Sort::Address => 4,
        Sort::Certificates => 5,
        Sort::Other => 1,
    }
}

#[cfg(test)]
mod tests {
    use deltaplane_client::RequestError;
    use deltaplane_client::request::Refusal;

    use super::*;

    #[test]
    fn nothing_that_was_answered_moves_the_cursor() {
        let said = Said {
            out: "zone-a\u{1b}[2J\n".to_owned(),
            err: "note: \u{1b}]0;title\u{7}\n".to_owned(),
            good: true,
        };
        let told = answer(async { Ok::<_, ClientError>(said) }).expect("an answer");
        assert_eq!(told.out, "zone-a\u{fffd}[2J\n");
        assert_eq!(told.err, "note: \u{fffd}]0;title\u{fffd}\n");
    }

    #[test]
    fn nothing_in_an_error_moves_the_cursor() {
        let refusal = Refusal {
            code: 500,
            message: "\u{1b}[2J".to_owned(),
            ..Refusal::default()
        };
        let error = ClientError::from(RequestError::Refused(refusal));
        let expected = "error: a request to the hub failed\n  because: \u{fffd}[2J (500 )\nhint: what the hub said is above\n";
        assert_eq!(explanation(&error.into()), expected);
    }

    #[tokio::test]
    async fn leaving_with_a_directory_in_use_has_the_code_of_that() {
        let directory = tempfile::tempdir().expect("a directory");
        let config = || PlaneConfig::new(directory.path().to_owned(), ([127, 0, 0, 1], 0).into());
        let opened = deltaplane_plane::Opened::new(config()).await;
        let _opened = opened.expect("nobody uses it");
        let Err(error) = deltaplane_plane::Opened::new(config()).await else {
            panic!("it is in use");
        };
        let error = LeaveError::Zone(Box::new(error.into()));
        assert_eq!(Failure::Leave(error).exit_code(), 3);
        let error = LeaveError::NotJoined(directory.path().to_owned());
        assert_eq!(Failure::Leave(error).exit_code(), 3);
    }
}
