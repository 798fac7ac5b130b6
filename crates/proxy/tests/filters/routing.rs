//! A configuration with every kind of match and action, and a table of requests with the route that takes each: over
//! HTTP/1.1 and HTTP/2, to endpoints of both.

mod beside;
mod predicted;
mod visible;

use super::access::List;
use super::echo::{Echoes, fields, got};
use super::{Answer, SOON, field};
use crate::support::Client;
use std::net::SocketAddr;

const CONFIG: &str = include_str!("routing.toml");
const TABLE: &str = include_str!("routing.txt");

/// The file that the configuration names `$USERS`: the password of `ann` is "secret".
const USERS: &str = "ann:$2y$04$bUeub1GoVcOIVEXKSXSHeO4dSoQQKHyFfJbSGubQcLL8CBIY8PQ5G\n";

/// A line of the table: `METHOD HOST/PATH [| NAME: VALUE]... [| + BYTES...] -> STATUS ROUTE [= TARGET]
/// [| NAME: VALUE]...`, with the prefix `h1: ` or `h2: ` for one client only.
///
/// `+` gives the lengths of the pieces of a body. A single piece has a stated length, unless the fields state one; several
/// pieces have none, and are chunks over HTTP/1.1. An answer of 200 must show that the endpoint got all bytes. The status
/// `none` stands for a connection or stream that ends without an answer.
#[derive(Debug)]
struct Row {
    line: usize,
    /// The part that is sent, as it is in the table.
    sent: &'static str,
    method: &'static str,
    host: &'static str,
    path: &'static str,
    fields: Vec<(&'static str, &'static str)>,
    /// Lengths of the pieces of the body.
    pieces: Vec<usize>,
    /// `None` if there is no answer.
    status: Option<u16>,
    route: &'static str,
    /// Target that the endpoint gets, or `Location`.
    target: Option<&'static str>,
    /// Fields of the answer, of several lines the values joined; without a value, there is none.
    answered: Vec<(&'static str, &'static str)>,
    /// Clients that can send it.
    only: Option<&'static str>,
}

fn rows() -> Vec<Row> {
    let lines = TABLE.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    lines.map(|(at, line)| row(at + 1, line).unwrap_or_else(|| panic!("routing.txt:{}: {line}", at + 1))).collect()
}

fn row(line: usize, text: &'static str) -> Option<Row> {
    let (only, text) = match text.split_once(": ") {
        Some(("h1", text)) => (Some("h1 client"), text),
        Some(("h2", text)) => (Some("h2 client"), text),
        _ => (None, text),
    };
    let (sent, wanted) = text.split_once(" -> ")?;
    let mut parts = sent.split(" | ");
    let head = parts.next()?;
    let (method, url) = head.trim().split_once(' ')?;
    let at = url.find(['/', '*'])?;
    let (pieces, fields): (Vec<&str>, Vec<&str>) = parts.partition(|part| part.starts_with("+ "));
    let pieces = pieces.iter().flat_map(|part| part.split(' ').skip(1)).map(|length| length.parse().ok());
    let mut wanted = wanted.split(" | ");
    let answer = wanted.next()?;
    let (answer, target) = answer.split_once(" = ").map_or((answer, None), |(answer, target)| (answer, Some(target)));
    let (status, route) = answer.trim().split_once(' ').unwrap_or((answer.trim(), "-"));
    let (host, path) = url.split_at(at);
    Some(Row {
        line,
        sent,
        method,
        host,
        path: path.trim(),
        fields: fields.into_iter().filter_map(name_and_value).collect(),
        pieces: pieces.collect::<Option<_>>()?,
        status: if status == "none" { None } else { Some(status.parse().ok()?) },
        route,
        target,
        answered: wanted.map(name_and_value).collect::<Option<_>>()?,
        only,
    })
}

fn name_and_value(text: &'static str) -> Option<(&'static str, &'static str)> {
    text.split_once(':').map(|(name, value)| (name, value.trim_start()))
}

impl Row {
    fn is_for(&self, client: &str) -> bool {
        self.only.is_none_or(|only| only == client)
    }

    fn states_its_length(&self) -> bool {
        self.fields.iter().any(|(name, _)| ["content-length", "transfer-encoding"].contains(&&*name.to_lowercase()))
    }

    /// The fields, and that of the length if the body has one.
    fn sent_fields(&self) -> Vec<(&'static str, String)> {
        let mut fields: Vec<_> = self.fields.iter().map(|(name, value)| (*name, (*value).to_string())).collect();
        if let ([length], false) = (&self.pieces[..], self.states_its_length()) {
            fields.push(("Content-Length", length.to_string()));
        }
        fields
    }

    /// True if the body goes in chunks over HTTP/1.1.
    fn is_chunked(&self) -> bool {
        self.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("transfer-encoding"))
            || (self.pieces.len() > 1 && !self.states_its_length())
    }
}

/// The answer, or none if the connection ended without one.
fn over_h1(addr: SocketAddr, row: &Row) -> Option<Answer> {
    let mut lines: String = row.sent_fields().iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    if row.is_chunked() && !row.states_its_length() {
        lines.push_str("Transfer-Encoding: chunked\r\n");
    }
    let content = row.pieces.iter().map(|length| match row.is_chunked() {
        true => format!("{length:x}\r\n{}\r\n", "x".repeat(*length)),
        false => "x".repeat(*length),
    });
    let mut content: String = content.collect();
    if row.is_chunked() {
        content.push_str("0\r\n\r\n");
    }
    let mut client = Client::connect(addr);
    client.send(format!(
        "{} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{lines}\r\n{content}",
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
    for (name, value) in row.sent_fields() {
        request = request.header(name, value);
    }
    let request = request.body(()).unwrap_or_else(|error| panic!("{row:?}: {error}"));
    let (response, mut sending) = client.send_request(request, row.pieces.is_empty()).expect("it takes one more");
    for (at, length) in row.pieces.iter().enumerate() {
        // An answer may have ended the stream already.
        let _ = sending.send_data("x".repeat(*length).into(), at + 1 == row.pieces.len());
    }
    let response = tokio::time::timeout(SOON, response).await.expect("in time").ok()?;
    let status = response.status().as_u16();
    let text = |value: &http::HeaderValue| value.to_str().expect("ASCII").to_string();
    let fields = response.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let mut body = response.into_body();
    let mut content = Vec::new();
    while let Some(part) = body.data().await {
        content.extend_from_slice(&part.ok()?);
    }
    Some((status, fields, String::from_utf8_lossy(&content).into_owned()))
}

/// Target that the endpoint got, or `Location`.
fn target(answer: &Answer) -> Option<&str> {
    field(answer, "location").or_else(|| got(answer, "target").first().copied())
}

/// Fields of the answer that the row names, as it writes them.
fn answered<'a>(answer: &Answer, row: &'a Row) -> Vec<(&'a str, String)> {
    row.answered.iter().map(|(name, _)| (*name, fields(answer, name).join(", "))).collect()
}

fn check(at: &str, row: &Row, answer: Option<Answer>, wrong: &mut Vec<String>) {
    let Some(answer) = &answer else {
        if row.status.is_some() {
            wrong.push(format!("routing.txt:{} {at}: no answer to {row:?}", row.line));
        }
        return;
    };
    let (route, target, answered) = (field(answer, "x-route").unwrap_or("-"), target(answer), answered(answer, row));
    let has_fields = answered.iter().zip(&row.answered).all(|((_, value), (_, wanted))| value == wanted);
    if (Some(answer.0), route) != (row.status, row.route)
        || (row.target.is_some() && row.target != target)
        || !has_fields
    {
        wrong.push(format!(
            "routing.txt:{} {at}: {} {route} {target:?} {answered:?} instead of {row:?}",
            row.line, answer.0
        ));
    }
    let whole: usize = row.pieces.iter().sum();
    if answer.0 == 200 && whole > 0 && got(answer, "body") != [whole.to_string()] {
        wrong.push(format!("routing.txt:{} {at}: the endpoint got {:?} of {whole}", row.line, got(answer, "body")));
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
            if row.is_for("h1 client") {
                check(&format!("{endpoint}, h1 client"), row, over_h1(proxy.addr(), row), &mut wrong);
            }
            if row.is_for("h2 client") {
                check(&format!("{endpoint}, h2 client"), row, over_h2(proxy.addr(), row).await, &mut wrong);
            }
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}
