//! How does a line of the access log look? JSON, or a [`LineTemplate`]: texts and the values between them. The formats of
//! Apache and HAProxy are templates too.

use crate::form::Formed;
use crate::nearest::suggest;
use crate::table::{Field, Kind, Value, Words, quote, words};
use std::sync::Arc;

/// How a line looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineFormat {
    /// An object of JSON.
    Json,
    /// By a template.
    Template(LineTemplate),
}

/// A text in which names stand for values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineTemplate {
    /// As it is written, or its name.
    source: Arc<str>,
    /// What a line is made of.
    pub parts: Arc<[Part]>,
}

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// This text.
    Text(String),
    /// A value.
    Value(LineValue),
    /// A header field of the request.
    Request(String),
    /// A header field of the response.
    Response(String),
}

words! {
    /// What a template can say of a request. Those that lines of JSON have too are called as there.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum LineValue {
        /// When its head had arrived: `2026-11-20T10:00:00.123Z`.
        Ts = "ts",
        /// The same as `20/Nov/2026:10:00:00 +0000`.
        Date = "date",
        /// The same as `20/Nov/2026:10:00:00.123`.
        DateMs = "date_ms",
        /// The same in milliseconds since 1970.
        UnixMs = "unix_ms",
        /// Its id.
        ReqId = "req_id",
        /// The client's address.
        Client = "client",
        /// The client's port; 0 if only a proxy knows it.
        ClientPort = "client_port",
        /// The address of the proxy that connected.
        Peer = "peer",
        /// The listener.
        Listener = "listener",
        /// The route.
        Route = "route",
        /// The pool.
        Pool = "pool",
        /// The endpoint.
        Endpoint = "endpoint",
        /// Pool and endpoint, as HAProxy writes backend and server.
        Server = "server",
        /// Endpoints that were tried.
        Tries = "tries",
        /// One less, as HAProxy counts.
        Retries = "retries",
        /// Each try, if there were several.
        Attempts = "attempts",
        /// What the client spoke.
        Proto = "proto",
        /// The version of TLS.
        TlsVersion = "tls_version",
        /// Its cipher.
        TlsCipher = "tls_cipher",
        /// The name that the client asked for by TLS.
        Sni = "sni",
        /// The method.
        Method = "method",
        /// The host.
        Host = "host",
        /// The path, with the query.
        Path = "path",
        /// Method, path and protocol.
        Request = "request",
        /// `User-Agent`.
        UserAgent = "user_agent",
        /// `Referer`.
        Referer = "referer",
        /// The trace id of `traceparent`.
        TraceId = "trace_id",
        /// The status.
        Status = "status",
        /// Bytes from the client.
        BytesIn = "bytes_in",
        /// Bytes to the client.
        BytesOut = "bytes_out",
        /// Milliseconds in the queue.
        Queue = "t_queue",
        /// Milliseconds to connect.
        Connect = "t_connect",
        /// Milliseconds to the response.
        Ttfb = "t_ttfb",
        /// Milliseconds to the end.
        Total = "t_total",
        /// The same times as HAProxy writes them.
        Timers = "timers",
        /// Who ended it, and where it was.
        Term = "term",
        /// How a gRPC call ended.
        GrpcStatus = "grpc_status",
        /// Why evenkeel answered.
        Reason = "reason",
        /// The chosen header fields, as HAProxy writes captured ones.
        Captured = "captured",
    }
}

/// Formats that have names.
const NAMED: [(&str, &str); 3] = [
    ("common", r#"%{client} - - [%{date}] "%{request}" %{status} %{bytes_out}"#),
    ("combined", r#"%{client} - - [%{date}] "%{request}" %{status} %{bytes_out} "%{referer}" "%{user_agent}""#),
    (
        "httplog",
        r#"%{client}:%{client_port} [%{date_ms}] %{listener} %{server} %{timers} %{status} %{bytes_out} - - %{term}-- 0/0/0/0/%{retries} 0/0 %{captured}"%{request}""#,
    ),
];

/// What is wrong with a format.
#[derive(Debug)]
pub(super) struct Wrong {
    pub message: String,
    pub help: String,
}

fn wrong<T>(message: String, help: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong { message, help: help.into() })
}

impl LineFormat {
    /// Reads it.
    ///
    /// # Errors
    /// It is neither a name nor a template.
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

/// Reads a template.
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
