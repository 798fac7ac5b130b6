//! Spans of a request: a server span for the request, and below it a client span for each try. Names follow
//! OpenTelemetry's conventions for HTTP.

use evenkeel_net::dial::Remote;
use evenkeel_proxy::end::Cause;
use evenkeel_proxy::finished::{FinishedRequest, Spans};
use evenkeel_proxy::summary::Summary;
use evenkeel_proxy::tries::Try;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use std::sync::Arc;

/// Methods that name a span; others could be as many as clients please.
const METHODS: [&str; 10] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"];

/// Set where the parent of a span is known to be another process, or known not to be.
const HAS_IS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;
const SAMPLED: u32 = 1;

/// Resource that the spans belong to.
#[derive(Clone, Debug)]
pub struct Source(Resource);

impl Source {
    /// This process, as a service of this name.
    pub fn new(service: &str) -> Source {
        let mut attributes = vec![
            text("service.name", service),
            text("service.version", env!("CARGO_PKG_VERSION")),
            int("process.pid", u64::from(std::process::id())),
        ];
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        if !host.is_empty() {
            attributes.push(text("host.name", host));
        }
        Source(Resource { attributes, ..Resource::default() })
    }

    /// Returns the message to a collector about these requests.
    pub fn request(&self, batch: &[Arc<FinishedRequest>]) -> ExportTraceServiceRequest {
        let scope = InstrumentationScope {
            name: "evenkeel".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            ..InstrumentationScope::default()
        };
        let spans = batch.iter().flat_map(|request| spans(request)).collect();
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() }];
        let resource_spans = ResourceSpans { resource: Some(self.0.clone()), scope_spans, ..ResourceSpans::default() };
        ExportTraceServiceRequest { resource_spans: vec![resource_spans] }
    }
}

/// Returns the number of spans of these requests.
pub fn count(batch: &[Arc<FinishedRequest>]) -> u64 {
    batch.iter().filter(|one| one.spans.is_some()).map(|one| 1 + one.tries.len() as u64).sum()
}

/// Spans of a request: the server span first, then its tries in the order in which they began.
fn spans(request: &FinishedRequest) -> Vec<Span> {
    let Some(of) = &request.spans else { return Vec::new() };
    let mut tries: Vec<&Try> = request.tries.iter().collect();
    tries.sort_by_key(|one| one.number);
    let last = request.tries.last().map(|one| one.number);
    let clients = tries.into_iter().map(|one| client(request, of, one, Some(one.number) == last));
    std::iter::once(server(request, of)).chain(clients).collect()
}

fn server(request: &FinishedRequest, of: &Spans) -> Span {
    let Summary { status, call_status, bytes_in, bytes_out, timing, cause, .. } = request.summary;
    let is_ours = status >= 500 || (status == 0 && !matches!(cause, Cause::Client | Cause::ClientSlow));
    let error = is_ours.then(|| error_type(status, cause.label()));
    let path = request.path.split('?').next().unwrap_or_default();
    let mut attributes = method(request);
    attributes.extend([
        text("url.scheme", of.scheme),
        text("url.path", path),
        text("network.protocol.version", version(request.protocol)),
        text("client.address", &*request.client),
        text("evenkeel.listener", &*request.listener),
        text("evenkeel.request_id", &*request.request_id),
        text("evenkeel.end", cause.label()),
        int("evenkeel.tries", request.tries.len() as u64),
        int("http.request.body.size", bytes_in),
        int("http.response.body.size", bytes_out),
    ]);
    let (host, port) = host_and_port(&request.host);
    if !host.is_empty() {
        attributes.push(text("server.address", host));
    }
    attributes.extend(port.map(|port| int("server.port", port)));
    if status > 0 {
        attributes.push(int("http.response.status_code", u64::from(status)));
    }
    if !request.route.is_empty() {
        attributes.push(text("evenkeel.route", &*request.route));
    }
    if !request.pool.is_empty() {
        attributes.push(text("evenkeel.pool", &*request.pool));
    }
    if timing.queue_ns > 0 {
        attributes.push(ms("evenkeel.queue_ms", timing.queue_ns));
    }
    attributes.extend(timing.ttfb_ns.map(|ns| ms("evenkeel.ttfb_ms", ns)));
    attributes.extend(call_status.map(|status| text("rpc.response.status_code", status.name())));
    attributes.extend(error.clone().map(|error| text("error.type", error)));
    Span {
        trace_id: of.trace.to_be_bytes().into(),
        span_id: of.server.to_be_bytes().into(),
        parent_span_id: of.parent.map_or_else(Vec::new, |parent| parent.to_be_bytes().into()),
        flags: SAMPLED | HAS_IS_REMOTE | if of.parent.is_some() { IS_REMOTE } else { 0 },
        name: match &*request.route {
            "" => name(&request.method).to_owned(),
            route => format!("{} {route}", name(&request.method)),
        },
        kind: SpanKind::Server.into(),
        start_time_unix_nano: request.at_ns,
        end_time_unix_nano: request.at_ns + timing.total_ns,
        attributes,
        status: span_status(error, request.reason.as_deref()),
        ..Span::default()
    }
}

/// Span of a try. `is_last`: the try ended last, and the response of its endpoint, if any, went to the client.
fn client(request: &FinishedRequest, of: &Spans, one: &Try, is_last: bool) -> Span {
    let is_answered = one.end == "answered";
    let code = if is_answered && is_last { request.summary.status } else { failed_status(&one.end).unwrap_or(0) };
    let error = (!is_answered || code >= 400).then(|| error_type(code, &one.end));
    let mut attributes = method(request);
    attributes.extend([
        text("evenkeel.pool", &*request.pool),
        text("evenkeel.endpoint", &*one.endpoint),
        int("evenkeel.attempt", u64::from(one.number)),
        text("evenkeel.pick.policy", of.policy),
        text("evenkeel.pick.how", one.how.name()),
        text("evenkeel.cause", &*one.end),
    ]);
    match &one.addr {
        Some(Remote::Ip(addr)) => {
            let port = int("server.port", u64::from(addr.port()));
            attributes.extend([text("server.address", addr.ip().to_string()), port]);
        }
        Some(Remote::Unix(path)) => {
            attributes.extend([text("server.address", &**path), text("network.transport", "unix")]);
        }
        None => {}
    }
    if one.number > 1 {
        attributes.push(int("http.request.resend_count", u64::from(one.number) - 1));
    }
    if code > 0 {
        attributes.push(int("http.response.status_code", u64::from(code)));
    }
    if is_last {
        attributes.extend(request.summary.timing.connect_ns.map(|ns| ms("evenkeel.connect_ms", ns)));
    }
    attributes.extend(error.clone().map(|error| text("error.type", error)));
    let start = request.at_ns + one.at_ns;
    Span {
        trace_id: of.trace.to_be_bytes().into(),
        span_id: one.span.to_be_bytes().into(),
        parent_span_id: of.server.to_be_bytes().into(),
        flags: SAMPLED | HAS_IS_REMOTE,
        name: name(&request.method).to_owned(),
        kind: SpanKind::Client.into(),
        start_time_unix_nano: start,
        end_time_unix_nano: start + one.took_ns,
        attributes,
        status: span_status(error, None),
        ..Span::default()
    }
}

/// Returns the status by which a try failed, if it failed by a status.
fn failed_status(end: &str) -> Option<u16> {
    end.strip_prefix("status ")?.parse().ok()
}

fn error_type(status: u16, end: &str) -> String {
    if status > 0 { status.to_string() } else { end.to_owned() }
}

fn span_status(error: Option<String>, why: Option<&str>) -> Option<Status> {
    error.map(|_| Status { message: why.unwrap_or_default().to_owned(), code: StatusCode::Error.into() })
}

fn name(method: &str) -> &str {
    if METHODS.contains(&method) { method } else { "HTTP" }
}

fn method(request: &FinishedRequest) -> Vec<KeyValue> {
    match METHODS.contains(&&*request.method) {
        true => vec![text("http.request.method", &*request.method)],
        false => {
            vec![text("http.request.method", "_OTHER"), text("http.request.method_original", &*request.method)]
        }
    }
}

/// `1.1` of `HTTP/1.1`.
fn version(protocol: &str) -> &str {
    let version = protocol.strip_prefix("HTTP/").unwrap_or(protocol);
    version.strip_suffix(".0").filter(|version| *version == "2").unwrap_or(version)
}

/// Splits the host that the client wrote.
fn host_and_port(host: &str) -> (&str, Option<u64>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name.trim_matches(['[', ']']), port.parse().ok()),
        _ => (host.trim_matches(['[', ']']), None),
    }
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn text(key: &str, value: impl Into<String>) -> KeyValue {
    attribute(key, Value::StringValue(value.into()))
}

fn int(key: &str, value: u64) -> KeyValue {
    attribute(key, Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX)))
}

fn ms(key: &str, ns: u64) -> KeyValue {
    attribute(key, Value::DoubleValue(ns as f64 / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_versions_are_taken_apart() {
        assert_eq!(host_and_port("a.test:8080"), ("a.test", Some(8080)));
        assert_eq!(host_and_port("a.test"), ("a.test", None));
        assert_eq!(host_and_port("[::1]:80"), ("::1", Some(80)));
        assert_eq!(host_and_port("[::1]"), ("::1", None));
        assert_eq!((version("HTTP/1.1"), version("HTTP/2"), version("HTTP/2.0")), ("1.1", "2", "2"));
        assert_eq!((failed_status("status 503"), failed_status("reset")), (Some(503), None));
    }

    #[test]
    fn a_request_without_spans_has_none_and_each_try_has_one() {
        let recorded = FinishedRequest {
            spans: Some(Spans { trace: 1, server: 2, ..Spans::default() }),
            method: "BREW".into(),
            summary: Summary { status: 200, ..Summary::default() },
            tries: [3, 1, 2].map(|number| Try { number, end: "answered".into(), ..Try::default() }).into(),
            ..FinishedRequest::default()
        };
        let batch = [Arc::new(FinishedRequest::default()), Arc::new(recorded)];
        let request = Source::new("s").request(&batch);
        let spans = &request.resource_spans[0].scope_spans[0].spans;
        assert_eq!((spans.len() as u64, count(&batch)), (4, 4));
        assert_eq!(spans[0].name, "HTTP");
        let attempt = |span: &Span| span.attributes.iter().find(|one| one.key == "evenkeel.attempt").cloned();
        assert_eq!(attempt(&spans[1]), Some(int("evenkeel.attempt", 1)));
    }
}
