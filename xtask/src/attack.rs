//! `cargo xtask attack`: what a hub must withstand, tried against a real process.
//!
//! Every attack is what an account, a zone or somebody on the network could do: over TLS, with
//! tokens and certificates that the hub gave out, by HTTP/2 with windows that stay closed, and by
//! the gRPC services of sync. An attack that succeeds ends the run with an error, and so does a
//! bystander who is not served within a second meanwhile.
//!
//! With `--expect-vulnerable` every attack must succeed instead: that is how an attack is shown to
//! be one, against a binary from before its fix (`--binary`).

mod account;
mod costly;
mod mirrored;
mod peer;
mod policies;
mod roles;
mod secrets;
mod stage;
mod starving;
mod up;
mod zones;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::future::LocalBoxFuture;

use crate::bench::runtime;
use crate::hub;
use stage::Stage;

/// Against what.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program to attack; a release build of this tree if not given.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Expect that every attack succeeds.
    #[arg(long)]
    expect_vulnerable: bool,
    /// Only the attacks whose names contain this.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// How an attack went.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    /// The hub did not let it happen.
    Refused(String),
    /// It happened.
    Succeeded(String),
}

/// An attack, by the item of the threat model that it is about.
struct Attack {
    item: &'static str,
    name: &'static str,
    run: for<'a> fn(&'a Stage) -> LocalBoxFuture<'a, Result<Outcome>>,
}

/// An attack takes so long at most, on a machine that does other things.
const PATIENCE: Duration = Duration::from_secs(60);
/// All of them take so long at most.
const WHOLE_RUN: Duration = Duration::from_secs(300);
/// A bystander is served within this.
const PROMPT: Duration = Duration::from_secs(1);
/// A bystander asks again after this.
const PAUSE: Duration = Duration::from_millis(100);

macro_rules! attacks {
    ($($item:literal $name:literal $run:path,)*) => {
        [$(Attack { item: $item, name: $name, run: |stage| Box::pin($run(stage)) },)*]
    };
}

fn attacks() -> impl IntoIterator<Item = Attack> {
    attacks![
        "A1" "orphaned-by-a-zone" zones::orphaned,
        "A1" "owner-that-is-gone" mirrored::owner_that_is_gone,
        "A2" "label-grants-roles" roles::label_grants_roles,
        "A2" "label-on-an-aggregated-role" roles::label_on_aggregated_role,
        "A2" "rules-without-end" roles::rules_without_end,
        "A3" "override-patches-a-binding" policies::override_patches_a_binding,
        "A3" "override-patches-an-object" policies::override_patches_an_object,
        "A3" "rollback-without-rights" policies::rollback_without_rights,
        "A3" "secret-by-an-override" secrets::secret_by_an_override,
        "A4" "secret-in-evidence" secrets::secret_in_evidence,
        "A4" "secret-in-the-evidence-of-others" secrets::secret_in_the_evidence_of_others,
        "A4" "secret-with-a-chosen-salt" secrets::secret_with_a_chosen_salt,
        "A5" "unread-answers-of-a-zone" starving::unread_answers_of_a_zone,
        "A5" "unread-answers-after-their-time" starving::unread_answers_after_their_deadline,
        "A5" "unread-watches-of-a-zone" starving::unread_watches_of_a_zone,
        "A5" "half-sent-bodies" starving::half_sent_bodies,
        "A5" "long-polls" starving::long_polls,
        "A5" "unread-tables" starving::unread_tables,
        "A5" "unread-objects" starving::unread_objects,
        "A5" "costly-constants" costly::costly_constants,
        "A5" "selector-without-end" costly::selector_without_end,
        "A5" "field-selectors-without-end" costly::field_selectors_without_end,
        "A5" "review-of-many-groups" costly::review_of_many_groups,
        "A5" "review-of-many-rules" costly::review_of_many_rules,
        "A6" "certificate-of-a-disabled-zone" zones::certificate_of_a_disabled_zone,
        "A6" "certificate-of-an-earlier-zone" zones::certificate_of_an_earlier_zone,
        "A6" "copied-join-string" zones::copied_join_string,
        "A6" "uploads-without-end" zones::uploads_without_end,
        "A6" "removals-without-end" zones::removals_without_end,
        "A6" "pages-from-a-zone" zones::pages_from_a_zone,
        "A6" "absurd-numbers" zones::absurd_numbers,
        "A6" "account-of-the-same-name" up::account_of_the_same_name,
        "A6" "impersonation-of-the-zone" up::impersonation_of_the_zone,
        "A6" "leaving-by-a-label" policies::leaving_by_a_label,
        "A6" "leaving-by-another-policy" policies::leaving_by_another_policy,
        "A6" "content-in-plans" policies::content_in_plans,
        "A6" "deleted-zone-answers" up::deleted_zone_answers,
    ]
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let binary = match &args.binary {
        Some(binary) => binary.clone(),
        None => hub::binary()?,
    };
    let began = Instant::now();
    let unexpected = runtime()?
        .block_on(async { tokio::time::timeout(WHOLE_RUN, all(&binary, args)).await })
        .context("the attacks took more than five minutes")??;
    println!("{} s", began.elapsed().as_secs());
    if unexpected > 0 {
        let what = match args.expect_vulnerable {
            true => "did not succeed",
            false => "succeeded, or harmed a bystander",
        };
        bail!("{unexpected} attacks {what}");
    }
    Ok(())
}

/// Tries all of them, and returns how many went otherwise than expected.
async fn all(binary: &Path, args: &Args) -> Result<usize> {
    let stage = Stage::start(binary).await?;
    let mut unexpected = 0;
    let only = args.only.as_deref().unwrap_or_default();
    for attack in attacks().into_iter().filter(|one| one.name.contains(only)) {
        let tried = tokio::time::timeout(PATIENCE, (attack.run)(&stage));
        let (tried, bystander) = beside(&stage, tried).await;
        let outcome = tried
            .with_context(|| format!("{} took too long", attack.name))
            .flatten()
            .with_context(|| format!("{}: the hub says\n{}", attack.name, stage.log()))?;
        let harmless = bystander.is_ok();
        let shown = match bystander {
            Ok(took) => format!("bystander served in {} ms", took.as_millis()),
            Err(why) => format!("bystander not served: {why}"),
        };
        let (verdict, how) = match &outcome {
            Outcome::Refused(how) => ("refused", how),
            Outcome::Succeeded(how) => ("SUCCEEDED", how),
        };
        println!(
            "{} {:32} {verdict:9} {how}; {shown}",
            attack.item, attack.name
        );
        let is_refused = matches!(outcome, Outcome::Refused(_));
        let expected = match args.expect_vulnerable {
            true => !is_refused,
            false => is_refused && harmless,
        };
        unexpected += usize::from(!expected);
    }
    Ok(unexpected)
}

/// Attacks while a bystander asks for something again and again, and once more afterwards. Returns
/// the longest time that the bystander waited, or why one request was not served.
async fn beside<T>(
    stage: &Stage,
    attack: impl Future<Output = T>,
) -> (T, Result<Duration, String>) {
    let mut longest = Ok(Duration::ZERO);
    let asking = async {
        loop {
            let served = stage.bystander().await;
            longest = longest.clone().and_then(|longest| Ok(longest.max(served?)));
            tokio::time::sleep(PAUSE).await;
        }
    };
    let done = tokio::select! {
        done = attack => done,
        () = asking => unreachable!("a bystander never stops asking"),
    };
    let after = stage.bystander().await;
    let longest = longest.and_then(|longest| Ok(longest.max(after?)));
    (done, longest)
}
