//! Which endpoints answer right now? One connection to each that was named on the command line, only to be told: nothing
//! depends on it.

use crate::failure::reason;
use evenkeel_config::Plan;
use evenkeel_config::plan::Address;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Whoever starts evenkeel at a terminal should not have to wait.
const PATIENCE: Duration = Duration::from_millis(250);

/// Endpoints that are tried; thousands are not to be dialled at once.
const TRIED_MAX: usize = 256;

/// What came of it.
pub struct Tried {
    /// How many were.
    pub count: usize,
    /// Those that do not answer, in the order of the plan.
    pub silent: Vec<Silent>,
}

/// An endpoint that does not answer.
pub struct Silent {
    /// Index of its pool in the plan.
    pub pool: usize,
    /// Index in the pool.
    pub endpoint: usize,
    /// Why.
    pub why: String,
}

/// Connects to each endpoint that has an address.
pub async fn try_each(plan: &Plan) -> Tried {
    let all = plan.pools.iter().enumerate().flat_map(|(p, pool)| {
        let addressed = pool.endpoints.iter().enumerate().filter_map(|(e, endpoint)| match endpoint.addr {
            Address::Ip(addr) => Some((e, addr)),
            Address::Name { .. } => None,
        });
        addressed.map(move |(e, addr)| (p, e, addr))
    });
    let mut tries = JoinSet::new();
    for (pool, endpoint, addr) in all.take(TRIED_MAX) {
        tries.spawn(async move {
            let why = match tokio::time::timeout(PATIENCE, TcpStream::connect(addr)).await {
                Ok(Ok(_)) => return None,
                Ok(Err(error)) => reason(&error),
                Err(_) => format!("no answer within {PATIENCE:?}"),
            };
            Some(Silent { pool, endpoint, why })
        });
    }
    let count = tries.len();
    let mut silent: Vec<Silent> = tries.join_all().await.into_iter().flatten().collect();
    silent.sort_by_key(|s| (s.pool, s.endpoint));
    Tried { count, silent }
}
