//! Endpoints of a Kubernetes cluster, or of a namespace: a single watch for all pools. See [`Cluster`].

use crate::backoff::Backoff;
use crate::lock::lock;
use crate::slices::{Object, SERVICE, Slice, Slices};
use evenkeel_balance::EndpointId;
use evenkeel_config::plan::KubernetesServer;
use evenkeel_fetch::{Fault, reason};
use futures_util::{Stream, StreamExt};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Config};
use serde_json::Value;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tower::util::MapResponseLayer;

/// Time after which the API server ends a watch, in seconds. The next watch continues there, and confirms the lists: a
/// server that hangs is noticed within this time.
pub const WATCH_S: u32 = 30;

/// Time after which the credentials are read anew and the list is asked for again. A server that was restored from a backup
/// without closing its connections has changes with older versions than those that are known, and reports none of them.
const AGAIN: Duration = Duration::from_secs(600);

/// Silence on a connection after which it counts as dead. Longer than a watch, which may have nothing to report, and
/// shorter than the time after which `watcher` gives up a watch without an error (5 s more).
const SILENCE: Duration = Duration::from_secs(WATCH_S as u64 + 3);

/// Time for a connection, with its handshake.
const CONNECT: Duration = Duration::from_secs(10);

/// Objects in a page of the first list. A page of slices with 100 endpoints has some 15 MB.
const PAGE: u32 = 500;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Beginning,
    /// The lists were complete when this was sent; they may be older than the last change.
    Confirmed,
    /// Failure, with the reason.
    Failed(String),
}

/// Namespace and name of a service or of a slice.
type Key = (Box<str>, Box<str>);

/// Slices of all services that a watch covers.
#[derive(Debug, Default)]
struct Store {
    /// Services that have slices, or pools that wait for them.
    services: HashMap<Key, watch::Sender<Slices>>,
    /// Service of each slice, by namespace and name of the slice.
    of_slices: HashMap<Key, Arc<str>>,
}

/// Endpoints of a cluster, followed once for all pools that have some of them.
#[derive(Debug)]
pub struct Cluster {
    store: Arc<Mutex<Store>>,
    state: watch::Receiver<State>,
    task: AbortHandle,
}

impl Cluster {
    /// Begins to follow a cluster, or a single namespace.
    pub fn follow(server: KubernetesServer, namespace: Option<String>) -> Cluster {
        let (tell, state) = watch::channel(State::Beginning);
        let store = Arc::<Mutex<Store>>::default();
        let watching = Watching { server, namespace, store: store.clone(), tell };
        let task = tokio::spawn(watching.run()).abort_handle();
        Cluster { store, state, task }
    }

    /// State of the connection, and its changes.
    pub fn state(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// Slices of a service, and their changes. A service that does not exist has none.
    pub fn service(&self, namespace: &str, service: &str) -> watch::Receiver<Slices> {
        lock(&self.store).services.entry(key(namespace, service)).or_default().subscribe()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn key(namespace: &str, name: &str) -> Key {
    (namespace.into(), name.into())
}

/// Returns a client with the credentials as they are now, and the URL that it asks.
///
/// # Errors
/// If they cannot be read.
pub async fn connect(server: &KubernetesServer) -> Result<(Client, String), Fault> {
    let config = config(server).await?;
    let url = config.cluster_url.to_string();
    Ok((ClientBuilder::try_from(config)?.build(), url))
}

/// Identity of a cluster, if known: the uid of its namespace `kube-system`. A store that has lost all its data makes a
/// new uid.
#[derive(Clone, Debug, Default)]
pub struct Identity(Arc<Mutex<Option<String>>>);

impl Identity {
    /// Checks that the API server at a URL still belongs to the same cluster.
    ///
    /// # Errors
    /// If it belongs to another cluster, or does not respond.
    pub async fn check(&self, client: &Client, url: &str) -> Result<(), String> {
        let request =
            hyper::Request::get("/api/v1/namespaces/kube-system").body(Vec::new()).map_err(|e| e.to_string())?;
        let found = match client.request::<Value>(request).await {
            Ok(namespace) => namespace["metadata"]["uid"].as_str().map(str::to_owned),
            // Without the right to read it, it is not known.
            Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403) => None,
            // A new cluster makes it after its start.
            Err(kube::Error::Api(status)) if status.code == 404 => Some(String::new()),
            Err(error) => return Err(format!("{url}: {}", reason(&error))),
        };
        let Some(found) = found else { return Ok(()) };
        let mut known = lock(&self.0);
        match &*known {
            None if found.is_empty() => Ok(()),
            Some(known) if *known != found => {
                Err("the API server belongs to another cluster, or the cluster has lost its state; restart evenkeel to use it"
                    .into())
            }
            _ => {
                *known = Some(found);
                Ok(())
            }
        }
    }
}

async fn config(server: &KubernetesServer) -> Result<Config, Fault> {
    let KubernetesServer { kubeconfig, context, .. } = server;
    let options = KubeConfigOptions { context: context.clone(), ..KubeConfigOptions::default() };
    let mut config = match kubeconfig {
        Some(path) => Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &options).await?,
        None if context.is_none() && std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() => Config::incluster()?,
        None => Config::from_kubeconfig(&options).await?,
    };
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    // `backoff` sets the pauses.
    config.default_retry = false;
    Ok(config)
}

/// Task of a [`Cluster`].
struct Watching {
    server: KubernetesServer,
    namespace: Option<String>,
    store: Arc<Mutex<Store>>,
    tell: watch::Sender<State>,
}

impl Watching {
    async fn run(self) {
        let identity = Identity::default();
        let mut backoff = Backoff::new(EndpointId::of(&format!("{:?} {:?}", self.server, self.namespace)).0);
        loop {
            let connected = match self.client().await {
                Ok((client, url, answers)) => identity.check(&client, &url).await.map(|()| (client, answers)),
                Err(error) => Err(reason(&*error)),
            };
            let why = match connected {
                Ok((client, answers)) => {
                    let api: Api<Object> = match &self.namespace {
                        Some(namespace) => Api::namespaced(client, namespace),
                        None => Api::all(client),
                    };
                    let config = watcher::Config::default().labels(SERVICE).timeout(WATCH_S).page_size(PAGE);
                    let events = pin!(watcher(api, config));
                    match timeout(AGAIN, self.session(events, &answers, &mut backoff)).await {
                        Ok(why) => why,
                        Err(_) => continue,
                    }
                }
                Err(why) => why,
            };
            self.tell.send_replace(State::Failed(why));
            sleep(backoff.pause(None)).await;
        }
    }

    /// Returns a client with current credentials, its URL, and a notifier of successful responses.
    async fn client(&self) -> Result<(Client, String, Arc<Notify>), Fault> {
        let config = config(&self.server).await?;
        let url = config.cluster_url.to_string();
        let answers = Arc::new(Notify::new());
        let noted = answers.clone();
        let layer = MapResponseLayer::new(move |response: hyper::Response<_>| {
            if response.status().is_success() {
                noted.notify_one();
            }
            response
        });
        Ok((ClientBuilder::try_from(config)?.with_layer(&layer).build(), url, answers))
    }

    /// Follows a stream of events until it fails, and returns the reason. It is not continued, although it could be: the
    /// server may have been restored from a backup, where changes since then have older versions; and the credentials are
    /// read anew.
    async fn session(
        &self,
        mut events: impl Stream<Item = watcher::Result<Event<Object>>> + Unpin,
        answers: &Notify,
        backoff: &mut Backoff,
    ) -> String {
        // Services of a list that is still incomplete; `None` while events change a complete list.
        let mut listed = Some(HashMap::new());
        loop {
            let event = tokio::select! {
                biased;
                event = events.next() => event,
                () = answers.notified() => {
                    // The watch continues where the last watch ended: nothing was missed.
                    if listed.is_none() {
                        self.tell.send_replace(State::Confirmed);
                    }
                    continue;
                }
            };
            match event {
                Some(Ok(event)) => {
                    if self.apply(event, &mut listed) {
                        backoff.reset();
                        self.tell.send_replace(State::Confirmed);
                    }
                }
                // A change that is too old to continue from: the list follows at once.
                Some(Err(watcher::Error::WatchError(status))) if status.code == 410 => {}
                Some(Err(error)) => return reason(&error),
                None => return "the watch ended".into(),
            }
        }
    }

    /// Applies an event; true if a list is complete with it.
    fn apply(&self, event: Event<Object>, listed: &mut Option<HashMap<Key, Slices>>) -> bool {
        match event {
            Event::Init => *listed = Some(HashMap::new()),
            Event::InitApply(object) => {
                let service = key(object.namespace(), &object.service);
                let slices = listed.get_or_insert_default().entry(service).or_default();
                slices.insert(object.name().into(), Arc::new(object.slice));
            }
            Event::InitDone => {
                lock(&self.store).replace(listed.take().unwrap_or_default());
                return true;
            }
            Event::Apply(object) => lock(&self.store).put(object),
            Event::Delete(object) => lock(&self.store).remove(object.namespace(), object.name()),
        }
        false
    }
}

impl Store {
    /// Makes these all slices that there are.
    fn replace(&mut self, mut listed: HashMap<Key, Slices>) {
        self.of_slices = listed
            .iter()
            .flat_map(|((namespace, service), slices)| {
                let service: Arc<str> = (&**service).into();
                slices.keys().map(move |slice| (key(namespace, slice), service.clone()))
            })
            .collect();
        for (service, there) in &self.services {
            let slices = listed.remove(service).unwrap_or_default();
            there.send_if_modified(|old| {
                let changed = *old != slices;
                *old = slices;
                changed
            });
        }
        self.services.extend(listed.into_iter().map(|(service, slices)| (service, watch::Sender::new(slices))));
        self.services.retain(|_, service| service.receiver_count() > 0 || !service.borrow().is_empty());
    }

    fn put(&mut self, object: Object) {
        let (namespace, name) = (object.namespace().to_owned(), object.name().to_owned());
        let slice = key(&namespace, &name);
        // The label of a slice may change.
        if self.of_slices.get(&slice).is_some_and(|service| *service != object.service) {
            self.remove(&namespace, &name);
        }
        let service = self.services.entry(key(&namespace, &object.service)).or_default();
        put(service, &name, object.slice);
        self.of_slices.insert(slice, object.service);
    }

    fn remove(&mut self, namespace: &str, slice: &str) {
        let Some(service) = self.of_slices.remove(&key(namespace, slice)) else { return };
        let service = key(namespace, &service);
        let Some(slices) = self.services.get(&service) else { return };
        slices.send_if_modified(|slices| slices.remove(slice).is_some());
        if slices.receiver_count() == 0 && slices.borrow().is_empty() {
            self.services.remove(&service);
        }
    }
}

/// Puts a slice into the slices of its service. A difference only in unread fields wakes no pool.
fn put(service: &watch::Sender<Slices>, name: &str, slice: Slice) {
    service.send_if_modified(|slices| match slices.get_mut(name) {
        Some(old) if **old == slice => false,
        Some(old) => {
            *old = Arc::new(slice);
            true
        }
        None => slices.insert(name.into(), Arc::new(slice)).is_none(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(namespace: &str, slice: &str, service: &str, addr: &str) -> Object {
        let endpoints = json!([{ "addresses": [addr] }]);
        let metadata = json!({ "namespace": namespace, "name": slice, "labels": { SERVICE: service } });
        serde_json::from_value(json!({ "metadata": metadata, "addressType": "IPv4", "endpoints": endpoints }))
            .expect("an object")
    }

    fn cluster() -> (Watching, watch::Receiver<State>) {
        let (tell, state) = watch::channel(State::Beginning);
        (Watching { server: KubernetesServer::default(), namespace: None, store: Arc::default(), tell }, state)
    }

    fn subscribe(watching: &Watching, namespace: &str, service: &str) -> watch::Receiver<Slices> {
        lock(&watching.store).services.entry(key(namespace, service)).or_default().subscribe()
    }

    fn names(slices: &watch::Receiver<Slices>) -> Vec<String> {
        slices.borrow().keys().map(ToString::to_string).collect()
    }

    fn apply(watching: &Watching, events: impl IntoIterator<Item = Event<Object>>) {
        let mut listed = None;
        for event in events {
            watching.apply(event, &mut listed);
        }
    }

    #[test]
    fn a_pool_is_woken_only_by_its_service() {
        let (watching, _state) = cluster();
        let (mut web, mut api) = (subscribe(&watching, "shop", "web"), subscribe(&watching, "shop", "api"));
        let mut changed = |events| {
            apply(&watching, events);
            let both = [&mut web, &mut api].map(|slices| slices.has_changed().expect("the store is there"));
            web.mark_unchanged();
            api.mark_unchanged();
            both
        };
        let one = || object("shop", "web-1", "web", "10.0.0.1");
        assert_eq!(changed(vec![Event::Apply(one())]), [true, false]);
        assert_eq!(changed(vec![Event::Apply(one())]), [false, false], "nothing that counts has changed");
        assert_eq!(changed(vec![Event::Apply(object("other", "web-1", "web", "10.0.0.1"))]), [false, false]);
        assert_eq!(changed(vec![Event::Delete(object("other", "web-1", "web", "10.0.0.1"))]), [false, false]);
        // A slice whose label changes moves to another service.
        assert_eq!(changed(vec![Event::Apply(object("shop", "web-1", "api", "10.0.0.1"))]), [true, true]);
        assert_eq!(changed(vec![Event::Delete(one())]), [false, true], "by its name, whatever its label");
        assert!(web.borrow().is_empty() && api.borrow().is_empty());
        assert_eq!(lock(&watching.store).services.len(), 2, "services without slices and pools are gone");
    }

    proptest::proptest! {
        #[test]
        fn slices_of_a_namespace_change_no_other(
            events in proptest::collection::vec((0usize..3, "web|web-1|shop|shop/web|[^a]{0,9}", "web|web-1|shop/web|[^a]{0,9}"), 0..40),
        ) {
            let (watching, _state) = cluster();
            let mut web = subscribe(&watching, "shop", "web");
            apply(&watching, [Event::Apply(object("shop", "web-1", "web", "10.0.0.1"))]);
            let before = web.borrow_and_update().clone();
            for (kind, slice, service) in events {
                // Twins of the namespace by its letters, too.
                for namespace in ["evil", "shop/web", ""] {
                    let object = object(namespace, &slice, &service, "192.0.2.1");
                    match kind {
                        0 => apply(&watching, [Event::Apply(object)]),
                        1 => apply(&watching, [Event::Delete(object)]),
                        _ => {
                            let of_shop = super::tests::object("shop", "web-1", "web", "10.0.0.1");
                            apply(&watching, [Event::Init, Event::InitApply(of_shop), Event::InitApply(object), Event::InitDone]);
                        }
                    }
                }
            }
            proptest::prop_assert!(!web.has_changed().expect("the store is there"));
            proptest::prop_assert_eq!(&*web.borrow(), &before);
        }
    }

    #[test]
    fn a_list_replaces_all_and_wakes_only_for_differences() {
        let (watching, _state) = cluster();
        let (mut web, mut api) = (subscribe(&watching, "shop", "web"), subscribe(&watching, "shop", "api"));
        let list = |objects: &[(&str, &str, &str)]| {
            let each =
                objects.iter().map(|(slice, service, addr)| Event::InitApply(object("shop", slice, service, addr)));
            apply(&watching, [Event::Init].into_iter().chain(each).chain([Event::InitDone]));
        };
        list(&[("web-1", "web", "10.0.0.1"), ("api-1", "api", "10.0.0.2"), ("db-1", "db", "10.0.0.3")]);
        assert_eq!((names(&web), names(&api)), (vec!["web-1".into()], vec!["api-1".to_string()]));
        web.mark_unchanged();
        api.mark_unchanged();
        list(&[("web-1", "web", "10.0.0.1"), ("api-2", "api", "10.0.0.2")]);
        assert_eq!((web.has_changed().ok(), api.has_changed().ok()), (Some(false), Some(true)));
        assert_eq!(names(&api), ["api-2"]);
        let store = lock(&watching.store);
        assert_eq!((store.services.len(), store.of_slices.len()), (2, 2));
    }

    #[tokio::test]
    async fn answers_confirm_complete_lists_and_failures_end_a_session() {
        let (watching, mut state) = cluster();
        let answers = Notify::new();
        let (send, mut receive) = tokio::sync::mpsc::unbounded_channel();
        let events = pin!(futures_util::stream::poll_fn(move |cx| receive.poll_recv(cx)));
        let mut backoff = Backoff::new(1);
        let mut session = pin!(watching.session(events, &answers, &mut backoff));
        let mut confirms = async || {
            tokio::select! {
                why = &mut session => panic!("it ended: {why}"),
                _ = state.changed() => {}
            }
            assert_eq!(*state.borrow_and_update(), State::Confirmed);
        };
        let gone = kube::core::Status { code: 410, ..kube::core::Status::default() };
        send.send(Ok(Event::Init)).expect("received");
        // The response to a list does not show that the list is complete.
        answers.notify_one();
        send.send(Ok(Event::InitDone)).expect("received");
        confirms().await;
        answers.notify_one();
        confirms().await;
        for event in [Err(watcher::Error::WatchError(gone.into())), Ok(Event::Init), Ok(Event::InitDone)] {
            send.send(event).expect("received");
        }
        confirms().await;
        send.send(Err(watcher::Error::NoResourceVersion)).expect("received");
        assert!(session.await.contains("resourceVersion"));
    }
}
