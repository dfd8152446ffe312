//! Running other programs with errors that name them.

use std::io::ErrorKind;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Runs the command with inherited output; an exit status other than 0 is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let name = describe(command);
    let status = command.status().map_err(|error| missing(error, &name))?;
    if !status.success() {
        bail!("`{name}` failed: {status}");
    }
    Ok(())
}

/// Runs the command and gives its standard output; standard error is inherited.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>> {
    let name = describe(command);
    command.stderr(std::process::Stdio::inherit());
    let output = command.output().map_err(|error| missing(error, &name))?;
    if !output.status.success() {
        bail!("`{name}` failed: {}", output.status);
    }
    Ok(output.stdout)
}

/// The command's standard output as text.
pub(crate) fn text(command: &mut Command) -> Result<String> {
    let name = describe(command);
    String::from_utf8(output(command)?)
        .with_context(|| format!("`{name}` printed something other than UTF-8"))
}

/// Program and arguments, as one would type them.
fn describe(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let mut words = vec![
        program
            .file_name()
            .unwrap_or(program.as_os_str())
            .to_string_lossy()
            .into_owned(),
    ];
    words.extend(
        command
            .get_args()
            .map(|arg| arg.to_string_lossy().into_owned()),
    );
    words.join(" ")
}

fn missing(error: std::io::Error, name: &str) -> anyhow::Error {
    let hint = match error.kind() == ErrorKind::NotFound {
        true => "the program is not installed or not on PATH",
        false => "the program could not be started",
    };
    anyhow::Error::new(error).context(format!("`{name}`: {hint}"))
}
