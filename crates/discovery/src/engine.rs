//! Container engines, Docker or Podman: a list of running containers, read again after each event, with inspected
//! properties that the list lacks. See [`Engine`].

use crate::backoff::{Backoff, Bucket};
use crate::registry::{encoded, refusal, server_of};
use bytes::Bytes;
use evenkeel_balance::EndpointId;
use evenkeel_config::plan::{Docker, DockerServer};
use evenkeel_fetch::server::secret;
use evenkeel_fetch::{Client, Fault, Lines};
use http_body_util::Full;
use hyper::header::AUTHORIZATION;
use hyper::{Request, StatusCode};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

/// Largest list of containers, and longest event, in bytes.
const LIST_MAX: usize = 64 << 20;
const EVENT_MAX: usize = 1 << 20;

/// Time for the engine to respond.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time after which the list is read again without an event: a connection may have died unseen.
const AGAIN: Duration = Duration::from_secs(60);

/// Shorter time for lists with containers whose health changes without an event, as with Podman 4.3.
const AGAIN_FOR_HEALTH: Duration = Duration::from_secs(5);

/// Field of Podman's responses. Its lists lack ports and health; Docker's lists have them.
const PODMAN: &str = "libpod-api-version";

/// Containers that an engine lists, or why the list could not be read.
pub type Seen = Result<Arc<Vec<Container>>, String>;

/// Engine, followed once for all pools that have its containers.
#[derive(Debug)]
pub struct Engine {
    seen: watch::Receiver<Option<Seen>>,
    pools: watch::Sender<Pools>,
    task: AbortHandle,
}

/// Pools that have containers of an engine. Only their containers are inspected.
type Pools = Vec<Weak<Docker>>;

impl Engine {
    /// Begins to follow an engine.
    pub fn follow(server: DockerServer) -> Engine {
        let (tell, seen) = watch::channel(None);
        let (pools, added) = watch::channel(Pools::new());
        let task = tokio::spawn(follow(server, added, tell)).abort_handle();
        Engine { seen, pools, task }
    }

    /// Returns a receiver of lists with everything that a pool needs of its containers; `None` before the first list.
    pub fn seen(&self, pool: &Arc<Docker>) -> watch::Receiver<Option<Seen>> {
        self.pools.send_modify(|pools| {
            pools.retain(|pool| pool.strong_count() > 0);
            pools.push(Arc::downgrade(pool));
        });
        self.seen.clone()
    }

    /// True if a pool chooses containers by a label of this name.
    pub fn is_chosen_by(&self, label: &str) -> bool {
        let is_name = |one: &String| one.split_once('=').map_or(one.as_str(), |(name, _)| name) == label;
        self.pools.borrow().iter().filter_map(Weak::upgrade).any(|pool| pool.labels.iter().any(is_name))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Follows an engine: reads the list, and reads it again after each event.
async fn follow(server: DockerServer, pools: watch::Receiver<Pools>, tell: watch::Sender<Option<Seen>>) {
    let seed = EndpointId::of(&server.url).0;
    let (mut backoff, mut bucket) = (Backoff::new(seed), Bucket::new());
    let mut asking = Asking { server: &server, pools, known: HashMap::new() };
    loop {
        let why = match session(&mut asking, &tell, &mut backoff, &mut bucket).await {
            Ok(()) => "it ended the stream of events".to_owned(),
            Err(error) => error.to_string(),
        };
        tell.send_replace(Some(Err(why)));
        sleep(backoff.pause(None)).await;
    }
}

/// Follows an engine over a stream of events, until the stream ends.
async fn session(
    asking: &mut Asking<'_>,
    tell: &watch::Sender<Option<Seen>>,
    backoff: &mut Backoff,
    bucket: &mut Bucket,
) -> Result<(), Fault> {
    let server = asking.server;
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
        let containers = asking.containers(&mut listing).await?;
        backoff.reset();
        let again = match containers.iter().any(|container| container.is_healthy.is_some()) {
            true => AGAIN_FOR_HEALTH,
            false => AGAIN,
        };
        tell.send_replace(Some(Ok(Arc::new(containers))));
        // The content of an event does not matter: the list is read again.
        tokio::select! {
            event = events.next() => if event?.is_none() { return Ok(()) },
            Ok(()) = asking.pools.changed() => {}
            () = sleep(again) => {}
        }
    }
}

/// Requests for lists, and for properties that lists lack.
struct Asking<'a> {
    server: &'a DockerServer,
    pools: watch::Receiver<Pools>,
    /// Inspected containers that were in the last list, by id.
    known: HashMap<String, Fixed>,
}

/// Properties that a container has for as long as it exists, and that lists may lack.
#[derive(Clone, Debug, Default)]
struct Fixed {
    host_config: Option<Host>,
    ports: Vec<Port>,
    has_check: bool,
}

impl Asking<'_> {
    async fn containers(&mut self, client: &mut Client) -> Result<Vec<Container>, Fault> {
        let (mut containers, is_podman) = self.list(client, "/containers/json").await?;
        let pools: Vec<Arc<Docker>> = self.pools.borrow_and_update().iter().filter_map(Weak::upgrade).collect();
        let mut known = HashMap::new();
        for container in containers.iter_mut().filter(|container| container.wants_more(&pools, is_podman)) {
            let fixed = match self.known.remove(&container.id) {
                Some(fixed) => fixed,
                None => match self.inspected(client, &container.id).await? {
                    Some(fixed) => fixed,
                    // It has ended meanwhile.
                    None => continue,
                },
            };
            container.add(&fixed);
            known.insert(container.id.clone(), fixed);
        }
        self.known = known;
        if containers.iter().any(|container| container.is_healthy.is_some()) {
            let filters = encoded(r#"{"health":["healthy"]}"#);
            let (healthy, _) = self.list(client, &format!("/containers/json?filters={filters}")).await?;
            let healthy: HashSet<&str> = healthy.iter().map(|container| &*container.id).collect();
            for container in &mut containers {
                container.is_healthy = container.is_healthy.map(|_| healthy.contains(&*container.id));
            }
        }
        Ok(containers)
    }

    /// Returns a list of containers, and true if it is Podman's.
    async fn list(&self, client: &mut Client, path: &str) -> Result<(Vec<Container>, bool), Fault> {
        let request = request(path, self.server)?;
        let response = timeout(PATIENCE, client.whole(request, LIST_MAX)).await.map_err(|_| late())??;
        if response.status() != StatusCode::OK {
            return Err(refusal(response.status(), response.body()).into());
        }
        let containers = serde_json::from_slice(response.body())
            .map_err(|error| format!("its list of containers is invalid: {error}"))?;
        Ok((containers, response.headers().contains_key(PODMAN)))
    }

    /// Inspects a container; `None` if it has ended meanwhile.
    async fn inspected(&self, client: &mut Client, id: &str) -> Result<Option<Fixed>, Fault> {
        let request = request(&format!("/containers/{}/json", encoded(id)), self.server)?;
        let response = timeout(PATIENCE, client.whole(request, LIST_MAX)).await.map_err(|_| late())??;
        match response.status() {
            StatusCode::OK => {
                let inspected: Inspected = serde_json::from_slice(response.body())
                    .map_err(|error| format!("its description of a container is invalid: {error}"))?;
                Ok(Some(inspected.into()))
            }
            StatusCode::NOT_FOUND => Ok(None),
            status => Err(refusal(status, response.body()).into()),
        }
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
    /// Result of its health check. `None` without a check, or if `status` in the list shows the result.
    #[serde(skip)]
    is_healthy: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inspected {
    #[serde(default)]
    host_config: Option<Host>,
    #[serde(default)]
    config: Option<Settings>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Settings {
    /// Ports such as `80/tcp`, also those that are only published.
    #[serde(default)]
    exposed_ports: Option<HashMap<String, IgnoredAny>>,
    #[serde(default)]
    healthcheck: Option<Healthcheck>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Healthcheck {
    #[serde(default)]
    test: Option<Vec<String>>,
}

impl From<Inspected> for Fixed {
    fn from(Inspected { host_config, config }: Inspected) -> Fixed {
        let (exposed, check) = config.map(|config| (config.exposed_ports, config.healthcheck)).unwrap_or_default();
        let port = |text: &String| {
            let (port, kind) = text.split_once('/')?;
            Some(Port { private_port: port.parse().ok()?, kind: kind.to_owned() })
        };
        let ports = exposed.iter().flat_map(HashMap::keys).filter_map(port).collect();
        let test = check.and_then(|check| check.test).unwrap_or_default();
        let has_check = test.first().is_some_and(|first| first != "NONE");
        Fixed { host_config, ports, has_check }
    }
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

    /// True if it may belong to a pool that needs more of it than the list has.
    fn wants_more(&self, pools: &[Arc<Docker>], is_podman: bool) -> bool {
        let has_port = |pool: &Docker| pool.port.is_some() || self.label("evenkeel.port").is_some();
        let has_ports = self.ports.as_ref().is_some_and(|ports| !ports.is_empty());
        let mut meant = pools.iter().filter(|pool| pool.labels.iter().all(|label| self.has(label)));
        // The list of Podman may have only the first of consecutive ports.
        meant.any(|pool| is_podman || self.is_nowhere() || !(has_ports || has_port(pool)))
    }

    /// Adds properties that the list lacks.
    fn add(&mut self, fixed: &Fixed) {
        self.host_config = self.host_config.take().or_else(|| fixed.host_config.clone());
        self.ports.get_or_insert_default().extend_from_slice(&fixed.ports);
        let shows_health = ["(healthy)", "(unhealthy)", "starting)"].iter().any(|text| self.status.ends_with(text));
        self.is_healthy = (fixed.has_check && !shows_health).then_some(false);
    }

    /// True if the list has neither its networks nor that it has none.
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

    /// True if it may get requests: it runs, and its health check, if any, has not failed.
    pub fn serves(&self) -> bool {
        // Docker's list has the health only in a text, as "Up 5 minutes (healthy)".
        let is_up = matches!(&*self.state, "" | "running") && self.status.starts_with("Up");
        is_up
            && self.is_healthy != Some(false)
            && !self.status.ends_with("(unhealthy)")
            && !self.status.contains("(health: starting)")
            && !self.status.ends_with("(starting)")
            && !self.status.ends_with("(Paused)")
    }

    pub fn label_names(&self) -> impl Iterator<Item = &str> {
        self.labels.iter().flat_map(HashMap::keys).map(String::as_str)
    }

    /// Number in a label, if the container has the label.
    ///
    /// # Errors
    /// The label is not a number, or not within the bounds.
    pub fn number(&self, name: &str, min: u64, max: u64) -> Result<Option<u64>, String> {
        let Some(text) = self.label(name) else { return Ok(None) };
        match text.trim().parse() {
            Ok(number) if (min..=max).contains(&number) => Ok(Some(number)),
            Ok(number) => Err(format!("label {name}: {number} is not from {min} to {max}")),
            Err(_) => Err(format!("label {name}: {text:?} is not a number")),
        }
    }
}
