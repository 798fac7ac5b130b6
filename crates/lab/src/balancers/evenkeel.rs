//! How is evenkeel set up to live with broken endpoints?

use super::kind::{Kind, Mixed, Reload, Site};
use crate::error::{Error, Result};
use crate::http;
use rustix::process::Signal;

pub const KIND: Kind = Kind {
    name: "evenkeel",
    config_name: "evenkeel.toml",
    config,
    more: |_| Vec::new(),
    arguments: |_, config| vec!["run".into(), "-c".into(), config.display().to_string()],
    version_flag: "--version",
    reload: Reload::Signal(Signal::HUP),
    upgrades: true,
    generation: |site, _| told(site, "evenkeel_config_generation"),
    settings: "Two random draws; checks of /health each 500 ms with 300 ms of patience, 2 to fall and 2 to rise; ejected for \
5 s, half of them at most, after 3 failed connects, gateway errors or answers of 500 and above in a row, as many as the others, or 2 s of \
three times the pool's latency, which none of the others can be told to look at; up to 2 retries, elsewhere, after a \
failed connect, a reset, 1 s without an answer, or a 503, but of a POST only if nothing of it has left, and of a call of gRPC also if \
it is UNAVAILABLE; full share 3 s after a return; PING after 500 ms to endpoints of HTTP/2, which have 1 s to answer.",
    retries: |site| told(site, "evenkeel_retries_total"),
};

fn config(site: &Site) -> String {
    let spare = site.endpoints[0];
    let mixed = site.mixed.map_or(String::new(), |mixed| self::mixed(site, mixed));
    format!(
        r#"version = 1
[runtime]
workers = 1
[admin]
http = {{ bind = "127.0.0.1:{admin}" }}
[defaults.timeouts]
connect = "500ms"
response = "1s"
[listener.web]
bind = ["127.0.0.1:{port}"]
[[route]]
match = {{ path = "/{{*rest}}" }}
pool = "app"
[[route]]
match = {{ host = ["spare.test"] }}
pool = "spare"
{app}[pool.spare]
endpoints = [{{ addr = "{spare}", weight = {weight} }}]
{mixed}"#,
        app = pool(site, "app", ""),
        admin = site.admin_port,
        port = site.port,
        weight = site.weight,
    )
}

/// A pool of all endpoints. `more`: lines of its own.
fn pool(site: &Site, name: &str, more: &str) -> String {
    let endpoints = site.each(|_, address| format!("  \"{address}\",\n"));
    format!(
        r#"[pool.{name}]
balance = "random"
endpoints = [
{endpoints}]
{more}[pool.{name}.health]
http = {{ path = "/health" }}
interval = "500ms"
timeout = "300ms"
fall = 2
rise = 2
[pool.{name}.outlier]
consecutive_connect = 3
consecutive_gateway = 3
consecutive_5xx = 3
eject = "5s"
eject_at_most = 0.5
interval = "2s"
latency = {{ factor = 3.0, min_requests = 20 }}
[pool.{name}.retry]
attempts = 2
on = ["connect", "reset", "timeout", "503", "grpc:unavailable"]
try_timeout = "1s"
[pool.{name}.slow_start]
window = "3s"
"#
    )
}

fn mixed(site: &Site, mixed: &Mixed) -> String {
    let Mixed { h2c_port, tls_port, certificate, key, .. } = mixed;
    let http2 = "protocol = \"h2\"\nhttp2 = { ping_after = \"500ms\", ping_timeout = \"1s\" }\n";
    format!(
        r#"[listener.h2c]
bind = ["127.0.0.1:{h2c_port}"]
h2c = true
[listener.tls]
bind = ["127.0.0.1:{tls_port}"]
[listener.tls.tls]
certificates = [{{ cert = "{}", key = "{}" }}]
[[route]]
match = {{ path = "/lab.Echo/{{*rest}}" }}
pool = "grpc"
{}"#,
        certificate.display(),
        key.display(),
        pool(site, "grpc", http2),
    )
}

/// The sum of a metric's series.
fn told(site: &Site, metric: &str) -> Result<u64> {
    let text = http::get(&mut http::connect(site.admin_port)?, "/metrics", "1.1")?;
    parse(&String::from_utf8_lossy(&text), metric).ok_or_else(|| Error::Wrong(format!("evenkeel tells no {metric}")))
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
