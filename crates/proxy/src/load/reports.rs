//! Load reports of endpoints: parsed, counted, shown, and passed to the pool's balancer. Ignored reports are counted
//! too; they have no effect on their request.

use crate::observe::dropped_report::Dropped;
use crate::upstream::pool::{Endpoint, WorkerPool};
use evenkeel_balance::{Instant, LoadReport, Refused, Slot};
use evenkeel_config::plan::LoadReports;
use evenkeel_wire::head::Fields;
use evenkeel_wire::orca::{self, Form, Malformed, Report};
use std::cell::Ref;
use std::rc::Rc;

/// Transport of a report: with a response, or in the answer to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    InBand(Form),
    Udp,
    Http,
}

impl Came {
    fn index(self) -> usize {
        match self {
            Came::InBand(form) => form as usize,
            Came::Udp => 3,
            Came::Http => 4,
        }
    }
}

/// A report whose request is still in flight.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    came: Came,
    report: Report,
    at: Instant,
}

/// Maximum age of a report at the end of its response, in nanoseconds.
const AGE_MAX_NS: u64 = 1_000_000_000;

impl WorkerPool {
    /// Rules for load reports in responses, if the pool uses them. Must not be held across an await.
    pub fn hears(&self) -> Option<Ref<'_, LoadReports>> {
        Ref::filter_map(self.plan(), |pool| pool.load_reports.as_ref().filter(|reports| reports.in_band)).ok()
    }

    /// Reads the report in the head of a response.
    pub fn hear(&self, reports: &LoadReports, fields: &Fields<'_, '_>, now: Instant) -> Option<Received> {
        self.read(reports, |name| fields.first(name), now)
    }

    /// Reads the report in trailers, given as the lines of a body whose framing was checked.
    pub fn hear_trailers(&self, reports: &LoadReports, trailers: &[u8], now: Instant) -> Option<Received> {
        self.read(
            reports,
            |name| fields(trailers).find(|(n, ..)| n.eq_ignore_ascii_case(name.as_bytes())).map(|f| f.1),
            now,
        )
    }

    fn read<'v>(
        &self,
        reports: &LoadReports,
        field: impl Fn(&str) -> Option<&'v [u8]>,
        now: Instant,
    ) -> Option<Received> {
        match orca::read(field, &reports.in_flight)? {
            Ok((form, report)) => Some(Received { came: Came::InBand(form), report, at: now }),
            Err(why) => {
                self.drop_report(Dropped::Malformed(why));
                None
            }
        }
    }

    /// Applies the report of a response that has ended. Not earlier: until then, both the endpoint and this side count
    /// the request.
    pub fn take_received(&self, slot: Slot, endpoint: &Rc<Endpoint>, received: Received, now: Instant) {
        let Received { came, report, at } = received;
        if now.since(at) > AGE_MAX_NS {
            return self.drop_report(Dropped::Stale);
        }
        self.take_report(slot, endpoint, came, &report, now);
    }

    /// Applies a report of the endpoint that has, or had, this slot.
    pub fn take_report(&self, slot: Slot, endpoint: &Rc<Endpoint>, came: Came, report: &Report, now: Instant) {
        self.stats.reports[came.index()].add(1);
        endpoint.stats.reported.show(report, now);
        // Casts saturate; the balancer refuses such large values.
        let whole = |x: Option<f64>| x.map_or(0, |x| x as u64);
        let Some(in_flight) = report.in_flight else { return self.drop_report(Dropped::UtilizationOnly) };
        let (latency_ns, stamp) = (whole(report.latency_ns), whole(report.stamp));
        let load = LoadReport { in_flight: in_flight.round() as u32, latency_ns, stamp };
        // The slot may belong to another endpoint by now.
        let taken = match self.endpoints.has(slot, endpoint) {
            true => self.balancer.borrow_mut().report(slot, &load, now),
            false => Err(Refused::Gone),
        };
        if let Err(why) = taken {
            self.drop_report(Dropped::Refused(why));
        }
    }

    /// Counts an answer to a probe whose report cannot be parsed.
    pub fn drop_malformed(&self, why: Malformed) {
        self.drop_report(Dropped::Malformed(why));
    }

    #[cold]
    fn drop_report(&self, why: Dropped) {
        self.stats.reports_dropped[why.index()].add(1);
    }
}

/// Iterates over trailer fields as name, value and whole line; skips the empty line at the end.
fn fields(trailers: &[u8]) -> impl Iterator<Item = (&[u8], &[u8], &[u8])> {
    trailers.split_inclusive(|b| *b == b'\n').filter_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        Some((&line[..colon], line[colon + 1..].trim_ascii(), line))
    })
}

/// Appends the trailers without load reports, and the empty line behind them.
pub fn strip(trailers: &[u8], out: &mut Vec<u8>) {
    fields(trailers).filter(|(name, ..)| !orca::is_field(name)).for_each(|(_, _, line)| out.extend_from_slice(line));
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::stats::CAME;

    #[test]
    fn each_reason_has_a_counter_and_a_name_of_its_own() {
        let refused = Refused::ALL.map(Dropped::Refused);
        let all = Malformed::ALL.map(Dropped::Malformed).into_iter().chain(refused);
        let all = all.chain([Dropped::Stale, Dropped::UtilizationOnly]);
        assert!(all.clone().map(Dropped::index).eq(0..Dropped::COUNT));
        let mut names = Dropped::names();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
        assert_eq!(Came::Http.index(), CAME.len() - 1);
        assert_eq!(CAME[Came::InBand(Form::Text).index()], "text");
    }

    #[test]
    fn trailers_go_on_without_reports() {
        let mut out = Vec::new();
        strip(
            b"Etag: 1\r\nEndpoint-Load-Metrics: TEXT eps=1\r\nx:\r\nendpoint-load-metrics-bin: AA==\r\n\r\n",
            &mut out,
        );
        assert_eq!(out, b"Etag: 1\r\nx:\r\n\r\n");
    }
}
