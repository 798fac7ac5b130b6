//! Stream to a control plane, for all pools that have endpoints from there, and for the provider. See [`Ads`].

use super::consumer::Consumer;
use super::delta::{Delta, Versions};
use super::messages::{Locality, Node};
use super::session::{Protocol, Session};
pub use super::topics::Subscription;
use super::topics::Topics;
use super::world::World;
use crate::backoff::Backoff;
use crate::grpc::{Calls, reason};
use crate::registry::server_of;
use evenkeel_balance::EndpointId;
use evenkeel_config::plan::XdsServer;
use evenkeel_fetch::Fault;
use evenkeel_fetch::server::secret;
use hyper::header::HeaderValue;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{sleep, sleep_until};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::metadata::MetadataValue;

/// Time for the answer to a PING, as in `fetch`.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Requests that may wait until the control plane reads them.
const UNREAD: usize = 64;

/// Control plane, followed once for all pools and the provider.
#[derive(Debug)]
pub struct Ads {
    topics: Arc<Topics>,
    task: AbortHandle,
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
        self.topics.subscribe(cluster)
    }

    /// Gives listeners, route configurations and clusters to a consumer, as long as that exists. With `delta`, the stream
    /// has differences, also of endpoints.
    pub fn attach(&self, consumer: &Arc<dyn Consumer>, delta: bool) {
        self.topics.attach(consumer, delta);
    }
}

impl Drop for Ads {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Follows a control plane, stream after stream.
async fn follow(server: XdsServer, topics: Arc<Topics>) {
    let mut backoff = Backoff::new(EndpointId::of(&server.url).0);
    let (mut versions, mut last) = (Versions::default(), 0);
    loop {
        while !topics.wants_something() {
            topics.changed.notified().await;
        }
        let (is_delta, generation) = topics.form();
        if generation != last {
            (versions, last) = (Versions::default(), generation);
        }
        let ended = match is_delta {
            true => stream(&server, &topics, Delta::new(&versions), &mut backoff).await,
            false => stream(&server, &topics, World::default(), &mut backoff).await,
        };
        let why = match ended {
            Ok(Ended::Otherwise) => continue,
            Ok(Ended::ByServer) => "it ended the stream".to_owned(),
            Err(error) => error.to_string(),
        };
        topics.update_all(|seen| seen.trouble = Some(why.clone()));
        if let Some(consumer) = topics.consumer() {
            consumer.lost(&why);
        }
        sleep(backoff.pause(None)).await;
    }
}

/// End of a stream that has not failed.
enum Ended {
    ByServer,
    /// Another consumer, or the other form of the protocol.
    Otherwise,
}

/// Follows a control plane over a stream, until the stream ends.
async fn stream<P: Protocol>(
    server: &XdsServer,
    topics: &Topics,
    protocol: P,
    backoff: &mut Backoff,
) -> Result<Ended, Fault> {
    let calls = Calls::connect(&server_of(&server.url, &server.credentials)?, server.ping_after).await?;
    let (sender, requests) = mpsc::channel(UNREAD);
    let mut requests = tonic::Request::new(ReceiverStream::new(requests));
    if let Some(file) = &server.credentials.token_file {
        let token: HeaderValue = secret(file, "Bearer ")?;
        requests.metadata_mut().insert("authorization", MetadataValue::try_from(token.as_bytes())?);
    }
    let form = topics.form();
    let mut session = Session::new(topics, protocol, sender, node(server), server.ping_after + PING_TIMEOUT);
    session.subscribe()?;
    // The head of the response may come with the first endpoints only.
    let mut opening = pin!(calls.streaming::<_, P::Response>(P::PATH, requests));
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
                None => return Ok(Ended::ByServer),
            },
            () = topics.changed.notified() => {
                if topics.form() != form {
                    return Ok(Ended::Otherwise);
                }
                session.subscribe()?;
            }
            () = sleep_until(session.due()) => session.check()?,
        }
    }
}

/// Returns the next response of a stream that is open. Cancel safe.
async fn next<R>(responses: &mut Option<Streaming<R>>) -> Result<Option<R>, Fault> {
    match responses {
        Some(responses) => Ok(responses.message().await.map_err(|status| reason(&status))?),
        None => std::future::pending().await,
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
