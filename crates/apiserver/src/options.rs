//! The query parameters of a request, parsed and checked. Pure.

use deltaplane_api::selector::{FieldSelector, LabelSelector};

use crate::error::Error;

/// The pairs of a query string, decoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

/// `?resourceVersionMatch=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    Exact,
    NotOlderThan,
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
    pub(crate) version_match: Option<Match>,
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
    pub(crate) force: Option<bool>,
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

    fn number(&self, key: &str) -> Result<Option<u64>, Error> {
        let text = self.get(key);
        if text.is_empty() {
            return Ok(None);
        }
        let number = text.parse::<i64>().map_err(|_| {
            Error::bad_request(format!("invalid value for {key}: {text:?} is not a number"))
        })?;
        Ok(Some(u64::try_from(number).unwrap_or(0)))
    }

    pub(crate) fn dry_run(&self) -> Result<bool, Error> {
        dry_run(self.all("dryRun"))
    }
}

/// `dryRun` knows one value.
pub(crate) fn dry_run<'a>(values: impl Iterator<Item = &'a str>) -> Result<bool, Error> {
    let mut dry = false;
    for value in values {
        match value {
            "All" => dry = true,
            "" => {}
            other => {
                return Err(Error::unprocessable(format!(
                    " \"\" is invalid: dryRun: Unsupported value: {other:?}: supported values: \"All\""
                )));
            }
        }
    }
    Ok(dry)
}

// === impl ListOptions ===

impl ListOptions {
    pub(crate) fn parse(query: &Query) -> Result<Self, Error> {
        let version_match = match query.get("resourceVersionMatch") {
            "" => None,
            "Exact" => Some(Match::Exact),
            "NotOlderThan" => Some(Match::NotOlderThan),
            other => {
                return Err(list_invalid(&format!(
                    "resourceVersionMatch: Unsupported value: {other:?}: supported values: \"Exact\", \"NotOlderThan\", \"\""
                )));
            }
        };
        let selector_error = |key: &str, error: &dyn std::fmt::Display| {
            Error::bad_request(format!("unable to parse {key}: {error}"))
        };
        let labels = query.get("labelSelector").parse();
        let fields = query.get("fieldSelector").parse();
        Ok(Self {
            labels: labels.map_err(|error| selector_error("labelSelector", &error))?,
            fields: fields.map_err(|error| selector_error("fieldSelector", &error))?,
            resource_version: query.get("resourceVersion").to_owned(),
            version_match,
            limit: query.number("limit")?.unwrap_or(0),
            continue_token: query.get("continue").to_owned(),
            timeout_seconds: query.number("timeoutSeconds")?,
            bookmarks: query.flag("allowWatchBookmarks"),
            send_initial_events: query.optional_flag("sendInitialEvents"),
        })
    }

    /// The rules of `resourceVersion` and `resourceVersionMatch` for lists.
    pub(crate) fn list_freshness(&self) -> Result<Freshness, Error> {
        if self.send_initial_events.is_some() {
            return Err(list_invalid(
                "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
            ));
        }
        if !self.continue_token.is_empty() {
            if self.version_match.is_some() {
                return Err(list_invalid(
                    "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided",
                ));
            }
            if !matches!(self.resource_version.as_str(), "" | "0") {
                return Err(Error::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
        }
        match (self.resource_version.as_str(), self.version_match) {
            ("", Some(_)) => Err(list_invalid(
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
            )),
            ("0", Some(Match::Exact)) => Err(list_invalid(
                "resourceVersionMatch: Forbidden: resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"",
            )),
            ("" | "0", _) => Ok(Freshness::Latest),
            (text, Some(Match::Exact)) => Ok(Freshness::Exactly(revision(text)?)),
            // A limit with a revision and no match means exactly that revision; this is old, and kept.
            (text, None) if self.limit > 0 => Ok(Freshness::Exactly(revision(text)?)),
            (text, None | Some(Match::NotOlderThan)) => {
                Ok(Freshness::NotOlderThan(revision(text)?))
            }
        }
    }

    /// The rules for watches. Gives whether the watch begins with what exists.
    pub(crate) fn check_watch(&self) -> Result<(), Error> {
        match (self.send_initial_events, self.version_match) {
            (None, Some(_)) => Err(list_invalid(
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            )),
            (Some(_), None | Some(Match::Exact)) => Err(list_invalid(
                "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            )),
            (None, None) | (Some(_), Some(Match::NotOlderThan)) => Ok(()),
        }
    }
}

/// A resource version as a number.
pub(crate) fn revision(text: &str) -> Result<u64, Error> {
    let digits = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    match (digits, text.parse()) {
        (true, Ok(revision)) => Ok(revision),
        _ => Err(Error::bad_request(format!(
            "Invalid value: {text:?}: resourceVersion: strconv.ParseUint: parsing {text:?}: invalid syntax"
        ))),
    }
}

fn list_invalid(what: &str) -> Error {
    Error::unprocessable(format!("ListOptions.meta.k8s.io \"\" is invalid: {what}"))
}

// === impl WriteOptions ===

impl WriteOptions {
    /// `user_agent` names the manager when the query does not.
    pub(crate) fn parse(query: &Query, user_agent: &str) -> Result<Self, Error> {
        let manager = query.get("fieldManager");
        let path = deltaplane_api::field::Path::new("fieldManager");
        let faults = deltaplane_schema::managed::validate_field_manager(manager, &path);
        if !faults.is_empty() {
            return Err(Error::invalid("", "", "", &faults));
        }
        let field_manager = match manager {
            "" => deltaplane_schema::managed::manager_from_user_agent(user_agent),
            manager => manager.to_owned(),
        };
        Ok(Self {
            dry_run: query.dry_run()?,
            field_manager,
            field_validation: field_validation(query.get("fieldValidation"))?,
            force: query.optional_flag("force"),
        })
    }
}

fn field_validation(text: &str) -> Result<FieldValidation, Error> {
    match text {
        "" | "Warn" => Ok(FieldValidation::Warn),
        "Ignore" => Ok(FieldValidation::Ignore),
        "Strict" => Ok(FieldValidation::Strict),
        other => Err(Error::unprocessable(format!(
            " \"\" is invalid: fieldValidation: Unsupported value: {other:?}: supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""
        ))),
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
