//! Requests that are written as each program writes them, and read back: nothing is lost but the resolution.

use evenkeel_logs::{Format, Request, Span, find};
use proptest::prelude::*;

/// Request before it is written, with times in microseconds.
#[derive(Clone, Debug)]
struct Made {
    /// Milliseconds since 1970.
    arrived_ms: u64,
    head_ms: u64,
    queue_us: u64,
    /// Time to connect, to the response head, and to the end, each after the one before.
    connect_us: u64,
    response_us: u64,
    rest_us: u64,
    endpoint: String,
    pool: String,
    status: u16,
    bytes: u64,
    path: String,
    client: String,
    /// Earlier tries that failed, with their time.
    failed: Vec<(String, u64)>,
}

impl Made {
    fn total_us(&self) -> u64 {
        self.queue_us + self.failed_us() + self.last_us()
    }

    fn failed_us(&self) -> u64 {
        self.failed.iter().map(|(_, took)| took).sum()
    }

    fn last_us(&self) -> u64 {
        self.connect_us + self.response_us + self.rest_us
    }
}

fn endpoint() -> impl Strategy<Value = String> {
    prop_oneof![
        (1..255_u8, 1..65535_u16).prop_map(|(a, port)| format!("10.0.0.{a}:{port}")),
        (1..0xffff_u16, 1..65535_u16).prop_map(|(a, port)| format!("[2001:db8::{a:x}]:{port}")),
        "unix:/run/[a-z]{1,8}\\.sock",
    ]
}

prop_compose! {
    fn made(retries: usize)(
        arrived_ms in 1_000_000_000_000..2_000_000_000_000_u64,
        (head_ms, queue_us, connect_us, response_us, rest_us) in
            (0..1000_u64, 0..5_000_000_u64, 0..100_000_u64, 0..30_000_000_u64, 0..1_000_000_u64),
        endpoint in endpoint(),
        pool in "[a-zA-Z_][a-zA-Z0-9_.-]{0,20}",
        status in 200..500_u16,
        bytes in 0..u64::MAX / 2,
        path in r"/[a-zA-Z0-9/?&=%._~,:;{}|'-]{0,40}",
        client in prop_oneof![Just("192.0.2.7".to_string()), Just("2001:db8::7".to_string())],
        failed in prop::collection::vec((endpoint(), 0..100_000_u64), 0..=retries),
    ) -> Made {
        Made { arrived_ms, head_ms, queue_us, connect_us, response_us, rest_us, endpoint, pool, status, bytes, path, client, failed }
    }
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Date and time of day. Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn civil(ms: u64) -> (u64, u64, u64, [u64; 4]) {
    let z = ms / 86_400_000 + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let clock = [ms / 3_600_000 % 24, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000];
    (yoe + era * 400 + u64::from(month <= 2), month, doy - (153 * mp + 2) / 5 + 1, clock)
}

fn apache(ms: u64) -> String {
    let (year, month, day, [h, m, s, milli]) = civil(ms);
    let month = MONTHS[month as usize - 1];
    format!("{day:02}/{month}/{year}:{h:02}:{m:02}:{s:02}.{milli:03}")
}

fn iso(ms: u64) -> String {
    let (year, month, day, [h, m, s, milli]) = civil(ms);
    format!("{year}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{milli:03}Z")
}

fn seconds(us: u64) -> String {
    format!("{}.{:03}", us / 1_000_000, us / 1000 % 1000)
}

fn millis(us: u64) -> String {
    format!("{}.{:03}", us / 1000, us % 1000)
}

fn httplog(made: &Made) -> String {
    let [queue, connect, response] = [made.queue_us, made.connect_us, made.response_us].map(|us| us / 1000);
    let total = made.head_ms + queue + connect + response + made.rest_us / 1000;
    format!(
        "<134>Nov 30 10:00:00 lb haproxy[7]: {}:4711 [{}] web~ {}/{} {}/{queue}/{connect}/{response}/{total} {} {} - - ---- \
         3/2/1/1/0 0/0 {{a b|c}} \"GET {} HTTP/1.1\"",
        made.client,
        apache(made.arrived_ms - made.head_ms),
        made.pool,
        made.endpoint,
        made.head_ms,
        made.status,
        made.bytes,
        made.path
    )
}

/// List of NGINX: values of the earlier tries and of the last.
fn list(failed: impl Iterator<Item = String>, last: String) -> String {
    failed.chain([last]).collect::<Vec<_>>().join(", ")
}

const LOG_FORMAT: &str = "nginx:$remote_addr $msec \"$request\" $status $bytes_sent $request_time $upstream_addr $upstream_connect_time \
    $upstream_header_time $upstream_response_time $upstream_status [$proxy_host]";

fn nginx(made: &Made) -> String {
    let ended_us = made.arrived_ms * 1000 + made.total_us() / 1000 * 1000;
    format!(
        "{} {} \"GET {} HTTP/1.1\" {} {} {} {} {} {} {} {} [{}]",
        made.client,
        seconds(ended_us),
        made.path,
        made.status,
        made.bytes,
        seconds(made.total_us()),
        list(made.failed.iter().map(|(endpoint, _)| endpoint.clone()), made.endpoint.clone()),
        list(made.failed.iter().map(|_| "-".into()), seconds(made.connect_us)),
        list(made.failed.iter().map(|_| "-".into()), seconds(made.connect_us + made.response_us)),
        list(made.failed.iter().map(|(_, took)| seconds(*took)), seconds(made.last_us())),
        list(made.failed.iter().map(|_| "502".into()), made.status.to_string()),
        made.pool,
    )
}

fn evenkeel(made: &Made) -> String {
    let attempts: Vec<String> = made
        .failed
        .iter()
        .map(|(endpoint, took)| format!("{{\"endpoint\":\"{endpoint}\",\"cause\":\"reset\",\"ms\":{}}}", millis(*took)))
        .chain([format!(
            "{{\"endpoint\":\"{}\",\"cause\":\"answered\",\"ms\":{}}}",
            made.endpoint,
            millis(made.last_us())
        )])
        .collect();
    let attempts =
        if made.failed.is_empty() { String::new() } else { format!(",\"attempts\":[{}]", attempts.join(",")) };
    format!(
        "{{\"ts\":\"{}\",\"client\":\"{}\",\"peer\":null,\"pool\":\"{}\",\"endpoint\":\"{}\",\"tries\":{},\"method\":\"GET\",\
         \"path\":\"{}\",\"status\":{},\"bytes_out\":{},\"t_queue\":{},\"t_connect\":{},\"t_ttfb\":{},\"t_total\":{},\"term\":\"--\"{attempts}}}",
        iso(made.arrived_ms),
        made.client,
        made.pool,
        made.endpoint,
        made.failed.len() + 1,
        made.path,
        made.status,
        made.bytes,
        millis(made.queue_us),
        millis(made.connect_us),
        millis(made.queue_us + made.failed_us() + made.connect_us + made.response_us),
        millis(made.total_us()),
    )
}

/// Checks values that all formats have.
fn same(made: &Made, request: &Request<'_>) -> Result<(), TestCaseError> {
    let text = |text: Option<&[u8]>| text.map(|text| String::from_utf8_lossy(text).into_owned());
    prop_assert_eq!(text(request.endpoint), Some(made.endpoint.clone()));
    prop_assert_eq!(text(request.pool), Some(made.pool.clone()));
    prop_assert_eq!(text(request.path), Some(made.path.clone()));
    prop_assert_eq!(text(request.client), Some(made.client.clone()));
    prop_assert_eq!((request.status, request.bytes_out), (Some(made.status), Some(made.bytes)));
    prop_assert_eq!(request.arrived.map(|time| time.ns / 1_000_000), Some(made.arrived_ms));
    Ok(())
}

fn us(span: Option<Span>) -> Option<u64> {
    span.map(|span| span.ns / 1000)
}

proptest! {
    #[test]
    fn httplog_comes_back(made in made(0)) {
        let line = httplog(&made);
        prop_assert_eq!(find(&[line.as_bytes()]).expect("it is a format").format.row.name, "httplog");
        let mut request = Request::default();
        prop_assert_eq!(Format::named("httplog").expect("a row").read(line.as_bytes(), &mut request), Ok(()));
        same(&made, &request)?;
        let ms = |us: u64| us / 1000 * 1000;
        let last = request.tries.kept()[0];
        prop_assert_eq!(us(request.queue), Some(ms(made.queue_us)));
        prop_assert_eq!(us(last.began), Some(ms(made.queue_us)));
        prop_assert_eq!(us(last.connect), Some(ms(made.connect_us)));
        prop_assert_eq!(us(last.took), Some(ms(made.connect_us) + ms(made.response_us) + ms(made.rest_us)));
    }

    #[test]
    fn a_log_format_of_nginx_comes_back(mut made in made(4)) {
        made.queue_us = 0;
        let (line, format) = (nginx(&made), Format::named(LOG_FORMAT).expect("a log_format"));
        let mut request = Request::default();
        prop_assert_eq!(format.read(line.as_bytes(), &mut request), Ok(()), "{}", line);
        same(&made, &request)?;
        let tries = request.tries.kept();
        prop_assert_eq!((tries.len(), request.retries), (made.failed.len() + 1, Some(made.failed.len() as u32)));
        for (one, (endpoint, took)) in tries.iter().zip(&made.failed) {
            prop_assert_eq!((one.endpoint, us(one.took)), (Some(endpoint.as_bytes()), Some(took / 1000 * 1000)));
        }
        prop_assert_eq!(us(tries[made.failed.len()].took), Some(made.last_us() / 1000 * 1000));
    }

    #[test]
    fn json_of_evenkeel_comes_back(made in made(4)) {
        let line = evenkeel(&made);
        let found = find(&[line.as_bytes()]).expect("it is a format");
        prop_assert_eq!((found.format.row.name, found.rivals.len()), ("evenkeel", 0));
        let mut request = Request::default();
        prop_assert_eq!(found.format.read(line.as_bytes(), &mut request), Ok(()), "{}", line);
        same(&made, &request)?;
        let tries = request.tries.kept();
        prop_assert_eq!((tries.len(), request.retries), (made.failed.len() + 1, Some(made.failed.len() as u32)));
        let last = tries[made.failed.len()];
        prop_assert_eq!(us(last.began), Some(made.queue_us + made.failed_us()));
        prop_assert_eq!((us(last.took), us(last.connect)), (Some(made.last_us()), Some(made.connect_us)));
        prop_assert_eq!(us(last.ttfb), Some(made.connect_us + made.response_us));
        prop_assert_eq!(us(request.total), Some(made.total_us()));
    }
}
