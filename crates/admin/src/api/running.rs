//! What can the API ask of the process? The binary answers.

use super::problem::Problem;
use evenkeel_view::config::{Config, Outcome, Revision, Wish};
use evenkeel_view::history::History;
use evenkeel_view::picks::{Armed, Explained, WouldGo};
use evenkeel_view::served::{Certificate, Route, Zone};
use evenkeel_view::shadows::PoolShadows;
use evenkeel_view::tap::{Filter, Tapped};
use evenkeel_view::{Described, Endpoint, Event, Patch, Status};
use futures_core::Stream;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::watch;

/// The process that is asked.
pub type Process = Arc<dyn Running>;

/// An answer that takes its time.
pub type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Requests as they end.
pub type Requests = Pin<Box<dyn Stream<Item = Told> + Send>>;

/// What is told of requests.
#[derive(Debug)]
pub enum Told {
    /// One has ended.
    Request(Box<Tapped>),
    /// So many came too fast to be told of.
    Dropped(u64),
}

/// The process, as the API sees it. Called on the admin's own thread.
pub trait Running: Send + Sync + 'static {
    /// All of it, with its pools and endpoints.
    fn status(&self) -> Status;

    /// Changes what operators want of an endpoint. `by`: who asks; `unless`: nothing is done if the endpoint's
    /// [`version`](super::endpoints::version) is another by now.
    ///
    /// # Errors
    /// Why nothing was changed.
    fn order(&self, pool: &str, endpoint: &str, patch: Patch, by: &str) -> Result<Endpoint, Problem>;

    /// Ejects an endpoint for a while, or ends its ejection.
    ///
    /// # Errors
    /// Why nothing was changed.
    fn eject(&self, pool: &str, endpoint: &str, out: bool, by: &str) -> Result<Endpoint, Problem>;

    /// What has happened after the event with this number.
    fn events(&self, after: u64) -> Vec<Event>;

    /// The number of the latest event.
    fn latest_event(&self) -> watch::Receiver<u64>;

    /// The last quarter of an hour: of all, of a pool, or of an endpoint of it. `None` if nothing is kept of it.
    fn history(&self, of: Option<(&str, Option<&str>)>) -> Option<History>;

    /// In the order of the configuration.
    fn routes(&self) -> Vec<Route>;

    /// The one that expires first is the first.
    fn certificates(&self) -> Vec<Certificate>;

    /// In the order of the configuration.
    fn zones(&self) -> Vec<Zone>;

    /// The requests that are kept with the explanation of their picks, the latest first: of all pools or of one, so many at most.
    fn explanations(&self, pool: Option<String>, limit: usize) -> Later<Result<Vec<Explained>, Problem>>;

    /// One of them, by its id.
    fn explanation(&self, id: String) -> Later<Result<Explained, Problem>>;

    /// Has the next request of a pool explained.
    ///
    /// # Errors
    /// There is no such pool.
    fn explain_next(&self, pool: String) -> Result<Armed, Problem>;

    /// Where a request would go.
    fn would_go(&self, request: Described) -> Later<Result<WouldGo, Problem>>;

    /// Predictions of the shadows of all pools, or of one.
    fn shadows(&self, pool: Option<String>) -> Later<Result<Vec<PoolShadows>, Problem>>;

    /// The requests that end from now on.
    ///
    /// # Errors
    /// A name is unknown, or too many watch.
    fn tap(&self, filter: &Filter) -> Result<Requests, Problem>;

    /// The configuration that runs. `whole`: as it was written, too.
    fn config(&self, whole: bool) -> Config;

    /// Those that ran of late, the latest first.
    fn revisions(&self) -> Vec<Revision>;

    /// One of them.
    fn revision(&self, generation: u64, whole: bool) -> Option<Config>;

    /// Changes the configuration, or says why not. `unless`: nothing is done if another generation runs than this one.
    fn configure(&self, wish: Wish, unless: Option<u64>, by: &str) -> Later<Result<Outcome, Problem>>;

    /// Opens the logs again, or says why not.
    fn reopen(&self, by: &str) -> Later<Result<String, Problem>>;

    /// Starts the process that takes over, or says why not.
    fn upgrade(&self, by: &str) -> Later<Result<String, Problem>>;
}
