use super::*;

fn kind(name: &str) -> SyncKind {
    SyncKind::new("apps", name).expect("legal")
}

fn name(text: &str) -> ObjectName {
    text.parse().expect("legal")
}

fn version(digit: char) -> Version {
    let text: String = std::iter::repeat_n(digit, 64).collect();
    text.parse().expect("legal")
}

fn found(digit: char, judgement: Judgement, now: u64) -> Found {
    Found {
        version: Some(version(digit)),
        judgement,
        proven: None,
        now,
    }
}

fn board() -> (Board, SyncKind) {
    let mut board = Board::default();
    let kind = kind("Deployment");
    board.begin(&kind);
    (board, kind)
}

/// What is told: objects as `name@since`, with a star if they are ready, or `-name`.
fn told(fared: Option<Fared>) -> Vec<String> {
    let mut all = Vec::new();
    for (kind, said) in fared.into_iter().flat_map(|fared| fared.kinds) {
        all.extend(said.trouble.map(|why| format!("{}: {why}", kind.kind())));
        all.extend(said.objects.into_iter().map(|(name, fares)| match fares {
            Some(fares) if fares.state == FareState::Ready => format!("{name}@{}*", fares.since),
            Some(fares) => format!("{name}@{}", fares.since),
            None => format!("-{name}"),
        }));
    }
    all
}

#[test]
fn it_is_so_since_it_came_to_be_so_at_this_version() {
    let (mut board, kind) = board();
    let mut check = |found: Found, expected: &[&str]| {
        board.set(&kind, &name("a"), found);
        assert_eq!(told(board.changes(0)), expected);
    };
    check(found('1', Judgement::ready(), 10), &["a@10*"]);
    check(found('1', Judgement::ready(), 20), &[]);
    check(found('1', Judgement::waiting("x"), 30), &["a@30"]);
    check(found('1', Judgement::waiting("y"), 40), &["a@30"]);
    check(found('1', Judgement::ready(), 50), &["a@50*"]);
    // Another version is another thing, however ready the one before was.
    check(found('2', Judgement::ready(), 60), &["a@60*"]);
    check(found('2', Judgement::failed("z"), 70), &["a@70"]);
}

/// After a start nothing is known but what the object proves.
#[test]
fn what_the_object_proves_counts_at_first_sight_only() {
    let (mut board, kind) = board();
    let proven = |digit: char, proven: u64, now: u64| Found {
        proven: Some(proven),
        ..found(digit, Judgement::ready(), now)
    };
    board.set(&kind, &name("a"), proven('1', 5, 10));
    // Its clock was another.
    board.set(&kind, &name("b"), proven('1', 99, 10));
    assert_eq!(told(board.changes(0)), ["a@5*", "b@10*"]);
    board.set(&kind, &name("a"), proven('2', 5, 20));
    assert_eq!(told(board.changes(0)), ["a@20*"]);
}

#[test]
fn what_changed_is_told_once_and_all_to_whoever_is_new() {
    let (mut board, deployments) = board();
    assert!(!board.is_settled(1));
    board.follows(1);
    assert!(!board.is_settled(1));
    for one in ["a", "b"] {
        board.set(&deployments, &name(one), found('1', Judgement::ready(), 1));
    }
    board.seen(&deployments, &BTreeSet::from([name("a"), name("b")]));
    assert!(board.is_settled(1) && !board.is_settled(2));
    assert_eq!(told(board.changes(0)), ["a@1*", "b@1*"]);
    assert_eq!(board.changes(0), None);
    board.forget(&deployments, &name("a"));
    assert_eq!(told(board.changes(0)), ["-a"]);
    let daemons = kind("DaemonSet");
    board.begin(&daemons);
    board.trouble(&daemons, Some("not served".to_owned()));
    assert!(board.is_settled(1));
    assert_eq!(told(board.changes(0)), ["DaemonSet: not served"]);
    let whole = board.whole(0);
    assert_eq!(whole.len(), 1);
    assert_eq!(whole[0].part, FaredPart::Last);
    assert_eq!(
        told(whole.into_iter().next()),
        ["DaemonSet: not served", "b@1*"]
    );
    // What is not there when the feed began anew is gone.
    board.seen(&deployments, &BTreeSet::new());
    assert_eq!(told(board.changes(0)), ["-b"]);
    board.set(&deployments, &name("c"), found('1', Judgement::ready(), 1));
    board.end(&deployments);
    assert_eq!(told(board.changes(0)), ["-c"]);
    assert!(!board.set(&deployments, &name("c"), found('1', Judgement::ready(), 1)));
}

#[test]
fn much_is_told_in_parts() {
    let (mut board, kind) = board();
    let names = (0..2 * TOGETHER + 1).map(|number| name(&format!("n{number}")));
    for name in names {
        board.set(&kind, &name, found('1', Judgement::ready(), 1));
    }
    let parts = |fared: &[Fared]| {
        let sizes = fared.iter().map(|one| told(Some(one.clone())).len());
        sizes.collect::<Vec<_>>()
    };
    let changes: Vec<Fared> = std::iter::from_fn(|| board.changes(0)).collect();
    assert_eq!(parts(&changes), [TOGETHER, TOGETHER, 1]);
    let whole = board.whole(0);
    assert_eq!(parts(&whole), [TOGETHER, TOGETHER, 1]);
    let kinds: Vec<FaredPart> = whole.iter().map(|one| one.part).collect();
    assert_eq!(kinds, [FaredPart::More, FaredPart::More, FaredPart::Last]);
    let nothing = Board::default().whole(0);
    assert_eq!(nothing.len(), 1);
    assert_eq!(nothing[0].part, FaredPart::Last);
}

#[test]
fn nothing_is_told_of_what_secrets_hold() {
    let mut board = Board::default();
    let secrets = SyncKind::new("", "Secret").expect("legal");
    board.begin(&secrets);
    for judgement in [
        Judgement::waiting("waiting for object.metadata[\"hunter2\"]"),
        Judgement::failed("hunter2 is wrong"),
        Judgement::no_evidence("hunter2"),
    ] {
        board.set(&secrets, &name("a/b"), found('1', judgement, 10));
        let told = format!("{:?}", board.changes(10).expect("news"));
        assert!(!told.contains("hunter2"), "{told}");
    }
}
