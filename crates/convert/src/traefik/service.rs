//! Services: pools, and splits between them.

use super::nested::{self, Service};
use super::router::Router;
use crate::durations::milliseconds;
use crate::ledger::Ledger;
use crate::limits::{SPLIT_MAX, fit_endpoints, fit_weights, put_time};
use crate::model::{Action, Draft, Endpoint, Entries, Pool, Target, Value, hashed, name_of};
use crate::tree::{Kind, Node};
use evenkeel_config::plan::HealthCheck;

/// Deepest nesting of services in services.
const DEPTH: usize = 4;

/// The service of a name, made if it is not there; `None` if no pool comes of it, which is reported.
pub(super) fn read(
    name: &str,
    services: Option<&Node>,
    router: &Router<'_>,
    target: &mut Target,
    ledger: &mut Ledger,
) -> Option<Service> {
    at_depth(name, services, router, 0, target, ledger)
}

fn at_depth(
    name: &str,
    services: Option<&Node>,
    router: &Router<'_>,
    depth: usize,
    target: &mut Target,
    ledger: &mut Ledger,
) -> Option<Service> {
    let bare = name.split('@').next().unwrap_or(name);
    let Some(service) = services.and_then(|all| all.get(bare)).filter(|_| depth < DEPTH) else {
        let todo = "add a [pool.NAME] with its endpoints, and a [[route]] that leads to it";
        ledger.decide(router.line, format!("the service \"{name}\" is not in this file"), todo);
        return None;
    };
    let mut set = Draft::default();
    if let Some(balancer) = service.get("loadBalancer") {
        if balancer.take("passHostHeader", ledger) == Some("false") {
            set.put(key!("send_host"), "endpoint");
        }
        let name = name_of(bare);
        if target.pool(&name).is_none() {
            let pool = pool(&name, balancer, ledger);
            if pool.endpoints.is_empty() {
                ledger.decide(
                    service.line,
                    "the service has no endpoints here",
                    "add endpoints to a pool of this name",
                );
                return None;
            }
            target.pools.push(pool);
        }
        return Some(Service { action: Action::Pool(name), set });
    }
    if let Some(weighted) = service.get("weighted") {
        let (mut pools, mut shares) = (Vec::new(), Vec::new());
        for part in weighted.get("services").map_or(&[][..], Node::list) {
            let Some(inner) = part.take("name", ledger) else { continue };
            let weight = part.take("weight", ledger).and_then(|weight| weight.parse::<u64>().ok()).unwrap_or(1);
            match at_depth(inner, services, router, depth + 1, target, ledger).map(|service| service.action) {
                Some(Action::Pool(pool)) => {
                    pools.push(pool);
                    shares.push(weight);
                }
                _ => part.lost("it is not a service with endpoints of its own", "name its pools in split", ledger),
            }
        }
        if pools.is_empty() || shares.iter().all(|share| *share == 0) {
            let reason = format!("none of the services of \"{name}\" was carried over");
            ledger.decide(router.line, reason, "name pools in split of the [[route]]");
            return None;
        }
        fit_weights(&mut shares, SPLIT_MAX, weighted.line, ledger);
        let mut split = Draft::default();
        pools.iter().zip(shares).for_each(|(pool, share)| drop(split.insert(key!("weights"), pool, share)));
        if let Some(name) = weighted.take("sticky.cookie.name", ledger) {
            split.put(key!("key"), format!("cookie:{name}"));
            weighted.lost(
                "the cookie is not set here: requests that have it stay with their pool",
                "have the application set it, or key = \"client-ip\"",
                ledger,
            );
        }
        return Some(Service { action: Action::Split(split), set });
    }
    if let Some(node) = service.get("mirroring") {
        return nested::mirroring(node, ledger, &mut |name, ledger| {
            at_depth(name, services, router, depth + 1, target, ledger)
        });
    }
    if let Some(node) = service.get("failover") {
        let main = node.take("service", ledger)?.to_string();
        let fallback = node.take("fallback", ledger)?.to_string();
        let main = at_depth(&main, services, router, depth + 1, target, ledger)?;
        let fallback = at_depth(&fallback, services, router, depth + 1, target, ledger);
        return Some(nested::failover(node, &name_of(bare), main, fallback, target, ledger));
    }
    ledger.decide(
        router.line,
        format!("the service \"{name}\" is of a kind that is not carried over"),
        "write its [[route]] by hand",
    );
    None
}

fn pool(name: &str, balancer: &Node, ledger: &mut Ledger) -> Pool {
    let mut pool = Pool { name: name.to_string(), ..Pool::default() };
    let servers = balancer.get("servers");
    let nodes = servers.map(|servers| match &servers.kind {
        Kind::List(list) => list.iter().collect(),
        _ => servers.entries().iter().map(|(_, node)| node).collect::<Vec<_>>(),
    });
    for server in nodes.unwrap_or_default() {
        let url = match (
            server.take("url", ledger).or_else(|| server.take("address", ledger)),
            server.take("container", ledger),
        ) {
            (Some(url), _) => url.to_string(),
            (None, Some(container)) => {
                let scheme = server.take("scheme", ledger).unwrap_or("http").to_string();
                format!("{scheme}://{container}:{}", server.take("port", ledger).unwrap_or("80"))
            }
            _ => continue,
        };
        endpoint(&url, server, &mut pool, ledger);
    }
    fit_endpoints(&mut pool.endpoints, balancer.line, ledger);
    if pool.endpoints.len() > 1 {
        pool.set.put(key!("balance"), "round_robin");
    }
    if let Some(node) = balancer.get("strategy") {
        let balance: Option<Value> = match node.text() {
            Some("wrr") => Some("round_robin".into()),
            Some("p2c") => Some("random".into()),
            Some("leasttime") => Some("peak_ewma".into()),
            Some("hrw") => Some(hashed("client-ip")),
            _ => None,
        };
        match balance {
            Some(balance) => drop((pool.set.put(key!("balance"), balance), ledger.carried(node.line))),
            None => node.lost("the strategy has no counterpart", "set balance of the pool", ledger),
        }
    }
    if let Some(check) = balancer.get("healthCheck") {
        health(check, &mut pool, ledger);
    }
    if let Some(cookie) = balancer.at("sticky.cookie") {
        sticky(cookie, &mut pool, ledger);
    }
    if let Some(transport) = balancer.get("serversTransport") {
        transport.lost(
            "settings of connections to endpoints stand in the pool",
            "tls and timeouts of the pool",
            ledger,
        );
    }
    if let Some(node) = balancer.at("responseForwarding") {
        node.dropped("responses pass as they come", ledger);
    }
    pool
}

pub(super) fn endpoint(url: &str, server: &Node, pool: &mut Pool, ledger: &mut Ledger) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let port = if scheme == "https" { 443 } else { 80 };
    let bare = authority.rsplit(']').next().unwrap_or_default();
    let addr = if bare.contains(':') { authority.to_string() } else { format!("{authority}:{port}") };
    match scheme {
        "https" => drop(pool.set.put(key!("tls"), true)),
        "h2c" => drop(pool.set.put(key!("protocol"), "h2")),
        _ => {}
    }
    if path.len() > 1 {
        ledger.changes(
            server.line,
            format!("the path {path} of the URL is left out"),
            "rewrite = { path = \"/x{path}\" } of the [[route]]",
        );
    }
    let mut endpoint = Endpoint { addr, set: Draft::default() };
    if let Some(weight) =
        server.take("weight", ledger).and_then(|weight| weight.parse::<u64>().ok()).filter(|n| *n != 1)
    {
        endpoint.set.put(key!("weight"), weight);
    }
    if !pool.endpoints.iter().any(|other| other.addr == endpoint.addr) {
        pool.endpoints.push(endpoint);
    }
}

fn health(check: &Node, pool: &mut Pool, ledger: &mut Ledger) {
    let mut health: Draft<HealthCheck> = Draft::default();
    match check.take("mode", ledger) {
        Some("grpc") => drop(health.put(key!("grpc"), Entries::default())),
        _ => {
            health.put(key!("http.path"), check.take("path", ledger).unwrap_or("/"));
            if let Some(host) = check.take("hostname", ledger) {
                health.put(key!("http.host"), host);
            }
            match check.take("method", ledger) {
                None | Some("GET") => {}
                Some(method @ ("HEAD" | "OPTIONS")) => drop(health.put(key!("http.method"), method)),
                Some(_) => ledger.changes(check.line, "checks are sent by GET", "nothing, if the page answers GET"),
            }
            let status = check.take("status", ledger).and_then(|status| status.parse::<u64>().ok());
            match status.filter(|status| (200..600).contains(status)) {
                Some(status) => drop(health.put(key!("http.expect"), vec![status])),
                None => drop(health.put(key!("http.expect"), vec!["2xx", "3xx"])),
            }
        }
    }
    if let Some(port) =
        check.take("port", ledger).and_then(|port| port.parse::<u64>().ok()).filter(|n| (1..65_536).contains(n))
    {
        health.put(key!("port"), port);
    }
    let interval = check.take("interval", ledger).and_then(milliseconds).filter(|ms| *ms > 0).unwrap_or(30_000);
    put_time(&mut health, key!("interval"), interval);
    let time = check.take("timeout", ledger).and_then(milliseconds).filter(|ms| *ms > 0).unwrap_or(5000);
    put_time(&mut health, key!("timeout"), time.min(interval));
    // In Traefik a single check decides.
    health.put(key!("fall"), 1);
    health.put(key!("rise"), 1);
    pool.set.put(key!("health"), health);
    check.lost("checks have no such setting", "nothing, if the page answers without it", ledger);
}

/// Sets the cookie of a pool. The signed value of it differs from Traefik's.
fn sticky(cookie: &Node, pool: &mut Pool, ledger: &mut Ledger) {
    let name = cookie.take("name", ledger).unwrap_or("evenkeel");
    pool.stick(name, cookie.take("secure", ledger) == Some("true"));
    if let Some(node) = cookie.get("httpOnly") {
        node.dropped("the cookie is always HttpOnly", ledger);
    }
    cookie.lost("the cookie has no such attribute", "see sticky of the pool", ledger);
}
