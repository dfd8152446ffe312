//! Zones: `zones/` are sessions with kubectl against a hub and three zones in one process.
//!
//! `UPDATE_EXPECT=1` writes what was really seen into the files.

use deltaplane_e2e::server::Shared;
use deltaplane_e2e::{Kubectl, Server};
use expect_test::{ExpectFile, expect_file};

static SERVER: Shared = Shared::new(Server::fleet);

/// Runs a script in a namespace of its name.
fn check(name: &str, script: &str, expected: ExpectFile) {
    let shared = SERVER.get();
    let kubectl = Kubectl::in_new_namespace(shared.server.kubeconfig(), name);
    expected.assert_eq(&kubectl.transcript(script));
}

macro_rules! scripts {
    ($($test:ident $file:literal;)*) => {$(
        #[test]
        fn $test() {
            let script = include_str!(concat!("zones/", $file, ".txt"));
            check($file, script, expect_file![concat!("zones/", $file, ".txt")]);
        }
    )*};
}

/// A zone is deleted: on a server of its own.
#[test]
fn what_a_zone_left_behind_can_be_deleted() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Server::fleet(dir.path());
    let kubectl = Kubectl::in_new_namespace(server.kubeconfig(), "gone");
    let script = include_str!("zones/gone.txt");
    expect_file!["zones/gone.txt"].assert_eq(&kubectl.transcript(script));
}

scripts! {
    objects_cross "cross";
    everyone_writes_only_what_is_theirs "refusals";
    definitions_that_lead_in_a_circle_are_warned_of "circles";
    what_is_withdrawn_stays "withdraw";
    no_way_leads_around_the_rules "ways";
    a_change_goes_through_stages "stages";
    policies_that_cannot_work_are_refused "policies";
}
