//! Services that consist of others: mirroring and failover.

use crate::ledger::Ledger;
use crate::model::{Action, Draft, Pool, RouteKeys, Target, Value, parse_size, size};
use crate::tree::Node;
use evenkeel_config::plan::Mirror;

/// Action for requests of a service, and the filters that come with it.
pub(super) struct Service {
    pub action: Action,
    pub set: RouteKeys,
}

/// Finds the service of a name.
pub(super) type Find<'f> = &'f mut dyn FnMut(&str, &mut Ledger) -> Option<Service>;

/// The main service of a mirroring service, with a copy to the first of its mirrors.
pub(super) fn mirroring(node: &Node, ledger: &mut Ledger, find: Find<'_>) -> Option<Service> {
    let mut service = find(node.take("service", ledger)?, ledger)?;
    for mirror in node.get("mirrors").map_or(&[][..], Node::list) {
        let shadow = mirror.at("name").and_then(Node::text).and_then(|name| find(name, ledger));
        let Some(Service { action: Action::Pool(pool), .. }) = shadow else {
            mirror.lost("it is not a service with endpoints of its own", "mirror of the [[route]]", ledger);
            continue;
        };
        if service.set.has(key!("mirror")) {
            mirror.lost(
                "only the first mirror is carried over",
                "mirror of the [[route]], which takes several",
                ledger,
            );
            continue;
        }
        mirror.carried(ledger);
        let percent = mirror.take("percent", ledger).and_then(|percent| percent.parse::<u64>().ok()).unwrap_or(0);
        if percent == 0 {
            continue;
        }
        let mut set: Draft<Mirror> = Draft::one(key!("pool"), pool);
        if percent < 100 {
            set.put(key!("share"), share(percent));
        }
        if let Some(bytes) = node.take("maxBodySize", ledger).and_then(parse_size) {
            set.put(key!("body_max"), size(bytes));
        }
        service.set.put(key!("mirror"), set);
    }
    if node.take("mirrorBody", ledger) == Some("false") {
        let reason = "bodies up to mirror.body_max are copied, and requests with longer ones are not";
        ledger.changes(node.line, reason, "have the shadow ignore bodies");
    } else {
        let reason = "requests with bodies above mirror.body_max, 64 kB unless set, are not copied";
        ledger.changes(node.line, reason, "mirror.body_max of the [[route]]");
    }
    node.lost("copies have no such setting", "see mirror of the [[route]]", ledger);
    Some(service)
}

/// Joins two services into a single pool. The endpoints of the second are backups.
pub(super) fn failover(
    node: &Node,
    name: &str,
    main: Service,
    fallback: Option<Service>,
    target: &mut Target,
    ledger: &mut Ledger,
) -> Service {
    let of = |service: &Service, target: &mut Target| match &service.action {
        Action::Pool(pool) => target.pool(pool).map(|pool| pool.clone()),
        _ => None,
    };
    let both = (of(&main, target), fallback.as_ref().and_then(|service| of(service, target)));
    let (Some(first), Some(second)) = both else {
        let reason = "only services with endpoints of their own back each other up: the fallback is left out";
        ledger.changes(node.line, reason, "endpoints with backup = true in the pool");
        node.lost(reason, "endpoints with backup = true in the pool", ledger);
        return main;
    };
    let mut pool = Pool { name: name.to_string(), ..first };
    if pool.set != second.set {
        let reason = "the settings of the main service hold for the endpoints of both";
        ledger.changes(node.line, reason, "compare the settings of both services");
    }
    for mut endpoint in second.endpoints {
        endpoint.set.put(key!("backup"), true);
        if !pool.endpoints.iter().any(|other| other.addr == endpoint.addr) {
            pool.endpoints.push(endpoint);
        }
    }
    ledger.changes(
        node.line,
        "backups get requests whenever no endpoint of the main service has room",
        "nothing, unless the fallback must not have single requests",
    );
    node.lost("there is no such setting of backups", "health and panic of the pool", ledger);
    if !target.pools.iter().any(|other| other.name == pool.name) {
        target.pools.push(pool);
    }
    Service { action: Action::Pool(name.to_string()), set: main.set }
}

/// The share of requests of a percentage.
fn share(percent: u64) -> Value {
    match percent {
        100.. => Value::Int(1),
        percent => Value::Fraction(format!("0.{percent:02}")),
    }
}
