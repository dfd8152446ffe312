//! `authorizer`: may someone do this? Whoever embeds the language decides, by an [`Authority`].
//!
//! A question is put together call by call (`group`, `resource`, `namespace`, …) and asked by
//! `check`, which costs so much that an expression can ask twice.

use std::fmt;
use std::sync::Arc;

use deltaplane_api::names::{dns_label, dns_subdomain};

use crate::cost::Cost;
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::fault::{Fault, Reason};
use crate::host::Opaque;
use crate::meter::Meter;
use crate::types::Type;
use crate::value::Value;

/// Who decides about access.
pub trait Authority: fmt::Debug + Send + Sync {
    fn decide(&self, question: &Question<'_>) -> Decision;
}

/// May `principal` do `verb` to this?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'q> {
    pub principal: &'q Principal,
    pub verb: &'q str,
    pub target: Target<'q>,
}

/// For whom is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// Whom the authority was made for.
    Caller,
    ServiceAccount {
        namespace: String,
        name: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'q> {
    Path(&'q str),
    Resource(&'q ResourceTarget),
}

/// Objects. What is empty was not said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceTarget {
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub field_selector: String,
    pub label_selector: String,
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub allowed: bool,
    pub reason: String,
    pub error: Option<String>,
}

pub(in crate::library) const TYPES: &[&str] = &[
    AUTHORIZER,
    PATH_CHECK,
    GROUP_CHECK,
    RESOURCE_CHECK,
    DECISION,
];

const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
const DECISION: &str = "kubernetes.authorization.Decision";

/// Allows two checks in the cost of an expression.
const CHECK: Cost = Cost::Fixed(350_000);

pub(in crate::library) const TABLES: &[&[Row]] = &[&[
    Row::new(
        "path",
        "authorizer_path",
        "kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.PathCheck",
        Cost::Unit,
        path,
    ),
    Row::new(
        "group",
        "authorizer_group",
        "kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.GroupCheck",
        Cost::Unit,
        group,
    ),
    Row::new(
        "serviceAccount",
        "authorizer_serviceaccount",
        "kubernetes.authorization.Authorizer.(string, string) -> kubernetes.authorization.Authorizer",
        Cost::Unit,
        service_account,
    ),
    Row::new(
        "resource",
        "groupcheck_resource",
        "kubernetes.authorization.GroupCheck.(string) -> kubernetes.authorization.ResourceCheck",
        Cost::Unit,
        resource,
    ),
    Row::new(
        "subresource",
        "resourcecheck_subresource",
        NARROWER,
        Cost::Unit,
        subresource,
    ),
    Row::new(
        "namespace",
        "resourcecheck_namespace",
        NARROWER,
        Cost::Unit,
        namespace,
    ),
    Row::new("name", "resourcecheck_name", NARROWER, Cost::Unit, name),
    Row::new(
        "fieldSelector",
        "authorizer_fieldselector",
        NARROWER,
        Cost::Selector,
        field_selector,
    ),
    Row::new(
        "labelSelector",
        "authorizer_labelselector",
        NARROWER,
        Cost::Selector,
        label_selector,
    ),
    Row::new(
        "check",
        "pathcheck_check",
        "kubernetes.authorization.PathCheck.(string) -> kubernetes.authorization.Decision",
        CHECK,
        check,
    ),
    Row::new(
        "check",
        "resourcecheck_check",
        "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.Decision",
        CHECK,
        check,
    ),
    Row::new(
        "errored",
        "decision_errored",
        "kubernetes.authorization.Decision.() -> bool",
        Cost::Unit,
        errored,
    ),
    Row::new(
        "error",
        "decision_error",
        "kubernetes.authorization.Decision.() -> string",
        Cost::Unit,
        error,
    ),
    Row::new(
        "allowed",
        "decision_allowed",
        "kubernetes.authorization.Decision.() -> bool",
        Cost::Unit,
        allowed,
    ),
    Row::new(
        "reason",
        "decision_reason",
        "kubernetes.authorization.Decision.() -> string",
        Cost::Unit,
        reason,
    ),
]];

const NARROWER: &str =
    "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck";

/// The value of `authorizer`.
#[derive(Clone, Debug)]
struct Authorizer {
    authority: Arc<dyn Authority>,
    principal: Principal,
}

#[derive(Debug)]
struct PathCheck {
    authorizer: Authorizer,
    path: String,
}

#[derive(Debug)]
struct GroupCheck {
    authorizer: Authorizer,
    group: String,
}

#[derive(Clone, Debug)]
struct ResourceCheck {
    authorizer: Authorizer,
    target: ResourceTarget,
}

impl Value<'static> {
    /// What the variable `authorizer` is bound to.
    pub fn authorizer(authority: Arc<dyn Authority>) -> Self {
        Self::opaque(Authorizer {
            authority,
            principal: Principal::Caller,
        })
    }
}

/// Parts of a question are told apart by their type only: they have no value to compare.
macro_rules! part {
    ($type:ty, $name:expr) => {
        impl Opaque for $type {
            fn ty(&self) -> Type {
                Type::opaque($name)
            }

            fn equals(&self, _: &dyn Opaque) -> Result<bool, Box<Fault>> {
                Err(Fault::failed(Reason::NoSuchOverload(format!(
                    "_==_({})",
                    $name
                ))))
            }
        }
    };
}

part!(Authorizer, AUTHORIZER);
part!(PathCheck, PATH_CHECK);
part!(GroupCheck, GROUP_CHECK);
part!(ResourceCheck, RESOURCE_CHECK);
part!(Decision, DECISION);

/// The part of a question that a call is made on, and its text.
fn on<'v, T: Opaque>(
    function: &str,
    args: &'v [Value<'_>],
) -> Result<(&'v T, &'v str), Box<Fault>> {
    match args {
        [part, Value::String(text)] => part.as_opaque().map(|part| (part, text.as_str())),
        _ => None,
    }
    .ok_or_else(|| no_overload(function, args))
}

fn path<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (authorizer, path) = on::<Authorizer>("path", args)?;
    if path.trim().is_empty() {
        return Err(Fault::invalid("path must not be empty"));
    }
    Ok(Value::opaque(PathCheck {
        authorizer: authorizer.clone(),
        path: path.to_owned(),
    }))
}

fn group<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (authorizer, group) = on::<Authorizer>("group", args)?;
    Ok(Value::opaque(GroupCheck {
        authorizer: authorizer.clone(),
        group: group.to_owned(),
    }))
}

fn service_account<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [authorizer, Value::String(namespace), Value::String(name)] = args else {
        return Err(no_overload("serviceAccount", args));
    };
    let Some(authorizer) = authorizer.as_opaque::<Authorizer>() else {
        return Err(no_overload("serviceAccount", args));
    };
    if !dns_subdomain(name.as_str()).is_empty() {
        return Err(Fault::invalid("Invalid service account name"));
    }
    if !dns_label(namespace.as_str()).is_empty() {
        return Err(Fault::invalid("Invalid service account namespace"));
    }
    Ok(Value::opaque(Authorizer {
        authority: authorizer.authority.clone(),
        principal: Principal::ServiceAccount {
            namespace: namespace.as_str().to_owned(),
            name: name.as_str().to_owned(),
        },
    }))
}

fn resource<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (check, resource) = on::<GroupCheck>("resource", args)?;
    if resource.trim().is_empty() {
        return Err(Fault::invalid("resource must not be empty"));
    }
    Ok(Value::opaque(ResourceCheck {
        authorizer: check.authorizer.clone(),
        target: ResourceTarget {
            group: check.group.clone(),
            resource: resource.to_owned(),
            ..ResourceTarget::default()
        },
    }))
}

/// The question with one thing more said.
fn narrowed<'a>(
    function: &str,
    args: &[Value<'a>],
    part: fn(&mut ResourceTarget) -> &mut String,
) -> Outcome<'a> {
    let (check, text) = on::<ResourceCheck>(function, args)?;
    let mut check = check.clone();
    text.clone_into(part(&mut check.target));
    Ok(Value::opaque(check))
}

fn subresource<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    narrowed("subresource", args, |target| &mut target.subresource)
}

fn namespace<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    narrowed("namespace", args, |target| &mut target.namespace)
}

fn name<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    narrowed("name", args, |target| &mut target.name)
}

fn field_selector<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    narrowed("fieldSelector", args, |target| &mut target.field_selector)
}

fn label_selector<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    narrowed("labelSelector", args, |target| &mut target.label_selector)
}

fn check<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (authorizer, verb, target) = if let Ok((check, verb)) = on::<PathCheck>("check", args) {
        (&check.authorizer, verb, Target::Path(&check.path))
    } else {
        let (check, verb) = on::<ResourceCheck>("check", args)?;
        (&check.authorizer, verb, Target::Resource(&check.target))
    };
    Ok(Value::opaque(authorizer.authority.decide(&Question {
        principal: &authorizer.principal,
        verb,
        target,
    })))
}

fn decision<'v>(function: &str, args: &'v [Value<'_>]) -> Result<&'v Decision, Box<Fault>> {
    match args {
        [decision] => decision.as_opaque(),
        _ => None,
    }
    .ok_or_else(|| no_overload(function, args))
}

fn allowed<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(decision("allowed", args)?.allowed))
}

fn reason<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::string(decision("reason", args)?.reason.as_str()))
}

fn errored<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(decision("errored", args)?.error.is_some()))
}

fn error<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let error = decision("error", args)?.error.as_deref();
    Ok(Value::string(error.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::decl::{Absent, Decl};
    use crate::env::{Builder, Env, Options};
    use crate::eval::{Bindings, Eval};
    use crate::library::Library;
    use crate::meter::Budget;

    /// Allows what is in `prod`, and remembers what it was asked.
    #[derive(Debug, Default)]
    struct Prod {
        asked: Mutex<Vec<String>>,
    }

    impl Authority for Prod {
        fn decide(&self, question: &Question<'_>) -> Decision {
            self.asked.lock().unwrap().push(format!("{question:?}"));
            let allowed = match question.target {
                Target::Path(path) => path == "/healthz",
                Target::Resource(target) => target.namespace == "prod",
            };
            Decision {
                allowed,
                reason: if allowed { "it is prod" } else { "" }.to_owned(),
                error: (question.verb == "break").then(|| "broken".to_owned()),
            }
        }
    }

    fn environment() -> Env {
        let decl = Decl::of_type(Type::opaque(AUTHORIZER), Absent::Fails);
        Builder::new(Options::default())
            .library(Library::Standard)
            .library(Library::Authorizer)
            .build()
            .with_variables([("authorizer".to_owned(), decl)])
    }

    /// What comes out, what it costs, and what was asked.
    fn eval(source: &str) -> (String, u64, Vec<String>) {
        let env = environment();
        let program = crate::compile(source, &env).unwrap();
        let prod = Arc::new(Prod::default());
        let mut bindings = Bindings::new(&env);
        bindings.set(
            env.slot("authorizer").unwrap(),
            Value::authorizer(prod.clone()),
        );
        let mut meter = Meter::new(Budget::default());
        let shown = match program.eval_metered(&bindings, &mut meter) {
            Eval::Value(value) => format!("{:?}", value.to_json(&mut meter).unwrap()),
            Eval::Failed(failure) => failure.reason.to_string(),
            other @ (Eval::Waiting(_) | Eval::Stopped(_)) => format!("{other:?}"),
        };
        let asked = prod.asked.lock().unwrap().clone();
        (shown, meter.cost(), asked)
    }

    #[test]
    fn questions_are_put_together_and_asked() {
        let (shown, cost, asked) = eval(
            "authorizer.group('apps').resource('deployments').subresource('scale')\
             .namespace('prod').name('web').check('update').allowed()",
        );
        assert_eq!((shown.as_str(), cost), ("Bool(true)", 350_007));
        assert_eq!(asked.len(), 1);
        for part in [
            "Caller",
            "apps",
            "deployments",
            "scale",
            "prod",
            "web",
            "update",
        ] {
            assert!(asked[0].contains(part), "{part}: {asked:?}");
        }
        let ask = |source| eval(source).0;
        assert_eq!(
            ask("authorizer.path('/healthz').check('get').reason()"),
            "String(\"it is prod\")"
        );
        assert_eq!(
            ask("authorizer.path('/x').check('get').allowed()"),
            "Bool(false)"
        );
        assert_eq!(
            ask("authorizer.path('/x').check('break').errored()"),
            "Bool(true)"
        );
        assert_eq!(
            ask("authorizer.path('/x').check('break').error()"),
            "String(\"broken\")"
        );
        assert_eq!(
            ask("authorizer.path('/x').check('get').error()"),
            "String(\"\")"
        );
    }

    #[test]
    fn accounts_and_selectors_are_part_of_the_question() {
        let (_, _, asked) = eval(
            "authorizer.serviceAccount('prod', 'robot').group('').resource('pods')\
             .fieldSelector('spec.nodeName=a').labelSelector('app=b').check('list').allowed()",
        );
        for part in ["robot", "spec.nodeName=a", "app=b"] {
            assert!(asked[0].contains(part), "{part}: {asked:?}");
        }
    }

    #[test]
    fn questions_that_cannot_be_asked_are_errors() {
        for (source, why) in [
            (
                "authorizer.path(' ').check('get').allowed()",
                "path must not be empty",
            ),
            (
                "authorizer.group('').resource('').check('get').allowed()",
                "resource must not be empty",
            ),
            (
                "authorizer.serviceAccount('a', 'B').path('/x').check('get').allowed()",
                "Invalid service account name",
            ),
            (
                "authorizer.serviceAccount('a.b', 'b').path('/x').check('get').allowed()",
                "Invalid service account namespace",
            ),
        ] {
            let (shown, _, asked) = eval(source);
            assert!(shown.contains(why), "{source}: {shown}");
            assert!(asked.is_empty());
        }
    }

    #[test]
    fn nobody_asks_three_times() {
        let check = "authorizer.path('/x').check('get').allowed()";
        let (shown, cost, asked) = eval(&[check; 3].join(" || "));
        assert_eq!((cost, asked.len()), (Budget::default().cost, 3));
        assert!(shown.contains("Stopped"), "{shown}");
    }
}
