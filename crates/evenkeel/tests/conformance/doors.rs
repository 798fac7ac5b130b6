//! Doors for clients: a listener in clear and one over TLS for each endpoint, of an evenkeel, or of an HAProxy instead.

use crate::endpoints::{self, Endpoint, Speaks};
use crate::files::Certificate;
use crate::support::{Folder, Running, address, get};
use std::fmt::Write as _;
use std::process::{Child, Command};

/// Protocol that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    H1,
    H1Tls,
    /// Over TLS, chosen by ALPN.
    H2,
    /// Without TLS, by prior knowledge.
    H2c,
    /// Over QUIC, at the address of the door with TLS.
    H3,
    /// Over version 2 of QUIC.
    H3V2,
}

impl Door {
    /// Word for it in the arguments of clients.
    pub fn word(self) -> &'static str {
        match self {
            Door::H1 => "h1",
            Door::H1Tls => "h1tls",
            Door::H2 => "h2",
            Door::H2c => "h2c",
            Door::H3 => "h3",
            Door::H3V2 => "h3v2",
        }
    }

    /// Version of HTTP, as clients print it.
    pub fn version(self) -> &'static str {
        match self {
            Door::H1 | Door::H1Tls => "1.1",
            Door::H2 | Door::H2c => "2",
            Door::H3 | Door::H3V2 => "3",
        }
    }

    pub fn has_tls(self) -> bool {
        matches!(self, Door::H1Tls | Door::H2 | Door::H3 | Door::H3V2)
    }
}

/// The two listeners in front of an endpoint: each speaks HTTP/1 and HTTP/2.
pub struct Doors {
    pub plain: String,
    pub tls: String,
}

impl Doors {
    pub fn addr(&self, tls: bool) -> &str {
        if tls { &self.tls } else { &self.plain }
    }

    pub fn url(&self, door: Door) -> String {
        let scheme = if door.has_tls() { "https" } else { "http" };
        format!("{scheme}://{}", self.addr(door.has_tls()))
    }
}

/// Proxy under test, with a pair of doors for each endpoint.
pub struct Subject {
    pub doors: Vec<Doors>,
    pub certificate: Certificate,
    program: Program,
}

enum Program {
    Evenkeel { running: Running, admin: String },
    Haproxy(Child),
}

impl Subject {
    pub fn start(folder: &Folder, endpoints: &[&Endpoint]) -> Subject {
        Subject::with(folder, endpoints, "")
    }

    /// With more in the configuration of evenkeel's endpoints' pools.
    pub fn with(folder: &Folder, endpoints: &[&Endpoint], pool: &str) -> Subject {
        let doors: Vec<Doors> = endpoints.iter().map(|_| Doors { plain: address(), tls: address() }).collect();
        let certificate = Certificate::make(folder, "front", &[&doors[0].tls]);
        let program = match std::env::var("EVENKEEL_CONFORMANCE_OF").as_deref() {
            Ok("haproxy") => haproxy(folder, endpoints, &doors, &certificate),
            _ => evenkeel(folder, endpoints, &doors, &certificate, pool),
        };
        Subject { doors, certificate, program }
    }

    /// Connections of clients that it has accepted for an endpoint so far. `None` of others than evenkeel.
    pub fn connections(&self, endpoint: &Endpoint) -> Option<u64> {
        let Program::Evenkeel { admin, .. } = &self.program else { return None };
        let (_, metrics) = get(admin, "/metrics").expect("it serves its metrics");
        let count = |kind: &str| {
            let series = format!("evenkeel_connections_total{{listener=\"{}-{kind}\"}} ", endpoint.name);
            metrics.lines().find_map(|line| line.strip_prefix(&series)?.parse::<u64>().ok()).unwrap_or_default()
        };
        Some(count("plain") + count("tls"))
    }

    /// Log that the proxy has written so far.
    pub fn said(&self) -> String {
        match &self.program {
            Program::Evenkeel { running, .. } => running.said(),
            Program::Haproxy(_) => String::new(),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Program::Haproxy(process) = self {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// A listener in clear and one over TLS, and the pool of one endpoint.
pub fn tables(endpoint: &Endpoint, doors: &Doors, certificate: &Certificate, more: &str) -> String {
    let (name, Doors { plain, tls }, Certificate { cert, key, .. }) = (endpoint.name, doors, certificate);
    let mut config = format!(
        "[listener.{name}-plain]\nbind = ['{plain}']\nh2c = true\n\
         [listener.{name}-tls]\nbind = ['{tls}']\nhttp3 = true\n[listener.{name}-tls.tls]\ncertificates = [{{ cert = '{cert}', key = '{key}' }}]\n\
         [[route]]\nname = '{name}'\nmatch = {{ listener = ['{name}-plain', '{name}-tls'] }}\npool = '{name}'\nrequest_trailers = ['X-Sum']\n\
         [pool.{name}]\nendpoints = ['{}']\n{more}\n",
        endpoint.addr
    );
    if endpoint.speaks != Speaks::H1 {
        config.push_str("protocol = 'h2'\n");
    }
    if let Some(Certificate { ca, .. }) = &endpoint.certificate {
        writeln!(config, "[pool.{name}.tls]\nca = '{ca}'").expect("a String takes everything");
    }
    config
}

fn evenkeel(
    folder: &Folder,
    endpoints: &[&Endpoint],
    doors: &[Doors],
    certificate: &Certificate,
    pool: &str,
) -> Program {
    let admin = address();
    let mut config = format!("[runtime]\nworkers = 2\n[admin]\nhttp = {{ bind = '{admin}' }}\n");
    for (endpoint, doors) in endpoints.iter().zip(doors) {
        config.push_str(&tables(endpoint, doors, certificate, pool));
    }
    let running = Running::start(&["run", "--config", &folder.file("evenkeel.toml", &config)]);
    Program::Evenkeel { running, admin }
}

fn haproxy(folder: &Folder, endpoints: &[&Endpoint], doors: &[Doors], certificate: &Certificate) -> Program {
    let read = |path: &str| std::fs::read_to_string(path).expect("it was made");
    let both = folder.file("front.pem", &format!("{}{}", read(&certificate.cert), read(&certificate.key)));
    let mut config = String::from(
        "global\n tune.ssl.default-dh-param 2048\ndefaults\n mode http\n timeout client 60s\n timeout server 60s\n timeout connect 1s\n\
         option http-no-delay\n",
    );
    for (endpoint, Doors { plain, tls }) in endpoints.iter().zip(doors) {
        let (name, addr) = (endpoint.name, &endpoint.addr);
        let protocol = if endpoint.speaks == Speaks::H1 { "" } else { "proto h2" };
        let ca = endpoint.certificate.as_ref().map_or(String::new(), |c| format!("ssl ca-file {} alpn h2", c.ca));
        writeln!(
            config,
            "frontend {name}\n bind {plain}\n bind {tls} ssl crt {both} alpn h2,http/1.1\n default_backend {name}\n\
             backend {name}\n server one {addr} {protocol} {ca}"
        )
        .expect("a String takes everything");
    }
    let config = folder.file("haproxy.cfg", &config);
    let mut command = Command::new(evenkeel_peers::find("haproxy").expect("`make setup` installs it"));
    Program::Haproxy(endpoints::start(folder, "haproxy", &doors[0].tls, command.args(["-db", "-f", &config])))
}
