//! Which proxies are measured, and how is each set up at its best? One row of [`KINDS`] each: its configuration text
//! and its command line.

use super::case::Setup;
use super::sink::Sink;
use crate::bare;
use crate::child::{self, Child};
use crate::error::{Error, Result};
use crate::http;
use crate::machine;
use crate::origin;
use crate::procfs;
use crate::scratch::Scratch;
use std::env;
use std::path::{Path, PathBuf};

/// What a configuration is made for.
pub struct Site<'a> {
    /// A folder of its own, for whatever it writes.
    pub folder: &'a Path,
    /// Where it listens.
    pub port: u16,
    /// The endpoints.
    pub endpoints: [u16; 2],
    /// How it is set up.
    pub setup: Setup,
    /// The port to which proxies that write no files send lines of the access log.
    pub log_port: u16,
}

impl Site<'_> {
    /// The file of the access log.
    pub fn log(&self) -> PathBuf {
        self.folder.join("access.log")
    }
}

/// One kind of proxy.
pub struct Kind {
    /// Its name in `--proxies`.
    pub name: &'static str,
    /// The program, if it has to be searched for.
    program: &'static str,
    config_name: &'static str,
    config: fn(&Site) -> String,
    arguments: fn(command: &[String], folder: &Path, config: &Path) -> Vec<String>,
    version_flag: &'static str,
    /// Whether its workers are children of the process that was started.
    forks: bool,
    /// Whether it can only log to a socket.
    pub logs_to_socket: bool,
    /// Whether it can only pass on sessions, not requests.
    sessions_only: bool,
}

/// Every kind, in the order of the columns.
pub static KINDS: &[Kind] = &[
    Kind {
        name: "evenkeel",
        program: "evenkeel",
        config_name: "evenkeel.toml",
        config: evenkeel,
        arguments: |command, _, config| and(command, &["run", "-c", &config.display().to_string()]),
        version_flag: "--version",
        forks: false,
        logs_to_socket: false,
        sessions_only: false,
    },
    Kind {
        name: "haproxy",
        program: "haproxy",
        config_name: "haproxy.cfg",
        config: |site| haproxy(site, ""),
        // -db: in the foreground, without a master.
        arguments: |command, _, config| and(command, &["-db", "-f", &config.display().to_string()]),
        version_flag: "-v",
        forks: false,
        logs_to_socket: true,
        sessions_only: false,
    },
    // HAProxy with and without splicing, which helps it with large bodies and costs it a little with small ones.
    Kind {
        name: "haproxy-splice",
        program: "haproxy",
        config_name: "haproxy.cfg",
        config: |site| haproxy(site, "  option splice-response\n"),
        arguments: |command, _, config| and(command, &["-db", "-f", &config.display().to_string()]),
        version_flag: "-v",
        forks: false,
        logs_to_socket: true,
        sessions_only: false,
    },
    Kind {
        name: "nginx",
        program: "nginx",
        config_name: "nginx.conf",
        config: nginx,
        arguments: |command, folder, config| origin::nginx_command(command[0].clone(), folder, config),
        version_flag: "-v",
        forks: true,
        logs_to_socket: false,
        sessions_only: false,
    },
    // The least that a relay can cost here (`bare.rs`), to compare the others with.
    Kind {
        name: "bare",
        program: "evenkeel-lab",
        config_name: "ports",
        config: |site| format!("{} {} {}\n", site.port, site.endpoints[0], site.endpoints[1]),
        arguments: |command, _, ports| and(command, &[bare::NAME, &ports.display().to_string()]),
        version_flag: "--version",
        forks: false,
        logs_to_socket: false,
        sessions_only: true,
    },
];

/// A proxy of this machine.
pub struct Proxy {
    /// Its name in the table.
    pub name: String,
    /// Its version, as it prints it.
    pub version: String,
    kind: &'static Kind,
    command: Vec<String>,
}

impl Proxy {
    /// The proxies with these names, or all that are installed, and `HAPROXY_BIN` beside Debian's HAProxy. `sessions`:
    /// to pass on sessions, not requests.
    ///
    /// # Errors
    /// If one is unknown or missing.
    pub fn find(names: &[String], sessions: bool, evenkeel: Option<&Path>) -> Result<Vec<Proxy>> {
        let known: Vec<&'static Kind> = KINDS.iter().filter(|kind| sessions || !kind.sessions_only).collect();
        let named = |name| {
            known.iter().find(|kind| kind.name == name).copied().ok_or_else(|| {
                let known: Vec<&str> = known.iter().map(|kind| kind.name).collect();
                Error::Wrong(format!("unknown proxy `{name}`; there are {}", known.join(", ")))
            })
        };
        let chosen = match names {
            [] => known.clone(),
            names => names.iter().map(|name| named(name.as_str())).collect::<Result<_>>()?,
        };
        let mut proxies = Vec::new();
        for kind in chosen {
            let command = match kind.program {
                "evenkeel" => child::find_evenkeel(evenkeel)?,
                "evenkeel-lab" => child::this()?,
                program => child::find(program)?,
            };
            proxies.push(Proxy::new(kind.name, kind, vec![command])?);
            if let (true, Ok(other)) = (kind.name == "haproxy", env::var("HAPROXY_BIN")) {
                let words: Vec<String> = other.split_ascii_whitespace().map(str::to_owned).collect();
                if !words.is_empty() {
                    proxies.push(Proxy::new("haproxy-other", kind, words)?);
                }
            }
        }
        Ok(proxies)
    }

    fn new(name: &str, kind: &'static Kind, command: Vec<String>) -> Result<Proxy> {
        let version = machine::version(&command, kind.version_flag)?;
        Ok(Proxy { name: name.to_owned(), version, kind, command })
    }

    /// Starts it on its core and checks that it passes the endpoints' answers on byte for byte.
    ///
    /// # Errors
    /// If it does not come up, or changes an answer.
    pub fn start(&self, endpoints: [u16; 2], setup: Setup, core: usize) -> Result<Running> {
        let folder = Scratch::new()?;
        let sink = (setup == Setup::Logged && self.kind.logs_to_socket).then(Sink::open).transpose()?;
        let log_port = sink.as_ref().map_or(0, |sink| sink.port);
        let site = Site { folder: folder.path(), port: origin::free_ports()?[0], endpoints, setup, log_port };
        let (port, log) = (site.port, site.log());
        let config = folder.write(self.kind.config_name, (self.kind.config)(&site))?;
        let said = folder.path().join("said");
        let command = (self.kind.arguments)(&self.command, folder.path(), &config);
        let process = Child::spawn(&self.name, &command, Some(core), &said)?;
        origin::await_listening(&self.name, &process, http::local(port), &said)?;
        origin::verify(port).map_err(|error| Error::Refused(format!("{}: {error}", self.name)))?;
        let pids = if self.kind.forks { procfs::children_of(process.pid()) } else { vec![process.pid()] };
        if pids.is_empty() {
            return Err(Error::Wrong(format!("{} has no worker:\n{}", self.name, child::last_words(&said))));
        }
        Ok(Running { port, pids, process, log, sink, folder })
    }
}

/// A proxy that listens, until dropped.
pub struct Running {
    /// Where.
    pub port: u16,
    /// The processes that carry requests.
    pub pids: Vec<u32>,
    process: Child,
    log: PathBuf,
    sink: Option<Sink>,
    folder: Scratch,
}

impl Running {
    /// Where it may write.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ends it, so that buffered lines are written, and returns the number of lines in its access log.
    pub fn stop_and_count_log(self) -> u64 {
        drop(self.process);
        match self.sink {
            Some(sink) => sink.close(),
            None => std::fs::read(&self.log).map_or(0, |log| log.iter().filter(|&&byte| byte == b'\n').count() as u64),
        }
    }
}

fn and(command: &[String], more: &[&str]) -> Vec<String> {
    command.iter().cloned().chain(more.iter().map(|&word| word.to_owned())).collect()
}

fn evenkeel(site: &Site) -> String {
    let log = match site.setup {
        Setup::Logged => {
            format!("[telemetry]\naccess_log = {{ path = \"{}\", format = \"json\" }}\n", site.log().display())
        }
        Setup::Plain | Setup::CloseUpstream | Setup::Session => String::new(),
    };
    if site.setup == Setup::Session {
        return evenkeel_sessions(site);
    }
    let idle = if site.setup == Setup::CloseUpstream { ", idle_per_endpoint = 0" } else { "" };
    let [first, second] = site.endpoints;
    format!(
        r#"version = 1
[runtime]
workers = 1
{log}[listener.web]
bind = ["127.0.0.1:{port}"]
[[route]]
match = {{ path = "/{{*rest}}" }}
pool = "app"
[pool.app]
balance = "random"
health = {{ tcp = {{}}, interval = "2s" }}
limits = {{ requests_per_endpoint = 10000{idle} }}
endpoints = [ {{ addr = "127.0.0.1:{first}" }}, {{ addr = "127.0.0.1:{second}" }} ]
"#,
        port = site.port,
    )
}

fn evenkeel_sessions(site: &Site) -> String {
    let [first, second] = site.endpoints;
    format!(
        r#"version = 1
[runtime]
workers = 1
[listener.web]
bind = ["127.0.0.1:{port}"]
mode = "tcp"
pool = "app"
[pool.app]
balance = "random"
health = {{ tcp = {{}}, interval = "2s" }}
limits = {{ requests_per_endpoint = 10000 }}
endpoints = [ {{ addr = "127.0.0.1:{first}" }}, {{ addr = "127.0.0.1:{second}" }} ]
"#,
        port = site.port,
    )
}

fn haproxy(site: &Site, splice: &str) -> String {
    if site.setup == Setup::Session {
        return haproxy_sessions(site, if splice.is_empty() { "" } else { "  option splice-response\n" });
    }
    // A ring sent over TCP is its cheapest log here, and loses no line: +3 us, against +8 over UDP, while a datagram
    // socket of the file system lost half of the lines.
    let (log, ring) = match site.setup {
        Setup::Logged => (
            "  log ring@lines len 1024 format rfc3164 local0 info\n  option httplog\n",
            format!(
                "ring lines
  format rfc3164
  maxlen 1200
  size 1048576
  timeout connect 5s
  timeout server 10s
  server lab 127.0.0.1:{} log-proto octet-count
",
                site.log_port
            ),
        ),
        Setup::Plain | Setup::CloseUpstream | Setup::Session => ("", String::new()),
    };
    let close = if site.setup == Setup::CloseUpstream { "option httpclose" } else { "http-reuse always" };
    let [first, second] = site.endpoints;
    // Checks and a limit, as evenkeel has them. The limit may need more files than the process gets, as it will not use
    // them all. The rest was measured to be its best here: defer-accept 56 -> 39 us where clients close;
    // splice-response 587 -> 423 us for 1 MB and 44 -> 35 for 64 kB (splice-auto: 519 and 48).
    format!(
        "global
  nbthread 1
  no strict-limits
  maxconn 12000
{ring}defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
{splice}  {close}
{log}frontend web
  bind 127.0.0.1:{port} backlog 4096 defer-accept
  default_backend app
backend app
  balance random
  server a 127.0.0.1:{first} check inter 2s maxconn 10000
  server b 127.0.0.1:{second} check inter 2s maxconn 10000
",
        port = site.port,
    )
}

fn haproxy_sessions(site: &Site, splice: &str) -> String {
    let [first, second] = site.endpoints;
    format!(
        "global
  nbthread 1
  no strict-limits
  maxconn 24000
defaults
  mode tcp
  timeout connect 5s
  timeout client 300s
  timeout server 300s
{splice}frontend web
  bind 127.0.0.1:{port} backlog 4096
  default_backend app
backend app
  balance random
  server a 127.0.0.1:{first} check inter 2s maxconn 10000
  server b 127.0.0.1:{second} check inter 2s maxconn 10000
",
        port = site.port,
    )
}

/// Where Debian's packages put NGINX's stream module.
const STREAM_MODULE: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";

fn nginx_sessions(site: &Site) -> String {
    let [first, second] = site.endpoints;
    format!(
        "load_module {STREAM_MODULE};
{process}stream {{
  access_log off;
  tcp_nodelay on;
  upstream app {{
    random two least_conn;
    server 127.0.0.1:{first};
    server 127.0.0.1:{second};
  }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    proxy_pass app;
    proxy_timeout 300s;
    proxy_buffer_size 32k;
  }}
}}
",
        process = origin::nginx_process(site.folder),
        port = site.port,
    )
}

fn nginx(site: &Site) -> String {
    if site.setup == Setup::Session {
        return nginx_sessions(site);
    }
    let log = match site.setup {
        Setup::Logged => format!("access_log {} combined buffer=64k", site.log().display()),
        Setup::Plain | Setup::CloseUpstream | Setup::Session => "access_log off".into(),
    };
    let (keep, connection) = match site.setup {
        Setup::CloseUpstream => ("", "close"),
        Setup::Plain | Setup::Logged | Setup::Session => ("keepalive 256; keepalive_requests 1000000000;", "\"\""),
    };
    let [first, second] = site.endpoints;
    // More buffers cost more here: 1 MB took 850 us through 32 of them and 430 through 8. Without a file to spill to, a
    // slow client slows the endpoint and spares the disk. `deferred`: 52 -> 41 us where clients close.
    format!(
        "{preamble}  {log};
  tcp_nodelay on;
  keepalive_timeout 3600s;
  keepalive_requests 1000000000;
  upstream app {{
    random two least_conn;
    server 127.0.0.1:{first};
    server 127.0.0.1:{second};
    {keep}
  }}
  server {{
    listen 127.0.0.1:{port} backlog=4096 deferred;
    location / {{
      proxy_pass http://app;
      proxy_http_version 1.1;
      proxy_set_header Connection {connection};
      proxy_buffers 8 32k;
      proxy_busy_buffers_size 64k;
      proxy_max_temp_file_size 0;
    }}
  }}
}}
",
        preamble = origin::nginx_preamble(site.folder),
        port = site.port,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setup_differs_in_each_configuration() {
        for kind in KINDS.iter().filter(|kind| !kind.sessions_only) {
            let text = |setup| {
                let folder = Path::new("somewhere");
                (kind.config)(&Site { folder, port: 1, endpoints: [2, 3], setup, log_port: 4 })
            };
            let texts = [text(Setup::Plain), text(Setup::CloseUpstream), text(Setup::Logged)];
            assert!(texts[0] != texts[1] && texts[0] != texts[2] && texts[1] != texts[2], "{}", kind.name);
            let log = if kind.logs_to_socket { "127.0.0.1:4 " } else { "access.log" };
            assert!(texts[2].contains(log), "{}", kind.name);
            assert!(
                texts.iter().all(|text| text.contains("127.0.0.1:2") && text.contains("127.0.0.1:3")),
                "{}",
                kind.name
            );
        }
    }
}
