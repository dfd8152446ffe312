//! How kinds are named: group, version, kind, resource.

use std::fmt;
use std::str::FromStr;

/// A group and a version, written `v1` or `apps/v1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiVersion {
    /// Empty for the core group.
    pub group: String,
    /// Such as `v1`.
    pub version: String,
}

/// The text has more than one slash.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unexpected GroupVersion string: {0}")]
pub struct ParseApiVersionError(String);

// === impl ApiVersion ===

impl ApiVersion {
    /// From its parts.
    pub fn new(group: &str, version: &str) -> Self {
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
        }
    }
}

impl FromStr for ApiVersion {
    type Err = ParseApiVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            None => Ok(Self::new("", text)),
            Some((group, version)) if !version.contains('/') => Ok(Self::new(group, version)),
            Some(_) => Err(ParseApiVersionError(text.to_owned())),
        }
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            "" => f.write_str(&self.version),
            group => write!(f, "{group}/{}", self.version),
        }
    }
}

/// Orders versions as Kubernetes does: `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`, then others
/// by name. `Less` means `left` comes first.
pub fn compare_versions(left: &str, right: &str) -> std::cmp::Ordering {
    match (rank(left), rank(right)) {
        (Some(left), Some(right)) => right.cmp(&left),
        (Some(_), None) => std::cmp::Ordering::Less,
        (None, Some(_)) => std::cmp::Ordering::Greater,
        (None, None) => left.cmp(right),
    }
}

/// (stability, major, minor): higher is preferred.
fn rank(version: &str) -> Option<(u8, u32, u32)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let major = number(&rest[..digits])?;
    let suffix = &rest[digits..];
    if suffix.is_empty() {
        return Some((2, major, 0));
    }
    let (stability, minor) = match (suffix.strip_prefix("beta"), suffix.strip_prefix("alpha")) {
        (Some(minor), _) => (1, minor),
        (None, Some(minor)) => (0, minor),
        (None, None) => return None,
    };
    Some((stability, major, number(minor)?))
}

fn number(text: &str) -> Option<u32> {
    match text.starts_with('0') {
        true => None,
        false => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_versions_round_trip() {
        for text in ["v1", "apps/v1", "fleet.deltaplane.io/v1alpha1"] {
            assert_eq!(text.parse::<ApiVersion>().unwrap().to_string(), text);
        }
        assert!("a/b/c".parse::<ApiVersion>().is_err());
    }

    #[test]
    fn versions_are_ordered_by_stability_then_number() {
        let mut versions = [
            "foo10",
            "v1beta1",
            "v10",
            "v1alpha2",
            "v2",
            "v1",
            "v3beta1",
            "v11alpha2",
            "foo1",
        ];
        versions.sort_by(|left, right| compare_versions(left, right));
        assert_eq!(
            versions,
            [
                "v10",
                "v2",
                "v1",
                "v3beta1",
                "v1beta1",
                "v11alpha2",
                "v1alpha2",
                "foo1",
                "foo10"
            ]
        );
    }
}
