//! Any text: nothing panics, and what is cut is a line of the same request or a fault.

use evenkeel_logs::formats::ROWS;
use evenkeel_logs::{Format, Request, find};
use proptest::prelude::*;

/// A line of each format, by the name of its row.
pub const LINES: &[(&str, &str)] = &[
    (
        "evenkeel",
        r#"{"ts":"2026-11-20T10:00:00.123Z","req_id":"0","client":"192.0.2.1","peer":null,"listener":"l","route":"r","pool":"p","endpoint":"b","tries":2,"proto":"HTTP/1.1","method":"GET","host":"h","path":"/","trace_id":null,"status":200,"bytes_in":78,"bytes_out":1024,"t_queue":1.000,"t_connect":0.250,"t_ttfb":20.000,"t_total":25.000,"term":"--","attempts":[{"endpoint":"a","cause":"connect","ms":2.5},{"endpoint":"b","cause":"answered","ms":21.5}]}"#,
    ),
    (
        "httplog",
        r#"Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in~ static/srv1 10/5/30/69/114 200 2750 - - ---- 2/2/1/1/0 0/3 {1wt.eu|12 b} {} "GET /index.html HTTP/1.1""#,
    ),
    (
        "tcplog",
        "<134>Feb  6 12:12:56 haproxy[14387]: 10.0.1.2:33313 [06/Feb/2009:12:12:51.443] fnt bck/srv1 0/1/5007 212 -- 0/0/0/0/3 0/0",
    ),
    (
        "ingress-nginx",
        r#"10.0.0.9 - - [20/Nov/2026:10:00:00 +0000] "POST /api HTTP/2.0" 200 612 "-" "curl/8" 93 1.012 [default-web-80] [] 10.0.0.1:80, 10.0.0.2:80 0, 612 1.000, 0.010 504, 200 8ac7"#,
    ),
    (
        "nginx-json",
        r#"{"time_iso8601":"2026-11-20T10:00:00+00:00","request_time":"0.012","status":"200","upstream_addr":"10.0.0.1:80","upstream_response_time":"0.012","upstream_status":"200"}"#,
    ),
    (
        "envoy",
        r#"[2026-11-20T10:00:00.310Z] "POST /api/v1 HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "nsq" "cc21d9b0" "locations" "tcp://10.0.2.1:80""#,
    ),
    (
        "istio",
        r#"[2026-11-20T10:00:00.310Z] "GET /status/418 HTTP/1.1" 418 - via_upstream - "-" 0 135 5 2 "-" "curl/7.83.1" "84961386" "httpbin:8000" "10.44.1.15:80" outbound|8000||httpbin.default.svc.cluster.local 10.44.1.14:53652 10.96.64.3:8000 10.44.1.14:59478 - default"#,
    ),
    (
        "envoy-json",
        r#"{"start_time":"2026-11-20T10:00:00.310Z","method":"GET","path":"/","response_code":200,"response_flags":"-","bytes_received":0,"bytes_sent":9,"duration":5,"upstream_host":"10.0.0.1:80","upstream_cluster":"web"}"#,
    ),
    (
        "traefik-json",
        r#"{"ClientHost":"10.0.0.9","DownstreamContentSize":612,"DownstreamStatus":200,"Duration":12345678,"OriginDuration":12000000,"RequestMethod":"GET","RequestPath":"/a","RetryAttempts":0,"RouterName":"web@file","ServiceAddr":"10.0.0.1:80","ServiceName":"web@file","StartUTC":"2026-11-20T10:00:00.12345678Z"}"#,
    ),
    (
        "traefik-clf",
        r#"10.0.0.9 - - [20/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 612 "-" "curl/8" 7 "web@file" "http://10.0.0.1:80" 12ms"#,
    ),
    (
        "caddy",
        r#"{"level":"info","ts":1795132800.5241024,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"127.0.0.1","method":"GET","host":"localhost","uri":"/a","headers":{"User-Agent":["curl/8"]}},"bytes_read":0,"duration":0.000929675,"size":10900,"status":200,"upstream":"10.0.0.1:80"}"#,
    ),
    (
        "alb",
        r#"https 2026-11-20T10:00:00.186641Z app/lb/50 192.168.131.39:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://www.example.com:443/a?b HTTP/1.1" "curl/7.46.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:x "Root=1" "www.example.com" "arn:aws:acm" 1 2026-11-20T10:00:00.014000Z "forward" "-" "-" "10.0.0.1:80" "200" "-" "-" TID_1"#,
    ),
    (
        "combined",
        r#"10.0.0.9 - joe [20/Nov/2026:10:00:00 +0000] "GET /a?b HTTP/1.1" 200 612 "-" "curl/8" rt=1.012 uct="0.001, 0.002" uht="-, 0.011" urt="1.000, 0.012" ua="10.0.0.1:80, 10.0.0.2:80" us="504, 200""#,
    ),
    ("evenkeel-combined", r#"10.0.0.9 - - [20/Nov/2026:10:00:00 +0000] "GET /a?b HTTP/1.1" 200 612 "-" "curl/8""#),
];

fn formats() -> Vec<Format> {
    ROWS.iter().map(|row| Format::named(row.name).expect("a row has its name")).collect()
}

/// Invariants of a request, whatever the line.
pub fn check(request: &Request<'_>) {
    assert!(request.tries.kept().len() <= request.tries.count() as usize);
    assert!(request.tries_count() >= request.tries.count());
    assert!(request.status.is_none_or(|status| (100..1000).contains(&status)));
    if let (Some(arrived), Some(ended)) = (request.arrived, request.ended) {
        assert!(arrived.resolution_ns > 0 && ended.resolution_ns <= 1_000_000_000);
    }
}

#[test]
fn every_row_has_a_line_here_that_is_found_as_its_format() {
    let names: Vec<&str> = LINES.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ROWS.iter().map(|row| row.name).collect::<Vec<_>>());
    for (name, line) in LINES.iter().filter(|(name, _)| *name != "evenkeel-combined") {
        let found = find(&[line.as_bytes()]).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((found.format.row.name, found.rivals.len()), (*name, 0));
    }
}

#[test]
fn a_line_cut_anywhere_is_a_fault_or_a_request() {
    for format in formats() {
        for (_, line) in LINES {
            for length in 0..=line.len() {
                let mut request = Request::default();
                if format.read(&line.as_bytes()[..length], &mut request).is_ok() {
                    check(&request);
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for format in formats() {
            let mut request = Request::default();
            if format.read(&bytes, &mut request).is_ok() {
                check(&request);
            }
        }
        let _ = find(&[&bytes]);
    }

    /// Lines with a part replaced get further than any text.
    #[test]
    fn changed_lines_are_read_or_refused(
        which in 0..LINES.len(),
        at in 0.0..1.0_f64,
        length in 0..20_usize,
        with in r#"[-0-9a-z "\\,:{}\[\]/.+éx]{0,12}"#,
    ) {
        let (name, line) = LINES[which];
        let start = (at * line.len() as f64) as usize;
        let end = (start + length).min(line.len());
        let changed = [&line.as_bytes()[..start], with.as_bytes(), &line.as_bytes()[end..]].concat();
        let mut request = Request::default();
        if Format::named(name).expect("a row has its name").read(&changed, &mut request).is_ok() {
            check(&request);
        }
        let _ = find(&[&changed]);
    }

    #[test]
    fn any_text_is_a_format_or_refused(text in r"[$%{}a-zA-Z_():;' \\.]{0,60}", line in ".{0,80}") {
        for prefix in ["", "nginx:", "envoy:", "evenkeel:", "log_format a "] {
            if let Ok(format) = Format::named(&format!("{prefix}{text}")) {
                let mut request = Request::default();
                let _ = format.read(line.as_bytes(), &mut request);
                let _ = format.with_demand(&text);
            }
        }
    }
}
