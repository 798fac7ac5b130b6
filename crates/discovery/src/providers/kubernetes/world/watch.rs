//! Watches of all kinds of objects: a task for each, which reports changes. See [`follow`].

use super::store::{Change, Kind};
use crate::backoff::Backoff;
use crate::cluster::{self, Identity};
use evenkeel_balance::EndpointId;
use evenkeel_config::plan::KubernetesServer;
use evenkeel_fetch::reason;
use futures_util::StreamExt;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde_json::Value;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// Time after which a watch begins anew, with the credentials as they are then; see `AGAIN` in `cluster.rs`.
const AGAIN: Duration = Duration::from_secs(600);

/// Time after which it is looked again whether the cluster has a kind that it did not have.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Longest time until an API server responds.
const ANSWER: Duration = Duration::from_secs(30);

/// Objects in a page of a list.
const PAGE: u32 = 500;

/// Group of a kind, its plural, and the versions in which it can be read, preferred version first.
fn place(kind: Kind) -> (&'static str, &'static str, &'static [&'static str]) {
    const GATEWAY: &str = super::objects::GATEWAY_GROUP;
    const NETWORKING: &str = "networking.k8s.io";
    match kind {
        Kind::GatewayClass => (GATEWAY, "gatewayclasses", &["v1", "v1beta1"]),
        Kind::Gateway => (GATEWAY, "gateways", &["v1", "v1beta1"]),
        Kind::ListenerSet => (GATEWAY, "listenersets", &["v1"]),
        Kind::HttpRoute => (GATEWAY, "httproutes", &["v1", "v1beta1"]),
        Kind::GrpcRoute => (GATEWAY, "grpcroutes", &["v1"]),
        Kind::TlsRoute => (GATEWAY, "tlsroutes", &["v1", "v1alpha3", "v1alpha2"]),
        Kind::TcpRoute => (GATEWAY, "tcproutes", &["v1", "v1alpha2"]),
        Kind::UdpRoute => (GATEWAY, "udproutes", &["v1", "v1alpha2"]),
        Kind::BackendTlsPolicy => (GATEWAY, "backendtlspolicies", &["v1"]),
        Kind::ReferenceGrant => (GATEWAY, "referencegrants", &["v1", "v1beta1"]),
        Kind::Namespace => ("", "namespaces", &["v1"]),
        Kind::Service => ("", "services", &["v1"]),
        Kind::Secret => ("", "secrets", &["v1"]),
        Kind::ConfigMap => ("", "configmaps", &["v1"]),
        Kind::Ingress => (NETWORKING, "ingresses", &["v1"]),
        Kind::IngressClass => (NETWORKING, "ingressclasses", &["v1"]),
    }
}

/// Returns the address of a kind at the API server, in a version.
pub fn resource(kind: Kind, version: &str) -> ApiResource {
    let (group, plural, _) = place(kind);
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind.name()), plural)
}

#[derive(Debug)]
pub enum Report {
    /// Objects have changed, of the kind as it is in this version.
    Changed(Kind, &'static str, Change),
    /// The cluster has no such kind.
    Absent(Kind),
    /// The watch has failed; its objects stay as they were.
    Failed(Kind, String),
}

/// Follows the objects of a kind in a cluster until the receiver is dropped.
pub async fn follow(kind: Kind, server: KubernetesServer, identity: Identity, reports: mpsc::Sender<Report>) {
    let mut backoff = Backoff::new(EndpointId::of(&format!("{server:?} {kind:?}")).0);
    loop {
        let why = match session(kind, (&server, &identity), &reports, &mut backoff).await {
            Ok(End::Absent) => {
                if reports.send(Report::Absent(kind)).await.is_err() {
                    return;
                }
                sleep(LOOK_AGAIN).await;
                continue;
            }
            Ok(End::Again) => continue,
            Ok(End::Closed) => return,
            Err(why) => why,
        };
        if reports.send(Report::Failed(kind, why)).await.is_err() {
            return;
        }
        sleep(backoff.pause(None)).await;
    }
}

enum End {
    /// The cluster has no such kind.
    Absent,
    Again,
    /// The receiver was dropped.
    Closed,
}

async fn session(
    kind: Kind,
    (server, identity): (&KubernetesServer, &Identity),
    reports: &mpsc::Sender<Report>,
    backoff: &mut Backoff,
) -> Result<End, String> {
    let (client, url) = cluster::connect(server).await.map_err(|error| reason(&*error))?;
    timeout(ANSWER, identity.check(&client, &url)).await.map_err(|_| format!("{url}: no answer"))??;
    let Some(version) = timeout(ANSWER, version(&client, kind)).await.map_err(|_| "no answer".to_owned())?? else {
        return Ok(End::Absent);
    };
    let api: Api<DynamicObject> = Api::all_with(client, &resource(kind, version));
    let mut config = watcher::Config::default().timeout(cluster::WATCH_S).page_size(PAGE);
    if kind == Kind::Secret {
        // Others are many, and none of ours.
        config = config.fields("type!=kubernetes.io/service-account-token,type!=helm.sh/release.v1");
    }
    let mut events = pin!(watcher(api, config));
    let mut listed: Option<Vec<Value>> = Some(Vec::new());
    let until = tokio::time::Instant::now() + AGAIN;
    loop {
        let Ok(event) = tokio::time::timeout_at(until, events.next()).await else { return Ok(End::Again) };
        let change = match event {
            Some(Ok(Event::Init)) => {
                listed = Some(Vec::new());
                continue;
            }
            Some(Ok(Event::InitApply(object))) => {
                listed.get_or_insert_default().push(value(object));
                continue;
            }
            Some(Ok(Event::InitDone)) => {
                backoff.reset();
                Change::All(listed.take().unwrap_or_default())
            }
            Some(Ok(Event::Apply(object))) => Change::Put(value(object)),
            Some(Ok(Event::Delete(object))) => Change::Delete(value(object)),
            // A change that is too old to continue from: the list follows at once.
            Some(Err(watcher::Error::WatchError(status))) if status.code == 410 => continue,
            Some(Err(error)) => return Err(reason(&error)),
            None => return Err("the watch ended".into()),
        };
        if reports.send(Report::Changed(kind, version, change)).await.is_err() {
            return Ok(End::Closed);
        }
    }
}

/// Returns an object without `managedFields`, which are as large as the object and never read.
fn value(mut object: DynamicObject) -> Value {
    object.metadata.managed_fields = None;
    serde_json::to_value(object).unwrap_or_default()
}

/// Version in which the cluster has a kind; `None` if it does not have it.
async fn version(client: &Client, kind: Kind) -> Result<Option<&'static str>, String> {
    let (group, plural, versions) = place(kind);
    if group != super::objects::GATEWAY_GROUP {
        return Ok(versions.first().copied());
    }
    for version in versions {
        match client.list_api_group_resources(&format!("{group}/{version}")).await {
            Ok(list) if list.resources.iter().any(|one| one.name == plural) => return Ok(Some(version)),
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(reason(&error)),
        }
    }
    Ok(None)
}
