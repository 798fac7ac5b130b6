//! Labels of a compose file: keys of the dynamic file as `traefik.http.routers.NAME.rule=...`, and arguments of Traefik
//! itself as `--entryPoints.web.address=:80`.

use crate::ledger::Ledger;
use crate::tree::{Kind, Node};

/// Builds the dynamic file from the labels of all services.
pub(super) fn gather(compose: &Node, ledger: &mut Ledger) -> Node {
    let mut tree = Node { line: compose.line, kind: Kind::Map(Vec::new()) };
    for (container, service) in compose.get("services").map_or(&[][..], Node::entries) {
        arguments(service, &mut tree, ledger);
        let pairs = pairs(service);
        let mut own: Option<&str> = None;
        for (key, leaf) in &pairs {
            let Some(path) = key.get(..8).filter(|start| start.eq_ignore_ascii_case("traefik.")).map(|_| &key[8..])
            else {
                ledger.dropped(leaf.line, "the label is not one of Traefik");
                continue;
            };
            let parts: Vec<&str> = path.split('.').collect();
            match parts.as_slice() {
                ["enable"] | ["docker", ..] => ledger.dropped(leaf.line, "containers are named in endpoints"),
                ["http", "services", name, rest @ ..] => {
                    own = own.or(Some(*name));
                    endpoint(container, name, rest, leaf, &mut tree);
                    if !rest.first().is_some_and(|part| part.eq_ignore_ascii_case("loadbalancer"))
                        || !rest.get(1).is_some_and(|part| part.eq_ignore_ascii_case("server"))
                    {
                        tree.insert(&parts, leaf.clone());
                    }
                }
                _ => tree.insert(&parts, leaf.clone()),
            }
        }
        // A router without a service leads to the service of its container.
        for (key, leaf) in &pairs {
            let parts: Vec<&str> = key.split('.').collect();
            if let (["traefik", "http", "routers", name, ..], Some(own)) = (parts.as_slice(), own)
                && tree.at(&format!("http.routers.{name}.service")).is_none()
            {
                let node = Node { line: leaf.line, kind: Kind::Text(own.to_string()) };
                tree.insert(&["http", "routers", name, "service"], node);
            }
        }
        // Labels of Traefik are settled later, by their translation.
        for (key, node) in service.entries() {
            match key.as_str() {
                "labels" => {}
                "deploy" => {
                    let others = node.entries().iter().filter(|(key, _)| key != "labels");
                    others.for_each(|(_, node)| node.dropped("the container runs as before", ledger));
                }
                "command" if !node.list().is_empty() => {}
                _ => node.dropped("the container runs as before", ledger),
            }
        }
    }
    for (key, node) in compose.entries() {
        if !key.eq_ignore_ascii_case("services") {
            node.dropped("containers, networks and volumes stay as they are", ledger);
        }
    }
    tree
}

/// Labels with their names, of a list or of a table.
fn pairs(service: &Node) -> Vec<(String, Node)> {
    let Some(labels) = service.get("labels").or_else(|| service.at("deploy.labels")) else { return Vec::new() };
    let listed = labels.list().iter().filter_map(|node| {
        let (key, value) = node.text()?.split_once('=')?;
        Some((key.trim().to_string(), Node { line: node.line, kind: Kind::Text(value.trim().to_string()) }))
    });
    listed.chain(labels.entries().iter().cloned()).collect()
}

/// Adds the endpoint for `loadbalancer.server.port` of a container.
fn endpoint(container: &str, name: &str, rest: &[&str], leaf: &Node, tree: &mut Node) {
    let is = |at: usize, word: &str| rest.get(at).is_some_and(|part| part.eq_ignore_ascii_case(word));
    if !is(0, "loadbalancer") || !is(1, "server") {
        return;
    }
    // A scheme is a separate label, which may come first.
    let key = if is(2, "scheme") { "scheme" } else { "port" };
    if is(2, "url") {
        return tree.insert(&["http", "services", name, "loadBalancer", "servers", container, "url"], leaf.clone());
    }
    tree.insert(&["http", "services", name, "loadBalancer", "servers", container, key], leaf.clone());
    let host = Node { line: leaf.line, kind: Kind::Text(container.to_string()) };
    tree.insert(&["http", "services", name, "loadBalancer", "servers", container, "container"], host);
}

fn arguments(service: &Node, tree: &mut Node, ledger: &mut Ledger) {
    for argument in service.get("command").map_or(&[][..], Node::list) {
        let Some(text) = argument.text().and_then(|text| text.strip_prefix("--")) else {
            argument.dropped("the container runs as before", ledger);
            continue;
        };
        let (key, value) = text.split_once('=').unwrap_or((text, "true"));
        let parts: Vec<&str> = key.split('.').collect();
        if parts.first().is_some_and(|part| part.eq_ignore_ascii_case("entrypoints")) {
            tree.insert(&parts, Node { line: argument.line, kind: Kind::Text(value.to_string()) });
        } else {
            ledger.dropped(argument.line, "it is about Traefik's own process");
        }
    }
}
