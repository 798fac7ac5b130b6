//! Logs of Traefik: JSON, and the Common Log Format with its additions.
//! Source: Traefik documentation, "Access logs"; `pkg/middlewares/accesslog`.

use super::row::{Program, Row};
use crate::fault::Fault;
use crate::field::{Clock, Field};
use crate::json::{Keys, Meaning};
use crate::request::{End, Request};
use crate::template::Template;
use crate::time::MILLISECOND_NS;

pub(super) const JSON: Row = Row {
    name: "traefik-json",
    program: Program::Traefik,
    summary: "Traefik with format: json",
    make: || Box::new(keys()),
    settle: |request| {
        if request.arrived.is_none() || request.total.is_none() {
            return Err(Fault::Lacks("StartUTC and Duration"));
        }
        settle(request)
    },
};

pub(super) const CLF: Row = Row {
    name: "traefik-clf",
    program: Program::Traefik,
    summary: "Traefik with format: common",
    make: || Box::new(common().unwrap_or_default()),
    settle: |request| {
        // The server is a URL.
        if request.endpoint.is_some_and(|url| !url.windows(3).any(|three| three == b"://")) {
            return Err(Fault::Malformed("endpoint"));
        }
        settle(request)
    },
};

/// Keys in the order of Traefik, which sorts them. Durations are in nanoseconds.
const KEYS: &[(&str, Field)] = &[
    ("ClientHost", Field::Client),
    ("DownstreamContentSize", Field::BytesOut),
    ("DownstreamStatus", Field::Status),
    ("Duration", Field::Total(1)),
    ("RequestContentSize", Field::BytesIn),
    ("RequestHost", Field::Host),
    ("RequestMethod", Field::Method),
    ("RequestPath", Field::Path),
    ("RetryAttempts", Field::Retries),
    ("RouterName", Field::Route),
    ("ServiceAddr", Field::Endpoint),
    ("ServiceName", Field::Pool),
    ("StartUTC", Field::Arrived(Clock::Iso)),
    ("entryPointName", Field::Listener),
];

fn keys() -> Keys {
    let mut keys = Keys::of(KEYS);
    // The time at the endpoint, until its last byte.
    keys.add("OriginDuration", Meaning::Is(Field::Spans(1)));
    keys
}

fn common() -> Result<Template, String> {
    let mut template = Template::default();
    let parts = [
        (Field::Client, "ClientHost", " - "),
        (Field::Skip, "ClientUsername", " ["),
        (Field::Arrived(Clock::Apache), "StartUTC", "] \""),
        (Field::RequestLine, "request", "\" "),
        (Field::Status, "OriginStatus", " "),
        (Field::BytesOut, "OriginContentSize", " \""),
        (Field::Skip, "request_Referer", "\" \""),
        (Field::Skip, "request_User-Agent", "\" "),
        (Field::Skip, "RequestCount", " \""),
        (Field::Route, "RouterName", "\" \""),
        (Field::Endpoint, "ServiceURL", "\" "),
        (Field::Total(MILLISECOND_NS), "Duration", "ms"),
    ];
    for (field, name, then) in parts {
        template.value(field, name)?;
        template.text(then);
    }
    Ok(template)
}

fn settle(request: &mut Request<'_>) -> Result<(), Fault> {
    request.end = End::of_status(request.status);
    // Of several tries, the time at endpoints is that of all.
    let took = request.tries.kept().first().and_then(|one| one.took);
    request.tries.clear();
    request.settle();
    request.settle_try(false);
    let is_only = request.retries.unwrap_or(0) == 0;
    if let Some(only) = request.tries.kept_mut().first_mut().filter(|_| is_only) {
        only.took = took;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::formats::Format;
    use crate::request::Request;

    #[test]
    fn a_line_of_json_is_read() {
        let line = r#"{"ClientAddr":"10.0.0.9:51","ClientHost":"10.0.0.9","DownstreamContentSize":612,"DownstreamStatus":200,"Duration":12345678,"OriginDuration":12000000,"OriginStatus":200,"Overhead":345678,"RequestAddr":"h","RequestContentSize":3,"RequestHost":"h","RequestMethod":"GET","RequestPath":"/a","RetryAttempts":0,"RouterName":"web@file","ServiceAddr":"10.0.0.1:80","ServiceName":"web@file","ServiceURL":{"Scheme":"http","Host":"10.0.0.1:80"},"StartUTC":"2026-11-20T10:00:00.12345678Z","entryPointName":"web","level":"info","msg":"","time":"2026-11-20T10:00:00Z"}"#;
        let mut request = Request::default();
        Format::named("traefik-json").unwrap().read(line.as_bytes(), &mut request).unwrap();
        let [only] = request.tries.kept() else { panic!("{request:?}") };
        assert_eq!((only.took.map(|s| s.ns), only.endpoint), (Some(12_000_000), Some(&b"10.0.0.1:80"[..])));
        assert_eq!(request.total.map(|s| s.ns), Some(12_345_678));
        let retried = line.replace("\"RetryAttempts\":0", "\"RetryAttempts\":2");
        Format::named("traefik-json").unwrap().read(retried.as_bytes(), &mut request).unwrap();
        assert_eq!((request.tries.kept()[0].took, request.tries_count()), (None, 3));
    }

    #[test]
    fn a_line_of_the_common_format_is_read() {
        let line = r#"10.0.0.9 - - [20/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 612 "-" "curl/8" 7 "web@file" "http://10.0.0.1:80" 12ms"#;
        let format = Format::named("traefik-clf").unwrap();
        let mut request = Request::default();
        format.read(line.as_bytes(), &mut request).unwrap();
        assert_eq!((request.total.map(|s| s.ns), request.route), (Some(12_000_000), Some(&b"web@file"[..])));
        let (name, none) = (line.replace("http://", ""), line.replace("http://10.0.0.1:80", "-"));
        assert!(format.read(name.as_bytes(), &mut request).is_err());
        format.read(none.as_bytes(), &mut request).unwrap();
        assert_eq!(request.tries.count(), 0);
    }
}
