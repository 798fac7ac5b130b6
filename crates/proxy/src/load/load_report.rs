//! Load report of the application behind a listener, for balancers in front: the exact number of requests in flight
//! through the listener, over all workers and including queued requests; and the latency of a request at that load.

use evenkeel_balance::{Instant, LoadEstimate, LoadReport};
use evenkeel_config::plan::ReportLoad;
use evenkeel_wire::orca::{FIELD, LATENCY, STAMP};
use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

/// Load of a listener, shared by the workers. Relaxed throughout: the values are independent.
#[derive(Debug)]
pub struct SharedLoad {
    in_flight: AtomicU32,
    /// The latest estimate of any worker, in nanoseconds; used by workers that have served nothing yet.
    latency_ns: AtomicU64,
    stamp: AtomicU64,
}

impl Default for SharedLoad {
    fn default() -> SharedLoad {
        // Stamps increase by 1 per report. They start at the time in microseconds, so that they also increase over a
        // restart, unless more than a million reports per second were sent. Below 2^53, exact in a float, until the
        // year 2255.
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let stamp = AtomicU64::new(unix.as_micros() as u64);
        SharedLoad { in_flight: AtomicU32::new(0), latency_ns: AtomicU64::new(0), stamp }
    }
}

/// Load reporter of a listener for a worker.
#[derive(Debug)]
pub struct Reporter {
    /// Configuration of the reports.
    pub plan: ReportLoad,
    shared: Arc<SharedLoad>,
    /// Latency estimate of this worker, kept across plans.
    estimate: Rc<RefCell<LoadEstimate>>,
}

/// Counts a request as in flight through a listener that reports, until dropped.
#[derive(Debug)]
pub struct Working {
    reporter: Rc<Reporter>,
    /// Other requests in flight at its start.
    found: u32,
}

impl Reporter {
    /// Creates a reporter; `before` is the listener's previous reporter, whose estimate continues.
    pub fn new(plan: ReportLoad, shared: Arc<SharedLoad>, before: Option<&Reporter>) -> Reporter {
        Reporter { plan, shared, estimate: before.map(|before| before.estimate.clone()).unwrap_or_default() }
    }

    /// Counts a request as in flight, until the result is dropped.
    pub fn begin(self: &Rc<Reporter>) -> Working {
        Working { reporter: self.clone(), found: self.shared.in_flight.fetch_add(1, Relaxed) }
    }

    /// Returns the report for this moment.
    pub fn load(&self, now: Instant) -> LoadReport {
        self.load_beside(0, now)
    }

    /// Returns the load without `ending` of the requests in flight.
    fn load_beside(&self, ending: u32, now: Instant) -> LoadReport {
        let shared = &self.shared;
        let in_flight = shared.in_flight.load(Relaxed).saturating_sub(ending);
        let latency_ns = match self.estimate.borrow_mut().latency_ns(in_flight, now) {
            0 => shared.latency_ns.load(Relaxed),
            ns => {
                shared.latency_ns.store(ns, Relaxed);
                ns
            }
        };
        LoadReport { in_flight, latency_ns, stamp: shared.stamp.fetch_add(1, Relaxed) }
    }
}

impl Working {
    /// Records a successful response, `latency_ns` after the start of the request.
    pub fn answered(&self, latency_ns: u64, now: Instant) {
        self.reporter.estimate.borrow_mut().ended(self.found, latency_ns, now);
    }

    /// Returns the load without this request, which is about to end.
    pub fn load(&self, now: Instant) -> LoadReport {
        self.reporter.load_beside(1, now)
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.reporter.shared.in_flight.fetch_sub(1, Relaxed);
    }
}

/// Appends a header field with a report, ending in CRLF.
pub fn write_field(load: &LoadReport, out: &mut Vec<u8>) {
    let LoadReport { in_flight, latency_ns, stamp } = load;
    // Writing to a vector cannot fail.
    let _ = write!(
        out,
        "{FIELD}: TEXT named_metrics.in_flight={in_flight},named_metrics.{LATENCY}={latency_ns},named_metrics.{STAMP}={stamp}\r\n"
    );
}

/// Formats the load as JSON, for people.
pub fn json(load: &LoadReport) -> String {
    let LoadReport { in_flight, latency_ns, stamp } = load;
    format!("{{\"named_metrics\":{{\"in_flight\":{in_flight},\"{LATENCY}\":{latency_ns},\"{STAMP}\":{stamp}}}}}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_wire::orca;

    fn reporter(shared: &Arc<SharedLoad>) -> Rc<Reporter> {
        let plan = ReportLoad { header: true, udp: false, path: "/load".to_string() };
        Reporter::new(plan, shared.clone(), None).into()
    }

    #[test]
    fn workers_count_together_and_no_two_reports_have_the_same_stamp() {
        let shared = Arc::new(SharedLoad::default());
        let (one, other) = (reporter(&shared), reporter(&shared));
        let (first, second) = (one.begin(), other.begin());
        let loads = [one.load(Instant(0)), second.load(Instant(0)), first.load(Instant(0))];
        assert_eq!(loads.map(|load| load.in_flight), [2, 1, 1]);
        assert!(loads.windows(2).all(|pair| pair[0].stamp < pair[1].stamp), "{loads:?}");
        drop((first, second));
        assert_eq!(other.load(Instant(0)).in_flight, 0);
    }

    #[test]
    fn a_worker_without_an_estimate_tells_that_of_another_and_a_new_plan_keeps_it() {
        let shared = Arc::new(SharedLoad::default());
        let (busy, fresh) = (reporter(&shared), reporter(&shared));
        assert_eq!(fresh.load(Instant(0)).latency_ns, 0);
        let now = Instant(1_000_000_000);
        busy.begin().answered(3_000_000, now);
        let told = busy.load(now).latency_ns;
        assert!(told > 0);
        assert_eq!(fresh.load(now).latency_ns, told);
        let next = Reporter::new(busy.plan.clone(), Arc::default(), Some(&busy));
        assert_eq!(next.load(now).latency_ns, told);
    }

    #[test]
    fn what_is_told_is_what_is_read() {
        let load = LoadReport { in_flight: 7, latency_ns: 1_234_567, stamp: 1_760_000_000_000_001 };
        let mut field = Vec::new();
        write_field(&load, &mut field);
        let value = field.strip_prefix(b"endpoint-load-metrics:").expect("the name of the field");
        let read = |value: &[u8]| {
            let names = ["in_flight".to_string()];
            let read = orca::read(|name| (name == FIELD).then_some(value), &names).expect("there is one");
            let (_, report) = read.expect("it is good");
            [report.in_flight, report.latency_ns, report.stamp].map(|x| x.expect("all are there") as u64)
        };
        assert_eq!(read(value), [7, 1_234_567, 1_760_000_000_000_001]);
        assert_eq!(read(format!("JSON {}", json(&load)).as_bytes()), [7, 1_234_567, 1_760_000_000_000_001]);
    }
}
