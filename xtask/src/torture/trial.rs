//! One run: a fresh hub, clients and watchers, misfortunes, and a quiet end in which everything is
//! read once more.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::{Method, StatusCode};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::clients::Client;
use super::history::{Answer, Call, Colour, History, Key, OpId, Recorder, Revision, Size, Version};
use super::link::{Request, Targets};
use super::nemesis::{Counts, Nemesis};
use super::random::Random;
use super::watchers::{Begin, End, Habit, Watcher};
use super::watches::{Scope, Watched};
use super::wire;

/// What a run is told.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) binary: PathBuf,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) seed: u64,
    pub(crate) clients: u16,
    pub(crate) size: Size,
    /// How long misfortunes go on.
    pub(crate) time: Duration,
}

/// All that is known after a run.
pub(crate) struct Record {
    pub(crate) history: History,
    pub(crate) watched: Vec<Watched>,
    pub(crate) counts: Counts,
    /// What the hub itself did wrong.
    pub(crate) broken: Option<String>,
}

/// A run under way.
struct Trial {
    plan: Plan,
    recorder: Arc<Recorder>,
    nemesis: Nemesis,
    targets: Targets,
    closing: watch::Sender<Option<Arc<End>>>,
    watchers: JoinSet<Watched>,
}

/// Streams of random numbers for those who are not clients.
const NEMESIS: u64 = 10_000;
const WATCHERS: u64 = 20_000;
/// The client that reads and writes when all others are done.
const CLOSER: u16 = 9_999;
/// How long watchers have for the last events.
const LAST_EVENTS: Duration = Duration::from_secs(20);
/// Old revisions that are read at the end.
const OLD_LISTS: usize = 6;

/// Carries out a run. An error is one of this program, not of the hub.
pub(crate) async fn run(plan: Plan) -> Result<(Record, Nemesis)> {
    let random = Random::new(plan.seed, NEMESIS);
    let (binary, environment) = (plan.binary.clone(), plan.environment.clone());
    let nemesis = Nemesis::start(binary, environment, random).await?;
    let mut trial = Trial {
        targets: nemesis.targets(),
        recorder: Arc::new(Recorder::new(plan.size)),
        plan,
        nemesis,
        closing: watch::Sender::new(None),
        watchers: JoinSet::new(),
    };
    let mut broken = trial.carry_out().await.err();
    // Whoever still watches is told to stop.
    if broken.is_some() {
        trial.close(Vec::new(), Instant::now());
    }
    let mut watched = Vec::new();
    while let Some(done) = trial.watchers.join_next().await {
        watched.push(done.context("a watcher ended early")?);
    }
    watched.sort_by(|one, other| one.name.cmp(&other.name));
    if broken.is_none() {
        broken = trial.nemesis.end().await.err();
    }
    let record = Record {
        history: trial.recorder.take(),
        watched,
        counts: trial.nemesis.counts,
        broken: broken.map(|error| format!("{error:#}")),
    };
    Ok((record, trial.nemesis))
}

// === impl Trial ===

impl Trial {
    async fn carry_out(&mut self) -> Result<()> {
        let begin = self.prepare().await?;
        for (number, habit) in habits(begin).into_iter().enumerate() {
            self.watch(format!("watch {number}"), habit, number as u64);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = JoinSet::new();
        for number in 1..=self.plan.clients {
            let client = self.client(number);
            clients.spawn(client.run(Arc::clone(&stop)));
        }
        let raged = self.nemesis.rage(self.plan.time).await;
        stop.store(true, Ordering::Relaxed);
        while let Some(ended) = clients.join_next().await {
            ended.context("a client ended early")?;
        }
        raged?;
        self.nemesis.kill().await?;
        self.finish(begin).await
    }

    fn client(&self, number: u16) -> Client {
        let recorder = Arc::clone(&self.recorder);
        Client::new(number, self.targets.clone(), recorder, self.plan.seed)
    }

    fn watch(&mut self, name: String, habit: Habit, stream: u64) {
        let watcher = Watcher::new(
            name,
            habit,
            self.targets.clone(),
            self.closing.subscribe(),
            Arc::clone(&self.recorder),
            Random::new(self.plan.seed, WATCHERS + stream),
        );
        self.watchers.spawn(watcher.run());
    }

    fn close(&self, written: Vec<(Key, Version)>, deadline: Instant) {
        let end = End { written, deadline };
        self.closing.send_replace(Some(Arc::new(end)));
    }

    /// Makes the namespaces; gives a revision at which they are empty.
    async fn prepare(&self) -> Result<Revision> {
        let mut client = self.client(CLOSER).patient();
        for namespace in wire::namespaces() {
            let path = "/api/v1/namespaces".to_owned();
            let request = Request::new(Method::POST, path, namespace);
            let made = client.plain(request).await;
            let (status, body) = made.context("making a namespace")?;
            let why = wire::read_status(&body);
            ensure!(status == StatusCode::CREATED, "{status}: {why}");
        }
        let listed = client.list(None, None, None).await;
        let listed = listed.context("listing nothing")?;
        ensure!(listed.objects.is_empty(), "a new hub is not empty");
        Ok(listed.revision)
    }

    /// After the last restart: the hub is ready, everything is read, written once more, and read
    /// again; the whole history is watched from the beginning, and a part of it listed.
    async fn finish(&mut self, begin: Revision) -> Result<()> {
        let mut client = self.client(CLOSER).patient();
        let ready = client.plain(Request::get("/readyz".to_owned())).await;
        let (status, body) = ready.context("the hub does not say that it is ready")?;
        let said = String::from_utf8_lossy(&body);
        ensure!(status == StatusCode::OK, "/readyz says {status}: {said}");
        for key in Key::all() {
            let id = self.recorder.number();
            let read = client.operate(id, key, Call::Read).await;
            read.with_context(|| format!("reading {key} after the last restart"))?;
        }
        let listed = client.list(None, None, None).await;
        listed.context("listing all after the last restart")?;
        let written = self.write_all(&mut client).await?;
        let listed = client.list(None, None, None).await;
        let listed = listed.context("listing all at the end")?;
        let habit = Habit {
            scope: Scope::default(),
            begin: Begin::At(begin),
            slow: false,
            short: false,
        };
        self.watch("watch of all history".to_owned(), habit, NEMESIS);
        self.close(written, Instant::now() + LAST_EVENTS);
        let mut random = Random::new(self.plan.seed, CLOSER.into());
        for _ in 0..OLD_LISTS {
            let at = Revision(random.within(begin.0..listed.revision.0));
            let listed = client.list(None, None, Some(at)).await;
            let listed = listed.with_context(|| format!("listing revision {at}"))?;
            ensure!(
                listed.revision == at,
                "a list of {at} is of {}",
                listed.revision
            );
        }
        Ok(())
    }

    /// A number for an operation that writes this colour.
    fn number(&self, colour: Colour) -> OpId {
        loop {
            let id = self.recorder.number();
            if id.colour() == colour {
                return id;
            }
        }
    }

    /// Writes every object in both colours, so that every watcher has something to wait for.
    async fn write_all(&self, client: &mut Client) -> Result<Vec<(Key, Version)>> {
        let mut written = Vec::new();
        for key in Key::all() {
            for colour in [Colour::Blue, Colour::Red] {
                let replace = Call::Replace { at: None };
                let mut answer = client.operate(self.number(colour), key, replace).await;
                if answer == Some(Answer::Absent) {
                    let id = self.number(colour);
                    answer = client.operate(id, key, Call::Create).await;
                }
                match answer {
                    Some(Answer::Object(version)) => written.push((key, version)),
                    other => anyhow::bail!("the last write of {key} was answered {other:?}"),
                }
            }
        }
        Ok(written)
    }
}

/// Who watches what.
fn habits(begin: Revision) -> Vec<Habit> {
    let usual = Habit {
        scope: Scope::default(),
        begin: Begin::At(begin),
        slow: false,
        short: false,
    };
    let namespace = |namespace| Scope {
        namespace: Some(namespace),
        ..Scope::default()
    };
    let object = Scope {
        name: Some(1),
        ..namespace(1)
    };
    let blue = Scope {
        colour: Some(Colour::Blue),
        ..Scope::default()
    };
    let red = Scope {
        colour: Some(Colour::Red),
        ..namespace(0)
    };
    let (list, stream) = (Begin::List, Begin::Stream);
    vec![
        usual,
        Habit {
            slow: true,
            ..usual
        },
        Habit {
            begin: stream,
            ..usual
        },
        Habit {
            scope: namespace(0),
            begin: list,
            short: true,
            ..usual
        },
        Habit {
            scope: namespace(1),
            begin: stream,
            slow: true,
            ..usual
        },
        Habit {
            scope: namespace(2),
            begin: list,
            short: true,
            slow: true,
        },
        Habit {
            scope: object,
            begin: list,
            ..usual
        },
        Habit {
            scope: blue,
            begin: stream,
            ..usual
        },
        Habit {
            scope: red,
            begin: list,
            short: true,
            ..usual
        },
    ]
}
