//! Logs of Application Load Balancers of AWS.
//! Source: "Access logs for your Application Load Balancer", AWS documentation.

use super::row::{Program, Row};
use crate::fault::Fault;
use crate::field::{Clock, Field};
use crate::request::{End, Request};
use crate::template::Template;
use crate::time::{SECOND_NS, Span};

pub(super) const ALB: Row = Row {
    name: "alb",
    program: Program::Alb,
    summary: "an Application Load Balancer of AWS",
    make: || Box::new(template().unwrap_or_default()),
    settle,
};

/// Kinds of requests, with which a line begins.
const KINDS: &[&str] = &["http", "https", "h2", "grpcs", "ws", "wss"];

fn template() -> Result<Template, String> {
    let mut template = Template::default();
    let parts = [
        (Field::Flags, "type", " "), // of no use as flags: checked, and removed
        (Field::Ended(Clock::Iso), "time", " "),
        (Field::Listener, "elb", " "),
        (Field::ClientPort, "client:port", " "),
        (Field::Endpoint, "target:port", " "),
        (Field::Queue(SECOND_NS), "request_processing_time", " "),
        (Field::Ttfb(SECOND_NS), "target_processing_time", " "),
        (Field::Connect(SECOND_NS), "response_processing_time", " "), // kept here until all is known
        (Field::Status, "elb_status_code", " "),
        (Field::Skip, "target_status_code", " "),
        (Field::BytesIn, "received_bytes", " "),
        (Field::BytesOut, "sent_bytes", " \""),
        (Field::RequestLine, "request", "\" \""),
        (Field::Skip, "user_agent", "\" "),
        (Field::Skip, "ssl_cipher", " "),
        (Field::Skip, "ssl_protocol", " "),
        (Field::Pool, "target_group_arn", " \""),
        (Field::Skip, "trace_id", "\" \""),
        (Field::Host, "domain_name", "\" \""),
        (Field::Skip, "chosen_cert_arn", "\" "),
        (Field::Route, "matched_rule_priority", " "),
        (Field::Arrived(Clock::Iso), "request_creation_time", " \""),
        (Field::Skip, "rest", ""),
    ];
    for (field, name, then) in parts {
        template.value(field, name)?;
        template.text(then);
    }
    Ok(template)
}

fn settle(request: &mut Request<'_>) -> Result<(), Fault> {
    let kind = request.term.take().unwrap_or_default();
    if !KINDS.iter().any(|known| known.as_bytes() == kind) {
        return Err(Fault::Malformed("type of the connection"));
    }
    // The path is a whole URL.
    request.path = request.path.map(path);
    request.end = End::of_status(request.status);
    let (before, at_target, after) = (request.queue.take(), request.ttfb.take(), request.connect.take());
    request.settle();
    request.settle_try(false);
    if let (Some(only), Some(before), Some(at_target)) = (request.tries.kept_mut().first_mut(), before, at_target) {
        (only.began, only.ttfb) = (Some(before), Some(at_target));
        only.took = after.map(|after| at_target.plus(after));
        request.ttfb = Some(before.plus(at_target));
    }
    // The sum of the three times has a finer meaning than the difference of both dates: it begins with the last byte of
    // the request. It is used if the dates do not tell.
    let sum = |before: Span| Some(before.plus(at_target?).plus(after?));
    request.total = request.total.or(before.and_then(sum));
    Ok(())
}

/// Path of `https://host:443/a?b`.
fn path(url: &[u8]) -> &[u8] {
    let Some(at) = memchr::memmem::find(url, b"://") else { return url };
    let behind = &url[at + 3..];
    memchr::memchr(b'/', behind).map_or(behind, |slash| &behind[slash..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::Format;

    const LINE: &str = r#"https 2026-11-20T10:00:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://www.example.com:443/a?b HTTP/1.1" "curl/7.46.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067 "Root=1-58337281-1d84f3d73c47ec4e58577259" "www.example.com" "arn:aws:acm:us-east-2:123456789012:certificate/12345678" 1 2026-11-20T10:00:00.014000Z "authenticate,forward" "-" "-" "10.0.0.1:80" "200" "-" "-" TID_123456"#;

    #[test]
    fn a_line_has_three_times() {
        let mut request = Request::default();
        let format = Format::named("alb").unwrap();
        format.read(LINE.as_bytes(), &mut request).unwrap();
        let [only] = request.tries.kept() else { panic!("{request:?}") };
        let ms = |span: Option<Span>| span.map(|span| span.ns / 1_000_000);
        assert_eq!([ms(only.began), ms(only.ttfb), ms(only.took)], [Some(86), Some(48), Some(85)]);
        assert_eq!((ms(request.total), request.path, request.term), (Some(172), Some(&b"/a?b"[..]), None));
        let failed = LINE.replace("10.0.0.1:80 0.086 0.048 0.037 200 200", "- -1 -1 -1 503 -");
        format.read(failed.as_bytes(), &mut request).unwrap();
        assert_eq!((request.tries.count(), request.status, request.ttfb), (0, Some(503), None));
        assert!(format.read(LINE.replace("https 2026", "x 2026").as_bytes(), &mut request).is_err());
    }
}
