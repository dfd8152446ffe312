//! Generates the messages and services from `proto/`, without protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(["sync.proto"], ["proto"])?;
    let config = tonic_prost_build::configure().include_file("proto.rs");
    // Bodies of answers are passed on as they are.
    let config = config.bytes(".deltaplane.sync.v1.Answer");
    config.compile_fds(descriptors)?;
    Ok(())
}
