//! The provider `kubernetes`: Gateways, Routes and Ingresses of a cluster, as listeners, routes and pools. Read the files in
//! this order:
//!
//! 1. [`world`]: the objects of the cluster.
//! 2. [`translate`](translate::translate) makes a [`translation`]: a part of the plan, and statuses, of [Gateways](gateway) and
//!    [Ingresses](ingress), which share [`services`].
//! 3. [`statuses`]: statuses and events of the objects.

// Order: translate, ingress, gateway, services, translation, statuses, world
mod gateway;
#[cfg(test)]
mod hostile;
mod ingress;
mod services;
mod statuses;
mod translate;
mod translation;
mod world;

use super::parts::{Contribution, Part};
use crate::backoff::until;
use crate::cluster::{self, Identity};
use evenkeel_balance::EndpointId;
use evenkeel_config::plan::{Cidr, KubernetesProvider, KubernetesServer};
use gateway::addresses::Addresses;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use statuses::events::{self, Due, Event, Posted};
use statuses::leader::{Leader, RENEW};
use statuses::refusals::Refusals;
use statuses::status::Statuses;
use statuses::writer::{self, Change};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;
use tokio::sync::{mpsc, watch as latest};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use translate::translate;
use translation::Translation;
use world::store::{Kind, World};
use world::watch::{Report, follow};

/// Time for which changes are gathered before they are translated: a manifest has several objects.
const GATHER: Duration = Duration::from_millis(20);

/// Reports that wait to be read.
const REPORTS: usize = 256;

const KINDS: [Kind; 4] = [Kind::Namespace, Kind::Service, Kind::Secret, Kind::ConfigMap];
const GATEWAY_KINDS: [Kind; 10] = [
    Kind::GatewayClass,
    Kind::Gateway,
    Kind::ListenerSet,
    Kind::HttpRoute,
    Kind::GrpcRoute,
    Kind::TlsRoute,
    Kind::TcpRoute,
    Kind::UdpRoute,
    Kind::BackendTlsPolicy,
    Kind::ReferenceGrant,
];
const INGRESS_KINDS: [Kind; 2] = [Kind::Ingress, Kind::IngressClass];

/// Serves until it is aborted. `local_networks`: networks of this machine and its links that objects may name.
pub async fn run(
    provider: KubernetesProvider,
    server: KubernetesServer,
    local_networks: Vec<Cidr>,
    contribution: Contribution,
) {
    let (reports, mut reported) = mpsc::channel(REPORTS);
    let (mut tasks, identity) = (JoinSet::new(), Identity::default());
    let of_gateways = GATEWAY_KINDS.into_iter().filter(|_| provider.gateways);
    let of_ingresses = INGRESS_KINDS.into_iter().filter(|_| provider.ingresses);
    let kinds: BTreeSet<Kind> = KINDS.into_iter().chain(of_gateways).chain(of_ingresses).collect();
    for kind in &kinds {
        tasks.spawn(follow(*kind, server.clone(), identity.clone(), reports.clone()));
    }
    let (wanted, statuses) = latest::channel(Outgoing::default());
    tasks.spawn(write(provider.clone(), server, statuses));
    let mut session = Session {
        addresses: Addresses::new(&provider.addresses),
        provider,
        contribution,
        world: World { local_networks, ..World::default() },
        missing: kinds,
        versions: BTreeMap::new(),
        faults: BTreeMap::new(),
        part: None,
        number: 0,
        statuses: Statuses::new(),
        events: Vec::new(),
        refused: Refusals::default(),
        wanted,
    };
    let mut settled = session.contribution.settled();
    let mut due: Option<Instant> = None;
    loop {
        tokio::select! {
            report = reported.recv() => {
                let Some(report) = report else { return };
                if session.apply(report) && session.missing.is_empty() {
                    due.get_or_insert_with(|| Instant::now() + GATHER);
                }
            }
            () = until(due) => {
                due = None;
                session.translate();
            }
            changed = settled.changed() => {
                if changed.is_err() {
                    return;
                }
                let now = settled.borrow_and_update().clone();
                if now.number >= session.number && session.number > 0 {
                    if session.refused.update(now.refused) {
                        session.translate();
                    }
                    session.want();
                }
            }
        }
    }
}

/// State of the provider: the known objects and the results of their translation.
struct Session {
    provider: KubernetesProvider,
    contribution: Contribution,
    addresses: Addresses,
    world: World,
    /// Kinds that were not listed yet.
    missing: BTreeSet<Kind>,
    /// Versions in which kinds are read.
    versions: BTreeMap<Kind, &'static str>,
    /// Watches that have failed, with the reasons.
    faults: BTreeMap<Kind, String>,
    /// The part that was put last, and its number.
    part: Option<Part>,
    number: u64,
    statuses: Statuses,
    events: Vec<Event>,
    /// Pieces that are not in use.
    refused: Refusals,
    wanted: latest::Sender<Outgoing>,
}

/// Changes to write to the cluster.
#[derive(Clone, Debug, Default)]
struct Outgoing {
    changes: Vec<Change>,
    events: Vec<Due>,
}

impl Session {
    /// Applies a report; true if something differs.
    fn apply(&mut self, report: Report) -> bool {
        match report {
            Report::Changed(kind, version, change) => {
                self.faults.remove(&kind);
                self.contribution.note(self.faults.values().next().cloned());
                self.versions.insert(kind, version);
                let was_missing = matches!(change, world::store::Change::All(_)) && self.missing.remove(&kind);
                self.world.apply(kind, change) || was_missing
            }
            // A cluster that has lost a kind has more likely lost its state than its operators' interest.
            Report::Absent(kind) if self.versions.contains_key(&kind) => {
                self.fail(kind, "the cluster no longer has this kind");
                false
            }
            Report::Absent(kind) => {
                let was_missing = self.missing.remove(&kind);
                self.world.apply(kind, world::store::Change::All(Vec::new())) || was_missing
            }
            Report::Failed(kind, why) => {
                self.fail(kind, &why);
                false
            }
        }
    }

    /// Notes that a kind is not followed now. An outage of the API server concerns all of them, and is logged once.
    fn fail(&mut self, kind: Kind, why: &str) {
        if self.faults.is_empty() {
            tracing::warn!(kind = kind.name(), why, "kubernetes: a watch failed; the last known objects stay in use");
        }
        self.faults.insert(kind, format!("{}: {why}", kind.name()));
        self.contribution.note(self.faults.values().next().cloned());
    }

    /// Translates the known objects, puts the part if it differs, and sends statuses once the part is in use.
    fn translate(&mut self) {
        let Translation { part, statuses, events } =
            translate(&self.world, &self.provider, &mut self.addresses, own_address(), self.refused.all());
        self.statuses = statuses;
        self.events = events;
        if self.part.as_ref() == Some(&part) {
            self.want();
            return;
        }
        self.part = Some(part.clone());
        self.number = self.contribution.put(part);
    }

    /// Has statuses written that differ from those that objects have, and events posted.
    fn want(&self) {
        if self.contribution.settled().borrow().number < self.number {
            return;
        }
        let time = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let mut changes = Vec::new();
        for ((kind, key), wanted) in &self.statuses {
            let (Some((_, before)), Some(version)) = (self.world.uid_and_status(*kind, key), self.versions.get(kind))
            else {
                continue;
            };
            if let Some(after) = wanted.over(before, &self.provider.controller, &time) {
                changes.push(Change { kind: *kind, version, key: key.clone(), before: before.clone(), after });
            }
        }
        let due = |event: &Event| {
            let (uid, _) = self.world.uid_and_status(event.kind, &event.key)?;
            Some(Due { event: event.clone(), version: self.versions.get(&event.kind)?, uid: uid.to_owned() })
        };
        let events = self.events.iter().filter_map(due).collect();
        self.wanted.send_replace(Outgoing { changes, events });
    }
}

/// Writes statuses and posts events while this process leads.
async fn write(provider: KubernetesProvider, server: KubernetesServer, mut wanted: latest::Receiver<Outgoing>) {
    let lease = format!("evenkeel-{:08x}", EndpointId::of(&provider.controller).0 as u32);
    let process = format!("{}-{}", rustix::system::uname().nodename().to_string_lossy(), std::process::id());
    let mut leader = Leader::new(lease, process.clone(), server.clone());
    let mut posted = Posted::default();
    let mut renew = interval(RENEW);
    renew.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told: Option<String> = None;
    let mut told_events: Option<String> = None;
    let mut is_due = false;
    let mut client = None;
    loop {
        tokio::select! {
            changed = wanted.changed() => {
                if changed.is_err() {
                    return;
                }
                is_due = true;
            }
            _ = renew.tick() => {
                let renewed = match connected(&mut client, &server).await {
                    Ok(client) => leader.renew(client).await,
                    Err(why) => Err(why),
                };
                if renewed.is_err() {
                    // The next client reads the credentials again.
                    client = None;
                }
                tell(&mut told, NOT_WRITTEN, renewed.err().map(|why| format!("the Lease for statuses: {why}")));
            }
        }
        if is_due && leader.leads() {
            let Outgoing { changes, events } = wanted.borrow_and_update().clone();
            let events = posted.due(&events, Instant::now());
            is_due = false;
            if changes.is_empty() && events.is_empty() {
                continue;
            }
            let wrong = match connected(&mut client, &server).await {
                Ok(client) => {
                    let unwritten = writer::write(client, changes).await;
                    let mut unposted = None;
                    for due in events {
                        match events::post(client, &due, &provider.controller, &process).await {
                            Ok(()) => posted.note(due.event, Instant::now()),
                            Err(why) => unposted = Some(why),
                        }
                    }
                    // They are due again with the next change; statuses must not wait for rights to post events.
                    tell(&mut told_events, "events are not posted", unposted);
                    unwritten
                }
                Err(why) => Some(why),
            };
            // Unwritten statuses still differ, and are wanted again with the next change or renewal.
            is_due = wrong.is_some();
            tell(&mut told, NOT_WRITTEN, wrong);
        }
    }
}

/// Returns the kept client, or connects a new client.
async fn connected<'c>(kept: &'c mut Option<Client>, server: &KubernetesServer) -> Result<&'c Client, String> {
    if kept.is_none() {
        *kept = Some(cluster::connect(server).await.map_err(|error| evenkeel_fetch::reason(&*error))?.0);
    }
    Ok(kept.as_ref().expect("it was put there"))
}

const NOT_WRITTEN: &str = "statuses are not written";

/// Logs why something is not done, unless the reason has not changed.
fn tell(told: &mut Option<String>, not_done: &str, why: Option<String>) {
    if let Some(why) = why.as_ref().filter(|why| told.as_ref() != Some(why)) {
        tracing::warn!(why, "kubernetes: {not_done}");
    }
    *told = why;
}

/// Address that this machine has for others.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: it chooses the address that packets would have (TEST-NET-2, RFC 5737).
    socket.connect("198.51.100.1:9").ok()?;
    socket.local_addr().ok().map(|addr| addr.ip()).filter(|ip| !ip.is_unspecified())
}
