//! Logs of NGINX by their `log_format`, with the format of ingress-nginx, and JSON with the names of variables as keys.
//! Source: ngx_http_log_module, ngx_http_upstream_module, ngx_stream_upstream_module.

use super::row::{Program, Row};
use crate::fault::Fault;
use crate::field::{Clock, Field};
use crate::json::Keys;
use crate::request::{End, Request};
use crate::template::Template;
use crate::time::{SECOND_NS, Span};
use crate::tries::Outcome;

/// Row of formats that are given as text.
pub(super) const LOG_FORMAT: Row = Row {
    name: "nginx:LOG_FORMAT",
    program: Program::Nginx,
    summary: "NGINX with this log_format",
    make: || Box::new(Template::default()),
    settle,
};

pub(super) const INGRESS: Row = Row {
    name: "ingress-nginx",
    program: Program::IngressNginx,
    summary: "ingress-nginx with its log-format-upstream",
    make: || Box::new(template(UPSTREAMINFO).unwrap_or_default()),
    settle,
};

pub(super) const JSON: Row = Row {
    name: "nginx-json",
    program: Program::Nginx,
    summary: "NGINX with JSON whose keys are names of variables",
    make: || Box::new(Keys::of(VARIABLES)),
    settle: |request| {
        settle(request)?;
        // Only these are in no other JSON.
        let is_nginx = request.total.is_some() && (request.ended.is_some() || request.tries.count() > 0);
        if is_nginx { Ok(()) } else { Err(Fault::Lacks("request_time")) }
    },
};

/// Default of `log-format-upstream`.
const UPSTREAMINFO: &str = r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_length $request_time [$proxy_upstream_name] [$proxy_alternative_upstream_name] $upstream_addr $upstream_response_length $upstream_response_time $upstream_status $req_id"#;

/// Meanings of variables, of requests and of TCP sessions. NGINX writes a line at the end of a request.
pub(super) const VARIABLES: &[(&str, Field)] = &[
    ("time_local", Field::Ended(Clock::Apache)),
    ("time_iso8601", Field::Ended(Clock::Iso)),
    ("msec", Field::Ended(Clock::Unix(SECOND_NS))),
    ("remote_addr", Field::Client),
    ("request", Field::RequestLine),
    ("request_method", Field::Method),
    ("request_uri", Field::Path),
    ("host", Field::Host),
    ("http_host", Field::Host),
    ("status", Field::Status),
    ("request_length", Field::BytesIn),
    ("bytes_received", Field::BytesIn),
    ("body_bytes_sent", Field::BytesOut),
    ("bytes_sent", Field::BytesOut),
    ("request_time", Field::Total(SECOND_NS)),
    ("session_time", Field::Total(SECOND_NS)),
    ("server_name", Field::Listener),
    ("proxy_host", Field::Pool),
    ("proxy_upstream_name", Field::Pool),
    ("upstream_addr", Field::Endpoints),
    ("upstream_status", Field::Statuses),
    ("upstream_queue_time", Field::Queue(SECOND_NS)),
    ("upstream_connect_time", Field::Connects(SECOND_NS)),
    ("upstream_header_time", Field::Ttfbs(SECOND_NS)),
    ("upstream_first_byte_time", Field::Ttfbs(SECOND_NS)),
    ("upstream_response_time", Field::Spans(SECOND_NS)),
    ("upstream_session_time", Field::Spans(SECOND_NS)),
    // Names that have meanings for ingress controllers only.
    ("service_name", Field::Pool),
    ("location_path", Field::Route),
];

fn field(name: &str) -> Field {
    VARIABLES.iter().find(|(known, _)| *known == name).map_or(Field::Skip, |(_, field)| *field)
}

/// Template of a `log_format`: its text, or the whole directive.
pub(super) fn template(text: &str) -> Result<Template, String> {
    let text = match text.trim().strip_prefix("log_format") {
        Some(rest) if rest.starts_with(char::is_whitespace) => value(rest),
        _ => text.to_string(),
    };
    let mut template = Template::default();
    let mut rest = text.as_str();
    while let Some(at) = rest.find('$') {
        template.text(&rest[..at]);
        let behind = &rest[at + 1..];
        let (name, next) = match behind.strip_prefix('{').and_then(|behind| behind.split_once('}')) {
            Some(parts) => parts,
            None => {
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                behind.split_at(behind.find(|c| !is_name(c)).unwrap_or(behind.len()))
            }
        };
        if name.is_empty() {
            return Err("a \"$\" that no variable follows".to_string());
        }
        template.value(field(name), name)?;
        rest = next;
    }
    template.text(rest);
    if !template.has(|field| field != Field::Skip) {
        return Err("the log_format has no variable with a known meaning".to_string());
    }
    Ok(template)
}

/// Joined strings of a directive, behind its name and a parameter such as `escape=json`.
fn value(directive: &str) -> String {
    let (mut out, mut rest) = (String::new(), directive.trim_start());
    rest = rest.split_once(char::is_whitespace).map_or("", |(_, rest)| rest);
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next().filter(|first| *first != ';') else { return out };
        if !matches!(first, '\'' | '"') {
            let end = rest.find(|c: char| c.is_whitespace() || c == ';').unwrap_or(rest.len());
            let word = &rest[..end];
            out.push_str(if word.starts_with("escape=") { "" } else { word });
            rest = &rest[end..];
            continue;
        }
        let mut is_escaped = false;
        let mut end = rest.len();
        for (at, c) in rest.char_indices().skip(1) {
            match c {
                c if is_escaped => {
                    let plain = matches!(c, '\'' | '"' | '\\');
                    out.push_str(if plain { "" } else { "\\" });
                    out.push(if c == 't' && !plain { 't' } else { c });
                    is_escaped = false;
                }
                '\\' => is_escaped = true,
                c if c == first => {
                    end = at + 1;
                    break;
                }
                c => out.push(c),
            }
        }
        rest = &rest[end..];
    }
}

/// Completes a request of NGINX, whose times end when the line is written.
pub(super) fn settle(request: &mut Request<'_>) -> Result<(), Fault> {
    if request.ended.is_none() && request.arrived.is_none() {
        return Err(Fault::Lacks("time"));
    }
    request.end = End::of_status(request.status);
    let count = request.tries.kept().len();
    let mut no_endpoint = None;
    for (at, one) in request.tries.kept_mut().iter_mut().enumerate() {
        // Without an endpoint to pick, NGINX writes the name of the upstream.
        if one.endpoint.is_some_and(|endpoint| !endpoint.contains(&b':')) {
            no_endpoint = one.endpoint.take();
        }
        one.outcome = match (one.status, at + 1 == count) {
            (Some(502), _) if one.connect.is_none() => Outcome::Refused,
            (Some(504), _) => Outcome::TimedOut,
            (Some(502), _) if one.ttfb.is_none() => Outcome::Broken,
            _ if request.end == End::Client && at + 1 == count => Outcome::Left,
            (Some(_), false) => Outcome::Retried,
            (Some(_), true) => Outcome::Answered,
            (None, _) => Outcome::Unknown,
        };
    }
    request.pool = request.pool.or(no_endpoint);
    if count > 0 {
        request.retries = Some(request.tries.count().saturating_sub(1));
    }
    request.connect = request.tries.kept().last().and_then(|last| last.connect);
    request.settle();
    request.settle_starts();
    let head = |request: &Request<'_>| {
        let last = request.tries.kept().last()?;
        Some(last.began?.plus(last.ttfb?))
    };
    request.ttfb = head(request)
        .map(|head: Span| request.total.map_or(head, |total| if head.ns > total.ns { total } else { head }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::Format;

    fn ms(span: Option<Span>) -> Option<u64> {
        span.map(|span| span.ns / 1_000_000)
    }

    #[test]
    fn a_directive_is_read_as_it_is_in_the_configuration() {
        let directive = "log_format upstream escape=json '$remote_addr [$msec] '\n    \"\\\"$request\\\" ${status} it's\" ' $upstream_addr' ;";
        assert_eq!(
            value(directive.strip_prefix("log_format").unwrap()),
            "$remote_addr [$msec] \"$request\" ${status} it's $upstream_addr"
        );
        let format = Format::named(directive).unwrap();
        let mut request = Request::default();
        let line = br#"10.0.0.9 [1795132800.250] "GET /a HTTP/1.1" 200 it's 10.0.0.1:80, 10.0.0.2:80"#;
        format.read(line, &mut request).unwrap();
        assert_eq!(request.ended.map(|t| (t.ns / 1_000_000, t.resolution_ns)), Some((1_795_132_800_250, 1_000_000)));
        assert_eq!(request.endpoint, Some(&b"10.0.0.2:80"[..]));
    }

    #[test]
    fn a_log_format_needs_known_variables_with_text_between_them() {
        for text in ["nginx:none", "nginx:$a$b", "nginx:$", "nginx:$http_x", "$status$request"] {
            assert!(Format::named(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_line_of_ingress_nginx_has_its_tries() {
        let line = r#"10.0.0.9 - - [20/Nov/2026:10:00:00 +0000] "POST /api HTTP/2.0" 200 612 "-" "curl/8" 93 1.012 [default-web-80] [] 10.0.0.1:80, 10.0.0.2:80 0, 612 1.000, 0.010 504, 200 8ac7"#;
        let mut request = Request::default();
        Format::named("ingress-nginx").unwrap().read(line.as_bytes(), &mut request).unwrap();
        let tries: Vec<_> = request
            .tries
            .kept()
            .iter()
            .map(|one| (one.endpoint.unwrap(), one.outcome, ms(one.began), ms(one.took)))
            .collect();
        let expected = [
            (&b"10.0.0.1:80"[..], Outcome::TimedOut, Some(0), Some(1000)),
            (b"10.0.0.2:80", Outcome::Answered, Some(1000), Some(10)),
        ];
        assert_eq!(tries, expected);
        assert_eq!(
            (request.pool, request.retries, ms(request.total)),
            (Some(&b"default-web-80"[..]), Some(1), Some(1012))
        );
    }

    #[test]
    fn without_endpoints_the_name_of_the_upstream_is_the_pool() {
        let line = r#"{"time_iso8601":"2026-11-20T10:00:00+00:00","request_time":"0.000","status":"502","upstream_addr":"web","upstream_response_time":"0.000","upstream_status":"502"}"#;
        let mut request = Request::default();
        Format::named("nginx-json").unwrap().read(line.as_bytes(), &mut request).unwrap();
        assert_eq!((request.pool, request.endpoint, request.end), (Some(&b"web"[..]), None, End::Endpoint));
    }
}
