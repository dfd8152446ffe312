//! A zone, or somebody with what a zone had, takes more than it may.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use deltaplane_client::request::{self, Patch};
use deltaplane_runtime::identity::Credential;
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::{
    Answer, Uploaded, UploadedKind, ZoneReport, answer, question,
};
use deltaplane_sync_grpc::receiving;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Outcome;
use super::account::ClientCertificate;
use super::peer::{CONFIG_MAPS, Peer, join, join_with, map, with_session};
use super::stage::{FLEET, MAPS, Stage, appears};
use crate::fleet::authored;

/// Something that should not happen has had its time to happen.
const WAIT: Duration = Duration::from_secs(3);
/// The names in a message, and the messages of a zone: more in all than the hub remembers.
const REMOVALS: usize = 50_000;
const MESSAGES: usize = 21;
/// The hub ends such a stream in these words.
const BOUND: &str = "without a complete state in between";

/// Uploads an object and says that the hub may keep it, which would send it to all zones.
pub(super) async fn orphaned(stage: &Stage) -> Result<Outcome> {
    let member = join(stage, "giver").await?;
    let mut peer = Peer::connect(&member).await?;
    let mut upload = peer.upload().await?;
    let rejected = upload.put(&map("gift")).await?;
    ensure!(rejected.is_none(), "the upload was rejected: {rejected:?}");
    let said = upload.orphan("gift").await;
    let path = format!("{MAPS}/giver.gift");
    let there = appears(WAIT, async || {
        Ok(request::get::<Value>(&stage.there, &path).await.ok())
    });
    if there.await?.is_some() {
        return Ok(Outcome::Succeeded("another zone got the object".to_owned()));
    }
    let kept: Value = request::get(&stage.admin, &path).await?;
    let origin = &kept["metadata"]["labels"]["deltaplane.io/zone"];
    ensure!(*origin == "giver", "its origin is {origin}");
    Ok(Outcome::Refused(match said {
        Ok(()) => "the origin stays".to_owned(),
        Err(error) => format!("{:.80}", format!("{error:#}").replace('\n', " ")),
    }))
}

/// Asks the hub's API something with a zone's certificate; gives the status.
async fn status_with(stage: &Stage, zone: &str) -> Result<StatusCode> {
    let credential = Credential::load(&stage.directory(zone))?;
    let credential = credential.context("it did not join")?;
    let certificate = ClientCertificate {
        chain: credential.chain(),
        key: &credential.key().0,
    };
    Ok(stage
        .server
        .get_by_certificate(certificate, "/apis")
        .await?
        .status)
}

pub(super) async fn certificate_of_a_disabled_zone(stage: &Stage) -> Result<Outcome> {
    join(stage, "disabled").await?;
    let before = status_with(stage, "disabled").await?;
    ensure!(before.is_success(), "it is {before} before the attack");
    authored::enable(&stage.admin, "disabled", false).await?;
    let refused = appears(WAIT, async || {
        let status = status_with(stage, "disabled").await?;
        Ok((status == StatusCode::UNAUTHORIZED).then_some(status))
    });
    Ok(match refused.await? {
        Some(status) => Outcome::Refused(status.to_string()),
        None => Outcome::Succeeded("it authenticates".to_owned()),
    })
}

/// Takes part in the session of a zone that was made again under the same name.
pub(super) async fn certificate_of_an_earlier_zone(stage: &Stage) -> Result<Outcome> {
    let earlier = join(stage, "again").await?;
    let mut thief = earlier.connect().await?;
    let path = format!("{FLEET}/zones/again");
    request::delete(&stage.admin, &path, &json!({})).await?;
    let gone = appears(WAIT, async || {
        let found = request::get::<Value>(&stage.admin, &path).await;
        Ok(found.is_err().then_some(()))
    });
    gone.await?.context("the zone stays")?;
    let again = authored::make_zone(&stage.admin, "again").await?;
    let member = join_with(&again, &stage.directory("made-again")).await?;
    let mut peer = Peer::connect(&member).await?;
    let _following = peer.follow().await?;
    let nothing = futures::stream::pending();
    let taken = thief.hub_to_zone(with_session(nothing, peer.session)).await;
    Ok(match taken {
        Ok(_) => Outcome::Succeeded("it took part in the session".to_owned()),
        Err(status) => Outcome::Refused(format!("{:.80}", status.message())),
    })
}

pub(super) async fn copied_join_string(stage: &Stage) -> Result<Outcome> {
    let string = authored::make_zone(&stage.admin, "copied").await?;
    join_with(&string, &stage.directory("copied")).await?;
    Ok(
        match join_with(&string, &stage.directory("copied-by-a-thief")).await {
            Ok(_) => Outcome::Succeeded("a second key has a certificate".to_owned()),
            Err(error) => Outcome::Refused(format!("{:.80}", error.root_cause().to_string())),
        },
    )
}

/// Uploads more than the quota allows.
pub(super) async fn uploads_without_end(stage: &Stage) -> Result<Outcome> {
    let member = join(stage, "greedy").await?;
    let path = format!("{FLEET}/zones/greedy");
    let quota = json!({"spec": {"quota": {"objects": 5}}});
    request::patch::<Value>(&stage.admin, &path, Patch::Merge, &quota).await?;
    let mut peer = Peer::connect(&member).await?;
    let mut upload = peer.upload().await?;
    for number in 0..20 {
        if let Some(reason) = upload.put(&map(&format!("many-{number}"))).await? {
            return Ok(Outcome::Refused(format!("{reason:.80}")));
        }
    }
    Ok(Outcome::Succeeded("20 objects of 5 were taken".to_owned()))
}

/// Removes objects that never were, without ever saying that a state is complete.
pub(super) async fn removals_without_end(stage: &Stage) -> Result<Outcome> {
    let member = join(stage, "removing").await?;
    let mut peer = Peer::connect(&member).await?;
    let mut upload = peer.upload().await?;
    for message in 0..MESSAGES {
        let first = message * REMOVALS;
        let names = (first..first + REMOVALS).map(|number| format!("default/n{number}"));
        if let Err(error) = upload.remove(names.collect()).await {
            let why = format!("{error:#}").replace('\n', " ");
            let is_bound = message > 0 && why.contains(BOUND);
            ensure!(is_bound, "refused otherwise after {first} names: {why}");
            return Ok(Outcome::Refused(format!("after {first} names: {why:.80}")));
        }
    }
    let names = MESSAGES * REMOVALS;
    Ok(Outcome::Succeeded(format!(
        "the hub remembers {names} names"
    )))
}

/// Answers what is asked of it with a page.
pub(super) async fn pages_from_a_zone(stage: &Stage) -> Result<Outcome> {
    let member = join(stage, "pages").await?;
    let mut peer = Peer::connect(&member).await?;
    let _following = peer.follow().await?;
    let (out, answers) = mpsc::channel(16);
    let opened = peer
        .client
        .query(with_session(receiving(answers), peer.session))
        .await?;
    let mut questions = opened.into_inner();
    let mut answering = JoinSet::new();
    answering.spawn(async move {
        while let Ok(Some(question)) = questions.message().await {
            let Some(question::Part::Head(_)) = question.part else {
                continue;
            };
            let exchange = question.exchange;
            let head = answer::Head {
                status: 200,
                content_type: "text/html; charset=utf-8".to_owned(),
                warnings: Vec::new(),
            };
            let page = b"<script>alert(1)</script>".to_vec();
            for part in [
                answer::Part::Head(head),
                answer::Part::Body(page.into()),
                answer::Part::End(answer::End::default()),
            ] {
                let part = Some(part);
                let _ = out.send(Answer { exchange, part }).await;
            }
        }
    });
    let victim = stage.account("victim", &json!([])).await?;
    let answer = victim.get("/zones/pages/version").await?;
    drop(answering);
    ensure!(answer.status.is_success(), "{}", answer.brief());
    let shown = answer.headers.get(CONTENT_TYPE);
    let shown = shown
        .and_then(|shown| shown.to_str().ok())
        .unwrap_or_default();
    let nosniff = answer.headers.contains_key("x-content-type-options");
    Ok(match shown.contains("html") || !nosniff {
        true => Outcome::Succeeded(format!("the hub serves {shown}")),
        false => Outcome::Refused(format!("it is passed on as {shown}")),
    })
}

/// Reports numbers that cannot be.
pub(super) async fn absurd_numbers(stage: &Stage) -> Result<Outcome> {
    let member = join(stage, "absurd").await?;
    let mut peer = Peer::connect(&member).await?;
    let _following = peer.follow().await?;
    let kind = UploadedKind {
        type_url: CONFIG_MAPS.to_owned(),
        wanted: u64::MAX,
        acknowledged: u64::MAX,
        ..UploadedKind::default()
    };
    let report = ZoneReport {
        uploaded: Some(Uploaded {
            revision: 1,
            kinds: vec![kind],
        }),
        ..ZoneReport::default()
    };
    let reports = futures::stream::iter([report]);
    let reports = futures::StreamExt::chain(reports, futures::stream::pending());
    let _seen = peer
        .client
        .report(with_session(reports, peer.session))
        .await?;
    let path = format!("{FLEET}/zones/absurd/_sync");
    let shown = appears(WAIT, async || {
        let sync: Value = request::get(&stage.admin, &path).await?;
        let shown = sync.to_string().contains(&u64::MAX.to_string());
        Ok(shown.then_some(()))
    });
    Ok(match shown.await? {
        Some(()) => Outcome::Succeeded("they are shown".to_owned()),
        None => Outcome::Refused("they are not shown".to_owned()),
    })
}
