//! Cases of the conformance data: what each asks for, and whether we answer it.

use anyhow::{Context, Result};
use deltaplane_expr::env::Overload;
use deltaplane_expr::types::{Signature, Type};
use deltaplane_expr::{
    Absent, Bindings, Budget, Decl, Env, Eval, Problems, Value, check, env, lower, parse,
};

use super::textproto::{Field, Message};
use super::values;

/// One test of one file.
pub(super) struct Case<'m> {
    /// `file/section/test`.
    pub(super) name: String,
    message: &'m Message,
}

pub(super) enum Verdict {
    Passed,
    /// Our checker refuses the expression, in the words of the error that the case wants.
    Refused,
    Failed(String),
    Inapplicable(&'static str),
}

/// Why a case cannot apply.
const MESSAGES: &str = "builds, reads or expects protocol-buffer messages";
const ENUMS: &str = "uses enums of protocol-buffer messages";
const WRAPPERS: &str = "uses wrapper or JSON messages of protocol buffers";
const EXTENSIONS: &str = "uses extension fields of protocol-buffer messages";
const NO_MACROS: &str = "asks for a parser without macros: ours always has them";

/// The tests of a file.
pub(super) fn of_file<'m>(file: &str, message: &'m Message) -> Vec<Case<'m>> {
    let mut cases = Vec::new();
    for section in message.messages("section") {
        for test in section.messages("test") {
            cases.push(Case {
                name: format!("{file}/{}/{}", section.text("name"), test.text("name")),
                message: test,
            });
        }
    }
    cases
}

impl Case<'_> {
    pub(super) fn expression(&self) -> String {
        self.message.text("expr")
    }

    pub(super) fn run(&self) -> Verdict {
        if let Some(reason) = self.inapplicable() {
            return Verdict::Inapplicable(reason);
        }
        match self.outcome() {
            Ok(verdict) => verdict,
            Err(error) => Verdict::Failed(format!("{error:#}")),
        }
    }

    /// Whether the case needs protocol-buffer messages.
    fn inapplicable(&self) -> Option<&'static str> {
        let expression = self.expression();
        let test = self.message;
        let named =
            |needle: &str| expression.contains(needle) || test.text("container").contains(needle);
        if self.name.starts_with("proto2_ext/") {
            return Some(EXTENSIONS);
        }
        if self.name.starts_with("enums/") || test.any(&|name, _| name == "enum_value") {
            return Some(ENUMS);
        }
        let times = ["google.protobuf.Timestamp", "google.protobuf.Duration"];
        let without_times = times
            .iter()
            .fold(expression.clone(), |text, time| text.replace(time, ""));
        let wraps = without_times.contains("google.protobuf")
            || test.text("container").starts_with("google.protobuf")
            || test.any(&|_, field| matches!(field, Field::Bytes(_)) && is_wrapper(&field.text()));
        if wraps || test.any(&|name, _| name == "wrapper") {
            return Some(WRAPPERS);
        }
        let is_object = |name: &str, field: &Field| {
            let is_time = |message: &Message| {
                message
                    .only()
                    .is_some_and(|(kind, _)| times.iter().any(|time| kind.contains(time)))
            };
            name == "object_value" && !field.as_message().is_some_and(is_time)
        };
        let messages = named("TestAllTypes")
            || named("TestRequired")
            || named("cel.expr.conformance")
            || named("{single_")
            || expression.contains("Timestamp{")
            || expression.contains("Duration{")
            || test.any(&|name, field| name == "message_type" || is_object(name, field));
        if messages {
            return Some(MESSAGES);
        }
        test.is_true("disable_macros").then_some(NO_MACROS)
    }

    /// An error is what stops us from running the case.
    fn outcome(&self) -> Result<Verdict> {
        let test = self.message;
        let env = self.environment()?;
        let ast = match parse(&self.expression(), &env) {
            Ok(ast) => ast,
            Err(problems) => return Ok(Verdict::Failed(format!("refused: {problems}"))),
        };
        let checked = if test.is_true("disable_check") {
            None
        } else {
            match check::check(&ast, &env) {
                Ok(checked) => Some(checked),
                Err(problems) => return Ok(self.refused(&problems)),
            }
        };
        if let (Some(checked), Some(typed)) = (&checked, test.message("typed_result"))
            && let Some(wanted) = typed.message("deduced_type")
        {
            let (wanted, found) = (values::ty(wanted)?, checked.ty(ast.root()));
            if wanted.to_string() != found.to_string() {
                return Ok(Verdict::Failed(format!("type {found}, wanted {wanted}")));
            }
        }
        if test.is_true("check_only") {
            return Ok(Verdict::Passed);
        }
        let program = match lower(&ast, checked.as_ref(), &env) {
            Ok(program) => program,
            Err(problems) => return Ok(Verdict::Failed(format!("refused: {problems}"))),
        };
        let bindings = self.bindings(&env)?;
        let found = program.eval(&bindings, Budget::STEPS_ONLY);
        self.compare(found)
    }

    /// An error that is wanted is one of evaluation, and refusing the expression is none, here as
    /// in cel-go's own runner; unless the words that are wanted are those of the checker.
    fn refused(&self, problems: &Problems) -> Verdict {
        let wanted: Vec<String> = self
            .message
            .message("eval_error")
            .iter()
            .flat_map(|errors| errors.messages("errors"))
            .map(|error| error.text("message"))
            .collect();
        if problems
            .iter()
            .all(|problem| wanted.contains(&problem.message))
        {
            return Verdict::Refused;
        }
        Verdict::Failed(format!("refused: {problems}"))
    }

    fn compare(&self, found: Eval<'_>) -> Result<Verdict> {
        let test = self.message;
        let wants_error =
            test.message("eval_error").is_some() || test.message("any_eval_errors").is_some();
        let wanted = match (test.message("value"), test.message("typed_result")) {
            (Some(value), _) => values::value(value)?,
            (None, Some(typed)) => match typed.message("result") {
                Some(value) => values::value(value)?,
                None => return Ok(Verdict::Passed),
            },
            (None, None) => Value::Bool(true),
        };
        Ok(match found {
            Eval::Value(found) if wants_error => {
                Verdict::Failed(format!("{found:?}, wanted an error"))
            }
            Eval::Value(found) if values::same(&found, &wanted) => Verdict::Passed,
            Eval::Value(found) => Verdict::Failed(format!("{found:?}, wanted {wanted:?}")),
            Eval::Failed(_) if wants_error => Verdict::Passed,
            other @ (Eval::Waiting(_) | Eval::Failed(_) | Eval::Stopped(_)) => {
                Verdict::Failed(format!("{other:?}, wanted {wanted:?}"))
            }
        })
    }

    fn environment(&self) -> Result<Env> {
        let test = self.message;
        let mut variables = Vec::new();
        let mut builder = env::conformance();
        for declared in test.messages("type_env") {
            let name = declared.text("name");
            if let Some(ident) = declared.message("ident") {
                let ty = values::ty(ident.message("type").context("a variable without a type")?)?;
                variables.push((name.clone(), Decl::of_type(ty, Absent::Fails)));
            }
            for overload in declared
                .message("function")
                .iter()
                .flat_map(|function| function.messages("overloads"))
            {
                let mut params: Vec<Type> = overload
                    .messages("params")
                    .map(values::ty)
                    .collect::<Result<_>>()?;
                let mut result = match overload.message("result_type") {
                    Some(result) => values::ty(result)?,
                    None => Type::Dyn,
                };
                renumber(params.iter_mut().chain([&mut result]));
                let signature = Signature {
                    member: overload.is_true("is_instance_function"),
                    params,
                    result,
                };
                builder = builder.overload(Overload::declared(
                    &name,
                    &overload.text("overload_id"),
                    signature,
                ));
            }
        }
        for binding in test.messages("bindings") {
            let name = binding.text("key");
            if !variables.iter().any(|(known, _)| *known == name) {
                variables.push((name, Decl::dynamic(Absent::Fails).clone()));
            }
        }
        Ok(builder
            .build()
            .with_container(&test.text("container"), variables))
    }

    fn bindings(&self, env: &Env) -> Result<Bindings<'static>> {
        let mut bindings = Bindings::new(env);
        for binding in self.message.messages("bindings") {
            let slot = env.slot(&binding.text("key")).context("not declared")?;
            let outer = binding
                .message("value")
                .context("a binding without a value")?;
            if let Some(value) = outer.message("value") {
                bindings.set(slot, values::value(value)?);
            }
        }
        Ok(bindings)
    }
}

/// Type parameters are letters in the data and small numbers in signatures.
fn renumber<'t>(types: impl Iterator<Item = &'t mut Type>) {
    for ty in types {
        *ty = rebuilt(ty);
    }
}

fn rebuilt(ty: &Type) -> Type {
    ty.rebuild(&mut |letter| Type::Param(letter.saturating_sub(u32::from('A'))))
}

fn is_wrapper(text: &str) -> bool {
    text.starts_with("google.protobuf.")
        && !text.ends_with(".Timestamp")
        && !text.ends_with(".Duration")
}
