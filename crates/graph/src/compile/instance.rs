//! The kind that is defined: its schema, and what expressions see of its instances.

use std::sync::Arc;

use deltaplane_api::field::{self, Path};
use deltaplane_expr::{Absent, Decl, ObjectType, Type, rules};
use deltaplane_schema::crd;
use deltaplane_schema::simple::{self, Source};
use serde_json::{Value as Json, json};

use crate::definition::Instance;
use crate::graph::GraphKind;
use crate::kinds::READING;
use crate::problem::{Problem, Problems};

/// What is known of instances.
pub(crate) struct Instances {
    pub(crate) kind: GraphKind,
    /// The OpenAPI schema of their spec.
    pub(crate) spec: Json,
    /// `schema`: an instance without its status. Nothing when that was a problem.
    pub(crate) decl: Option<Decl>,
}

pub(super) fn compile(schema: &Instance, problems: &mut Problems) -> Instances {
    let singular = schema.kind.to_lowercase();
    let kind = GraphKind {
        group: schema.group.clone(),
        version: schema.version.clone(),
        kind: schema.kind.clone(),
        plural: schema.plural(),
        singular,
        namespaced: schema.namespaced,
    };
    let spec = spec(schema, problems);
    let decl = match &spec {
        Some(spec) => decl(schema, spec, problems),
        None => None,
    };
    Instances {
        kind,
        spec: spec.unwrap_or_default(),
        decl,
    }
}

fn spec(schema: &Instance, problems: &mut Problems) -> Option<Json> {
    let given = |value: &'_ Json| !value.is_null();
    let path = Path::new("spec").child("schema");
    let compiled = simple::compile(&Source {
        spec: Some(&schema.spec).filter(|spec| given(spec)),
        types: Some(&schema.types).filter(|types| given(types)),
        path: &path,
    });
    match compiled {
        Ok(spec) => Some(spec),
        Err(wrong) => {
            for wrong in wrong {
                problems.push(Problem::new(&wrong.path, wrong.message).hinted(wrong.hint));
            }
            None
        }
    }
}

fn decl(instance: &Instance, spec: &Json, problems: &mut Problems) -> Option<Decl> {
    let raw = json!({"type": "object", "properties": {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": spec,
    }});
    let options = crd::Options {
        status_subresource: true,
        accepted: false,
    };
    let path = Path::new("spec").child("schema");
    let schema = match crd::compile(&raw, &path, options) {
        Ok(schema) => schema,
        Err(errors) => {
            for error in errors {
                let text = error.to_string();
                let message = text.split_once(": ").map_or(&*text, |(_, message)| message);
                problems.push(Problem::new(&place(&error), message));
            }
            return None;
        }
    };
    for error in rules::check(&schema, &path) {
        // The rule and its place follow, which stand in the definition.
        let message = error.detail.lines().next().unwrap_or_default();
        let message = message.trim_end_matches(" (in container '')");
        problems.push(Problem::new(&place(&error), message));
    }
    let whole = Decl::of_schema(&schema, &instance.kind, READING)?;
    Some(match instance.namespaced {
        true => whole,
        false => without_namespace(&whole, &instance.kind),
    })
}

/// Where in the definition something is wrong with the schema of the spec.
fn place(error: &field::Error) -> Path {
    Path::new(&error.path.as_str().replace("properties[spec]", "spec"))
}

/// Whole instances, with their status, as the kind's definition has them.
pub(super) fn whole(definition: &Json) -> Option<Decl> {
    let raw = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let options = crd::Options {
        status_subresource: true,
        accepted: false,
    };
    let schema = crd::compile(raw, &Path::root(), options).ok()?;
    let kind = definition["spec"]["names"]["kind"].as_str()?;
    Decl::of_schema(&schema, kind, READING)
}

/// Instances that are in no namespace have no such field.
fn without_namespace(whole: &Decl, kind: &str) -> Decl {
    let Type::Object(object) = whole.ty() else {
        return whole.clone();
    };
    let fields = object.fields().iter().map(|field| {
        let decl = match (field.key(), field.decl().ty()) {
            ("metadata", Type::Object(metadata)) => without(metadata, "namespace"),
            _ => field.decl().clone(),
        };
        (field.key().to_owned(), decl)
    });
    Decl::of_type(Type::Object(ObjectType::new(kind, fields)), Absent::Waits)
}

fn without(object: &Arc<ObjectType>, key: &str) -> Decl {
    let fields = object.fields().iter().filter(|field| field.key() != key);
    let fields = fields.map(|field| (field.key().to_owned(), field.decl().clone()));
    let object = ObjectType::new(object.name(), fields);
    Decl::of_type(Type::Object(object), Absent::Waits)
}
