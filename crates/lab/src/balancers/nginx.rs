//! Setup as an NGINX configuration.

use super::kind::{Able, Cannot, Kind, Reload, Site, Text, Written, newest_worker, time};
use super::maps;
use super::setup::{Algorithm, Back, Care, Front, Keys, Lasts, Listener, Pool, Reuse, Route};
use crate::error::{Result, While};
use crate::origin;
use rustix::process::Signal;
use std::fs;

pub const KIND: Kind = Kind {
    name: "nginx",
    program: "nginx",
    version_flag: "-v",
    files: |site| files(site, false),
    arguments: |site, config| origin::nginx_arguments(site.folder, config),
    forks: true,
    logs_to_socket: false,
    reload: Reload::Signal(Signal::HUP),
    // NGINX can, but ignores the signal when it runs in the foreground, as it does here.
    upgrades: false,
    generation: newest_worker,
    retries,
    settings: "random two least_conn; no active checks, as the open version has none; max_fails=3 fail_timeout=5s; \
proxy_next_upstream error timeout http_503 with 3 tries, which never sends a POST twice once it has left; \
proxy_connect_timeout 500ms, proxy_read_timeout 1s; no slow start, as the open version has none; the same of gRPC, whose status it does not look at. Its one worker keeps its \
view of endpoints to itself, so more of them would each have to learn.",
};

/// NGINX that sends datagrams of QUIC by segmentation offload, which it does not by default.
pub const OFFLOADING: Kind = Kind {
    name: "nginx-gso",
    files: |site| match site.setup.listeners.iter().all(|of| of.front == Front::H3) {
        true => files(site, true),
        false => Err(Cannot("only datagrams of HTTP/3 are offloaded")),
    },
    ..KIND
};

/// Path of NGINX's stream module in Debian.
pub const STREAM_MODULE: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";

/// Its maps have no prefixes, so these are expressions.
fn files(site: &Site, gso: bool) -> Written {
    let line = |keys: Keys| {
        move |key: &str, value: &str| match keys {
            Keys::Exact => format!("{key} {value};\n"),
            Keys::Prefix => format!("~^{key} {value};\n"),
            Keys::Expression => format!("~{key} {value};\n"),
        }
    };
    let rows = maps::of(site.setup).into_iter().flat_map(|keys| maps::files(keys, line(keys)));
    Ok([("nginx.conf", config(site, gso)?)].into_iter().chain(rows).collect())
}

fn config(site: &Site, gso: bool) -> Text {
    let setup = site.setup;
    let process = origin::nginx_process(site.folder, setup.workers);
    let upstreams = setup.pools.iter().map(|pool| upstream(site, pool)).collect::<Able<String>>()?;
    if setup.listeners.iter().any(|listener| matches!(listener.front, Front::Tcp | Front::Udp)) {
        let servers: String = setup.listeners.iter().map(|listener| sessions(site, listener)).collect();
        return Ok(format!(
            "load_module {STREAM_MODULE};\n{process}stream {{\n  access_log off;\n{upstreams}{servers}}}\n"
        ));
    }
    let servers = site.fronts().map(|of| server(site, of, gso)).collect::<Able<String>>()?;
    // Frames of 16 kB instead of 8 kB cost the same or slightly less under the loads of `protocol_cost`.
    let mut streams = "  http2_max_concurrent_streams 256;\n  http2_chunk_size 16k;\n".to_string();
    // A version without HTTP/3 does not know it.
    if setup.listeners.iter().any(|listener| listener.front == Front::H3) {
        streams += "  http3_max_concurrent_streams 256;\n";
    }
    // It has to come before `http`.
    let compiled = if maps::of(setup).is_some() { "pcre_jit on;\n" } else { "" };
    Ok(format!(
        "{process}{compiled}http {{\n{}{}{}{}{}  keepalive_timeout {};\n  keepalive_requests 1000000000;\n{}{}{}{upstreams}{servers}}}\n",
        origin::nginx_folders(site.folder),
        log(site),
        if setup.reuse == Reuse::Many { &streams } else { "" },
        if setup.routes.iter().any(|route| route.ruled) { CLIENTS } else { "" },
        if setup.routes.iter().any(|route| route.cached) { stored(site) } else { String::new() },
        time(setup.timeouts.idle),
        if has(site, Lasts::Long) { "  client_max_body_size 64m;\n" } else { "" },
        if has(site, Lasts::Endless) { UPGRADES } else { "" },
        if maps::of(setup).is_some() { maps(site) } else { String::new() },
    ))
}

fn maps(site: &Site) -> String {
    let maps =
        maps::lines(|map, file| format!("  map $args $m{map} {{\n    include {};\n  }}", site.file(file).display()));
    format!("  map_hash_max_size 65536;\n  map_hash_bucket_size 128;\n{maps}")
}

const CLIENTS: &str = "  limit_req_zone $binary_remote_addr zone=clients:10m rate=1000000r/s;\n";

/// Its cache. Hits are sent from files that stay open, with sendfile. Without `tcp_nopush`, with which the end of 64 kB
/// waits for an ACK: 11 us instead of 50.
fn stored(site: &Site) -> String {
    format!(
        "  sendfile on;\n  open_file_cache max=1000 inactive=1h;\n  \
         proxy_cache_path {} keys_zone=stored:16m max_size=1g inactive=1h use_temp_path=off;\n",
        site.file("cache").display()
    )
}

/// Rules of a [ruled route](super::setup::Route::ruled) but for the prefix.
const RULES: &str = "allow 127.0.0.0/8;
      deny all;
      limit_req zone=clients burst=100000 nodelay;
      client_max_body_size 1000000;
      proxy_set_header Host app.internal;
      proxy_set_header X-Client $remote_addr;
      proxy_set_header X-Debug \"\";
      add_header X-Content-Type-Options nosniff always;
      proxy_hide_header ETag;
      proxy_cookie_flags ~ secure httponly";

const UPGRADES: &str = "  map $http_upgrade $connection_for {\n    default upgrade;\n    '' '';\n  }\n";

/// True if any route has requests of this length.
fn has(site: &Site, lasts: Lasts) -> bool {
    site.setup.routes.iter().any(|route| route.lasts == lasts)
}

/// Access log. NGINX does not count retries, so if they are needed it logs the endpoints of each request.
fn log(site: &Site) -> String {
    let file = site.log();
    match site.setup {
        setup if setup.admin.is_some() => {
            format!("  log_format tries '$upstream_addr';\n  access_log {} tries;\n", file.display())
        }
        setup if setup.logs => format!("  access_log {} combined buffer=64k;\n", file.display()),
        _ => "  access_log off;\n".to_owned(),
    }
}

fn upstream(site: &Site, pool: &Pool) -> Text {
    let is_http = !site.setup.listeners.iter().any(|listener| matches!(listener.front, Front::Tcp | Front::Udp));
    let balance = match pool.algorithm {
        Algorithm::Usual | Algorithm::RoundRobin => "",
        Algorithm::LeastConn => "    least_conn;\n",
        Algorithm::Random => "    random two least_conn;\n",
        Algorithm::OneDraw => "    random;\n",
        Algorithm::PeakEwma => return Err(Cannot("it has no Peak EWMA")),
        Algorithm::Prequal => return Err(Cannot("it has no Prequal")),
    };
    // Each worker balances by itself, unless a zone shares state.
    let zone = if site.setup.workers > 1 { format!("    zone {} 1m;\n", pool.name) } else { String::new() };
    let care = match pool.care {
        Care::Usual | Care::Checked => "",
        Care::None => " max_fails=0",
        Care::Full => " max_fails=3 fail_timeout=5s",
    };
    let weight = pool.weight.map_or_else(String::new, |weight| format!(" weight={weight}"));
    let servers = pool.endpoints.iter().map(|address| format!("    server {address}{weight}{care};\n"));
    let keep = match site.setup.reuse {
        Reuse::Always if is_http => "    keepalive 256;\n    keepalive_requests 1000000000;\n",
        Reuse::Many if is_http => "    keepalive 1024;\n    keepalive_requests 1000000000;\n",
        _ => "",
    };
    Ok(format!("  upstream {} {{\n{zone}{balance}{}{keep}  }}\n", pool.name, servers.collect::<String>()))
}

fn sessions(site: &Site, Listener { bind, front, pool, .. }: &Listener) -> String {
    let how = if *front == Front::Udp { "udp" } else { "backlog=4096" };
    let buffer = if site.setup.tuned { "    proxy_buffer_size 32k;\n" } else { "" };
    let (pool, idle) = (pool.unwrap_or_default(), time(site.setup.timeouts.idle));
    format!("  server {{\n    listen {bind} {how};\n    proxy_pass {pool};\n    proxy_timeout {idle};\n{buffer}  }}\n")
}

/// Server blocks of listeners: a block for all hosts, then a block per host with a route.
fn server(site: &Site, listeners: &[Listener], gso: bool) -> Text {
    let whole = listeners[0].pool.map(|pool| Route::new("/", pool));
    let routes: Vec<&Route> = site.setup.routes.iter().filter(|_| whole.is_none()).chain(&whole).collect();
    let (deferred, mut listens, mut again) =
        (if site.setup.tuned { " deferred" } else { "" }, String::new(), String::new());
    for Listener { bind, front, .. } in listeners {
        let protocol = match front {
            Front::Http1 | Front::Tcp | Front::Udp => "",
            Front::H2c => " http2",
            Front::Https => " ssl",
            Front::H2 => " ssl http2",
            Front::H3 => {
                let gso = if gso { "    quic_gso on;\n" } else { "" };
                listens += &format!("    listen {bind} quic;\n{gso}");
                " ssl"
            }
            Front::Dns(_) => return Err(Cannot("it answers no queries")),
            Front::Kernel(_) => return Err(Cannot("it has no plane in the kernel")),
        };
        listens += &format!("    listen {bind}{protocol} backlog=4096{deferred};\n");
        again += &format!("    listen {bind}{protocol};\n");
    }
    let tls = if listeners.iter().any(|listener| listener.front.is_tls()) { tls(site)? } else { String::new() };
    let one = |listens: &str, host: Option<&str>| {
        let locations = routes.iter().filter(|route| route.host == host).map(|route| location(site, route));
        let name = host.map_or_else(String::new, |host| format!("    server_name {host};\n"));
        Ok(format!("  server {{\n{listens}{name}{tls}{}  }}\n", locations.collect::<Able<String>>()?))
    };
    let named = routes.iter().filter_map(|route| route.host).map(|host| one(&again, Some(host)));
    std::iter::once(one(&listens, None)).chain(named).collect()
}

/// TLS settings. Sessions resume by tickets, on by default; a session cache would only add cost.
fn tls(site: &Site) -> Text {
    let files = site.certificate()?;
    let (certificate, key) = (files.certificate.display(), files.key.display());
    Ok(format!(
        "    ssl_protocols TLSv1.2 TLSv1.3;\n    ssl_certificate {certificate};\n    ssl_certificate_key {key};\n"
    ))
}

fn location(site: &Site, route: &Route) -> Text {
    let (setup, pool) = (site.setup, site.pool(route.pool)?);
    if route.lasts == Lasts::Long {
        // NGINX buffers an upload before it connects to an endpoint.
        return Ok(String::new());
    }
    let connection = match setup.reuse {
        _ if has(site, Lasts::Endless) => "$connection_for;\n      proxy_set_header Upgrade $http_upgrade",
        Reuse::Never => "close",
        _ => "\"\"",
    };
    let mut lines = match pool.back {
        Back::H2c => return Err(Cannot("it speaks HTTP/2 to endpoints of gRPC only")),
        Back::Grpc => vec![format!("grpc_pass grpc://{}", pool.name)],
        Back::Http1 => vec![
            format!("proxy_pass http://{}{}", pool.name, if route.ruled { "/" } else { "" }),
            "proxy_http_version 1.1".to_owned(),
            format!("proxy_set_header Connection {connection}"),
        ],
    };
    let what = if pool.back == Back::Grpc { "grpc" } else { "proxy" };
    lines.extend(setup.timeouts.connect.map(|of| format!("{what}_connect_timeout {}", time(of))));
    lines.extend(match route.lasts {
        Lasts::Usual => setup.timeouts.response.map(|of| format!("{what}_read_timeout {}", time(of))),
        // The request body of a stream lasts as long as the stream.
        _ => Some(format!("client_body_timeout 1h;\n      {what}_read_timeout 1h;\n      {what}_send_timeout 1h")),
    });
    lines.extend(match pool.care {
        Care::Usual | Care::Checked => None,
        Care::None => Some(format!("{what}_next_upstream off")),
        Care::Full => Some(format!("{what}_next_upstream error timeout http_503;\n      {what}_next_upstream_tries 3")),
    });
    if setup.tuned && pool.back == Back::Http1 {
        lines.push(BUFFERS.to_owned());
    }
    let slash = if route.ruled { "/" } else { "" };
    lines.extend(route.ruled.then(|| RULES.to_owned()));
    lines.extend(route.maps.iter().flat_map(|_| (0..10).map(|map| format!("proxy_set_header X-M{map} $m{map}"))));
    lines.extend(route.cached.then(|| "proxy_cache stored;\n      proxy_cache_valid 200 1h".to_owned()));
    Ok(format!("    location {}{slash} {{\n      {};\n    }}\n", route.path, lines.join(";\n      ")))
}

/// Buffer settings. More buffers cost more under the loads of `protocol_cost`: 1 MB took 850 us with 32 of them and 430
/// us with 8. Without a temporary file, a slow client slows the endpoint instead of filling the disk. `deferred`: 52 ->
/// 41 us where clients close.
const BUFFERS: &str = "proxy_buffers 8 32k;\n      proxy_busy_buffers_size 64k;\n      proxy_max_temp_file_size 0";

fn retries(site: &Site) -> Result<u64> {
    let log = site.log();
    Ok(parse(&fs::read_to_string(&log).or_say(|| format!("cannot read {}", log.display()))?))
}

/// Counts retries in the log, which has every endpoint of a request: `a, b` is a retry.
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
