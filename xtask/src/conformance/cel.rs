//! The expression language's public conformance data, run through our parser, checker and
//! evaluator.
//!
//! Cases that build or read protocol-buffer messages cannot apply: our data is JSON. They are
//! counted by reason, and listed with `--list`.

mod cases;
pub(crate) mod kro;
pub(crate) mod kubernetes;
mod shown;
mod textproto;
mod values;

use std::fs;

use anyhow::{Context, Result};

use super::Report;
use crate::golang;

use cases::{Case, Verdict};

/// The published module with the data.
const MODULE: &str = "cel.dev/expr@v0.25.3";
const KNOWN: [(&str, &str); 0] = [];

/// Options of `conformance cel`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name every case that is skipped.
    #[arg(long)]
    list: bool,
    /// Run only cases whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
}

pub(crate) fn run(args: &Args) -> Result<Report> {
    let mut report = Report::new("cel", &KNOWN);
    let dir = golang::download(MODULE)?.join("tests/simple/testdata");
    let mut files: Vec<_> = fs::read_dir(&dir)
        .with_context(|| format!("reading {}", dir.display()))?
        .collect::<Result<_, _>>()?;
    files.sort_by_key(fs::DirEntry::file_name);
    for file in files {
        let path = file.path();
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path
            .extension()
            .is_none_or(|extension| extension != "textproto")
        {
            continue;
        }
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let message =
            textproto::parse(&text).with_context(|| format!("reading {}", path.display()))?;
        for case in cases::of_file(&name, &message) {
            if case.name.contains(&args.only) {
                one(&mut report, &case, args.list);
            }
        }
    }
    Ok(report)
}

fn one(report: &mut Report, case: &Case<'_>, list: bool) {
    match case.run() {
        Verdict::Passed => report.case(&case.name, Ok(())),
        Verdict::Refused => {
            report.note("want an error of evaluation in the words of the checker, and get it");
            report.case(&case.name, Ok(()));
        }
        Verdict::Failed(why) => {
            report.case(&case.name, Err(format!("{}: {why}", case.expression())))
        }
        Verdict::Inapplicable(reason) => {
            if list {
                println!("SKIPPED   {}: {reason}", case.name);
            }
            report.skip(reason);
        }
    }
}
