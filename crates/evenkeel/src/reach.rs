//! A connection to each endpoint of the command line, so that the greeting can name the endpoints that do not respond.
//! Nothing else depends on them.

use crate::failure::reason;
use evenkeel_config::Plan;
use evenkeel_net::dial::{Remote, unix_stream};
use evenkeel_runtime::pool::address;
use std::io;
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

async fn connect(addr: &Remote) -> io::Result<()> {
    match addr {
        Remote::Ip(addr) => TcpStream::connect(addr).await.map(drop),
        Remote::Unix(path) => unix_stream(path).map(drop),
    }
}

/// Connects to each endpoint that has an address.
pub async fn try_each(plan: &Plan) -> Tried {
    let all = plan.pools.iter().enumerate().flat_map(|(p, pool)| {
        let addressed =
            pool.endpoints.iter().enumerate().filter_map(|(e, endpoint)| address(&endpoint.addr).map(|addr| (e, addr)));
        addressed.map(move |(e, addr)| (p, e, addr))
    });
    let mut tries = JoinSet::new();
    for (pool, endpoint, addr) in all.take(TRIED_MAX) {
        tries.spawn(async move {
            let why = match tokio::time::timeout(PATIENCE, connect(&addr)).await {
                Ok(Ok(())) => return None,
                Ok(Err(error)) => reason(&error),
                Err(_) => format!("no response within {PATIENCE:?}"),
            };
            Some(Silent { pool, endpoint, why })
        });
    }
    let count = tries.len();
    let mut silent: Vec<Silent> = tries.join_all().await.into_iter().flatten().collect();
    silent.sort_by_key(|s| (s.pool, s.endpoint));
    Tried { count, silent }
}
