//! Counts of known values over the requests of a log.

use crate::request::Request;
use crate::time::SECOND_NS;
use crate::tries::{Outcome, Try};

/// Value that an analysis needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Arrival,
    /// Time from the arrival to the end.
    Total,
    /// Endpoint of each request that reached a pool.
    Endpoint,
    /// Duration of the try that led to the response.
    EndpointTime,
    /// Number of tries, and each of them.
    Tries,
    /// Time that requests waited for an endpoint.
    Queue,
    Pool,
    /// Probability of each pick.
    Chance,
    Demand,
}

impl Need {
    pub const ALL: [Need; 9] = [
        Need::Arrival,
        Need::Total,
        Need::Endpoint,
        Need::EndpointTime,
        Need::Tries,
        Need::Queue,
        Need::Pool,
        Need::Chance,
        Need::Demand,
    ];
}

/// Counts of requests by their known values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    pub requests: u64,
    known: [u64; Need::ALL.len()],
    /// Requests that an endpoint responded to, as far as the log shows.
    answered: u64,
    /// Requests with tries of which only the last is described.
    undescribed: u64,
    /// Requests with several tries.
    retried: u64,
    /// Requests that were logged before their end.
    pub partial: u64,
    /// Finest unit of the arrivals; 0 before the first.
    arrival_ns: u32,
    /// Finest unit of the total times.
    total_ns: u32,
}

impl Coverage {
    /// Counts the known values of a request.
    pub fn add(&mut self, request: &Request<'_>) {
        let tries = request.tries.kept();
        let is_tried = !tries.is_empty() || request.endpoint.is_some();
        let count = request.tries_count();
        let may_answer = |one: &&Try<'_>| matches!(one.outcome, Outcome::Answered | Outcome::Unknown);
        let is_answered = tries.iter().any(|one| may_answer(&one));
        let timed = tries.iter().filter(may_answer).find(|one| one.took.is_some());
        let is_described = request.retries.is_some() && count == request.tries.count();
        let known = [
            request.arrived.is_some(),
            request.total.is_some(),
            request.endpoint.is_some(),
            is_answered && timed.is_some(),
            is_described || !is_tried && request.retries.is_some(),
            request.queue.is_some(),
            request.pool.is_some(),
            request.chance.is_some(),
            request.demand.is_some(),
        ];
        self.requests += 1;
        self.known.iter_mut().zip(known).for_each(|(count, known)| *count += u64::from(known));
        self.answered += u64::from(is_answered);
        self.retried += u64::from(count > 1);
        self.undescribed += u64::from(count > request.tries.count().max(1));
        self.partial += u64::from(request.is_partial);
        let finer = |kept: &mut u32, unit: u32| *kept = if *kept == 0 { unit } else { unit.min(*kept) };
        if let Some(arrived) = request.arrived {
            finer(&mut self.arrival_ns, arrived.resolution_ns);
        }
        if let Some(total) = request.total {
            finer(&mut self.total_ns, total.resolution_ns);
        }
    }

    /// Share of the requests that have the value, 0 to 1. Times at endpoints count among requests with a response.
    pub fn share(&self, need: Need) -> f64 {
        let of = if need == Need::EndpointTime { self.answered } else { self.requests };
        let at = Need::ALL.iter().position(|one| *one == need).unwrap_or_default();
        if of == 0 { 0.0 } else { self.known[at] as f64 / of as f64 }
    }

    /// Share of the requests with several tries of which not all are described, 0 to 1.
    pub fn undescribed(&self) -> f64 {
        self.undescribed as f64 / self.requests.max(1) as f64
    }

    /// Share of the requests with several tries, 0 to 1.
    pub fn retried(&self) -> f64 {
        self.retried as f64 / self.requests.max(1) as f64
    }

    /// Unit of the arrivals, in nanoseconds; a second if none is known.
    pub fn arrival_unit_ns(&self) -> u32 {
        if self.arrival_ns == 0 { SECOND_NS } else { self.arrival_ns }
    }

    /// Unit of the total times, in nanoseconds; a second if none is known.
    pub fn total_unit_ns(&self) -> u32 {
        if self.total_ns == 0 { SECOND_NS } else { self.total_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::Format;

    #[test]
    fn shares_are_those_of_requests_that_can_have_the_value() {
        let format = Format::named("httplog").unwrap();
        let mut coverage = Coverage::default();
        for back in [
            "b/a 0/0/1/2/3 200 9 - - ---- 1/1/1/1/0",
            "b/<NOSRV> 0/-1/-1/-1/3 503 9 - - SC-- 1/1/1/1/0",
            "b/a 0/0/1/2/3 200 9 - - ---- 1/1/1/1/2",
        ] {
            let mut request = Request::default();
            let line = format!("10.0.0.1:2 [20/Nov/2026:10:00:00.000] f {back} 0/0 \"GET / HTTP/1.1\"");
            format.read(line.as_bytes(), &mut request).unwrap();
            coverage.add(&request);
        }
        assert_eq!((coverage.share(Need::Arrival), coverage.share(Need::EndpointTime)), (1.0, 1.0));
        assert!((coverage.share(Need::Endpoint) - 2.0 / 3.0).abs() < 1e-9);
        assert!((coverage.undescribed() - 1.0 / 3.0).abs() < 1e-9 && coverage.retried() == coverage.undescribed());
        assert_eq!((coverage.arrival_unit_ns(), coverage.share(Need::Chance)), (1_000_000, 0.0));
    }
}
