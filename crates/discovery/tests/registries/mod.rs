//! Pools that follow registries, against fakes on real sockets that keep the rules of the originals and break them on
//! purpose. The rules are those of the API documentation of each.

mod fake;
mod faults;
mod indexes;
mod lists;

use evenkeel_config::Plan;
use evenkeel_discovery::{Discovery, Numbers};
use fake::Registry;
use std::time::{Duration, Instant};

/// Follows a pool for which the registry is asked.
pub struct Follower {
    pub discovery: Discovery,
}

impl Follower {
    /// Begins to follow pools of these keys, each with the source of the registry.
    pub async fn of(registry: &Registry, keys: &[&str]) -> Follower {
        Follower::in_plan(&plan(registry, keys)).await
    }

    /// Begins to follow the pools of a plan.
    pub async fn in_plan(plan: &Plan) -> Follower {
        let discovery = Discovery::default();
        let following = discovery.follow(plan).await;
        discovery.keep(following);
        Follower { discovery }
    }

    /// Names of the endpoints of the first pool, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.discovery.lists()[0].1.iter().map(|e| e.addr.to_string()).collect();
        names.sort();
        names
    }

    /// Waits until the first pool has these endpoints.
    pub async fn becomes(&mut self, wanted: &[&str]) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.names() != wanted {
            assert!(Instant::now() < until, "{:?}, not {wanted:?}", self.names());
            let _ = tokio::time::timeout(Duration::from_millis(100), self.discovery.changed()).await;
        }
    }

    /// Waits until a metric of the first pool is at least this.
    pub async fn counts(&self, name: &str, at_least: f64) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.metric(name) < at_least {
            assert!(Instant::now() < until, "{name} is {}, not {at_least}", self.metric(name));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Value of a metric of the first pool: its name, without `evenkeel_discovery_`, or the result of updates.
    pub fn metric(&self, name: &str) -> f64 {
        let mut prometheus = prometheus_client::registry::Registry::default();
        prometheus.register_collector(Box::new(Numbers::new(&self.discovery)));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &prometheus).expect("a String takes everything");
        let is_result = ["changed", "unchanged", "empty", "failed"].contains(&name);
        let of_pool = |line: &&str| line.contains("pool=\"p0\"");
        let line = text.lines().filter(of_pool).find(|line| match is_result {
            true => {
                line.starts_with("evenkeel_discovery_updates_total{") && line.contains(&format!("result=\"{name}\""))
            }
            false => line.starts_with(&format!("evenkeel_discovery_{name}{{")),
        });
        let value = line.and_then(|line| line.rsplit_once(' ')?.1.parse().ok());
        value.unwrap_or_else(|| panic!("{name}: {text}"))
    }
}

/// Plan with pools `p0`, `p1` and so on, each with the source of the registry and further keys of `discover`.
fn plan(registry: &Registry, keys: &[&str]) -> Plan {
    let with = |keys: &&str| match *keys {
        "" => registry.source(),
        keys => format!("{}, {keys}", registry.source()),
    };
    plan_of(&registry.section(), &keys.iter().map(with).collect::<Vec<_>>())
}

/// Plan with pools `p0`, `p1` and so on, each with these keys of `discover`.
pub fn plan_of(section: &str, discovers: &[impl AsRef<str>]) -> Plan {
    let pool = |(n, keys): (usize, &_)| format!("[pool.p{n}]\ndiscover = {{ {} }}\n", AsRef::<str>::as_ref(keys));
    let pools: String = discovers.iter().enumerate().map(pool).collect();
    let text = format!("{section}\n[listener.web]\nbind = ['127.0.0.1:1']\npool = 'p0'\n{pools}");
    let outcome = evenkeel_config::parse_str("test.toml", &text, &|_| None);
    outcome.plan.unwrap_or_else(|| panic!("{}", evenkeel_config::render_text(&outcome.diagnostics, false)))
}
