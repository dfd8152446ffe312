//! Cells of Tables: ours against a real server's, for the same objects.
//!
//! The samples are created, their statuses written, and every listable kind is asked for as a
//! Table with whole objects; our cells of each row's object must be the row's cells. What the
//! server itself creates (bootstrap roles, priority levels, the `kubernetes` Service) is compared
//! as well.

use std::time::SystemTime;

use anyhow::Result;
use deltaplane_api::time::Time;
use deltaplane_apiserver::typepack::{self, Kind, cells::cells};
use serde_json::Value;

use super::{Report, samples};
use crate::proxy::TABLE;

const KNOWN: [(&str, &str); 1] = [(
    "autoscaling/v1 HorizontalPodAutoscaler/behaved",
    "made as v2, with metrics that v1 can only show inside an annotation, which is not read for a cell",
)];

pub(crate) fn run() -> Result<Report> {
    let mut report = Report::new("tables", &KNOWN);
    let cluster = samples::server()?;
    for sample in samples::all()? {
        let created = sample.create(&cluster)?.ok();
        if let Err(error) = created.and_then(|created| sample.write_status(&cluster, &created)) {
            report.case(
                &sample.name,
                Err(format!("the real server refuses it: {error:#}")),
            );
        }
    }
    // One pod is being deleted; its finalizer keeps it.
    cluster
        .delete("/api/v1/namespaces/samples/pods/terminating")?
        .ok()?;
    for kind in typepack::load()
        .kinds()
        .iter()
        .filter(|kind| !kind.columns.is_empty())
    {
        let root = match kind.group {
            "" => format!("/api/{}", kind.version),
            group => format!("/apis/{group}/{}", kind.version),
        };
        let table = cluster
            .get(
                &format!("{root}/{}?includeObject=Object", kind.plural),
                TABLE,
            )?
            .ok()?;
        let now = Time::from_system(SystemTime::now());
        let rows = table
            .get("rows")
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice);
        if rows.is_empty() {
            report.case(kind.kind, Err("there is no row to compare".to_owned()));
        }
        for row in rows {
            compare(&mut report, kind, row, now);
        }
    }
    Ok(report)
}

fn compare(report: &mut Report, kind: &Kind, row: &Value, now: Time) {
    let object = row.get("object").unwrap_or(&Value::Null);
    let name = object
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let name = format!("{}/{} {}/{name}", kind.group, kind.version, kind.kind);
    let mut expected = row
        .get("cells")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    // Some rows of the real server have a cell more than there are columns, which nobody can show.
    expected.truncate(kind.columns.len());
    // Ages are of the moment in which the server looked, a second or two ago.
    let ours = |ago: i64| cells(kind, object, now.plus(-ago));
    let outcome = match (0..5).any(|ago| ours(ago) == expected) {
        true => Ok(()),
        false => {
            let differing = ours(0).into_iter().zip(&expected).zip(&kind.columns);
            let shown: Vec<String> = differing
                .filter(|((ours, theirs), _)| ours != *theirs)
                .map(|((ours, theirs), column)| {
                    format!("{} is {ours}, expected {theirs}", column.name)
                })
                .collect();
            Err(shown.join("; "))
        }
    };
    report.case(&name, outcome);
}
