//! Groups that belong to Kubernetes itself, and who agreed to kinds in them.

/// By this annotation a definition says who agreed to it.
pub const ANNOTATION: &str = "api-approved.kubernetes.io";

/// What a definition says about that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    /// Nothing.
    Missing,
    /// Where it was agreed to.
    Given,
    /// That nobody did, and why.
    Waived,
    /// Something else.
    Senseless,
}

/// Whether kinds in this group need to be agreed to.
pub fn is_needed(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        let rest = group.strip_suffix(domain);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else {
        return false;
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    !scheme.is_empty() && !host.is_empty() && plain(text)
}

// === impl Approval ===

impl Approval {
    /// What the annotation says.
    pub fn of(annotation: Option<&str>) -> Self {
        match annotation {
            None | Some("") => Self::Missing,
            Some(text) if text.starts_with("unapproved") => Self::Waived,
            Some(text) if is_url(text) => Self::Given,
            Some(_) => Self::Senseless,
        }
    }

    /// What is wrong with it.
    pub fn fault(self) -> Option<String> {
        let must = format!("protected groups must have approval annotation {ANNOTATION:?}");
        let see = "see https://github.com/kubernetes/enhancements/pull/1111";
        match self {
            Self::Given | Self::Waived => None,
            Self::Missing => Some(format!("{must}, {see}")),
            Self::Senseless => Some(format!(
                "{must} with either a URL or a reason starting with \"unapproved\", {see}"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups() {
        let check = |group: &str, needed| assert_eq!(is_needed(group), needed, "{group}");
        check("k8s.io", true);
        check("a.k8s.io", true);
        check("a.kubernetes.io", true);
        check("x-k8s.io", false);
        check("example.com", false);
        check("", false);
    }

    #[test]
    fn annotations() {
        let check = |text: &str, expected| assert_eq!(Approval::of(Some(text)), expected, "{text}");
        check("", Approval::Missing);
        check("https://github.com/a/b/pull/1", Approval::Given);
        check("unapproved, a test", Approval::Waived);
        check("nope", Approval::Senseless);
        check("://host", Approval::Senseless);
        check("https://", Approval::Senseless);
        check("https://a b", Approval::Senseless);
    }
}
