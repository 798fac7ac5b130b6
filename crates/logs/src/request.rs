//! A request as its line in a log has it. Texts are as written, with the escapes of the format.

use crate::time::{Span, Time};
use crate::tries::{Outcome, Tries, Try};

/// Request, or session of TCP. Values that the log lacks are `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request<'a> {
    /// Moment at which an endpoint could be picked, as far as the log has it: HAProxy's start plus its time to receive
    /// the head of the request (`%tr` + `%TR`), evenkeel's `ts`, elsewhere the start of the request.
    pub arrived: Option<Time>,
    /// Moment at which the last byte was sent to the client.
    pub ended: Option<Time>,
    /// Time to receive the head of the request, before [`arrived`](Self::arrived).
    pub head: Option<Span>,
    /// Time in the queue for an endpoint. `None` for retried requests of HAProxy, whose pauses count as queue, too.
    pub queue: Option<Span>,
    /// Time to connect to the last endpoint.
    pub connect: Option<Span>,
    /// Time from the arrival to the head of the response.
    pub ttfb: Option<Span>,
    /// Time from the arrival to the end.
    pub total: Option<Span>,
    /// Listener, frontend or entry point.
    pub listener: Option<&'a [u8]>,
    pub route: Option<&'a [u8]>,
    /// Pool, backend, cluster or service.
    pub pool: Option<&'a [u8]>,
    /// Endpoint whose response the client got, or the last that was tried.
    pub endpoint: Option<&'a [u8]>,
    /// Tries that the log describes. Of several, most formats describe only the last.
    pub tries: Tries<'a>,
    /// Number of tries after the first.
    pub retries: Option<u32>,
    /// Status of the response; `None` also if none was sent.
    pub status: Option<u16>,
    /// Bytes received from the client.
    pub bytes_in: Option<u64>,
    /// Bytes sent to the client. Whether the head of the response counts depends on the format.
    pub bytes_out: Option<u64>,
    pub method: Option<&'a [u8]>,
    pub host: Option<&'a [u8]>,
    /// Path with the query, as the client sent it.
    pub path: Option<&'a [u8]>,
    /// Address of the client, without its port.
    pub client: Option<&'a [u8]>,
    /// State of the end as written: two or four letters of HAProxy and evenkeel, flags of Envoy.
    pub term: Option<&'a [u8]>,
    pub end: End,
    /// True if the line was written before the end (`option logasap` of HAProxy): times and sizes are lower bounds.
    pub is_partial: bool,
    /// Counts of requests and connections as the line was written.
    pub counts: Option<Counts>,
    /// Probability with which the endpoint was picked, above 0 and up to 1.
    pub chance: Option<f64>,
    /// Value of the field that was chosen as demand.
    pub demand: Option<Demand<'a>>,
}

/// Work of a request, by a field of the log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Demand<'a> {
    /// Amount, such as bytes or tokens.
    Amount(f64),
    /// Class, such as a route: requests of a class are alike.
    Class(&'a [u8]),
}

/// Counts that HAProxy logs, each with the request itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Connections of the process.
    pub process: u32,
    pub listener: u32,
    pub pool: u32,
    pub endpoint: u32,
    /// Requests that waited before this request for the endpoint.
    pub endpoint_queue: u32,
    /// Requests that waited before this request for any endpoint of the pool.
    pub pool_queue: u32,
}

/// Side that ended a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// The log has no value that shows it.
    #[default]
    Unknown,
    Normal,
    /// The client closed or reset the connection.
    Client,
    ClientSlow,
    /// No connection, or it broke.
    Endpoint,
    EndpointSlow,
    /// The balancer refused the request, or stopped it.
    Proxy,
}

impl End {
    /// End by the first letter of a state of HAProxy or evenkeel.
    pub(crate) fn of_letters(term: &[u8]) -> End {
        match term.first() {
            Some(b'-') => End::Normal,
            Some(b'C') => End::Client,
            Some(b'c') => End::ClientSlow,
            Some(b'S' | b'D') => End::Endpoint,
            Some(b's') => End::EndpointSlow,
            // Responses of HAProxy itself, such as redirects, have an L.
            Some(b'L') => End::Normal,
            Some(b'P' | b'R' | b'I' | b'K' | b'U') => End::Proxy,
            _ => End::Unknown,
        }
    }

    /// End by the response flags of Envoy.
    pub(crate) fn of_flags(flags: &[u8]) -> End {
        let ends = flags.split(|b| *b == b',').map(|flag| match flag {
            b"DC" | b"DPE" | b"DR" => End::Client,
            b"SI" | b"DT" => End::ClientSlow,
            b"UF" | b"UC" | b"UR" | b"LR" | b"UPE" | b"URX" => End::Endpoint,
            b"UT" | b"UMSDR" => End::EndpointSlow,
            b"-" | b"FI" | b"DI" | b"RFCF" => End::Normal,
            _ => End::Proxy,
        });
        // `URX,UT` and `UF,URX`: the flag that is not about retries says more.
        ends.reduce(|one, other| if other == End::Normal || one == End::EndpointSlow { one } else { other })
            .unwrap_or_default()
    }

    /// End by the status of the response, for formats without a state.
    pub(crate) fn of_status(status: Option<u16>) -> End {
        match status {
            Some(460 | 499) => End::Client,
            Some(408) => End::ClientSlow,
            Some(502) => End::Endpoint,
            Some(504) => End::EndpointSlow,
            Some(_) => End::Normal,
            None => End::Unknown,
        }
    }

    fn outcome(self) -> Outcome {
        match self {
            End::Normal => Outcome::Answered,
            End::Client | End::ClientSlow => Outcome::Left,
            End::Endpoint => Outcome::Broken,
            End::EndpointSlow => Outcome::TimedOut,
            End::Unknown | End::Proxy => Outcome::Unknown,
        }
    }
}

impl<'a> Request<'a> {
    /// Number of tries: as logged, or those that the log describes.
    pub fn tries_count(&self) -> u32 {
        self.retries.map_or(0, |retries| retries.saturating_add(1)).max(self.tries.count())
    }

    /// Sets the time of which the two others are known, and the endpoint by the tries.
    pub(crate) fn settle(&mut self) {
        match (self.arrived, self.ended, self.total) {
            (Some(arrived), None, Some(total)) => self.ended = Some(arrived.after(total)),
            (None, Some(ended), Some(total)) => self.arrived = Some(ended.before(total)),
            (Some(arrived), Some(ended), None) => self.total = Some(ended.since(arrived)),
            _ => {}
        }
        if self.endpoint.is_none() {
            let answered = self.tries.kept().iter().find(|one| one.outcome == Outcome::Answered);
            self.endpoint = answered.or(self.tries.kept().last()).and_then(|one| one.endpoint);
        }
    }

    /// Describes the only try by the times of the request, if the log describes none. `is_timed`: the total time is
    /// that of the try and of the queue before it.
    pub(crate) fn settle_try(&mut self, is_timed: bool) {
        let is_only = self.retries.unwrap_or(0) == 0;
        if self.tries.count() == 0 && self.endpoint.is_some() {
            let (queue, endpoint, end) = (self.queue.unwrap_or(Span::ZERO), self.endpoint, self.end);
            let only = |span: Option<Span>| span.filter(|_| is_only).map(|span| span.minus(queue));
            let (began, connect) = (is_only.then_some(queue), self.connect.filter(|_| is_only));
            let (ttfb, took) = (only(self.ttfb), only(self.total).filter(|_| is_timed));
            let status = self.status.filter(|_| end == End::Normal);
            if let Some(only) = self.tries.at(0) {
                *only = Try { endpoint, began, connect, ttfb, took, status, outcome: end.outcome(), redirect: 0 };
            }
        }
    }

    /// Sets the starts of tries that followed each other.
    pub(crate) fn settle_starts(&mut self) {
        let mut began = Some(self.queue.unwrap_or(Span::ZERO));
        if self.tries.kept().iter().any(|one| one.outcome == Outcome::Overtaken) {
            return;
        }
        for one in self.tries.kept_mut() {
            one.began = one.began.or(began);
            began = one.began.zip(one.took).map(|(began, took)| began.plus(took));
        }
    }
}
