//! A process that ends at any write: whether it came to pass or not, its answer is lost, and another
//! process goes on. Gates hold all the while.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_client::{Event, Feed, Pace, Query};
use futures::StreamExt;
use http::Request;
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;

use super::*;

/// What becomes of the write at which the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Lost,
    Done,
}

/// When the process ends, counted in writes.
#[derive(Clone)]
struct Doom {
    writes: usize,
    left: Arc<AtomicUsize>,
    last: Last,
    over: Arc<watch::Sender<bool>>,
}

/// What the ConfigMaps say, as the store has it, one change after the other.
#[derive(Default)]
struct Model {
    /// What each says, and what somebody said is right.
    says: BTreeMap<String, (String, String)>,
    most: usize,
}

impl Doom {
    fn after(writes: usize, last: Last) -> Self {
        Self {
            writes,
            left: Arc::new(AtomicUsize::new(writes)),
            last,
            over: Arc::new(watch::Sender::new(false)),
        }
    }

    /// Whether this is the last write.
    fn strikes(&self) -> bool {
        let less = |left: usize| left.checked_sub(1);
        let left = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        left == Ok(1)
    }

    /// A client whose process ends.
    fn client(&self, client: Client) -> Client {
        let doom = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (client, doom) = (client.clone(), doom.clone());
            async move {
                let gone = || Err(std::io::Error::other("the process has ended"));
                if *doom.over.borrow() {
                    return gone();
                }
                let writes = request.method() != http::Method::GET;
                if writes && doom.strikes() {
                    if doom.last == Last::Done {
                        let done = client.send(request).await;
                        done.map_err(std::io::Error::other)?;
                    }
                    doom.over.send_replace(true);
                    return gone();
                }
                client.send(request).await.map_err(std::io::Error::other)
            }
        });
        Client::new(service, "default")
    }

    async fn over(&self) {
        let mut over = self.over.subscribe();
        let _ = over.wait_for(|over| *over).await;
    }
}

impl Model {
    fn tell(&mut self, event: &Event, target: &str) {
        let Event::Applied(item) = event else {
            return;
        };
        let object: Value = item.parse().expect("an object");
        let name = item.header.name.clone();
        if !name.ends_with("-second") {
            return;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let said = text(&object["metadata"]["annotations"]["said"]);
        let says = text(&object["data"]["greeting"]);
        self.says.insert(name, (says, said));
        self.most = self.most.max(self.open(target).count());
    }

    /// Those that say what they should, and nobody said yet that this is right.
    fn open<'a>(&'a self, target: &'a str) -> impl Iterator<Item = &'a String> {
        let all = self.says.iter();
        let open = all.filter(move |(_, (says, said))| says == target && said != target);
        open.map(|(name, _)| name)
    }

    fn done(&self, target: &str) -> bool {
        let right = |(says, said): &(String, String)| says == target && said == target;
        self.says.len() == 3 && self.says.values().all(right)
    }
}

impl Graphs {
    /// Ends at this write, goes on, and says of everything that it is right, but not before an
    /// instance tells how it stands. How many were under way at most, and whether it ended.
    async fn survive(
        &mut self,
        doom: &Doom,
        change: (Resource, ObjectKey, Value),
        target: &str,
    ) -> (usize, bool) {
        self.tasks.shutdown(GRACE).await.expect("a clean end");
        (self.tasks, self.requests) = run_with(doom.client(self.world.client.clone()));
        let feed = |kind: Resource| {
            Feed::new(self.world.client.clone(), Query::all(kind), Pace::system()).events()
        };
        let (mut maps, mut told) = (feed(config_maps()), feed(shops()));
        let mut model = Model::default();
        let (kind, name, change) = change;
        self.change(&kind, &name, change).await;
        let (mut ended, mut due) = (false, false);
        let mut said = BTreeSet::new();
        while !model.done(target) {
            // What was said already may not have been told yet.
            let open: Vec<String> = {
                let open = model.open(target);
                open.filter(|name| !said.contains(*name)).cloned().collect()
            };
            if due && !open.is_empty() {
                due = false;
                for name in open {
                    let right = json!({"metadata": {"annotations": {"said": target}}});
                    self.change(&config_maps(), &key(&name), right).await;
                    said.insert(name);
                }
            }
            tokio::select! {
                Some(event) = maps.next() => model.tell(&event, target),
                Some(_) = told.next() => due = true,
                () = doom.over(), if !ended => {
                    ended = true;
                    self.restart().await;
                }
                () = tokio::time::sleep(GRACE) => {
                    let shops = self.world.list(&shops()).await;
                    panic!("{doom}: {:?} {shops:#?}", model.says)
                }
            }
        }
        (model.most, ended)
    }

    /// Tries every write of a change, twice.
    async fn survive_all(
        mut self,
        changes: impl Fn(&str) -> (Resource, ObjectKey, Value),
    ) -> usize {
        let mut survived = 0;
        for writes in 1.. {
            let mut ended = false;
            for last in [Last::Lost, Last::Done] {
                let target = format!("{last:?}{writes}");
                let doom = Doom::after(writes, last);
                let change = changes(&target);
                let (most, over) = self.survive(&doom, change, &target).await;
                assert_eq!(most, 1, "{doom}");
                ended |= over;
                survived += usize::from(over);
            }
            if !ended {
                break;
            }
        }
        self.end().await;
        survived
    }
}

impl std::fmt::Display for Doom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let left = self.left.load(Ordering::SeqCst);
        write!(f, "{:?} at {}, {left} left", self.last, self.writes)
    }
}

#[tokio::test]
async fn a_process_may_end_at_any_write_while_items_move() {
    let graphs = Graphs::rooms_of("hi").await;
    let survived = graphs
        .survive_all(|target| (shops(), key("shop"), json!({"spec": {"greeting": target}})))
        .await;
    // The finalizer and admission are there: three items, what is remembered of each, and a status.
    assert!(survived >= 12, "{survived}");
}

#[tokio::test]
async fn a_process_may_end_at_any_write_while_instances_move() {
    let graphs = Graphs::start().await;
    let mut definition = gated("!");
    let second = |greeting: &str| {
        let mut definition = gated("");
        definition["spec"]["resources"][1]["template"]["data"]["greeting"] = json!(greeting);
        definition
    };
    definition["spec"] = second("hi")["spec"].clone();
    graphs.define(definition).await;
    for name in ["a", "b", "c"] {
        graphs.world.create(&shops(), shop(name)).await;
        graphs.approve(name, "hi").await;
        graphs.until_state(name, "ACTIVE").await;
    }
    let changes = |target: &str| {
        (
            api::definitions(),
            rgd(),
            json!({"spec": second(target)["spec"]}),
        )
    };
    let survived = graphs.survive_all(changes).await;
    // A revision, admissions, objects, and what is told of all.
    assert!(survived >= 20, "{survived}");
}
