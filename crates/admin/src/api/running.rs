//! Interface of the process that the API serves. The binary implements it.

use super::problem::Problem;
use evenkeel_view::advice::{Advised, Computing};
use evenkeel_view::cache::{Cache, Purge, PurgeDone, StoredResponse, TopKey, TopWanted};
use evenkeel_view::config::{Config, Outcome, Revision, Wish};
use evenkeel_view::history::History;
use evenkeel_view::picks::{Armed, Explained, WouldGo};
use evenkeel_view::served::{Certificate, InKernel, Route, Split, Zone};
use evenkeel_view::shadows::PoolShadows;
use evenkeel_view::tap::{Filter, Tapped};
use evenkeel_view::{Described, Endpoint, Event, Patch, SplitPatch, Status};
use futures_core::Stream;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::watch;

/// The process that is asked.
pub type Process = Arc<dyn Running>;

/// Answer that waits for workers or for the main loop.
pub type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Stream of requests as they end.
pub type Requests = Pin<Box<dyn Stream<Item = Told> + Send>>;

/// Item of a stream of requests.
#[derive(Debug)]
pub enum Told {
    Request(Box<Tapped>),
    /// Number of requests that came too fast to be reported.
    Dropped(u64),
}

/// State of the advice on the configuration.
#[derive(Debug)]
pub enum Answer {
    Made(Advised),
    Computing(Computing),
}

/// The process, as the API sees it. Called on the admin's own thread.
pub trait Running: Send + Sync + 'static {
    /// Returns the state of the process, with its pools and endpoints.
    fn status(&self) -> Status;

    /// Gives an endpoint an order in the name of `by`.
    ///
    /// # Errors
    /// Nothing was changed, for the reason of the problem.
    fn order(&self, pool: &str, endpoint: &str, patch: Patch, by: &str) -> Result<Endpoint, Problem>;

    /// Ejects an endpoint for a while, or ends its ejection.
    ///
    /// # Errors
    /// Nothing was changed, for the reason of the problem.
    fn eject(&self, pool: &str, endpoint: &str, out: bool, by: &str) -> Result<Endpoint, Problem>;

    /// Returns the events after the event with this number.
    fn events(&self, after: u64) -> Vec<Event>;

    /// Follows the number of the latest event.
    fn latest_event(&self) -> watch::Receiver<u64>;

    /// Returns the last quarter of an hour of everything, of a pool, or of an endpoint. `None` if nothing is kept of
    /// it.
    fn history(&self, of: Option<(&str, Option<&str>)>) -> Option<History>;

    /// Returns the routes in the order of the configuration.
    fn routes(&self) -> Vec<Route>;

    /// Returns the split of a route.
    ///
    /// # Errors
    /// The route is unknown, or has no split.
    fn split(&self, route: &str) -> Result<Split, Problem>;

    /// Changes the weights of the split of a route in the name of `by`.
    ///
    /// # Errors
    /// Nothing was changed, for the reason of the problem.
    fn order_split(&self, route: &str, patch: SplitPatch, by: &str) -> Result<Split, Problem>;

    /// Returns the state of the cache.
    ///
    /// # Errors
    /// No route has a cache.
    fn cache(&self) -> Result<Cache, Problem>;

    /// Returns the most used or the largest keys of the cache.
    fn cache_top(&self, wanted: TopWanted) -> Later<Result<Vec<TopKey>, Problem>>;

    /// Returns the stored responses of a URL.
    ///
    /// # Errors
    /// No route has a cache, or this is not a URL.
    fn cache_show(&self, url: &str) -> Result<Vec<StoredResponse>, Problem>;

    /// Purges stored responses in the name of `by`. They are gone at once, and counted later.
    fn purge(&self, purge: &Purge, by: &str) -> Later<Result<PurgeDone, Problem>>;

    /// Returns the certificates; the first expires first.
    fn certificates(&self) -> Vec<Certificate>;

    /// Returns the zones in the order of the configuration.
    fn zones(&self) -> Vec<Zone>;

    /// Returns the kernel's rules and programs of a listener that it forwards for.
    ///
    /// # Errors
    /// The listener is unknown, the kernel does not forward for it, or does not say.
    fn in_kernel(&self, listener: String) -> Later<Result<InKernel, Problem>>;

    /// Returns the requests that are kept with an explanation of their picks, the latest first: of all pools or of a
    /// single pool, `limit` at most.
    fn explanations(&self, pool: Option<String>, limit: usize) -> Later<Result<Vec<Explained>, Problem>>;

    /// Returns the explanation of the request with this id.
    fn explanation(&self, id: String) -> Later<Result<Explained, Problem>>;

    /// Explains the next request of a pool.
    ///
    /// # Errors
    /// No pool has this name.
    fn explain_next(&self, pool: String) -> Result<Armed, Problem>;

    /// Returns the route and the endpoint that a request would get.
    fn would_go(&self, request: Described) -> Later<Result<WouldGo, Problem>>;

    /// Returns the predictions of the shadows of all pools, or of a single pool.
    fn shadows(&self, pool: Option<String>) -> Later<Result<Vec<PoolShadows>, Problem>>;

    /// Returns the advice on the configuration, or begins to compute it. With `whole`, patches have the lines around
    /// their changes.
    ///
    /// # Errors
    /// The computation failed.
    fn advice(&self, whole: bool) -> Result<Answer, Problem>;

    /// Follows the requests that end from now on.
    ///
    /// # Errors
    /// A name is unknown, or too many callers follow.
    fn tap(&self, filter: &Filter) -> Result<Requests, Problem>;

    /// Returns the configuration that runs; with `whole` also its text as it was written.
    fn config(&self, whole: bool) -> Config;

    /// Returns the configurations that ran last, the latest first.
    fn revisions(&self) -> Vec<Revision>;

    /// Returns the configuration of a generation, if it is kept.
    fn revision(&self, generation: u64, whole: bool) -> Option<Config>;

    /// Changes the configuration. Nothing is done if another generation than `unless` runs.
    fn configure(&self, wish: Wish, unless: Option<u64>, by: &str) -> Later<Result<Outcome, Problem>>;

    /// Opens the logs again, as after they were moved away.
    fn reopen(&self, by: &str) -> Later<Result<String, Problem>>;

    /// Starts the process that takes over.
    fn upgrade(&self, by: &str) -> Later<Result<String, Problem>>;
}
