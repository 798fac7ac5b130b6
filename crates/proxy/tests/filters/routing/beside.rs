//! Runs the same table beside HAProxy and NGINX, with the routes that each can express, in front of the same endpoint.
//! Status, route, and the target that the endpoint gets or the `Location` have to be those of evenkeel. Differences are
//! listed with their reasons, and have to be what is listed.

use super::{CONFIG, Row, USERS, over_h1, over_h2, rows, target, with_users};
use crate::filters::access::List;
use crate::filters::echo::Echoes;
use crate::filters::{Answer, field};
use crate::support::haproxy::Haproxy;
use crate::support::nginx::Nginx;
use crate::support::{own_addr, wait_until};
use evenkeel_peers::installed;
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpStream};

const HAPROXY: &str = include_str!("../routing.haproxy.cfg");
const NGINX: &str = include_str!("../routing.nginx.conf");
const DIFFERENCES: &str = include_str!("../routing.differs.txt");

/// Least number of rows that are compared with each.
const ROWS: usize = 270;

/// A line of the file of differences, `[h1: |h2: ]REQUEST -> ANSWER`, below a line `RIVAL: REASON`.
struct Difference {
    line: usize,
    rival: &'static str,
    client: Option<&'static str>,
    sent: &'static str,
    answer: &'static str,
    was_seen: bool,
}

fn differences() -> Vec<Difference> {
    let (mut rival, mut found) = (None, Vec::new());
    let lines = DIFFERENCES.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    for (at, line) in lines {
        let Some(text) = line.strip_prefix("  ") else {
            rival = line.split_once(": ").map(|(rival, _)| rival);
            continue;
        };
        let (client, text) = match text.split_once(": ") {
            Some((client @ ("h1" | "h2"), text)) => (Some(client), text),
            _ => (None, text),
        };
        let parts = rival.zip(text.split_once(" -> "));
        let (rival, (sent, answer)) = parts.unwrap_or_else(|| panic!("routing.differs.txt:{}: {line}", at + 1));
        found.push(Difference { line: at + 1, rival, client, sent, answer, was_seen: false });
    }
    found
}

/// An answer as tables write it.
fn outcome(answer: Option<&Answer>) -> String {
    let Some(answer) = answer else { return "no answer".to_string() };
    let target = target(answer).map(|target| format!(" = {target}")).unwrap_or_default();
    format!("{} {}{target}", answer.0, field(answer, "x-route").unwrap_or("-"))
}

async fn ask(client: &str, addr: SocketAddr, row: &Row) -> String {
    let answer = if client == "h1" { over_h1(addr, row) } else { over_h2(addr, row).await };
    outcome(answer.as_ref())
}

/// Sends the rows whose routes the rival has to it and to evenkeel. `addrs` are those for HTTP/1 and HTTP/2.
async fn compare(rival: &str, routes: &BTreeSet<&str>, addrs: [SocketAddr; 2], echoes: &Echoes, users: &List) {
    let known: BTreeSet<&str> = CONFIG.lines().filter_map(|line| line.strip_prefix("name = ")).collect();
    let unknown: Vec<&&str> = routes.iter().filter(|route| !known.contains(&*format!("\"{route}\""))).collect();
    assert!(unknown.is_empty(), "{rival} has routes that routing.toml has not: {unknown:?}");
    wait_until("it listens for HTTP/2", || TcpStream::connect(addrs[1]).is_ok());
    let [(_, evenkeel), _] = echoes.proxies(&with_users(CONFIG, users));
    let rows: Vec<Row> = rows().into_iter().filter(|row| routes.contains(row.route)).collect();
    assert!(rows.len() >= ROWS, "{rival}: {} rows", rows.len());
    let (mut differences, mut wrong) = (differences(), Vec::new());
    differences.retain(|difference| difference.rival == rival);
    for row in &rows {
        for (client, addr) in ["h1", "h2"].into_iter().zip(addrs) {
            if !row.is_for(&format!("{client} client")) {
                continue;
            }
            let (ours, theirs) = (ask(client, evenkeel.addr(), row).await, ask(client, addr, row).await);
            let is_it = |difference: &&mut Difference| {
                difference.sent == row.sent && difference.client.is_none_or(|only| only == client)
            };
            let Some(difference) = differences.iter_mut().find(is_it) else {
                if ours != theirs {
                    wrong.push(format!("not listed: {client}: {} -> {theirs} (evenkeel {ours})", row.sent));
                }
                continue;
            };
            difference.was_seen = true;
            let at = format!("routing.differs.txt:{}: {client}: {}", difference.line, row.sent);
            if ours == theirs {
                wrong.push(format!("{at}: it is the same now, {ours}"));
            } else if difference.answer != theirs {
                wrong.push(format!("{at}: {rival} answers {theirs} instead of {}", difference.answer));
            }
        }
    }
    let unseen = differences.iter().filter(|difference| !difference.was_seen);
    wrong.extend(unseen.map(|difference| format!("routing.differs.txt:{}: no such row", difference.line)));
    assert!(wrong.is_empty(), "{rival}, {} rows:\n{}", rows.len(), wrong.join("\n"));
}

#[tokio::test]
async fn haproxy_gives_the_same() {
    if !installed(&["haproxy"]) {
        return;
    }
    let (echoes, users, h2) = (Echoes::start(), List::new("routing-haproxy", USERS), own_addr());
    let [endpoint, _] = echoes.addrs();
    let config = HAPROXY.replace("$H2", &h2.to_string()).replace("$ENDPOINT", &endpoint.to_string());
    let haproxy = Haproxy::start(&config);
    let backends = HAPROXY.lines().filter_map(|line| line.strip_prefix("backend "));
    let routes = backends.filter_map(|rest| rest.split(' ').next()).collect();
    compare("haproxy", &routes, [haproxy.addr, h2], &echoes, &users).await;
}

#[tokio::test]
async fn nginx_gives_the_same() {
    if !installed(&["nginx"]) {
        return;
    }
    let (echoes, users, h2) = (Echoes::start(), List::new("routing-nginx", USERS), own_addr());
    let [endpoint, _] = echoes.addrs();
    let config = NGINX.replace("$H2", &h2.to_string()).replace("$ENDPOINT", &endpoint.to_string());
    let nginx = Nginx::http(&with_users(&config, &users));
    compare("nginx", &routes_of_nginx(), [nginx.addr, h2], &echoes, &users).await;
}

/// Values that `$route` is set to: names, and those of blocks for a variable `$route_...`.
fn routes_of_nginx() -> BTreeSet<&'static str> {
    let (mut routes, mut is_of_routes) = (BTreeSet::new(), false);
    for line in NGINX.lines() {
        let set = line.split_once("set $route ").and_then(|(_, rest)| rest.split(';').next());
        routes.extend(set.filter(|value| !value.starts_with('$')));
        if is_of_routes && let Some((_, value)) = line.trim_end_matches(';').rsplit_once(' ') {
            routes.insert(value);
        }
        is_of_routes = if line.ends_with('{') { line.contains(" $route_") } else { is_of_routes && line != "}" };
    }
    routes
}
