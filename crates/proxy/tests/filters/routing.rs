//! A configuration with every kind of match and action, and a table of requests with the route that takes each: over
//! HTTP/1.1 and HTTP/2, to endpoints of both.

mod beside;

use super::access::List;
use super::echo::{Echoes, got};
use super::{Answer, SOON, field};
use crate::support::Client;
use std::net::SocketAddr;

const CONFIG: &str = include_str!("routing.toml");
const TABLE: &str = include_str!("routing.txt");

/// The file that the configuration names `$USERS`: the password of `ann` is "secret".
const USERS: &str = "ann:$2y$04$bUeub1GoVcOIVEXKSXSHeO4dSoQQKHyFfJbSGubQcLL8CBIY8PQ5G\n";

/// A line of the table: `METHOD HOST/PATH [| NAME: VALUE]... -> STATUS ROUTE [= TARGET]`.
#[derive(Debug)]
struct Row {
    line: usize,
    /// The part that is sent, as it is in the table.
    sent: &'static str,
    method: &'static str,
    host: &'static str,
    path: &'static str,
    fields: Vec<(&'static str, &'static str)>,
    status: u16,
    route: &'static str,
    /// Target that the endpoint gets, or `Location`.
    target: Option<&'static str>,
    /// Clients that can send it.
    only: Option<&'static str>,
}

fn rows() -> Vec<Row> {
    let lines = TABLE.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    lines.map(|(at, line)| row(at + 1, line).unwrap_or_else(|| panic!("routing.txt:{}: {line}", at + 1))).collect()
}

fn row(line: usize, text: &'static str) -> Option<Row> {
    let (only, text) = match text.strip_prefix("h1: ") {
        Some(text) => (Some("h1 client"), text),
        None => (None, text),
    };
    let (sent, wanted) = text.split_once(" -> ")?;
    let mut parts = sent.split(" | ");
    let head = parts.next()?;
    let (method, url) = head.trim().split_once(' ')?;
    let at = url.find(['/', '*'])?;
    let fields =
        parts.filter_map(|field| field.split_once(':')).map(|(name, value)| (name, value.trim_start())).collect();
    let (wanted, target) = wanted.split_once(" = ").map_or((wanted, None), |(wanted, target)| (wanted, Some(target)));
    let (status, route) = wanted.trim().split_once(' ').unwrap_or((wanted.trim(), "-"));
    let (host, path) = url.split_at(at);
    let (host, path) = (host, path.trim());
    Some(Row { line, sent, method, host, path, fields, status: status.parse().ok()?, route, target, only })
}

/// The answer, or none if the connection ended without one.
fn over_h1(addr: SocketAddr, row: &Row) -> Option<Answer> {
    let lines: String = row.fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let mut client = Client::connect(addr);
    client.send(format!(
        "{} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{lines}\r\n",
        row.method, row.path, row.host
    ));
    let response = client.response_if_any()?;
    let fields = response.head.lines().skip(1).filter_map(|line| line.split_once(": "));
    let fields = fields.map(|(name, value)| (name.to_string(), value.to_string())).collect();
    Some((response.status(), fields, response.body_text()))
}

/// The answer, or none if the stream ended without one.
async fn over_h2(addr: SocketAddr, row: &Row) -> Option<Answer> {
    let tcp = tokio::net::TcpStream::connect(addr).await.expect("it listens");
    let (client, connection) = h2::client::handshake(tcp).await.expect("it speaks HTTP/2");
    tokio::spawn(connection);
    let mut client = client.ready().await.expect("it takes requests");
    let mut request = http::Request::builder().method(row.method).uri(format!("http://{}{}", row.host, row.path));
    for (name, value) in &row.fields {
        request = request.header(*name, *value);
    }
    let request = request.body(()).unwrap_or_else(|error| panic!("{row:?}: {error}"));
    let (response, _) = client.send_request(request, true).expect("it takes one more");
    let response = tokio::time::timeout(SOON, response).await.expect("in time").ok()?;
    let status = response.status().as_u16();
    let text = |value: &http::HeaderValue| value.to_str().expect("ASCII").to_string();
    let fields = response.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let mut body = response.into_body();
    let mut content = Vec::new();
    while let Some(part) = body.data().await {
        content.extend_from_slice(&part.ok()?);
    }
    Some((status, fields, String::from_utf8(content).expect("text")))
}

/// Target that the endpoint got, or `Location`.
fn target(answer: &Answer) -> Option<&str> {
    field(answer, "location").or_else(|| got(answer, "target").first().copied())
}

fn check(at: &str, row: &Row, answer: Option<Answer>, wrong: &mut Vec<String>) {
    let Some(answer) = &answer else {
        return wrong.push(format!("routing.txt:{} {at}: no answer to {row:?}", row.line));
    };
    let (route, target) = (field(answer, "x-route").unwrap_or("-"), target(answer));
    if (answer.0, route) != (row.status, row.route) || (row.target.is_some() && row.target != target) {
        wrong.push(format!("routing.txt:{} {at}: {} {route} {target:?} instead of {row:?}", row.line, answer.0));
    }
}

fn with_users(text: &str, users: &List) -> String {
    text.replace("$USERS", &users.0.display().to_string())
}

#[tokio::test]
async fn each_request_of_the_table_takes_its_route() {
    let (echoes, rows, mut wrong) = (Echoes::start(), rows(), Vec::new());
    assert!(rows.len() >= 200, "{}", rows.len());
    let users = List::new("routing", USERS);
    for (endpoint, proxy) in echoes.proxies(&with_users(CONFIG, &users)) {
        for row in &rows {
            check(&format!("{endpoint}, h1 client"), row, over_h1(proxy.addr(), row), &mut wrong);
            if row.only.is_none() {
                check(&format!("{endpoint}, h2 client"), row, over_h2(proxy.addr(), row).await, &mut wrong);
            }
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}
