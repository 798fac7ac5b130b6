//! Engines of containers, Docker's or Podman's: a list of what runs, which is asked for again after each event. See
//! [`Engine`].

use crate::backoff::{Backoff, Bucket};
use crate::registry::{encoded, refusal, server_of};
use bytes::Bytes;
use evenkeel_balance::EndpointId;
use evenkeel_config::plan::DockerServer;
use evenkeel_fetch::server::secret;
use evenkeel_fetch::{Client, Fault, Lines};
use http_body_util::Full;
use hyper::header::AUTHORIZATION;
use hyper::{Request, StatusCode};
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

/// Largest list of containers, and longest event, in bytes.
const LIST_MAX: usize = 64 << 20;
const EVENT_MAX: usize = 1 << 20;

/// Time for an answer of the engine.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time after which the list is asked for again without an event: a connection may have died unseen.
const AGAIN: Duration = Duration::from_secs(60);

/// Containers that an engine lists, or why the list could not be read.
pub type Seen = Result<Arc<Vec<Container>>, String>;

/// Engine, followed once for all pools that have its containers.
#[derive(Debug)]
pub struct Engine {
    seen: watch::Receiver<Option<Seen>>,
    task: AbortHandle,
}

impl Engine {
    /// Begins to follow an engine.
    pub fn follow(server: DockerServer) -> Engine {
        let (tell, seen) = watch::channel(None);
        let task = tokio::spawn(follow(server, tell)).abort_handle();
        Engine { seen, task }
    }

    /// Latest list, and those that come; `None` before the first.
    pub fn seen(&self) -> watch::Receiver<Option<Seen>> {
        self.seen.clone()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Follows an engine: a list, and another one after each event.
async fn follow(server: DockerServer, tell: watch::Sender<Option<Seen>>) {
    let seed = EndpointId::of(&server.url).0;
    let (mut backoff, mut bucket) = (Backoff::new(seed), Bucket::new());
    loop {
        let why = match session(&server, &tell, &mut backoff, &mut bucket).await {
            Ok(()) => "it ended the stream of events".to_owned(),
            Err(error) => error.to_string(),
        };
        tell.send_replace(Some(Err(why)));
        sleep(backoff.pause(None)).await;
    }
}

/// Follows an engine over one stream of events, until that ends.
async fn session(
    server: &DockerServer,
    tell: &watch::Sender<Option<Seen>>,
    backoff: &mut Backoff,
    bucket: &mut Bucket,
) -> Result<(), Fault> {
    let place = server_of(&server.url, &server.credentials)?;
    let (mut listing, mut streaming) = (Client::new(place.clone()), Client::new(place));
    // Events from before the list are not missed, as the stream begins first.
    let filters = encoded(r#"{"type":["container","network"]}"#);
    let request = request(&format!("/events?filters={filters}"), server)?;
    let response = timeout(PATIENCE, streaming.streamed(request)).await.map_err(|_| late())??;
    if response.status() != StatusCode::OK {
        return Err(refusal(response.status(), &[]).into());
    }
    let mut events = Lines::of(response.into_body(), EVENT_MAX);
    loop {
        bucket.take().await;
        let containers = containers(&mut listing, server).await?;
        backoff.reset();
        tell.send_replace(Some(Ok(Arc::new(containers))));
        // The content of an event does not matter: what counts is the list after it.
        if let Ok(event) = timeout(AGAIN, events.next()).await
            && event?.is_none()
        {
            return Ok(());
        }
    }
}

async fn containers(client: &mut Client, server: &DockerServer) -> Result<Vec<Container>, Fault> {
    let request = request("/containers/json", server)?;
    let response = timeout(PATIENCE, client.whole(request, LIST_MAX)).await.map_err(|_| late())??;
    if response.status() != StatusCode::OK {
        return Err(refusal(response.status(), response.body()).into());
    }
    let mut containers: Vec<Container> =
        serde_json::from_slice(response.body()).map_err(|error| format!("it gave no list of containers: {error}"))?;
    // Podman lists those in the network of the host without any network.
    for container in containers.iter_mut().filter(|container| container.is_nowhere()) {
        container.host_config = inspected(client, server, &container.id).await?;
    }
    Ok(containers)
}

/// Settings of a container; `None` if it has ended meanwhile.
async fn inspected(client: &mut Client, server: &DockerServer, id: &str) -> Result<Option<Host>, Fault> {
    let request = request(&format!("/containers/{}/json", encoded(id)), server)?;
    let response = timeout(PATIENCE, client.whole(request, LIST_MAX)).await.map_err(|_| late())??;
    match response.status() {
        StatusCode::OK => {
            let inspected: Inspected = serde_json::from_slice(response.body())
                .map_err(|error| format!("it does not describe a container: {error}"))?;
            Ok(inspected.host_config)
        }
        StatusCode::NOT_FOUND => Ok(None),
        status => Err(refusal(status, response.body()).into()),
    }
}

fn late() -> Fault {
    format!("no answer within {PATIENCE:?}").into()
}

fn request(path: &str, server: &DockerServer) -> Result<Request<Full<Bytes>>, Fault> {
    let mut request = Request::get(path);
    if let Some(file) = &server.credentials.token_file {
        request = request.header(AUTHORIZATION, secret(file, "Bearer ")?);
    }
    Ok(request.body(Full::default())?)
}

/// Running container, as the engine lists it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Container {
    #[serde(default)]
    id: String,
    #[serde(default)]
    names: Option<Vec<String>>,
    #[serde(default)]
    labels: Option<HashMap<String, String>>,
    #[serde(default)]
    state: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    pub ports: Option<Vec<Port>>,
    #[serde(default)]
    pub network_settings: Option<Networks>,
    #[serde(default)]
    pub host_config: Option<Host>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inspected {
    #[serde(default)]
    host_config: Option<Host>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Port {
    #[serde(default)]
    pub private_port: u64,
    #[serde(default, rename = "Type")]
    pub kind: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Networks {
    #[serde(default)]
    pub networks: Option<HashMap<String, Network>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Network {
    #[serde(default, rename = "IPAddress")]
    pub v4: String,
    #[serde(default, rename = "GlobalIPv6Address")]
    pub v6: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Host {
    #[serde(default)]
    pub network_mode: String,
}

impl Container {
    pub fn name(&self) -> &str {
        let first = self.names.as_ref().and_then(|names| names.first()).map(|name| name.trim_start_matches('/'));
        first.unwrap_or(&self.id)
    }

    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.as_ref()?.get(name).map(String::as_str)
    }

    /// True if the list says neither its networks nor that it has none.
    fn is_nowhere(&self) -> bool {
        let networks = self.network_settings.as_ref().and_then(|settings| settings.networks.as_ref());
        networks.is_none_or(HashMap::is_empty) && self.host_config.is_none()
    }

    /// True if it has a label: `NAME`, or `NAME=VALUE`.
    pub fn has(&self, label: &str) -> bool {
        match label.split_once('=') {
            Some((name, value)) => self.label(name) == Some(value),
            None => self.label(label).is_some(),
        }
    }

    /// True if it may get requests: it runs, and its own health check, if it has one, does not say otherwise.
    pub fn serves(&self) -> bool {
        // The list has the health only in a text, as "Up 5 minutes (healthy)".
        let is_up = matches!(&*self.state, "" | "running") && self.status.starts_with("Up");
        is_up
            && !self.status.ends_with("(unhealthy)")
            && !self.status.contains("(health: starting)")
            && !self.status.ends_with("(starting)")
            && !self.status.ends_with("(Paused)")
    }

    /// Number in a label, if the container has the label.
    ///
    /// # Errors
    /// The label is not a number.
    pub fn number(&self, name: &str) -> Result<Option<u64>, String> {
        let number = |text: &str| text.trim().parse().map_err(|_| format!("label {name}: {text:?} is not a number"));
        self.label(name).map(number).transpose()
    }
}
