//! `cargo xtask fuzz`: inputs that nobody thought of, found by coverage.
//!
//! The targets in `fuzz/` are built with libFuzzer and coverage counters by the stable compiler;
//! what was found interesting is kept in the cache, so that the next run goes on from there.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{paths, process};

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Which targets; all if none is named.
    #[arg(value_enum)]
    targets: Vec<Target>,
    /// How long each runs.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Inputs longer than this are not tried.
    #[arg(long, default_value_t = 4096)]
    longest: usize,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Target {
    /// Expressions, templates and rules: parse, print, check, evaluate, judge.
    Expression,
    /// Schemas, and objects of them.
    Object,
    /// Bodies as kubectl sends them.
    Protobuf,
    /// Selectors, quantities, names, patterns, paths.
    Text,
}

/// What makes the compiler count which edges were taken.
const COVERAGE: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    --cfg fuzzing";

/// An input that takes longer is a finding.
const SECONDS_PER_INPUT: u64 = 5;
const MEGABYTES: u64 = 2048;

impl Target {
    const ALL: [Self; 4] = [Self::Expression, Self::Object, Self::Protobuf, Self::Text];

    fn name(self) -> &'static str {
        match self {
            Self::Expression => "expression",
            Self::Object => "object",
            Self::Protobuf => "protobuf",
            Self::Text => "text",
        }
    }

    /// What inputs may begin as.
    fn seeds(self) -> &'static [&'static str] {
        match self {
            Self::Expression => &[
                "x.l.all(e, e.startsWith('a') && size(e) < 10)\0{\"l\":[\"ab\"]}",
                "x.?o.?l[0].n.orValue('none') + string(x.i)\0{\"i\":3}",
                "x.l.map(e, e + \"b\").filter(e, e != 'cb').exists_one(e, e.matches('^a+b$'))\0{\"l\":[\"a\"]}",
                "app-${x.s}-${string(x.i * 2)}\0{\"s\":\"web\",\"i\":1}",
                "has(x.t) && timestamp('2020-01-01T00:00:00Z') - x.t > duration('1h')\0{\"t\":\"2019-01-01T00:00:00Z\"}",
                "{'a': [1, 2.5, 3u], 'b': b'\\x00'}.transformMap(k, v, k in ['a'])\0{}",
                "quantity('1Gi').add(quantity('500m')).isGreaterThan(quantity(x.q))\0{\"q\":\"1\"}",
                "cidr('10.0.0.0/8').containsIP(ip('10.1.2.3')) ? url('http://a/b?c=d').getHost() : semver('1.2.3').major()\0{}",
                "cel.bind(y, x.m, y.merge({'k': 1}).size()) == \"%s-%d\".format(['a', 1]).size()\0{\"m\":{\"a\":1}}",
            ],
            Self::Object => &[
                "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"x-kubernetes-list-type\":\"map\",\"x-kubernetes-list-map-keys\":[\"k\"],\"items\":{\"type\":\"object\",\"properties\":{\"k\":{\"type\":\"string\",\"pattern\":\"^[a-z]$\"}}}}}}\0{\"a\":[{\"k\":\"x\"}]}\0{\"a\":[{\"k\":\"y\"}]}",
                "{\"type\":\"object\",\"x-kubernetes-preserve-unknown-fields\":true}\0{\"b\":1}\0{\"b\":null}",
                "{\"type\":\"object\",\"properties\":{\"n\":{\"x-kubernetes-int-or-string\":true,\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\"}]},\"e\":{\"type\":\"string\",\"enum\":[\"a\"]}},\"required\":[\"n\"]}\0{\"n\":\"1\",\"e\":\"b\"}\0{}",
            ],
            Self::Protobuf => {
                &["\n\r\n\u{2}v1\u{12}\u{7}Service\u{12}\n\n\u{8}\n\u{1}a\u{1a}\u{3}dev"]
            }
            Self::Text => &[
                "a in (b,c),d!=e,!f",
                "metadata.name=a",
                "1.5Gi",
                ".spec['a.b']",
                "^[a-z]+(\\.\\d{2,3})?$",
            ],
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let targets = match args.targets.as_slice() {
        [] => &Target::ALL,
        named => named,
    };
    for target in targets {
        fuzz(*target, args)?;
    }
    Ok(())
}

fn fuzz(target: Target, args: &Args) -> Result<()> {
    let name = target.name();
    let corpus = paths::cache()?.join("fuzz").join(name);
    let found = paths::workspace().join("target").join("fuzz").join("found");
    for dir in [&corpus, &found] {
        fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
    }
    for (index, seed) in target.seeds().iter().enumerate() {
        fs::write(corpus.join(format!("seed-{index}")), seed).context("writing a seed")?;
    }
    eprintln!("fuzz: {name} for {} s", args.seconds);
    let mut command = cargo()?;
    command.args(["--bin", name, "--"]).arg(&corpus);
    let words = paths::workspace().join("fuzz").join(format!("{name}.dict"));
    if words.exists() {
        command.arg(format!("-dict={}", words.display()));
    }
    process::run(
        command
            .arg(format!("-max_total_time={}", args.seconds))
            .arg(format!("-max_len={}", args.longest))
            .arg(format!("-timeout={SECONDS_PER_INPUT}"))
            .arg(format!("-rss_limit_mb={MEGABYTES}"))
            .arg(format!("-artifact_prefix={}/{name}-", found.display()))
            .arg("-print_final_stats=1"),
    )
    .with_context(|| format!("{name}: an input broke it; see {}", found.display()))
}

/// `cargo run` of the targets, with coverage. The target is named so that programs which only run
/// while building are built without.
fn cargo() -> Result<Command> {
    let root = paths::workspace();
    let mut command = Command::new("cargo");
    command
        .args([
            "run",
            "--package",
            "deltaplane-fuzz",
            "--features",
            "linked",
        ])
        .args(["--profile", "fuzz", "--target-dir"])
        .arg(root.join("target").join("fuzz"))
        .args(["--target", &host()?])
        .env("RUSTFLAGS", COVERAGE)
        .current_dir(root);
    Ok(command)
}

/// The machine that the compiler runs on.
fn host() -> Result<String> {
    let version = process::text(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV names no host")?.to_owned())
}
