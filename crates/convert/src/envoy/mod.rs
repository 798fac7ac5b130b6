//! Envoy: listeners and clusters of `static_resources`, as YAML or JSON. Their meaning is in `evenkeel_envoy`, which reads
//! control planes too.
//!
//! 1. `read`: tables of the file as messages. `evenkeel_envoy` makes pieces of a plan of them.
//! 2. `auth`, `compression`: HTTP filters that become keys of routes.
//! 3. `settled`: the report, by what was read of the messages.

// Order: auth, compression, settled, read
mod auth;
mod compression;
mod read;
mod settled;

use crate::ledger::Ledger;
use crate::tree::{self, Node as Table};
use evenkeel_config::Plan;
use evenkeel_config::plan::{Mode, Route, XdsServer};
use evenkeel_envoy::cluster::Cluster;
use evenkeel_envoy::listener::ListenerResource;
use evenkeel_envoy::node::{Node, Value};
use evenkeel_envoy::plan::{InUse, Pieces, clusters_of, pieces};
use evenkeel_envoy::schema::{CLUSTER, LISTENER};
use read::message;
use settled::settle;
use std::collections::HashMap;
use std::sync::Arc;

/// Reason and advice for keys that no part of the translation reads.
const UNKNOWN: (&str, &str) =
    ("this key has no counterpart", "look it up in the manual of Envoy, and in the reference of keys here");

/// Advice for what is not carried over of a listener with its routes, and of a cluster.
const OF_LISTENER: &str = "see the keys of a [[route]] and of its listener";
const OF_CLUSTER: &str = "see the keys of a pool";

/// A listener or cluster of the file, with the message that it was read as.
struct Read<'t> {
    name: &'t str,
    table: &'t Table,
    node: Node<'t>,
}

/// Reads a bootstrap configuration. Returns the plan, which may have errors.
pub(crate) fn translate(text: &str, file: &Arc<str>, ledger: &mut Ledger) -> Plan {
    let root = tree::read(text, file, ledger);
    let (listeners, clusters) = (named(&root, "listeners", "listener"), named(&root, "clusters", "cluster"));
    let mut in_use = InUse::default();
    let mut of_clusters = Vec::new();
    for (name, table) in &clusters {
        let node = named_message(name, table, &CLUSTER, ledger);
        let read =
            Cluster::of(&node, &XdsServer::default()).and_then(|read| match in_use.clusters.contains_key(name) {
                true => Err("the name is there twice".to_string()),
                false => Ok(read),
            });
        if let Ok(Some(cluster)) = node.part(read) {
            in_use.clusters.insert(name.clone(), Arc::new(cluster));
        }
        of_clusters.push(Read { name, table, node });
    }
    let mut of_listeners = Vec::new();
    for (name, table) in &listeners {
        let node = named_message(name, table, &LISTENER, ledger);
        let read = ListenerResource::of(&node).and_then(|read| match in_use.listeners.contains_key(name) {
            true => Err("the name is there twice".to_string()),
            false => Ok(read),
        });
        if let Ok(Some(listener)) = node.part(read) {
            in_use.listeners.insert(name.clone(), Arc::new(listener));
        }
        of_listeners.push(Read { name, table, node });
    }
    let mut made = pieces(&in_use);
    filters(&of_listeners, &in_use, &mut made, ledger);
    notes(&of_listeners, &of_clusters, &in_use, &made, ledger);
    of_listeners.iter().for_each(|read| settle(read.table, &read.node, OF_LISTENER, ledger));
    of_clusters.iter().for_each(|read| settle(read.table, &read.node, OF_CLUSTER, ledger));
    rest(&root, ledger);
    plan(made, &listeners, &clusters)
}

/// Tables of a list with their names; those without a name get a number.
fn named<'t>(root: &'t Table, list: &str, kind: &str) -> Vec<(String, &'t Table)> {
    let all = root.at(&format!("static_resources.{list}")).map_or(&[][..], Table::list);
    let name = |(index, table): (usize, &'t Table)| {
        let own = table.get("name").and_then(Table::text).filter(|name| !name.is_empty());
        (own.map_or_else(|| format!("{kind}-{index}"), str::to_string), table)
    };
    all.iter().enumerate().map(name).collect()
}

fn named_message<'t>(
    name: &'t str,
    table: &'t Table,
    of: &'static evenkeel_envoy::schema::Message,
    ledger: &mut Ledger,
) -> Node<'t> {
    let mut node = message(table, of, ledger);
    // The last value counts.
    node.push("name", Value::Text(name));
    node
}

/// Gives routes what the HTTP filters of their listeners do.
fn filters(listeners: &[Read<'_>], in_use: &InUse, made: &mut Pieces, ledger: &mut Ledger) {
    for read in listeners {
        let Some(listener) = in_use.listeners.get(read.name) else { continue };
        let name = &listener.listener.name;
        let chains = read.table.get("filter_chains").map_or(&[][..], Table::list);
        let chains = chains.iter().chain(read.table.get("default_filter_chain"));
        let managers = chains.flat_map(|chain| chain.get("filters").map_or(&[][..], Table::list));
        for manager in managers.filter_map(|filter| filter.get("typed_config")) {
            for filter in manager.get("http_filters").map_or(&[][..], Table::list) {
                let routes = made.routes.iter_mut().map(|piece| &mut piece.value);
                let mut routes: Vec<&mut Route> = routes.filter(|route| route.listeners.contains(name)).collect();
                let _ = auth::read(filter, manager, name, &mut routes, ledger)
                    || compression::read(filter, &mut routes, ledger);
            }
        }
    }
}

/// Enters what is kept differently in the book, at the cluster that it concerns or at a listener that leads there.
fn notes(listeners: &[Read<'_>], clusters: &[Read<'_>], in_use: &InUse, made: &Pieces, ledger: &mut Ledger) {
    for (cluster, note) in &made.notes {
        let own = clusters.iter().find(|read| read.name == cluster);
        let leads = |read: &&Read<'_>| {
            in_use.listeners.get(read.name).is_some_and(|of| clusters_of(of).any(|name| name == cluster))
        };
        if let Some(at) = own.or_else(|| listeners.iter().find(leads)) {
            ledger.changes(at.table.line, note, "add the pool, or correct the route");
        }
    }
    for read in clusters {
        let hashes = in_use.clusters.get(read.name).is_some_and(|cluster| cluster.pool.balance.key().is_some());
        if hashes && !made.keyed.contains(read.name) {
            ledger.changes(
                read.table.line,
                "no route has a hash_policy: the client's address is hashed, where Envoy chooses at random",
                "balance = { maglev = { key = \"header:NAME\" } }",
            );
        }
    }
}

/// Settles what is neither a listener nor a cluster.
fn rest(root: &Table, ledger: &mut Ledger) {
    for key in ["admin", "node", "stats_config", "layered_runtime", "overload_manager"] {
        if let Some(node) = root.get(key) {
            node.dropped("it is about Envoy's own process; metrics and the dashboard are those of [admin]", ledger);
        }
    }
    if let Some(node) = root.get("dynamic_resources") {
        node.lost(
            "what comes over xDS is not in the file",
            "[provider.xds] for all of it, or discover = { xds = { cluster = \"NAME\" } } of a pool for its endpoints",
            ledger,
        );
    }
    root.lost(UNKNOWN.0, UNKNOWN.1, ledger);
}

/// The plan of the pieces, in the order of the file.
fn plan(mut made: Pieces, listeners: &[(String, &Table)], clusters: &[(String, &Table)]) -> Plan {
    let order = |all: &[(String, &Table)], kind: &str| -> HashMap<String, usize> {
        all.iter().enumerate().rev().map(|(at, (name, _))| (format!("{kind} {name}"), at)).collect()
    };
    let (of_listeners, of_clusters) = (order(listeners, "Listener"), order(clusters, "Cluster"));
    made.listeners.sort_by_key(|piece| of_listeners.get(&*piece.of).copied());
    made.pools.sort_by_key(|piece| of_clusters.get(&*piece.of).copied().unwrap_or(usize::MAX));
    let names: Vec<_> = made.listeners.iter().map(|piece| piece.value.name.clone()).collect();
    made.routes.sort_by_key(|piece| names.iter().position(|name| piece.value.listeners.contains(name)));
    let serving: Vec<_> =
        made.listeners.iter().filter(|piece| piece.value.mode == Mode::Http).map(|piece| &piece.value.name).collect();
    for route in made.routes.iter_mut().map(|piece| &mut piece.value) {
        // A route that names no listener is for all that serve requests.
        if serving.iter().all(|name| route.listeners.contains(name)) && !serving.is_empty() {
            route.listeners.clear();
        }
    }
    let mut builder = Plan::builder();
    for piece in made.listeners {
        builder = builder.listener(piece.value);
    }
    for piece in made.routes {
        builder = builder.route(piece.value);
    }
    for mut pool in made.pools.into_iter().map(|piece| piece.value) {
        if !pool.endpoints.is_empty() {
            // It is for pools without endpoints, which those of a file do not become.
            Arc::make_mut(&mut pool).empty_status = None;
        }
        builder = builder.pool(pool);
    }
    builder.unchecked()
}
