//! Logs of evenkeel: its JSON, and templates.

use super::row::{Program, Row};
use crate::fault::Fault;
use crate::field::{Clock, Field};
use crate::json::{Keys, Meaning};
use crate::request::Request;
use crate::template::Template;
use crate::time::MILLISECOND_NS;
use crate::tries::Outcome;

pub(super) const JSON: Row = Row {
    name: "evenkeel",
    program: Program::Evenkeel,
    summary: "evenkeel with format = \"json\"",
    make: || Box::new(keys()),
    settle: |request| {
        let is_evenkeel = request.arrived.is_some() && request.total.is_some();
        if is_evenkeel { settle(request) } else { Err(Fault::Lacks("ts and t_total")) }
    },
};

/// Row of formats that are given as text.
pub(super) const TEMPLATE: Row = Row {
    name: "evenkeel:TEMPLATE",
    program: Program::Evenkeel,
    summary: "evenkeel with this template",
    make: || Box::new(Template::default()),
    settle,
};

/// Meanings of values, by their names in JSON and in templates.
pub(crate) const VALUES: &[(&str, Field)] = &[
    ("ts", Field::Arrived(Clock::Iso)),
    ("req_id", Field::Skip),
    ("client", Field::Client),
    ("peer", Field::Skip),
    ("listener", Field::Listener),
    ("route", Field::Route),
    ("pool", Field::Pool),
    ("endpoint", Field::Endpoint),
    ("tries", Field::Tries),
    ("proto", Field::Skip),
    // Of a whole connection of HTTP/3.
    ("t_handshake", Field::Skip),
    ("migrations", Field::Skip),
    ("packets_lost", Field::Skip),
    ("tls_version", Field::Skip),
    ("tls_cipher", Field::Skip),
    ("sni", Field::Skip),
    ("method", Field::Method),
    ("host", Field::Host),
    ("path", Field::Path),
    ("trace_id", Field::Skip),
    ("user_agent", Field::Skip),
    ("referer", Field::Skip),
    ("status", Field::Status),
    ("bytes_in", Field::BytesIn),
    ("bytes_out", Field::BytesOut),
    ("t_queue", Field::Queue(MILLISECOND_NS)),
    ("t_connect", Field::Connect(MILLISECOND_NS)),
    ("t_ttfb", Field::Ttfb(MILLISECOND_NS)),
    ("t_total", Field::Total(MILLISECOND_NS)),
    ("term", Field::Letters),
    ("probability", Field::Chance),
    ("user", Field::Skip),
    ("cache", Field::Skip),
    ("grpc_status", Field::Skip),
    ("first_route", Field::Skip),
    ("reason", Field::Skip),
];

/// Meanings of values that only templates have.
const IN_TEMPLATES: &[(&str, Field)] = &[
    ("date", Field::Arrived(Clock::Apache)),
    ("date_ms", Field::Arrived(Clock::Apache)),
    ("unix_ms", Field::Arrived(Clock::Unix(MILLISECOND_NS))),
    ("client_port", Field::Skip),
    ("server", Field::Server),
    ("retries", Field::Retries),
    ("attempts", Field::Attempts),
    ("request", Field::RequestLine),
    ("timers", Field::Timers),
    ("captured", Field::Skip),
];

fn keys() -> Keys {
    let mut keys = Keys::of(VALUES);
    let of_try = [("endpoint", Field::Endpoints), ("cause", Field::Cause), ("ms", Field::Spans(MILLISECOND_NS))];
    keys.add("attempts", Meaning::Tries(Keys::of(&of_try)));
    keys
}

/// Template of the key `format`.
pub(super) fn template(text: &str) -> Result<Template, String> {
    let named = match text {
        "common" => Some(r#"%{client} - %{user} [%{date}] "%{request}" %{status} %{bytes_out}"#),
        "combined" => {
            Some(r#"%{client} - %{user} [%{date}] "%{request}" %{status} %{bytes_out} "%{referer}" "%{user_agent}""#)
        }
        _ => None,
    };
    let (mut template, mut rest) = (Template::default(), named.unwrap_or(text));
    while let Some(at) = rest.find('%') {
        template.text(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('%') {
            template.text("%");
            rest = behind;
            continue;
        }
        let parts = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let (name, behind) = parts.ok_or("a \"%\" that no {NAME} follows")?;
        let known = VALUES.iter().chain(IN_TEMPLATES).find(|(known, _)| *known == name).map(|(_, field)| *field);
        let is_header = name.starts_with("request.") || name.starts_with("response.");
        let field = known.or(is_header.then_some(Field::Skip)).ok_or(format!("no value is named \"{name}\""))?;
        template.value(field, name)?;
        if field == Field::Letters {
            template.fix(2);
        }
        rest = behind;
    }
    template.text(rest);
    if template.has(|field| field != Field::Skip) { Ok(template) } else { Err("the template has no value".to_string()) }
}

fn settle(request: &mut Request<'_>) -> Result<(), Fault> {
    request.settle();
    request.settle_try(true);
    request.settle_starts();
    let (connect, ttfb) = (request.connect, request.ttfb);
    let answered = request.tries.kept_mut().iter_mut().rev().find(|one| one.outcome == Outcome::Answered);
    if let Some(one) = answered {
        one.connect = one.connect.or(connect);
        one.ttfb = one.ttfb.or(ttfb.zip(one.began).map(|(ttfb, began)| ttfb.minus(began)));
        one.status = one.status.or(request.status);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::Format;
    use crate::request::{Demand, End};
    use crate::time::Span;

    fn ms(span: Option<Span>) -> Option<f64> {
        span.map(|span| span.ns as f64 / 1e6)
    }

    const LINE: &str = r#"{"ts":"2026-11-20T10:00:00.123Z","req_id":"0","client":"192.0.2.1","peer":null,"listener":"l","route":"r","pool":"p","endpoint":"b","tries":2,"proto":"HTTP/1.1","method":"GET","host":"h","path":"/","trace_id":null,"request_fields":{"X-Tokens":"17"},"status":200,"bytes_in":78,"bytes_out":1024,"t_queue":1.000,"t_connect":0.250,"t_ttfb":20.000,"t_total":25.000,"term":"--","attempts":[{"endpoint":"a","cause":"connect","ms":2.5},{"endpoint":"b","cause":"answered","ms":21.5}]}"#;

    #[test]
    fn a_line_of_json_has_its_tries() {
        let format = Format::named("evenkeel").unwrap().with_demand("request_fields.X-Tokens").unwrap();
        let mut request = Request::default();
        format.read(LINE.as_bytes(), &mut request).unwrap();
        assert_eq!((request.demand, request.retries, request.end), (Some(Demand::Amount(17.0)), Some(1), End::Normal));
        let [first, second] = request.tries.kept() else { panic!("{request:?}") };
        assert_eq!((first.outcome, ms(first.began), ms(first.took)), (Outcome::Refused, Some(1.0), Some(2.5)));
        assert_eq!((second.outcome, ms(second.began), ms(second.took)), (Outcome::Answered, Some(3.5), Some(21.5)));
        assert_eq!([ms(second.connect), ms(second.ttfb)], [Some(0.25), Some(16.5)]);
        assert_eq!(request.ended.map(|t| t.ns % 1_000_000_000), Some(148_000_000));
        let one = LINE.replace("\"tries\":2", "\"tries\":1,\"probability\":0.25");
        let one = format!("{}}}", &one[..one.find(",\"attempts\"").unwrap()]);
        format.read(one.as_bytes(), &mut request).unwrap();
        let [only] = request.tries.kept() else { panic!("{request:?}") };
        assert_eq!((ms(only.began), ms(only.took), only.endpoint), (Some(1.0), Some(24.0), Some(&b"b"[..])));
        assert_eq!(request.chance, Some(0.25));
    }

    #[test]
    fn every_value_of_a_template_is_known() {
        // The list of the crate that writes the lines.
        let source = include_str!("../../../config/src/sections/access_log/format.rs");
        let (_, list) = source.split_once("pub enum LineValue {").unwrap();
        let words = list
            .lines()
            .take_while(|line| *line != "}")
            .filter_map(|line| line.split_once(" = \"")?.1.strip_suffix("\","));
        assert!(words.clone().count() > 30);
        for name in words {
            assert!(template(&format!("%{{{name}}} %{{status}}")).is_ok(), "{name}");
        }
        for text in ["%{statsu}", "%", "%{a", "100%%", "%{status}%{path}"] {
            assert!(template(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lines_of_templates_are_read() {
        let mut request = Request::default();
        let format =
            Format::named("%{unix_ms} %{term}-- %{server} %{attempts} %{t_total} 100%% %{request.X-Tokens}").unwrap();
        let format = format.with_demand("request.x-tokens").unwrap();
        format.read(b"1795132800250 ---- p/a - 1.5 100% 9", &mut request).unwrap();
        assert_eq!(
            (request.end, request.demand, ms(request.total)),
            (End::Normal, Some(Demand::Amount(9.0)), Some(1.5))
        );
        format.read(b"1795132800250 sH-- p/b a=connect@1.000,b=timeout@9.000 10.0 100% -", &mut request).unwrap();
        assert_eq!((request.end, request.tries.count(), request.endpoint), (End::EndpointSlow, 2, Some(&b"b"[..])));
        let format = Format::named("evenkeel:common").unwrap();
        format.read(b"::1 - - [20/Nov/2026:10:00:00 +0000] \"- - HTTP/1.1\" 400 9", &mut request).unwrap();
        assert_eq!((request.status, request.path), (Some(400), None));
    }
}
