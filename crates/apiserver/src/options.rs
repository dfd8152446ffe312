//! The query parameters of a request, parsed and checked. Pure.

use deltaplane_api::field;
use deltaplane_api::selector::{FieldSelector, LabelSelector};
use serde_json::json;

use crate::error::Error;

/// The pairs of a query string, decoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

/// What `?resourceVersionMatch=` may be.
const EXACT: &str = "Exact";
const NOT_OLDER_THAN: &str = "NotOlderThan";

/// What a request may say about how it is to be carried out, in the names that errors use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Options {
    List,
    Create,
    Update,
    Patch,
    /// A patch that is server-side apply.
    Apply,
    Delete,
}

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// Everything that was acknowledged before the request.
    Latest,
    /// This revision or a later one.
    NotOlderThan(u64),
    /// This revision.
    Exactly(u64),
}

/// What a list or watch asks for.
#[derive(Clone, Debug)]
pub(crate) struct ListOptions {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    pub(crate) resource_version: String,
    version_match: String,
    /// 0 means no limit.
    pub(crate) limit: u64,
    pub(crate) continue_token: String,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
}

/// How strictly unknown and duplicate fields are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// What every write may say.
#[derive(Clone, Debug)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) field_manager: String,
    pub(crate) field_validation: FieldValidation,
    /// Only with server-side apply.
    pub(crate) force: bool,
}

// === impl Query ===

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        Self(
            form_urlencoded::parse(text.as_bytes())
                .into_owned()
                .collect(),
        )
    }

    /// The first value of `key`, or empty.
    pub(crate) fn get(&self, key: &str) -> &str {
        self.0
            .iter()
            .find(|(name, _)| name == key)
            .map_or("", |(_, value)| value)
    }

    /// All values of `key`.
    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(name, _)| name == key)
    }

    /// Kubernetes' reading of a boolean: present and not `false` or `0`.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.has(key) && !matches!(self.get(key), "false" | "0")
    }

    fn optional_flag(&self, key: &str) -> Option<bool> {
        self.has(key).then(|| self.flag(key))
    }

    /// The time that a client gives a request must be a duration. It is not enforced: nothing here
    /// takes longer than clients wait.
    pub(crate) fn check_timeout(&self) -> Result<(), Error> {
        match self.get("timeout") {
            "" => Ok(()),
            text => check_duration(text).map_err(|fault| {
                Error::bad_request(format!(
                    "invalid timeout specified in the request URL - time: {fault} {text:?}"
                ))
            }),
        }
    }

    fn number(&self, key: &str) -> Result<Option<u64>, Error> {
        let text = self.get(key);
        if text.is_empty() {
            return Ok(None);
        }
        let number = text
            .parse::<i64>()
            .map_err(|error| Error::bad_request(number_fault("ParseInt", text, error.kind())))?;
        Ok(Some(u64::try_from(number).unwrap_or(0)))
    }
}

/// A text that is no number, in the words of Go.
fn number_fault(function: &str, text: &str, why: &std::num::IntErrorKind) -> String {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    let why = match matches!(why, PosOverflow | NegOverflow) {
        true => "value out of range",
        false => "invalid syntax",
    };
    format!("strconv.{function}: parsing {text:?}: {why}")
}

/// Checks a duration such as `1h30m`; the fault is in the words of Go.
fn check_duration(text: &str) -> Result<(), String> {
    const UNITS: [&str; 8] = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(());
    }
    if rest.is_empty() {
        return Err("invalid duration".to_owned());
    }
    while !rest.is_empty() {
        let after = rest.trim_start_matches(is_number);
        let number = &rest[..rest.len() - after.len()];
        if !number.contains(|c: char| c.is_ascii_digit()) || number.matches('.').count() > 1 {
            return Err("invalid duration".to_owned());
        }
        let unit = &after[..after.find(is_number).unwrap_or(after.len())];
        if unit.is_empty() {
            return Err("missing unit in duration".to_owned());
        }
        if !UNITS.contains(&unit) {
            return Err(format!("unknown unit {unit:?} in duration"));
        }
        rest = &after[unit.len()..];
    }
    Ok(())
}

/// `dryRun` knows one value.
pub(crate) fn dry_run<'a>(
    values: impl Iterator<Item = &'a str>,
    errors: &mut Vec<field::Error>,
) -> bool {
    let values: Vec<&str> = values.filter(|value| !value.is_empty()).collect();
    if values.iter().any(|value| *value != "All") {
        let path = field::Path::new("dryRun");
        errors.push(field::Error::not_supported(path, json!(values), &["All"]));
    }
    !values.is_empty()
}

// === impl Options ===

impl Options {
    /// Refuses options with these faults, if there are some.
    pub(crate) fn refuse(self, errors: &[field::Error]) -> Result<(), Error> {
        let kind = match self {
            Self::List => "ListOptions",
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch | Self::Apply => "PatchOptions",
            Self::Delete => "DeleteOptions",
        };
        match errors.is_empty() {
            true => Ok(()),
            false => Err(Error::invalid("meta.k8s.io", kind, "", errors)),
        }
    }
}

// === impl ListOptions ===

impl ListOptions {
    pub(crate) fn parse(query: &Query) -> Result<Self, Error> {
        let unreadable = |error: deltaplane_api::selector::ParseError| {
            // The texts are Kubernetes' own, and say what was read.
            Error::bad_request(error.to_string())
        };
        Ok(Self {
            labels: query.get("labelSelector").parse().map_err(unreadable)?,
            fields: query.get("fieldSelector").parse().map_err(unreadable)?,
            resource_version: query.get("resourceVersion").to_owned(),
            version_match: query.get("resourceVersionMatch").to_owned(),
            limit: query.number("limit")?.unwrap_or(0),
            continue_token: query.get("continue").to_owned(),
            timeout_seconds: query.number("timeoutSeconds")?,
            bookmarks: query.flag("allowWatchBookmarks"),
            send_initial_events: query.optional_flag("sendInitialEvents"),
        })
    }

    /// The rules of `resourceVersion` and `resourceVersionMatch` for lists.
    pub(crate) fn list_freshness(&self) -> Result<Freshness, Error> {
        Options::List.refuse(&self.list_faults())?;
        if !self.continue_token.is_empty() && !matches!(self.resource_version.as_str(), "" | "0") {
            return Err(Error::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let revision = |text: &str| {
            revision(text).map_err(|fault| {
                Error::bad_request(format!("invalid resource version: {}", fault.message))
            })
        };
        match (self.resource_version.as_str(), self.version_match.as_str()) {
            ("" | "0", _) => Ok(Freshness::Latest),
            (text, EXACT) => Ok(Freshness::Exactly(revision(text)?)),
            // A limit with a revision and no match means exactly that revision; this is old, and kept.
            (text, "") if self.limit > 0 => Ok(Freshness::Exactly(revision(text)?)),
            (text, _) => Ok(Freshness::NotOlderThan(revision(text)?)),
        }
    }

    fn list_faults(&self) -> Vec<field::Error> {
        let mut errors = Vec::new();
        let version_match = self.version_match.as_str();
        let path = field::Path::new("resourceVersionMatch");
        let mut forbid = |detail: &str| errors.push(field::Error::forbidden(path.clone(), detail));
        if !version_match.is_empty() {
            if self.resource_version.is_empty() {
                forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if !self.continue_token.is_empty() {
                forbid("resourceVersionMatch is forbidden when continue is provided");
            }
            if ![EXACT, NOT_OLDER_THAN].contains(&version_match) {
                let known = [EXACT, NOT_OLDER_THAN, ""];
                errors.push(field::Error::not_supported(path, version_match, &known));
            } else if version_match == EXACT && self.resource_version == "0" {
                forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
            }
        }
        if self.send_initial_events.is_some() {
            let path = field::Path::new("sendInitialEvents");
            let detail = "sendInitialEvents is forbidden for list";
            errors.push(field::Error::forbidden(path, detail));
        }
        errors
    }

    /// The rules for watches.
    pub(crate) fn check_watch(&self) -> Result<(), Error> {
        let mut errors = Vec::new();
        let version_match = self.version_match.as_str();
        let path = field::Path::new("resourceVersionMatch");
        let mut forbid = |detail: &str| errors.push(field::Error::forbidden(path.clone(), detail));
        if self.send_initial_events.is_some() && version_match != NOT_OLDER_THAN {
            forbid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        }
        if !version_match.is_empty() {
            if self.send_initial_events.is_none() {
                forbid(
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                );
            }
            if !self.continue_token.is_empty() {
                forbid("resourceVersionMatch is forbidden when continue is provided");
            }
            if version_match != NOT_OLDER_THAN {
                let known = [NOT_OLDER_THAN];
                errors.push(field::Error::not_supported(path, version_match, &known));
            }
        }
        Options::List.refuse(&errors)
    }
}

/// A resource version as a number.
pub(crate) fn revision(text: &str) -> Result<u64, Error> {
    // Go's numbers have no sign here.
    let parsed = match text.starts_with('+') {
        true => "".parse(),
        false => text.parse::<u64>(),
    };
    parsed.map_err(|error| {
        let path = field::Path::new("resourceVersion");
        let fault = number_fault("ParseUint", text, error.kind());
        Error::bad_request(field::Error::invalid(path, text, fault).to_string())
    })
}

// === impl WriteOptions ===

impl WriteOptions {
    /// `user_agent` names the manager when the query does not.
    pub(crate) fn parse(of: Options, query: &Query, user_agent: &str) -> Result<Self, Error> {
        let manager = query.get("fieldManager");
        let force = query.optional_flag("force");
        let mut errors = Vec::new();
        let path = field::Path::new("fieldManager");
        if of == Options::Apply && manager.is_empty() {
            let detail = "is required for apply patch";
            errors.push(field::Error::required(path.clone(), detail));
        }
        if of == Options::Patch && force.is_some() {
            let detail = "may not be specified for non-apply patch";
            errors.push(field::Error::forbidden(field::Path::new("force"), detail));
        }
        errors.extend(deltaplane_schema::managed::validate_field_manager(
            manager, &path,
        ));
        let dry_run = dry_run(query.all("dryRun"), &mut errors);
        let field_validation = match query.get("fieldValidation") {
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            "" | "Warn" => FieldValidation::Warn,
            other => {
                let path = field::Path::new("fieldValidation");
                let known = ["", "Ignore", "Strict", "Warn"];
                errors.push(field::Error::not_supported(path, other, &known));
                FieldValidation::Warn
            }
        };
        of.refuse(&errors)?;
        let field_manager = match manager {
            "" => deltaplane_schema::managed::manager_from_user_agent(user_agent),
            manager => manager.to_owned(),
        };
        Ok(Self {
            dry_run,
            field_manager,
            field_validation,
            force: force.unwrap_or(false),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn freshness(query: &str) -> Result<Freshness, u16> {
        ListOptions::parse(&Query::parse(query))
            .and_then(|options| options.list_freshness())
            .map_err(|error| error.code.as_u16())
    }

    #[test]
    fn lists_are_as_fresh_as_asked() {
        let cases = [
            ("", Ok(Freshness::Latest)),
            ("resourceVersion=0", Ok(Freshness::Latest)),
            ("resourceVersion=7", Ok(Freshness::NotOlderThan(7))),
            ("resourceVersion=7&limit=5", Ok(Freshness::Exactly(7))),
            (
                "resourceVersion=7&resourceVersionMatch=Exact",
                Ok(Freshness::Exactly(7)),
            ),
            (
                "resourceVersion=7&resourceVersionMatch=NotOlderThan&limit=1",
                Ok(Freshness::NotOlderThan(7)),
            ),
            ("resourceVersion=0&resourceVersionMatch=Exact", Err(422)),
            ("resourceVersionMatch=Exact", Err(422)),
            ("resourceVersion=7&resourceVersionMatch=Nearly", Err(422)),
            ("resourceVersion=x", Err(400)),
            ("resourceVersion=-1", Err(400)),
            ("continue=abc&resourceVersion=7", Err(400)),
            (
                "continue=abc&resourceVersion=0&resourceVersionMatch=Exact",
                Err(422),
            ),
            ("sendInitialEvents=true", Err(422)),
            ("limit=x", Err(400)),
            ("labelSelector=a+in", Err(400)),
        ];
        for (query, expected) in cases {
            assert_eq!(freshness(query), expected, "{query}");
        }
    }

    #[test]
    fn timeouts_are_durations() {
        let check = |text: &str, expected: Option<&str>| {
            let fault = Query(vec![("timeout".to_owned(), text.to_owned())]).check_timeout();
            let prefix = "invalid timeout specified in the request URL - time: ";
            let expected = expected.map(|fault| format!("{prefix}{fault} {text:?}"));
            assert_eq!(fault.err().map(|error| error.message), expected, "{text}");
        };
        for duration in ["", "0", "0s", "32s", "1h30m", "1.5h", "-3s", "100µs"] {
            check(duration, None);
        }
        for invalid in ["invalid", "-", "s", "1.2.3s", ".s"] {
            check(invalid, Some("invalid duration"));
        }
        check("10", Some("missing unit in duration"));
        check("1m10", Some("missing unit in duration"));
        check("1d", Some("unknown unit \"d\" in duration"));
    }

    #[test]
    fn faults_are_told_as_kubernetes_tells_them() {
        let list = |query: &str| {
            let options = ListOptions::parse(&Query::parse(query));
            options
                .and_then(|options| options.list_freshness())
                .map(|_| ())
        };
        let watch = |query: &str| {
            ListOptions::parse(&Query::parse(query)).and_then(|options| options.check_watch())
        };
        let write = |query: &str| {
            WriteOptions::parse(Options::Create, &Query::parse(query), "").map(|_| ())
        };
        let check = |outcome: Result<(), Error>, expected: &str| {
            assert_eq!(outcome.unwrap_err().message, expected);
        };
        let parsing = "invalid resource version: resourceVersion: Invalid value:";
        check(
            list("resourceVersion=nonsense"),
            &format!(
                "{parsing} \"nonsense\": strconv.ParseUint: parsing \"nonsense\": invalid syntax"
            ),
        );
        check(
            list("resourceVersion=99999999999999999999"),
            &format!(
                "{parsing} \"99999999999999999999\": strconv.ParseUint: parsing \"99999999999999999999\": value out of range"
            ),
        );
        check(
            list("limit=x"),
            "strconv.ParseInt: parsing \"x\": invalid syntax",
        );
        check(
            list("labelSelector=!!"),
            "unable to parse requirement: found '!', expected: identifier",
        );
        check(
            list("continue=a&resourceVersion=0&resourceVersionMatch=Exact"),
            "ListOptions.meta.k8s.io \"\" is invalid: [resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided, resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"]",
        );
        check(
            watch("sendInitialEvents=true&resourceVersionMatch=Exact"),
            "ListOptions.meta.k8s.io \"\" is invalid: [resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan, resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"]",
        );
        check(
            write("dryRun=x&fieldValidation=y"),
            "CreateOptions.meta.k8s.io \"\" is invalid: [dryRun: Unsupported value: [\"x\"]: supported values: \"All\", fieldValidation: Unsupported value: \"y\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"]",
        );
        check(
            write("fieldManager=a%07"),
            "CreateOptions.meta.k8s.io \"\" is invalid: fieldManager: Invalid value: \"a\\u0007\": invalid character U+0007 (at position 1)",
        );
    }

    #[test]
    fn watches_with_initial_events_must_say_so_twice() {
        let check = |query: &str| {
            ListOptions::parse(&Query::parse(query))
                .unwrap()
                .check_watch()
                .is_ok()
        };
        assert!(check("watch=1"));
        assert!(check(
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        ));
        assert!(!check("sendInitialEvents=true"));
        assert!(!check("resourceVersionMatch=NotOlderThan"));
    }
}
