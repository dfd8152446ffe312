//! Asking how far a policy is, what holds it, what it released, and whether it decides the same
//! again.

use deltaplane_client::{ObjectKey, Query, RequestError, Resource, request};
use deltaplane_controllers::graphs::api::definitions;
use deltaplane_fleet::kinds::{GROUP, VERSION};
use deltaplane_graph::did_you_mean;
use kube::Client;
use serde_json::Value;

use super::super::ask::Api;
use super::super::names::{DefinitionName, Subject};
use super::super::seen::key;
use super::super::shown::Listed;
use super::super::{RolloutError, now, read};
use super::act::DELETIONS;
use super::told::{Fate, State, Told};
use super::{PolicyError, history as past, replay as again, shown, why as reasons};
use crate::client::{ClientError, Output};
use crate::said::Said;

/// A policy, and the hub that has it.
pub(crate) struct Policies<'e> {
    pub(super) api: &'e Api<'e>,
    pub(super) client: Client,
    pub(super) name: String,
}

/// What a rollout is of.
pub(crate) enum Found<'e> {
    Policy(Policies<'e>),
    Graph(DefinitionName),
}

/// What came of asking whether something is there.
enum Asked {
    There,
    /// It is not, or who asks may not know of any.
    Absent(RequestError),
    /// It may be.
    Unknown(RequestError),
}

pub(super) fn resource() -> Resource {
    Resource::cluster(GROUP, VERSION, "propagationpolicies", "PropagationPolicy")
}

// === impl Asked ===

impl Asked {
    fn of(answer: Result<Value, RequestError>) -> Self {
        match answer {
            Ok(_) => Self::There,
            Err(error) if matches!(error.code(), Some(401 | 403 | 404)) => Self::Absent(error),
            Err(error) => Self::Unknown(error),
        }
    }
}

// === impl Policies ===

impl<'e> Policies<'e> {
    /// What a name means.
    pub(crate) async fn find(
        api: &'e Api<'e>,
        subject: Subject,
    ) -> Result<Found<'e>, RolloutError> {
        let found = match subject {
            Subject::Graph(name) => Found::Graph(name),
            Subject::Policy(name) => Found::Policy(Self::named(api, name).await?),
            Subject::Either(name) => {
                let client = api.at_hub().await?;
                Self::tell_apart(api, client, name).await?
            }
        };
        if let Found::Policy(policy) = &found {
            policy.check_zone_exists().await?;
        }
        Ok(found)
    }

    /// Fails if the zone that was named does not exist, whatever is asked or done.
    pub(super) async fn check_zone_exists(&self) -> Result<(), RolloutError> {
        let Some(zone) = self.api.zone() else {
            return Ok(());
        };
        let zones = Resource::cluster(GROUP, VERSION, "zones", "Zone");
        let path = zones.object_path(&ObjectKey::cluster(zone.as_str()));
        match request::get::<Value>(&self.client, &path).await {
            Err(error) if error.is_not_found() => Err(ClientError::NoZone(zone.clone()).into()),
            // Who may not read zones may still ask about policies.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// What a name means that may be of a policy or of a graph.
    pub(super) async fn tell_apart(
        api: &'e Api<'e>,
        client: Client,
        name: String,
    ) -> Result<Found<'e>, RolloutError> {
        let graph = DefinitionName::new(&name);
        let object = request::get::<Value>(&client, &path(&name)).await;
        let definition = request::get::<Value>(&api.client, &read::definition_path(&graph)).await;
        let definition = match Asked::of(definition) {
            // Graphs of a zone that is away are authored at its hub, as far as anybody can tell.
            Asked::Unknown(_) if api.zone().is_some() => {
                let authored = request::get(&client, &read::definition_path(&graph)).await;
                Asked::of(authored)
            }
            asked @ (Asked::There | Asked::Absent(_) | Asked::Unknown(_)) => asked,
        };
        match (Asked::of(object), definition) {
            (Asked::There, Asked::There) => Err(PolicyError::Ambiguous(name).into()),
            (Asked::There, Asked::Absent(_)) => Ok(Found::Policy(Self { api, client, name })),
            (Asked::Absent(_), Asked::There) => Ok(Found::Graph(graph)),
            // To say which is meant would not help.
            (Asked::Unknown(source), Asked::Unknown(_)) => Err(RolloutError::request(source)),
            (Asked::Unknown(source), Asked::There | Asked::Absent(_))
            | (Asked::There | Asked::Absent(_), Asked::Unknown(source)) => {
                let source = Box::new(source);
                Err(PolicyError::Unclear { name, source }.into())
            }
            (Asked::Absent(error), Asked::Absent(no_graph)) => {
                let RolloutError::Policy(PolicyError::NoPolicy { near, known, .. }) =
                    missing(&client, name.clone(), error).await
                else {
                    // A server that cannot be asked for policies has none.
                    return Ok(Found::Graph(graph));
                };
                let is_of_graph = no_graph.is_not_found() && !is_about_zone(&no_graph);
                if near.is_none() && !is_of_graph {
                    // It is not known whether there is such a graph.
                    return Ok(Found::Graph(graph));
                }
                Err(neither(&api.client, name, near, known).await.into())
            }
        }
    }

    /// The policy of this name.
    pub(crate) async fn named(api: &'e Api<'e>, name: String) -> Result<Self, RolloutError> {
        let client = api.at_hub().await?;
        match request::get::<Value>(&client, &path(&name)).await {
            Err(error) if error.is_not_found() => Err(missing(&client, name, error).await),
            Err(error) => Err(RolloutError::request(error)),
            Ok(_) => Ok(Self { api, client, name }),
        }
    }

    pub(super) fn path(&self) -> String {
        path(&self.name)
    }

    /// What the hub says, with a query.
    pub(super) async fn answer(&self, query: &str) -> Result<Value, RolloutError> {
        let path = format!("{}/_rollout{query}", self.path());
        match request::get(&self.client, &path).await {
            // It was deleted meanwhile.
            Err(error) if error.is_not_found() => {
                Err(missing(&self.client, self.name.clone(), error).await)
            }
            answer => answer.map_err(RolloutError::request),
        }
    }

    pub(super) async fn told(&self) -> Result<Told, RolloutError> {
        Ok(Told::read(&self.answer("").await?)?)
    }

    /// Fails if a zone is not among those that were told of: it does not exist, or the policy is
    /// not for it.
    pub(super) async fn check_zone(&self, told: &Told, zone: &str) -> Result<(), RolloutError> {
        if told.members().any(|(_, member)| member.zone == zone) {
            return Ok(());
        }
        let known = self.told().await?;
        Err(PolicyError::NoZone {
            policy: told.policy.clone(),
            zone: zone.to_owned(),
            known: known.members().map(|(_, one)| one.zone.clone()).collect(),
        }
        .into())
    }

    /// A command about this policy.
    pub(super) fn command(&self, verb: &str) -> String {
        self.api
            .hub_command(&format!("{verb} policy/{}", self.name))
    }

    /// What to do next.
    pub(super) fn hint(&self, told: &Told) -> String {
        match told.state() {
            State::Complete => String::new(),
            State::Moving | State::Paused | State::Diverged => {
                format!("hint: {} says what it waits for\n", self.command("why"))
            }
            State::Waiting => {
                let approve = format!("{}{}", self.command("approve"), approved(told));
                match excluded_approvers(told) {
                    [] => format!("hint: {approve} lets it go on\n"),
                    authors => format!(
                        "hint: somebody other than {} must approve it: {approve}\n",
                        authors.join(", ")
                    ),
                }
            }
            State::RolledBack => {
                let again = told.releases.iter().rev().find_map(|one| {
                    let release = one.rolled_back_by.map(|_| one.release)?;
                    let rollback = self.command("rollback");
                    Some(format!("; {rollback} --to {release} releases them again"))
                });
                format!(
                    "hint: change the objects at the hub{}\n",
                    again.unwrap_or_default()
                )
            }
            State::Stopped => {
                // Not where nothing was before.
                let back = told.previous().map(|_| {
                    let rollback = self.command("rollback");
                    format!("; {rollback} brings back what was before")
                });
                let why = self.command("why");
                format!("hint: {why} says more{}\n", back.unwrap_or_default())
            }
        }
    }
}

/// What is said of a release that was rolled back.
pub(super) fn rolled_back(release: u64, by: u64) -> String {
    format!("release {release} was rolled back by release {by}")
}

fn path(name: &str) -> String {
    resource().object_path(&ObjectKey::cluster(name))
}

/// The flags that approve what waits now, and nothing that comes to wait until they are used.
fn approved(told: &Told) -> String {
    let deletions = match told.reason == DELETIONS {
        true => " --deletions",
        false => "",
    };
    let mut stages = told.stages.iter();
    let waiting = stages.find_map(|stage| Some((stage, stage.waits(&told.reason)?.release?)));
    match waiting {
        None => deletions.to_owned(),
        Some((_, release)) if !deletions.is_empty() => format!("{deletions} --release {release}"),
        Some((stage, release)) => format!(" --stage {} --release {release}", stage.name),
    }
}

/// Those who cannot approve what waits now.
fn excluded_approvers(told: &Told) -> &[String] {
    let mut stages = told.stages.iter();
    let waiting = stages.find(|stage| stage.waits(&told.reason).is_some());
    let is_stage = told.reason != DELETIONS;
    let excluded = waiting.filter(|_| is_stage);
    excluded
        .and_then(|stage| stage.excluded_approvers.as_deref())
        .unwrap_or_default()
}

async fn missing(client: &Client, name: String, error: RequestError) -> RolloutError {
    let known = match read::objects(client, &Query::all(resource())).await {
        Ok(known) => known,
        Err(RolloutError::Ask(unserved)) if unserved.is_not_found() => {
            return PolicyError::NotServed(unserved).into();
        }
        Err(_) => return RolloutError::request(error),
    };
    let known: Vec<String> = known.iter().map(|one| key(one).name).collect();
    let near = did_you_mean(&name, known.iter().map(String::as_str));
    PolicyError::NoPolicy { name, near, known }.into()
}

/// Returns true if the zone itself is missing through which was asked.
fn is_about_zone(error: &RequestError) -> bool {
    error
        .refusal()
        .is_some_and(|refusal| refusal.kind == "zones")
}

/// Returns the error of a name that neither a policy nor a graph has.
async fn neither(
    client: &Client,
    name: String,
    near: Option<String>,
    policies: Vec<String>,
) -> PolicyError {
    let graphs = read::objects(client, &Query::all(definitions())).await;
    let graphs = graphs.unwrap_or_default();
    let graphs: Vec<String> = graphs.iter().map(|one| key(one).name).collect();
    let near = near.or_else(|| did_you_mean(&name, graphs.iter().map(String::as_str)));
    let policies = policies.iter().map(|name| format!("policy/{name}"));
    let graphs = graphs.iter().map(|name| format!("graph/{name}"));
    let known = policies.chain(graphs).collect();
    PolicyError::Neither { name, near, known }
}

/// The exit code is about a release that is named.
pub(crate) async fn status(
    policy: &Policies<'_>,
    (all, release): (bool, Option<u64>),
    output: Output,
) -> Result<Said, RolloutError> {
    let query = match policy.api.zone() {
        Some(zone) => format!("?zone={zone}"),
        None => String::new(),
    };
    let answer = policy.answer(&query).await?;
    let told = Told::read(&answer)?;
    if let Some(zone) = policy.api.zone() {
        policy.check_zone(&told, zone.as_str()).await?;
    }
    let named = release.map(|release| told.find_release(release));
    let named = named.transpose()?.map(|one| one.release);
    let fate = named.map(|release| (release, told.fate(release)));
    let (note, good) = match fate {
        Some((release, Fate::RolledBack(by))) => (format!("{}\n", rolled_back(release, by)), false),
        Some((_, Fate::Open | Fate::Complete)) | None => (String::new(), true),
    };
    if let Some(out) = output.show(&answer)? {
        return Ok(Said {
            good,
            ..Said::of_data(out)
        });
    }
    let listed = if all { Listed::All } else { Listed::Screen };
    Ok(Said {
        out: shown::screen(&told, listed),
        err: format!("{note}{}", policy.hint(&told)),
        good,
    })
}

pub(crate) async fn why(
    policy: &Policies<'_>,
    zone: Option<&str>,
    output: Output,
) -> Result<Said, RolloutError> {
    let zone = zone.or_else(|| policy.api.zone().map(|zone| zone.as_str()));
    let answer = policy.answer("").await?;
    let told = Told::read(&answer)?;
    let member = match zone {
        None => None,
        Some(zone) => {
            let mut members = told.members();
            let found = members.find(|(_, member)| member.zone == zone);
            let missing = || PolicyError::NoZone {
                policy: told.policy.clone(),
                zone: zone.to_owned(),
                known: told.members().map(|(_, one)| one.zone.clone()).collect(),
            };
            Some(found.ok_or_else(missing)?)
        }
    };
    let narrow = match zone {
        Some(zone) => policy.answer(&format!("?zone={zone}")).await?,
        None => answer,
    };
    if let Some(out) = output.show(&reasons::json(&narrow))? {
        return Ok(Said::of_data(out));
    }
    let out = match member {
        Some((stage, member)) => reasons::zone(&told, stage, member),
        None => reasons::text(&told),
    };
    let err = match told.state() {
        State::Complete | State::Moving | State::Paused | State::Diverged => String::new(),
        State::Waiting | State::RolledBack => policy.hint(&told),
        State::Stopped => format!(
            "hint: {} brings back what was before; {} lets it go on in spite of failures\n",
            policy.command("rollback"),
            policy.command("resume")
        ),
    };
    let good = true;
    Ok(Said { out, err, good })
}

pub(crate) async fn history(
    policy: &Policies<'_>,
    release: Option<u64>,
    output: Output,
) -> Result<Said, RolloutError> {
    let told = policy.told().await?;
    let answer = match release {
        Some(number) => {
            let number = told.find_release(number)?.release;
            policy.answer(&format!("?release={number}")).await?
        }
        None => policy.answer("").await?,
    };
    let (data, text) = match release {
        Some(_) => (answer["shown"].clone(), past::one(&answer["shown"])),
        None => (past::json(&answer), past::text(&told, now())),
    };
    let out = output.show(&data)?.unwrap_or(text);
    Ok(Said::of_data(out))
}

/// Decides again what the hub decided last, here, and compares.
pub(crate) async fn replay(policy: &Policies<'_>, output: Output) -> Result<Said, RolloutError> {
    let answer = policy.answer("?inputs=true").await?;
    let replayed = again::Replayed::of(&answer["decision"])?;
    let out = output.show(&replayed.json())?;
    Ok(Said {
        out: out.unwrap_or_else(|| replayed.text(&policy.name)),
        err: String::new(),
        good: replayed.is_same(),
    })
}
