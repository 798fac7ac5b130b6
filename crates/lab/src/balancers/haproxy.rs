//! Setup as an HAProxy configuration, with and without splicing, which helps with large bodies and costs a little with
//! small bodies.

use super::kind::{Cannot, Kind, Reload, Site, Text, Written, newest_worker, time};
use super::maps;
use super::setup::{Algorithm, Back, Care, Front, Keys, Lasts, Listener, Pool, Reuse};
use crate::error::{Error, Result};
use crate::http;
use rustix::process::Signal;
use std::time::Duration;

pub const KIND: Kind = Kind {
    name: "haproxy",
    program: "haproxy",
    version_flag: "-v",
    files: |site| files(site, ""),
    // In the foreground: with master and worker, as its service runs it, or without a master.
    arguments: |site, config| [if site.setup.reloads { "-W" } else { "-db" }, "-f", config].map(str::to_owned).to_vec(),
    forks: false,
    logs_to_socket: true,
    reload: Reload::Signal(Signal::USR2),
    // Each reload replaces the process.
    upgrades: false,
    generation: newest_worker,
    retries,
    settings: "balance random(2); checks of /health each 500 ms with 300 ms of patience, fall 2 rise 2; observe layer7 with \
error-limit 3 on-error mark-down, so that what requests see counts too; 3 retries, the default, with option redispatch 1, \
so that each goes elsewhere and not only the last; retry-on conn-failure empty-response response-timeout 503, without \
layer-7 retries of POST, which would do things twice, and so of gRPC, whose status it does not look at; timeout server 1s; slowstart 3s.",
};

pub const SPLICING: Kind = Kind {
    name: "haproxy-splice",
    files: |site| match site.setup.listeners.iter().all(|of| matches!(of.front, Front::Http1 | Front::Tcp)) {
        true => files(site, "  option splice-response\n"),
        false => Err(Cannot("only bytes that it need not change can be spliced")),
    },
    ..KIND
};

/// Lines of a backend that handles broken endpoints.
const FULL: &str = "  timeout check 300ms
  timeout tunnel 1h
  retries 3
  option redispatch 1
  retry-on conn-failure empty-response response-timeout 503
  http-request disable-l7-retry if METH_POST
  option httpchk GET /health
";

fn files(site: &Site, splice: &str) -> Written {
    let keys = maps::of(site.setup);
    let rows = keys.into_iter().flat_map(|keys| maps::files(keys, |key, value| format!("{key} {value}\n")));
    Ok([("haproxy.cfg", config(site, splice)?)].into_iter().chain(rows).collect())
}

fn config(site: &Site, splice: &str) -> Text {
    let (setup, times) = (site.setup, &site.setup.timeouts);
    let is = |front: Front| setup.listeners.iter().any(|listener| listener.front == front);
    let mode = if is(Front::Tcp) { "tcp" } else { "http" };
    let idle = time(times.idle);
    let mut streams = String::new();
    if setup.reuse == Reuse::Many {
        streams += "  tune.h2.max-concurrent-streams 256\n";
    }
    if is(Front::H3) {
        streams +=
            &format!("  tune.quic.frontend.max-streams-bidi 256\n  tune.quic.frontend.max-idle-timeout {idle}\n");
    }
    let (log, ring) = logging(site);
    // HAProxy has no defaults for these timeouts.
    let usual = if is(Front::Tcp) || is(Front::H3) { times.idle } else { Duration::from_secs(60) };
    let server = times.response.unwrap_or(usual);
    let connect = times.connect.or(times.response).unwrap_or(Duration::from_secs(5));
    let reuse = match setup.reuse {
        _ if is(Front::Tcp) => "",
        Reuse::Usual => "",
        Reuse::Always | Reuse::Many => "  http-reuse always\n",
        Reuse::Never => "  option httpclose\n",
    };
    // `no strict-limits`: maxconn may need more files than the process gets, as not all are used. Measured to be
    // fastest under the loads of `protocol_cost`: defer-accept 56 -> 39 us where clients close; splice-response 587 ->
    // 423 us for 1 MB and 44 -> 35 for 64 kB (splice-auto: 519 and 48). TLS sessions resume by tickets, on by default.
    // Without its session cache (`tune.ssl.cachesize 0`) handshakes cost the same.
    let mut text = format!(
        "global\n  nbthread {}\n  no strict-limits\n  maxconn {}\n{streams}{ring}defaults\n  mode {mode}\n  timeout connect {}\n  \
         timeout client {}\n  timeout server {}\n{splice}{reuse}{log}{}",
        setup.workers,
        setup.connections,
        time(connect),
        time(times.client.unwrap_or(usual.min(times.idle))),
        time(server),
        setup.published
    );
    if setup.routes.iter().any(|route| route.cached) {
        text += "cache stored\n  total-max-size 64\n  max-object-size 4000000\n  max-age 3600\n";
    }
    for listeners in site.fronts() {
        text += &frontend(site, listeners)?;
    }
    for pool in &setup.pools {
        text += &backend(pool, setup.reuse)?;
    }
    if let Some(port) = setup.admin {
        text += &format!("frontend admin\n  bind 127.0.0.1:{port}\n  stats enable\n  stats uri /stats\n");
    }
    Ok(text)
}

/// Access log through a ring over TCP: the cheapest way without losses (+3 us per request; +8 over UDP; a Unix datagram
/// socket lost half of the lines).
fn logging(site: &Site) -> (&'static str, String) {
    if !site.setup.logs {
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

fn frontend(site: &Site, listeners: &[Listener]) -> Text {
    let mut text = format!("frontend {}\n", listeners[0].name);
    for Listener { bind, front, .. } in listeners {
        let defer = if site.setup.tuned && *front != Front::Tcp { " defer-accept" } else { "" };
        let front = match front {
            Front::Http1 | Front::Tcp => String::new(),
            Front::H2c => " proto h2".to_owned(),
            Front::Https => format!(" ssl crt {} alpn http/1.1", site.certificate()?.both.display()),
            Front::H2 => format!(" ssl crt {} alpn h2,http/1.1", site.certificate()?.both.display()),
            Front::H3 => {
                let both = site.certificate()?.both.display();
                text += &format!("  bind quic4@{bind} ssl crt {both} alpn h3\n");
                format!(" ssl crt {both} alpn http/1.1")
            }
            Front::Udp => return Err(Cannot("it passes on no datagrams")),
            Front::Dns(_) => return Err(Cannot("it answers no queries")),
            Front::Kernel(_) => return Err(Cannot("it has no plane in the kernel")),
        };
        text += &format!("  bind {bind} backlog 4096{defer}{front}\n");
    }
    if let Some(pool) = listeners[0].pool {
        return Ok(text + &format!("  default_backend {pool}\n"));
    }
    if site.setup.routes.iter().any(|route| route.cached) {
        text += "  http-request cache-use stored\n  http-response cache-store stored\n";
    }
    if let Some(keys) = maps::of(site.setup) {
        let find = match keys {
            Keys::Exact => "map_str",
            Keys::Prefix => "map_beg",
            Keys::Expression => "map_reg",
        };
        text += &maps::lines(|map, file| {
            format!("  http-request set-header X-M{map} %[query,{find}({})]", site.file(file).display())
        });
    }
    // `timeout tunnel` covers upgraded streams; there are no other timeouts per route.
    for route in site.setup.routes.iter().filter(|route| route.lasts == Lasts::Usual) {
        text += &match (route.host, route.path) {
            (None, path) if route.ruled => rules(path, route.pool),
            (None, "/") => format!("  default_backend {}\n", route.pool),
            (None, path) => format!("  use_backend {} if {{ path_beg {path} }}\n", route.pool),
            (Some(host), _) => format!("  use_backend {} if {{ hdr(host) {host} }}\n", route.pool),
        };
    }
    Ok(text)
}

/// Rules of a [ruled route](super::setup::Route::ruled). The prefix is stripped by its length, which costs less than
/// the regular expression of `replace-path`.
fn rules(path: &str, pool: &str) -> String {
    let length = path.len();
    format!(
        "  stick-table type ip size 100k expire 10s store http_req_rate(1s)
  http-request deny deny_status 403 unless {{ src 127.0.0.0/8 }}
  http-request track-sc0 src
  http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 1000000 }}
  http-request deny deny_status 413 if {{ req.hdr_val(content-length) gt 1000000 }}
  http-request set-path %[path,bytes({length})] if {{ path_beg {path}/ }}
  http-request set-header Host app.internal
  http-request set-header X-Client %[src]
  http-request del-header X-Debug
  http-response set-header X-Content-Type-Options nosniff
  http-response del-header ETag
  http-response replace-header Set-Cookie (.*) \"\\1; Secure; HttpOnly\"
  default_backend {pool}
"
    )
}

fn backend(pool: &Pool, reuse: Reuse) -> Text {
    let balance = match pool.algorithm {
        Algorithm::Usual => "",
        Algorithm::RoundRobin => "  balance roundrobin\n",
        Algorithm::LeastConn => "  balance leastconn\n",
        Algorithm::Random => "  balance random(2)\n",
        Algorithm::OneDraw => "  balance random(1)\n",
        Algorithm::PeakEwma => return Err(Cannot("it has no Peak EWMA")),
        Algorithm::Prequal => return Err(Cannot("it has no Prequal")),
    };
    let (care, servers) = match pool.care {
        Care::Usual => ("", ""),
        Care::None => ("  retries 0\n", ""),
        // Checks and a limit like evenkeel's.
        Care::Checked => ("", " check inter 2s maxconn 10000"),
        Care::Full => {
            (FULL, " check inter 500ms fall 2 rise 2 slowstart 3s observe layer7 error-limit 3 on-error mark-down")
        }
    };
    let purge = if reuse == Reuse::Many { " pool-purge-delay 60s" } else { "" };
    let back = if pool.back == Back::Http1 { "" } else { " proto h2" };
    let weight = pool.weight.map_or_else(String::new, |weight| format!(" weight {weight}"));
    let mut text = format!("backend {}\n{balance}{care}", pool.name);
    for (number, address) in pool.endpoints.iter().enumerate() {
        text += &format!("  server e{number} {address}{servers}{purge}{back}{weight}\n");
    }
    Ok(text)
}

fn retries(site: &Site) -> Result<u64> {
    // Its statistics over HTTP/1.0 have no length, so read to the end of the connection.
    let text = http::read_all(&mut http::connect(site.admin()?)?, "/stats;csv")?;
    parse(&text).ok_or_else(|| Error::Wrong(format!("HAProxy returned unknown statistics:\n{text}")))
}

/// Sum of the column `wretr` over the rows `app,BACKEND` and `grpc,BACKEND`.
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
