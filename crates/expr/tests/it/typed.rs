//! Random expressions of a wanted type, as text.
//!
//! Calls come from the environment's own table of overloads: a function that is added to a library
//! is generated without a change here.
//!
//! Two things that the checker accepts, as cel-go's does, are never written, for they fail for
//! their types: null where a time, an optional, an object or a value of a library is wanted
//! (`null` is only ever wanted as itself), and keys of maps that are no keys (`{1.5: 0}`).
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what is made of most types is made in one way"
)]

use deltaplane_expr::Type;
use deltaplane_expr::env::Overload;
use deltaplane_expr::syntax::{quote, quote_bytes};
use deltaplane_expr::types::Signature;

use crate::choices::Choices;
use crate::outcome::has_dyn;
use crate::world::World;

/// Writes expressions.
pub(crate) struct Writer<'a> {
    choices: &'a mut Choices,
    world: &'a World,
    /// What can be read: variables, and the ways from them.
    reads: Vec<Read>,
    /// How many variables of macros there are, for their names.
    locals: usize,
    /// How many more parts may have parts themselves.
    left: usize,
    /// Whether `dyn` may be written, and what takes it may be called.
    dynamic: bool,
    /// Marks constants, for [`constants`].
    marked: bool,
    /// Leaves out what Kubernetes estimates too low, see [`Writer::estimable`].
    estimable: bool,
}

/// Something that can be read.
struct Read {
    text: String,
    ty: Type,
    /// What it is selected from, and the field.
    selected: Option<(String, String)>,
}

/// Which macro, and how it is written.
#[derive(Clone, Copy)]
struct Form {
    name: &'static str,
    /// Whether it has two variables.
    two: bool,
    /// Whether it leaves out some of what it goes through.
    filtered: bool,
}

/// How deep expressions nest.
const DEPTH: usize = 5;
/// How many parts of an expression have parts themselves.
const PARTS: usize = 24;

const KEYS: [Type; 4] = [Type::String, Type::Int, Type::Uint, Type::Bool];
const PLAIN: [Type; 9] = [
    Type::Bool,
    Type::Int,
    Type::String,
    Type::Double,
    Type::Uint,
    Type::Bytes,
    Type::Timestamp,
    Type::Duration,
    Type::Null,
];

/// What [`Writer::constants_only`] puts around constants. Neither can be part of an expression.
const OPENING: char = '⟦';
const CLOSING: char = '⟧';

impl<'a> Writer<'a> {
    pub(crate) fn new(choices: &'a mut Choices, world: &'a World) -> Self {
        let mut writer = Self {
            choices,
            world,
            reads: Vec::new(),
            locals: 0,
            left: PARTS,
            dynamic: false,
            marked: false,
            estimable: false,
        };
        for variable in world.env.variables() {
            writer.declare(&variable.name, variable.decl.ty());
        }
        writer
    }

    /// One that may write `dyn`.
    pub(crate) fn dynamic(choices: &'a mut Choices, world: &'a World) -> Self {
        Self {
            dynamic: true,
            ..Self::new(choices, world)
        }
    }

    /// One that reads no variables, and marks its constants.
    pub(crate) fn constants_only(choices: &'a mut Choices, world: &'a World) -> Self {
        Self {
            reads: Vec::new(),
            marked: true,
            ..Self::new(choices, world)
        }
    }

    /// One that reads `self` and nothing else, and writes what Kubernetes' estimate is meant to
    /// bound. See [`is_underestimated`].
    pub(crate) fn estimable(choices: &'a mut Choices, world: &'a World) -> Self {
        let mut writer = Self {
            estimable: true,
            ..Self::new(choices, world)
        };
        writer.reads.retain(|read| read.text.starts_with("self"));
        writer
    }

    /// An expression of some type.
    pub(crate) fn any(&mut self) -> String {
        let ty = self.some_type(2);
        self.write(&ty, DEPTH)
    }

    /// An expression of a type.
    pub(crate) fn of(&mut self, ty: &Type) -> String {
        self.write(ty, DEPTH)
    }

    /// A call of an overload.
    pub(crate) fn calling(&mut self, overload: &Overload) -> String {
        let signature = overload.signature();
        let args = self.arguments(signature, Parameters::default(), 1);
        written(overload.function(), signature.member, &args)
    }

    /// A macro that goes through something.
    pub(crate) fn going_through(&mut self) -> String {
        let (inner, key) = (self.some_type(1), self.choices.pick(&KEYS).clone());
        let ty = match self.choices.below(4) {
            0 => Type::Bool,
            1 => Type::list(inner),
            2 => Type::map(key, inner),
            _ => Type::optional(inner),
        };
        self.fold(&ty, 1).expect("there are macros for each")
    }

    fn write(&mut self, ty: &Type, depth: usize) -> String {
        if depth == 0 || self.left == 0 {
            return self.leaf(ty);
        }
        self.left -= 1;
        let depth = depth - 1;
        let written = match self.choices.below(9) {
            0 => None,
            1..=3 => self.call(ty, depth, |_| true),
            4 => self.call(ty, depth, |name| matches!(name, "_[_]" | "_[?_]")),
            5 | 6 => self.fold(ty, depth),
            7 => self.selection(ty),
            _ => self.binding(ty, depth),
        };
        written.unwrap_or_else(|| self.leaf(ty))
    }

    /// Something that is read, or a constant.
    fn leaf(&mut self, ty: &Type) -> String {
        let constant = self.choices.once_in(3) && !matches!(ty, Type::Object(_));
        let read = if constant { None } else { self.read(ty) };
        read.unwrap_or_else(|| self.constant(ty))
    }

    /// Something of the type that is read, if there is any: often what was declared last, which
    /// is a macro's variable in the macro.
    fn read(&mut self, ty: &Type) -> Option<String> {
        let fitting: Vec<&Read> = self.reads.iter().filter(|read| read.ty == *ty).collect();
        let last = fitting.last()?;
        let read = match self.choices.once_in(2) {
            true => last,
            false => self.choices.pick(&fitting),
        };
        Some(read.text.clone())
    }

    fn declare(&mut self, name: &str, ty: &Type) {
        reachable(name.to_owned(), ty, None, 4, &mut self.reads);
    }

    /// Writes something that sees new variables.
    fn scoped(
        &mut self,
        variables: &[(&str, &Type)],
        inner: impl FnOnce(&mut Self) -> String,
    ) -> String {
        let depth = self.reads.len();
        for (name, ty) in variables {
            self.declare(name, ty);
        }
        let written = inner(self);
        self.reads.truncate(depth);
        written
    }

    fn local(&mut self) -> String {
        self.locals += 1;
        format!("v{}", self.locals)
    }

    // Types

    fn some_type(&mut self, depth: usize) -> Type {
        let containers = if depth == 0 { 0 } else { 7 };
        match self.choices.below(10 + containers) {
            10 | 11 => Type::list(self.some_type(depth - 1)),
            12 | 13 => {
                let key = self.choices.pick(&KEYS).clone();
                Type::map(key, self.some_type(depth - 1))
            }
            14 | 15 => {
                let inner = self.some_type(depth - 1);
                match self.choices.once_in(4) {
                    true => Type::optional(Type::optional(inner)),
                    false => Type::optional(inner),
                }
            }
            16 => Type::of_type(self.choices.pick(&PLAIN).clone()),
            9 => self.special_type(),
            at => PLAIN[at].clone(),
        }
    }

    /// A library's type, an object that can be read, or `dyn`.
    fn special_type(&mut self) -> Type {
        let objects = self.reads.iter().map(|read| &read.ty);
        let objects = objects.filter(|ty| matches!(ty, Type::Object(_)));
        let mut types: Vec<Type> = objects.chain(&self.world.opaque).cloned().collect();
        if self.dynamic {
            types.push(Type::Dyn);
        }
        match types.is_empty() {
            true => Type::Int,
            false => self.choices.pick(&types).clone(),
        }
    }

    // Constants

    fn constant(&mut self, ty: &Type) -> String {
        let plain = match ty {
            Type::Null => "null".to_owned(),
            Type::Bool => self.one_of(&["true", "false"]),
            Type::Int => self.one_of(&["1", "0", "-1", "2", "-7", "1000", "9223372036854775807"]),
            Type::Uint => self.one_of(&["1u", "0u", "2u", "18446744073709551615u"]),
            Type::Double => self.one_of(&["1.5", "0.0", "-2.0", "1e300", "1e-7"]),
            Type::String => {
                let text: &&str = self.choices.pick(&TEXTS);
                quote(text)
            }
            Type::Bytes => {
                let bytes: &&[u8] = self.choices.pick(&OCTETS);
                quote_bytes(bytes)
            }
            Type::Timestamp => self.one_of(&TIMES),
            Type::Duration => {
                self.one_of(&["duration('90s')", "duration('0s')", "duration('-1h')"])
            }
            other => return self.compound(other),
        };
        match self.marked {
            true => format!("{OPENING}{plain}{CLOSING}"),
            false => plain,
        }
    }

    fn compound(&mut self, ty: &Type) -> String {
        match ty {
            Type::List(item) => self.list(item),
            Type::Map(pair) => self.map(&pair.0, &pair.1),
            Type::Optional(inner) => match self.choices.once_in(4) {
                true => "optional.none()".to_owned(),
                false => format!("optional.of({})", self.leaf(inner)),
            },
            Type::Type(inner) => format!("type({})", self.leaf(inner)),
            Type::Opaque(opaque) => self.opaque(&opaque.name.clone()),
            Type::Dyn => {
                let ty = self.some_type(1);
                format!("dyn({})", self.leaf(&ty))
            }
            // Nothing else can be wanted: objects are wanted only where there are some.
            other => panic!("there is no {other}"),
        }
    }

    fn list(&mut self, item: &Type) -> String {
        let count = self.choices.below(4);
        let items: Vec<String> = (0..count)
            .map(|_| match self.choices.once_in(5) {
                true => format!("?{}", self.leaf(&Type::optional(item.clone()))),
                false => self.leaf(item),
            })
            .collect();
        format!("[{}]", items.join(", "))
    }

    /// Keys may be there twice.
    fn map(&mut self, key: &Type, value: &Type) -> String {
        let count = self.choices.below(4);
        let entries: Vec<String> = (0..count)
            .map(|_| {
                let key = self.leaf(key);
                match self.choices.once_in(5) {
                    true => format!("?{key}: {}", self.leaf(&Type::optional(value.clone()))),
                    false => format!("{key}: {}", self.leaf(value)),
                }
            })
            .collect();
        format!("{{{}}}", entries.join(", "))
    }

    fn opaque(&mut self, name: &str) -> String {
        match name {
            "kubernetes.Quantity" => self.one_of(&["quantity('1.5Gi')", "quantity('-3')"]),
            "kubernetes.Semver" => self.one_of(&["semver('1.2.3')", "semver('v1.0', true)"]),
            "kubernetes.URL" => self.one_of(&["url('https://a.b:80/c?d=e')", "url('/x')"]),
            "kubernetes.NamedFormat" => self.one_of(&["format.dns1123Label()", "format.date()"]),
            "net.IP" => self.one_of(&["ip('10.0.0.1')", "ip('::1')"]),
            "net.CIDR" => self.one_of(&["cidr('10.0.0.0/8')", "cidr('::/0')"]),
            "kro.run.Condition" => {
                let text = self.leaf(&Type::String);
                // Its type may not be empty.
                format!("runtime.newCondition({{type: 'T' + {text}, status: 'True'}})")
            }
            other => panic!("how is a {other} written?"),
        }
    }

    fn one_of(&mut self, texts: &[&str]) -> String {
        (*self.choices.pick(texts)).to_owned()
    }

    // Calls

    /// A call of a wanted function that gives a type, if there is one.
    fn call(&mut self, ty: &Type, depth: usize, wanted: fn(&str) -> bool) -> Option<String> {
        let world = self.world;
        let gives = |signature: &Signature| {
            let mut found = Parameters::default();
            found.unify(&signature.result, ty).then_some(found)
        };
        let dynamic = self.dynamic;
        let takes = |signature: &Signature| dynamic || !signature.params.iter().any(has_dyn);
        let estimable = self.estimable;
        let overloads = world.overloads.iter();
        let overloads = overloads
            .filter(|one| wanted(one.function()) && (!estimable || !is_underestimated(one)));
        let fitting = overloads.filter_map(|overload| {
            let found = gives(overload.signature()).filter(|_| takes(overload.signature()))?;
            Some((overload, found))
        });
        let fitting: Vec<_> = fitting.collect();
        if fitting.is_empty() {
            return None;
        }
        // By function first: `_<_` has many overloads, `matches` has one.
        let mut names: Vec<&str> = fitting.iter().map(|(one, _)| one.function()).collect();
        names.dedup();
        let name = *self.choices.pick(&names);
        let named: Vec<_> = fitting
            .iter()
            .filter(|(one, _)| one.function() == name)
            .collect();
        let (overload, found) = self.choices.pick(&named);
        let signature = overload.signature();
        let args = self.arguments(signature, found.clone(), depth);
        Some(written(name, signature.member, &args))
    }

    fn arguments(
        &mut self,
        signature: &Signature,
        mut parameters: Parameters,
        depth: usize,
    ) -> Vec<String> {
        for param in &signature.params {
            parameters.note_keys(param);
        }
        let mut args = Vec::new();
        for param in &signature.params {
            let ty = param.rebuild(&mut |at| parameters.of(at, self));
            let ty = match ty {
                // Anything can be given for it.
                Type::Dyn => self.some_type(1),
                Type::List(item) if *item == Type::Dyn => Type::list(self.some_type(1)),
                other => other,
            };
            args.push(self.write(&ty, depth));
        }
        args
    }

    // Macros

    /// A macro that goes through something and gives a type.
    fn fold(&mut self, ty: &Type, depth: usize) -> Option<String> {
        match ty {
            Type::Bool => {
                let name: &&str = self.choices.pick(&["all", "exists", "exists_one"]);
                let form = Form {
                    name,
                    two: self.choices.once_in(3),
                    filtered: false,
                };
                let range = self.range();
                let body = |writer: &mut Self, _: &str| writer.write(&Type::Bool, depth);
                self.go_through(&range, form, depth, body)
            }
            Type::List(item) => self.list_fold(item, depth),
            Type::Map(pair) => self.map_fold(&pair.0, &pair.1, depth),
            Type::Optional(inner) => Some(self.opt_map(inner, depth)),
            _ => None,
        }
    }

    /// A type that can be gone through. Items of what is computed are taken to have the size of
    /// `self`, which is none, and keys to have none, too: what is to be estimated goes through
    /// lists that are read.
    fn range(&mut self) -> Type {
        let ranges = self.reads.iter().map(|read| &read.ty);
        let ranges = ranges.filter(|ty| matches!(ty, Type::List(_))).cloned();
        let ranges: Vec<Type> = ranges.collect();
        if self.estimable && !ranges.is_empty() {
            return self.choices.pick(&ranges).clone();
        }
        let inner = self.some_type(1);
        match self.choices.once_in(3) {
            true => Type::map(self.choices.pick(&KEYS).clone(), inner),
            false => Type::list(inner),
        }
    }

    fn list_fold(&mut self, item: &Type, depth: usize) -> Option<String> {
        let (same, filtered) = (Type::list(item.clone()), self.choices.once_in(3));
        let (name, range, body) = match self.choices.below(5) {
            0 | 1 => ("map", self.range(), item.clone()),
            2 => ("filter", same, Type::Bool),
            3 => ("sortBy", same, self.choices.pick(&PLAIN[..8]).clone()),
            _ => ("transformList", self.range(), item.clone()),
        };
        let form = Form {
            name,
            two: name == "transformList",
            filtered: filtered && !matches!(name, "filter" | "sortBy"),
        };
        self.go_through(&range, form, depth, |writer, _| writer.write(&body, depth))
    }

    fn map_fold(&mut self, key: &Type, value: &Type, depth: usize) -> Option<String> {
        let range = match key {
            Type::Int if self.choices.once_in(2) => Type::list(self.some_type(1)),
            _ => Type::map(key.clone(), self.some_type(1)),
        };
        let name: &&str = self.choices.pick(&["transformMap", "transformMapEntry"]);
        let form = Form {
            name,
            two: true,
            filtered: self.choices.once_in(3),
        };
        self.go_through(&range, form, depth, |writer, key| {
            let value = writer.write(value, depth);
            match form.name {
                "transformMapEntry" => format!("{{{key}: {value}}}"),
                _ => value,
            }
        })
    }

    /// Writes a macro; the first variable's name is given to what writes its body.
    fn go_through(
        &mut self,
        range: &Type,
        form: Form,
        depth: usize,
        body: impl FnOnce(&mut Self, &str) -> String,
    ) -> Option<String> {
        let written = match self.estimable {
            true => self
                .read(range)
                .filter(|_| matches!(range, Type::List(_)))?,
            false => self.write(range, depth),
        };
        let (key, value) = match range {
            Type::List(item) => (Type::Int, (**item).clone()),
            Type::Map(pair) => pair.as_ref().clone(),
            other => panic!("{other} is no range"),
        };
        let names = [self.local(), self.local()];
        let variables: &[(&str, &Type)] = match (form.two, range) {
            (true, _) => &[(&names[0], &key), (&names[1], &value)],
            (false, Type::Map(_)) => &[(&names[0], &key)],
            (false, _) => &[(&names[0], &value)],
        };
        let body = self.scoped(variables, |writer| {
            let filter = form
                .filtered
                .then(|| writer.write(&Type::Bool, depth) + ", ");
            filter.unwrap_or_default() + &body(writer, &names[0])
        });
        let names = names[..variables.len()].join(", ");
        Some(format!("({written}).{}({names}, {body})", form.name))
    }

    fn opt_map(&mut self, inner: &Type, depth: usize) -> String {
        let from = self.some_type(1);
        let written = self.write(&Type::optional(from.clone()), depth);
        let variable = self.local();
        let flat = self.choices.once_in(2);
        let wanted = if flat {
            Type::optional(inner.clone())
        } else {
            inner.clone()
        };
        let body = self.scoped(&[(&variable, &from)], |writer| writer.write(&wanted, depth));
        let name = if flat { "optFlatMap" } else { "optMap" };
        format!("({written}).{name}({variable}, {body})")
    }

    /// `has(a.b)`, `a.?b`, `a.?b.c`.
    fn selection(&mut self, ty: &Type) -> Option<String> {
        let wanted = match ty {
            Type::Bool => None,
            Type::Optional(inner) => Some(&**inner),
            _ => return None,
        };
        if self.estimable && wanted.is_some() {
            return None;
        }
        let fits = |read: &&Read| wanted.is_none_or(|wanted| *wanted == read.ty);
        let selected = self.reads.iter().filter(fits);
        let selected: Vec<_> = selected.filter_map(|read| read.selected.as_ref()).collect();
        if selected.is_empty() {
            return None;
        }
        let (from, field) = self.choices.pick(&selected);
        if wanted.is_none() {
            return Some(format!("has({from}.{field})"));
        }
        // An optional along the way makes the rest optional.
        let from = match (self.choices.once_in(2), from.rsplit_once('.')) {
            (true, Some((before, last))) if !last.contains(']') => format!("{before}.?{last}"),
            _ => from.clone(),
        };
        match from.contains('?') && self.choices.once_in(2) {
            true => Some(format!("{from}.{field}")),
            false => Some(format!("{from}.?{field}")),
        }
    }

    /// `cel.bind`, where it is there.
    fn binding(&mut self, ty: &Type, depth: usize) -> Option<String> {
        if !self.world.binds {
            return None;
        }
        let (of, name) = (self.some_type(1), self.local());
        let init = self.write(&of, depth);
        let body = self.scoped(&[(&name, &of)], |writer| writer.write(ty, depth));
        Some(format!("cel.bind({name}, {init}, {body})"))
    }
}

/// Texts that some function does something with.
const TEXTS: [&str; 14] = [
    "a",
    "",
    "hello world",
    "1",
    "-2.5",
    "true",
    "90s",
    "10.0.0.1",
    "1.2.3",
    "[a-z]+",
    "%s %d",
    "ü😀",
    "it's \"quoted\"\\\n",
    "UTC",
];

const OCTETS: [&[u8]; 4] = [b"ab", b"", b"\x00\xff", "ü".as_bytes()];

const TIMES: [&str; 3] = [
    "timestamp('2026-01-02T03:04:05.678Z')",
    "timestamp('0001-01-01T00:00:00Z')",
    "timestamp(0)",
];

/// What the parameters of a signature stand for.
#[derive(Clone, Default)]
struct Parameters {
    known: Vec<(u32, Type)>,
    /// Those which keys of maps are.
    keys: Vec<u32>,
}

impl Parameters {
    /// Whether a type of a signature can be the wanted one.
    fn unify(&mut self, declared: &Type, wanted: &Type) -> bool {
        match (declared, wanted) {
            (Type::Param(param), wanted) => {
                let known = self.known.iter().find(|(one, _)| one == param);
                if let Some((_, known)) = known {
                    return known == wanted;
                }
                self.known.push((*param, wanted.clone()));
                true
            }
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
                self.unify(a, b)
            }
            (Type::Map(a), Type::Map(b)) => self.unify(&a.0, &b.0) && self.unify(&a.1, &b.1),
            (declared, wanted) => declared == wanted,
        }
    }

    fn note_keys(&mut self, ty: &Type) {
        match ty {
            Type::Map(pair) => {
                if let Type::Param(param) = pair.0 {
                    self.keys.push(param);
                }
                self.note_keys(&pair.1);
            }
            Type::List(inner) | Type::Optional(inner) => self.note_keys(inner),
            _ => {}
        }
    }

    fn of(&mut self, param: u32, writer: &mut Writer<'_>) -> Type {
        if let Some((_, known)) = self.known.iter().find(|(one, _)| *one == param) {
            return known.clone();
        }
        let ty = match self.keys.contains(&param) {
            true => writer.choices.pick(&KEYS).clone(),
            false => writer.some_type(1),
        };
        self.known.push((param, ty.clone()));
        ty
    }
}

/// Calls that can cost more than the estimate says, here as in Kubernetes and cel-go.
fn is_underestimated(overload: &Overload) -> bool {
    match overload.function() {
        // Numbers, times and objects in the data are taken to have no size: comparing them is
        // estimated to be free, and costs one.
        "_==_" | "_!=_" => true,
        // What is computed is read like a variable, which costs one more than the step.
        "_[_]" | "_[?_]" => true,
        // Estimated by the prefix, charged by the text.
        "startsWith" | "endsWith" => true,
        // As many items as there were lists are expected.
        "flatten" => true,
        _ => false,
    }
}

/// A call as it is written.
fn written(function: &str, member: bool, args: &[String]) -> String {
    let operator = function.trim_matches('_');
    match (function, args) {
        ("_?_:_", [condition, yes, no]) => format!("(({condition}) ? ({yes}) : ({no}))"),
        ("_[_]", [from, index]) => format!("({from})[{index}]"),
        ("_[?_]", [from, index]) => format!("({from})[?{index}]"),
        ("!_" | "-_", [only]) => format!("{operator}({only})"),
        ("@in", [item, list]) => format!("(({item}) in ({list}))"),
        ("math.@max", args) => format!("math.greatest({})", args.join(", ")),
        ("math.@min", args) => format!("math.least({})", args.join(", ")),
        (name, [left, right]) if name.starts_with('_') => {
            format!("(({left}) {operator} ({right}))")
        }
        (name, [target, rest @ ..]) if member => format!("({target}).{name}({})", rest.join(", ")),
        (name, args) => format!("{name}({})", args.join(", ")),
    }
}

/// What can be read from something that is written `text`, in so many steps.
fn reachable(
    text: String,
    ty: &Type,
    selected: Option<(String, String)>,
    steps: usize,
    out: &mut Vec<Read>,
) {
    if steps > 0 {
        match ty {
            Type::Object(object) => {
                for field in object.fields() {
                    let name = field.name().to_owned();
                    let (below, from) = (format!("{text}.{name}"), (text.clone(), name));
                    reachable(below, field.decl().ty(), Some(from), steps - 1, out);
                }
            }
            Type::List(item) => reachable(format!("{text}[0]"), item, None, steps - 1, out),
            Type::Map(pair) if pair.0 == Type::String => {
                let from = (text.clone(), "a".to_owned());
                reachable(format!("{text}.a"), &pair.1, Some(from), steps - 1, out);
                reachable(format!("{text}['c d']"), &pair.1, None, steps - 1, out);
            }
            _ => {}
        }
    }
    out.push(Read {
        text,
        ty: ty.clone(),
        selected,
    });
}

/// A marked expression as it is, and with a variable in the place of each constant; with the
/// constants, in order.
pub(crate) fn constants(marked: &str) -> (String, String, Vec<String>) {
    let (mut plain, mut named, mut found) = (String::new(), String::new(), Vec::new());
    let mut rest = marked;
    while let Some((before, after)) = rest.split_once(OPENING) {
        let (constant, after) = after.split_once(CLOSING).expect("it is closed");
        plain += before;
        plain += constant;
        named += &format!("{before}c{}", found.len());
        found.push(constant.to_owned());
        rest = after;
    }
    (plain + rest, named + rest, found)
}
