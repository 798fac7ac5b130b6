//! Export of spans. A thread takes the requests that workers record when they end, makes [`spans`] of them, and sends these to the
//! collector in batches ([`sending`]). It may fall behind; spans that cannot be sent in time are dropped and counted.

// Order: metrics, sending, spans
mod metrics;
mod sending;
mod spans;

pub use metrics::Metrics;

use evenkeel_config::plan;
use evenkeel_proxy::finished::FinishedRequest;
use metrics::Numbers;
use sending::{Collector, Fault};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

/// Most requests of a batch.
const BATCH: usize = 512;

/// Time that the first request of a batch waits for others.
const GATHER: Duration = Duration::from_secs(1);

/// Time in which a batch is sent again to a collector that does not take it, before it is dropped.
const PATIENCE: Duration = Duration::from_secs(30);

/// Pause after the first failure. Each further pause is twice as long, up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(500);

/// Longest pause between two tries to send a batch.
const PAUSE_MAX: Duration = Duration::from_secs(8);

/// Time that the end of the process, or of a plan, waits for the collector.
const LAST: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, PartialEq)]
enum Wish {
    Off,
    To(Arc<plan::Traces>),
    End,
}

/// The thread that exports spans.
pub struct Exporter {
    wish: watch::Sender<Wish>,
    /// Until there is something to be exported.
    idle: Option<mpsc::Receiver<Arc<FinishedRequest>>>,
    thread: Option<JoinHandle<()>>,
    numbers: Arc<Numbers>,
}

impl Exporter {
    /// Exports these requests by the plan.
    pub fn start(records: Option<mpsc::Receiver<Arc<FinishedRequest>>>, plan: Option<&plan::Traces>) -> Exporter {
        let (wish, _) = watch::channel(Wish::Off);
        let mut exporter = Exporter { wish, idle: records, thread: None, numbers: Arc::default() };
        exporter.follow(plan);
        exporter
    }

    /// Follows another plan. Requests recorded under the previous plan go to its collector, if that accepts them soon.
    pub fn follow(&mut self, plan: Option<&plan::Traces>) {
        let wish = plan.map_or(Wish::Off, |plan| Wish::To(Arc::new(plan.clone())));
        self.wish.send_if_modified(|now| {
            let is_other = *now != wish;
            now.clone_from(&wish);
            is_other
        });
        if plan.is_none() {
            return;
        }
        let Some(records) = self.idle.take() else { return };
        let (wish, numbers) = (self.wish.subscribe(), self.numbers.clone());
        let run = move || match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime.block_on(Thread { records, wish, numbers, is_failing: false }.run()),
            Err(error) => tracing::error!(%error, "traces: cannot create an event loop; no traces are exported"),
        };
        match std::thread::Builder::new().name("traces".into()).spawn(run) {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => tracing::error!(%error, "traces: cannot start a thread; no traces are exported"),
        }
    }

    /// Returns the metrics of the exporter.
    pub fn metrics(&self) -> Metrics {
        Metrics::new(self.numbers.clone())
    }

    /// Exports the rest, if the collector accepts it soon.
    pub fn end(self) {
        self.wish.send_replace(Wish::End);
        if let Some(thread) = self.thread {
            // It does not panic; if it did, the log has it.
            let _ = thread.join();
        }
    }
}

/// State of the thread that exports.
struct Thread {
    records: mpsc::Receiver<Arc<FinishedRequest>>,
    wish: watch::Receiver<Wish>,
    numbers: Arc<Numbers>,
    /// True if the last batch could not be sent, which was logged.
    is_failing: bool,
}

impl Thread {
    async fn run(mut self) {
        loop {
            let wish = self.wish.borrow_and_update().clone();
            match wish {
                Wish::End => return,
                Wish::Off => {
                    // Nothing is recorded. Records that still arrive belong to the previous plan.
                    if self.wish.changed().await.is_err() {
                        return;
                    }
                }
                Wish::To(plan) => {
                    self.export(&plan).await;
                    if self.wish.has_changed().is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Exports by a plan until the plan changes.
    async fn export(&mut self, plan: &plan::Traces) {
        let mut collector = Collector::new(plan);
        loop {
            let mut batch = Vec::new();
            let wish = &mut self.wish;
            let is_over = tokio::select! {
                biased;
                () = gather(&mut self.records, &mut batch) => false,
                _ = wish.changed() => true,
            };
            if is_over || !self.bring(&mut collector, &batch).await {
                return self.bring_rest(&mut collector, batch).await;
            }
        }
    }

    /// Brings a batch, after pauses if the collector does not take it; `false` if there is another wish meanwhile.
    async fn bring(&mut self, collector: &mut Collector, batch: &[Arc<FinishedRequest>]) -> bool {
        let (began, mut pause) = (Instant::now(), PAUSE);
        loop {
            let fault = match collector.bring(batch).await {
                Ok(refused) => {
                    self.brought(batch, refused);
                    return true;
                }
                Err(fault) => fault,
            };
            self.say(&fault);
            if !fault.may_pass() || began.elapsed() + pause > PATIENCE {
                self.drop(batch, fault.may_pass());
                return true;
            }
            tokio::select! {
                () = tokio::time::sleep(fault.pause().unwrap_or(pause).min(PAUSE_MAX)) => {}
                _ = self.wish.changed() => return false,
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Sends the remaining records, if the collector accepts them soon. `batch`: records that were taken already.
    async fn bring_rest(&mut self, collector: &mut Collector, mut batch: Vec<Arc<FinishedRequest>>) {
        let until = Instant::now() + LAST;
        loop {
            while batch.len() < BATCH
                && let Ok(record) = self.records.try_recv()
            {
                batch.push(record);
            }
            if batch.is_empty() {
                return;
            }
            let left = until.saturating_duration_since(Instant::now());
            match timeout(left, collector.bring(&batch)).await {
                Ok(Ok(refused)) => self.brought(&batch, refused),
                Ok(Err(fault)) => {
                    self.say(&fault);
                    self.drop(&batch, fault.may_pass());
                }
                Err(_) => self.drop(&batch, true),
            }
            batch.clear();
        }
    }

    /// `refused`: spans that the collector did not want.
    fn brought(&mut self, batch: &[Arc<FinishedRequest>], refused: u64) {
        self.numbers.exported.fetch_add(spans::count(batch).saturating_sub(refused), Relaxed);
        self.numbers.refused.fetch_add(refused, Relaxed);
        if std::mem::take(&mut self.is_failing) {
            tracing::info!("traces: the collector accepts spans again");
        }
    }

    fn drop(&self, batch: &[Arc<FinishedRequest>], unreachable: bool) {
        let counter = if unreachable { &self.numbers.unreachable } else { &self.numbers.refused };
        counter.fetch_add(spans::count(batch), Relaxed);
    }

    /// Once, until it works again.
    fn say(&mut self, fault: &Fault) {
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!("traces: {fault}; spans that cannot be sent in time are dropped and counted");
        }
    }
}

/// Waits until there is a batch: a full batch, or the records of the second after its first record.
async fn gather(records: &mut mpsc::Receiver<Arc<FinishedRequest>>, batch: &mut Vec<Arc<FinishedRequest>>) {
    if records.recv_many(batch, BATCH).await == 0 {
        // The workers are gone; the next wish is about to arrive.
        return std::future::pending().await;
    }
    let until = Instant::now() + GATHER;
    while batch.len() < BATCH {
        match tokio::time::timeout_at(until, records.recv_many(batch, BATCH - batch.len())).await {
            Ok(1..) => {}
            _ => return,
        }
    }
}
