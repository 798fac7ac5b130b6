//! The format of access log lines: JSON, or a [`LineTemplate`] of literal text and values. The named formats
//! of Apache and HAProxy are templates too.

use crate::form::Formed;
use crate::nearest::suggest;
use crate::table::{Field, Kind, Value, Words, quote, words};
use std::sync::Arc;

/// Format of an access log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineFormat {
    /// JSON object with the fields of the guide to operating.
    Json,
    /// Text with placeholders; the named formats are parsed into such a text too.
    Template(LineTemplate),
}

/// Text in which `%{NAME}` stands for a value of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineTemplate {
    /// The format's name, or the template as written in the file.
    source: Arc<str>,
    /// Literal text and values in order of output.
    pub parts: Arc<[Part]>,
}

/// Literal text or placeholder of a [`LineTemplate`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Literal text, with `%%` already unescaped.
    Text(String),
    /// Placeholder with a fixed name: `%{NAME}`.
    Value(LineValue),
    /// Header field of the request: `%{request.NAME}`.
    Request(String),
    /// Header field of the response: `%{response.NAME}`.
    Response(String),
}

words! {
    /// Values that a template can use. Those that JSON lines also have share their names.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum LineValue {
        /// Arrival of the request head: `2026-11-20T10:00:00.123Z`.
        Ts = "ts",
        /// `ts` as `20/Nov/2026:10:00:00 +0000` (Apache).
        Date = "date",
        /// `ts` as `20/Nov/2026:10:00:00.123` (HAProxy).
        DateMs = "date_ms",
        /// `ts` in milliseconds since 1970.
        UnixMs = "unix_ms",
        /// Id of the request, as in `request_id` and error answers.
        ReqId = "req_id",
        /// Client address, taken from trusted proxies if there are any.
        Client = "client",
        /// Client port; 0 if only a proxy knows it.
        ClientPort = "client_port",
        /// Address of the proxy that connected; `-` for direct clients.
        Peer = "peer",
        /// User whose password the request has, if its route has `basic_auth`.
        User = "user",
        /// Result at the cache of the route: `hit`, `stale`, `renewed`, `stored`, `not_stored` or `passed`.
        Cache = "cache",
        /// Name of the listener that accepted the client.
        Listener = "listener",
        /// Name of the route that matched.
        Route = "route",
        /// Name of the route that matched, if another one answered: as an error page, or by an internal redirect.
        FirstRoute = "first_route",
        Pool = "pool",
        /// Name of the endpoint; `-` if none was chosen.
        Endpoint = "endpoint",
        /// `POOL/ENDPOINT`, as HAProxy writes backend and server.
        Server = "server",
        /// Number of tries, 0 if no endpoint was tried.
        Tries = "tries",
        /// `tries` minus 1, as HAProxy counts retries.
        Retries = "retries",
        /// Outcome of each try, if there were several.
        Attempts = "attempts",
        /// Protocol of the client, such as `HTTP/1.1`.
        Proto = "proto",
        /// Version of TLS with the client.
        TlsVersion = "tls_version",
        /// Cipher suite of TLS with the client.
        TlsCipher = "tls_cipher",
        /// Server name of the ClientHello (SNI).
        Sni = "sni",
        /// Milliseconds of the handshake, for HTTP/3.
        Handshake = "t_handshake",
        /// Number of times that the client's address has changed within the connection, for HTTP/3.
        Migrations = "migrations",
        /// Packets of the connection that were lost on the way to the client so far, for HTTP/3.
        PacketsLost = "packets_lost",
        Method = "method",
        Host = "host",
        Path = "path",
        /// Request line: method, path and protocol.
        Request = "request",
        /// `User-Agent` of the request.
        UserAgent = "user_agent",
        /// `Referer` of the request.
        Referer = "referer",
        /// Trace id of `traceparent`.
        TraceId = "trace_id",
        /// Status sent to the client.
        Status = "status",
        /// Bytes received from the client.
        BytesIn = "bytes_in",
        /// Bytes sent to the client.
        BytesOut = "bytes_out",
        /// Milliseconds in the queue of the pool.
        Queue = "t_queue",
        /// Milliseconds to connect to the endpoint.
        Connect = "t_connect",
        /// Milliseconds to the head of the response.
        Ttfb = "t_ttfb",
        /// Milliseconds to the last byte of the response.
        Total = "t_total",
        /// Times in the format of HAProxy's `httplog`.
        Timers = "timers",
        /// Termination state: the side that ended the request, and its phase; `--` for a normal end.
        Term = "term",
        /// Probability of the endpoint of the first try, if that was drawn uniformly (`explore` of the pool).
        Probability = "probability",
        /// Status name of a gRPC call, such as `unavailable`.
        GrpcStatus = "grpc_status",
        /// Reason of an answer that evenkeel made itself.
        Reason = "reason",
        /// Fields chosen by `fields`, in HAProxy's format for captured headers.
        Captured = "captured",
    }
}

/// Named formats and the templates they stand for.
const NAMED: [(&str, &str); 3] = [
    ("common", r#"%{client} - %{user} [%{date}] "%{request}" %{status} %{bytes_out}"#),
    ("combined", r#"%{client} - %{user} [%{date}] "%{request}" %{status} %{bytes_out} "%{referer}" "%{user_agent}""#),
    (
        "httplog",
        r#"%{client}:%{client_port} [%{date_ms}] %{listener} %{server} %{timers} %{status} %{bytes_out} - - %{term}-- 0/0/0/0/%{retries} 0/0 %{captured}"%{request}""#,
    ),
];

/// Error of a format: the message, and a hint.
#[derive(Debug)]
pub(super) struct Wrong {
    pub message: String,
    pub help: String,
}

fn wrong<T>(message: String, help: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong { message, help: help.into() })
}

impl LineFormat {
    /// Parses the value of `format`.
    ///
    /// # Errors
    /// If the text is neither a known name nor a valid template.
    pub(super) fn parse(text: &str) -> Result<LineFormat, Wrong> {
        if text == "json" {
            return Ok(LineFormat::Json);
        }
        let named = NAMED.iter().find(|(name, _)| *name == text);
        if named.is_none() && !text.contains('%') {
            let names: Vec<&str> = std::iter::once("json").chain(NAMED.iter().map(|(name, _)| *name)).collect();
            let help =
                format!("{}; or write a template, as \"%{{client}} %{{status}} %{{path}}\"", suggest(text, &names));
            return wrong(format!("\"format\" is \"{text}\", which is no format, and has no value"), help);
        }
        let parts = parts(named.map_or(text, |(_, template)| template))?;
        Ok(LineFormat::Template(LineTemplate { source: text.into(), parts: parts.into() }))
    }
}

/// Splits a template at its placeholders.
fn parts(template: &str) -> Result<Vec<Part>, Wrong> {
    if template.chars().any(char::is_control) {
        return wrong("\"format\" has a control character, and a line is one line".into(), "leave it out");
    }
    let (mut parts, mut text, mut rest) = (Vec::new(), String::new(), template);
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('%') {
            text.push('%');
            rest = behind;
            continue;
        }
        let Some((name, behind)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) else {
            let message = "\"format\" has a \"%\" that no {NAME} follows".to_string();
            return wrong(message, "write %{status} for a value, and %% for a percent sign");
        };
        if !text.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut text)));
        }
        parts.push(part(name)?);
        rest = behind;
    }
    text.push_str(rest);
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
    Ok(parts)
}

fn part(name: &str) -> Result<Part, Wrong> {
    let is_token = |name: &str| {
        let is_char = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        (1..=128).contains(&name.len()) && name.bytes().all(is_char)
    };
    match name.split_once('.') {
        Some(("request", field)) if is_token(field) => return Ok(Part::Request(field.into())),
        Some(("response", field)) if is_token(field) => return Ok(Part::Response(field.into())),
        _ => {}
    }
    if let Some(value) = LineValue::of_word(name) {
        return Ok(Part::Value(value));
    }
    let help = format!("{}; request.NAME and response.NAME are header fields", suggest(name, LineValue::WORDS));
    wrong(format!("\"format\" names \"{name}\", which no request has"), help)
}

impl Field for LineFormat {
    fn read(value: Value) -> LineFormat {
        let Value::Formed(Formed::Text(text)) = value else { return LineFormat::Json };
        LineFormat::parse(&text).unwrap_or(LineFormat::Json)
    }

    fn write(&self, _: &LineFormat, _: &Kind) -> String {
        match self {
            LineFormat::Json => quote("json"),
            LineFormat::Template(template) => quote(&template.source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<Part> {
        match LineFormat::parse(text) {
            Ok(LineFormat::Template(template)) => template.parts.to_vec(),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn every_named_format_is_a_template() {
        for (name, _) in NAMED {
            assert!(parsed(name).len() > 8, "{name}");
        }
        assert_eq!(LineFormat::parse("json").ok(), Some(LineFormat::Json));
    }

    #[test]
    fn a_template_is_texts_and_values() {
        let text = |text: &str| Part::Text(text.into());
        assert_eq!(
            parsed("100%% %{status}%{request.X-A}x%{response.b}"),
            [
                text("100% "),
                Part::Value(LineValue::Status),
                Part::Request("X-A".into()),
                text("x"),
                Part::Response("b".into())
            ]
        );
        assert_eq!(parsed("%%"), [text("%")]);
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_right() {
        for (text, message, help) in [
            ("jsno", "no format", "\"json\""),
            ("%{statsu}", "\"statsu\"", "status"),
            ("%{request.}", "\"request.\"", "request.NAME"),
            ("%{response.a b}", "\"response.a b\"", "response.NAME"),
            ("%{status", "no {NAME}", "%%"),
            ("100%", "no {NAME}", "%%"),
            ("%{status}\n", "control character", "leave"),
        ] {
            let wrong = LineFormat::parse(text).expect_err(text);
            assert!(wrong.message.contains(message) && wrong.help.contains(help), "{text}: {wrong:?}");
        }
    }
}
