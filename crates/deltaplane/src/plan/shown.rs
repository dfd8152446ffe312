//! A plan as people read it. Pure.

use deltaplane_api::time::human_duration;
use deltaplane_propagation::Timestamp;
use serde_json::Value;

use crate::hunks;
use crate::table::Table;

/// Of each stage so many waves are shown at its beginning.
const WAVES: usize = 8;

fn said(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Whether nothing would keep it from being done.
pub(super) fn is_good(planned: &Value) -> bool {
    let fine = |policy: &Value| {
        let impossible = list(&policy["hunks"])
            .iter()
            .any(|one| one["change"] == "Impossible");
        policy["stuck"].is_null()
            && policy["partial"].is_null()
            && list(&policy["problems"]).is_empty()
            && !impossible
            && !is_open(policy)
    };
    let stays = |warning: &Value| warning["stays"] == true;
    list(&planned["policies"]).iter().all(fine) && !list(&planned["warnings"]).iter().any(stays)
}

/// Whether it is not known what becomes of a release: neither its end nor what stops it is foreseen.
fn is_open(policy: &Value) -> bool {
    !policy["release"].is_null() && policy["done"].is_null() && policy["stuck"].is_null()
}

pub(super) fn text(planned: &Value) -> String {
    let policies = list(&planned["policies"]).iter().map(policy);
    let mut parts: Vec<String> = policies.collect();
    let others = list(&planned["others"]);
    if !others.is_empty() {
        let lines: String = others.iter().map(other).collect();
        parts.push(format!("no policy governs:\n{lines}"));
    }
    let warnings = list(&planned["warnings"]);
    if !warnings.is_empty() {
        parts.push(warnings.iter().map(warning).collect());
    }
    match parts.is_empty() {
        true => "nothing would change\n".to_owned(),
        false => parts.join("\n"),
    }
}

/// What the hub warns of.
fn warning(warning: &Value) -> String {
    let what = format!("{} {}", hunks::kind(warning), hunks::name(warning));
    format!("warning: {what}: {}\n", said(&warning["message"]))
}

/// What no policy has to do with.
fn other(other: &Value) -> String {
    let mut hunk = hunks::text(other);
    let note = match said(&other["note"]) {
        "" => String::new(),
        note => format!(" ({note})"),
    };
    let what = match said(&other["change"]) {
        "Unchanged" => "; it changes nothing",
        _ => "",
    };
    let end = hunk.find('\n').unwrap_or(hunk.len());
    hunk.insert_str(end, &format!(": {}{what}{note}", said(&other["goes"])));
    hunk.push_str(&cascade(other));
    hunk
}

/// Tells which objects go along with a namespace or a kind that would be deleted.
fn cascade(deleted: &Value) -> String {
    let cascade = &deleted["cascade"];
    if cascade.is_null() {
        return String::new();
    }
    let number = |field: &str| cascade[field].as_u64().unwrap_or(0);
    let objects = usize::try_from(number("objects")).unwrap_or(usize::MAX);
    let has_more = cascade["more"] == true;
    let mut text = match objects {
        0 => "    nothing goes with it\n".to_owned(),
        many if has_more => format!("    more than {many} objects go with it; of the first {many}"),
        1 => "    1 object goes with it".to_owned(),
        many => format!("    {many} objects go with it"),
    };
    if objects > 0 {
        let (crossing, governed) = (number("crossing"), number("governed"));
        let verb = if crossing == 1 { "crosses" } else { "cross" };
        text.push_str(&match crossing {
            0 => "; none of the hub's own crosses to zones".to_owned(),
            crossing => format!("; {crossing} of the hub's own {verb} to zones"),
        });
        if governed > 0 {
            text.push_str(&format!(", {governed} of them by policies"));
        }
        text.push('\n');
    }
    let come_back = match number("fromZones") {
        0 => None,
        1 => Some("1 of them is from a zone and comes back".to_owned()),
        many => Some(format!("{many} of them are from zones and come back")),
    };
    if let Some(come_back) = come_back {
        let when = match said(&deleted["kind"]) {
            "CustomResourceDefinition" => " when the kind is served again",
            _ => "",
        };
        text.push_str(&format!(
            "    {come_back}{when}: the hub asks for what zones authored\n"
        ));
    }
    let unlisted: Vec<&str> = list(&cascade["unlisted"]).iter().map(said).collect();
    if !unlisted.is_empty() {
        text.push_str(&format!(
            "    there may be more of kinds that could not be listed: {}\n",
            hunks::shortened(&unlisted.join(", "))
        ));
    }
    text
}

fn policy(planned: &Value) -> String {
    let name = said(&planned["policy"]);
    let mut text = match (planned["release"].as_u64(), planned["new"] == true) {
        (Some(release), _) if planned["released"] == true => {
            format!("policy {name} would go on with release {release}\n")
        }
        (Some(release), true) => format!("policy {name} would be new, with release {release}\n"),
        (Some(release), false) => format!("policy {name} would make release {release}\n"),
        (None, _) if !list(&planned["problems"]).is_empty() => {
            format!("policy {name} would release nothing until its problems are solved\n")
        }
        (None, _) => {
            format!("policy {name} would release nothing: nothing that it governs changes\n")
        }
    };
    if let Some(why) = planned["rolledBack"].as_str() {
        text.push_str(&format!(
            "note: {why}; this release keeps what zones have of it\n"
        ));
    }
    if let Some(deletions) = planned["partial"]["deletions"].as_u64() {
        text.push_str(&format!(
            "note: more than {deletions} of its objects may be deleted, and this plan is of {deletions}\n"
        ));
    }
    for problem in list(&planned["problems"]) {
        text.push_str(&format!("problem: {}\n", said(problem)));
    }
    let is_new = planned["new"] == true;
    for object in list(&planned["objects"]) {
        text.push_str(&moved(object, name, is_new));
    }
    text.push_str(&hidden(&planned["hidden"]));
    let leaving = &planned["leaving"];
    if leaving["count"].as_u64().is_some_and(|count| count > 0) {
        let names = hunks::shortened(said(&leaving["names"]));
        text.push_str(&format!(
            "{} zones would not be among its zones any more ({names}): what they have of it is withdrawn\n",
            leaving["count"]
        ));
    }
    if planned["release"].is_null() {
        return text;
    }
    let changed = list(&planned["hunks"]);
    if !changed.is_empty() {
        text.push_str("\nzones get:\n");
        changed
            .iter()
            .for_each(|hunk| text.push_str(&hunks::text(hunk)));
    }
    let unchanged = &planned["unchanged"];
    if unchanged["count"].as_u64().is_some_and(|count| count > 0) {
        let names = hunks::shortened(said(&unchanged["names"]));
        text.push_str(&format!(
            "nothing changes in {} zones ({names})\n",
            unchanged["count"]
        ));
    }
    text.push_str(&format!("\nif all goes well:\n{}", waves(planned)));
    text.push_str(&notes(planned));
    text
}

/// Objects that the plan is about and does not name.
fn hidden(count: &Value) -> String {
    match count.as_u64().unwrap_or(0) {
        0 => String::new(),
        1 => "and 1 object that you may not read\n".to_owned(),
        many => format!("and {many} objects that you may not read\n"),
    }
}

/// An object that is not this policy's business, or was not.
fn moved(object: &Value, policy: &str, is_new: bool) -> String {
    let what = format!("{} {}", hunks::kind(object), hunks::name(object));
    match (said(&object["change"]), object["governedBy"].as_str()) {
        ("Taken", _) => format!("  {what}: it would govern what is there\n"),
        ("Departing", _) => {
            format!(
                "  {what}: it would leave the policy when every stage has completed the release\n"
            )
        }
        ("LetGo", _) => {
            format!("  {what}: it would govern it no more: it goes to all zones at once\n")
        }
        (_, Some(by)) if by == policy && is_new => format!("  {what}: it would govern it\n"),
        (_, Some(_) | None) => String::new(),
    }
}

fn waves(planned: &Value) -> String {
    let start = Timestamp::parse(said(&planned["asOf"]));
    let after = |at: &Value| {
        let at = Timestamp::parse(said(at));
        let passed = at
            .zip(start)
            .map(|(at, start)| at.seconds() - start.seconds());
        match passed {
            None => "-".to_owned(),
            Some(0) => "at once".to_owned(),
            Some(seconds) => format!("after {}", human_duration(seconds)),
        }
    };
    let mut table = Table::new(&["STAGE", "WHEN", "ZONES"]);
    for stage in list(&planned["stages"]) {
        let name = said(&stage["name"]);
        let of_stage = list(&planned["waves"]).iter();
        let of_stage: Vec<&Value> = of_stage.filter(|wave| wave["stage"] == name).collect();
        for (place, wave) in of_stage.iter().enumerate() {
            let last = place + 1 == of_stage.len();
            if place >= WAVES && !last {
                continue;
            }
            if last && place > WAVES {
                let more = place - WAVES;
                table.add(vec![
                    String::new(),
                    "…".to_owned(),
                    format!("{more} more waves"),
                ]);
            }
            let zones = &wave["zones"];
            let approved = if wave["afterApproval"] == true {
                ", once approved"
            } else {
                ""
            };
            table.add(vec![
                name.to_owned(),
                format!("{}{approved}", after(&wave["at"])),
                format!(
                    "{}: {}",
                    zones["count"],
                    hunks::shortened(said(&zones["names"]))
                ),
            ]);
        }
        let soak = said(&stage["soak"]).strip_suffix('s');
        let soak = match soak.and_then(|seconds| seconds.parse().ok()) {
            Some(0) | None => String::new(),
            Some(seconds) => format!(", having soaked for {}", human_duration(seconds)),
        };
        if !stage["completed"].is_null() {
            let when = format!("{}{soak}", after(&stage["completed"]));
            table.add(vec![name.to_owned(), when, "complete".to_owned()]);
        }
    }
    table.text()
}

/// What would stop it, or needs somebody.
fn notes(planned: &Value) -> String {
    let mut text = String::new();
    if let Some(stuck) = planned.get("stuck").filter(|stuck| !stuck.is_null()) {
        let (stage, why) = (said(&stuck["stage"]), said(&stuck["why"]));
        text.push_str(&format!("then it stops: stage {stage}: {why}\n"));
    }
    if is_open(planned) {
        text.push_str("further is not foreseen\n");
    }
    for evidence in list(&planned["evidence"]) {
        let zones = &evidence["zones"];
        let holds = match evidence["holds"] == true {
            true => "which holds the stage",
            false => "and the stage proceeds without",
        };
        text.push_str(&format!(
            "no evidence in {} zones of stage {} ({}): {}; {holds}\n",
            zones["count"],
            said(&evidence["stage"]),
            hunks::shortened(said(&zones["names"])),
            said(&evidence["reason"])
        ));
    }
    for (field, word) in [("offline", "offline"), ("held", "held")] {
        let zones = &planned[field];
        if zones["count"].as_u64().is_some_and(|count| count > 0) {
            let names = hunks::shortened(said(&zones["names"]));
            text.push_str(&format!("{} zones are {word} ({names})\n", zones["count"]));
        }
    }
    let deletions = &planned["deletions"];
    if deletions["removes"]
        .as_u64()
        .is_some_and(|removes| removes > 0)
    {
        let needs = match deletions["needsApproval"] == true {
            true => ": needs approval of the deletions",
            false => "",
        };
        text.push_str(&format!(
            "deletions: {} of {} objects go, and {} may without approval{needs}\n",
            deletions["removes"], deletions["of"], deletions["may"]
        ));
        if let Some(behind @ 1..) = deletions["behind"].as_u64() {
            text.push_str(&format!(
                "warning: a graph goes that is in use: {behind} instances stay with all that was made for them, and nobody sees to them any more\n"
            ));
        }
    }
    text
}
