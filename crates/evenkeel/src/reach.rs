//! Which endpoints answer right now? One connection each at the start, only to be told: nothing depends on it. Nobody can
//! tell of those that get datagrams only.

use evenkeel_config::Plan;
use evenkeel_config::plan::{Address, Mode};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::failure::reason;

/// Whoever starts evenkeel at a terminal should not have to wait.
const PATIENCE: Duration = Duration::from_millis(250);

/// Endpoints that are tried; a pool of thousands is not to be dialled at once.
const TRIED_MAX: usize = 256;

/// An endpoint that does not answer.
pub struct Silent {
    /// Index of its pool in the plan.
    pub pool: usize,
    /// Index in the pool.
    pub endpoint: usize,
    /// Why.
    pub why: String,
}

/// Those that do not answer, in the order of the plan. Endpoints that drain or have no weight need not.
pub async fn silent(plan: &Plan) -> Vec<Silent> {
    let modes = plan.modes();
    let on_tcp = plan.pools.iter().enumerate().filter(|(p, _)| modes[*p] != [Mode::Udp]);
    let all = on_tcp.flat_map(|(p, pool)| {
        let wanted = pool.endpoints.iter().enumerate().filter(|(_, e)| e.weight > 0 && !e.drain);
        wanted.map(move |(e, endpoint)| (p, e, endpoint.addr.clone()))
    });
    let mut tries = JoinSet::new();
    for (pool, endpoint, addr) in all.take(TRIED_MAX) {
        tries.spawn(async move {
            let Address::Ip(addr) = addr else {
                return Some(Silent { pool, endpoint, why: "its name does not resolve".into() });
            };
            let why = match tokio::time::timeout(PATIENCE, TcpStream::connect(addr)).await {
                Ok(Ok(_)) => return None,
                Ok(Err(error)) => reason(&error),
                Err(_) => format!("no answer within {PATIENCE:?}"),
            };
            Some(Silent { pool, endpoint, why })
        });
    }
    let mut silent: Vec<Silent> = tries.join_all().await.into_iter().flatten().collect();
    silent.sort_by_key(|s| (s.pool, s.endpoint));
    silent
}
