//! JSON of Caddy. Its lines have the endpoint only if `log_append` adds it.

use super::row::{Program, Row};
use crate::fault::Fault;
use crate::field::{Clock, Field};
use crate::json::{Keys, Meaning};
use crate::request::{End, Request};
use crate::time::{MILLISECOND_NS, SECOND_NS};

pub(super) const JSON: Row =
    Row { name: "caddy", program: Program::Caddy, summary: "Caddy with JSON", make: || Box::new(keys()), settle };

/// Keys of the line. It is written at the end of the request.
const KEYS: &[(&str, Field)] = &[
    ("ts", Field::Ended(Clock::Unix(SECOND_NS))),
    ("logger", Field::Listener),
    ("bytes_read", Field::BytesIn),
    ("duration", Field::Total(SECOND_NS)),
    ("size", Field::BytesOut),
    ("status", Field::Status),
    // Added as the guide recommends: see `lacks`.
    ("upstream", Field::Endpoint),
    ("upstream_latency_ms", Field::Ttfbs(MILLISECOND_NS)),
    ("upstream_duration_ms", Field::Spans(MILLISECOND_NS)),
    ("upstream_retries", Field::Retries),
];

const OF_REQUEST: &[(&str, Field)] = &[
    ("remote_ip", Field::Client),
    ("client_ip", Field::Client),
    ("method", Field::Method),
    ("host", Field::Host),
    ("uri", Field::Path),
];

fn keys() -> Keys {
    let mut keys = Keys::of(KEYS);
    keys.add("request", Meaning::Inside(Keys::of(OF_REQUEST)));
    keys
}

fn settle(request: &mut Request<'_>) -> Result<(), Fault> {
    if request.ended.is_none() || request.total.is_none() || request.method.is_none() {
        return Err(Fault::Lacks("ts, duration and request"));
    }
    // Without a status, the client left before the response.
    request.end = request.status.map_or(End::Client, |status| End::of_status(Some(status)));
    let own = request.tries.kept().first().copied().unwrap_or_default();
    request.tries.clear();
    request.settle();
    request.settle_try(false);
    let is_only = request.retries.unwrap_or(0) == 0;
    if let Some(only) = request.tries.kept_mut().first_mut().filter(|_| is_only) {
        (only.ttfb, only.took) = (own.ttfb, own.took);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::fault::Fault;
    use crate::formats::Format;
    use crate::request::Request;

    #[test]
    fn a_line_is_read_with_added_values_and_without() {
        let line = r#"{"level":"info","ts":1795132800.5241024,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"127.0.0.1","remote_port":"41342","proto":"HTTP/2.0","method":"GET","host":"localhost","uri":"/a","headers":{"User-Agent":["curl/8"]},"tls":{"resumed":false}},"bytes_read":0,"user_id":"","duration":0.000929675,"size":10900,"status":200,"resp_headers":{"Server":["Caddy"]}}"#;
        let format = Format::named("caddy").unwrap();
        let mut request = Request::default();
        format.read(line.as_bytes(), &mut request).unwrap();
        assert_eq!(
            (request.total.map(|s| s.ns), request.bytes_out, request.tries.count()),
            (Some(929_675), Some(10_900), 0)
        );
        assert_eq!(request.arrived.map(|t| t.ns % 1_000_000_000), Some(523_172_725));
        let added =
            line.replace("\"status\":200", "\"status\":200,\"upstream\":\"10.0.0.1:80\",\"upstream_duration_ms\":0.75");
        format.read(added.as_bytes(), &mut request).unwrap();
        let [only] = request.tries.kept() else { panic!("{request:?}") };
        assert_eq!((only.endpoint, only.took.map(|s| s.ns)), (Some(&b"10.0.0.1:80"[..]), Some(750_000)));
        let notice = br#"{"level":"info","ts":1795132800.5,"logger":"tls","msg":"cleaning storage unit"}"#;
        assert!(matches!(format.read(notice, &mut request), Err(Fault::Lacks(_))));
    }
}
