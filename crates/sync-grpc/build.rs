//! Generates the messages and services from `proto/`, without protoc, and how much memory the fields
//! of messages take (see `src/bounded.rs`).

use std::fmt::Write as _;
use std::path::Path;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(["sync.proto"], ["proto"])?;
    let mut shapes = String::new();
    for file in &descriptors.file {
        for message in &file.message_type {
            write_shape(&mut shapes, &format!(".{}", file.package()), message)?;
        }
    }
    let directory = std::env::var("OUT_DIR")?;
    std::fs::write(Path::new(&directory).join("shapes.rs"), shapes)?;
    let config = tonic_prost_build::configure()
        .include_file("proto.rs")
        .codec_path("crate::BoundedCodec");
    // Bodies of answers are passed on as they are.
    let config = config.bytes(".deltaplane.sync.v1.Answer");
    config.compile_fds(descriptors)?;
    Ok(())
}

/// Writes the shapes of a message and of those that are defined in it.
fn write_shape(out: &mut String, scope: &str, message: &DescriptorProto) -> std::fmt::Result {
    let path = format!("{scope}.{}", message.name());
    for nested in &message.nested_type {
        write_shape(out, &path, nested)?;
    }
    let shape = shape_name(&path);
    writeln!(out, "static {shape}: Shape = Shape(&[")?;
    for field in &message.field {
        let number = field.number();
        let size = element_size(field, message);
        let nested = if field.r#type() == Type::Message {
            format!("Some(&{})", shape_name(field.type_name()))
        } else {
            "None".to_owned()
        };
        writeln!(
            out,
            "Field {{ number: {number}, size: {size}, nested: {nested} }},"
        )?;
    }
    writeln!(out, "]);")?;
    let is_entry = message.options.as_ref().is_some_and(|all| all.map_entry());
    if !is_entry {
        let message = rust_path(&path);
        writeln!(
            out,
            "impl Shaped for {message} {{ const SHAPE: &'static Shape = &{shape}; }}"
        )?;
    }
    Ok(())
}

/// Returns an expression for the memory of one element of a field. A field that is not repeated is
/// part of the message that has it.
fn element_size(field: &FieldDescriptorProto, of: &DescriptorProto) -> String {
    if field.label() != Label::Repeated {
        return "0".to_owned();
    }
    let is_entry = |nested: &&DescriptorProto| {
        let is_map = nested.options.as_ref().is_some_and(|all| all.map_entry());
        is_map && field.type_name().ends_with(&format!(".{}", nested.name()))
    };
    match of.nested_type.iter().find(is_entry) {
        Some(entry) => {
            let sizes = entry.field.iter().map(value_size);
            sizes.collect::<Vec<_>>().join(" + ")
        }
        None => value_size(field),
    }
}

fn value_size(field: &FieldDescriptorProto) -> String {
    let kind = field.r#type();
    if kind == Type::Message {
        format!("size_of::<{}>()", rust_path(field.type_name()))
    } else if matches!(kind, Type::String | Type::Bytes) {
        "size_of::<String>()".to_owned()
    } else {
        "size_of::<u64>()".to_owned()
    }
}

/// `.a.b.Message` as `A_B_MESSAGE`.
fn shape_name(path: &str) -> String {
    path.trim_start_matches('.')
        .replace('.', "_")
        .to_uppercase()
}

/// `.a.b.Outer.Inner` as the path of the generated type.
fn rust_path(path: &str) -> String {
    if let Some(name) = path.strip_prefix(".google.protobuf.") {
        return format!("::prost_types::{name}");
    }
    let (modules, name) = path.rsplit_once('.').unwrap_or(("", path));
    let modules = modules.to_lowercase().replace('.', "::");
    format!("crate::proto{modules}::{name}")
}
