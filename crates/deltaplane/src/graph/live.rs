//! The graph of an instance as it stands in an API: planned as its controller does, from the
//! revision that it runs and the objects that are there.
//!
//! Nothing is written. Kinds are those of the CustomResourceDefinitions that are there, and
//! Kubernetes' own.

mod following;
mod picture;
#[cfg(test)]
mod tests;

use clap::Args;
use deltaplane_api::admission::Admission;
use deltaplane_client::{ObjectKey, Query, Resource};
use deltaplane_controllers::graphs::api;
use deltaplane_graph::labels;
use deltaplane_sync::ZoneName;
use kube::Client;
use serde_json::Value;

use super::tree::Output;
use crate::args::Environment;
use crate::client::{Hub, zone_objects};
use crate::rollout::{
    DefinitionName, InstanceName, Revision, RolloutError, Screen, Seen, key, objects, read_seen,
    served,
};
use crate::said::Said;

pub(crate) use picture::Cause;

use following::Following;
use picture::Sources;

/// `graph tree --live`.
#[derive(Debug, Args)]
pub(super) struct Live {
    /// The instance whose graph it is, with --live: webapp/shop
    #[arg(value_name = "KIND/NAME", requires = "live")]
    instance: Option<Target>,
    /// Draw the graph of an instance as it stands in an API
    #[arg(long, requires = "instance", conflicts_with_all = ["files", "observed", "changes", "assume_applied"])]
    live: bool,
    /// The namespace of the instance
    #[arg(short, long, value_name = "NAME", requires = "live")]
    namespace: Option<String>,
    /// Draw it again with each change
    #[arg(short, long, requires = "live")]
    watch: bool,
    #[command(flatten)]
    hub: Hub,
    /// Ask this zone, through its hub, instead of the API that the kubeconfig names
    #[arg(long, value_name = "NAME", requires = "live")]
    zone: Option<ZoneName>,
}

/// An instance of some graph.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    /// As people write it: `webapp`, `webapps`, `WebApp`, `webapps.kro.run`.
    kind: String,
    name: InstanceName,
}

/// What to ask.
#[derive(Debug)]
pub(crate) struct Question {
    target: Target,
    watch: bool,
    hub: Hub,
    zone: Option<ZoneName>,
    output: Output,
}

// === impl Live ===

impl Live {
    /// What to ask, if that is what is wanted.
    pub(super) fn question(&self, output: Output) -> Option<Question> {
        let Self {
            instance,
            live,
            namespace,
            watch,
            hub,
            zone,
        } = self;
        let Target { kind, name } = instance.clone().filter(|_| *live)?;
        let name = name.within(namespace.clone());
        Some(Question {
            target: Target { kind, name },
            watch: *watch,
            hub: hub.clone(),
            zone: zone.clone(),
            output,
        })
    }
}

// === impl Question ===

impl Question {
    pub(crate) async fn run(self, environment: &Environment) -> Result<Said, RolloutError> {
        let client = self.hub.client_of(self.zone.as_ref(), environment).await?;
        let crds = custom_kinds(&client).await?;
        let definition = named(&client, self.target.definition(&crds)?).await?;
        let seen = read_seen(&client, &definition).await?;
        let instance = self.target.name.find(&seen)?;
        if self.watch {
            let place = served(&client, &seen.definition).await?;
            let key = key(instance);
            let place = place.map(|place| (place, key));
            return self.follow(&client, &definition, (seen, place)).await;
        }
        let sources = Sources::of(crds, &seen, instance)?;
        let there = sources.read(&client).await?;
        let picture = sources.picture(instance.clone(), there)?;
        let hub = self.zone.is_none() && zone_objects(&client).await.is_ok();
        let err = match hub {
            true => {
                "note: this is a hub, where nothing runs\nhint: ask a zone with --zone <zone>\n"
            }
            false => "",
        };
        Ok(Said {
            out: picture.drawn(self.output),
            err: err.to_owned(),
            good: true,
        })
    }

    /// Draws it again with each change, until the instance is gone.
    async fn follow(
        &self,
        client: &Client,
        definition: &DefinitionName,
        (mut seen, place): (Seen, Option<(Resource, ObjectKey)>),
    ) -> Result<Said, RolloutError> {
        let Some((place, key)) = place else {
            return Ok(Said::of_data(String::new()));
        };
        let screen = Screen::here();
        let mut last = String::new();
        loop {
            let instance = self.target.name.find(&seen)?.clone();
            let crds = custom_kinds(client).await?;
            let sources = Sources::of(crds, &seen, &instance)?;
            let revision = Admission::read(&instance).map(|one| one.at);
            let mut following = Following::new(client, &sources, (&place, &key), &instance);
            // Until it runs another revision.
            loop {
                let Some(instance) = following.next().await else {
                    let err = format!("{key} is gone\n");
                    let (out, good) = (String::new(), true);
                    return Ok(Said { out, err, good });
                };
                if Admission::read(&instance).map(|one| one.at) != revision {
                    break;
                }
                let picture = sources.picture(instance, following.there())?;
                let text = picture.drawn(Output::Text);
                if text != last {
                    let gap = (!last.is_empty()).then(String::new);
                    let lines = gap.into_iter().chain(text.lines().map(str::to_owned));
                    let lines: Vec<String> = lines.collect();
                    if screen.show(&text, &lines).is_err() {
                        return Ok(Said::of_data(String::new()));
                    }
                    last = text;
                }
            }
            seen = read_seen(client, definition).await?;
        }
    }
}

// === impl Target ===

impl std::str::FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((kind, name)) if !kind.is_empty() => Ok(Self {
                kind: kind.to_owned(),
                name: name.parse()?,
            }),
            Some(_) | None => Err("write it as kind/name".to_owned()),
        }
    }
}

impl Target {
    /// The definition that makes its kind, as labels name it.
    fn definition<'c>(&self, crds: &'c [Value]) -> Result<&'c str, RolloutError> {
        let word = self.kind.to_lowercase();
        let owner = |crd: &'c Value| crd["metadata"]["labels"][labels::DEFINITION_NAME].as_str();
        let graphs = crds.iter().filter(|crd| owner(crd).is_some());
        let found = graphs.clone().find(|crd| {
            let (names, group) = (&crd["spec"]["names"], &crd["spec"]["group"]);
            let group = group.as_str().unwrap_or_default();
            let short = names["shortNames"].as_array().into_iter().flatten();
            let names = ["kind", "plural", "singular"].map(|field| &names[field]);
            let mut names = names.into_iter().chain(short).filter_map(Value::as_str);
            names.any(|name| {
                let name = name.to_lowercase();
                word == name || word == format!("{name}.{group}")
            })
        });
        let known = || {
            let kinds = graphs.clone().map(|crd| &crd["spec"]["names"]["singular"]);
            kinds
                .filter_map(|kind| kind.as_str().map(str::to_owned))
                .collect()
        };
        found.and_then(owner).ok_or_else(|| RolloutError::NoKind {
            word: self.kind.clone(),
            known: known(),
        })
    }
}

/// What holds the graph of an instance.
pub(crate) async fn causes(
    client: &Client,
    seen: &Seen,
    instance: &Value,
) -> Result<Vec<Cause>, RolloutError> {
    let sources = Sources::of(custom_kinds(client).await?, seen, instance)?;
    let there = sources.read(client).await?;
    Ok(sources.picture(instance.clone(), there)?.causes())
}

/// What is different from a definition as it is to what it was.
pub(crate) async fn difference(
    client: &Client,
    seen: &Seen,
    revision: &Revision,
) -> Result<String, RolloutError> {
    let crds = custom_kinds(client).await?;
    picture::difference(&crds, seen, revision)
}

/// The definition that a label names. Labels are shorter than some names.
async fn named(client: &Client, label: &str) -> Result<DefinitionName, RolloutError> {
    let all = objects(client, &Query::all(api::definitions())).await?;
    let names = all.iter().map(|one| key(one).name);
    let found = names.into_iter().find(|name| labels::value(name) == label);
    Ok(DefinitionName::new(found.as_deref().unwrap_or(label)))
}

async fn custom_kinds(client: &Client) -> Result<Vec<Value>, RolloutError> {
    let (plural, kind) = ("customresourcedefinitions", "CustomResourceDefinition");
    let resource = Resource::cluster("apiextensions.k8s.io", "v1", plural, kind);
    objects(client, &Query::all(resource)).await
}
