//! A policy that can be decided by: all of it is checked, once.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_api::selector::{LabelSelector, MAX_TERMS, terms};
use deltaplane_expr::{Absent, Decl, Duration, Timestamp};
use serde_json::{Map, Value as Json};

use super::problem::Problem;
use super::record::Class;
use super::share::Share;
use super::situation::{Labels, labels, selects};
use super::spec::{
    ApprovalSpec, BudgetSpec, NoEvidence, OnFailure, OnNewer, OverrideSpec, PolicySpec, StageSpec,
    TargetSpec, WindowSpec,
};
use crate::gate::{Gate, GateProblems};
use crate::order::Order;
use crate::scope::Scope;
use crate::window::{Calendar, CalendarSpec};
use crate::world::Window;

/// A policy, compiled.
#[derive(Debug)]
pub struct Policy {
    pub targets: Vec<Targets>,
    pub zones: LabelSelector,
    pub overrides: Vec<Override>,
    pub stages: Vec<Stage>,
    windows: BTreeMap<String, Calendar>,
    pub on_failure: OnFailure,
    pub on_newer: OnNewer,
    pub budget: BudgetSpec,
    pub paused: bool,
}

/// Objects that are governed, or that an override is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets {
    pub group: String,
    pub kind: String,
    names: BTreeSet<String>,
    selector: LabelSelector,
    /// The selector as it is written.
    pub labels: Json,
    pub ready_when: Vec<String>,
}

/// What is different in some zones.
#[derive(Clone, Debug)]
pub struct Override {
    pub zones: LabelSelector,
    pub targets: Vec<Targets>,
    pub patch: Json,
}

/// A stage, compiled.
#[derive(Debug)]
pub struct Stage {
    pub name: String,
    pub zones: LabelSelector,
    pub gate: Gate,
    pub order: Option<Order>,
    pub ready_when: Vec<String>,
    pub soak: Duration,
    pub max_failures: Share,
    pub deadline: Duration,
    pub approval: Approval,
    pub no_evidence: NoEvidence,
    pub paused: bool,
}

/// Whose yes a stage needs.
pub type Approval = ApprovalSpec;

/// Whoever is not ready after so long has failed, or lost its place if it is away.
const DEADLINE: &str = "10m";
/// So many stages can be told apart by a person.
const STAGES: usize = 64;
/// And so many of what is written in them.
const TARGETS: usize = 128;
const NAMES: usize = 1000;
const EXPRESSIONS: usize = 16;
const OPERATIONS: usize = 256;
/// All expressions of a policy: all are compiled whenever it changes.
const ALL_EXPRESSIONS: usize = 256;
/// The requirements and values of all selectors: objects and zones are compared with them.
const SELECTOR_TERMS: usize = 2 * MAX_TERMS;

/// What is more than anybody needs, found before any of it is looked at: whoever writes it must
/// not keep others waiting.
fn limits(spec: &PolicySpec) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (what, count, most) in [
        ("expressions", expressions(spec), ALL_EXPRESSIONS),
        ("selector terms", selector_terms(spec), SELECTOR_TERMS),
    ] {
        if count > most {
            let message = format!("there are {count} {what} in all, and at most {most} may be");
            problems.push(Problem::new("spec", message).hint("make several policies of it"));
        }
    }
    let mut check = |path: String, count: usize, most: usize| {
        if count > most {
            let message = format!("there are {count}, and at most {most} may be");
            problems.push(Problem::new(path, message).hint("make several policies of it"));
        }
    };
    check("spec.stages".to_owned(), spec.stages.len(), STAGES);
    check("spec.targets".to_owned(), spec.targets.len(), TARGETS);
    check("spec.windows".to_owned(), spec.windows.len(), STAGES);
    check(
        "spec.overrides".to_owned(),
        spec.overrides.len(),
        Class::MOST,
    );
    for (place, stage) in spec.stages.iter().enumerate().take(STAGES) {
        let of = |field: &str| format!("spec.stages[{place}].{field}");
        check(of("propagateWhen"), stage.propagate_when.len(), EXPRESSIONS);
        check(of("readyWhen"), stage.ready_when.len(), EXPRESSIONS);
    }
    for (place, target) in spec.targets.iter().enumerate().take(TARGETS) {
        let of = |field: &str| format!("spec.targets[{place}].{field}");
        check(of("names"), target.names.len(), NAMES);
        check(of("readyWhen"), target.ready_when.len(), EXPRESSIONS);
    }
    for (place, one) in spec.overrides.iter().enumerate().take(Class::MOST) {
        let path = format!("spec.overrides[{place}].patch");
        check(path, one.patch.as_array().map_or(0, Vec::len), OPERATIONS);
    }
    problems
}

fn expressions(spec: &PolicySpec) -> usize {
    let stages = spec.stages.iter();
    let stages = stages.map(|one| {
        one.propagate_when.len() + one.ready_when.len() + usize::from(one.order_by.is_some())
    });
    let targets = spec.targets.iter().map(|one| one.ready_when.len());
    stages.chain(targets).sum()
}

fn selector_terms(spec: &PolicySpec) -> usize {
    let stages = spec.stages.iter().map(|one| &one.zones);
    let overrides = spec.overrides.iter();
    let overridden = overrides.clone().flat_map(|one| &one.targets);
    let targets = spec.targets.iter().chain(overridden);
    let all = [&spec.zones].into_iter().chain(stages);
    let all = all.chain(overrides.map(|one| &one.zones));
    let all = all.chain(targets.map(|one| &one.selector));
    all.flatten().map(terms).sum()
}

// === impl Policy ===

impl Policy {
    /// Checks all of a policy, and says all that is wrong with it.
    pub fn compile(spec: &PolicySpec) -> Result<Self, Vec<Problem>> {
        let mut problems = limits(spec);
        if !problems.is_empty() {
            return Err(problems);
        }
        let windows = windows(&spec.windows, &mut problems);
        // A window that is not valid is said once, and not again by each gate that asks for it.
        let names: Vec<&str> = spec.windows.iter().map(|one| one.name.as_str()).collect();
        let policy = Self {
            targets: all_targets("spec.targets", &spec.targets, &mut problems),
            zones: selector("spec.zones", spec.zones.as_ref(), &mut problems),
            overrides: overrides(&spec.overrides, &mut problems),
            stages: stages(&spec.stages, &names, &mut problems),
            on_failure: spec.on_failure,
            on_newer: spec.on_newer,
            budget: budget(spec.deletion_budget, &mut problems),
            paused: spec.paused,
            windows,
        };
        if policy.targets.is_empty() {
            let problem = Problem::new("spec.targets", "it governs nothing");
            problems.push(problem.hint("name at least one kind"));
        }
        match problems.is_empty() {
            true => Ok(policy),
            false => Err(problems),
        }
    }

    /// The targets that an object is among, if it is among any.
    pub fn target(&self, object: &Object<'_>) -> Option<&Targets> {
        self.targets.iter().find(|targets| targets.include(object))
    }

    /// Whether a zone is the policy's business.
    pub fn selects(&self, zone: &Map<String, Json>) -> bool {
        selects(&self.zones, labels(zone))
    }

    /// The first stage that a zone is of.
    pub fn stage_of(&self, zone: &Map<String, Json>) -> Option<usize> {
        self.stage_with(labels(zone))
    }

    pub(super) fn stage_with(&self, labels: Labels<'_>) -> Option<usize> {
        let mut stages = self.stages.iter();
        stages.position(|stage| selects(&stage.zones, labels))
    }

    /// All stages whose selectors are for a zone: more than one is a mistake.
    pub fn stages_of(&self, zone: &Map<String, Json>) -> impl Iterator<Item = &Stage> {
        let (stages, labels) = (self.stages.iter(), labels(zone));
        stages.filter(move |stage| selects(&stage.zones, labels))
    }

    pub(crate) fn window(&self, name: &str, now: Timestamp) -> Window {
        match self.windows.get(name) {
            Some(calendar) => calendar.at(now),
            None => Window {
                open: false,
                edge: None,
            },
        }
    }

    /// How many of so many a release may take away without approval: the larger of both, where
    /// both are given.
    pub fn may_remove(&self, of: u64) -> u64 {
        self.budget.allowed(of)
    }
}

/// An object, as far as targets go.
#[derive(Clone, Copy, Debug)]
pub struct Object<'a> {
    pub group: &'a str,
    pub kind: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    pub object: &'a Map<String, Json>,
}

// === impl Targets ===

impl Targets {
    /// Of what can be read of it: what is wrong is said when a policy is written.
    pub fn of(specs: &[TargetSpec]) -> Vec<Self> {
        all_targets("spec.targets", specs, &mut Vec::new())
    }

    /// As they are written in a policy, or in a release. None if this version cannot tell which
    /// objects they include: a selector that cannot be read is not one that selects everything.
    pub fn read(written: &Json) -> Option<Vec<Self>> {
        let specs: Vec<TargetSpec> = serde_json::from_value(written.clone()).ok()?;
        let is_readable = |spec: &TargetSpec| {
            let mut selectors = spec.selector.iter();
            let is_readable = selectors.all(|one| LabelSelector::from_object(one).is_some());
            !spec.kind.is_empty() && is_readable
        };
        specs.iter().all(is_readable).then(|| Self::of(&specs))
    }

    pub fn include(&self, object: &Object<'_>) -> bool {
        self.may_include(object) && selects(&self.selector, labels(object.object))
    }

    /// Returns true if an object is among these, whatever its labels are.
    pub fn may_include(&self, object: &Object<'_>) -> bool {
        self.group == object.group && self.kind == object.kind && self.names(object)
    }

    fn names(&self, object: &Object<'_>) -> bool {
        let whole = || format!("{}/{}", object.namespace, object.name);
        self.names.is_empty() || self.names.contains(object.name) || self.names.contains(&whole())
    }

    /// The names that are given, if any are.
    pub fn given(&self) -> &BTreeSet<String> {
        &self.names
    }
}

fn all_targets(path: &str, specs: &[TargetSpec], problems: &mut Vec<Problem>) -> Vec<Targets> {
    let one = |(index, spec): (usize, &TargetSpec)| {
        let path = format!("{path}[{index}]");
        if spec.kind.is_empty() {
            problems.push(Problem::new(format!("{path}.kind"), "a kind is needed"));
        }
        for (index, text) in spec.ready_when.iter().enumerate() {
            let path = format!("{path}.readyWhen[{index}]");
            problems.extend(ready_when(&path, text));
        }
        let at = format!("{path}.selector");
        Targets {
            group: spec.group.clone(),
            kind: spec.kind.clone(),
            names: spec.names.iter().cloned().collect(),
            selector: selector(&at, spec.selector.as_ref(), problems),
            labels: spec.selector.clone().unwrap_or_default(),
            ready_when: spec.ready_when.clone(),
        }
    };
    specs.iter().enumerate().map(one).collect()
}

/// Expressions that zones evaluate are checked here, where somebody reads it.
fn ready_when(path: &str, text: &str) -> Vec<Problem> {
    let scope = Scope::new(Decl::dynamic(Absent::Waits).clone(), &["object"]);
    match Gate::compile(&[text], scope) {
        Ok(_) => Vec::new(),
        Err(found) => gate_problems(path, &found, false),
    }
}

fn gate_problems(path: &str, found: &GateProblems, indexed: bool) -> Vec<Problem> {
    let one = |problem: &crate::gate::GateProblem| {
        let at = problem.span.position(&problem.text);
        let path = match indexed {
            true => format!("{path}[{}]", problem.index),
            false => path.to_owned(),
        };
        let message = format!(
            "{} at {}:{} of {:?}",
            problem.message,
            at.line,
            at.column + 1,
            problem.text
        );
        let problem_at = Problem::new(path, message);
        match problem.expected.is_empty() {
            true => problem_at,
            false => problem_at.hint(format!("one of: {}", problem.expected.join(", "))),
        }
    };
    found.0.iter().map(one).collect()
}

fn selector(path: &str, given: Option<&Json>, problems: &mut Vec<Problem>) -> LabelSelector {
    let Some(given) = given else {
        return LabelSelector::default();
    };
    LabelSelector::from_object(given).unwrap_or_else(|| {
        let problem = Problem::new(path, "this is no selector");
        problems.push(problem.hint(
            "matchLabels, and matchExpressions with In, NotIn (and values), Exists, DoesNotExist",
        ));
        LabelSelector::default()
    })
}

fn overrides(specs: &[OverrideSpec], problems: &mut Vec<Problem>) -> Vec<Override> {
    let one = |(index, spec): (usize, &OverrideSpec)| {
        let path = format!("spec.overrides[{index}]");
        problems.extend(patch_problems(&format!("{path}.patch"), &spec.patch));
        Override {
            zones: selector(&format!("{path}.zones"), spec.zones.as_ref(), problems),
            targets: all_targets(&format!("{path}.targets"), &spec.targets, problems),
            patch: spec.patch.clone(),
        }
    };
    specs.iter().enumerate().map(one).collect()
}

/// What an override may not change: what an object is called, and what is not the user's.
const KEPT: [&str; 5] = [
    "/apiVersion",
    "/kind",
    "/metadata/name",
    "/metadata/namespace",
    "/status",
];

fn patch_problems(path: &str, patch: &Json) -> Vec<Problem> {
    let Some(operations) = patch.as_array() else {
        let problem = Problem::new(path, "a patch is a list of operations");
        return vec![problem.hint("such as [{op: replace, path: /spec/replicas, value: 3}]")];
    };
    let mut problems = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let needs: &[&str] = match operation["op"].as_str() {
            Some("add" | "replace" | "test") => &["path", "value"],
            Some("remove") => &["path"],
            Some("move" | "copy") => &["path", "from"],
            Some(_) | None => {
                let problem = Problem::new(format!("{path}.op"), "this is no operation");
                problems.push(problem.hint("one of: add, remove, replace, move, copy, test"));
                continue;
            }
        };
        for need in needs.iter().filter(|need| operation.get(**need).is_none()) {
            problems.push(Problem::new(format!("{path}.{need}"), "it is missing"));
        }
        // What is copied stays where it is.
        let moves = operation["op"] == "move";
        problems.extend(pointer_problem(
            format!("{path}.path"),
            &operation["path"],
            true,
        ));
        problems.extend(pointer_problem(
            format!("{path}.from"),
            &operation["from"],
            moves,
        ));
    }
    problems
}

/// What is wrong with a place in an object, which may be `changed` or only read.
fn pointer_problem(at: String, pointer: &Json, changed: bool) -> Option<Problem> {
    if pointer.is_null() {
        return None;
    }
    let text = pointer.as_str().filter(|text| is_pointer(text));
    let Some(text) = text else {
        let problem = Problem::new(at, format!("{pointer} is no place in an object"));
        return Some(problem.hint("begin with a slash: /spec/replicas"));
    };
    let within = |outer: &str, inner: &str| {
        let rest = inner.strip_prefix(outer);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let is_kept = |kept: &str| within(kept, text) || within(text, kept);
    let kept = KEPT.into_iter().find(|kept| changed && is_kept(kept))?;
    let problem = Problem::new(at, format!("overrides cannot change {kept}"));
    Some(problem)
}

/// Whether it can be read (RFC 6901): `~` stands for `~0`, and `/` for `~1`.
fn is_pointer(text: &str) -> bool {
    let mut escaped = text.split('~').skip(1);
    text.starts_with('/') && escaped.all(|rest| rest.starts_with(['0', '1']))
}

fn windows(specs: &[WindowSpec], problems: &mut Vec<Problem>) -> BTreeMap<String, Calendar> {
    let mut windows = BTreeMap::new();
    for (index, spec) in specs.iter().enumerate() {
        let path = format!("spec.windows[{index}]");
        let source = CalendarSpec {
            rrule: &spec.rrule,
            duration: &spec.duration,
            time_zone: spec.time_zone.as_deref(),
            start: spec.start.as_deref(),
        };
        match Calendar::compile(&source) {
            Ok(calendar) => {
                if windows.insert(spec.name.clone(), calendar).is_some() {
                    let message = format!("there are two windows {:?}", spec.name);
                    problems.push(Problem::new(format!("{path}.name"), message));
                }
            }
            Err(found) => problems.extend(found.0.into_iter().map(|one| Problem {
                path: format!("{path}.{}", one.field),
                message: one.message,
                hint: Some(one.hint),
            })),
        }
    }
    windows
}

fn budget(given: Option<BudgetSpec>, problems: &mut Vec<Problem>) -> BudgetSpec {
    let budget = given.unwrap_or_default();
    if budget.percent.is_some_and(|percent| percent > 100) {
        let path = "spec.deletionBudget.percent";
        problems.push(Problem::new(path, "it is more than 100"));
    }
    budget
}

fn stages(specs: &[StageSpec], windows: &[&str], problems: &mut Vec<Problem>) -> Vec<Stage> {
    let usual = [StageSpec::all()];
    let specs = if specs.is_empty() { &usual } else { specs };
    let mut seen = BTreeSet::new();
    let mut stages = Vec::new();
    for (index, spec) in specs.iter().enumerate() {
        let path = format!("spec.stages[{index}]");
        if !seen.insert(spec.name.as_str()) || spec.name.is_empty() {
            let message = format!("a stage needs a name of its own, and not {:?}", spec.name);
            problems.push(Problem::new(format!("{path}.name"), message));
        }
        stages.extend(stage(&path, spec, windows, problems));
    }
    stages
}

/// What the expressions of a stage may name.
fn scope(windows: &[&str]) -> Scope {
    let data = || Decl::dynamic(Absent::Waits).clone();
    Scope::new(data(), &["zone"])
        .collection(&["zones"])
        .data("release", data())
        .windows(windows)
}

fn stage(
    path: &str,
    spec: &StageSpec,
    windows: &[&str],
    problems: &mut Vec<Problem>,
) -> Option<Stage> {
    let at = |field: &str| format!("{path}.{field}");
    let gate = Gate::compile(&spec.propagate_when, scope(windows));
    let gate = gate.map_err(|found| {
        problems.extend(gate_problems(&at("propagateWhen"), &found, true));
    });
    let order = spec.order_by.as_deref().map(|text| {
        let order = Order::compile(text, &scope(windows));
        order.map_err(|found| problems.extend(gate_problems(&at("orderBy"), &found, false)))
    });
    for (index, text) in spec.ready_when.iter().enumerate() {
        problems.extend(ready_when(&format!("{path}.readyWhen[{index}]"), text));
    }
    let failures = spec.max_failures.as_ref().map(|given| {
        Share::read(given).unwrap_or_else(|| {
            let problem = Problem::new(at("maxFailures"), format!("{given} is no number of zones"));
            problems.push(problem.hint("a number, or a share such as 5%"));
            Share::Count(0)
        })
    });
    let zones = selector(&at("zones"), spec.zones.as_ref(), problems);
    let soak = duration(&at("soak"), spec.soak.as_deref().unwrap_or("0s"), problems);
    let deadline = spec.progress_deadline.as_deref().unwrap_or(DEADLINE);
    let none = Duration::parse(deadline) == Some(Duration::from_nanos(0));
    let deadline = duration(&at("progressDeadline"), deadline, problems);
    if none {
        let problem = Problem::new(at("progressDeadline"), "nobody is ready in no time");
        problems.push(problem.hint(format!("leave it out for {DEADLINE}")));
    }
    Some(Stage {
        name: spec.name.clone(),
        zones,
        gate: gate.ok()?,
        order: order.transpose().ok()?,
        ready_when: spec.ready_when.clone(),
        soak,
        max_failures: failures.unwrap_or(Share::Count(0)),
        deadline,
        approval: spec.approval,
        no_evidence: spec.when_no_evidence,
        paused: spec.paused,
    })
}

fn duration(path: &str, text: &str, problems: &mut Vec<Problem>) -> Duration {
    let parsed = Duration::parse(text).filter(|duration| duration.nanos() >= 0);
    parsed.unwrap_or_else(|| {
        let problem = Problem::new(path, format!("{text:?} is no span of time"));
        problems.push(problem.hint("such as 90s, 10m, 1h30m"));
        Duration::from_nanos(0)
    })
}

// === impl StageSpec ===

impl StageSpec {
    /// Without stages all zones are one.
    fn all() -> Self {
        Self {
            name: "all".to_owned(),
            zones: None,
            propagate_when: Vec::new(),
            ready_when: Vec::new(),
            order_by: None,
            soak: None,
            max_failures: None,
            progress_deadline: None,
            approval: ApprovalSpec::None,
            when_no_evidence: NoEvidence::Hold,
            paused: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn expressions_and_selectors_are_bounded_in_all() {
        let stage =
            |name: usize| json!({"name": name.to_string(), "propagateWhen": vec!["nonsense("; 16]});
        let selector = |count: usize| {
            let absent = json!({"key": "x", "operator": "DoesNotExist"});
            json!({"kind": "ConfigMap", "selector": {"matchExpressions": vec![absent; count]}})
        };
        let spec = json!({
            "targets": [selector(2000), selector(2000)],
            "zones": {"matchLabels": {"a": "b"}},
            "stages": (0..17).map(stage).collect::<Vec<_>>(),
        });
        let spec: PolicySpec = serde_json::from_value(spec).expect("a spec");
        let problems = Policy::compile(&spec).expect_err("too much");
        let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let hint = "(make several policies of it)";
        assert_eq!(
            said,
            [
                format!("spec: there are 272 expressions in all, and at most 256 may be {hint}"),
                format!(
                    "spec: there are 4001 selector terms in all, and at most 4000 may be {hint}"
                ),
            ]
        );
    }

    #[test]
    fn what_is_too_much_is_said_before_it_is_looked_at() {
        // Nothing of it would compile, which nobody looks at.
        let stage = |name: usize, gates: usize| json!({"name": name.to_string(), "propagateWhen": vec!["nonsense("; gates]});
        let stages: Vec<_> = (0..65)
            .map(|name| stage(name, 17 * usize::from(name == 3)))
            .collect();
        let spec = json!({
            "targets": [{"kind": "ConfigMap", "names": vec!["a"; 1001]}],
            "overrides": [{"patch": vec![json!({"op": "remove", "path": "/a"}); 257]}],
            "stages": stages,
        });
        let spec: PolicySpec = serde_json::from_value(spec).expect("a spec");
        let problems = Policy::compile(&spec).expect_err("too much");
        let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let hint = "(make several policies of it)";
        assert_eq!(
            said,
            [
                format!("spec.stages: there are 65, and at most 64 may be {hint}"),
                format!("spec.stages[3].propagateWhen: there are 17, and at most 16 may be {hint}"),
                format!("spec.targets[0].names: there are 1001, and at most 1000 may be {hint}"),
                format!("spec.overrides[0].patch: there are 257, and at most 256 may be {hint}"),
            ]
        );
    }

    /// What is wrong with a policy for ConfigMaps.
    fn problems(more: &Json) -> Vec<String> {
        let mut spec = json!({"targets": [{"kind": "ConfigMap"}]});
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        let spec: PolicySpec = serde_json::from_value(spec).expect("a spec");
        let problems = Policy::compile(&spec).err().unwrap_or_default();
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_override_leaves_an_object_what_it_is() {
        let kept = |field: &str, kept: &str| {
            let at = format!("spec.overrides[0].patch[0].{field}");
            format!("{at}: overrides cannot change {kept}")
        };
        let nowhere = |field: &str, pointer: &str| {
            let at = format!("spec.overrides[0].patch[0].{field}");
            let hint = "(begin with a slash: /spec/replicas)";
            format!("{at}: {pointer} is no place in an object {hint}")
        };
        let name = "/metadata/name";
        for (operation, expected) in [
            (
                json!({"op": "remove", "path": "/metadata"}),
                Some(kept("path", name)),
            ),
            (
                json!({"op": "replace", "path": "/kind", "value": "A"}),
                Some(kept("path", "/kind")),
            ),
            (
                json!({"op": "move", "from": name, "path": "/data/a"}),
                Some(kept("from", name)),
            ),
            (json!({"op": "copy", "from": name, "path": "/data/a"}), None),
            (json!({"op": "remove", "path": "/metadata/names"}), None),
            (json!({"op": "remove", "path": "/data/a~1b~0c"}), None),
            (
                json!({"op": "remove", "path": "/data/a~x"}),
                Some(nowhere("path", "\"/data/a~x\"")),
            ),
            (
                json!({"op": "remove", "path": 5}),
                Some(nowhere("path", "5")),
            ),
            (
                json!({"op": "remove", "path": "data"}),
                Some(nowhere("path", "\"data\"")),
            ),
        ] {
            let told = problems(&json!({"overrides": [{"patch": [operation]}]}));
            assert_eq!(told, expected.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_window_that_is_not_valid_is_said_once() {
        let window = json!({"name": "night", "rrule": "FREQ=SOMETIMES", "duration": "1h"});
        let gate = "window('night')";
        let stages = json!([
            {"name": "a", "propagateWhen": [gate, format!("!{gate}")]},
            {"name": "b", "propagateWhen": [gate]},
        ]);
        let said = problems(&json!({"windows": [window], "stages": stages}));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("spec.windows[0].rrule"), "{said:?}");
        // One that is not there is.
        let said = problems(&json!({"stages": [{"name": "a", "propagateWhen": [gate]}]}));
        assert_eq!(said.len(), 1, "{said:?}");
    }

    #[test]
    fn a_deadline_is_later() {
        let deadline =
            |text: &str| problems(&json!({"stages": [{"name": "all", "progressDeadline": text}]}));
        let said =
            "spec.stages[0].progressDeadline: nobody is ready in no time (leave it out for 10m)";
        assert_eq!(deadline("0s"), [said]);
        assert_eq!(deadline("soon").len(), 1);
        assert_eq!(deadline("1s"), [""; 0]);
    }
}
