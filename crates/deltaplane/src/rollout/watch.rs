//! Rollouts as they go: told by watches, until they are complete.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use deltaplane_client::{Cache, Event, Feed, ObjectKey, Pace, Query};
use deltaplane_controllers::graphs::api;
use deltaplane_sync::ZoneName;
use futures::stream::{self, BoxStream, SelectAll};
use futures::{StreamExt, future};
use kube::Client;
use serde_json::Value;

use super::ask::{self, Api};
use super::fleet::{Fleet, InZone};
use super::overview::Overview;
use super::seen::{Revision, Seen};
use super::shown::{self, Listed};
use super::{DefinitionName, RolloutError, now, read};
use crate::said::{Said, printable};

/// What is followed of a definition.
struct Watch {
    client: Client,
    name: DefinitionName,
    feeds: [Events; 3],
    definitions: Cache<Value>,
    revisions: Cache<Revision>,
    instances: Cache<Value>,
    place: Place,
}

/// Whether it is known where the instances of a definition are.
enum Place {
    /// Nobody answered yet.
    Unasked,
    NotServed,
    Followed,
}

/// How long to wait before an API is asked again that did not answer.
pub(super) const AGAIN: Duration = Duration::from_secs(1);

/// Where it is shown.
pub(crate) enum Screen {
    /// All of it, drawn anew each time.
    Terminal,
    /// A line for each change.
    Lines,
}

type Events = BoxStream<'static, Event>;
/// What there is of a definition, each time that it changes; an error if it is not there.
type Told = BoxStream<'static, Result<Seen, RolloutError>>;

/// Shows it until it is complete.
pub(super) async fn run(
    api: &Api<'_>,
    name: &DefinitionName,
    timeout: Option<Duration>,
) -> Result<Said, RolloutError> {
    let deadline = async {
        match timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    let screen = Screen::here();
    tokio::select! {
        over = follow(api, name, &screen) => over,
        () = deadline => Ok(Said {
            out: String::new(),
            err: format!(
                "not complete in time\nhint: {} says what it waits for\n",
                api.command(&format!("why graph/{}", name.as_str()))
            ),
            good: false,
        }),
    }
}

async fn follow(
    api: &Api<'_>,
    name: &DefinitionName,
    screen: &Screen,
) -> Result<Said, RolloutError> {
    // Feeds try for ever; what is wrong from the start is said at once.
    let seen = read::seen(&api.client, name).await?;
    let over = match api.zones().await.filter(|zones| !zones.is_empty()) {
        Some(zones) => follow_fleet(api, &seen, zones, screen).await?,
        None => follow_one(&api.client, name, screen).await?,
    };
    Ok(Said {
        good: over,
        ..Said::default()
    })
}

/// Whether it is over; otherwise nobody looks any more.
async fn follow_one(
    client: &Client,
    name: &DefinitionName,
    screen: &Screen,
) -> Result<bool, RolloutError> {
    let mut told = lasting(Watch::start(client.clone(), name.clone()));
    let mut last: Option<Overview> = None;
    while let Some(seen) = told.next().await {
        let overview = Overview::of(&seen?, now());
        if last.as_ref() == Some(&overview) {
            continue;
        }
        let lines = shown::changes(last.as_ref(), &overview);
        let drawn = screen.show(&shown::screen(&overview, Listed::Screen), &lines);
        if overview.is_over() || drawn.is_err() {
            return Ok(overview.is_over());
        }
        last = Some(overview);
    }
    Ok(false)
}

/// The same for all zones of a hub.
async fn follow_fleet(
    api: &Api<'_>,
    seen: &Seen,
    zones: Vec<ZoneName>,
    screen: &Screen,
) -> Result<bool, RolloutError> {
    let name = DefinitionName::new(seen.name());
    let mut hub = seen.definition.clone();
    let mut at_hub = lasting(Watch::start(api.client.clone(), name.clone()));
    let mut fleet = ask::fleet(api, seen, zones.clone()).await;
    let mut told: SelectAll<BoxStream<'static, (String, Result<Seen, RolloutError>)>> =
        SelectAll::new();
    for zone in zones {
        let client = api.of(&zone).await?;
        let zone = zone.to_string();
        let stream = Watch::start(client, name.clone());
        told.push(stream.map(move |seen| (zone.clone(), seen)).boxed());
    }
    let mut latest: Vec<(String, Seen)> = Vec::new();
    let mut last: Option<Fleet> = None;
    loop {
        if last.as_ref() != Some(&fleet) {
            let drawn = screen.show(&fleet.screen(), &fleet.changes(last.as_ref()));
            if fleet.is_over() || drawn.is_err() {
                return Ok(fleet.is_over());
            }
            last = Some(fleet.clone());
        }
        tokio::select! {
            Some(seen) = at_hub.next() => {
                hub = seen?.definition;
                fleet.changed(&hub);
                for (zone, seen) in &latest {
                    let found = InZone::of(Ok(seen.clone()), &hub, now());
                    fleet.insert(zone.clone(), found);
                }
            }
            Some((zone, seen)) = told.next() => {
                latest.retain(|(known, _)| *known != zone);
                if let Ok(seen) = &seen {
                    latest.push((zone.clone(), seen.clone()));
                }
                fleet.insert(zone, InZone::of(seen, &hub, now()));
            }
        }
    }
}

// === impl Watch ===

impl Watch {
    fn start(client: Client, name: DefinitionName) -> Told {
        let field = format!("metadata.name={}", name.as_str());
        let definitions = Query::all(api::definitions()).with_fields(&field);
        let watch = Self {
            feeds: [
                feed(&client, definitions),
                feed(&client, read::revisions_of(&name)),
                stream::pending().boxed(),
            ],
            client,
            name,
            definitions: Cache::new(),
            revisions: Cache::new(),
            instances: Cache::new(),
            place: Place::Unasked,
        };
        let told = stream::unfold(watch, |mut watch| async {
            let seen = watch.next().await;
            Some((seen, watch))
        });
        told.boxed()
    }

    /// What there is, when something of it changed.
    async fn next(&mut self) -> Result<Seen, RolloutError> {
        loop {
            let again = again(&self.place);
            let [definitions, revisions, instances] = &mut self.feeds;
            tokio::select! {
                Some(event) = definitions.next() => {
                    self.definitions.apply(event, |item| item.parse().ok());
                    self.find().await?;
                }
                () = again => self.find().await?,
                Some(event) = revisions.next() => {
                    let name = self.name.as_str();
                    self.revisions.apply(event, |item| Revision::read(&item.parse().ok()?, name));
                }
                Some(event) = instances.next() => {
                    self.instances.apply(event, |item| item.parse().ok());
                }
            }
            let known = match self.place {
                // Without a definition there is nothing to ask for.
                Place::Unasked => self.definition().is_none(),
                Place::NotServed => true,
                Place::Followed => self.instances.is_synced(),
            };
            if self.definitions.is_synced() && self.revisions.is_synced() && known {
                return self.seen();
            }
        }
    }

    /// Follows the instances, if their kind is served by now.
    async fn find(&mut self) -> Result<(), RolloutError> {
        let (Place::Unasked | Place::NotServed, Some(definition)) =
            (&self.place, self.definition())
        else {
            return Ok(());
        };
        // What is not answered is asked again.
        self.place = Place::Unasked;
        self.place = match read::served(&self.client, &definition).await? {
            None => Place::NotServed,
            Some(place) => {
                self.feeds[2] = feed(&self.client, Query::all(place));
                Place::Followed
            }
        };
        Ok(())
    }

    fn definition(&self) -> Option<Value> {
        let key = ObjectKey::cluster(self.name.as_str());
        self.definitions.get(&key).cloned()
    }

    fn seen(&self) -> Result<Seen, RolloutError> {
        let gone = || RolloutError::NoDefinition {
            name: self.name.as_str().to_owned(),
            near: None,
            known: Vec::new(),
        };
        let definition = self.definition().ok_or_else(gone)?;
        let revisions = self.revisions.iter().map(|(_, one)| one.clone());
        let instances = self.instances.iter().map(|(_, one)| one.clone());
        Ok(Seen::new(
            definition,
            revisions.collect(),
            instances.collect(),
        ))
    }
}

/// Without failures that pass: a watch asks again by itself.
fn lasting(told: Told) -> Told {
    let passes = |seen: &Result<Seen, RolloutError>| {
        let error = seen.as_ref().err();
        error.is_some_and(RolloutError::is_passing)
    };
    told.filter(move |seen| future::ready(!passes(seen)))
        .boxed()
}

/// When to ask once more where instances are, if nobody said it yet.
async fn again(place: &Place) {
    match place {
        Place::Unasked => tokio::time::sleep(AGAIN).await,
        // Definitions change when their kinds come to be served.
        Place::NotServed | Place::Followed => std::future::pending().await,
    }
}

/// The events of a query, for ever.
pub(crate) fn feed(client: &Client, query: Query) -> Events {
    Feed::new(client.clone(), query, Pace::system()).events()
}

// === impl Screen ===

impl Screen {
    /// Standard output, as it is.
    pub(crate) fn here() -> Self {
        match io::stdout().is_terminal() {
            true => Self::Terminal,
            false => Self::Lines,
        }
    }

    /// Shows the whole, or what is new of it.
    pub(crate) fn show(&self, whole: &str, new: &[String]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match self {
            // From the top left corner, and nothing below.
            Self::Terminal => write!(out, "\x1b[H\x1b[2J{}", printable(whole.to_owned()))?,
            Self::Lines => {
                for line in new {
                    writeln!(out, "{}", printable(line.clone()))?;
                }
            }
        }
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fake;

    /// A zone with an instance, which does not say for a while which kinds it serves.
    fn zone() -> Client {
        let list = |items: Value| {
            let list = json!({"metadata": {"resourceVersion": "1"}, "items": items});
            (200, list)
        };
        let mut asked = 0;
        fake::api(move |what, _| match what {
            "GET /apis/kro.run/v1alpha1" => {
                asked += 1;
                let kind = json!({"name": "webapps", "kind": "WebApp", "namespaced": true});
                match asked {
                    1..20 => fake::refusal(503),
                    _ => (200, json!({"resources": [kind]})),
                }
            }
            "GET /apis/kro.run/v1alpha1/resourcegraphdefinitions" => list(json!([{
                "metadata": {"name": "webapp", "resourceVersion": "1"},
                "spec": {"schema": {"apiVersion": "v1alpha1", "kind": "WebApp"}},
            }])),
            "GET /apis/kro.run/v1alpha1/webapps" => list(json!([{
                "metadata": {"namespace": "prod", "name": "a", "resourceVersion": "1"},
            }])),
            _ => list(json!([])),
        })
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_told_before_it_is_known_where_instances_are() {
        let mut told = Watch::start(zone(), DefinitionName::new("webapp"));
        let seen = loop {
            match told.next().await.expect("a watch never ends") {
                Ok(seen) => break seen,
                Err(error) => assert!(matches!(error, RolloutError::Ask(_)), "{error}"),
            }
        };
        assert_eq!(seen.instances.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_that_is_away_for_a_while_is_watched_on() {
        let mut told = lasting(Watch::start(zone(), DefinitionName::new("webapp")));
        let first = told.next().await.expect("a watch never ends");
        assert_eq!(first.expect("what there is").instances.len(), 1);
    }
}
