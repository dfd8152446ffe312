//! What may be a name, a label key, a label value. Texts of the errors are Kubernetes'.

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;

const DNS_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const DNS_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const LABEL_KEY: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// The rule that a kind's names follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// `my-name.example`: most kinds.
    Subdomain,
    /// `my-name`: namespaces.
    Label,
    /// `my-name`, beginning with a letter: services.
    Dns1035,
    /// Anything that can be one segment of a path: RBAC.
    PathSegment,
}

impl NameRule {
    /// All that is wrong with `name`; nothing if it is valid.
    pub fn check(self, name: &str) -> Vec<String> {
        match self {
            Self::Subdomain => dns_subdomain(name),
            Self::Label => dns_label(name),
            Self::Dns1035 => dns_1035(name),
            Self::PathSegment => path_segment(name),
        }
    }

    /// Like [`Self::check`] for the prefix that a generated name begins with: it may end in a
    /// dash, since more follows.
    pub fn check_prefix(self, prefix: &str) -> Vec<String> {
        match prefix.strip_suffix('-') {
            Some(head) if !head.is_empty() => self.check(&format!("{head}a")),
            Some(_) | None => self.check(prefix),
        }
    }
}

/// An RFC 1123 label.
pub fn dns_label(name: &str) -> Vec<String> {
    let mut errors = too_long(name, LABEL_MAX);
    if !is_dns_label(name) {
        errors.push(DNS_LABEL.to_owned());
    }
    errors
}

/// An RFC 1123 subdomain.
pub fn dns_subdomain(name: &str) -> Vec<String> {
    let mut errors = too_long(name, SUBDOMAIN_MAX);
    if !name.split('.').all(is_dns_label) {
        errors.push(DNS_SUBDOMAIN.to_owned());
    }
    errors
}

/// A label that begins with a letter.
pub fn dns_1035(name: &str) -> Vec<String> {
    let mut errors = too_long(name, LABEL_MAX);
    if !is_dns_label(name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        errors.push(DNS_1035.to_owned());
    }
    errors
}

/// One segment of a URL's path.
pub fn path_segment(name: &str) -> Vec<String> {
    if name == "." || name == ".." {
        return vec![format!("may not be '{name}'")];
    }
    let banned = ["/", "%"].iter().filter(|part| name.contains(**part));
    banned
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

/// A label or annotation key: `[prefix/]name`.
pub fn qualified_name(key: &str) -> Vec<String> {
    let (prefix, name) = match key.split_once('/') {
        None => (None, key),
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {LABEL_KEY} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => (Some(prefix), name),
    };
    let mut errors = Vec::new();
    match prefix {
        Some("") => errors.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            errors.extend(
                dns_subdomain(prefix)
                    .into_iter()
                    .map(|one| format!("prefix part {one}")),
            );
        }
        None => {}
    }
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        errors.push(format!("name part must be no more than {LABEL_MAX} bytes"));
    }
    if !is_label_text(name) {
        errors.push(format!("name part {LABEL_KEY}"));
    }
    errors
}

/// The value of a label; may be empty.
pub fn label_value(value: &str) -> Vec<String> {
    let mut errors = too_long(value, LABEL_MAX);
    if !value.is_empty() && !is_label_text(value) {
        errors.push(LABEL_VALUE.to_owned());
    }
    errors
}

/// A key of a ConfigMap's or Secret's data.
pub fn config_key(key: &str) -> Vec<String> {
    let mut errors = too_long(key, SUBDOMAIN_MAX);
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if key.is_empty() || !key.chars().all(legal) {
        errors.push(CONFIG_KEY.to_owned());
    }
    match key {
        "." => errors.push("must not be '.'".to_owned()),
        ".." => errors.push("must not be '..'".to_owned()),
        _ if key.starts_with("..") => errors.push("must not start with '..'".to_owned()),
        _ => {}
    }
    errors
}

fn too_long(text: &str, max: usize) -> Vec<String> {
    match text.len() > max {
        true => vec![format!("must be no more than {max} bytes")],
        false => Vec::new(),
    }
}

fn is_dns_label(label: &str) -> bool {
    let edge = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let bytes = label.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(&first), Some(&last)) => {
            edge(first) && edge(last) && bytes.iter().all(|&c| edge(c) || c == b'-')
        }
        _ => false,
    }
}

fn is_label_text(text: &str) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            first.is_ascii_alphanumeric()
                && last.is_ascii_alphanumeric()
                && bytes
                    .iter()
                    .all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(c))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rule_of_their_kind() {
        let long = "a".repeat(64);
        let cases: [(NameRule, &str, bool); 12] = [
            (NameRule::Subdomain, "a.b-c.d", true),
            (NameRule::Subdomain, "a..b", false),
            (NameRule::Subdomain, "A", false),
            (NameRule::Subdomain, "", false),
            (NameRule::Label, "0a-b", true),
            (NameRule::Label, "a.b", false),
            (NameRule::Label, &long, false),
            (NameRule::Dns1035, "0a", false),
            (NameRule::Dns1035, "a0", true),
            (NameRule::PathSegment, "system:node", true),
            (NameRule::PathSegment, "a/b", false),
            (NameRule::PathSegment, "..", false),
        ];
        for (rule, name, valid) in cases {
            assert_eq!(rule.check(name).is_empty(), valid, "{rule:?} {name}");
        }
        assert!(NameRule::Subdomain.check_prefix("web-").is_empty());
        assert!(!NameRule::Subdomain.check_prefix("-").is_empty());
    }

    #[test]
    fn label_keys_and_values() {
        for key in ["app", "app.kubernetes.io/name", "a_b.C"] {
            assert!(qualified_name(key).is_empty(), "{key}");
        }
        for key in ["", "/a", "a/", "a/b/c", "-a", "UPPER.io/a"] {
            assert!(!qualified_name(key).is_empty(), "{key}");
        }
        assert!(label_value("").is_empty());
        assert!(!label_value("a b").is_empty());
        assert!(config_key("a_b.c-D").is_empty());
        for key in ["", ".", "..", "..a", "a/b"] {
            assert!(!config_key(key).is_empty(), "{key}");
        }
    }
}
