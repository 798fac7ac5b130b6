//! How is HAProxy set up? With and without splicing, which helps it with large bodies and costs it a little with small ones.

use super::kind::{Kind, Site, and};
use crate::experiments::protocol_cost::cases::{Back, Front, Setup};

pub const KIND: Kind = Kind {
    name: "haproxy",
    program: "haproxy",
    config_name: "haproxy.cfg",
    config: |site| config(site, ""),
    // -db: in the foreground, without a master.
    arguments: |command, _, config| and(command, &["-db", "-f", &config.display().to_string()]),
    version_flag: "-v",
    forks: false,
    logs_to_socket: true,
    cannot: |_, _| None,
};

pub const SPLICING: Kind = Kind {
    name: "haproxy-splice",
    config: |site| config(site, "  option splice-response\n"),
    cannot: |front, _| match front {
        Front::Http1(_) | Front::Tcp => None,
        Front::H2c | Front::H2(_) | Front::Https(_) => Some("only bytes that it need not change can be spliced"),
    },
    ..KIND
};

fn config(site: &Site, splice: &str) -> String {
    let [first, second] = site.endpoints;
    if site.front == Front::Tcp {
        return sessions(site, splice);
    }
    let (log, ring) = logging(site);
    let reuse = if site.front.setup() == Setup::CloseUpstream { "option httpclose" } else { "http-reuse always" };
    let (front, streams, purge) = match (site.front, site.certificate) {
        (Front::Http1(_) | Front::Tcp, _) => (String::new(), "", ""),
        (front, Some(files)) => {
            let alpn = if matches!(front, Front::Https(_)) { "http/1.1" } else { "h2,http/1.1" };
            (format!(" ssl crt {} alpn {alpn}", files.both.display()), H2_STREAMS, PURGE)
        }
        (_, None) => (" proto h2".to_owned(), H2_STREAMS, PURGE),
    };
    let back = match site.back {
        Back::Http1 => "",
        Back::H2c | Back::Grpc => " proto h2",
    };
    // Checks and a limit, as evenkeel has them. The limit may need more files than the process gets, as it will not use
    // them all. The rest was measured to be its best here: defer-accept 56 -> 39 us where clients close;
    // splice-response 587 -> 423 us for 1 MB and 44 -> 35 for 64 kB (splice-auto: 519 and 48). Sessions of TLS resume by
    // tickets, on by default. Without its cache of sessions (`tune.ssl.cachesize 0`) handshakes cost the same.
    format!(
        "global
  nbthread 1
  no strict-limits
  maxconn 12000
{streams}{ring}defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
{splice}  {reuse}
{log}frontend web
  bind 127.0.0.1:{port} backlog 4096 defer-accept{front}
  default_backend app
backend app
  balance random
  default-server check inter 2s maxconn 10000{purge}{back}
  server a 127.0.0.1:{first}
  server b 127.0.0.1:{second}
",
        port = site.port,
    )
}

const H2_STREAMS: &str = "  tune.h2.max-concurrent-streams 256\n";
const PURGE: &str = " pool-purge-delay 60s";

/// A ring sent over TCP is its cheapest log here, and loses no line: +3 us, against +8 over UDP, while a datagram socket of the file
/// system lost half of the lines.
fn logging(site: &Site) -> (&'static str, String) {
    if site.front.setup() != Setup::Logged {
        return ("", String::new());
    }
    let ring = format!(
        "ring lines
  format rfc3164
  maxlen 1200
  size 1048576
  timeout connect 5s
  timeout server 10s
  server lab 127.0.0.1:{} log-proto octet-count
",
        site.log_port
    );
    ("  log ring@lines len 1024 format rfc3164 local0 info\n  option httplog\n", ring)
}

fn sessions(site: &Site, splice: &str) -> String {
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
