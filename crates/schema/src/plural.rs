//! The plural of a kind, which names its resource: `pluralize("Policy")` is `policies`.
//!
//! These are the rules of English as we write them, and the words that kinds are likely to be made
//! of. kro has a dictionary for this; where the two differ is for `cargo xtask conformance
//! simple-schema` to say, and `docs/kro-compatibility.md` tells what to do about it.
//!
//! ```
//! use deltaplane_schema::plural::pluralize;
//!
//! assert_eq!(pluralize("WebApp"), "webapps");
//! assert_eq!(pluralize("Proxy"), "proxies");
//! assert_eq!(pluralize("Ingress"), "ingresses");
//! assert_eq!(pluralize("Endpoints"), "endpoints");
//! ```

/// Words that no rule covers, alone or at the end of a longer one.
const IRREGULAR: [(&str, &str); 15] = [
    ("person", "people"),
    ("child", "children"),
    ("woman", "women"),
    ("mouse", "mice"),
    ("tooth", "teeth"),
    ("foot", "feet"),
    ("leaf", "leaves"),
    ("shelf", "shelves"),
    ("index", "indices"),
    ("vertex", "vertices"),
    ("matrix", "matrices"),
    ("quiz", "quizzes"),
    ("hero", "heroes"),
    ("criterion", "criteria"),
    // Seen of kro: its kinds are called so.
    ("info", "infoes"),
];

/// Words that are the same for one and for many.
const SAME: [&str; 11] = [
    "data",
    "metadata",
    "media",
    "series",
    "species",
    "news",
    "equipment",
    "information",
    "money",
    "chassis",
    "meta",
];

/// The plural of a kind, in lower case. Kinds are one word of ASCII letters and digits.
pub fn pluralize(kind: &str) -> String {
    let word = kind.to_lowercase();
    // As kro does; behind other words it takes it for a plural.
    if word == "alias" {
        return word + "es";
    }
    if word.is_empty() || SAME.iter().any(|same| word.ends_with(same)) {
        return word;
    }
    for (singular, plural) in IRREGULAR {
        if word.ends_with(plural) {
            return word;
        }
        if let Some(stem) = word.strip_suffix(singular) {
            return format!("{stem}{plural}");
        }
    }
    regular(word)
}

fn regular(word: String) -> String {
    let ends = |ending: &str| word.ends_with(ending);
    if let Some(stem) = word.strip_suffix("sis") {
        return format!("{stem}ses");
    }
    if ["ss", "us", "sh", "ch", "x", "z"].into_iter().any(ends) {
        return word + "es";
    }
    // What ends like this otherwise is a plural already.
    if ends("s") {
        return word;
    }
    match word.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) && !stem.is_empty() => {
            format!("{stem}ies")
        }
        Some(_) | None => word + "s",
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(kinds: &str, expected: Expect) {
        let plurals: Vec<String> = kinds.split(' ').map(pluralize).collect();
        expected.assert_eq(&plurals.join(" "));
    }

    #[test]
    fn kinds_have_plurals() {
        check(
            "Deployment Ingress NetworkPolicy Gateway Database Cache Index Status Analysis Key Box",
            expect![
                "deployments ingresses networkpolicies gateways databases caches indices statuses analyses keys boxes"
            ],
        );
    }

    #[test]
    fn plurals_stay() {
        check(
            "Endpoints Policies People Metadata Settings",
            expect!["endpoints policies people metadata settings"],
        );
        assert_eq!(pluralize(""), "");
    }
}
