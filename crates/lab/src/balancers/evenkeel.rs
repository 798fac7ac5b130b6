//! How is evenkeel set up to live with broken endpoints?

use super::{Kind, Site};
use crate::error::{Error, Result};
use crate::http;
use rustix::process::Signal;

pub const KIND: Kind = Kind {
    name: "evenkeel",
    config_name: "evenkeel.toml",
    config,
    arguments: |_, config| vec!["run".into(), "-c".into(), config.display().to_string()],
    version_flag: "--version",
    reload: Signal::HUP,
    settings: "Two random draws; checks of /health each 500 ms with 300 ms of patience, 2 to fall and 2 to rise; ejected for \
5 s after 3 failed connects, 5 gateway errors or 5 answers of 500 and above in a row; up to 2 retries, elsewhere, after a \
failed connect, a reset, 1 s without an answer, or a 503, but of a POST only if nothing of it has left; full share 3 s \
after a return.",
    retries,
};

fn config(site: &Site) -> String {
    let endpoints = site.each(|_, address| format!("  \"{address}\",\n"));
    let spare = site.endpoints[0];
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
[pool.app]
balance = "random"
endpoints = [
{endpoints}]
[pool.app.health]
http = {{ path = "/health" }}
interval = "500ms"
timeout = "300ms"
fall = 2
rise = 2
[pool.app.outlier]
consecutive_connect = 3
consecutive_gateway = 5
consecutive_5xx = 5
eject = "5s"
[pool.app.retry]
attempts = 2
on = ["connect", "reset", "timeout", "503"]
try_timeout = "1s"
[pool.app.slow_start]
window = "3s"
[pool.spare]
endpoints = [{{ addr = "{spare}", weight = {weight} }}]
"#,
        admin = site.admin_port,
        port = site.port,
        weight = site.weight,
    )
}

fn retries(site: &Site) -> Result<u64> {
    let text = http::get(&mut http::connect(site.admin_port)?, "/metrics", "1.1")?;
    let text = String::from_utf8_lossy(&text).into_owned();
    parse(&text).ok_or_else(|| Error::Wrong("evenkeel's /metrics tells no retries".into()))
}

fn parse(text: &str) -> Option<u64> {
    let values = text.lines().filter_map(|line| line.strip_prefix("evenkeel_retries_total{")?.split(' ').nth(1));
    let counts: Vec<u64> = values.filter_map(|value| value.parse().ok()).collect();
    (!counts.is_empty()).then(|| counts.iter().sum())
}

#[cfg(test)]
mod tests {
    #[test]
    fn retries_of_all_pools_and_outcomes_are_added() {
        let text = "# TYPE x\nevenkeel_retries_total{pool=\"app\"} 3\nevenkeel_retries_total{pool=\"spare\"} 1\n";
        assert_eq!(super::parse(text), Some(4));
        assert_eq!(super::parse("# nothing"), None);
    }
}
