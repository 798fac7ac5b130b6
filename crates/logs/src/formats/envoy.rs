//! Logs of Envoy: its default format and that of Istio, formats given as text, and JSON with the usual keys.
//! Source: Envoy documentation, "Access logging"; `router.cc` for the service time.

use super::row::{Program, Row};
use crate::fault::Fault;
use crate::field::{Clock, Field};
use crate::json::Keys;
use crate::request::Request;
use crate::template::Template;
use crate::time::{MICROSECOND_NS, MILLISECOND_NS, SECOND_NS};

pub(super) const DEFAULT: Row = Row {
    name: "envoy",
    program: Program::Envoy,
    summary: "Envoy with its default format",
    make: || Box::new(template(DEFAULT_FORMAT).unwrap_or_default()),
    settle,
};

pub(super) const ISTIO: Row = Row {
    name: "istio",
    program: Program::Envoy,
    summary: "Envoy with the default format of Istio",
    make: || Box::new(template(ISTIO_FORMAT).unwrap_or_default()),
    settle,
};

pub(super) const JSON: Row = Row {
    name: "envoy-json",
    program: Program::Envoy,
    summary: "Envoy with JSON and the usual keys",
    make: || Box::new(Keys::of(KEYS)),
    settle: |request| {
        // NGINX and others have neither.
        let is_envoy = request.total.is_some() && request.arrived.is_some();
        if is_envoy { settle(request) } else { Err(Fault::Lacks("start_time and duration")) }
    },
};

/// Row of formats that are given as text.
pub(super) const TEXT: Row = Row {
    name: "envoy:TEXT_FORMAT",
    program: Program::Envoy,
    summary: "Envoy with this text_format",
    make: || Box::new(Template::default()),
    settle,
};

const DEFAULT_FORMAT: &str = r#"[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% %BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%""#;

const ISTIO_FORMAT: &str = r#"[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% %CONNECTION_TERMINATION_DETAILS% "%UPSTREAM_TRANSPORT_FAILURE_REASON%" %BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%" %UPSTREAM_CLUSTER_RAW% %UPSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_REMOTE_ADDRESS% %REQUESTED_SERVER_NAME% %ROUTE_NAME%"#;

/// Meanings of command operators, without their arguments.
const OPERATORS: &[(&str, Field)] = &[
    ("DURATION", Field::Total(MILLISECOND_NS)),
    ("RESPONSE_DURATION", Field::Ttfb(MILLISECOND_NS)),
    ("RESPONSE_CODE", Field::Status),
    ("RESPONSE_FLAGS", Field::Flags),
    ("BYTES_RECEIVED", Field::BytesIn),
    ("BYTES_SENT", Field::BytesOut),
    ("UPSTREAM_HOST", Field::Endpoint),
    ("UPSTREAM_REMOTE_ADDRESS", Field::Endpoint),
    // Of the last try, as the times of earlier tries are overwritten.
    ("COMMON_DURATION(DS_RX_BEG:US_TX_BEG:us)", Field::Starts(MICROSECOND_NS)),
    ("COMMON_DURATION(US_TX_BEG:US_RX_BEG:us)", Field::Ttfbs(MICROSECOND_NS)),
    ("COMMON_DURATION(US_TX_BEG:US_RX_END:us)", Field::Spans(MICROSECOND_NS)),
    // A set: hosts without a connection are missing, and repeated tries count once.
    ("UPSTREAM_HOSTS_ATTEMPTED", Field::Skip),
    ("UPSTREAM_REQUEST_ATTEMPT_COUNT", Field::Tries),
    ("UPSTREAM_CLUSTER", Field::Pool),
    ("UPSTREAM_CLUSTER_RAW", Field::Pool),
    ("ROUTE_NAME", Field::Route),
    ("DOWNSTREAM_REMOTE_ADDRESS", Field::ClientPort),
    ("DOWNSTREAM_DIRECT_REMOTE_ADDRESS", Field::Skip),
    ("DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT", Field::Client),
];

/// Meanings of header fields of the request and the response.
const HEADERS: &[(&str, Field)] = &[
    (":METHOD", Field::Method),
    (":PATH", Field::Path),
    (":AUTHORITY", Field::Host),
    ("X-ENVOY-UPSTREAM-SERVICE-TIME", Field::Ttfb(MILLISECOND_NS)),
];

/// Keys that Istio, Envoy Gateway and most examples use. Envoy sorts them.
const KEYS: &[(&str, Field)] = &[
    (":authority", Field::Host),
    ("attempts", Field::Tries),
    ("authority", Field::Host),
    ("bytes_received", Field::BytesIn),
    ("bytes_sent", Field::BytesOut),
    ("downstream_remote_address", Field::ClientPort),
    ("duration", Field::Total(MILLISECOND_NS)),
    ("method", Field::Method),
    ("path", Field::Path),
    ("protocol", Field::Skip),
    ("response_code", Field::Status),
    ("response_duration", Field::Ttfb(MILLISECOND_NS)),
    ("response_flags", Field::Flags),
    ("route_name", Field::Route),
    ("start_time", Field::Arrived(Clock::Iso)),
    ("upstream_cluster", Field::Pool),
    ("upstream_duration_us", Field::Spans(MICROSECOND_NS)),
    ("upstream_host", Field::Endpoint),
    ("upstream_request_attempt_count", Field::Tries),
    ("upstream_service_time", Field::Ttfb(MILLISECOND_NS)),
    ("upstream_start_us", Field::Starts(MICROSECOND_NS)),
    ("upstream_ttfb_us", Field::Ttfbs(MICROSECOND_NS)),
    ("x-envoy-origin-path", Field::Path),
    ("x-envoy-upstream-service-time", Field::Ttfb(MILLISECOND_NS)),
];

/// Meaning of the text between two percent signs, such as `REQ(:METHOD):10`.
fn field(operator: &str) -> Field {
    let (name, arguments) = operator.split_once('(').unwrap_or((operator, ""));
    let arguments = arguments.rsplit_once(')').map_or(arguments, |(arguments, _)| arguments);
    let find = |table: &[(&str, Field)], name: &str| {
        table.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map_or(Field::Skip, |(_, field)| *field)
    };
    match name {
        "START_TIME" if arguments.is_empty() => Field::Arrived(Clock::Iso),
        "START_TIME" if arguments.starts_with("%s") && !arguments.contains(' ') => {
            Field::Arrived(Clock::Unix(SECOND_NS))
        }
        "START_TIME" if arguments.starts_with("%Y-%m-%dT%H:%M:%S") => Field::Arrived(Clock::Iso),
        // The field before the question mark is preferred.
        "REQ" | "RESP" => find(HEADERS, arguments.rsplit('?').next().unwrap_or_default()),
        "COMMON_DURATION" => find(OPERATORS, operator),
        name => find(OPERATORS, name.split(':').next().unwrap_or_default()),
    }
}

/// Template of a `text_format`.
pub(super) fn template(text: &str) -> Result<Template, String> {
    let text = text.trim_end_matches(['\n', '\r']);
    let text = text.strip_suffix("\\n").unwrap_or(text);
    let (mut template, mut rest) = (Template::default(), text);
    while let Some(at) = rest.find('%') {
        template.text(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('%') {
            template.text("%");
            rest = behind;
            continue;
        }
        // Percent signs in brackets belong to a date.
        let mut depth = 0_usize;
        let end = rest.bytes().position(|b| {
            match b {
                b'(' => depth += 1,
                b')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            b == b'%' && depth == 0
        });
        let end = end.ok_or("a \"%\" without the second that ends its operator")?;
        let operator = &rest[..end];
        let name =
            operator.split_once('(').map_or(operator, |(_, arguments)| arguments.split(')').next().unwrap_or_default());
        template.value(field(operator), if name.is_empty() { operator } else { name })?;
        rest = &rest[end + 1..];
    }
    template.text(rest);
    if template.has(|field| field != Field::Skip) {
        Ok(template)
    } else {
        Err("the format has no known operator".to_string())
    }
}

fn settle(request: &mut Request<'_>) -> Result<(), Fault> {
    if request.arrived.is_none() {
        return Err(Fault::Lacks("START_TIME"));
    }
    let last = request.tries.kept().first().copied().unwrap_or_default();
    request.tries.clear();
    request.settle();
    // The times of the request contain those of all tries.
    request.settle_try(true);
    if let Some(one) = request.tries.kept_mut().first_mut() {
        (one.began, one.ttfb, one.took) = (last.began.or(one.began), last.ttfb.or(one.ttfb), last.took.or(one.took));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::formats::Format;
    use crate::request::{Demand, End, Request};
    use crate::time::Span;
    use crate::tries::Outcome;

    fn ms(span: Option<Span>) -> Option<u64> {
        span.map(|span| span.ns / 1_000_000)
    }

    #[test]
    fn a_line_of_the_default_format_is_read() {
        let line = r#"[2026-11-20T10:00:00.310Z] "POST /api/v1 HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "ns"q"1" "cc21d9b0" "locations" "tcp://10.0.2.1:80""#;
        let mut request = Request::default();
        Format::named("envoy").unwrap().read(line.as_bytes(), &mut request).unwrap();
        assert_eq!((request.status, request.end, request.bytes_in), (Some(204), End::Normal, Some(154)));
        assert_eq!((request.host, request.endpoint), (Some(&b"locations"[..]), Some(&b"tcp://10.0.2.1:80"[..])));
        let [only] = request.tries.kept() else { panic!("{request:?}") };
        assert_eq!((ms(only.ttfb), ms(only.took), only.outcome), (Some(100), Some(226), Outcome::Answered));
    }

    #[test]
    fn flags_say_who_ended_a_request() {
        for (flags, end) in [
            ("UF,URX", End::Endpoint),
            ("DC", End::Client),
            ("UT", End::EndpointSlow),
            ("UH", End::Proxy),
            ("-", End::Normal),
        ] {
            let line = format!(
                r#"{{"start_time":"2026-11-20T10:00:00.310Z","duration":5,"response_code":0,"response_flags":"{flags}"}}"#
            );
            let mut request = Request::default();
            Format::named("envoy-json").unwrap().read(line.as_bytes(), &mut request).unwrap();
            assert_eq!((request.end, request.status, request.tries.count()), (end, None, 0), "{flags}");
        }
    }

    #[test]
    fn a_text_format_is_read() {
        let text =
            "%START_TIME(%s.%6f)% %UPSTREAM_HOST% %UPSTREAM_REQUEST_ATTEMPT_COUNT% %REQ(X-TOKENS):12% %DURATION%\\n";
        let format = Format::named(text).unwrap().with_demand("x-tokens").unwrap();
        let mut request = Request::default();
        format.read(b"1795132800.310123 10.0.0.2:80 2 77 30", &mut request).unwrap();
        assert_eq!((request.retries, request.tries.count(), request.endpoint), (Some(1), 1, Some(&b"10.0.0.2:80"[..])));
        assert_eq!(
            (request.demand, request.arrived.map(|t| t.resolution_ns)),
            (Some(Demand::Amount(77.0)), Some(1_000))
        );
        for text in ["%DURATION", "%DURATION%%BYTES_SENT%x%DURATION%%STATUS%", "envoy:x", "%X%"] {
            assert!(Format::named(text).is_err(), "{text}");
        }
    }
}
