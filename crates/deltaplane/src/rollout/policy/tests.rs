//! Rollouts of policies as data.

use std::sync::{Arc, Mutex};

use deltaplane_propagation::stages::RESUME;
use kube::Client;
use serde_json::{Value, json};

use super::super::ask::Api;
use super::super::names::Subject;
use super::act::{Yes, approve, resume};
use super::told::{State, Told};
use super::watch::{self, Ends};
use super::{Found, Policies};
use crate::args::Environment;
use crate::client::Output;
use crate::fake;

/// A policy with two stages and releases of which each has another content.
fn told(reason: &str, stages: Value, releases: Value) -> Told {
    Told::read(&answer(reason, stages, releases)).expect("as the hub writes it")
}

fn answer(reason: &str, stages: Value, releases: Value) -> Value {
    json!({
        "policy": "web", "asOf": "2026-03-01T12:00:00Z", "release": 3,
        "propagated": reason == "Propagated", "reason": reason, "message": "", "settled": true,
        "stages": stages, "releases": releases,
    })
}

fn stage(name: &str, zones: Value, waits: &str) -> Value {
    let waiting = json!([{"reason": waits, "message": "", "release": 3}]);
    json!({"name": name, "release": 3, "completed": 1, "zones": zones, "waiting": waiting})
}

fn release(number: u64, passed: &[&str], failed: &[&str]) -> Value {
    json!({
        "release": number, "digest": format!("d{number}"), "passed": passed, "failed": failed,
        "zones": {"count": 0, "names": ""},
    })
}

/// Right after a hub began, nothing is known of any zone.
#[test]
fn who_was_not_heard_of_can_be_read() {
    let mut canary = stage("canary", json!({"total": 1}), "ZoneNotReady");
    canary["members"] = json!([{
        "zone": "eu-1", "state": "updating", "release": 2,
        "report": {"state": "Unheard", "reason": "it has not asked for ConfigMap yet"},
    }]);
    let told = told("ZoneNotReady", json!([canary]), json!([]));
    let (_, member) = told.members().next().expect("a member");
    assert_eq!(member.report.as_ref().and_then(|one| one.at.as_ref()), None);
}

#[test]
fn a_zone_that_never_joined_is_not_offline_since_then() {
    let mut canary = stage("canary", json!({"total": 1}), "ZoneOffline");
    canary["members"] = json!([{
        "zone": "eu-1", "state": "offline", "release": null,
        "link": {"connected": false, "since": "never"},
    }]);
    let told = told("ZoneOffline", json!([canary]), json!([]));
    let (stage, member) = told.members().next().expect("a member");
    assert_eq!(super::shown::reason(stage, member), "never joined");
}

#[test]
fn states_say_whether_somebody_has_to_do_something() {
    let check = |reason: &str, zones: Value, waits: &str, expected: State| {
        let told = told(reason, json!([stage("canary", zones, waits)]), json!([]));
        assert_eq!(told.state(), expected, "{reason}");
    };
    let one = || json!({"total": 1, "updating": 1});
    check(
        "Propagated",
        json!({"total": 1, "current": 1}),
        "",
        State::Complete,
    );
    check("GateClosed", one(), "GateClosed", State::Moving);
    check(
        "ApprovalRequired",
        one(),
        "ApprovalRequired",
        State::Waiting,
    );
    check(
        "DeletionBudgetExceeded",
        one(),
        "DeletionBudgetExceeded",
        State::Waiting,
    );
    let failed = || json!({"total": 2, "failed": 1, "held": 1});
    check(
        "TooManyFailures",
        failed(),
        "TooManyFailures",
        State::Stopped,
    );
    // It was forgiven, and nobody is left who could show that it works.
    check("NoEvidence", failed(), "NoEvidence", State::Stopped);
    check("NoEvidence", one(), "NoEvidence", State::Moving);
    check("Diverged", one(), "ZoneDiverged", State::Diverged);
}

#[test]
fn what_is_brought_back_is_what_all_stages_completed() {
    let stages = || json!([stage("canary", json!({}), ""), stage("rest", json!({}), "")]);
    let previous = |releases: Value| {
        let told = told("TooManyFailures", stages(), releases);
        told.previous().map(|one| one.release)
    };
    let first = release(1, &["canary", "rest"], &[]);
    let newest = release(3, &[], &["canary"]);
    // The canary alone shows too little, and what failed anywhere shows the contrary.
    let half = release(2, &["canary"], &[]);
    assert_eq!(previous(json!([first, half, newest])), Some(1));
    let broken = release(2, &["canary", "rest"], &["rest"]);
    assert_eq!(previous(json!([first, broken, newest])), Some(1));
    let whole = release(2, &["canary", "rest"], &[]);
    assert_eq!(previous(json!([first, whole, newest])), Some(2));
    assert_eq!(previous(json!([newest])), None);
}

#[test]
fn what_people_wrote_is_not_what_was_brought_back() {
    let mut restored = release(3, &[], &[]);
    restored["restores"] = 1.into();
    let releases = json!([release(1, &[], &[]), release(2, &[], &[]), restored]);
    let told = told("Progressing", json!([]), releases);
    assert_eq!(told.authored(), Some(2));
}

/// The policy `web`, at an API that a test answers for.
fn web<'e>(api: &'e Api<'e>) -> Policies<'e> {
    Policies {
        api,
        client: api.client.clone(),
        name: "web".to_owned(),
    }
}

/// A hub at which a stage failed, and somebody else forgives another one just before it is first
/// written: what the policy says in the end.
fn stopped_hub(before: &str, meanwhile: &str) -> (Client, Arc<Mutex<String>>) {
    let written = Arc::new(Mutex::new(before.to_owned()));
    let (at_hub, meanwhile) = (Arc::clone(&written), meanwhile.to_owned());
    let mut version = 1;
    let client = fake::api(move |what, body| {
        let mut resume = at_hub.lock().expect("no panic");
        match what.split_once(' ') {
            Some(("GET", path)) if path.ends_with("/_rollout") => {
                let rest = stage("rest", json!({"total": 3, "failed": 2}), "TooManyFailures");
                (200, answer("TooManyFailures", json!([rest]), json!([])))
            }
            Some(("GET", _)) => {
                let annotations = json!({RESUME: *resume});
                let metadata =
                    json!({"resourceVersion": version.to_string(), "annotations": annotations});
                (200, json!({"metadata": metadata}))
            }
            _ if version == 1 => {
                version = 2;
                resume.push_str(&meanwhile);
                fake::refusal(409)
            }
            _ => {
                assert_eq!(body["metadata"]["resourceVersion"], "2");
                let annotations = &body["metadata"]["annotations"];
                *resume = annotations[RESUME].as_str().expect("a text").to_owned();
                (200, json!({}))
            }
        }
    });
    (client, written)
}

#[tokio::test]
async fn what_was_forgiven_before_or_meanwhile_stays_forgiven() {
    let (client, written) = stopped_hub("2 canary 1, 3 rest 1", ", 3 canary 1");
    let environment = Environment::default();
    let api = Api::of_client(client, &environment);
    resume(&web(&api), None).await.expect("resumed");
    let written = written.lock().expect("no panic");
    assert_eq!(*written, "2 canary 1, 3 canary 1, 3 rest 2");
}

/// What `app` is taken for where policies and graphs are answered with these codes.
async fn taken_for(policies: u16, graphs: u16) -> String {
    let client = fake::api(move |what, _| {
        let code = match what.contains("/propagationpolicies") {
            true => policies,
            false => graphs,
        };
        match code {
            200 => (200, json!({})),
            code => fake::refusal(code),
        }
    });
    let environment = Environment::default();
    let api = Api::of_client(client, &environment);
    match Policies::find(&api, Subject::Either("app".to_owned())).await {
        Ok(Found::Policy(_)) => "policy".to_owned(),
        Ok(Found::Graph(_)) => "graph".to_owned(),
        Err(error) => format!("{error}; {}", error.hint()),
    }
}

#[tokio::test]
async fn what_could_not_be_asked_for_is_not_taken_for_absent() {
    assert_eq!(taken_for(200, 404).await, "policy");
    assert_eq!(taken_for(404, 200).await, "graph");
    // Who may not see the ones means the others.
    assert_eq!(taken_for(403, 200).await, "graph");
    assert_eq!(taken_for(200, 403).await, "policy");
    let unclear = "it is not known whether app is a PropagationPolicy or a ResourceGraphDefinition; say policy/app or graph/app";
    for (policies, graphs) in [(200, 503), (503, 200), (503, 404), (404, 504)] {
        assert_eq!(taken_for(policies, graphs).await, unclear);
    }
    let down = "the API did not answer; what the API said is above";
    assert_eq!(taken_for(503, 503).await, down);
}

#[tokio::test]
async fn a_name_that_nothing_has_is_told_with_what_there_is() {
    let asked = async |subject: &str, is_hub: bool, policies: &[&str]| {
        let items = |names: &[&str]| {
            let named = names.iter().map(|name| json!({"metadata": {"name": name}}));
            json!({"metadata": {"resourceVersion": "1"}, "items": named.collect::<Vec<_>>()})
        };
        let (policies, graphs) = (items(policies), items(&["shop"]));
        let client = fake::api(move |what, _| match what.rsplit('/').next() {
            Some("propagationpolicies") if is_hub => (200, policies.clone()),
            Some("resourcegraphdefinitions") => (200, graphs.clone()),
            Some(_) | None => fake::refusal(404),
        });
        let environment = Environment::default();
        let api = Api::of_client(client, &environment);
        let found = Policies::find(&api, subject.parse().expect("a subject")).await;
        match found {
            Ok(Found::Policy(_)) => "policy".to_owned(),
            Ok(Found::Graph(_)) => "graph".to_owned(),
            Err(error) => format!("{error}; {}", error.hint()),
        }
    };
    let neither = "there is no PropagationPolicy and no ResourceGraphDefinition nosuch;";
    assert_eq!(
        asked("nosuch", true, &["web"]).await,
        format!("{neither} there are policy/web, graph/shop")
    );
    assert_eq!(
        asked("nosuch", true, &["nosuc"]).await,
        format!("{neither} did you mean `nosuc`?")
    );
    assert_eq!(
        asked("policy/nosuch", true, &[]).await,
        "there is no PropagationPolicy nosuch; there are none"
    );
    // In zones nobody asks for policies.
    assert_eq!(asked("nosuch", false, &[]).await, "graph");
    assert_eq!(
        asked("policy/nosuch", false, &[]).await,
        "policies are not served there; only hubs serve them; use the kubeconfig of a hub"
    );
}

#[tokio::test]
async fn a_zone_that_is_missing_is_not_taken_for_a_missing_graph() {
    let hub = fake::api(|what, _| match what.ends_with("/propagationpolicies") {
        true => (
            200,
            json!({"metadata": {"resourceVersion": "1"}, "items": []}),
        ),
        false => fake::refusal(404),
    });
    let zone = fake::api(|_, _| {
        let (code, mut refusal) = fake::refusal(404);
        refusal["details"] = json!({"kind": "zones", "name": "nozone"});
        (code, refusal)
    });
    let environment = Environment::default();
    let api = Api::of_zone(zone, "nozone".parse().expect("legal"), &environment);
    let found = Policies::tell_apart(&api, hub, "shop".to_owned()).await;
    assert!(
        matches!(found, Ok(Found::Graph(_))),
        "its error names the zone"
    );
}

#[tokio::test]
async fn a_zone_that_is_away_keeps_nobody_from_asking_for_policies() {
    let taken_for = async |authored: u16| {
        let away = fake::api(|_, _| fake::refusal(503));
        let hub = fake::api(move |what, _| match what.contains("/propagationpolicies") {
            true => (200, json!({})),
            false if authored == 200 => (200, json!({})),
            false => fake::refusal(authored),
        });
        let environment = Environment::default();
        let api = Api::of_zone(away, "eu-1".parse().expect("legal"), &environment);
        match Policies::tell_apart(&api, hub, "app".to_owned()).await {
            Ok(Found::Policy(_)) => "policy".to_owned(),
            Ok(Found::Graph(_)) => "graph".to_owned(),
            Err(error) => error.to_string(),
        }
    };
    assert_eq!(taken_for(404).await, "policy");
    assert!(taken_for(200).await.starts_with("both a PropagationPolicy"));
    assert!(
        taken_for(503)
            .await
            .starts_with("it is not known whether app")
    );
}

#[tokio::test]
async fn a_zone_that_does_not_exist_is_an_error_for_all_commands() {
    let checked = async |code: u16| {
        let hub = || {
            fake::api(move |what, _| match what.ends_with("/zones/nozone") {
                true if code == 200 => (200, json!({})),
                true => fake::refusal(code),
                false => (200, json!({})),
            })
        };
        let environment = Environment::default();
        let api = Api::of_zone(hub(), "nozone".parse().expect("legal"), &environment);
        let policy = Policies {
            api: &api,
            client: hub(),
            name: "web".to_owned(),
        };
        let checked = policy.check_zone_exists().await;
        checked.map_err(|error| format!("{error}; {}", error.hint()))
    };
    assert_eq!(checked(200).await, Ok(()));
    let refused = "there is no zone nozone; deltaplane zones lists them";
    assert_eq!(checked(404).await, Err(refused.to_owned()));
    // Who may not read zones is not told that there is none.
    assert_eq!(checked(403).await, Ok(()));
}

#[tokio::test]
async fn a_zone_that_the_policy_is_not_for_is_an_error() {
    let status = async |zone: &str| {
        let hub = || {
            fake::api(|what, _| {
                let mut canary = stage("canary", json!({"total": 1}), "");
                let members = json!([{"zone": "eu-1", "state": "current", "release": 3}]);
                let asked = what.split_once("?zone=").map(|(_, zone)| zone);
                canary["members"] = match asked {
                    Some(zone) if zone != "eu-1" => json!([]),
                    _ => members,
                };
                (200, answer("Propagated", json!([canary]), json!([])))
            })
        };
        let environment = Environment::default();
        let api = Api::of_zone(hub(), zone.parse().expect("legal"), &environment);
        let policy = Policies {
            api: &api,
            client: hub(),
            name: "web".to_owned(),
        };
        let said = super::status(&policy, (false, None), crate::client::Output::Json).await;
        said.map(|said| said.good)
            .map_err(|error| format!("{error}; {}", error.hint()))
    };
    assert_eq!(status("eu-1").await, Ok(true));
    let refused = "web is not for zone nozone; there are eu-1";
    assert_eq!(status("nozone").await, Err(refused.to_owned()));
}

/// A hub that answers how far `web` is with these, one after the other, and takes approvals.
fn telling(answers: Vec<(u16, Value)>) -> Client {
    let mut answers = answers.into_iter();
    fake::api(move |what, _| {
        if what.ends_with("/_rollout") {
            return answers.next().expect("an answer that is not asked for");
        }
        let made = json!({"metadata": {"name": "web-3-rest-x"}, "spec": {"approvedBy": "ada"}});
        match what.starts_with("POST") {
            true => (201, made),
            false => (
                200,
                json!({"metadata": {"resourceVersion": "1"}, "items": []}),
            ),
        }
    })
}

fn waiting(reason: &str) -> Value {
    let stages = json!([
        stage("canary", json!({"total": 1}), "Propagated"),
        stage("rest", json!({"total": 1}), reason),
    ]);
    answer(reason, stages, json!([]))
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_is_away_for_a_while_is_watched_on() {
    let check = async |answers: Vec<(u16, Value)>| {
        let environment = Environment::default();
        let api = Api::of_client(telling(answers), &environment);
        let ends = Ends {
            timeout: None,
            on_failure: false,
            release: None,
        };
        watch::run(&web(&api), ends).await.map(|said| said.good)
    };
    let (moving, done) = ((200, waiting("GateClosed")), (200, waiting("Propagated")));
    for code in [429, 500, 503, 504] {
        let away = fake::refusal(code);
        let good = check(vec![moving.clone(), away.clone(), away, done.clone()]).await;
        assert!(good.expect("an answer"), "{code}");
    }
    // What is wrong from the start, or stays so, is said at once.
    assert!(check(vec![fake::refusal(503)]).await.is_err());
    assert!(check(vec![moving, fake::refusal(404)]).await.is_err());
}

#[test]
fn history_names_writers_and_approvals_that_counted() {
    let mut third = release(3, &[], &[]);
    third["authors"] = json!(["ann", "cid"]);
    third["writers"] = json!(["cid"]);
    let mut told = answer(
        "Propagated",
        json!([]),
        json!([third, release(2, &[], &[])]),
    );
    let approval =
        |by: &str, counts: bool| json!({"stage": "rest", "release": 3, "by": by, "counts": counts});
    told["approvals"] = json!([approval("cid", false), approval("bob", true)]);
    let told = Told::read(&told).expect("as the hub writes it");
    let text = super::history::text(&told, super::super::now());
    assert!(text.contains("cid; approved by bob"), "{text}");
    assert!(!text.contains("ann"), "{text}");
}

/// After a restore the hub has what it had, and zones had something else.
#[test]
fn history_says_which_divergence_a_release_settles() {
    let mut third = release(3, &[], &[]);
    third["changes"] = json!({"added": 0, "changed": 0, "removed": 0});
    let check = |settles: Value, expected: &str| {
        let mut third = third.clone();
        third["settles"] = settles;
        let told = answer("Propagated", json!([]), json!([third]));
        let told = Told::read(&told).expect("as the hub writes it");
        let text = super::history::text(&told, super::super::now());
        assert!(text.contains(expected), "{text}");
    };
    check(Value::Null, "nothing changed");
    let zone = |zone: &str, objects: u64| json!({"zone": zone, "objects": objects});
    check(
        json!({"zones": [zone("eu-1", 2), zone("eu-2", 1)]}),
        "settles the divergence of eu-1 (2 objects differ), eu-2 (1 object differs)",
    );
    check(json!({"zones": []}), "settles a divergence");
}

/// Release 3, and from then on what a rollback of it looks like.
fn rolled_back(newest: u64, reason: &str) -> Value {
    let mut third = release(3, &["canary"], &["rest"]);
    third["rolledBackBy"] = (newest > 3).then_some(4).into();
    let mut releases = vec![release(2, &["canary", "rest"], &[]), third];
    releases.extend((newest > 3).then(|| {
        let mut fourth = release(4, &[], &[]);
        fourth["restores"] = 2.into();
        fourth
    }));
    let mut told = answer(
        reason,
        json!([stage("rest", json!({"total": 1}), reason)]),
        json!(releases),
    );
    told["release"] = newest.into();
    told
}

#[tokio::test(start_paused = true)]
async fn exit_codes_are_about_the_release_that_was_watched() {
    let check = async |answers: Vec<Value>, release: Option<u64>, on_failure: bool| {
        let answers = answers.into_iter().map(|one| (200, one)).collect();
        let environment = Environment::default();
        let api = Api::of_client(telling(answers), &environment);
        let ends = Ends {
            timeout: None,
            on_failure,
            release,
        };
        let said = watch::run(&web(&api), ends).await.expect("an answer");
        (said.good, said.err)
    };
    let failing = || rolled_back(3, "ZoneNotReady");
    let back = || rolled_back(4, "ZoneNotReady");
    let over = || rolled_back(4, "RolledBack");
    // It is followed to its end, or ends at once.
    let (good, why) = check(vec![failing(), back(), over()], None, false).await;
    assert!(!good);
    assert!(
        why.starts_with("release 3 was rolled back by release 4\n"),
        "{why}"
    );
    assert!(
        why.contains("rollout rollback policy/web --to 3 releases them again"),
        "{why}"
    );
    assert!(!check(vec![failing(), back()], None, true).await.0);
    // The rollback itself is what whoever comes later watches.
    assert!(check(vec![back(), over()], None, true).await.0);
    assert!(!check(vec![over()], Some(3), false).await.0);
    assert!(check(vec![over()], Some(4), false).await.0);
    assert!(check(vec![over()], Some(2), false).await.0);
    // A later release in its place is no failure.
    let mut later = answer(
        "GateClosed",
        json!([stage("rest", json!({"total": 1}), "GateClosed")]),
        json!([]),
    );
    later["release"] = 4.into();
    later["stages"][0]["completed"] = 3.into();
    assert!(check(vec![failing(), later], None, true).await.0);
}

#[tokio::test]
async fn status_of_a_release_that_was_rolled_back_is_bad() {
    let check = async |release: Option<u64>| {
        let environment = Environment::default();
        let answers = vec![(200, rolled_back(4, "RolledBack"))];
        let api = Api::of_client(telling(answers), &environment);
        let said = super::status(&web(&api), (false, release), Output::default()).await;
        said.expect("an answer")
    };
    let said = check(None).await;
    assert!(
        said.good && said.out.contains("rolled back: "),
        "{}",
        said.out
    );
    assert!(!check(Some(3)).await.good);
    assert!(check(Some(4)).await.good);
}

#[tokio::test]
async fn a_hint_approves_what_was_shown() {
    let environment = Environment::default();
    let api = Api::of_client(telling(Vec::new()), &environment);
    let check = |reason: &str, flags: &str| {
        let told = Told::read(&waiting(reason)).expect("as the hub writes it");
        let expected =
            format!("hint: deltaplane rollout approve policy/web {flags} lets it go on\n");
        assert_eq!(web(&api).hint(&told), expected);
    };
    check("ApprovalRequired", "--stage rest --release 3");
    check("DeletionBudgetExceeded", "--deletions --release 3");
}

#[tokio::test]
async fn a_hint_names_those_who_cannot_approve() {
    let environment = Environment::default();
    let api = Api::of_client(telling(Vec::new()), &environment);
    let mut told = waiting("ApprovalRequired");
    told["stages"][1]["excludedApprovers"] = json!(["ada", "bob"]);
    let told = Told::read(&told).expect("as the hub writes it");
    assert_eq!(
        web(&api).hint(&told),
        "hint: somebody other than ada, bob must approve it: \
         deltaplane rollout approve policy/web --stage rest --release 3\n"
    );
}

/// Nothing waits for it yet, so that no stage says why.
#[tokio::test]
async fn an_approval_given_beforehand_that_does_not_count_is_reported() {
    let check = async |way: &str, counts: bool, expected: &str| {
        let mut told = waiting("GateClosed");
        told["releases"] = json!([release(3, &[], &[])]);
        told["stages"][1]["approval"] = way.into();
        let before = told.clone();
        let given = json!({"stage": "rest", "release": 3, "by": "ada", "counts": counts});
        told["approvals"] = json!([given]);
        let environment = Environment::default();
        let api = Api::of_client(telling(vec![(200, before), (200, told)]), &environment);
        let yes = Yes {
            stage: Some("rest"),
            release: Some(3),
            deletions: false,
        };
        let said = approve(&web(&api), yes).await.expect("it was made");
        assert_eq!(said.good, expected.is_empty());
        let approved = "ada approved release 3 of web for stage rest\n";
        assert_eq!(said.err, format!("{approved}{expected}"));
    };
    check("RequiredByOther", true, "").await;
    check("RequiredByOther", false, "note: that does not count: release 3 needs approval by somebody else than ada, who authored it, or it is not known who did\n").await;
    check(
        "None",
        false,
        "note: that does not count: stage rest needs no approval\n",
    )
    .await;
}

#[tokio::test]
async fn an_approval_that_was_made_is_named_whatever_happens_then() {
    let answers = vec![(200, waiting("ApprovalRequired")), fake::refusal(503)];
    let environment = Environment::default();
    let api = Api::of_client(telling(answers), &environment);
    let yes = Yes {
        stage: None,
        release: None,
        deletions: false,
    };
    let said = approve(&web(&api), yes).await.expect("it was made");
    assert_eq!(said.out, "web-3-rest-x\n");
    assert_eq!(
        said.err,
        "ada approved release 3 of web for stage rest\n\
         note: it is not known whether that counts: the API did not answer\n\
         hint: deltaplane rollout status policy/web says whether it still waits\n"
    );
    assert!(!said.good);
}
