//! What happens to the hub: it is killed, stopped for a while, told to end, and started again.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use tokio::sync::watch;
use tokio::time::sleep;

use super::link::Targets;
use super::random::Random;
use crate::bench::target::Target;
use crate::hub::Hub;

/// A hub and its misfortunes.
pub(crate) struct Nemesis {
    hub: Hub,
    binary: PathBuf,
    targets: watch::Sender<Option<Arc<Target>>>,
    random: Random,
    pub(crate) counts: Counts,
}

/// How often what happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) kills: usize,
    pub(crate) stops: usize,
    pub(crate) ends: usize,
}

#[derive(Clone, Copy)]
enum Misfortune {
    Kill,
    Stop,
    End,
}

/// Time to become ready again, on a machine that is busy with other things.
const READY: Duration = Duration::from_secs(30);
/// Time to drain: the hub's own limit is 10 s.
const DRAIN: Duration = Duration::from_secs(20);
/// How often to look whether something has happened.
const GLANCE: Duration = Duration::from_millis(2);

// === impl Counts ===

impl Counts {
    pub(crate) fn add(&mut self, other: Self) {
        let Self { kills, stops, ends } = other;
        self.kills += kills;
        self.stops += stops;
        self.ends += ends;
    }
}

// === impl Nemesis ===

impl Nemesis {
    /// Starts a hub on an empty directory, with more in its environment.
    pub(crate) async fn start(
        binary: PathBuf,
        environment: Vec<(String, String)>,
        random: Random,
    ) -> Result<Self> {
        let mut nemesis = Self {
            hub: Hub::spawn(&binary, environment)?,
            binary,
            targets: watch::Sender::new(None),
            random,
            counts: Counts::default(),
        };
        nemesis.await_ready().await?;
        Ok(nemesis)
    }

    /// Where the hub is, now and later.
    pub(crate) fn targets(&self) -> Targets {
        self.targets.subscribe()
    }

    /// One misfortune after the other. An error says that the hub did what it must not.
    pub(crate) async fn rage(&mut self, time: Duration) -> Result<()> {
        let deadline = Instant::now() + time;
        while Instant::now() < deadline {
            let peace = self.random.millis(100..700);
            sleep(peace).await;
            if let Some(status) = self.hub.ended()? {
                bail!("the hub ended by itself: {status}");
            }
            let next = self.random.pick([
                (5, Misfortune::Kill),
                (3, Misfortune::Stop),
                (2, Misfortune::End),
            ]);
            match next {
                Misfortune::Kill => self.kill().await?,
                Misfortune::Stop => self.stop().await?,
                Misfortune::End => self.restart().await?,
            }
        }
        Ok(())
    }

    /// Kills the hub and starts it again, sometimes twice in a row.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        self.hub.kill()?;
        self.counts.kills += 1;
        self.targets.send_replace(None);
        self.hub.spawn_again(&self.binary)?;
        while self.random.percent(30) {
            let pause = self.random.millis(0..150);
            sleep(pause).await;
            self.hub.kill()?;
            self.counts.kills += 1;
            self.hub.spawn_again(&self.binary)?;
        }
        self.await_ready().await
    }

    /// Stops the hub's process for a while; sometimes it does not go on.
    async fn stop(&mut self) -> Result<()> {
        self.hub.signal(Signal::STOP)?;
        self.counts.stops += 1;
        let pause = self.random.millis(50..800);
        sleep(pause).await;
        if self.random.percent(25) {
            return self.kill().await;
        }
        self.hub.signal(Signal::CONT)
    }

    /// Tells the hub to end, and starts it again.
    async fn restart(&mut self) -> Result<()> {
        self.end().await?;
        self.hub.spawn_again(&self.binary)?;
        self.await_ready().await
    }

    /// Tells the hub to end, which it does in time and without complaint.
    pub(crate) async fn end(&mut self) -> Result<()> {
        self.hub.signal(Signal::TERM)?;
        self.counts.ends += 1;
        let deadline = Instant::now() + DRAIN;
        let status = loop {
            if let Some(status) = self.hub.ended()? {
                break status;
            }
            if Instant::now() > deadline {
                bail!("the hub did not end in {DRAIN:?} after SIGTERM");
            }
            sleep(GLANCE).await;
        };
        self.targets.send_replace(None);
        match status.success() {
            true => Ok(()),
            false => bail!("the hub ended with {status} after SIGTERM"),
        }
    }

    async fn await_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + READY;
        while !self.hub.is_ready()? {
            if Instant::now() > deadline {
                bail!("the hub was not ready after {READY:?}");
            }
            sleep(GLANCE).await;
        }
        let target = Target::load(self.hub.kubeconfig(), vec![self.hub.pid()]);
        let target = target.context("reading where the hub is")?;
        self.targets.send_replace(Some(Arc::new(target)));
        Ok(())
    }

    /// Ends the hub and leaves its data and log, for somebody to look at.
    pub(crate) fn keep(&mut self) -> Result<PathBuf> {
        self.hub.kill()?;
        Ok(self.hub.keep().to_path_buf())
    }
}
