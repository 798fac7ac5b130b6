//! State of a page that follows requests: the tap that it opened, and the latest requests from it.

use crate::api::Process;
use crate::api::problem::Problem;
use crate::api::running::{Requests, Told};
use evenkeel_view::tap::{Filter, Tapped};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

/// Latest requests that are kept and shown.
const KEPT: usize = 50;

/// Requests that are read at once, so that a busy tap does not hold the thread.
const AT_ONCE: usize = 2000;

/// Tap of a client that follows a page, opened when that is rendered first.
#[derive(Clone, Default)]
pub struct Watch(Arc<Mutex<Option<Watching>>>);

struct Watching {
    requests: Requests,
    latest: VecDeque<Tapped>,
    dropped: u64,
}

/// Requests that a tap has reported.
#[derive(Default)]
pub struct Seen {
    /// Requests, the latest first.
    pub latest: Vec<Tapped>,
    /// Number of requests that came too fast.
    pub dropped: u64,
}

impl Watch {
    /// Returns the requests that have come, without waiting. The first call opens the tap.
    ///
    /// # Errors
    /// The tap cannot be opened.
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
