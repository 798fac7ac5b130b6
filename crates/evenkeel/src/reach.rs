//! Connections to the endpoints of the command line, one each, so that the greeting can name those that do not answer. Nothing
//! else depends on them.

use crate::failure::reason;
use evenkeel_config::Plan;
use evenkeel_config::plan::Address;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// A user at a terminal should not have to wait.
const PATIENCE: Duration = Duration::from_millis(250);

/// Endpoints that are tried; thousands are not to be dialled at once.
const TRIED_MAX: usize = 256;

/// Results of the connections.
pub struct Tried {
    pub count: usize,
    /// Endpoints that do not answer, in the order of the plan.
    pub silent: Vec<Silent>,
}

/// An endpoint that does not answer.
pub struct Silent {
    /// Index of its pool in the plan.
    pub pool: usize,
    /// Index of the endpoint in its pool.
    pub endpoint: usize,
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
