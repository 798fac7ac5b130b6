//! Endpoints of both protocols that answer with the head of the request, a line for each part of it, and clients of
//! HTTP/1, HTTP/2 and HTTP/3 that read it.

use super::{Answer, ask_h1, ask_h2, ask_h3};
use crate::support::h2_server::H2Server;
use crate::support::h3_client;
use crate::support::message::Message;
use crate::support::{Endpoint, Proxy};
use std::fmt::Write;
use std::net::SocketAddr;

/// Beginning of the names of fields that are answered without it: `X-Answer-Location` as `Location`.
const ANSWERED: &str = "x-answer-";

/// Fields that every endpoint adds to its response.
const ADDED: [(&str, &str); 6] = [
    ("Server", "echo/1"),
    ("X-Powered-By", "tests"),
    ("X-Old", "kept"),
    ("X-New", "of the endpoint"),
    ("Set-Cookie", "a=1; Path=/"),
    ("Set-Cookie", "b=2; SameSite=None; Secure"),
];

/// An endpoint that speaks HTTP/1, and one that speaks HTTP/2.
pub struct Echoes {
    h1: Endpoint,
    h2: H2Server,
}

impl Echoes {
    pub fn start() -> Echoes {
        let echo = |request: &Message| {
            let mut parts = request.line().split(' ');
            let (method, target) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let mut body = format!("method: {method}\ntarget: {target}\n");
            let mut asked = String::new();
            for (name, value) in request.head.lines().skip(1).filter_map(|line| line.split_once(": ")) {
                let name = name.to_lowercase();
                writeln!(body, "{name}: {value}").expect("it is text");
                if let Some(name) = name.strip_prefix(ANSWERED) {
                    write!(asked, "{name}: {value}\r\n").expect("it is text");
                }
            }
            write_body(&mut body, &request.body);
            let added: String = ADDED.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{added}{asked}\r\n{body}", body.len()).into_bytes()
        };
        let h1 = Endpoint::start(move |conn| {
            while let Some(request) = conn.request_if_whole() {
                conn.send(echo(&request));
            }
        });
        let h2 = H2Server::start(|mut exchange| async move {
            let (content, _) = exchange.read().await;
            let head = &exchange.request;
            let target = head.uri().path_and_query().map(|path| path.to_string()).unwrap_or_default();
            let host = head.uri().authority().map(|host| host.to_string()).unwrap_or_default();
            let mut body = format!("method: {}\ntarget: {target}\nhost: {host}\n", head.method());
            for (name, value) in head.headers() {
                writeln!(body, "{name}: {}", String::from_utf8_lossy(value.as_bytes())).expect("it is text");
            }
            write_body(&mut body, &content);
            let fields = head.headers().iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap_or_default()));
            let asked = fields.filter_map(|(name, value)| Some((name.strip_prefix(ANSWERED)?, value)));
            let added: Vec<(String, String)> =
                ADDED.into_iter().chain(asked).map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
            let added: Vec<(&str, &str)> = added.iter().map(|(name, value)| (&**name, &**value)).collect();
            exchange.reply(200, &added, body.as_bytes(), &[]).await;
        });
        Echoes { h1, h2 }
    }

    /// Number of requests that came.
    pub fn came(&self) -> usize {
        self.h1.seen().len() + self.h2.seen().len()
    }

    pub fn addrs(&self) -> [SocketAddr; 2] {
        [self.h1.addr, self.h2.addr]
    }

    /// A proxy before each of the endpoints. `rest` is added to its configuration, with a pool `web`; in it, `$ENDPOINT`
    /// stands for the address of the endpoint, and `$PROTOCOL` for its protocol.
    pub fn proxies(&self, rest: &str) -> [(&'static str, Proxy); 2] {
        self.proxies_with("", rest)
    }

    /// Like [`proxies`](Self::proxies), with more lines for the listener.
    pub fn proxies_with(&self, listener: &str, rest: &str) -> [(&'static str, Proxy); 2] {
        let proxy = |addr: SocketAddr, protocol: &str| {
            let rest = rest.replace("$ENDPOINT", &addr.to_string()).replace("$PROTOCOL", protocol);
            Proxy::start(&format!(
                "[runtime]\nworkers = 1\n[listener.web]\nbind = ['$BIND']\nerrors = 'detailed'\nh2c = true\n{listener}\n\
                 {}[pool.web]\nendpoints = ['{addr}']\nprotocol = '{protocol}'\n{rest}",
                secure(listener)
            ))
        };
        [("h1 endpoint", proxy(self.h1.addr, "http1")), ("h2 endpoint", proxy(self.h2.addr, "h2"))]
    }
}

/// Adds the number of bytes of the request's body, if it has one.
fn write_body(answer: &mut String, content: &[u8]) {
    if !content.is_empty() {
        writeln!(answer, "body: {}", content.len()).expect("it is text");
    }
}

/// Names of the clients that [`ask`] knows.
pub const CLIENTS: [&str; 3] = ["h1 client", "h2 client", "h3 client"];

/// A second listener, for clients of HTTP/3, with these lines.
pub fn secure(listener: &str) -> String {
    h3_client::secure("web", listener)
}

/// Sends a GET over the protocol of this client.
pub async fn ask(client: &str, proxy: &Proxy, path: &str, fields: &[(&str, &str)]) -> Answer {
    match client {
        "h1 client" => ask_h1(proxy, path, fields, ""),
        "h2 client" => ask_h2(proxy, path, fields, "").await,
        _ => ask_h3(proxy, path, fields, "").await,
    }
}

/// Values of a part of the request that the endpoint got.
pub fn got<'a>(answer: &'a Answer, name: &str) -> Vec<&'a str> {
    let parts = answer.2.lines().filter_map(|line| line.split_once(": "));
    parts.filter(|(known, _)| *known == name).map(|(_, value)| value).collect()
}

/// Values of a field of the response.
pub fn fields<'a>(answer: &'a Answer, name: &str) -> Vec<&'a str> {
    let named = answer.1.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
    named.map(|(_, value)| &**value).collect()
}
