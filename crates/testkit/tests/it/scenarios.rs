//! Plays all scenarios. `UPDATE_EXPECT=1` writes down what they say now.

use std::path::{Path, PathBuf};

use deltaplane_testkit::scenario::play;

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let files = std::fs::read_dir(folder).expect("there are scenarios");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    files
}

#[test]
fn scenarios_go_as_they_are_written() {
    let mut wrong = Vec::new();
    for file in files() {
        let text = std::fs::read_to_string(&file).unwrap();
        let played = std::panic::catch_unwind(|| play(&text));
        let expected = expect_test::expect_file![&file];
        let same = played.map(|said| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| expected.assert_eq(&said)))
        });
        if !matches!(same, Ok(Ok(()))) {
            wrong.push(file.file_name().unwrap().to_owned());
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Each says which rule it shows, and is played to the end.
#[test]
fn scenarios_say_what_they_are_about() {
    for file in files() {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("# "), "{file:?}");
        assert!(text.contains("\n$ "), "{file:?}");
    }
}

/// Whoever adds a scenario says which rule it shows, and whoever looks for one finds it.
#[test]
fn scenarios_are_listed_by_their_rules() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/testing.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    for file in files() {
        let name = file.file_stem().unwrap().to_str().unwrap();
        assert!(docs.contains(&format!("`{name}`")), "{name}");
    }
}
