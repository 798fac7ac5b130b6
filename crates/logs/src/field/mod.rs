//! Meanings of the values in a log, which all formats share: a value is set by its field.

// Order: lists, text
mod lists;
mod text;

pub use lists::retries;
pub use text::{has_prefix, timer};

use crate::date;
use crate::fault::Fault;
use crate::number::{float, integer, span};
use crate::request::{End, Request};
use crate::time::{Span, Time};

/// Meaning of a value. Numbers of durations are the nanoseconds of their unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Value that no analysis needs.
    Skip,
    Arrived(Clock),
    Ended(Clock),
    Queue(u32),
    /// Time to connect to the last endpoint.
    Connect(u32),
    /// Time from the arrival to the head of the response.
    Ttfb(u32),
    Total(u32),
    /// Endpoint of the response, or the last that was tried.
    Endpoint,
    /// Endpoints of all tries, as NGINX lists them.
    Endpoints,
    /// Times from the arrival to the starts of all tries.
    Starts(u32),
    /// Connect times of all tries.
    Connects(u32),
    /// Times to the response head of all tries.
    Ttfbs(u32),
    /// Durations of all tries, until their ends.
    Spans(u32),
    Statuses,
    /// Tries as evenkeel writes them in templates.
    Attempts,
    /// Cause of the end of a try, by evenkeel.
    Cause,
    /// Number of tries, 0 if no endpoint was tried.
    Tries,
    /// Number of tries after the first.
    Retries,
    Listener,
    Route,
    Pool,
    /// Pool and endpoint with a slash between them.
    Server,
    /// Five timers of HAProxy in milliseconds.
    Timers,
    Status,
    BytesIn,
    BytesOut,
    Method,
    Host,
    Path,
    /// Method, path and version.
    RequestLine,
    Client,
    /// Address of the client, with its port.
    ClientPort,
    /// State of the end as letters of HAProxy.
    Letters,
    /// State of the end as flags of Envoy.
    Flags,
    Chance,
}

/// Form in which a log writes dates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// `06/Feb/2009:12:14:14.655 +0100`, as in Apache, NGINX and HAProxy.
    Apache,
    /// ISO 8601.
    Iso,
    /// Since 1970, in units of this many nanoseconds.
    Unix(u32),
}

impl Clock {
    pub fn read(self, text: &[u8]) -> Option<Time> {
        match self {
            Clock::Apache => date::apache(text),
            Clock::Iso => date::iso(text),
            Clock::Unix(unit) => span(text, unit).map(|Span { ns, resolution_ns }| Time { ns, resolution_ns }),
        }
    }
}

impl Field {
    /// Sets the value in the request. `at`: the try from 0 that the first value of a list belongs to.
    ///
    /// # Errors
    /// If the value has another form. A missing value, such as `-`, is not an error.
    pub fn set<'a>(self, text: &'a [u8], at: usize, request: &mut Request<'a>) -> Result<(), Fault> {
        let malformed = Fault::Malformed(self.name());
        if matches!(text, b"" | b"-") {
            // No flag is a normal end.
            if self == Field::Flags && text == b"-" {
                request.end = End::Normal;
            }
            return Ok(());
        }
        match self {
            Field::Skip => {}
            Field::Arrived(clock) => finer(&mut request.arrived, clock.read(text).ok_or(malformed)?),
            Field::Ended(clock) => finer(&mut request.ended, clock.read(text).ok_or(malformed)?),
            Field::Queue(unit) => request.queue = duration(text, unit, malformed)?,
            Field::Connect(unit) => request.connect = duration(text, unit, malformed)?,
            Field::Ttfb(unit) => request.ttfb = duration(text, unit, malformed)?,
            Field::Total(unit) => request.total = duration(text, unit, malformed)?,
            Field::Endpoint => request.endpoint = Some(text),
            Field::Endpoints
            | Field::Starts(_)
            | Field::Connects(_)
            | Field::Ttfbs(_)
            | Field::Spans(_)
            | Field::Statuses => {
                return self.set_list(text, at, request);
            }
            Field::Attempts => return lists::attempts(text, request),
            Field::Cause => {
                if let Some(one) = request.tries.at(at) {
                    one.outcome = text::outcome(text);
                }
            }
            Field::Tries => request.retries = count(text, malformed)?.checked_sub(1),
            Field::Retries => request.retries = Some(count(text, malformed)?),
            Field::Listener => request.listener = Some(text),
            Field::Route => request.route = Some(text),
            Field::Pool => request.pool = Some(text),
            Field::Server => text::server(text, request).ok_or(malformed)?,
            Field::Timers => text::timers(text, request).ok_or(malformed)?,
            // Without a response, evenkeel and Envoy write 0, HAProxy -1, and NGINX 000.
            Field::Status if matches!(text, b"0" | b"000" | b"-1") => {}
            Field::Status => request.status = Some(status(text).ok_or(malformed)?),
            Field::BytesIn => request.bytes_in = Some(integer(text).ok_or(malformed)?),
            Field::BytesOut => request.bytes_out = Some(integer(text).ok_or(malformed)?),
            Field::Method => request.method = Some(text),
            Field::Host => request.host = Some(text),
            Field::Path => request.path = Some(text),
            Field::RequestLine => text::request_line(text, request),
            Field::Client => request.client = Some(text),
            Field::ClientPort => request.client = Some(text::without_port(text)),
            Field::Letters => (request.term, request.end) = (Some(text), End::of_letters(text)),
            Field::Flags => (request.term, request.end) = (Some(text), End::of_flags(text)),
            Field::Chance => {
                let chance = float(text).filter(|chance| *chance > 0.0 && *chance <= 1.0);
                request.chance = Some(chance.ok_or(malformed)?);
            }
        }
        Ok(())
    }

    /// Name of the value in error messages.
    pub fn name(self) -> &'static str {
        match self {
            Field::Skip => "value",
            Field::Arrived(_) | Field::Ended(_) => "time",
            Field::Queue(_) => "queue time",
            Field::Connect(_) | Field::Connects(_) => "connect time",
            Field::Ttfb(_) | Field::Ttfbs(_) => "time to the response head",
            Field::Total(_) => "total time",
            Field::Endpoint | Field::Endpoints => "endpoint",
            Field::Starts(_) => "start of a try",
            Field::Spans(_) => "time at the endpoint",
            Field::Statuses | Field::Status => "status",
            Field::Attempts | Field::Cause => "tries",
            Field::Tries | Field::Retries => "number of tries",
            Field::Listener => "listener",
            Field::Route => "route",
            Field::Pool => "pool",
            Field::Server => "pool and endpoint",
            Field::Timers => "timers",
            Field::BytesIn | Field::BytesOut => "bytes",
            Field::Method => "method",
            Field::Host => "host",
            Field::Path => "path",
            Field::RequestLine => "request line",
            Field::Client | Field::ClientPort => "client",
            Field::Letters | Field::Flags => "termination state",
            Field::Chance => "probability of the pick",
        }
    }

    /// True if the value may be a list, whose separators contain spaces. Skipped values may be lists, too, such as the
    /// lengths of the responses of all tries.
    pub fn is_list(self) -> bool {
        matches!(
            self,
            Field::Skip
                | Field::Endpoints
                | Field::Starts(_)
                | Field::Connects(_)
                | Field::Ttfbs(_)
                | Field::Spans(_)
                | Field::Statuses
        )
    }
}

/// Keeps the finer of two times: a log may have whole seconds and milliseconds.
fn finer(kept: &mut Option<Time>, time: Time) {
    if kept.is_none_or(|kept| time.resolution_ns <= kept.resolution_ns) {
        *kept = Some(time);
    }
}

/// Reads a duration; `None` for -1.
fn duration(text: &[u8], unit: u32, malformed: Fault) -> Result<Option<Span>, Fault> {
    match text {
        [b'-', rest @ ..] if float(rest) == Some(1.0) => Ok(None),
        text => span(text, unit).map(Some).ok_or(malformed),
    }
}

fn count(text: &[u8], malformed: Fault) -> Result<u32, Fault> {
    integer(text).and_then(|n| n.try_into().ok()).ok_or(malformed)
}

fn status(text: &[u8]) -> Option<u16> {
    integer(text).filter(|status| (100..1000).contains(status)).map(|status| status as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(field: Field, text: &str) -> Result<Request<'_>, Fault> {
        let mut request = Request::default();
        field.set(text.as_bytes(), 0, &mut request).map(|()| request)
    }

    #[test]
    fn a_missing_value_is_not_an_error() {
        for text in ["", "-"] {
            for field in
                [Field::Total(1), Field::Endpoints, Field::Status, Field::BytesOut, Field::Timers, Field::Chance]
            {
                assert_eq!(read(field, text), Ok(Request::default()), "{field:?} {text}");
            }
        }
        assert_eq!(read(Field::Total(1), "-1"), Ok(Request::default()));
        assert_eq!(read(Field::Total(1), "-1.000"), Ok(Request::default()));
        assert_eq!(read(Field::Status, "0"), Ok(Request::default()));
    }

    #[test]
    fn a_malformed_value_is() {
        for (field, text) in [
            (Field::Total(1), "x"),
            (Field::Total(1), "-2"),
            (Field::Status, "20"),
            (Field::Status, "2000"),
            (Field::BytesIn, "1.5"),
            (Field::Chance, "0"),
            (Field::Chance, "1.1"),
            (Field::Retries, "99999999999"),
            (Field::Arrived(Clock::Iso), "now"),
        ] {
            assert_eq!(read(field, text), Err(Fault::Malformed(field.name())), "{text}");
        }
    }

    #[test]
    fn the_finer_time_is_kept() {
        let (coarse, fine) = (Field::Ended(Clock::Unix(1_000_000_000)), Field::Ended(Clock::Unix(1_000_000_000)));
        for order in [[(coarse, "5"), (fine, "5.123")], [(fine, "5.123"), (coarse, "5")]] {
            let mut request = Request::default();
            for (field, text) in order {
                field.set(text.as_bytes(), 0, &mut request).unwrap();
            }
            assert_eq!(request.ended.map(|time| time.ns), Some(5_123_000_000));
        }
    }
}
