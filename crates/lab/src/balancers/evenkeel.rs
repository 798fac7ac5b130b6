//! Setup as an evenkeel configuration.

use super::kind::{Kind, Reload, Site, Text, Written, time};
use super::maps;
use super::setup::{Algorithm, Back, Care, Front, Kernel, Keys, Lasts, Listener, Pool, Reuse, Route, Zone};
use crate::error::{Error, Result};
use crate::hosts;
use crate::http;
use rustix::process::Signal;

pub const KIND: Kind = Kind {
    name: "evenkeel",
    program: "evenkeel",
    version_flag: "--version",
    files,
    arguments: |_, config| ["run", "-c", config].map(str::to_owned).to_vec(),
    forks: false,
    logs_to_socket: false,
    reload: Reload::Signal(Signal::HUP),
    upgrades: true,
    generation: |site, _| told(site, "evenkeel_config_generation"),
    retries: |site| told(site, "evenkeel_retries_total"),
    settings: "Two random draws; checks of /health each 500 ms with 300 ms of patience, 2 to fall and 2 to rise; ejected for \
5 s, half of them at most, after 3 failed connects, gateway errors or answers of 500 and above in a row, as many as the others, or 2 s of \
three times the pool's latency, which none of the others can be told to look at; up to 2 retries, elsewhere, after a \
failed connect, a reset, 1 s without an answer, or a 503, but of a POST only if nothing of it has left, and of a call of gRPC also if \
it is UNAVAILABLE; full share 3 s after a return; PING after 500 ms to endpoints of HTTP/2, which have 1 s to answer.",
};

fn files(site: &Site) -> Written {
    let keys = maps::of(site.setup);
    let rows = keys.into_iter().flat_map(|keys| maps::files(keys, |key, value| format!("{key} {value}\n")));
    Ok([("evenkeel.toml", config(site)?)].into_iter().chain(rows).collect())
}

fn config(site: &Site) -> Text {
    let setup = site.setup;
    let mut text = format!("version = 1\n[runtime]\nworkers = {}\n", setup.workers);
    if let Some(port) = setup.admin {
        text += &format!("[admin]\nhttp = {{ bind = \"127.0.0.1:{port}\" }}\n");
    }
    text += &setup.listeners.iter().find_map(|of| kernel(of.front)).unwrap_or_default();
    if setup.logs {
        text += &format!("[telemetry]\naccess_log = {{ path = \"{}\", format = \"json\" }}\n", site.log().display());
    }
    text += "[defaults.timeouts]\n";
    let all = &setup.timeouts;
    let keys = ["connect", "response", "client_header", "client_body"];
    for (key, set) in keys.into_iter().zip([all.connect, all.response, all.client, all.client]) {
        text += &set.map_or_else(String::new, |set| format!("{key} = \"{}\"\n", time(set)));
    }
    if setup.listeners.iter().any(|listener| listener.front == Front::H3) {
        text += &format!("client_idle = \"{}\"\n", time(all.idle));
    }
    for listener in &setup.listeners {
        text += &self::listener(site, listener)?;
    }
    // An attempt ends with the head of its response, so streams need no separate routes.
    setup.routes.iter().filter(|route| route.lasts == Lasts::Usual).for_each(|of| text += &route(site, of));
    setup.pools.iter().for_each(|of| text += &pool(of, setup.reuse));
    text += &maps::of(setup).map_or_else(String::new, |keys| self::maps(site, keys));
    Ok(text)
}

fn maps(site: &Site, keys: Keys) -> String {
    let of = match keys {
        Keys::Exact => "exact",
        Keys::Prefix => "prefix",
        Keys::Expression => "regex",
    };
    maps::lines(|map, file| {
        let file = site.file(file);
        format!("[map.m{map}]\nfrom = \"{{query}}\"\nmatch = \"{of}\"\nfile = \"{}\"", file.display())
    })
}

/// Section for a plane in the kernel; `None` for other fronts.
fn kernel(front: Front) -> Option<String> {
    let Front::Kernel(Kernel { attach, .. }) = front else { return None };
    let attach = attach.map_or_else(String::new, |part| format!("attach = \"{part}\"\n"));
    Some(format!("[kernel]\nname = \"{}\"\n{attach}", hosts::kernel_name()))
}

fn listener(site: &Site, listener: &Listener) -> Text {
    let Listener { name, bind, front, pool, reports_load } = listener;
    let mut text = format!("[listener.{name}]\nbind = [\"{bind}\"]\n");
    if let Front::Dns(zone) = front {
        return Ok(text + &self::zone(name, zone, pool.unwrap_or_default()));
    }
    if let Front::Kernel(Kernel { plane, .. }) = front {
        text += &format!("mode = \"tcp\"\nplane = \"{plane}\"\n");
    }
    text += match front {
        Front::Tcp => "mode = \"tcp\"\n",
        Front::Udp => "mode = \"udp\"\n",
        Front::H2c => "h2c = true\n",
        Front::H3 if site.setup.reuse == Reuse::Many => "http3 = { streams = 256 }\n",
        Front::H3 => "http3 = true\n",
        _ => "",
    };
    text += &pool.map_or_else(String::new, |pool| format!("pool = \"{pool}\"\n"));
    text += if *reports_load { "report_load = true\n" } else { "" };
    if front.is_tls() {
        let (of, files) = (format!("[listener.{name}.tls]\n"), site.certificate()?);
        let (certificate, key) = (files.certificate.display(), files.key.display());
        text += &format!("{of}certificates = [{{ cert = \"{certificate}\", key = \"{key}\" }}]\n");
    }
    Ok(text)
}

fn zone(listener: &str, Zone { name, ttl, answers }: &Zone, pool: &str) -> String {
    let ttl = ttl.map_or_else(String::new, |ttl| format!("ttl = \"{ttl}\"\n"));
    format!(
        "mode = \"dns\"\n[listener.{listener}.zone]\nname = \"{name}\"\n{ttl}responses_per_subnet = 0\n\
         ns = [{{ name = \"ns1.{name}\", addresses = [\"127.0.0.1\"] }}]\n\
         records = {{ www = {{ pool = \"{pool}\", answers = {answers} }} }}\n"
    )
}

fn route(site: &Site, Route { host, path, pool, ruled, cached, maps, .. }: &Route) -> String {
    let mut of = match (host, path.ends_with('/')) {
        (Some(host), _) => format!("host = [\"{host}\"]"),
        (None, true) => format!("path = \"{path}{{*rest}}\""),
        (None, false) => format!("prefix = \"{path}\""),
    };
    // Listeners with a separate pool have no routes.
    let all = &site.setup.listeners;
    let open: Vec<_> = all.iter().filter(|of| of.pool.is_none()).map(|of| format!("\"{}\"", of.name)).collect();
    if open.len() < all.len() {
        of += &format!(", listener = [{}]", open.join(", "));
    }
    let rules = if *ruled { RULES } else { "" };
    let cache = if *cached { "cache = { ttl = { \"200\" = \"1h\" }, status_field = false }\n" } else { "" };
    let fields = maps::lines(|map, _| format!("request_headers.set.X-M{map} = \"{{map.m{map}}}\""));
    let fields = if maps.is_some() { &*fields } else { "" };
    format!("[[route]]\nmatch = {{ {of} }}\npool = \"{pool}\"\n{rules}{cache}{fields}")
}

/// Rules of a [ruled route](super::setup::Route::ruled).
const RULES: &str = r#"strip_prefix = true
access = { allow = ["127.0.0.0/8"] }
limits = [{ requests = "1000000/s", key = "client" }]
body_max = "1MB"
send_host = "app.internal"
request_headers = { set = { X-Client = "{client.ip}" }, remove = ["X-Debug"] }
response_headers = { set = { X-Content-Type-Options = "nosniff" }, remove = ["ETag"] }
cookies = { secure = true, http_only = true }
"#;

fn pool(pool: &Pool, reuse: Reuse) -> String {
    let Pool { name, weight, back, care, .. } = pool;
    let mut text = format!("[pool.{name}]\n");
    text += match pool.algorithm {
        Algorithm::Usual => "",
        Algorithm::RoundRobin => "balance = \"round_robin\"\n",
        Algorithm::LeastConn => "balance = \"leastconn\"\n",
        Algorithm::Random => "balance = \"random\"\n",
        Algorithm::OneDraw => "balance = { random = { draws = 1 } }\n",
        Algorithm::PeakEwma => "balance = \"peak_ewma\"\n",
        Algorithm::Prequal => "balance = \"prequal\"\n",
    };
    let weight = weight.map_or_else(String::new, |weight| format!(", weight = {weight}"));
    let endpoints = pool.endpoints.iter().map(|address| format!("  {{ addr = \"{address}\"{weight} }},\n"));
    text += &format!("endpoints = [\n{}]\n", endpoints.collect::<String>());
    text += if *back == Back::Http1 { "" } else { "protocol = \"h2\"\n" };
    text += if pool.shares_load { "load_reports = { probe = \"udp\" }\n" } else { "" };
    let requests = (*care == Care::Checked).then_some("requests_per_endpoint = 10000");
    let idle = match reuse {
        Reuse::Usual | Reuse::Always => None,
        Reuse::Many => Some("idle_per_endpoint = 1024"),
        Reuse::Never => Some("idle_per_endpoint = 0"),
    };
    let limits: Vec<&str> = requests.into_iter().chain(idle).collect();
    if !limits.is_empty() {
        text += &format!("limits = {{ {} }}\n", limits.join(", "));
    }
    match care {
        Care::Usual => {}
        Care::None => text += "outlier = \"off\"\nretry = { attempts = 0 }\n",
        Care::Checked => text += "health = { tcp = {}, interval = \"2s\" }\n",
        Care::Full if *back == Back::Http1 => text += FULL,
        Care::Full => text += &format!("http2 = {{ ping_after = \"500ms\", ping_timeout = \"1s\" }}\n{FULL}"),
    }
    text
}

const FULL: &str = r#"health = { http = { path = "/health" }, interval = "500ms", timeout = "300ms", fall = 2, rise = 2 }
retry = { attempts = 2, on = ["connect", "reset", "timeout", "503", "grpc:unavailable"], try_timeout = "1s" }
slow_start = { window = "3s" }
outlier = { consecutive_connect = 3, consecutive_gateway = 3, consecutive_5xx = 3, eject = "5s", eject_at_most = 0.5, interval = "2s", latency = { factor = 3.0, min_requests = 20 } }
"#;

/// Sum over all series of a metric.
fn told(site: &Site, metric: &str) -> Result<u64> {
    let text = http::get(&mut http::connect(site.admin()?)?, "/metrics", "1.1")?;
    parse(&String::from_utf8_lossy(&text), metric)
        .ok_or_else(|| Error::Wrong(format!("evenkeel has no metric {metric}")))
}

fn parse(text: &str, metric: &str) -> Option<u64> {
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(metric)?;
        let rest = if rest.starts_with('{') { rest.split_once('}')?.1 } else { rest };
        rest.strip_prefix(' ')?.split(' ').next()?.parse::<u64>().ok()
    });
    values.reduce(|one, other| one + other)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn series_of_a_metric_are_added_and_others_are_not() {
        let text = "# TYPE a counter\na_total{pool=\"x y\"} 3\na_total{pool=\"z\"} 1\na_total_more 7\nb 2\n";
        assert_eq!((parse(text, "a_total"), parse(text, "b"), parse(text, "c")), (Some(4), Some(2), None));
    }
}
