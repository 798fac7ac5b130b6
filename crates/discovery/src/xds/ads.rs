//! Stream to a control plane, for all pools that have endpoints from there. See [`Ads`].

use super::exchange::Exchange;
use super::messages::{DiscoveryRequest, DiscoveryResponse, Locality, Node, STREAM};
use crate::backoff::{Backoff, Bucket};
use crate::grpc::{Calls, reason};
use crate::kept::List;
use crate::lock::lock;
use crate::registry::server_of;
use evenkeel_balance::EndpointId;
use evenkeel_config::plan::XdsServer;
use evenkeel_fetch::Fault;
use evenkeel_fetch::server::secret;
use hyper::header::HeaderValue;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::metadata::MetadataValue;

/// Time for the endpoints of a cluster, after which the control plane is taken to have none. Envoy's
/// `initial_fetch_timeout`.
const PATIENCE: Duration = Duration::from_secs(15);

/// Time for the answer to a PING, as `fetch` has it.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Requests that may wait until the control plane reads them.
const UNREAD: usize = 64;

/// Control plane, followed once for all pools.
#[derive(Debug)]
pub struct Ads {
    topics: Arc<Topics>,
    task: AbortHandle,
}

/// Clusters that pools have subscribed to.
#[derive(Debug, Default)]
struct Topics {
    by_cluster: Mutex<BTreeMap<String, watch::Sender<Seen>>>,
    /// Wakes the task of the stream.
    changed: Notify,
}

/// Latest state of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Endpoints that were valid last; `None` before the first.
    pub list: Option<Arc<List>>,
    /// Reason why the list may be old, or is missing.
    pub trouble: Option<String>,
    /// Number of times that the endpoints were found to be the current ones.
    pub confirmed: u64,
}

/// Subscription of a pool, which ends when this is dropped.
#[derive(Debug)]
pub struct Subscription {
    /// `None` only while it is dropped.
    seen: Option<watch::Receiver<Seen>>,
    topics: Arc<Topics>,
}

impl Ads {
    /// Begins to follow a control plane.
    pub fn follow(server: XdsServer) -> Ads {
        let topics = Arc::<Topics>::default();
        let task = tokio::spawn(follow(server, topics.clone())).abort_handle();
        Ads { topics, task }
    }

    /// Subscribes to the endpoints of a cluster.
    pub fn subscribe(&self, cluster: &str) -> Subscription {
        let seen = lock(&self.topics.by_cluster).entry(cluster.to_owned()).or_default().subscribe();
        self.topics.changed.notify_one();
        Subscription { seen: Some(seen), topics: self.topics.clone() }
    }
}

impl Drop for Ads {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Subscription {
    /// Returns the latest state, and marks it as seen.
    pub fn latest(&mut self) -> Seen {
        self.seen.as_mut().map_or_else(Seen::default, |seen| seen.borrow_and_update().clone())
    }

    /// Waits for a state that was not seen; false if the control plane is not followed any more. Cancel safe.
    pub async fn changed(&mut self) -> bool {
        match &mut self.seen {
            Some(seen) => seen.changed().await.is_ok(),
            None => false,
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        drop(self.seen.take());
        self.topics.changed.notify_one();
    }
}

impl Topics {
    /// Clusters of pools that still exist.
    fn names(&self) -> BTreeSet<String> {
        let mut all = lock(&self.by_cluster);
        all.retain(|_, topic| topic.receiver_count() > 0);
        all.keys().cloned().collect()
    }

    fn update(&self, cluster: &str, change: impl FnOnce(&mut Seen)) {
        if let Some(topic) = lock(&self.by_cluster).get(cluster) {
            topic.send_modify(change);
        }
    }

    fn update_all(&self, change: impl Fn(&mut Seen)) {
        lock(&self.by_cluster).values().for_each(|topic| topic.send_modify(&change));
    }

    fn fail(&self, cluster: &str, why: String) {
        self.update(cluster, |seen| seen.trouble = Some(why));
    }
}

/// Follows a control plane, one stream after the other.
async fn follow(server: XdsServer, topics: Arc<Topics>) {
    let mut backoff = Backoff::new(EndpointId::of(&server.url).0);
    loop {
        while topics.names().is_empty() {
            topics.changed.notified().await;
        }
        let why = match stream(&server, &topics, &mut backoff).await {
            Ok(()) => "it ended the stream".to_owned(),
            Err(error) => error.to_string(),
        };
        topics.update_all(|seen| seen.trouble = Some(why.clone()));
        sleep(backoff.pause(None)).await;
    }
}

/// Follows a control plane over one stream, until that ends.
async fn stream(server: &XdsServer, topics: &Topics, backoff: &mut Backoff) -> Result<(), Fault> {
    let calls = Calls::connect(&server_of(&server.url, &server.credentials)?, server.ping_after).await?;
    let (sender, requests) = mpsc::channel(UNREAD);
    let mut requests = tonic::Request::new(ReceiverStream::new(requests));
    if let Some(file) = &server.credentials.token_file {
        let token: HeaderValue = secret(file, "Bearer ")?;
        requests.metadata_mut().insert("authorization", MetadataValue::try_from(token.as_bytes())?);
    }
    let mut session = Session::new(server, topics, sender);
    session.subscribe(Some(node(server)))?;
    // The head of the response may come with the first endpoints only.
    let mut opening = pin!(calls.streaming::<_, DiscoveryResponse>(STREAM, requests));
    let mut responses = None;
    loop {
        tokio::select! {
            opened = &mut opening, if responses.is_none() => {
                responses = Some(opened.map_err(|status| reason(&status))?);
            }
            response = next(&mut responses) => match response? {
                Some(response) => {
                    session.take(&response)?;
                    backoff.reset();
                }
                None => return Ok(()),
            },
            () = topics.changed.notified() => session.subscribe(None)?,
            () = sleep_until(session.due()) => session.check()?,
        }
    }
}

/// Returns the next response of a stream that is open. Cancel safe.
async fn next(responses: &mut Option<Streaming<DiscoveryResponse>>) -> Result<Option<DiscoveryResponse>, Fault> {
    match responses {
        Some(responses) => Ok(responses.message().await.map_err(|status| reason(&status))?),
        None => std::future::pending().await,
    }
}

/// Part of a stream that decides, between requests and responses.
struct Session<'a> {
    topics: &'a Topics,
    exchange: Exchange,
    sender: mpsc::Sender<DiscoveryRequest>,
    /// Refusal that waits for its time. Control planes send at once again what was refused, thousands of times a second.
    refusal: Option<(Instant, DiscoveryRequest)>,
    refusals: Bucket,
    /// Clusters without an answer on this stream, by the time until which one is expected.
    expected: HashMap<String, Instant>,
    /// True if the control plane has sent anything.
    answered: bool,
    /// Time after which a stream that lives has answered one more PING.
    confirm_at: Instant,
    confirm_every: Duration,
}

impl<'a> Session<'a> {
    fn new(server: &XdsServer, topics: &'a Topics, sender: mpsc::Sender<DiscoveryRequest>) -> Session<'a> {
        let confirm_every = server.ping_after + PING_TIMEOUT;
        Session {
            topics,
            exchange: Exchange::default(),
            sender,
            refusal: None,
            refusals: Bucket::new(),
            expected: HashMap::new(),
            answered: false,
            confirm_at: Instant::now() + confirm_every,
            confirm_every,
        }
    }

    /// Asks for the clusters of all pools, if those are others than before. `node` is for the first request.
    fn subscribe(&mut self, node: Option<Node>) -> Result<(), Fault> {
        let names = self.topics.names();
        if names == *self.exchange.names() && node.is_none() {
            return Ok(());
        }
        self.expected.retain(|name, _| names.contains(name));
        for name in names.difference(self.exchange.names()) {
            self.expected.insert(name.clone(), Instant::now() + PATIENCE);
        }
        let request = self.exchange.subscribe(names, node);
        if let Some((_, refusal)) = &mut self.refusal {
            refusal.resource_names = request.resource_names;
            return Ok(());
        }
        self.send(request)
    }

    /// Reads a response, and acknowledges or refuses it.
    fn take(&mut self, response: &DiscoveryResponse) -> Result<(), Fault> {
        self.answered = true;
        let Some((assigned, request)) = self.exchange.answer(response) else { return Ok(()) };
        for (name, list) in assigned {
            self.expected.remove(&name);
            match list {
                Ok(list) => self.topics.update(&name, |seen| {
                    (seen.list, seen.trouble) = (Some(Arc::new(list)), None);
                    seen.confirmed += 1;
                }),
                Err(why) => self.topics.fail(&name, format!("its endpoints are refused: {why}")),
            }
        }
        self.refusal = None;
        if request.error_detail.is_some() {
            self.refusal = Some((self.refusals.taken_at(Instant::now()), request));
            return Ok(());
        }
        self.send(request)
    }

    fn send(&self, request: DiscoveryRequest) -> Result<(), Fault> {
        self.sender.try_send(request).map_err(|_| "it does not read requests".into())
    }

    /// Time of the next [`check`](Self::check).
    fn due(&self) -> Instant {
        let refusal = self.refusal.iter().map(|(at, _)| *at);
        self.expected.values().copied().chain(refusal).fold(self.confirm_at, Instant::min)
    }

    /// Sends a refusal whose time has come, reports clusters without an answer, and confirms the others.
    fn check(&mut self) -> Result<(), Fault> {
        let now = Instant::now();
        if let Some((_, refusal)) = self.refusal.take_if(|(at, _)| *at <= now) {
            self.send(refusal)?;
        }
        let late: Vec<String> =
            self.expected.iter().filter(|(_, until)| **until <= now).map(|(name, _)| name.clone()).collect();
        for name in late {
            self.expected.remove(&name);
            let why = match self.answered {
                true => format!("the server has no endpoints for {name:?}"),
                false => format!("no answer within {PATIENCE:?}: the server may have no endpoints for {name:?}"),
            };
            self.topics.fail(&name, why);
        }
        if self.confirm_at <= now {
            self.confirm_at = now + self.confirm_every;
            self.topics.update_all(|seen| seen.confirmed += u64::from(seen.trouble.is_none()));
        }
        Ok(())
    }
}

/// Identity of this balancer.
fn node(server: &XdsServer) -> Node {
    let machine = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    let place = |place: &Option<String>| place.clone().unwrap_or_default();
    Node {
        id: server.node_id.clone().unwrap_or_else(machine),
        cluster: server.node_cluster.clone(),
        locality: Some(Locality { region: place(&server.region), zone: place(&server.zone) }),
        user_agent_name: "evenkeel".to_owned(),
        user_agent_version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}
