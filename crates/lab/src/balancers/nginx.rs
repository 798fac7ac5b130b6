//! How is NGINX set up to live with broken endpoints?

use super::kind::{Kind, Mixed, Reload, Site, newest_worker};
use crate::error::{Result, While};
use crate::origin;
use rustix::process::Signal;
use std::fs;

pub const KIND: Kind = Kind {
    name: "nginx",
    config_name: "nginx.conf",
    config,
    more: |_| Vec::new(),
    arguments: |folder, config| origin::nginx_command(String::new(), folder, config).split_off(1),
    version_flag: "-v",
    reload: Reload::Signal(Signal::HUP),
    // NGINX can, but ignores the signal in the foreground, where the lab runs it.
    upgrades: false,
    generation: newest_worker,
    settings: "random two least_conn; no active checks, as the open version has none; max_fails=3 fail_timeout=5s; \
proxy_next_upstream error timeout http_503 with 3 tries, which never sends a POST twice once it has left; \
proxy_connect_timeout 500ms, proxy_read_timeout 1s; no slow start, as the open version has none; the same of gRPC, whose status it does not look at. Its one worker keeps its \
view of endpoints to itself, so more of them would each have to learn.",
    retries,
};

fn config(site: &Site) -> String {
    let servers = servers(site);
    let preamble = origin::nginx_preamble(site.folder);
    let (listens, upstream, location) = site.mixed.map_or_else(Default::default, |mixed| self::mixed(site, mixed));
    format!(
        "{preamble}  log_format tries '$upstream_addr';
  access_log {log} tries;
  keepalive_timeout 60s;
  keepalive_requests 1000000000;
  client_max_body_size 64m;
  map $http_upgrade $connection_for {{
    default upgrade;
    '' '';
  }}
  upstream app {{
    random two least_conn;
{servers}    keepalive 256;
    keepalive_requests 1000000000;
  }}
  upstream spare {{
    server {spare} weight={weight};
  }}
{upstream}  proxy_http_version 1.1;
  proxy_set_header Connection $connection_for;
  proxy_set_header Upgrade $http_upgrade;
  proxy_connect_timeout 500ms;
  proxy_read_timeout 1s;
  proxy_next_upstream error timeout http_503;
  proxy_next_upstream_tries 3;
  server {{
    listen 127.0.0.1:{port} backlog=4096;
{listens}    location / {{ proxy_pass http://app; }}
    location /echo {{
      proxy_pass http://app;
      proxy_read_timeout 1h;
    }}
{location}  }}
  server {{
    listen 127.0.0.1:{port};
    server_name spare.test;
    location / {{ proxy_pass http://spare; }}
  }}
}}
",
        log = site.file(LOG).display(),
        port = site.port,
        spare = site.endpoints[0],
        weight = site.weight,
    )
}

fn servers(site: &Site) -> String {
    site.each(|_, address| format!("    server {address} max_fails=3 fail_timeout=5s;\n"))
}

/// What its server listens on more, the endpoints of gRPC, and where they are asked.
fn mixed(site: &Site, mixed: &Mixed) -> (String, String, String) {
    let Mixed { h2c_port, tls_port, certificate, key, .. } = mixed;
    let listens = format!(
        "    listen 127.0.0.1:{h2c_port} http2 backlog=4096;
    listen 127.0.0.1:{tls_port} ssl http2 backlog=4096;
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_certificate {};
    ssl_certificate_key {};
",
        certificate.display(),
        key.display()
    );
    let upstream = format!(
        "  upstream grpc {{
    random two least_conn;
{}    keepalive 256;
    keepalive_requests 1000000000;
  }}
",
        servers(site)
    );
    // A request may have no end for as long as its stream lasts.
    let location = "    location /lab.Echo/ {
      grpc_pass grpc://grpc;
      grpc_connect_timeout 500ms;
      grpc_read_timeout 1s;
      grpc_next_upstream error timeout http_503;
      grpc_next_upstream_tries 3;
    }
    location /lab.Echo/Stream {
      grpc_pass grpc://grpc;
      client_body_timeout 1h;
      grpc_read_timeout 1h;
      grpc_send_timeout 1h;
    }
";
    (listens, upstream, location.to_owned())
}

const LOG: &str = "tries.log";

fn retries(site: &Site) -> Result<u64> {
    let log = site.file(LOG);
    Ok(parse(&fs::read_to_string(&log).or_say(|| format!("cannot read {}", log.display()))?))
}

/// Counts retries from the log, as NGINX counts none: it logs every endpoint that a request was sent to: `a, b` is one.
fn parse(log: &str) -> u64 {
    log.matches(", ").count() as u64
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_further_address_is_a_retry() {
        assert_eq!(super::parse("127.0.0.1:1\n127.0.0.1:1, 127.0.0.1:2\n127.0.0.1:1, 127.0.0.1:2, 127.0.0.1:3\n"), 3);
    }
}
