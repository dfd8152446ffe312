//! Which schemas a CustomResourceDefinition may have, and their compilation.
//!
//! Rules and texts are those of Kubernetes' apiextensions. All errors are reported at once, each
//! with the path of the offending field.
//!
//! Not here: the rest of a CustomResourceDefinition (names, columns, selectable fields, …), and
//! the expressions in `x-kubernetes-validations`.

mod defaults;
mod openapi;
mod props;
mod structural;

use std::sync::Arc;

use deltaplane_api::field::{Error, Path};
use serde_json::Value;

use crate::depth;
use crate::node::{NodeData, NodeId, Schema};
use crate::parse::{Flavor, ReadError, Reader, Scope};
use crate::validate::pattern::PatternBudget;
use crate::validate::show_as_go;
use props::Props;

/// What the definition says around the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The version has a status subresource, which restricts the root of the schema.
    pub status_subresource: bool,
    /// It was accepted before: its patterns need not be compiled to see that they can be.
    pub accepted: bool,
}

/// Compiles `openAPIV3Schema`, or says all that is wrong with it. `path` is where it stands, such
/// as `spec.versions[0].schema.openAPIV3Schema`.
///
/// The result also describes `apiVersion`, `kind` and `metadata`.
pub fn compile(raw: &Value, path: &Path, options: Options) -> Result<Schema, Vec<Error>> {
    if depth::too_deep(raw) {
        let words = depth::TooDeep.to_string();
        return Err(vec![Error::invalid(path.clone(), "", words)]);
    }
    let mut errors = Vec::new();
    let clean = props::typed(raw, path, &mut errors);
    let Some(props) = Props::of(&clean) else {
        return Err(errors);
    };
    if !errors.is_empty() {
        return Err(errors);
    }
    let schema = match props.has_unsupported() {
        // Reported keyword by keyword below; there is nothing to build.
        true => None,
        false => structural_schema(&clean, props, path, options, &mut errors),
    };
    openapi::check(props, path, options, &mut errors);
    if schema.is_none() && errors.is_empty() {
        errors.push(Error::invalid(
            path.clone(),
            "",
            "OpenAPIV3Schema 'schema' is not supported",
        ));
    }
    match schema {
        Some(schema) if errors.is_empty() => Ok(schema),
        Some(_) | None => {
            show_as_go(&mut errors);
            Err(errors)
        }
    }
}

fn structural_schema(
    raw: &Value,
    props: Props<'_>,
    path: &Path,
    options: Options,
    errors: &mut Vec<Error>,
) -> Option<Schema> {
    let patterns = match options.accepted {
        true => PatternBudget::trusting(),
        false => PatternBudget::default(),
    };
    structural::check(props, path, patterns, errors);
    match build(raw) {
        Ok(schema) => {
            if errors.is_empty() {
                defaults::check(&schema, props, path, errors);
            }
            Some(schema)
        }
        Err(error) => {
            errors.push(Error::invalid(path.clone(), "", error.to_string()));
            None
        }
    }
}

fn build(raw: &Value) -> Result<Schema, ReadError> {
    let mut reader = Reader::new();
    let root = reader.read_object(raw, Scope::root(Flavor::Crd))?;
    Ok(Schema::new(Arc::new(reader.finish()), root))
}

impl<'v> Reader<'v> {
    /// Reads the schema of a whole object.
    fn read_object(&mut self, raw: &'v Value, scope: Scope) -> Result<NodeId, ReadError> {
        let root = self.read(raw, scope)?;
        let mut data: NodeData = self.node(root).clone();
        self.graft_meta(&mut data)?;
        self.append(data)
    }
}

#[cfg(test)]
mod tests;
