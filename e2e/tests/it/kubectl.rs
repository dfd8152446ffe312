//! Sessions with kubectl: each file in `kubectl/` is a script with what is to be seen.
//!
//! `UPDATE_EXPECT=1` writes what was really seen into the files.

use deltaplane_e2e::server::Shared;
use deltaplane_e2e::{Kubectl, Server};
use expect_test::{ExpectFile, expect_file};

static SERVER: Shared = Shared::new(Server::up);

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
            let script = include_str!(concat!("kubectl/", $file, ".txt"));
            check($file, script, expect_file![concat!("kubectl/", $file, ".txt")]);
        }
    )*};
}

scripts! {
    create "create";
    apply "apply";
    server_side_apply "server-side-apply";
    prune "prune";
    get "get";
    describe "describe";
    explain "explain";
    edit_and_replace "edit";
    patch "patch";
    set_and_scale "set";
    diff "diff";
    delete "delete";
    wait "wait";
    label_and_annotate "label";
    discovery "discovery";
    access "access";
    dry_run "dry-run";
    validate "validate";
    subresources "subresources";
    events "events";
    custom_resources "custom";
    custom_resource_versions "versions";
    namespaces "namespaces";
    mistakes "mistakes";
}
