//! Policies, with our own commands: `policies/` are sessions, each with a fleet of its own.
//!
//! `UPDATE_EXPECT=1` writes what was really seen into the files.

use expect_test::{ExpectFile, expect_file};

use crate::session::Session;

fn check(script: &str, expected: ExpectFile) {
    let played = Session::new("examples").play(script);
    expected.assert_eq(&played);
}

macro_rules! scripts {
    ($($test:ident $file:literal;)*) => {$(
        #[test]
        fn $test() {
            let script = include_str!(concat!("policies/", $file, ".txt"));
            check(script, expect_file![concat!("policies/", $file, ".txt")]);
        }
    )*};
}

scripts! {
    the_commands_of_a_rollout "commands";
    what_is_deleted_and_what_zones_keep "deletions";
    people_who_agree "approvals";
    what_was_rolled_back "rollbacks";
}
