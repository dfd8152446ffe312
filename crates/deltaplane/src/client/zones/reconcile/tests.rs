use std::sync::{Arc, Mutex};

use deltaplane_sync::{Arrival, Crossing, Origin, Position};

use super::*;
use crate::fake;

/// Steps and writes that the hub was asked for, in their order.
type Asked = Arc<Mutex<Vec<String>>>;

const ZONES: &str = "/apis/fleet.deltaplane.io/v1alpha1/zones";
const MAPS: &str = "/api/v1/namespaces/team/configmaps";

/// The kinds of the core group, as an API says them.
fn served() -> Value {
    json!({"resources": [{"name": "configmaps", "kind": "ConfigMap"}]})
}

fn map(name: &str, content: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"content": content},
        "metadata": {"name": name, "namespace": "team"},
    })
}

/// A config map as it is in a zone.
fn mirrored(name: &str, content: &str) -> Value {
    let source: Position = "s.o@7".parse().expect("legal");
    let crossing = Crossing::of(&map(name, content)).expect("an object");
    crossing.arriving(Arrival {
        name,
        origin: &Origin::Hub,
        authored_as: name,
        source: &source,
    })
}

/// What the hub says of a zone that followed a revision, in which these config maps differ.
fn diverged(followed: u64, objects: &[(&str, &str)]) -> Value {
    let objects = objects.iter().map(
        |(name, difference)| json!({"namespace": "team", "name": name, "difference": difference}),
    );
    json!({
        "diverged": true, "followed": followed, "revision": 43, "untold": [],
        "deletionBudget": {"max": 9, "percent": 0},
        "kinds": [{
            "group": "", "kind": "ConfigMap", "plural": "configmaps", "more": 0, "wanted": 10,
            "objects": objects.collect::<Vec<_>>(),
        }],
    })
}

/// An object of this name does not differ any more.
fn forget(answer: &mut Value, name: &str) {
    for kind in answer["kinds"].as_array_mut().into_iter().flatten() {
        let objects = kind["objects"].as_array_mut().expect("a list");
        objects.retain(|object| object["name"] != name);
    }
}

/// A hub that says this of its zones, and refuses what `refuses` says.
fn hub(zones: Vec<(&'static str, Value)>, refuses: fn(&str) -> bool) -> (Client, Asked) {
    hub_that_settles(zones, refuses, |_| true)
}

/// Of what is written there, nothing differs afterwards but what does not count as settled.
fn hub_that_settles(
    mut zones: Vec<(&'static str, Value)>,
    refuses: fn(&str) -> bool,
    settles: fn(&str) -> bool,
) -> (Client, Asked) {
    let asked = Asked::default();
    let noted = Arc::clone(&asked);
    let client = fake::api(move |what, body| {
        let (method, path) = what.split_once(' ').expect("a method");
        if method != "GET" {
            let about = body["step"].as_str().or(body["metadata"]["name"].as_str());
            let line = format!("{what} {}", about.unwrap_or_default());
            let line = line.trim().to_owned();
            let refused = refuses(&line);
            let name = line
                .rsplit(['/', ' '])
                .next()
                .unwrap_or_default()
                .to_owned();
            if !refused && settles(&name) {
                zones
                    .iter_mut()
                    .for_each(|(_, answer)| forget(answer, &name));
            }
            noted.lock().expect("nobody panicked").push(line);
            return match refused {
                true => fake::refusal(403),
                false => (200, json!({"revision": 75})),
            };
        }
        if path == ZONES {
            let names = zones
                .iter()
                .map(|(name, _)| json!({"metadata": {"name": name}}));
            return (200, json!({"items": names.collect::<Vec<_>>()}));
        }
        let zone = path.strip_prefix(ZONES).and_then(|rest| {
            let name = rest.strip_prefix('/')?.strip_suffix("/_reconcile")?;
            zones.iter().find(|(zone, _)| *zone == name)
        });
        match zone {
            Some((_, answer)) => (200, answer.clone()),
            None if path == "/api/v1" => (200, served()),
            None => fake::refusal(404),
        }
    });
    (client, asked)
}

/// Reconciles all zones. Their APIs are what `zone` makes of their names.
async fn reconcile(
    client: &Client,
    (keep, dry_run): (Side, bool),
    zone: fn(&str) -> Client,
) -> Said {
    let asked = Reconcile {
        zone: None,
        all: true,
        keep,
        dry_run,
        take_over: false,
    };
    let zone_client = async |name: &ZoneName| Ok(zone(name.as_str()));
    let interrupted = std::future::pending();
    let said = asked.reconcile(client, &zone_client, interrupted).await;
    said.expect("the hub answers")
}

fn asked(asked: &Asked) -> Vec<String> {
    let asked = std::mem::take(&mut *asked.lock().expect("nobody panicked"));
    let zones = format!("{ZONES}/");
    asked.iter().map(|line| line.replace(&zones, "")).collect()
}

fn no_zone(_: &str) -> Client {
    fake::api(|_, _| fake::refusal(503))
}

/// Of a zone that claims too much, one that does not say what it has, and one as it should be.
fn three_zones() -> Vec<(&'static str, Value)> {
    let changed = [("plain", "Changed")];
    let mut far = diverged(u64::MAX, &changed);
    far["refused"] = "zone far says that it followed too much".into();
    let mut mute = diverged(61, &changed);
    mute["untold"] = json!(["deltaplane.io//Secret"]);
    vec![
        ("far", far),
        ("good", diverged(60, &changed)),
        ("mute", mute),
    ]
}

#[tokio::test(start_paused = true)]
async fn zones_that_cannot_be_settled_keep_no_other_from_it() {
    let (client, noted) = hub(three_zones(), |_| false);
    let said = reconcile(&client, (Side::Hub, true), no_zone).await;
    assert_eq!(asked(&noted), <[&str; 0]>::default());
    assert!(!said.good);
    let not_settled = "zone far would not be settled: zone far says that it followed too much
zone mute would not be settled: it has not said yet what it has of deltaplane.io//Secret; deltaplane zones show mute says how it stands with it
nothing was done: --dry-run
";
    assert_eq!(said.err, not_settled);
    let becomes = ["far", "good", "mute"].map(|zone| {
        let line = said.out.lines().find(|line| line.starts_with(zone));
        let line = line.unwrap_or_else(|| panic!("{}", said.out));
        line.rsplit("  ")
            .next()
            .expect("a column")
            .trim()
            .to_owned()
    });
    assert_eq!(
        becomes,
        ["left as it is", "the hub's in the zone", "left as it is"]
    );

    let said = reconcile(&client, (Side::Hub, false), no_zone).await;
    assert_eq!(asked(&noted), ["POST good/_reconcile Settle"]);
    assert!(!said.good);
    assert!(
        said.err
            .contains("zone good follows the hub again, from revision 75\n")
    );
    assert!(
        said.err.contains("zone far was not settled: zone far says"),
        "{}",
        said.err
    );
}

#[tokio::test(start_paused = true)]
async fn a_failure_midway_tells_what_was_settled_before_and_goes_on() {
    let changed = [("plain", "Changed")];
    let zones = ["a", "b", "c"].map(|zone| (zone, diverged(60, &changed)));
    let (client, noted) = hub(zones.to_vec(), |line| line.contains("b/_reconcile"));
    let said = reconcile(&client, (Side::Hub, false), no_zone).await;
    let settles = ["a", "b", "c"].map(|zone| format!("POST {zone}/_reconcile Settle"));
    assert_eq!(asked(&noted), settles);
    assert!(!said.good);
    assert_eq!(
        said.err,
        "zone b was not settled: no (403 )
zone a follows the hub again, from revision 75
zone c follows the hub again, from revision 75
hint: put it right, and reconcile again: what differs is still listed
"
    );
}

/// Zone `away` cannot be read, and the numbers cannot be raised above what `odd` followed.
#[tokio::test(start_paused = true)]
async fn the_hub_takes_over_what_the_zones_have_that_can_be_asked() {
    let changed = [("plain", "Changed")];
    let zones = ["away", "good", "odd"].map(|zone| (zone, diverged(60, &changed)));
    let (client, noted) = hub(zones.to_vec(), |line| line.contains("odd/_reconcile"));
    let zone = |name: &str| {
        let content = match name {
            "away" => return no_zone(name),
            "odd" => "other",
            _ => "2",
        };
        let plain = mirrored("plain", content);
        fake::api(move |what, _| match what {
            "GET /api/v1" => (200, served()),
            what if what == format!("GET {MAPS}/plain") => (200, plain.clone()),
            _ => fake::refusal(404),
        })
    };
    let said = reconcile(&client, (Side::Zone, false), zone).await;
    let expected = [
        "POST good/_reconcile Raise",
        "POST odd/_reconcile Raise",
        &format!("POST {MAPS} plain"),
        "POST good/_reconcile Settle",
    ];
    assert_eq!(asked(&noted), expected);
    assert!(!said.good);
    for line in [
        "zone away was not settled: no\n",
        "zone odd was not settled: no (403 )\n",
        "zone good follows the hub again, from revision 75\n",
    ] {
        assert!(said.err.contains(line), "{}", said.err);
    }
}

/// The zone connects again when somebody else settles it, and cannot be asked meanwhile.
#[tokio::test(start_paused = true)]
async fn a_zone_that_somebody_else_settles_meanwhile_is_said_to_be_settled() {
    let times = Arc::new(Mutex::new(0));
    let client = fake::api(move |what, _| {
        let (method, path) = what.split_once(' ').expect("a method");
        if path == ZONES {
            return (200, json!({"items": [{"metadata": {"name": "a"}}]}));
        }
        if method != "GET" {
            return fake::refusal(500);
        }
        let mut times = times.lock().expect("nobody panicked");
        *times += 1;
        let settled = json!({
            "diverged": false, "reconciled": {"by": "ann", "at": "2026-03-01T12:00:00Z"},
        });
        (
            200,
            if *times == 1 {
                diverged(60, &[("plain", "Changed")])
            } else {
                settled
            },
        )
    });
    let said = reconcile(&client, (Side::Zone, false), no_zone).await;
    assert!(!said.good);
    let line = "zone a was settled meanwhile, by ann at 2026-03-01T12:00:00Z\n";
    assert!(said.err.contains(line), "{}", said.err);
}

#[tokio::test(start_paused = true)]
async fn a_zone_whose_object_could_not_be_written_is_not_settled() {
    let differing = [("locked", "OnlyInZone"), ("new", "OnlyInZone")];
    let zones = vec![("a", diverged(60, &differing))];
    let (client, noted) = hub(zones, |line| line.ends_with(" locked"));
    let zone = |_: &str| {
        fake::api(|what, _| match what.rsplit('/').next() {
            Some("v1") => (200, served()),
            Some(name @ ("locked" | "new")) => (200, mirrored(name, "2")),
            Some(_) | None => fake::refusal(404),
        })
    };
    let said = reconcile(&client, (Side::Zone, false), zone).await;
    let expected = [
        "POST a/_reconcile Raise".to_owned(),
        format!("POST {MAPS} locked"),
        format!("POST {MAPS} new"),
        "POST a/_reconcile End".to_owned(),
    ];
    assert_eq!(asked(&noted), expected);
    assert!(!said.good);
    assert_eq!(
        said.err,
        "ConfigMap team/locked was not written at the hub: no (403 )
zone a was not settled: the hub does not have all of it
hint: put it right, and reconcile again: what differs is still listed
"
    );
}

/// The zone has a namespace, a config map of a release, and one that no policy of the hub knows.
fn only_in_zone() -> Value {
    let mut answer = diverged(60, &[("governed", "OnlyInZone"), ("new", "OnlyInZone")]);
    answer["kinds"][0]["objects"][0]["policy"] = "web".into();
    for place in [0, 1] {
        answer["kinds"][0]["objects"][place]["leaves"] = "Delete".into();
    }
    let namespace = json!({
        "namespace": "", "name": "later", "difference": "OnlyInZone", "leaves": "Orphan",
    });
    let kinds = answer["kinds"].as_array_mut().expect("kinds");
    kinds.push(json!({
        "group": "", "kind": "Namespace", "plural": "namespaces", "more": 0, "wanted": 10,
        "objects": [namespace],
    }));
    answer
}

#[tokio::test(start_paused = true)]
async fn what_becomes_of_objects_that_only_a_zone_has_is_announced() {
    for dry_run in [true, false] {
        let (client, _) = hub(vec![("a", only_in_zone())], |_| false);
        let said = reconcile(&client, (Side::Hub, dry_run), no_zone).await;
        let becomes = ["later", "team/governed", "team/new"].map(|name| {
            let line = said.out.lines().find(|line| line.contains(name));
            let line = line.unwrap_or_else(|| panic!("{}", said.out));
            line.rsplit("  ").next().expect("a column").trim()
        });
        assert_eq!(
            becomes,
            [
                "stays, as the zone's own",
                "deleted in the zone, with a new release",
                "deleted in the zone at once, within its budget",
            ]
        );
        let expected = if dry_run {
            "note: 1 object only in zones would be deleted there at once, without gates: no policy of this hub has released them
hint: to pass the gates, take them over with --keep zone, and delete them at the hub then
nothing was done: --dry-run
"
        } else {
            "note: 1 object only in zones is deleted there at once, without gates: no policy of this hub has released them
zone a follows the hub again, from revision 75
"
        };
        assert_eq!(said.err, expected);
    }
}

/// The hub has the object, and keeps it from the zone.
#[tokio::test(start_paused = true)]
async fn a_zone_is_not_settled_while_a_written_object_still_differs() {
    let differing = [("kept", "OnlyInZone"), ("new", "OnlyInZone")];
    let zones = vec![("a", diverged(60, &differing))];
    let (client, noted) = hub_that_settles(zones, |_| false, |name| name != "kept");
    let zone = |_: &str| {
        fake::api(|what, _| match what.rsplit('/').next() {
            Some("v1") => (200, served()),
            Some(name @ ("kept" | "new")) => (200, mirrored(name, "2")),
            Some(_) | None => fake::refusal(404),
        })
    };
    let said = reconcile(&client, (Side::Zone, false), zone).await;
    let asked = asked(&noted);
    assert!(
        !asked.contains(&"POST a/_reconcile Settle".to_owned()),
        "{asked:?}"
    );
    assert!(!said.good);
    assert!(
        said.err.starts_with(
            "ConfigMap team/kept was written at the hub, and zone a would not keep it: the hub changed it, still has it, or does not send it there;"
        ),
        "{}",
        said.err
    );
    let line = "zone a was not settled: the hub does not have all of it\n";
    assert!(said.err.contains(line), "{}", said.err);
}

/// A hub that has `gone` and `plain`, both changed since it listed them, and a zone without the first
/// and with another `plain`.
#[tokio::test(start_paused = true)]
async fn an_object_that_was_changed_since_it_was_listed_is_neither_deleted_nor_replaced() {
    let mut listed = diverged(60, &[("gone", "OnlyAtHub"), ("plain", "Changed")]);
    for place in [0, 1] {
        let at_hub = json!({"uid": "u", "resourceVersion": "40"});
        listed["kinds"][0]["objects"][place]["atHub"] = at_hub;
    }
    let written = Asked::default();
    let noted = Arc::clone(&written);
    let client = fake::api(move |what, body| match what.rsplit('/').next() {
        Some("zones") => (200, json!({"items": [{"metadata": {"name": "a"}}]})),
        Some("v1") => (200, served()),
        Some("_reconcile") => (200, listed.clone()),
        Some("plain") if what.starts_with("GET") => {
            let mut plain = map("plain", "1");
            plain["metadata"]["uid"] = "u".into();
            plain["metadata"]["resourceVersion"] = "41".into();
            (200, plain)
        }
        Some(_) | None => {
            noted
                .lock()
                .expect("nobody panicked")
                .push(format!("{what} {body}"));
            fake::refusal(409)
        }
    });
    let zone = |_: &str| {
        fake::api(|what, _| match what.rsplit('/').next() {
            Some("v1") => (200, served()),
            Some("plain") => (200, mirrored("plain", "2")),
            Some(_) | None => fake::refusal(404),
        })
    };
    let said = reconcile(&client, (Side::Zone, false), zone).await;
    let delete = format!(
        "DELETE {MAPS}/gone {}",
        json!({"preconditions": {"uid": "u", "resourceVersion": "40"}})
    );
    assert_eq!(asked(&written), [delete]);
    assert!(!said.good);
    assert_eq!(
        said.err,
        "ConfigMap team/gone was not written at the hub: it was changed at the hub since it was listed
ConfigMap team/plain was not written at the hub: it was changed at the hub since it was listed
zone a was not settled: the hub does not have all of it
hint: put it right, and reconcile again: what differs is still listed
"
    );
}

#[tokio::test(start_paused = true)]
async fn diverged_zones_that_are_away_are_named_and_not_taken_for_settled() {
    let away =
        json!({"connected": false, "diverged": true, "reason": "HubRestored", "kinds": null});
    let never = json!({"connected": false, "diverged": null});
    let zones = || {
        let good = diverged(60, &[("plain", "Changed")]);
        vec![
            ("away", away.clone()),
            ("good", good),
            ("never", never.clone()),
        ]
    };
    let not_connected =
        "zone away was not settled: it is not connected; start it, and reconcile it then\n";
    let unknown = "note: not connected since the hub was started, so that the hub does not know whether they have diverged: never\n";
    let (client, noted) = hub(zones(), |_| false);
    let said = reconcile(&client, (Side::Hub, false), no_zone).await;
    assert_eq!(asked(&noted), ["POST good/_reconcile Settle"]);
    assert!(!said.good);
    for line in [not_connected, unknown] {
        assert!(said.err.contains(line), "{}", said.err);
    }
    let of_one = async |name: &str| {
        let asked = Reconcile {
            zone: Some(name.parse().expect("legal")),
            all: false,
            keep: Side::Hub,
            dry_run: false,
            take_over: false,
        };
        let (client, _) = hub(zones(), |_| false);
        asked
            .reconcile(
                &client,
                &async |_: &ZoneName| unreachable!("it is away"),
                std::future::pending(),
            )
            .await
    };
    let said = of_one("away").await.expect("told");
    assert!(!said.good && said.out.is_empty(), "{said:?}");
    let hint = "hint: put it right, and reconcile again: what differs is still listed\n";
    assert_eq!(said.err, format!("{not_connected}{hint}"));
    let unknown = of_one("never").await;
    assert!(
        matches!(unknown, Err(ClientError::NotConnected(_))),
        "{unknown:?}"
    );
}

/// The hub would refuse the next run for five minutes otherwise.
#[tokio::test(start_paused = true)]
async fn an_interrupted_run_tells_the_hub_that_it_has_ended() {
    let zones = vec![("a", diverged(60, &[("new", "OnlyInZone")]))];
    let (client, noted) = hub(zones, |_| false);
    let zone_client = async |_: &ZoneName| {
        Ok(fake::api(|what, _| match what.rsplit('/').next() {
            Some("v1") => (200, served()),
            Some("new") => (200, mirrored("new", "2")),
            Some(_) | None => fake::refusal(404),
        }))
    };
    let asked_for = Reconcile {
        zone: None,
        all: true,
        keep: Side::Zone,
        dry_run: false,
        take_over: false,
    };
    // Ctrl-C is pressed when the hub was asked for the first step.
    let pressed =
        std::future::poll_fn(
            |_| match noted.lock().expect("nobody panicked").is_empty() {
                true => std::task::Poll::Pending,
                false => std::task::Poll::Ready(Signal::Interrupt),
            },
        );
    let run = asked_for.reconcile(&client, &zone_client, pressed);
    let error = run.await.expect_err("interrupted");
    assert!(matches!(error, ClientError::Interrupted(_)), "{error}");
    assert_eq!(error.exit_code(), 130);
    let steps = asked(&noted);
    assert_eq!(
        steps.last().map(String::as_str),
        Some("POST a/_reconcile End")
    );
    assert!(
        !steps.contains(&"POST a/_reconcile Settle".to_owned()),
        "{steps:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn only_the_first_step_takes_over() {
    for (keep, expected) in [
        (Side::Hub, vec![("Settle", true)]),
        (Side::Zone, vec![("Raise", true), ("Settle", false)]),
    ] {
        let steps: Arc<Mutex<Vec<(String, bool)>>> = Arc::default();
        let noted = Arc::clone(&steps);
        let client = fake::api(move |what, body| {
            if what.ends_with("/_reconcile") && what.starts_with("POST") {
                let step = body["step"].as_str().unwrap_or_default().to_owned();
                let step = (step, body["takeOver"] == true);
                noted.lock().expect("nobody panicked").push(step);
                return (200, json!({"revision": 75}));
            }
            match what.rsplit('/').next() {
                Some("_reconcile") => (200, diverged(60, &[])),
                Some("v1") => (200, served()),
                Some(_) | None => fake::refusal(404),
            }
        });
        let asked = Reconcile {
            zone: Some("a".parse().expect("legal")),
            all: false,
            keep,
            dry_run: false,
            take_over: true,
        };
        let zone_client = async |_: &ZoneName| Ok(fake::api(|_, _| (200, served())));
        let said = asked.reconcile(&client, &zone_client, std::future::pending());
        said.await.expect("settled");
        let expected: Vec<(String, bool)> = expected
            .into_iter()
            .map(|(step, takes)| (step.to_owned(), takes))
            .collect();
        assert_eq!(*steps.lock().expect("nobody panicked"), expected);
    }
}
