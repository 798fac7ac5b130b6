//! Proof of an attack's failure: the requests of attacker and victim, in this order and once more, are answered as they are
//! in a world where the other one does not exist. What one gets so depends on nothing of the other, stored or not.

use crate::support::h2_client::{DATA, END_STREAM, Frame, H2Client};
use crate::support::h2_server::H2Server;
use crate::support::message::Message;
use crate::support::{Client, Endpoint, Proxy};
use std::net::SocketAddr;

/// An application behind the proxy: a request in, a response of HTTP/1 out.
pub type App = fn(&Message) -> Vec<u8>;

/// A request. `line`: method and target. `fields`: lines, each with its line end.
#[derive(Clone, Debug)]
pub struct Ask {
    pub line: String,
    pub host: String,
    pub fields: String,
    pub body: String,
}

impl Ask {
    pub fn host(mut self, host: &str) -> Ask {
        self.host = host.into();
        self
    }

    pub fn body(mut self, body: &str) -> Ask {
        self.body = body.into();
        self
    }

    fn bytes(&self) -> String {
        let Ask { line, host, fields, body } = self;
        let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let host = if host.is_empty() { String::new() } else { format!("Host: {host}\r\n") };
        format!("{line} HTTP/1.1\r\n{host}{fields}{length}\r\n{body}")
    }
}

/// A request of the host `a`. Fields are separated by `|`.
pub fn ask(line: &str, fields: &str) -> Ask {
    let lines = fields.split('|').filter(|line| !line.is_empty()).map(|line| format!("{line}\r\n"));
    Ask { line: line.into(), host: "a".into(), fields: lines.collect(), body: String::new() }
}

/// A GET for `/p`. Fields are separated by `|`.
pub fn get(fields: &str) -> Ask {
    ask("GET /p", fields)
}

/// Response as a client sees it: status, fields without those of time and framing, and body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Got {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: String,
    /// State of the cache, which is no part of the comparison.
    pub state: Ignored,
}

/// Text that is equal to any other.
#[derive(Clone, Debug, Default)]
pub struct Ignored(pub String);

impl PartialEq for Ignored {
    fn eq(&self, _: &Ignored) -> bool {
        true
    }
}

impl Eq for Ignored {}

/// Fields of time and framing, which are others for a stored response.
const UNCOMPARED: [&str; 7] =
    ["age", "cache-status", "connection", "content-length", "date", "transfer-encoding", ":status"];

impl Got {
    fn new(status: u16, fields: impl Iterator<Item = (String, String)>, body: String) -> Got {
        let mut fields: Vec<_> = fields.map(|(name, value)| (name.to_lowercase(), value)).collect();
        let state = fields.iter().find(|(name, _)| name == "cache-status").map(|(_, value)| value.clone());
        fields.retain(|(name, _)| !UNCOMPARED.contains(&&**name));
        fields.sort();
        Got { status, fields, body, state: Ignored(state.unwrap_or_default().replace("evenkeel; ", "")) }
    }

    pub fn of(message: &Message) -> Got {
        let fields = message.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let fields = fields.map(|(name, value)| (name.into(), value.trim().into()));
        Got::new(message.status(), fields, message.body_text())
    }

    /// First value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// True if the response came from the cache.
    pub fn is_hit(&self) -> bool {
        self.state.0.starts_with("hit")
    }
}

/// Version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    H1,
    H2,
}

pub const VERSIONS: [Version; 2] = [Version::H1, Version::H2];

/// A proxy before an application.
pub struct World {
    pub proxy: Proxy,
    endpoint: Behind,
}

/// Endpoint that runs an application.
pub enum Behind {
    H1(Endpoint),
    H2(H2Server),
}

impl Behind {
    pub fn new(version: Version, app: App) -> Behind {
        match version {
            Version::H1 => Behind::H1(Endpoint::answering(app)),
            Version::H2 => Behind::H2(h2(app)),
        }
    }

    pub fn addr(&self) -> SocketAddr {
        match self {
            Behind::H1(endpoint) => endpoint.addr,
            Behind::H2(endpoint) => endpoint.addr,
        }
    }

    /// Line of a pool of such endpoints.
    pub fn pool(&self) -> &'static str {
        if let Behind::H2(_) = self { "protocol = 'h2'" } else { "" }
    }
}

fn h2(app: App) -> H2Server {
    H2Server::start(move |mut exchange| async move {
        let (body, _) = exchange.read().await;
        let uri = exchange.request.uri();
        let target = uri.path_and_query().map_or("*", |target| target.as_str());
        let host = uri.authority().map_or("", |authority| authority.as_str());
        let scheme = uri.scheme_str().unwrap_or_default();
        let mut head = format!("{} {target} HTTP/2\r\nHost: {host}\r\nScheme: {scheme}\r\n", exchange.request.method());
        for (name, value) in exchange.request.headers() {
            head += &format!("{name}: {}\r\n", String::from_utf8_lossy(value.as_bytes()));
        }
        let response = app(&Message { head, wire: body.clone(), body });
        let response = String::from_utf8(response).expect("text");
        let (head, body) = response.split_once("\r\n\r\n").expect("a head");
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a status");
        let fields: Vec<_> = lines.filter_map(|line| line.split_once(": ")).collect();
        exchange.reply(status, &fields, body.as_bytes(), &[]).await;
    })
}

impl World {
    /// Starts a proxy whose route has these lines.
    pub fn new(version: Version, app: App, route: &str) -> World {
        World::with(version, app, "", &format!("[[route]]\npool = 'web'\n{route}\n"))
    }

    /// Starts a proxy with these lines of the listener, and these sections.
    pub fn with(version: Version, app: App, listener: &str, sections: &str) -> World {
        let endpoint = Behind::new(version, app);
        let listener = format!("h2c = true\n{listener}");
        World { proxy: Proxy::with(&[endpoint.addr()], &listener, endpoint.pool(), sections), endpoint }
    }

    /// Number of requests that an endpoint of HTTP/1 or HTTP/2 has answered.
    pub fn answered(&self) -> usize {
        match &self.endpoint {
            Behind::H1(endpoint) => endpoint.seen().len(),
            Behind::H2(endpoint) => endpoint.seen().len(),
        }
    }

    /// Response to a request on a connection of its own.
    pub fn ask(&self, version: Version, ask: &Ask) -> Got {
        self.ask_from([127, 0, 0, 1], version, ask)
    }

    /// Like [`ask`](Self::ask), from another address.
    pub fn ask_from(&self, from: [u8; 4], version: Version, ask: &Ask) -> Got {
        let mut got = self.got(from, version, ask);
        // Errors of the proxy name the endpoint.
        got.body = got.body.replace(&self.endpoint.addr().to_string(), "ENDPOINT");
        got
    }

    fn got(&self, from: [u8; 4], version: Version, ask: &Ask) -> Got {
        match version {
            Version::H1 => {
                let mut client = Client::connect_from(from, self.proxy.addr());
                client.send(ask.bytes());
                if ask.line.starts_with("HEAD ") {
                    return Got::of(&Message { head: client.head(), ..Message::default() });
                }
                loop {
                    let message = client.response_if_any().unwrap_or_default();
                    if !(100..200).contains(&message.status()) {
                        return Got::of(&message);
                    }
                }
            }
            Version::H2 => over_h2(self.proxy.addr(), ask),
        }
    }
}

fn over_h2(addr: SocketAddr, ask: &Ask) -> Got {
    let mut client = H2Client::connect(addr);
    let (method, target) = ask.line.split_once(' ').expect("method and target");
    let lines = ask.fields.lines().filter_map(|line| line.split_once(':'));
    let mut fields = vec![
        (":method".to_string(), method.to_string()),
        (":scheme".into(), "http".into()),
        (":path".into(), target.into()),
        (":authority".into(), ask.host.clone()),
    ];
    fields.extend(lines.map(|(name, value)| (name.to_lowercase(), value.trim().into())));
    let fields: Vec<_> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
    client.head(1, &fields, ask.body.is_empty());
    if !ask.body.is_empty() {
        client.send(&Frame::new(DATA, END_STREAM, 1, ask.body.as_bytes()));
    }
    let answer = client.answer(1);
    let finals = answer.heads.iter().find(|head| !head.iter().any(|(n, v)| n == ":status" && v.starts_with('1')));
    Got::new(answer.status(), finals.cloned().unwrap_or_default().into_iter(), answer.body_text())
}

/// An attack: the application, the lines of the route, and the requests of attacker and victim.
pub struct Attack {
    pub name: &'static str,
    pub app: App,
    pub route: &'static str,
    pub attacker: Ask,
    pub victim: Ask,
}

impl Attack {
    /// Proves that the attack fails over both versions on both sides.
    #[track_caller]
    pub fn fails(&self) {
        for client in VERSIONS {
            for endpoint in VERSIONS {
                self.fails_over(client, endpoint);
            }
        }
    }

    /// Proves that the attack fails over these versions.
    #[track_caller]
    pub fn fails_over(&self, client: Version, endpoint: Version) {
        let Attack { name, app, route, attacker, victim } = self;
        let world = || World::new(endpoint, *app, route);
        let alone = |ask: &Ask| world().ask(client, ask);
        let both = world();
        let place = |who: &str| format!("{name}: {who}, {client:?} to {endpoint:?}");
        let got = [attacker, victim, attacker, victim].map(|who| both.ask(client, who));
        assert_ne!(got[1].status, 0, "{}", place("no answer"));
        let (attacker, victim) = (alone(attacker), alone(victim));
        assert_eq!(got[1], victim, "{}", place("victim"));
        assert_eq!(got[2], attacker, "{}", place("attacker afterwards"));
        assert_eq!(got[3], victim, "{}", place("victim once more"));
    }
}

/// Proves that each of these attacks fails: a name, and the requests of attacker and victim.
#[track_caller]
pub fn all_fail(app: App, route: &'static str, attacks: Vec<(&'static str, Ask, Ask)>) {
    for (name, attacker, victim) in attacks {
        Attack { name, app, route, attacker, victim }.fails();
    }
}

/// Like [`all_fail`], before endpoints of HTTP/1 alone: for attacks of which an endpoint sees the same in any version.
#[track_caller]
pub fn all_fail_before_h1(app: App, route: &'static str, attacks: Vec<(&'static str, Ask, Ask)>) {
    for (name, attacker, victim) in attacks {
        let attack = Attack { name, app, route, attacker, victim };
        VERSIONS.into_iter().for_each(|client| attack.fails_over(client, Version::H1));
    }
}

/// Proves that no victim of these attacks notices them. Attackers may get what victims get.
#[track_caller]
pub fn victims_are_spared(app: App, route: &'static str, attacks: Vec<(&'static str, Ask, Ask)>) {
    for (name, attacker, victim) in attacks {
        for (client, endpoint) in [(Version::H1, Version::H1), (Version::H2, Version::H1), (Version::H2, Version::H2)] {
            let (both, alone) = (World::new(endpoint, app, route), World::new(endpoint, app, route));
            both.ask(client, &attacker);
            let got = both.ask(client, &victim);
            assert_eq!(got, alone.ask(client, &victim), "{name}, {client:?} to {endpoint:?}");
            assert_ne!(got.status, 0, "{name}: no answer, {client:?} to {endpoint:?}");
        }
    }
}

/// Response of an endpoint with these fields, separated by `|`.
pub fn with(status: &str, fields: &str, body: &str) -> Vec<u8> {
    let lines: String = fields.split('|').filter(|line| !line.is_empty()).map(|line| format!("{line}\r\n")).collect();
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{lines}\r\n{body}", body.len()).into_bytes()
}

/// Everything that the endpoint sees of a request, but for marks that evenkeel adds.
pub fn seen(request: &Message) -> String {
    let mut lines: Vec<String> = request.head.lines().skip(1).filter(|line| !line.is_empty()).map(lower_name).collect();
    lines.retain(|line| !line.starts_with("cdn-loop:"));
    lines.sort();
    let line = request.line().rsplit_once(' ').map_or("", |(line, _)| line);
    format!("{line}|{}|{}", lines.join("|"), request.body_text())
}

fn lower_name(line: &str) -> String {
    let (name, value) = line.split_once(':').unwrap_or((line, ""));
    format!("{}: {}", name.to_lowercase(), value.trim())
}

/// An application that reflects all that it sees, and calls it cacheable.
pub fn reflects(request: &Message) -> Vec<u8> {
    with("200 OK", "Cache-Control: max-age=60", &seen(request))
}
