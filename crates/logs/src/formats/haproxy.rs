//! Logs of HAProxy: `option httplog`, which evenkeel writes too, and `option tcplog`.
//! Source: HAProxy configuration manual, section 8.2.

use super::row::{Program, Reader, Row};
use crate::fault::Fault;
use crate::field::{Clock, Field, has_prefix, retries, timer};
use crate::number::integer;
use crate::request::{Counts, Demand, Request};
use crate::time::Span;

pub(super) const HTTP: Row = Row {
    name: "httplog",
    program: Program::Haproxy,
    summary: "HAProxy with option httplog, or evenkeel with format = \"httplog\"",
    make: || Box::new(Haproxy { is_http: true, capture: None }),
    settle,
};

pub(super) const TCP: Row = Row {
    name: "tcplog",
    program: Program::Haproxy,
    summary: "HAProxy with option tcplog",
    make: || Box::new(Haproxy { is_http: false, capture: None }),
    settle,
};

/// Reader of `httplog` and `tcplog`.
#[derive(Debug)]
pub(crate) struct Haproxy {
    is_http: bool,
    /// Number of the captured field from 1 that is the demand.
    capture: Option<usize>,
}

impl Reader for Haproxy {
    fn demand(&mut self, name: &str) -> bool {
        self.capture = name.strip_prefix("capture.").and_then(|n| n.parse().ok()).filter(|n| *n > 0);
        self.capture.is_some() && self.is_http
    }

    fn read<'a>(&self, line: &'a [u8], request: &mut Request<'a>) -> Result<(), Fault> {
        // Notices without a request, such as changes of health.
        if has_prefix(
            line,
            &["Proxy", "Server", "Backend", "backend", "Health", "Connect", "Stopping", "Pausing", "Resuming"],
        ) {
            return Err(Fault::Notice);
        }
        let mut words = Words { rest: line };
        Field::ClientPort.set(words.next("client")?, 0, request)?;
        let date = words.next("time")?.strip_prefix(b"[").and_then(|date| date.strip_suffix(b"]"));
        Field::Arrived(Clock::Apache).set(date.ok_or(Fault::Malformed("time"))?, 0, request)?;
        // An encrypted connection has a `~` behind the name.
        let listener = words.next("listener")?;
        if listener.ends_with(b":") {
            return Err(Fault::Notice); // a connection that failed before its first request
        }
        request.listener = Some(listener.strip_suffix(b"~").unwrap_or(listener));
        Field::Server.set(words.next("pool and endpoint")?, 0, request)?;
        let times = words.next("timers")?;
        if self.is_http {
            Field::Timers.set(times, 0, request)?;
            Field::Status.set(words.next("status")?, 0, request)?;
        } else {
            tcp_timers(times, request).ok_or(Fault::Malformed("timers"))?;
        }
        let bytes = words.next("bytes")?;
        Field::BytesOut.set(bytes.strip_prefix(b"+").unwrap_or(bytes), 0, request)?;
        if self.is_http {
            words.next("captured cookie")?;
            words.next("captured cookie")?;
        }
        let term = words.next("termination state")?;
        if term.len() != if self.is_http { 4 } else { 2 } {
            return Err(Fault::Malformed("termination state"));
        }
        Field::Letters.set(term, 0, request)?;
        counts(words.next("counts")?, words.next("queue lengths")?, request)?;
        match self.is_http {
            true => self.read_request(words.rest, request),
            false => Ok(()),
        }
    }
}

impl Haproxy {
    /// Reads the captured fields, and the request line.
    fn read_request<'a>(&self, text: &'a [u8], request: &mut Request<'a>) -> Result<(), Fault> {
        let (mut rest, mut number) = (text, 0);
        while rest.first() == Some(&b'{') {
            let end = memchr::memmem::find(rest, b"} ").ok_or(Fault::Lacks("request line"))?;
            if self.capture.is_some() {
                for value in rest[1..end].split(|b| *b == b'|') {
                    number += 1;
                    if self.capture == Some(number) {
                        request.demand = Demand::read(value);
                    }
                }
            }
            rest = &rest[end + 2..];
        }
        let line = rest.strip_prefix(b"\"").ok_or(Fault::Lacks("request line"))?;
        // Long lines are cut, and `option httpslog` adds values.
        let end = memchr::memchr(b'"', line).unwrap_or(line.len());
        Field::RequestLine.set(&line[..end], 0, request)
    }
}

/// Words with a space between them.
struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    fn next(&mut self, name: &'static str) -> Result<&'a [u8], Fault> {
        let end = memchr::memchr(b' ', self.rest).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.get(1..).unwrap_or_default();
        if word.is_empty() { Err(Fault::Lacks(name)) } else { Ok(word) }
    }
}

/// Sets the times of `Tw/Tc/Tt`, the timers of HAProxy for sessions.
fn tcp_timers(text: &[u8], request: &mut Request<'_>) -> Option<()> {
    let mut parts = text.split(|b| *b == b'/');
    let (queue, connect, total) = (parts.next()?, parts.next()?, parts.next()?);
    request.is_partial |= total.first() == Some(&b'+');
    request.queue = timer(queue)?;
    request.connect = timer(connect)?;
    request.total = timer(total.strip_prefix(b"+").unwrap_or(total))?;
    parts.next().is_none().then_some(())
}

/// Sets `ACTCONN/FECONN/BECONN/SRVCONN/RETRIES` and `SRVQUEUE/BACKENDQUEUE`.
fn counts(counts: &[u8], queues: &[u8], request: &mut Request<'_>) -> Result<(), Fault> {
    let malformed = Fault::Malformed("counts");
    let mut parts = counts.split(|b| *b == b'/');
    let mut next = || parts.next().ok_or(malformed);
    let number = |text: &[u8]| integer(text).map(|n| n.min(u64::from(u32::MAX)) as u32).ok_or(malformed);
    let [process, listener, pool, endpoint] = [number(next()?)?, number(next()?)?, number(next()?)?, number(next()?)?];
    request.retries = Some(retries(next()?, malformed)?);
    let at = memchr::memchr(b'/', queues).ok_or(malformed)?;
    let (endpoint_queue, pool_queue) = (number(&queues[..at])?, number(&queues[at + 1..])?);
    // All are 0 in lines of evenkeel, which does not count them.
    if process > 0 {
        request.counts = Some(Counts { process, listener, pool, endpoint, endpoint_queue, pool_queue });
    }
    Ok(())
}

fn settle(request: &mut Request<'_>) -> Result<(), Fault> {
    if let (Some(arrived), Some(head)) = (request.arrived, request.head) {
        request.arrived = Some(arrived.after(head));
    }
    request.settle();
    request.settle_try(true);
    if request.retries.is_some_and(|retries| retries > 0) {
        settle_retry(request);
    }
    Ok(())
}

/// Sets the times of the last try after others.
fn settle_retry(request: &mut Request<'_>) {
    // Pauses between tries count as queue, and earlier tries as connect time.
    let (queue, connect) = (request.queue.take(), request.connect.take());
    let began = connect.map(|connect| queue.unwrap_or(Span::ZERO).plus(connect));
    // In lines of evenkeel, which have no counts, the time to connect is that of the last try, and its start is unknown.
    let began = began.filter(|_| request.counts.is_some());
    let (ttfb, total) = (request.ttfb, request.total);
    if let (Some(last), Some(began)) = (request.tries.kept_mut().first_mut(), began) {
        let since = |span: Option<Span>| span.map(|span| span.minus(began));
        (last.began, last.ttfb, last.took) = (Some(began), since(ttfb), since(total));
    }
}

#[cfg(test)]
mod tests {
    use crate::formats::Format;
    use crate::request::{Demand, End, Request};
    use crate::{Fault, Outcome};

    fn read<'a>(format: &str, line: &'a str) -> Result<Request<'a>, Fault> {
        let mut request = Request::default();
        Format::named(format).unwrap().read(line.as_bytes(), &mut request).map(|()| request)
    }

    /// Example of the manual of HAProxy.
    const HTTP: &str = "Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in~ \
        static/srv1 10/5/30/69/114 200 2750 - - ---- 2/2/1/1/0 0/3 {1wt.eu|12 b} {} \"GET /index.html HTTP/1.1\"";

    #[test]
    fn an_http_line_has_all_phases() {
        let request = read("httplog", HTTP).unwrap();
        let ms = |span: Option<crate::Span>| span.map(|span| span.ns / 1_000_000);
        assert_eq!(request.arrived.map(|t| t.ns % 10_000_000_000), Some(4_665_000_000));
        assert_eq!(request.ended.map(|t| t.ns % 10_000_000_000), Some(4_769_000_000));
        assert_eq!([ms(request.head), ms(request.queue), ms(request.total)], [Some(10), Some(5), Some(104)]);
        assert_eq!((request.listener, request.pool), (Some(&b"http-in"[..]), Some(&b"static"[..])));
        let one = request.tries.kept()[0];
        assert_eq!((one.endpoint, one.outcome, one.status), (Some(&b"srv1"[..]), Outcome::Answered, Some(200)));
        assert_eq!(
            [ms(one.began), ms(one.connect), ms(one.ttfb), ms(one.took)],
            [Some(5), Some(30), Some(99), Some(99)]
        );
        assert_eq!((request.bytes_out, request.end, request.retries), (Some(2750), End::Normal, Some(0)));
        assert_eq!(request.counts.map(|c| (c.process, c.endpoint, c.pool_queue)), Some((2, 1, 3)));
        assert_eq!((request.method, request.path), (Some(&b"GET"[..]), Some(&b"/index.html"[..])));
        assert_eq!(request.client, Some(&b"10.0.1.2"[..]));
    }

    #[test]
    fn captured_fields_may_be_the_demand() {
        for (name, expected) in [
            ("capture.1", Some(Demand::Class(b"1wt.eu"))),
            ("capture.2", Some(Demand::Class(b"12 b"))),
            ("capture.3", None),
            ("bytes_out", Some(Demand::Amount(2750.0))),
        ] {
            let mut request = Request::default();
            Format::named("httplog").unwrap().with_demand(name).unwrap().read(HTTP.as_bytes(), &mut request).unwrap();
            assert_eq!(request.demand, expected, "{name}");
        }
        assert!(Format::named("httplog").unwrap().with_demand("tokens").is_err());
    }

    #[test]
    fn requests_without_an_endpoint_have_no_try() {
        let line = "10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in http-in/<NOSRV> -1/-1/-1/-1/+8 400 +187 - - PR-- 1/1/0/0/0 0/0 \"<BADREQ>\"";
        let request = read("httplog", line).unwrap();
        assert_eq!((request.endpoint, request.tries.count(), request.end), (None, 0, End::Proxy));
        assert_eq!((request.method, request.is_partial, request.bytes_out), (None, true, Some(187)));
        let line = "10.0.1.2:3 [06/Feb/2009:12:14:14.655] in back/a 0/0/-1/-1/30001 503 0 - - sC-- 1/1/0/0/+3 0/0 \"GET / HTTP";
        let request = read("httplog", line).unwrap();
        let last = request.tries.kept()[0];
        assert_eq!(
            (last.took, last.outcome, request.retries, request.tries_count()),
            (None, Outcome::TimedOut, Some(3), 4)
        );
    }

    #[test]
    fn a_retry_begins_when_its_connection_is_open() {
        let line = "10.0.1.2:3 [06/Feb/2009:12:14:14.655] in back/a 0/2/1005/20/1040 200 9 - - ---- 1/1/0/0/+1 0/0 \"GET / HTTP/1.1\"";
        let request = read("httplog", line).unwrap();
        let last = request.tries.kept()[0];
        let ms = |span: Option<crate::Span>| span.map(|span| span.ns / 1_000_000);
        assert_eq!(
            [ms(last.began), ms(last.connect), ms(last.ttfb), ms(last.took)],
            [Some(1007), None, Some(20), Some(33)]
        );
    }

    #[test]
    fn a_tcp_line_has_three_timers() {
        let line = "<134>Feb  6 12:12:56 haproxy[14387]: 10.0.1.2:33313 [06/Feb/2009:12:12:51.443] fnt bck/srv1 0/1/5007 212 -- 0/0/0/0/3 0/0";
        let request = read("tcplog", line).unwrap();
        assert_eq!(request.total.map(|t| t.ns), Some(5_007_000_000));
        assert_eq!((request.endpoint, request.bytes_out, request.retries), (Some(&b"srv1"[..]), Some(212), Some(3)));
        assert_eq!(read("httplog", line), Err(Fault::Malformed("timers")));
        assert_eq!(read("tcplog", HTTP), Err(Fault::Malformed("timers")));
    }

    #[test]
    fn notices_are_not_malformed_requests() {
        for line in [
            "Nov 20 10:00:00 lb haproxy[9]: Server web/a is DOWN, reason: Layer4 connection problem",
            "Nov 20 10:00:00 lb haproxy[9]: Connect from 10.0.1.2:33312 to 10.0.3.31:8012 (www/HTTP)",
            "10.0.1.2:1 [20/Nov/2026:10:00:00.000] in/1: SSL handshake failure",
        ] {
            assert_eq!(read("httplog", line), Err(Fault::Notice), "{line}");
        }
    }
}
