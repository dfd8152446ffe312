//! Which crate may depend on which, and which crates are PURE.

use super::metadata::Metadata;
use super::{Finding, Source};

/// The house style's table: a crate and what it may depend on, dev-dependencies aside.
const EDGES: [(&str, &[&str]); 19] = [
    ("api", &[]),
    ("runtime", &[]),
    ("dashboard", &[]),
    ("schema", &["api"]),
    ("sync", &["api"]),
    ("store", &["api"]),
    ("policy", &["api"]),
    ("expr", &["api", "schema"]),
    ("propagation", &["api", "expr"]),
    ("graph", &["api", "schema", "expr", "propagation"]),
    ("sync-grpc", &["api", "sync", "runtime"]),
    ("client", &["api", "runtime"]),
    ("border", &["api", "sync", "client", "runtime"]),
    ("apiserver", &["api", "schema", "expr", "store", "runtime"]),
    (
        "controllers",
        &[
            "api",
            "schema",
            "expr",
            "graph",
            "propagation",
            "policy",
            "sync",
            "client",
            "runtime",
        ],
    ),
    (
        "fleet",
        &[
            "api",
            "propagation",
            "policy",
            "sync",
            "border",
            "store",
            "client",
            "apiserver",
            "runtime",
        ],
    ),
    (
        "plane",
        &[
            "api",
            "runtime",
            "store",
            "client",
            "apiserver",
            "controllers",
        ],
    ),
    ("hub", ABOVE),
    ("zone", ABOVE),
];

/// Everything that the wiring crates may use.
const ABOVE: &[&str] = &[
    "api",
    "runtime",
    "dashboard",
    "schema",
    "sync",
    "store",
    "policy",
    "expr",
    "propagation",
    "graph",
    "sync-grpc",
    "client",
    "apiserver",
    "controllers",
    "border",
    "plane",
    "fleet",
];

/// Crates that may use anything and that nothing depends on.
const OUTSIDE: [&str; 4] = ["testkit", "e2e", "fuzz", "xtask"];

/// Crates without a clock, an environment, files, a network or tasks.
const PURE: [&str; 7] = [
    "api",
    "schema",
    "expr",
    "graph",
    "propagation",
    "sync",
    "policy",
];

/// What a PURE crate's `clippy.toml` must ban.
const BANNED: [&str; 8] = [
    "std::time::SystemTime::now",
    "std::time::Instant::now",
    "std::env::var",
    "std::fs::read",
    "std::fs::read_to_string",
    "std::fs::write",
    "std::fs::File::open",
    "std::fs::File::create",
];

/// Edges that are not in the table.
pub(super) fn check(metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let name = package.name.as_str();
        for target in &package.edges {
            let allowed = match name {
                outside if OUTSIDE.contains(&outside) => true,
                "deltaplane" => !OUTSIDE.contains(&target.as_str()),
                name => EDGES
                    .iter()
                    .any(|(from, to)| *from == name && to.contains(&target.as_str())),
            };
            if !allowed {
                findings.push(Finding::new(
                    &package.dir,
                    format!("may not depend on {target}"),
                ));
            }
        }
        let known = EDGES.iter().any(|(from, _)| *from == name)
            || OUTSIDE.contains(&name)
            || name == "deltaplane";
        if !known {
            findings.push(Finding::new(&package.dir, "is not in the table of crates"));
        }
    }
    findings
}

/// PURE crates ban what is impure, and no runtime is compiled into them.
pub(super) fn purity(metadata: &Metadata, sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in metadata
        .packages
        .iter()
        .filter(|package| PURE.contains(&package.name.as_str()))
    {
        let path = format!("{}/clippy.toml", package.dir);
        let text = sources
            .iter()
            .find(|source| source.path == path)
            .and_then(Source::text)
            .unwrap_or_default();
        for banned in BANNED
            .iter()
            .filter(|banned| !text.contains(&format!("\"{banned}\"")))
        {
            findings.push(Finding::new(&path, format!("a PURE crate bans {banned}")));
        }
        for threshold in [
            "too-many-lines-threshold = 80",
            "too-many-arguments-threshold = 6",
        ] {
            if !text.contains(threshold) {
                findings.push(Finding::new(
                    &path,
                    format!("repeat the workspace's {threshold}"),
                ));
            }
        }
        for runtime in ["tokio", "hyper", "redb"]
            .iter()
            .filter(|name| package.closure.contains(**name))
        {
            findings.push(Finding::new(
                &package.dir,
                format!("is PURE but {runtime} is compiled into it"),
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::metadata::Package;
    use super::*;

    fn package(name: &str, edges: &[&str], closure: &[&str]) -> Package {
        Package {
            name: name.to_owned(),
            dir: format!("crates/{name}"),
            roots: Vec::new(),
            edges: edges.iter().map(|&edge| edge.to_owned()).collect(),
            closure: closure.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    #[test]
    fn only_edges_of_the_table_pass() {
        let packages = vec![
            package("schema", &["api"], &[]),
            package("store", &["api", "schema"], &[]),
            package("deltaplane", &["hub", "testkit"], &[]),
            package("xtask", &["apiserver", "testkit"], &[]),
            package("extra", &[], &[]),
        ];
        let found: Vec<String> = check(&Metadata { packages })
            .iter()
            .map(ToString::to_string)
            .collect();
        let expected = [
            "crates/store: may not depend on schema",
            "crates/deltaplane: may not depend on testkit",
            "crates/extra: is not in the table of crates",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn pure_crates_have_their_bans_and_no_runtime() {
        let metadata = Metadata {
            packages: vec![package("policy", &[], &["tokio", "serde"])],
        };
        let thresholds = "too-many-lines-threshold = 80\ntoo-many-arguments-threshold = 6\n";
        let bans: String = BANNED
            .iter()
            .skip(1)
            .map(|name| format!("{{ path = \"{name}\" }}\n"))
            .collect();
        let bytes = format!("{thresholds}{bans}").into_bytes();
        let sources = [Source {
            path: "crates/policy/clippy.toml".to_owned(),
            bytes,
        }];
        let found: Vec<String> = purity(&metadata, &sources)
            .iter()
            .map(ToString::to_string)
            .collect();
        let expected = [
            "crates/policy/clippy.toml: a PURE crate bans std::time::SystemTime::now",
            "crates/policy: is PURE but tokio is compiled into it",
        ];
        assert_eq!(found, expected);
    }
}
