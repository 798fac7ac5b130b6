//! How is HAProxy set up?

use super::kind::{Kind, Site};
use crate::experiments::protocol_cost::case::{Back, Front};

pub const KIND: Kind = Kind {
    name: "haproxy",
    config_name: "haproxy.cfg",
    config,
    // -db: in the foreground, without a master.
    arguments: |program, _, config| vec![program, "-db".into(), "-f".into(), config.display().to_string()],
    version_flag: "-v",
    forks: false,
    cannot: |_| None,
};

fn config(site: &Site) -> String {
    let alpn = match site.front {
        Front::Https(_) => "http/1.1",
        Front::H2(_) | Front::H2c => "h2,http/1.1",
    };
    let front = match site.certificate {
        None => "proto h2".to_owned(),
        Some(files) => format!("ssl crt {} alpn {alpn}", files.both.display()),
    };
    let back = match site.back {
        Back::Http1 => "",
        Back::H2c | Back::Grpc => " proto h2",
    };
    let [first, second] = site.endpoints;
    // Sessions resume by tickets, on by default. Without its cache of sessions (`tune.ssl.cachesize 0`) handshakes cost the
    // same, measured.
    format!(
        "global
  nbthread 1
  no strict-limits
  maxconn 12000
  tune.h2.max-concurrent-streams 256
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  http-reuse always
frontend web
  bind 127.0.0.1:{port} backlog 4096 defer-accept {front}
  default_backend app
backend app
  balance random
  default-server check inter 2s maxconn 10000 pool-purge-delay 60s{back}
  server a 127.0.0.1:{first}
  server b 127.0.0.1:{second}
",
        port = site.port,
    )
}
