//! Where the programs under test are; builds what is missing, once per run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Both built by one command, so that they share their dependencies.
struct Built {
    deltaplane: PathBuf,
    xtask: PathBuf,
}

/// The hub's binary, of this very tree.
pub fn deltaplane() -> &'static Path {
    &built().deltaplane
}

/// kubectl, of the release that the tests are written for.
pub fn kubectl() -> &'static Path {
    static KUBECTL: OnceLock<PathBuf> = OnceLock::new();
    KUBECTL.get_or_init(|| {
        let mut command = Command::new(&built().xtask);
        command.args(["peers", "kubectl"]).current_dir(root());
        let hint = "kubectl is built from its Go module: install Go 1.26 or later, and see that \
                    `cargo xtask peers kubectl` succeeds";
        let out = run(&mut command, hint);
        let path = out.lines().find_map(|line| {
            let mut words = line.splitn(3, ' ');
            (words.next() == Some("kubectl")).then(|| words.nth(1).map(PathBuf::from))?
        });
        path.unwrap_or_else(|| panic!("no path of kubectl in {out:?}"))
    })
}

fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let profile_dir = profile_dir();
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command
            .args(["build", "--quiet", "--package", "deltaplane"])
            .args(["--package", "xtask"])
            .args(["--profile", profile(&profile_dir)])
            .arg("--target-dir")
            .arg(
                profile_dir
                    .parent()
                    .expect("a profile is in a target directory"),
            )
            .current_dir(root());
        run(
            &mut command,
            "the tests need the binary of this tree; see why it does not build",
        );
        Built {
            deltaplane: profile_dir.join("deltaplane"),
            xtask: profile_dir.join("xtask"),
        }
    })
}

/// `<target>/<profile>`, of the test that runs: it is at `<target>/<profile>/deps/<test>`.
fn profile_dir() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this program");
    let dir = test.ancestors().nth(2);
    dir.expect("a test is two below its profile's directory")
        .to_owned()
}

fn profile(dir: &Path) -> &str {
    match dir.file_name().and_then(|name| name.to_str()) {
        // The one profile whose directory is named otherwise.
        Some("debug") | None => "dev",
        Some(name) => name,
    }
}

fn root() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("the package is in the workspace")
}

/// What it printed; with progress and errors where a developer sees them.
fn run(command: &mut Command, hint: &str) -> String {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .unwrap_or_else(|error| panic!("cannot run {command:?}: {error}\nhint: {hint}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\nhint: {hint}",
        output.status
    );
    String::from_utf8(output.stdout).expect("UTF-8")
}
