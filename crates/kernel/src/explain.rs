//! State of the kernel for a listener, as its driver describes it: [`Explainer`] asks the thread of the kernel planes.

use crate::worker::Update;
use evenkeel_net::workers::Door;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::oneshot;

/// Longest wait for the thread: a listing of a large table takes a while.
const PATIENCE: Duration = Duration::from_secs(5);

/// Door of the thread, once it runs.
pub(crate) type Thread = Arc<OnceLock<Door<Update>>>;

/// Answer of the thread: lines, or the reason why there are none.
pub(crate) type Answer = oneshot::Sender<Result<Vec<String>, String>>;

/// Asks for the state of listeners.
#[derive(Clone)]
pub struct Explainer(Thread);

impl Explainer {
    pub(crate) fn new(thread: Thread) -> Explainer {
        Explainer(thread)
    }

    /// Returns rules, entries and counts of a listener in lines.
    ///
    /// # Errors
    /// The kernel does not forward for the listener, does not say, or the thread is busy.
    pub async fn explain(&self, listener: Arc<str>) -> Result<Vec<String>, String> {
        let (answer, answered) = oneshot::channel();
        let is_sent = self.0.get().is_some_and(|door| door.send(Update::Explain { listener, answer }));
        if !is_sent {
            return Err("the kernel forwards for no listener".into());
        }
        match tokio::time::timeout(PATIENCE, answered).await {
            Ok(Ok(explained)) => explained,
            Ok(Err(_)) => Err("the thread of the kernel planes has ended".into()),
            Err(_) => Err("the thread of the kernel planes is busy; try again".into()),
        }
    }
}
