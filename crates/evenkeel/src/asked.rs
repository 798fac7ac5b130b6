//! What may clients of the admin ask of the main loop? What only it can do, and they wait for.

use evenkeel_admin::api::problem::Problem;
use evenkeel_view::config::{Outcome, Wish};
use tokio::sync::{mpsc, oneshot};

/// Where a client waits. It may be gone.
pub type Answer<T> = oneshot::Sender<Result<T, Problem>>;

/// What is asked. `by`: who asks.
#[derive(Debug)]
pub enum Ask {
    /// Another configuration, unless another generation runs than this one.
    Configure { wish: Wish, unless: Option<u64>, by: String, answer: Answer<Outcome> },
    /// That the logs are opened again.
    Reopen { by: String, answer: Answer<String> },
    /// That another process takes over.
    Upgrade { by: String, answer: Answer<String> },
}

/// Where it is asked.
pub type Asks = mpsc::UnboundedSender<Ask>;

/// Asks, and waits for the answer.
pub async fn ask<T>(asks: Asks, ask: impl FnOnce(Answer<T>) -> Ask) -> Result<T, Problem> {
    let (answer, answered) = oneshot::channel();
    let ends = || Problem::refused("the process ends");
    asks.send(ask(answer)).map_err(|_| ends())?;
    answered.await.map_err(|_| ends())?
}
