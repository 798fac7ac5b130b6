//! Decisions on a stream, between requests and responses, in either form of the protocol. See [`Session`].

use super::assignment::{Assigned, read};
use super::consumer::{Kind, Received, Wanted};
use super::messages::Node;
use super::topics::Topics;
use crate::backoff::Bucket;
use evenkeel_fetch::Fault;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Time for the endpoints of a cluster, after which the control plane is taken to have none. Envoy's
/// `initial_fetch_timeout`.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// Form of the protocol: builds requests, and reads and acknowledges responses.
pub trait Protocol {
    type Request: Message + Send + Sync + 'static;
    type Response: Message + Default + Send + Sync + 'static;

    /// gRPC method, as a path with the service in front.
    const PATH: &'static str;
    /// True if resources can be asked for between a response and its refusal.
    const ASKS_WHILE_REFUSING: bool;

    /// Resources that were asked for last.
    fn wanted(&self, kind: Kind) -> Wanted;

    /// Returns the request for these resources, and for no others. The first request of a stream needs `node`.
    fn subscribe(&mut self, kind: Kind, wanted: Wanted, node: Option<Node>) -> Self::Request;

    /// True if the server knows the kept version of a resource, so that it sends only other versions.
    fn keeps(&self, kind: Kind, name: &str) -> bool;

    /// Forgets which version of a resource is kept.
    fn forget(&mut self, kind: Kind, name: &str);

    /// Reads a response; `None` if its type was not asked for.
    fn read<'r>(&mut self, response: &'r Self::Response) -> Option<Received<'r>>;

    /// Returns the request that acknowledges the last response of a type, or refuses it for this reason.
    fn reply(&mut self, kind: Kind, verdict: Result<(), &str>) -> Self::Request;
}

pub struct Session<'a, P: Protocol> {
    topics: &'a Topics,
    protocol: P,
    sender: mpsc::Sender<P::Request>,
    /// Identity of this balancer, until it was sent.
    node: Option<Node>,
    /// Refusals that wait for their time. Control planes resend refused resources at once, thousands of times a second.
    refusals: BTreeMap<Kind, (Instant, String)>,
    pace: BTreeMap<Kind, Bucket>,
    /// Clusters without an answer on this stream.
    expected: HashMap<String, Expected>,
    /// True if the control plane has sent anything.
    answered: bool,
    /// Time by which a live stream has answered another PING.
    confirm_at: Instant,
    confirm_every: Duration,
}

/// Answer that is expected for a cluster.
#[derive(Clone, Copy, Debug)]
struct Expected {
    until: Instant,
    /// True if a missing response means that the endpoints have not changed.
    is_kept: bool,
}

impl<'a, P: Protocol> Session<'a, P> {
    pub fn new(
        topics: &'a Topics,
        protocol: P,
        sender: mpsc::Sender<P::Request>,
        node: Node,
        confirm_every: Duration,
    ) -> Session<'a, P> {
        Session {
            topics,
            protocol,
            sender,
            node: Some(node),
            refusals: BTreeMap::new(),
            pace: BTreeMap::new(),
            expected: HashMap::new(),
            answered: false,
            confirm_at: Instant::now() + confirm_every,
            confirm_every,
        }
    }

    /// Asks for the resources of the provider and of all pools, if those are others than before.
    pub fn subscribe(&mut self) -> Result<(), Fault> {
        for kind in Kind::ALL {
            let (before, wanted) = (self.protocol.wanted(kind), self.topics.wanted(kind));
            if before == wanted {
                continue;
            }
            if let (Kind::Assignment, Wanted::Named(names)) = (kind, &wanted) {
                self.expected.retain(|name, _| names.contains(name));
                let known = BTreeSet::new();
                let known = if let Wanted::Named(before) = &before { before } else { &known };
                for name in names.difference(known) {
                    let is_kept = self.topics.has_list(name);
                    if !is_kept {
                        // A pool that is new since the last stream needs them, also if they have not changed.
                        self.protocol.forget(kind, name);
                    }
                    let is_kept = is_kept && self.protocol.keeps(kind, name);
                    self.expected.insert(name.clone(), Expected { until: Instant::now() + PATIENCE, is_kept });
                }
            }
            let waits = !P::ASKS_WHILE_REFUSING && self.refusals.contains_key(&kind);
            let node = if waits { None } else { self.node.take() };
            let request = self.protocol.subscribe(kind, wanted, node);
            if !waits {
                self.send(request)?;
            }
        }
        Ok(())
    }

    /// Reads a response, and acknowledges or refuses it.
    pub fn take(&mut self, response: &P::Response) -> Result<(), Fault> {
        if !self.answered {
            self.answered = true;
            self.found();
        }
        let Some(received) = self.protocol.read(response) else { return Ok(()) };
        let kind = received.kind;
        let verdict = match (kind, self.topics.consumer()) {
            (Kind::Assignment, _) => self.assigned(&received),
            (_, Some(consumer)) => consumer.take(received),
            // The provider has ended since it was asked for.
            (_, None) => Ok(()),
        };
        self.refusals.remove(&kind);
        match verdict {
            Ok(()) => {
                let request = self.protocol.reply(kind, Ok(()));
                self.send(request)?;
            }
            Err(why) => {
                let pace = self.pace.entry(kind).or_insert_with(Bucket::new);
                self.refusals.insert(kind, (pace.taken_at(Instant::now()), why));
            }
        }
        // Listeners name route configurations.
        self.subscribe()
    }

    /// Gives the endpoints of clusters to the pools that have subscribed to them. The valid parts of a response count
    /// even if the response is refused.
    fn assigned(&mut self, received: &Received<'_>) -> Result<(), String> {
        let names = self.protocol.wanted(Kind::Assignment);
        let mut wrong = Vec::new();
        for (n, resource) in received.resources.iter().enumerate() {
            let assignment = match resource {
                Ok(bytes) => read(bytes),
                Err(unread) => Err(unread.why.clone()),
            };
            let (name, assigned) = match assignment {
                Ok(read) => read,
                Err(why) => {
                    wrong.push(format!("resource {n}: {why}"));
                    continue;
                }
            };
            if let Err(why) = &assigned {
                wrong.push(format!("{name}: {why}"));
            }
            if matches!(&names, Wanted::Named(names) if names.contains(&name)) {
                self.expected.remove(&name);
                self.give(&name, assigned);
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }

    fn give(&self, cluster: &str, assigned: Result<Assigned, String>) {
        match assigned {
            Ok(assigned) => self.topics.update(cluster, |seen| {
                (seen.assigned, seen.trouble) = (Some(Arc::new(assigned)), None);
                seen.confirmed += 1;
            }),
            Err(why) => self.topics.fail(cluster, format!("its endpoints refused: {why}")),
        }
    }

    /// Reports to the provider that there is a control plane.
    fn found(&self) {
        if let Some(consumer) = self.topics.consumer() {
            consumer.found();
        }
    }

    fn send(&self, request: P::Request) -> Result<(), Fault> {
        self.sender.try_send(request).map_err(|_| "it does not read requests".into())
    }

    /// Time of the next [`check`](Self::check).
    pub fn due(&self) -> Instant {
        let refusals = self.refusals.values().map(|(at, _)| *at);
        let expected = self.expected.values().map(|expected| expected.until);
        expected.chain(refusals).fold(self.confirm_at, Instant::min)
    }

    /// Sends refusals whose time has come, reports clusters without an answer, and confirms the others. If the server
    /// knows the version of a cluster, it need not answer: nothing has changed.
    pub fn check(&mut self) -> Result<(), Fault> {
        let now = Instant::now();
        let due: Vec<Kind> = self.refusals.iter().filter(|(_, (at, _))| *at <= now).map(|(kind, _)| *kind).collect();
        for kind in due {
            let Some((_, why)) = self.refusals.remove(&kind) else { continue };
            let request = self.protocol.reply(kind, Err(&why));
            self.send(request)?;
        }
        let late: Vec<(String, bool)> = self
            .expected
            .iter()
            .filter(|(_, expected)| expected.until <= now)
            .map(|(name, expected)| (name.clone(), expected.is_kept))
            .collect();
        for (name, is_kept) in late {
            self.expected.remove(&name);
            if is_kept {
                self.topics.confirm(&name);
                self.found();
                continue;
            }
            let why = match self.answered {
                true => format!("the server has no endpoints for {name:?}"),
                false => format!("no answer within {PATIENCE:?}: the server may have no endpoints for {name:?}"),
            };
            self.topics.fail(&name, why);
        }
        if self.confirm_at <= now {
            self.confirm_at = now + self.confirm_every;
            self.topics.confirm_all();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::lock;
    use crate::xds::consumer::Consumer;
    use crate::xds::delta::{Delta, Versions};
    use crate::xds::messages::{
        ASSIGNMENT, Any, CLUSTER, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, LISTENER, ROUTES,
        Resource,
    };
    use crate::xds::world::World;
    use evenkeel_envoy::schema;
    use evenkeel_envoy::testing::encoded;
    use serde_json::json;
    use std::sync::Mutex;

    /// Provider that wants a route configuration for each listener, and refuses resources that begin with `!`.
    #[derive(Debug, Default)]
    struct Taker(Mutex<BTreeSet<String>>);

    impl Consumer for Taker {
        fn route_names(&self) -> BTreeSet<String> {
            lock(&self.0).clone()
        }

        fn take(&self, received: Received<'_>) -> Result<(), String> {
            let all: Result<Vec<Vec<u8>>, _> = received.resources.into_iter().collect();
            let all = all.map_err(|unread| unread.why)?;
            let all: Vec<String> = all.into_iter().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect();
            if let Some(bad) = all.iter().find(|name| name.starts_with('!')) {
                return Err(format!("{bad}: no"));
            }
            if received.kind == Kind::Listener {
                *lock(&self.0) = all.into_iter().collect();
            }
            Ok(())
        }

        fn lost(&self, _: &str) {}

        fn found(&self) {}
    }

    fn response(kind: &str, version: &str, all: &[&str]) -> DiscoveryResponse {
        let resources = all.iter().map(|name| Any { type_url: kind.into(), value: name.as_bytes().to_vec() }).collect();
        DiscoveryResponse {
            version_info: version.into(),
            resources,
            type_url: kind.into(),
            nonce: format!("n{version}"),
        }
    }

    /// Requests that wait to be sent: type, version, names and refusal.
    fn sent(requests: &mut mpsc::Receiver<DiscoveryRequest>) -> Vec<String> {
        let mut all = Vec::new();
        while let Ok(request) = requests.try_recv() {
            let kind = request.type_url.rsplit('.').next().unwrap_or_default().to_owned();
            let why = request.error_detail.map(|why| format!(" refused: {}", why.message)).unwrap_or_default();
            all.push(format!("{kind} {:?} {}{why}", request.version_info, request.resource_names.join(",")));
        }
        all
    }

    #[tokio::test(start_paused = true)]
    async fn resources_are_asked_for_in_the_order_that_breaks_nothing_and_answered() {
        let (topics, taker) = (Arc::<Topics>::default(), Arc::<Taker>::default());
        let consumer: Arc<dyn Consumer> = taker.clone();
        topics.attach(&consumer, false);
        let (sender, mut requests) = mpsc::channel(64);
        let mut session = Session::new(&topics, World::default(), sender, Node::default(), Duration::from_secs(60));
        let _subscription = topics.subscribe("web");
        session.subscribe().expect("room");
        assert_eq!(sent(&mut requests), ["Cluster \"\" ", "ClusterLoadAssignment \"\" web", "Listener \"\" "]);
        session.take(&response(LISTENER, "1", &["main"])).expect("room");
        assert_eq!(sent(&mut requests), ["Listener \"1\" ", "RouteConfiguration \"\" main"]);
        // A refusal has the last accepted version. After five refusals, there is one per second.
        for n in 2..10 {
            session.take(&response(LISTENER, &n.to_string(), &["!bad"])).expect("room");
            session.check().expect("room");
        }
        assert_eq!(sent(&mut requests), vec!["Listener \"1\"  refused: !bad: no"; 5]);
        assert!(session.due() > Instant::now());
        tokio::time::advance(Duration::from_secs(5)).await;
        session.check().expect("room");
        assert_eq!(sent(&mut requests).len(), 1, "that of the last response");
        session.take(&response(LISTENER, "3", &[])).expect("room");
        assert_eq!(sent(&mut requests), ["Listener \"3\" ", "RouteConfiguration \"\" "]);
    }

    /// Response of a server that sends differences, with the endpoints of clusters.
    fn differences(all: &[&str]) -> DeltaDiscoveryResponse {
        let resource = |name: &&str| {
            let value = encoded(&schema::ASSIGNMENT, &json!({ "cluster_name": name }));
            let any = Any { type_url: ASSIGNMENT.into(), value };
            Resource { version: "1".into(), resource: Some(any), name: (*name).into() }
        };
        let resources = all.iter().map(resource).collect();
        DeltaDiscoveryResponse { resources, type_url: ASSIGNMENT.into(), nonce: "n".into(), ..Default::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_knows_the_version_of_endpoints_need_not_send_them_again() {
        let (topics, versions) = (Arc::<Topics>::default(), Versions::default());
        let session = || {
            let (sender, requests) = mpsc::channel(64);
            let (delta, every) = (Delta::new(&versions), Duration::from_secs(600));
            (Session::new(&topics, delta, sender, Node::default(), every), requests)
        };
        let (mut web, mut api) = (topics.subscribe("web"), topics.subscribe("api"));
        let (mut first, _requests) = session();
        first.subscribe().expect("room");
        first.take(&differences(&["web"])).expect("room");
        tokio::time::advance(PATIENCE).await;
        first.check().expect("room");
        assert_eq!(api.latest().trouble.as_deref(), Some("the server has no endpoints for \"api\""));
        topics.update_all(|seen| seen.trouble = Some("it ended the stream".into()));
        let confirmed = web.latest().confirmed;

        let (mut second, mut requests) = session();
        second.subscribe().expect("room");
        let asked = requests.try_recv().expect("it asks");
        assert_eq!(asked.initial_resource_versions.len(), 1);
        tokio::time::advance(PATIENCE).await;
        second.check().expect("room");
        let seen = web.latest();
        assert_eq!((seen.trouble, seen.confirmed), (None, confirmed + 1));
        assert!(api.latest().trouble.expect("it was never sent").starts_with("no answer within 15s"));

        // A pool that has lost them needs them again.
        drop((web, second));
        topics.wanted(Kind::Assignment);
        let mut web = topics.subscribe("web");
        let (mut third, mut requests) = session();
        third.subscribe().expect("room");
        assert!(requests.try_recv().expect("it asks").initial_resource_versions.is_empty());
        tokio::time::advance(PATIENCE).await;
        third.check().expect("room");
        assert!(web.latest().trouble.is_some());
    }

    #[tokio::test]
    async fn garbage_and_types_that_were_not_asked_for_are_harmless() {
        let (topics, taker) = (Arc::<Topics>::default(), Arc::<Taker>::default());
        let consumer: Arc<dyn Consumer> = taker.clone();
        topics.attach(&consumer, false);
        let (sender, mut requests) = mpsc::channel(64);
        let mut session = Session::new(&topics, World::default(), sender, Node::default(), Duration::from_secs(60));
        let mut subscription = topics.subscribe("web");
        session.subscribe().expect("room");
        let _ = sent(&mut requests);
        for kind in ["type.googleapis.com/a.B", "", ROUTES] {
            session.take(&response(kind, "1", &["x"])).expect("room");
            assert!(sent(&mut requests).is_empty(), "{kind} was not asked for");
        }
        session.take(&response(ASSIGNMENT, "1", &["\u{ff}\u{ff}"])).expect("room");
        session.check().expect("room");
        assert!(sent(&mut requests)[0].contains("refused: resource 0: "));
        assert!(subscription.latest().assigned.is_none());
        let other = Any { type_url: LISTENER.into(), value: vec![] };
        let mixed = DiscoveryResponse { resources: vec![other], ..response(CLUSTER, "1", &[]) };
        session.take(&mixed).expect("room");
        session.check().expect("room");
        assert!(sent(&mut requests)[0].contains("Cluster \"\"  refused: its type is"));
    }
}
