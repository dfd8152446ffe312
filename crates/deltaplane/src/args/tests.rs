use clap::CommandFactory;

use super::*;

fn environment(data_home: &str, home: &str, log: &str) -> Environment {
    let some = |text: &str| (!text.is_empty()).then(|| OsString::from(text));
    Environment {
        data_home: some(data_home),
        home: some(home),
        log: (!log.is_empty()).then(|| log.to_owned()),
        kubeconfig: None,
    }
}

fn settings(line: &str, environment: &Environment) -> Result<Settings, String> {
    let words = std::iter::once("deltaplane").chain(line.split_whitespace());
    let cli = Cli::try_parse_from(words).map_err(|error| error.kind().to_string())?;
    let settings = match cli.command {
        Command::Up(up) => up.settings(environment),
        Command::Hub(hub) => hub.settings(environment),
        Command::Zone(zone) => zone.settings(environment),
        Command::Cel(_)
        | Command::Graph(_)
        | Command::Plan(_)
        | Command::Version
        | Command::Zones(_)
        | Command::Token(_)
        | Command::Rollout(_)
        | Command::Wait(_)
        | Command::Examples(_) => panic!("{line}"),
    };
    settings.map_err(|error| error.to_string())
}

#[test]
fn the_command_line_is_well_formed() {
    Cli::command().debug_assert();
}

#[test]
fn where_data_is_kept() {
    let check = |line: &str, data_home: &str, home: &str, expected: Result<&str, &str>| {
        let settings = settings(line, &environment(data_home, home, ""));
        let found = settings.map(|settings| settings.plane.data_dir);
        let expected = expected.map(PathBuf::from).map_err(str::to_owned);
        assert_eq!(found, expected, "{line}");
    };
    check(
        "up",
        "",
        "/home/eve",
        Ok("/home/eve/.local/share/deltaplane"),
    );
    check("up", "/data", "/home/eve", Ok("/data/deltaplane"));
    check(
        "hub",
        "relative",
        "/home/eve",
        Ok("/home/eve/.local/share/deltaplane"),
    );
    check(
        "up",
        "",
        "",
        Err("there is no home directory to keep data in"),
    );
    let here = std::env::current_dir().expect("it exists").join("here");
    check(
        "up --data-dir here",
        "",
        "",
        Ok(here.to_str().expect("text")),
    );
}

#[test]
fn what_is_logged() {
    let check = |line: &str, log: &str, expected: Result<&str, &str>| {
        let settings = settings(line, &environment("", "/home/eve", log));
        let found = settings.map(|settings| settings.telemetry.filter.to_string());
        let expected = expected.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(found, expected, "{line} {log}");
    };
    check("up", "", Ok("warn"));
    check("hub", "", Ok("info"));
    check("hub", "debug", Ok("debug"));
    check("hub --log-level trace", "debug", Ok("trace"));
    check("hub --log-level warn,a=info", "", Ok("warn,a=info"));
    check("hub", "a=loud", Err("RUST_LOG cannot be used"));
    // Not the name of a target.
    check("hub", "wran", Err("RUST_LOG cannot be used"));
    let invalid = "invalid value for one of the arguments";
    check("hub --log-level wran", "", Err(invalid));
    check("hub --log-level a=loud", "", Err(invalid));
}

#[test]
fn certificates_come_together() {
    let check = |line: &str, expected: Result<Certificates, &str>| {
        let settings = settings(line, &environment("", "/home/eve", ""));
        let found = settings.map(|settings| settings.plane.certificates);
        assert_eq!(found, expected.map_err(str::to_owned), "{line}");
    };
    let missing = "one or more required arguments were not provided";
    check("hub", Ok(Certificates::Made));
    check("hub --tls-cert a", Err(missing));
    check("hub --tls-key a", Err(missing));
    check("hub --tls-ca a", Err(missing));
    let given = Certificates::Given {
        certificate: PathBuf::from("a"),
        key: PathBuf::from("b"),
        ca: None,
    };
    check("hub --tls-cert a --tls-key b", Ok(given));
    check("up --tls-cert a", Err("unexpected argument found"));
}

#[test]
fn a_zone_has_one_api() {
    let check = |line: &str, expected: Result<Option<&str>, &str>| {
        let settings = settings(line, &environment("", "/home/eve", ""));
        let found = settings.map(|settings| match settings.role {
            Role::Cluster { kubeconfig, .. } | Role::Standalone { kubeconfig, .. } => {
                Some(kubeconfig)
            }
            Role::Zone { .. } | Role::Hub { .. } | Role::Up { .. } => None,
        });
        let expected = expected.map(|path| path.map(PathBuf::from));
        assert_eq!(found, expected.map_err(str::to_owned), "{line}");
    };
    let conflict = "an argument cannot be used with one or more of the other specified arguments";
    check("zone", Ok(None));
    check("zone --kubeconfig a", Ok(Some("a")));
    check("zone --kubeconfig a --data-dir b", Ok(Some("a")));
    check("zone --kubeconfig a --listen 127.0.0.1:1", Err(conflict));
    check("zone --kubeconfig a --start-empty", Err(conflict));
    check("zone --kubeconfig a manifest", Err(conflict));
    check("zone --standalone --kubeconfig a", Ok(Some("a")));
    check("zone --standalone --kubeconfig a --join b", Err(conflict));
    let missing = "one or more required arguments were not provided";
    check("zone --standalone", Err(missing));
    let alone = "workloads of a cluster that follows a hub are not simulated";
    check("zone --kubeconfig a --simulate-workloads", Err(alone));
}

#[test]
fn hosts() {
    for good in [
        "hub",
        "hub.example.com",
        "1.hub-2.example",
        "10.0.0.1",
        "2001:db8::1",
    ] {
        assert_eq!(host(good), Ok(good.to_owned()));
    }
    let long = "a".repeat(64);
    for wrong in [
        "",
        "foo:7443",
        "https://foo",
        "*.foo",
        "foo.",
        ".foo",
        "a..b",
        "-a",
        "a-",
        "a_b",
        "foo/bar",
        "[::1]",
        "10.0.0.1:7443",
        "10.0.0.300",
        "a b",
        &long,
    ] {
        assert!(host(wrong).is_err(), "{wrong}");
    }
    let found = settings(
        "hub --advertise-address foo:1",
        &environment("", "/home/eve", ""),
    );
    assert_eq!(
        found.err().as_deref(),
        Some("invalid value for one of the arguments")
    );
}

#[test]
fn an_empty_start_is_asked_for() {
    for (line, expected) in [
        ("hub", false),
        ("hub --start-empty", true),
        ("up --start-empty", true),
    ] {
        let found = settings(line, &environment("", "/home/eve", ""));
        assert_eq!(
            found.map(|found| found.plane.start_empty),
            Ok(expected),
            "{line}"
        );
    }
}

#[test]
fn durations() {
    let check = |text: &str, seconds: Option<u64>| {
        assert_eq!(
            duration(text).ok(),
            seconds.map(Duration::from_secs),
            "{text}"
        );
    };
    check("90s", Some(90));
    check("1h30m", Some(5400));
    check("2d", Some(172_800));
    for wrong in [
        "",
        "0s",
        "h",
        "1",
        "-1s",
        "1w",
        "99999999999999999999s",
        "9999999999d",
        "1 h",
    ] {
        check(wrong, None);
    }
}

#[test]
fn the_variable_may_name_several_kubeconfigs() {
    let check = |variable: &str, expected: Option<&[&str]>| {
        let mut environment = environment("", "", "");
        environment.kubeconfig = Some(OsString::from(variable));
        let expected = expected.map(|paths| paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(environment.kubeconfigs(), expected, "{variable}");
    };
    check("a", Some(&["a"]));
    check("a::/b/c:", Some(&["a", "/b/c"]));
    check("", None);
    check(":", None);
}
