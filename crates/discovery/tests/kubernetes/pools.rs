//! Pools that follow services, and what they had in between.

use evenkeel_cluster::server::Server;
use evenkeel_config::Plan;
use evenkeel_config::plan::Endpoint;
use evenkeel_discovery::{Discovery, Numbers};
use prometheus_client::registry::Registry;
use std::collections::HashMap;
use std::time::{Duration, Instant};

pub struct Pools {
    pub discovery: Discovery,
    lists: HashMap<String, Vec<Endpoint>>,
}

impl Pools {
    /// Follows services: pairs of a pool, which has the name of its service, and further keys of `discover`.
    pub async fn follow(server: &Server, token: &str, scope: &str, pools: &[(&str, &str)]) -> Pools {
        let discovery = Discovery::default();
        let following = discovery.follow(&plan(server, token, scope, pools)).await;
        discovery.keep(following);
        let lists = discovery.lists().into_iter().map(|(pool, list)| (pool.to_string(), list)).collect();
        Pools { discovery, lists }
    }

    /// Endpoints of a pool, by name and address; drained ones with an exclamation mark.
    pub fn shown(&self, pool: &str) -> Vec<String> {
        let mut all: Vec<String> = self.lists[pool]
            .iter()
            .map(|e| format!("{} {}{}", e.name.trim_start_matches("shop/"), e.addr, if e.drain { "!" } else { "" }))
            .collect();
        all.sort();
        all
    }

    /// Waits for the next change of a pool.
    async fn next(&mut self) {
        if let Ok(changed) = tokio::time::timeout(Duration::from_secs(1), self.discovery.changed()).await {
            self.lists.extend(changed.into_iter().map(|(pool, list)| (pool.to_string(), list)));
        }
    }

    /// Waits until a pool has these endpoints. `stay`: those that it must have all the time.
    pub async fn become_these(&mut self, pool: &str, expected: &[&str], stay: &[&str]) {
        let until = Instant::now() + Duration::from_secs(90);
        loop {
            let shown = self.shown(pool);
            for name in stay {
                assert!(shown.iter().any(|e| e.starts_with(&format!("{name} "))), "{name} was dropped: {shown:?}");
            }
            if shown == expected {
                return;
            }
            assert!(Instant::now() < until, "{pool}: {shown:?}, not {expected:?}");
            self.next().await;
        }
    }

    /// Number of answers with a result, over all pools.
    pub fn updates(&self, result: &str) -> f64 {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Numbers::new(&self.discovery)));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("a String takes everything");
        let is_one = |l: &&str| l.contains("updates_total") && l.contains(&format!("result=\"{result}\""));
        text.lines().filter(is_one).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Waits until there are more answers with a result than before.
    pub async fn more(&mut self, result: &str, before: f64) {
        let until = Instant::now() + Duration::from_secs(90);
        while self.updates(result) <= before {
            assert!(Instant::now() < until, "no more answers: {result}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

pub fn plan(server: &Server, token: &str, scope: &str, pools: &[(&str, &str)]) -> Plan {
    let mut text = format!(
        "[discovery.kubernetes]\nkubeconfig = '{}'\nscope = '{scope}'\n[listener.web]\nbind = ['127.0.0.1:1']\npool = '{}'\n",
        server.kubeconfig(token).display(),
        pools[0].0
    );
    for (pool, more) in pools {
        text += &format!(
            "[pool.{pool}]\ndiscover = {{ kubernetes = {{ service = '{pool}', namespace = 'shop', port = 'http' }}{more} }}\n"
        );
    }
    let outcome = evenkeel_config::parse_str("test.toml", &text, &|_| None);
    outcome.plan.expect("a good plan")
}
