//! How is HAProxy set up to live with broken endpoints?

use super::kind::{Kind, Mixed, Reload, Site, newest_worker};
use crate::error::{Error, Result};
use crate::http;
use rustix::process::Signal;

pub const KIND: Kind = Kind {
    name: "haproxy",
    config_name: "haproxy.cfg",
    config,
    more: |_| Vec::new(),
    // Master and worker, as its service runs it; without -D it stays in the foreground.
    arguments: |_, config| vec!["-W".into(), "-f".into(), config.display().to_string()],
    version_flag: "-v",
    reload: Reload::Signal(Signal::USR2),
    // Each reload replaces the process.
    upgrades: false,
    generation: newest_worker,
    settings: "balance random(2); checks of /health each 500 ms with 300 ms of patience, fall 2 rise 2; observe layer7 with \
error-limit 3 on-error mark-down, so that what requests see counts too; 3 retries, the default, with option redispatch 1, \
so that each goes elsewhere and not only the last; retry-on conn-failure empty-response response-timeout 503, without \
layer-7 retries of POST, which would do things twice, and so of gRPC, whose status it does not look at; timeout server 1s; slowstart 3s.",
    retries,
};

/// Of a backend.
const SETTINGS: &str = "  balance random(2)
  http-request disable-l7-retry if METH_POST
  option httpchk GET /health
  default-server check inter 500ms fall 2 rise 2 slowstart 3s observe layer7 error-limit 3 on-error mark-down
";

fn config(site: &Site) -> String {
    let servers = site.each(|number, address| format!("  server e{number} {address}\n"));
    let (binds, grpc) = site.mixed.map_or_else(Default::default, |mixed| self::mixed(site, mixed));
    format!(
        "global
  nbthread 1
  maxconn 9000
defaults
  mode http
  timeout connect 500ms
  timeout client 60s
  timeout server 1s
  timeout tunnel 1h
  timeout check 300ms
  http-reuse always
  retries 3
  option redispatch 1
  retry-on conn-failure empty-response response-timeout 503
frontend web
  bind 127.0.0.1:{port} backlog 4096
{binds}  use_backend spare if {{ hdr(host) spare.test }}
  default_backend app
backend app
{SETTINGS}{servers}backend spare
  server only {spare} weight {weight}
frontend admin
  bind 127.0.0.1:{admin}
  stats enable
  stats uri /stats
{grpc}",
        port = site.port,
        admin = site.admin_port,
        spare = site.endpoints[0],
        weight = site.weight,
    )
}

/// What its frontend has more, and the backend for that.
fn mixed(site: &Site, mixed: &Mixed) -> (String, String) {
    let Mixed { h2c_port, tls_port, both, .. } = mixed;
    let binds = format!(
        "  bind 127.0.0.1:{h2c_port} backlog 4096 proto h2
  bind 127.0.0.1:{tls_port} backlog 4096 ssl crt {} alpn h2,http/1.1
  use_backend grpc if {{ path_beg /lab.Echo/ }}
",
        both.display()
    );
    let servers = site.each(|number, address| format!("  server e{number} {address} proto h2\n"));
    (binds, format!("backend grpc\n{SETTINGS}{servers}"))
}

fn retries(site: &Site) -> Result<u64> {
    // Its statistics carry no length over HTTP/1.0, so they are read to the end of the connection.
    let text = http::read_all(&mut http::connect(site.admin_port)?, "/stats;csv")?;
    parse(&text).ok_or_else(|| Error::Wrong(format!("HAProxy told unknown statistics:\n{text}")))
}

/// The column `wretr` of the rows `app,BACKEND` and `grpc,BACKEND`.
fn parse(text: &str) -> Option<u64> {
    let header = text.lines().find_map(|line| line.strip_prefix("# "))?;
    let column = header.split(',').position(|name| name == "wretr")?;
    let is_ours = |line: &&str| ["app,BACKEND,", "grpc,BACKEND,"].iter().any(|begin| line.starts_with(begin));
    let rows = text.lines().filter(is_ours);
    let values = rows.map(|row| row.split(',').nth(column)?.parse::<u64>().ok());
    values.reduce(|one, other| Some(one? + other?)).flatten()
}

#[cfg(test)]
mod tests {
    #[test]
    fn retries_are_those_of_both_backends() {
        let text = "HTTP/1.0 200 OK\r\n\r\n# pxname,svname,econ,wretr,wredis,\napp,e0,0,3,1,\napp,BACKEND,0,7,2,\ngrpc,BACKEND,0,1,2,\n";
        assert_eq!(super::parse(text), Some(8));
        assert_eq!(super::parse("HTTP/1.0 503 Service Unavailable\r\n\r\n"), None);
    }
}
