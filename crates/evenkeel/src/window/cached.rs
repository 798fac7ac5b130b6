//! The cache as its operators see it, and their purges.

use evenkeel_admin::api::problem::Problem;
use evenkeel_admin::api::running::Later;
use evenkeel_proxy::{CacheRefused, Numbers};
use evenkeel_runtime::control::Control;
use evenkeel_view::cache::{Purge, PurgeDone, TopKey, TopWanted};
use evenkeel_view::events::Kind;
use std::sync::Arc;

/// Default number of keys in a list.
const TOP: u16 = 20;

/// Explains why the cache cannot respond.
pub fn problem(refused: CacheRefused) -> Problem {
    match refused {
        CacheRefused::NoCache => no_cache(),
        CacheRefused::Malformed(why) => Problem::malformed(why),
    }
}

#[cold]
pub fn no_cache() -> Problem {
    Problem::not_found("no route has a cache: `cache = true` in a [[route]] turns it on")
}

/// Finds the first keys, off the thread of the admin: with a million keys that takes a while.
pub fn top(now: Arc<Numbers>, wanted: TopWanted) -> Later<Result<Vec<TopKey>, Problem>> {
    Box::pin(async move {
        let top = move || now.cache_top(wanted.n.unwrap_or(TOP).into(), wanted.by).map_err(problem);
        apart(top).await?
    })
}

/// Purges at once, and counts off the thread of the admin.
pub fn purge(now: &Arc<Numbers>, control: &Control, purge: &Purge, by: &str) -> Later<Result<PurgeDone, Problem>> {
    let purging = match now.purge_cache(purge) {
        Ok(purging) => purging,
        Err(refused) => return Box::pin(async move { Err(problem(refused)) }),
    };
    let how = if purge.soft { "soft purge" } else { "purge" };
    let text = format!("{how} of the cache: {}", purging.target());
    tracing::info!(by, "operator order: {text}");
    control.events().tell(Kind::Operator, (None, None), text, Some(by));
    Box::pin(async move {
        let ended = apart(move || purging.end()).await?;
        ended.map_err(|why| Problem::refused(why.to_string()))
    })
}

async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    let failed = |error: tokio::task::JoinError| Problem::refused(format!("the cache could not be read: {error}"));
    tokio::task::spawn_blocking(work).await.map_err(failed)
}
