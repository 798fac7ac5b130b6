//! What does a page remember that follows requests? The tap that it opened, and the latest that came from it.

use crate::api::Process;
use crate::api::problem::Problem;
use crate::api::running::{Requests, Told};
use evenkeel_view::tap::{Filter, Tapped};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

/// Requests that are remembered.
const KEPT: usize = 50;

/// Requests that are looked at in one go.
const AT_ONCE: usize = 2000;

/// What one looker follows, once the page was rendered for it.
#[derive(Clone, Default)]
pub struct Watch(Arc<Mutex<Option<Watching>>>);

struct Watching {
    requests: Requests,
    latest: VecDeque<Tapped>,
    dropped: u64,
}

/// What came.
#[derive(Default)]
pub struct Seen {
    /// The latest first.
    pub latest: Vec<Tapped>,
    /// How many came too fast.
    pub dropped: u64,
}

impl Watch {
    /// What has come, without waiting. Opens the tap if this is asked for the first time.
    ///
    /// # Errors
    /// It cannot be opened.
    pub async fn look(&self, process: &Process, filter: &Filter) -> Result<Seen, Problem> {
        if self.with(|watching| watching.is_none()) {
            filter.check().map_err(Problem::malformed)?;
            let requests = process.tap(filter)?;
            self.with(|watching| *watching = Some(Watching { requests, latest: VecDeque::new(), dropped: 0 }));
        }
        Ok(poll_fn(|cx| {
            Poll::Ready(self.with(|watching| {
                let Some(watching) = watching else { return Seen::default() };
                for _ in 0..AT_ONCE {
                    match watching.requests.as_mut().poll_next(cx) {
                        Poll::Ready(Some(Told::Request(one))) => {
                            watching.latest.truncate(KEPT - 1);
                            watching.latest.push_front(*one);
                        }
                        Poll::Ready(Some(Told::Dropped(n))) => watching.dropped += n,
                        Poll::Ready(None) | Poll::Pending => break,
                    }
                }
                Seen { latest: watching.latest.iter().cloned().collect(), dropped: watching.dropped }
            }))
        })
        .await)
    }

    fn with<T>(&self, what: impl FnOnce(&mut Option<Watching>) -> T) -> T {
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
