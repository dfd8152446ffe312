//! The plural of a kind, which names its resource: `pluralize("Policy")` is `policies`.
//!
//! The rules are those of the library that kro uses, oddities included (`gitrepoes`, `axes`), so that
//! the kinds that kro made are found again. `cargo xtask conformance simple-schema` compares them
//! with the library.
//!
//! ```
//! use deltaplane_schema::plural::pluralize;
//!
//! assert_eq!(pluralize("WebApp"), "webapps");
//! assert_eq!(pluralize("Proxy"), "proxies");
//! assert_eq!(pluralize("Ingress"), "ingresses");
//! assert_eq!(pluralize("Endpoints"), "endpoints");
//! ```

mod dictionary;

use dictionary::{ENDINGS, WORDS};

/// To the library an abbreviation that it knows ends in capitals, and so in none of its endings.
/// Those for which that makes no difference are not listed.
const ABBREVIATIONS: [(&str, &str); 3] = [("eia", "eias"), ("ssh", "sshs"), ("tia", "tias")];

/// The plural of a kind, in lower case. Kinds are one word of ASCII letters and digits.
pub fn pluralize(kind: &str) -> String {
    let word = kind.to_lowercase();
    if word.is_empty() {
        return word;
    }
    if let Some(plural) = whole_word(&word) {
        return plural.to_owned();
    }
    let words = WORDS.iter().rev().filter(|one| !one.exact);
    let words = words.map(|one| (one.singular, one.plural));
    for (singular, plural) in words.chain(ENDINGS) {
        if word.ends_with(plural) {
            return word;
        }
        if let Some(stem) = word.strip_suffix(singular) {
            return format!("{stem}{plural}");
        }
    }
    match word.ends_with('s') {
        true => word,
        false => word + "s",
    }
}

/// The plural of a word that the dictionary has.
fn whole_word(word: &str) -> Option<&str> {
    let known = WORDS.iter().map(|one| (one.singular, one.plural));
    let mut known = known.chain(ABBREVIATIONS);
    if let Some((_, plural)) = known.find(|(singular, _)| *singular == word) {
        return Some(plural);
    }
    let mut words = WORDS.iter().filter(|one| !one.one_way);
    let is_plural = words.any(|one| one.plural == word || one.alternative == Some(word));
    is_plural.then_some(word)
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
    fn kinds_with_unusual_plurals_are_called_as_kro_calls_them() {
        check(
            "GitRepo Video Lambda Demo Axis Gateway Roof Wolf Database Virus Medium SSH",
            expect![
                "gitrepoes videoes lambda demoes axes gateways roofs wolves databases viruses media sshs"
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
