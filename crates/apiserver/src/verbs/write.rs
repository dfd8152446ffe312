//! What all writes have in common: reading the body, filling in, checking, storing.

use std::collections::BTreeSet;
use std::sync::Arc;

use deltaplane_api::json::Parsed;
use deltaplane_api::{computed, field};
use deltaplane_expr::rules::Verdict;
use deltaplane_runtime::heavy;
use deltaplane_schema::fieldset::{Filter as FieldFilter, Matcher, PathElement, Set};
use deltaplane_schema::{Schema, managed};
use deltaplane_store::{
    CommitError, Committed, Draft, Expect, InvalidTxn, Key, Object, Op, Revision, Txn,
};
use serde_json::Value;

use super::scale;
use crate::context::Cx;
use crate::error::{About, Error};
use crate::kinds::{Kind, KindVersions, Source};
use crate::options::{FieldValidation, WriteOptions};
use crate::seams::{Access, Operation, Review};
use crate::server::{Inner, TENANT};
use crate::{decode, encode, follow, meta, typepack, value};

/// A write that meets others is tried again so often before the client hears of it.
pub(crate) const MAX_ATTEMPTS: usize = 10;

const UNCHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

/// Which part of an object a request writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    /// Everything but status.
    Main,
    /// Status alone.
    Status,
    /// The fields that the kind's definition names.
    Computed,
    /// The finalizers of a namespace's content.
    Finalize,
    /// The number of replicas.
    Scale,
}

/// The result of a write.
pub(crate) enum Written {
    /// Stored, or found to be stored already.
    Stored(Arc<Object>),
    /// What would have been stored.
    DryRun(Value),
}

// === impl Written ===

impl Written {
    /// From which revision on it is visible.
    pub(crate) fn visible(&self) -> Option<Revision> {
        match self {
            Self::Stored(object) => Some(object.revision()),
            Self::DryRun(_) => None,
        }
    }
}

// === impl Section ===

impl Section {
    /// The section that a subresource of this kind stands for.
    pub(crate) fn of(kind: &Kind, subresource: &str) -> Option<Self> {
        match subresource {
            "" => Some(Self::Main),
            "status" if kind.status => Some(Self::Status),
            computed::SUBRESOURCE if !kind.computed.is_empty() => Some(Self::Computed),
            "finalize" if kind.is("", "namespaces") => Some(Self::Finalize),
            _ => None,
        }
    }

    fn subresource(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Computed => computed::SUBRESOURCE,
            Self::Finalize => "finalize",
            Self::Scale => "scale",
        }
    }

    /// The fields that a write of this section can own.
    fn fields(self, kind: &Kind) -> FieldFilter {
        let excluded: Vec<&str> = match self {
            Self::Main | Self::Scale if kind.status => vec!["status"],
            Self::Main | Self::Scale => return FieldFilter::All,
            Self::Status => {
                let foreign = |field: &&str| match *field {
                    "status" => false,
                    "metadata" => kind.is_custom(),
                    _ => true,
                };
                kind.schema
                    .root()
                    .properties()
                    .map(|(field, _)| field)
                    .filter(foreign)
                    .collect()
            }
            Self::Computed => return FieldFilter::Include(computed_fields(kind)),
            Self::Finalize => vec!["status", "metadata"],
        };
        let paths: Vec<[&str; 1]> = excluded.into_iter().map(|field| [field]).collect();
        let paths: Vec<&[&str]> = paths.iter().map(<[&str; 1]>::as_slice).collect();
        FieldFilter::Exclude(Set::of_fields(&paths))
    }
}

fn computed_fields(kind: &Kind) -> Matcher {
    let field = |name| Some(PathElement::field(name));
    let paths = kind.computed.iter();
    let each = paths.map(|path| Matcher::prefix(path.split('.').map(field)));
    each.reduce(Matcher::or).unwrap_or_default()
}

/// The object in a request's body, in this kind's shape: its type checked, unknown and duplicate
/// fields treated as the client asked.
pub(crate) fn intake(cx: &mut Cx, parsed: Parsed, options: &WriteOptions) -> Result<Value, Error> {
    let Parsed {
        value: mut object,
        duplicates,
    } = parsed;
    check_type(cx, &mut object)?;
    let kind = Arc::clone(&cx.kind);
    let unreadable = |error: &dyn std::fmt::Display| {
        Error::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: {error}",
            kind.kind, kind.version, kind.kind
        ))
    };
    kind.schema
        .decode(&mut object)
        .map_err(|error| unreadable(&error))?;
    match strictness(
        cx,
        &kind.schema,
        &mut object,
        &duplicates,
        options.field_validation,
    ) {
        Ok(()) => Ok(object),
        Err(faults) => Err(unreadable(&format!("strict decoding error: {faults}"))),
    }
}

/// Drops unknown fields; complains of them and of duplicates as strictly as asked.
pub(crate) fn strictness(
    cx: &mut Cx,
    schema: &Schema,
    object: &mut Value,
    duplicates: &[String],
    validation: FieldValidation,
) -> Result<(), String> {
    if validation == FieldValidation::Ignore {
        schema.prune(object);
        return Ok(());
    }
    let unknown = schema.prune_reporting(object);
    let unknown = unknown.iter().map(|path| format!("unknown field {path:?}"));
    let duplicates = duplicates
        .iter()
        .map(|path| format!("duplicate field {path:?}"));
    // The order in which the real server finds them.
    let faults: Vec<String> = match cx.kind.is_custom() {
        true => duplicates.chain(unknown).collect(),
        false => unknown.chain(duplicates).collect(),
    };
    if faults.is_empty() {
        return Ok(());
    }
    match validation {
        FieldValidation::Strict => Err(faults.join(", ")),
        FieldValidation::Warn | FieldValidation::Ignore => {
            faults.into_iter().for_each(|fault| cx.warn(fault));
            Ok(())
        }
    }
}

/// The body must be of the kind that the path names.
fn check_type(cx: &Cx, object: &mut Value) -> Result<(), Error> {
    let kind = &cx.kind;
    let (api_version, name) = (
        value::text(object, "apiVersion"),
        value::text(object, "kind"),
    );
    if kind.is_custom() {
        check_custom_type(cx, object, api_version, name)?;
    } else if !(api_version.is_empty() || api_version == kind.api_version)
        || !(name.is_empty() || name == kind.kind)
    {
        // Typed clients may leave out what the path says.
        let api_version = Some(api_version).filter(|said| !said.is_empty());
        let name = Some(name).filter(|said| !said.is_empty());
        let stored = kind.stored_as.split_once('/');
        let group = stored.map_or("core", |(group, _)| group);
        return Err(other_kind(
            (group, &kind.kind),
            api_version.unwrap_or(&kind.api_version),
            name.unwrap_or(&kind.kind),
        ));
    }
    kind.stamp(object);
    Ok(())
}

fn check_custom_type(cx: &Cx, object: &Value, api_version: &str, name: &str) -> Result<(), Error> {
    let kind = &cx.kind;
    if name.is_empty() {
        let body = String::from_utf8_lossy(&cx.body);
        let why = format!("Object 'Kind' is missing in '{}'", truncated(&body));
        return Err(decode::unrecognized(&kind.kind, &cx.body, &why));
    }
    if api_version != kind.api_version {
        return Err(Error::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            kind.api_version
        )));
    }
    if name != kind.kind {
        let detail = format!("must be {}", kind.kind);
        let error = field::Error::invalid(field::Path::new("kind"), name, detail);
        let object = value::text(object, "metadata.name");
        return Err(Error::invalid(&kind.group, name, object, &[error]));
    }
    Ok(())
}

/// The body is of a kind that is not the one that is wanted.
pub(crate) fn other_kind(wanted: (&str, &str), api_version: &str, name: &str) -> Error {
    let (wanted_group, wanted) = wanted;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let known = typepack::load().kind(group, version, name);
    let why = match known {
        Some(_) => {
            let package = wanted_group.split('.').next().unwrap_or_default();
            format!("converting ({version}.{name}) to ({package}.{wanted}): unknown conversion")
        }
        None => format!("no kind {name:?} is registered for version {api_version:?}"),
    };
    Error::bad_request(format!(
        "{name} in version {version:?} cannot be handled as a {wanted}: {why}"
    ))
}

fn truncated(text: &str) -> String {
    text.chars().take(256).collect()
}

/// The names in the body must be those of the path, where both are given.
pub(crate) fn check_address(cx: &Cx, object: &mut Value) -> Result<(), Error> {
    let namespace = value::text(object, "metadata.namespace");
    if cx.kind.namespaced && !namespace.is_empty() && namespace != cx.target.namespace {
        return Err(Error::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let name = value::text(object, "metadata.name");
    if cx.target.name.is_empty() {
        return Ok(());
    }
    match name {
        "" => Err(Error::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            cx.target.name
        ))),
        name if name == cx.target.name => Ok(()),
        name => Err(Error::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            cx.target.name
        ))),
    }
}

/// Asks everyone who decides about writes, and completes the object; gives what the client is to be
/// warned of.
pub(crate) async fn admit(
    cx: &Cx,
    operation: Operation,
    object: &mut Value,
    old: Option<&Value>,
    dry_run: bool,
) -> Result<Vec<String>, Error> {
    let shown = if object.is_null() {
        old
    } else {
        Some(&*object)
    };
    let name = shown
        .map(|one| value::text(one, "metadata.name"))
        .unwrap_or_default()
        .to_owned();
    let namespace = shown
        .map(|one| value::text(one, "metadata.namespace"))
        .unwrap_or_default();
    let refused = cx
        .kind
        .strategy
        .refuse
        .and_then(|refuse| refuse(operation, namespace, &name));
    if let Some(why) = refused.filter(|_| cx.user.name != crate::bootstrap::USER) {
        return Err(Error::forbidden(cx.kind.about(&name), why));
    }
    let mut warnings = Vec::new();
    let may = |access: Access<'_>| cx.may(access);
    let mut review = Review {
        user: &cx.user,
        operation,
        resource: cx.resource(&name),
        object,
        old,
        dry_run,
        warnings: &mut warnings,
        may: &may,
    };
    let deciders = &cx.server.config.admission;
    for decider in deciders {
        decider.admit(review.reborrow()).await?;
    }
    if operation != Operation::Delete {
        // Computed fields have defaults, too, and so have the other fields of objects that admission
        // control restored for the sake of one.
        if !cx.kind.computed.is_empty() {
            cx.kind.default(review.object);
        }
        deciders
            .iter()
            .try_for_each(|decider| decider.conclude(&review))?;
    }
    Ok(warnings)
}

/// All that is wrong with an object that is about to be stored; warns of what is merely bad.
pub(crate) fn validate(cx: &mut Cx, object: &Value, old: Option<&Value>) -> Result<(), Error> {
    let kind = Arc::clone(&cx.kind);
    // Rules, and patterns on long texts, may take seconds; others do not wait for them.
    let verdict = match kind.is_custom() || kind.collection == follow::DEFINITIONS {
        true => heavy(|| judge(&kind, object, old)),
        false => judge(&kind, object, old),
    };
    cx.warn_all(verdict.warnings);
    match verdict.errors.is_empty() {
        true => Ok(()),
        false => {
            let name = value::text(object, "metadata.name");
            Err(Error::invalid(
                kind.stored_group(),
                &kind.kind,
                name,
                &verdict.errors,
            ))
        }
    }
}

/// All that is wrong with an object, and what is merely bad.
fn judge(kind: &Kind, object: &Value, old: Option<&Value>) -> Verdict {
    let mut errors = meta::validate(kind, object, old);
    errors.extend(managed::validate_managed_fields(object));
    // Whatever rules came later: what is going can be let go.
    if errors.is_empty()
        && old.is_some_and(|old| meta::is_going(old) && differ_in_metadata(object, old))
    {
        return Verdict::default();
    }
    let mut warnings = Vec::new();
    if let Some(validate) = kind.strategy.validate {
        errors.extend(validate(object, old));
    }
    // The kind's own rules may have found what its schema says too. By their texts, since there
    // can be as many as a body has room for.
    let known: BTreeSet<String> = errors.iter().map(ToString::to_string).collect();
    let found = kind.schema.validate(object, old).into_iter();
    errors.extend(found.filter(|error| known.is_empty() || !known.contains(&error.to_string())));
    if let Some(scale) = kind.scale.as_ref().filter(|_| kind.is_custom()) {
        errors.extend(scale::validate(scale, object));
    }
    if let Some(rules) = &kind.rules {
        match errors.iter().any(blocks_rules) {
            true => errors.push(field::Error::invalid(
                field::Path::root(),
                Value::Null,
                UNCHECKED,
            )),
            false => {
                let verdict = rules.judge(object, old);
                errors.extend(verdict.errors);
                warnings = verdict.warnings;
            }
        }
    }
    Verdict { errors, warnings }
}

/// Whether two objects are alike but for their metadata.
fn differ_in_metadata(one: &Value, other: &Value) -> bool {
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else {
        return false;
    };
    let same =
        |(field, value): (&String, &Value)| field == "metadata" || other.get(field) == Some(value);
    one.len() == other.len() && one.iter().all(same)
}

/// Rules are written for objects of the right shape.
fn blocks_rules(error: &field::Error) -> bool {
    use field::ErrorKind;
    match error.kind {
        ErrorKind::NotSupported
        | ErrorKind::Required
        | ErrorKind::TooLong
        | ErrorKind::TooMany
        | ErrorKind::TypeInvalid => true,
        ErrorKind::NotFound
        | ErrorKind::Duplicate
        | ErrorKind::Invalid
        | ErrorKind::Forbidden
        | ErrorKind::Internal => false,
    }
}

/// Runs `act` with what tracking of managed fields needs to know.
pub(crate) fn with_managed<T>(
    cx: &Cx,
    options: &WriteOptions,
    section: Section,
    act: impl FnOnce(&managed::Context<'_>) -> T,
) -> T {
    let fields = section.fields(&cx.kind);
    act(&managed::Context {
        versions: &KindVersions(&cx.kind),
        api_version: &cx.kind.api_version,
        kind: &cx.kind.kind,
        subresource: section.subresource(),
        manager: &options.field_manager,
        fields: &fields,
        now: cx.now,
    })
}

/// The transaction's guard on the namespace of a new object, which must exist and go on existing;
/// other changes of it are no matter.
pub(crate) fn namespace_guard(
    server: &Inner,
    kind: &Kind,
    about: About<'_>,
    namespace: &str,
) -> Result<Option<(Key, Expect)>, Error> {
    if !kind.namespaced {
        return Ok(None);
    }
    let missing = || {
        Error::not_found(About {
            group: "",
            resource: "namespaces",
            name: namespace,
        })
    };
    let key = Key::new(TENANT, "namespaces", "", namespace).map_err(|_| missing())?;
    let found = server.store.get(&key).ok_or_else(missing)?;
    if found.header().deleting() {
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        return Err(Error::forbidden(about, &why).with_cause(
            "NamespaceTerminating",
            &format!("namespace {namespace} is being terminated"),
            "metadata.namespace",
        ));
    }
    Ok(Some((key, Expect::Alive)))
}

/// The transaction's guard on the definition of a new custom object, which must not be going: it
/// takes its objects with it, and none may come in behind its back.
pub(crate) fn definition_guard(
    server: &Inner,
    kind: &Kind,
    about: About<'_>,
) -> Result<Option<(Key, Expect)>, Error> {
    let Source::Custom(definition) = &kind.source else {
        return Ok(None);
    };
    let key = Key::new(TENANT, follow::DEFINITIONS, "", &definition.name);
    let key = key.map_err(|_| Error::no_such_path())?;
    let found = server.store.get(&key).ok_or_else(Error::no_such_path)?;
    match found.header().deleting() {
        true => {
            let why = "create not allowed while custom resource definition is terminating";
            Err(Error::forbidden(about, why))
        }
        false => Ok(Some((key, Expect::At(found.revision())))),
    }
}

/// Stores, and waits until caches that decide about later requests show it.
///
/// Whoever drops this (the client went away) leaves open whether it is stored; then it is, whole,
/// or it is not, and caches follow the store by themselves. So a request makes one transaction, and
/// does nothing after it that anything but its answer needs.
pub(crate) async fn commit(
    server: &Arc<Inner>,
    kind: &Kind,
    txn: Txn,
) -> Result<Committed, CommitError> {
    let committed = server.store.commit(txn).await?;
    in_force(server, kind, committed.revision).await;
    Ok(committed)
}

/// Waits until caches that decide about later requests show what is stored at this revision. Also
/// for what was found to be stored already: perhaps whoever stored it went away while it waited.
pub(crate) async fn in_force(server: &Inner, kind: &Kind, revision: Revision) {
    if let Some(reach) = server.reach(&kind.collection) {
        reach.reached(revision).await;
    }
    for decider in &server.config.admission {
        let caught_up = decider.caught_up(kind.stored_group(), &kind.plural, revision);
        if let Some(caught_up) = caught_up {
            caught_up.await;
        }
    }
}

/// Patches must not build what nobody could send back. What is being deleted may be larger: the
/// marks of its deletion must not be what keeps it.
pub(crate) fn check_size(server: &Inner, object: &Value, draft: &Draft) -> Result<(), Error> {
    let (len, max) = (draft.bytes.len(), server.config.limits.body);
    match len > max && !meta::is_going(object) {
        true => Err(Error::too_large_object(InvalidTxn::TooLarge { len, max })),
        false => Ok(()),
    }
}

/// Stores a change of one object, provided that it is still as it was read. None if it is not.
pub(crate) async fn commit_change(
    server: &Arc<Inner>,
    kind: &Kind,
    read: &Object,
    op: Op,
) -> Result<Option<Arc<Object>>, Error> {
    let guards = vec![(read.key().clone(), Expect::At(read.revision()))];
    let ops = vec![op];
    match commit(
        server,
        kind,
        Txn {
            guards,
            ops,
            ..Txn::default()
        },
    )
    .await
    {
        Ok(committed) => Ok(committed.objects.into_iter().next()),
        Err(CommitError::Conflict { .. } | CommitError::Missing { .. }) => Ok(None),
        Err(error) => Err(storage_error(&error)),
    }
}

/// What the client hears when storing failed for a reason other than a guard.
pub(crate) fn storage_error(error: &CommitError) -> Error {
    match error {
        CommitError::Conflict { .. } | CommitError::Missing { .. } => {
            Error::unavailable("the object kept changing while the request was carried out")
        }
        CommitError::Invalid(error) => Error::too_large_object(error),
        // Without a time to try again: clients would repeat the write by themselves, and show the
        // answer to the second one, which is refused and never appears.
        CommitError::Unknown { .. } => {
            tracing::debug!(%error, "a write has an unknown outcome");
            Error::gateway_timeout(format!(
                "{error}; it may appear later, so read the object before you write it again"
            ))
        }
        CommitError::Storage { .. } | CommitError::Closed => {
            // The store itself tells the operator, once.
            tracing::debug!(%error, "a write could not be stored");
            Error::unavailable(error.to_string())
        }
    }
}

/// The draft of an object for the store.
pub(crate) fn draft(kind: &Kind, object: &Value) -> Draft {
    if kind.api_version == kind.stored_as {
        return encode::draft(object, kind.write_tag());
    }
    let mut stored = object.clone();
    kind.make_stored(&mut stored);
    encode::draft(&stored, stored_tag(kind))
}

/// Events have one stored form whatever group they come through, so its tag is the core kind's.
fn stored_tag(kind: &Kind) -> u64 {
    match kind.is_custom() {
        true => kind.write_tag(),
        false => crate::fingerprint(&[&kind.stored_as]),
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    #[test]
    fn only_writes_that_never_appear_are_repeated_by_clients() {
        let check = |error: CommitError, code, retry_after| {
            let answer = storage_error(&error);
            assert_eq!((answer.code, answer.retry_after), (code, retry_after));
        };
        let reason: Arc<str> = "moved".into();
        let refused = CommitError::Storage {
            reason: Arc::clone(&reason),
        };
        check(refused, StatusCode::SERVICE_UNAVAILABLE, Some(1));
        let unknown = CommitError::Unknown { reason };
        check(unknown, StatusCode::GATEWAY_TIMEOUT, None);
    }
}
