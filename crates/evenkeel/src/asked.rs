//! Requests of the admin's clients that only the main loop can serve, and for which they wait.

use evenkeel_admin::api::problem::Problem;
use evenkeel_view::config::{Outcome, Wish};
use tokio::sync::{mpsc, oneshot};

/// Channel on which a client waits. It may be gone.
pub type Answer<T> = oneshot::Sender<Result<T, Problem>>;

/// Request to the main loop. `by`: name of the client.
#[derive(Debug)]
pub enum Ask {
    /// Changes the configuration. Refused if another generation than `unless` runs.
    Configure { wish: Wish, unless: Option<u64>, by: String, answer: Answer<Outcome> },
    /// Opens the logs again, after they were moved.
    Reopen { by: String, answer: Answer<String> },
    /// Has another process take over.
    Upgrade { by: String, answer: Answer<String> },
}

/// Channel to the main loop.
pub type Asks = mpsc::UnboundedSender<Ask>;

/// Asks, and waits for the answer.
pub async fn ask<T>(asks: Asks, ask: impl FnOnce(Answer<T>) -> Ask) -> Result<T, Problem> {
    let (answer, answered) = oneshot::channel();
    let ends = || Problem::refused("the process is shutting down");
    asks.send(ask(answer)).map_err(|_| ends())?;
    answered.await.map_err(|_| ends())?
}
