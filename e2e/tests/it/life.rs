//! Starting, stopping, killing.

use std::fs;
use std::path::Path;

use deltaplane_e2e::server::Ended;
use deltaplane_e2e::{Kubectl, Server, plain};
use expect_test::{Expect, expect};
use serde_json::Value;
use tempfile::TempDir;

fn data() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

#[test]
fn it_says_what_to_try_next() {
    let dir = data();
    let server = Server::fleet(&dir.path().join("data"));
    assert!(server.kubeconfig().exists());
    let greeting = server
        .greeting()
        .replace(&dir.path().display().to_string(), "DIR");
    expect![[r#"
        deltaplane is ready

          address   https://127.0.0.1:PORT
          kubeconfig   DIR/data/kubeconfig
          zones   zone-a, zone-b, zone-c

        Try, in another terminal:

          export KUBECONFIG=DIR/data/kubeconfig
          kubectl get zones
          deltaplane examples write deltaplane-examples
          kubectl apply -f deltaplane-examples/synced-configmaps.yaml
          kubectl create configmap hello --from-literal=greeting=hi
          kubectl label configmap hello cross=yes
          kubectl --context zone-a wait configmap/hello --for=create --timeout=AGE
          kubectl --context zone-a get configmap hello -o jsonpath='{.data.greeting}'
          kubectl get configmap hello

        What crosses to zones is what a SyncedKind says; deltaplane-examples/tour/tour.txt shows that, and the rest, in five minutes.
        Ctrl-C stops it; what you made is kept.
    "#]]
    .assert_eq(&plain::text(&greeting));
    let ended = server.terminate();
    assert_eq!(
        (ended.status.code(), ended.stderr.as_str()),
        (Some(0), ""),
        "{ended:?}"
    );
}

#[test]
fn ctrl_c_is_answered() {
    let dir = data();
    let ended = Server::up(&dir.path().join("data")).interrupt();
    let line = "stopping, as soon as open requests are answered; Ctrl-C again ends at once\n";
    assert_eq!(
        (ended.status.code(), ended.stderr.as_str()),
        (Some(0), line),
        "{ended:?}"
    );
}

#[test]
fn what_it_says_to_try_works() {
    let dir = data();
    let server = Server::fleet(&dir.path().join("data"));
    let greeting = server.greeting();
    let kubectl = Kubectl::new(server.kubeconfig(), "default");
    let examples = dir.path().join("deltaplane-examples");
    let mut said = Vec::new();
    for line in greeting.lines().map(str::trim) {
        // As a shell has it, in a directory of its own.
        let line = line.replace('\'', "");
        let line = line.replace("deltaplane-examples", &examples.display().to_string());
        if let Some(words) = line.strip_prefix("kubectl ") {
            said.push(kubectl.ok(&words.split(' ').collect::<Vec<_>>()));
        }
        if let Some(words) = line
            .strip_prefix("deltaplane ")
            .filter(|_| !line.contains(" is "))
        {
            let mut command = std::process::Command::new(deltaplane_e2e::programs::deltaplane());
            let ran = command.args(words.split(' ')).output().expect("it runs");
            assert!(ran.status.success(), "{words}: {ran:?}");
        }
    }
    // It reached the zone.
    assert!(said.contains(&"hi".to_owned()), "{said:?}");
    let context = kubectl.ok(&["config", "current-context"]);
    assert_eq!(context, "hub\n");
}

#[test]
fn it_stops_when_asked_while_watches_are_open() {
    let dir = data();
    let server = Server::up(&dir.path().join("data"));
    let kubectl = Kubectl::new(server.kubeconfig(), "default");
    kubectl.ok(&["create", "configmap", "a"]);
    let watches: Vec<_> = (0..3)
        .map(|_| {
            let path =
                "/api/v1/configmaps?watch=1&fieldSelector=metadata.name%3Da&timeoutSeconds=600";
            let watch = kubectl.start(&["get", "--raw", path]);
            watch.line();
            watch
        })
        .collect();
    let ended = server.terminate();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    for watch in watches {
        watch.rest();
    }
}

#[test]
fn what_was_acknowledged_survives_a_kill_and_a_watch_resumes() {
    let dir = data();
    let data = dir.path().join("data");
    let server = Server::up(&data);
    let kubectl = Kubectl::new(server.kubeconfig(), "default");
    kubectl.ok(&["create", "configmap", "marker"]);
    let version = kubectl.ok(&[
        "get",
        "configmap",
        "marker",
        "-o",
        "jsonpath={.metadata.resourceVersion}",
    ]);
    let names: Vec<String> = (0..10).map(|n| format!("c-{n}")).collect();
    for name in &names {
        kubectl.ok(&["create", "configmap", name]);
    }
    kubectl.ok(&["delete", "configmap", "c-3"]);
    server.kill();

    let server = Server::up(&data);
    let kubectl = Kubectl::new(server.kubeconfig(), "default");
    let kept = kubectl.ok(&["get", "configmaps", "-o", "name"]);
    let mut expected: Vec<String> = names
        .iter()
        .filter(|name| *name != "c-3")
        .map(|name| format!("configmap/{name}"))
        .collect();
    expected.extend(["configmap/kube-root-ca.crt", "configmap/marker"].map(str::to_owned));
    assert_eq!(kept.lines().collect::<Vec<_>>(), expected);

    let path = format!(
        "/api/v1/namespaces/default/configmaps?watch=1&resourceVersion={version}&timeoutSeconds=600"
    );
    let watch = kubectl.start(&["get", "--raw", &path]);
    kubectl.ok(&["create", "configmap", "after"]);
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| last != "ADDED after") {
        let event: Value = serde_json::from_str(&watch.line()).expect("an event");
        let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
        seen.push(format!(
            "{} {}",
            text(&event["type"]),
            text(&event["object"]["metadata"]["name"])
        ));
    }
    let mut expected: Vec<String> = names.iter().map(|name| format!("ADDED {name}")).collect();
    expected.extend(["DELETED c-3", "ADDED after"].map(str::to_owned));
    assert_eq!(seen, expected);
}

#[test]
fn tokens_and_custom_kinds_survive_a_restart() {
    let dir = data();
    let data = dir.path().join("data");
    let server = Server::up(&data);
    let kubectl = Kubectl::new(server.kubeconfig(), "default");
    let definition = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"}, "spec": {"group": "example.com",
        "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema":
        {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}"#;
    let made = kubectl.run_reading(&["create", "-f", "-"], definition);
    assert_eq!(made.code, 0, "{made:?}");
    kubectl.ok(&[
        "wait",
        "crd/things.example.com",
        "--for=condition=Established",
        "--timeout=30s",
    ]);
    let thing =
        r#"{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "x": 1}"#;
    let made = kubectl.run_reading(&["create", "-f", "-"], thing);
    assert_eq!(made.code, 0, "{made:?}");
    let uid = kubectl.ok(&["get", "thing", "t", "-o", "jsonpath={.metadata.uid}"]);
    let token = kubectl.ok(&["create", "token", "default"]);
    assert_eq!(server.terminate().status.code(), Some(0));

    // As production has it.
    let server = Server::start(&["hub"], &data).expect("ready");
    let kubectl = Kubectl::new(server.kubeconfig(), "default");
    assert_eq!(
        kubectl.ok(&["get", "thing", "t", "-o", "jsonpath={.metadata.uid} {.x}"]),
        format!("{uid} 1")
    );
    let review = format!(
        r#"{{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {{"token": "{}"}}}}"#,
        token.trim()
    );
    let answer = kubectl.run_reading(
        &[
            "create",
            "--validate=false",
            "-f",
            "-",
            "-o",
            "jsonpath={.status.authenticated} {.status.user.username}",
        ],
        &review,
    );
    assert_eq!(
        answer.stdout, "true system:serviceaccount:default:default",
        "{answer:?}"
    );
}

/// How it ends when it should not start, and what it says; `THAT` stands for something that
/// differs from run to run.
fn check(words: &[&str], data_dir: &Path, that: &str, code: i32, said: &Expect) {
    let ended = Server::start(words, data_dir);
    let Err(Ended {
        status,
        stdout,
        stderr,
    }) = ended
    else {
        panic!("it started");
    };
    let dir = data_dir
        .parent()
        .expect("in a directory")
        .display()
        .to_string();
    let stderr = stderr.replace(&dir, "DIR").replace(that, "THAT");
    said.assert_eq(&stderr);
    assert_eq!((status.code(), stdout.as_str()), (Some(code), ""));
}

#[test]
fn a_data_directory_is_for_one() {
    let dir = data();
    let data = dir.path().join("data");
    let server = Server::up(&data);
    check(
        &["up"],
        &data,
        &format!("process {}", server.id()),
        3,
        &expect![[r#"
        error: cannot open the store
          because: the store in DIR/data/store is in use by THAT
        hint: another deltaplane process runs on this data directory: use it, stop it, or choose another with --data-dir
    "#]],
    );
    // The first one is not disturbed.
    let kubectl = Kubectl::new(server.kubeconfig(), "default");
    kubectl.ok(&["create", "configmap", "a"]);
}

#[test]
fn an_address_is_for_one() {
    let dir = data();
    let server = Server::up(&dir.path().join("data"));
    let url = Kubectl::new(server.kubeconfig(), "default").ok(&[
        "config",
        "view",
        "-o",
        "jsonpath={.clusters[0].cluster.server}",
    ]);
    let address = url.trim_start_matches("https://");
    check(
        &["up", "--listen", address],
        &dir.path().join("other"),
        address,
        4,
        &expect![[r#"
            error: cannot listen on THAT
              because: Address already in use (os error 98)
            hint: another program listens there: stop it, or choose another address with --listen, such as --listen 127.0.0.1:0 for a free port
        "#]],
    );
    check(
        &["up", "--listen", "192.0.2.1:0"],
        &dir.path().join("other"),
        "NOTHING",
        4,
        &expect![[r#"
            error: cannot listen on 192.0.2.1:0
              because: Cannot assign requested address (os error 99)
            hint: this machine does not have that address: choose another with --listen
        "#]],
    );
}

#[test]
fn a_definition_goes_in_silence() {
    let dir = data();
    let server = Server::up(&dir.path().join("data"));
    let kubectl = Kubectl::new(server.kubeconfig(), "default");
    let definition = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gears.silence.example.com}
spec:
  group: silence.example.com
  scope: Namespaced
  names: {plural: gears, kind: Gear}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
"#;
    let file = dir.path().join("definition.yaml");
    fs::write(&file, definition).expect("written");
    kubectl.ok(&["apply", "-f", file.to_str().expect("UTF-8")]);
    kubectl.ok(&[
        "wait",
        "--for=condition=Established",
        "crd/gears.silence.example.com",
    ]);
    let gear = "{apiVersion: silence.example.com/v1, kind: Gear, metadata: {name: g}}";
    fs::write(&file, gear).expect("written");
    kubectl.ok(&["create", "-f", file.to_str().expect("UTF-8")]);
    kubectl.ok(&["delete", "crd", "gears.silence.example.com"]);
    let ended = server.terminate();
    let loud = ended
        .stderr
        .lines()
        .filter(|line| line.contains("WARN") || line.contains("ERROR"));
    assert_eq!(loud.collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn a_foreign_directory_is_left_alone() {
    let dir = data();
    let data = dir.path().join("data");
    fs::create_dir(&data).expect("made");
    fs::write(data.join("thesis.txt"), "years of work").expect("written");
    check(
        &["up"],
        &data,
        "NOTHING",
        3,
        &expect![[r#"
        error: "DIR/data" is not empty, and not a data directory of deltaplane (there is "thesis.txt")
        hint: choose an empty or a new directory with --data-dir
    "#]],
    );
    let names: Vec<_> = fs::read_dir(&data)
        .expect("a directory")
        .flatten()
        .map(|e| e.file_name())
        .collect();
    assert_eq!(names, ["thesis.txt"]);
}

#[test]
fn a_file_is_no_directory() {
    let dir = data();
    let data = dir.path().join("data");
    fs::write(&data, "a file").expect("written");
    check(
        &["up"],
        &data,
        "NOTHING",
        3,
        &expect![[r#"
        error: cannot use the data directory "DIR/data"
          because: failed to read "DIR/data"
          because: Not a directory (os error 20)
        hint: DIR/data, or what is above it, is a file: name a directory with --data-dir
    "#]],
    );
}

#[test]
fn wrong_flags_are_explained() {
    let dir = data();
    let data = dir.path().join("data");
    check(
        &["up", "--listen", "127.0.0.1:99999"],
        &data,
        "NOTHING",
        2,
        &expect![[r#"
            error: invalid value '127.0.0.1:99999' for '--listen <ADDRESS>': invalid socket address syntax

            For more information, try '--help'.
        "#]],
    );
    check(
        &["up", "--lisen", "127.0.0.1:0"],
        &data,
        "NOTHING",
        2,
        &expect![[r#"
        error: unexpected argument '--lisen' found

          tip: a similar argument exists: '--listen'

        Usage: deltaplane up --listen <ADDRESS>

        For more information, try '--help'.
    "#]],
    );
    check(
        &["down"],
        &data,
        "NOTHING",
        2,
        &expect![[r#"
        error: unrecognized subcommand 'down'

        Usage: deltaplane <COMMAND>

        For more information, try '--help'.
    "#]],
    );
    check(
        &["hub", "--tls-cert", "x.pem"],
        &data,
        "NOTHING",
        2,
        &expect![[r#"
        error: the following required arguments were not provided:
          --tls-key <FILE>

        Usage: deltaplane hub --tls-cert <FILE> --tls-key <FILE> --data-dir <DIR> --listen <ADDRESS>

        For more information, try '--help'.
    "#]],
    );
    check(
        &["hub", "--event-ttl", "soon"],
        &data,
        "NOTHING",
        2,
        &expect![[r#"
        error: invalid value 'soon' for '--event-ttl <DURATION>': write it as 90s, 15m, 1h or 1h30m

        For more information, try '--help'.
    "#]],
    );
    check(
        &[
            "hub",
            "--tls-cert",
            "/nothing.pem",
            "--tls-key",
            "/nothing.pem",
        ],
        &data,
        "NOTHING",
        5,
        &expect![[r#"
            error: cannot read the file that --tls-cert names
              because: failed to read "/nothing.pem"
              because: No such file or directory (os error 2)
            hint: there is no file /nothing.pem: name an existing PEM file with --tls-cert
        "#]],
    );
}
