//! Envoy: listeners and clusters of `static_resources`, as YAML or JSON. Their meaning is in `evenkeel_envoy`, which reads
//! control planes too.
//!
//! 1. `read`: tables of the file as messages. `evenkeel_envoy` makes pieces of a plan of them.
//! 2. `auth`, `body_max`, `compression`, `rate`, `rbac`: HTTP filters that become keys of the routes of their filter chain, or
//!    routes that refuse (`guard`). `rule` is a rule of such a filter, and `per_route` has the settings of routes for
//!    filters. `spellings` refuses paths and hosts by their spelling.
//! 3. `quic`: listeners for HTTP/3, which share their addresses with listeners over TCP.
//! 4. `settled`: the report, by the fields that were read from the messages.

// Order: auth, body_max, compression, rate, rbac, rule, spellings, guard, per_route, behind, quic, settled, read
mod auth;
mod behind;
mod body_max;
mod compression;
mod guard;
mod per_route;
mod quic;
mod rate;
mod rbac;
mod read;
mod rule;
mod settled;
mod spellings;

use crate::ledger::Ledger;
use crate::tree::{self, Kind, Node as Table};
use evenkeel_config::Plan;
use evenkeel_config::plan::{self, Mode, Respond, XdsServer};
use evenkeel_envoy::cluster::Cluster;
use evenkeel_envoy::listener::{ChainTo, ListenerResource};
use evenkeel_envoy::node::{Node, Value};
use evenkeel_envoy::plan::{InUse, Pieces, clusters_of, pieces};
use evenkeel_envoy::route::RouteConfiguration;
use evenkeel_envoy::schema::{CLUSTER, LISTENER, Message};
use read::{each, message};
use settled::settle;
use std::collections::HashMap;
use std::sync::Arc;

/// Reason and advice for keys that no part of the translation reads.
const UNKNOWN: (&str, &str) =
    ("this key has no counterpart", "look it up in the manual of Envoy, and in the reference of keys here");

/// A listener or cluster of the file, with the message that it was read as.
struct Read<'t> {
    name: &'t str,
    table: &'t Table,
    node: Node<'t>,
}

/// Reads a bootstrap configuration. Returns the plan, which may have errors.
pub(crate) fn translate(text: &str, file: &Arc<str>, ledger: &mut Ledger) -> Plan {
    let root = tree::read(text, file, ledger);
    let (mut listeners, clusters) = (named(&root, "listeners", "listener"), named(&root, "clusters", "cluster"));
    let mut in_use = InUse::default();
    let mut of_clusters = Vec::new();
    for (name, table) in &clusters {
        let node = named_message(name, table, &CLUSTER, ledger);
        let read =
            Cluster::of(&node, &XdsServer::default()).and_then(|read| match in_use.clusters.contains_key(name) {
                true => Err("duplicate name".to_string()),
                false => Ok(read),
            });
        if let Ok(Some(cluster)) = node.part(read) {
            in_use.clusters.insert(name.clone(), Arc::new(cluster));
        }
        of_clusters.push(Read { name, table, node });
    }
    let mut of_listeners = Vec::new();
    let over_quic = quic::of(&mut listeners);
    let mut limits = rate::Shared::new();
    for (name, table) in &listeners {
        let node = named_message(name, table, &LISTENER, ledger);
        let read = ListenerResource::of(&node).and_then(|read| match in_use.listeners.contains_key(name) {
            true => Err("duplicate name".to_string()),
            false => Ok(read),
        });
        if let Ok(Some(mut listener)) = node.part(read) {
            filters(table, &mut listener, &mut limits, ledger);
            quic::add(table, &over_quic, &mut listener.listener, ledger);
            in_use.listeners.insert(name.clone(), Arc::new(listener));
        }
        of_listeners.push(Read { name, table, node });
    }
    for twin in over_quic {
        twin.missing("the listener over TCP at its address was left out", "http3 of a listener with TLS", ledger);
    }
    let made = pieces(&in_use);
    notes(&of_listeners, &of_clusters, &in_use, &made, ledger);
    of_listeners.iter().for_each(|read| settle(read.table, &read.node, ledger));
    of_clusters.iter().for_each(|read| settle(read.table, &read.node, ledger));
    rest(&root, ledger);
    let mut plan = plan(made, &listeners, &clusters);
    plan.limits = limits;
    plan
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

fn named_message<'t>(name: &'t str, table: &'t Table, of: &'static Message, ledger: &mut Ledger) -> Node<'t> {
    let mut node = message(table, of, ledger);
    // The last value counts.
    node.push("name", Value::Text(name));
    node
}

/// Adds the settings of its HTTP filters to the routes of each filter chain.
fn filters(table: &Table, listener: &mut ListenerResource, limits: &mut rate::Shared, ledger: &mut Ledger) {
    let chains: Vec<_> = each(table, "filter_chains").chain(each(table, "default_filter_chain").last()).collect();
    let ListenerResource { listener, chains: of_chains, .. } = listener;
    for chain in of_chains {
        let ChainTo::Routes(routes, _) = &mut chain.to else { continue };
        let routes = Arc::make_mut(routes);
        let users = match chain.position {
            0 => format!("{}.htpasswd", listener.name),
            more => format!("{}-{more}.htpasswd", listener.name),
        };
        for manager in each(chains[chain.position], "filters").filter_map(|filter| filter.get("typed_config")) {
            for filter in each(manager, "http_filters") {
                http_filter(filter, manager, &users, listener, routes, limits, ledger);
            }
            spellings::refuse(manager, routes, ledger);
        }
    }
}

fn http_filter(
    filter: &Table,
    manager: &Table,
    users: &str,
    listener: &plan::Listener,
    routes: &mut RouteConfiguration,
    limits: &mut rate::Shared,
    ledger: &mut Ledger,
) {
    let text = |path: &str| filter.at(path).and_then(Table::text).unwrap_or_default();
    if text("disabled") == "true" && !per_route::has_settings(manager, text("name")) {
        return filter.dropped("the filter is disabled", ledger);
    }
    let is = |name: &str, kind: &str| match text("typed_config.@type") {
        "" => text("name") == name,
        of => of.ends_with(kind),
    };
    if is("envoy.filters.http.rbac", ".http.rbac.v3.RBAC") && filter.get("typed_config").is_some() {
        return rbac::read(filter, manager, listener, routes, ledger);
    }
    let mut behind = behind::routes(routes);
    if is("envoy.filters.http.buffer", ".http.buffer.v3.Buffer") && body_max::read(filter, manager, &mut behind, ledger)
    {
        return;
    }
    if is("envoy.filters.http.local_ratelimit", ".local_ratelimit.v3.LocalRateLimit")
        && filter.get("typed_config").is_some()
    {
        return rate::read(filter, manager, &listener.name, &mut behind, limits, ledger);
    }
    let _ = auth::read(filter, manager, users, &mut behind, ledger) || compression::read(filter, &mut behind, ledger);
}

/// Enters differences in the book, at the cluster concerned, or at a listener that leads to it.
fn notes(listeners: &[Read<'_>], clusters: &[Read<'_>], in_use: &InUse, made: &Pieces, ledger: &mut Ledger) {
    for (cluster, note) in &made.notes {
        let own = clusters.iter().find(|read| read.name == cluster);
        let leads = |read: &&Read<'_>| {
            in_use.listeners.get(read.name).is_some_and(|of| clusters_of(of).any(|name| name == cluster))
        };
        let place = own.or_else(|| listeners.iter().find(leads)).map(|read| read.table);
        if let Some(table) = place {
            let at = leading(table, "", cluster).unwrap_or(table);
            ledger.changes(at.line, note, "add the pool, or correct the route");
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

/// The first directive that leads to a cluster.
fn leading<'t>(table: &'t Table, key: &str, cluster: &str) -> Option<&'t Table> {
    match &table.kind {
        Kind::Text(text) => (key == "cluster" && text == cluster).then_some(table),
        Kind::List(all) => all.iter().find_map(|one| leading(one, key, cluster)),
        Kind::Map(entries) => entries.iter().find_map(|(name, one)| {
            let is_weighted = key == "clusters" && name == "name";
            leading(one, if is_weighted { "cluster" } else { name }, cluster)
        }),
    }
}

/// Settles everything except listeners and clusters.
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
    if made.routes.is_empty() && !serving.is_empty() {
        // Without any route, the only pool would get all requests.
        let action = plan::Action::Respond(Respond { status: 404, ..Respond::default() });
        let name = "nothing-else".into();
        builder = builder.route(plan::Route { name, action, ..plan::Route::default() });
    }
    for piece in made.listeners {
        builder = builder.listener(piece.value);
    }
    for piece in made.routes {
        builder = builder.route(piece.value);
    }
    for mut pool in made.pools.into_iter().map(|piece| piece.value) {
        if !pool.endpoints.is_empty() {
            // Only pools without endpoints need `empty_status`. This pool has endpoints from the file.
            Arc::make_mut(&mut pool).empty_status = None;
        }
        builder = builder.pool(pool);
    }
    builder.unchecked()
}
