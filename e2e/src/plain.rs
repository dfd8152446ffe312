//! What kubectl says, without what differs from run to run. Pure.

use std::sync::LazyLock;

use regex::Regex;

/// In this order: a later rule sees what an earlier one left.
const RULES: [(&str, &str); 17] = [
    // kubectl's own log lines.
    (r"(?m)^([WEI])\d{4} [\d:.]+ +\d+ ([\w.]+):\d+\]", "$1 $2]"),
    // Files of `diff`, with their times.
    (r"(LIVE|MERGED)-\d+", "$1"),
    (r"(?m)^((?:---|\+\+\+) \S+)\t.*$", "$1"),
    (r"kubectl-edit-\d+", "kubectl-edit"),
    (
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        "UID",
    ),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", "TIME"),
    (
        r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} [\d:]{8} \+0000",
        "TIME",
    ),
    (r#"(resourceVersion"?: ?)"\d+""#, r#"$1"RV""#),
    (r"(Resource Version: +)\d+", "${1}RV"),
    (r"(current: )\d+", "${1}RV"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
    (r"eyJ[\w-]+\.[\w-]+\.[\w-]+", "TOKEN"),
    // What was known when something was decided, with the times of it.
    (r"\(digest [0-9a-f]{16}\)", "(digest HASH)"),
    // Names of approvals.
    (r"(?m)^([a-z]+-\d+-[a-z]+)-[a-z0-9]{5}$", "$1-ID"),
    (r"X509SHA256=[0-9a-f]{64}", "X509SHA256=HASH"),
    (r"\b\d+(?:y\d+d|d\d+h|h\d+m|m\d+s|[smhdy])\b", "AGE"),
    // Columns are as wide as their widest cell, which may have been an age. What comes after a
    // colon is aligned by other means, and what comes after a sign is a difference.
    (r"([^\s:+-]) {2,}", "$1   "),
];

/// The text with placeholders for ages, times, UIDs, versions, ports, tokens.
pub fn text(said: &str) -> String {
    static COMPILED: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        let compile = |(pattern, with)| (Regex::new(pattern).expect("a valid pattern"), with);
        RULES.map(compile).to_vec()
    });
    COMPILED
        .iter()
        .fold(said.to_owned(), |text, (pattern, with)| {
            pattern.replace_all(&text, *with).into_owned()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_replaced() {
        let check = |said, expected| assert_eq!(text(said), expected);
        check(
            "NAME  DATA   AGE\na     1      2m15s\n",
            "NAME   DATA   AGE\na   1   AGE\n",
        );
        check("  a: 1\n    b: \"30\"\n", "  a: 1\n    b: \"30\"\n");
        check(
            "resourceVersion: \"12\"\nuid: 76d74d57-c40f-4d5f-baa9-df45bef2d142",
            "resourceVersion: \"RV\"\nuid: UID",
        );
        check("at 2026-11-15T23:47:11Z", "at TIME");
        check("Sun, 15 Nov 2026 23:47:11 +0000", "TIME");
        check(
            "W1115 23:48:41.791824    5912 prune.go:71] Deprecated",
            "W prune.go] Deprecated",
        );
        check("--- /x/LIVE-123/a\t2026-11-15 23:47:26", "--- /x/LIVE/a");
        check("at https://127.0.0.1:44273", "at https://127.0.0.1:PORT");
    }
}
