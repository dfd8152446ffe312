//! Default values must themselves satisfy the schema that they stand in.

use deltaplane_api::field::{Error, Path};
use serde_json::{Value, json};

use super::props::Props;
use crate::node::{Node, Schema};
use crate::validate::embedded;

/// A walk through a schema, looking for defaults.
struct Walk<'s> {
    schema: &'s Schema,
    /// The way down from the innermost resource.
    steps: Vec<Step<'s>>,
}

#[derive(Clone, Copy)]
enum Step<'s> {
    Field(&'s str),
    Item,
}

pub(super) fn check(schema: &Schema, props: Props<'_>, path: &Path, errors: &mut Vec<Error>) {
    let mut walk = Walk {
        schema,
        steps: Vec::new(),
    };
    walk.node(
        props,
        schema.root(),
        Place {
            resource: true,
            inside_meta: false,
        },
        path,
        errors,
    );
}

/// Where in a resource a schema stands.
#[derive(Clone, Copy)]
struct Place {
    /// It describes a whole resource.
    resource: bool,
    /// It is part of the resource's `apiVersion`, `kind` or `metadata`.
    inside_meta: bool,
}

// === impl Walk ===

impl<'s> Walk<'s> {
    fn node(
        &mut self,
        props: Props<'s>,
        node: Node<'s>,
        place: Place,
        path: &Path,
        errors: &mut Vec<Error>,
    ) {
        let embedded = props.flag("x-kubernetes-embedded-resource");
        let place = Place {
            resource: place.resource || embedded,
            inside_meta: place.inside_meta && !embedded,
        };
        let outer = if embedded {
            std::mem::take(&mut self.steps)
        } else {
            Vec::new()
        };
        if let Some(default) = props.get("default") {
            let found = match place.inside_meta {
                true => self.meta_default(default, node, &path.child("default")),
                false => self.default(default, node, place, &path.child("default")),
            };
            errors.extend(found);
        }
        // Below additionalProperties there is nothing to look at: what a default there applies to
        // is not known.
        if let (Some(items), Some(node)) = (props.items(), node.items()) {
            self.steps.push(Step::Item);
            self.node(
                items,
                node,
                Place {
                    resource: false,
                    ..place
                },
                &path.child("items"),
                errors,
            );
            self.steps.pop();
        }
        for (name, child) in props.properties() {
            let Some(node) = node.property(name) else {
                continue;
            };
            let is_meta = place.resource && matches!(name, "metadata" | "apiVersion" | "kind");
            let below = Place {
                resource: false,
                inside_meta: place.inside_meta || is_meta,
            };
            self.steps.push(Step::Field(name));
            self.node(
                child,
                node,
                below,
                &path.child("properties").key(name),
                errors,
            );
            self.steps.pop();
        }
        if embedded {
            self.steps = outer;
        }
    }

    fn default(&self, default: &Value, node: Node<'s>, place: Place, path: &Path) -> Vec<Error> {
        let schema = self.schema.rooted_at(node);
        let mut pruned = default.clone();
        schema.prune_values(&mut pruned);
        let mut errors = Vec::new();
        if pruned != *default {
            errors.push(Error::invalid(
                path.clone(),
                default.clone(),
                "must not have unknown fields",
            ));
        }
        if let Err(error) = schema.decode(&mut pruned) {
            errors.push(Error::invalid(
                path.clone(),
                default.clone(),
                error.to_string(),
            ));
            return errors;
        }
        let before = errors.len();
        if let Some(map) = default
            .as_object()
            .filter(|_| place.resource && !node.is_embedded_resource())
        {
            embedded::resource(map, path, &mut errors);
        }
        embedded::check(default, node, path, &mut errors);
        if errors.len() == before {
            errors.extend(schema.validate_default(default, path.clone()));
        }
        errors
    }

    /// A default inside of metadata must make the whole resource sound.
    fn meta_default(&self, default: &Value, node: Node<'s>, path: &Path) -> Vec<Error> {
        let mut object = self
            .steps
            .iter()
            .rev()
            .fold(default.clone(), |inner, step| match step {
                Step::Field(name) => json!({ *name: inner }),
                Step::Item => Value::Array(vec![inner]),
            });
        let words = |fault: &str| {
            let words = format!("must result in valid metadata: {fault}");
            vec![Error::invalid(path.clone(), default.clone(), words)]
        };
        let Some(map) = object.as_object_mut() else {
            return words("must be of object type");
        };
        map.entry("apiVersion")
            .or_insert_with(|| "validation/v1".into());
        map.entry("kind").or_insert_with(|| "Validation".into());
        let mut errors = Vec::new();
        embedded::resource(map, &Path::root(), &mut errors);
        if let Some(error) = errors.first() {
            return words(&error.to_string());
        }
        let schema = self.schema.rooted_at(node);
        if let Err(error) = schema.decode(&mut default.clone()) {
            return words(&error.to_string());
        }
        schema.validate_default(default, path.clone())
    }
}
