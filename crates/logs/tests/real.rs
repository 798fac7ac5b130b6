//! Lines that the programs wrote themselves, by `scripts/real-logs.py`: plain requests, retries, refused endpoints, broken
//! connections, clients that left, malformed requests and TCP sessions.

use crate::any::check;
use evenkeel_logs::coverage::Need;
use evenkeel_logs::lacks::{REQUIRED, lacks};
use evenkeel_logs::read::{Report, Source};
use evenkeel_logs::request::End;
use evenkeel_logs::{Logs, Outcome};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

const SHOP: &str = "/item/";

struct Expected {
    name: &'static str,
    /// Format that is found, or given.
    format: &'static str,
    is_given: bool,
    requests: u64,
    /// Fewest requests with several tries: rotations may begin at any endpoint. 0 if the format does not have them.
    retried: u64,
    /// Requests whose client left.
    left: u64,
    /// Required values that it lacks.
    lacks: &'static [Need],
}

const fn row(name: &'static str, format: &'static str, requests: u64, retried: u64, left: u64) -> Expected {
    Expected { name, format, is_given: false, requests, retried, left, lacks: &[] }
}

const NO_ENDPOINT: &[Need] = &[Need::Endpoint, Need::EndpointTime];
const NO_TIMES: &[Need] = &[Need::Arrival, Need::Total, Need::Endpoint, Need::EndpointTime];
const WHOLE_SECONDS: &[Need] = &[Need::Arrival];

const TEMPLATE: &str = "evenkeel:%{unix_ms} %{client} %{pool} %{endpoint} %{tries} %{attempts} %{status} %{bytes_out} %{t_queue} \
    %{t_connect} %{t_ttfb} %{t_total} %{term} %{request.X-Tokens} \"%{request}\"";

const FILES: &[Expected] = &[
    row("haproxy-2.6-httplog", "httplog", 21, 6, 2),
    row("haproxy-3.2-httplog", "httplog", 21, 6, 2),
    row("haproxy-2.6-tcplog", "tcplog", 7, 4, 1),
    row("haproxy-3.2-tcplog", "tcplog", 7, 4, 1),
    row("nginx-whatif", "combined", 21, 6, 2),
    row("nginx-json", "nginx-json", 21, 6, 2),
    Expected { lacks: WHOLE_SECONDS, ..row("nginx-ingress", "ingress-nginx", 21, 6, 2) },
    Expected { lacks: NO_TIMES, ..row("nginx-combined", "combined", 21, 0, 2) },
    row("envoy-default", "envoy", 21, 0, 3),
    row("envoy-istio", "istio", 21, 0, 3),
    row("envoy-json", "envoy-json", 21, 8, 3),
    row("envoy-tcp", "envoy", 7, 0, 0),
    Expected { lacks: NO_ENDPOINT, ..row("caddy", "caddy", 20, 0, 2) },
    row("evenkeel-json", "evenkeel", 28, 4, 3),
    // Retries are counted, and the time of their last try is not known.
    Expected { lacks: &[Need::EndpointTime], ..row("evenkeel-httplog", "httplog", 28, 4, 3) },
    Expected { lacks: NO_TIMES, ..row("evenkeel-combined", "combined", 28, 0, 0) },
    Expected { format: TEMPLATE, is_given: true, ..row("evenkeel-template", "", 28, 4, 3) },
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real")
}

fn open(name: &str, format: Option<&str>, demand: Option<&str>) -> Logs {
    let path = folder().join(format!("{name}.log"));
    Logs::open(vec![Source::File(path)], format, demand).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[derive(Debug, Default)]
struct Counts {
    retried: u64,
    left: u64,
    /// Number of tries with each outcome, as `Debug` writes it.
    outcomes: BTreeMap<String, u64>,
    /// Requests of the shop by endpoint.
    shop: BTreeMap<Vec<u8>, u64>,
}

fn read(name: &str, format: Option<&str>) -> (Counts, Report) {
    let mut counts = Counts::default();
    let report = open(name, format, None).read(|request, place| {
        check(request);
        let (arrived, ended) = (request.arrived, request.ended);
        assert!(
            arrived.is_none() || ended.is_none() || ended.map(|t| t.ns) >= arrived.map(|t| t.ns),
            "{name}:{}",
            place.line
        );
        counts.retried += u64::from(request.tries_count() > 1);
        counts.left += u64::from(request.end == End::Client);
        for one in request.tries.kept() {
            *counts.outcomes.entry(format!("{:?}", one.outcome)).or_default() += 1;
            // A try fits into its request, but for the rounding of both.
            if let (Some(took), Some(total)) = (one.took, request.total) {
                assert!(took.ns <= total.ns + 2_000_000, "{name}:{} {one:?} {total:?}", place.line);
            }
        }
        if request.path.is_some_and(|path| path.starts_with(SHOP.as_bytes())) {
            assert_eq!(request.status, Some(200), "{name}:{}", place.line);
            *counts.shop.entry(request.endpoint.unwrap_or_default().to_vec()).or_default() += 1;
        }
        ControlFlow::Continue(())
    });
    (counts, report)
}

#[test]
fn every_line_of_every_program_is_a_request() {
    let mut failures = Vec::new();
    for Expected { name, format, is_given, requests, .. } in FILES {
        let logs = open(name, is_given.then_some(*format), None);
        if !is_given && logs.found().format.row.name != *format {
            failures.push(format!("{name} is found as {}", logs.found().format.row.name));
        }
        let (_, report) = read(name, is_given.then_some(*format));
        if (report.coverage.requests, report.bad_lines()) != (*requests, 0) {
            failures.push(format!("{name}: {} requests, bad: {:?}", report.coverage.requests, report.bad));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn retries_and_clients_that_left_are_seen() {
    for Expected { name, format, is_given, retried, left, .. } in FILES {
        let (counts, _) = read(name, is_given.then_some(*format));
        let is_known = *retried > 0;
        assert!(
            counts.left == *left && counts.retried >= *retried && is_known == (counts.retried > 0),
            "{name}: {counts:?}"
        );
    }
}

#[test]
fn lacks_are_those_of_the_format() {
    for Expected { name, format, is_given, lacks: expected, .. } in FILES {
        let format = is_given.then_some(*format);
        let (_, report) = read(name, format);
        let logs = open(name, format, None);
        let found: Vec<Need> = lacks(logs.found().format.row, &report.coverage).iter().map(|lack| lack.need).collect();
        let required: Vec<Need> = REQUIRED.into_iter().filter(|need| found.contains(need)).collect();
        assert_eq!(&required, expected, "{name}: {:?}", report.coverage);
    }
}

/// The rotation sends each of the twelve requests of the shop to the fast or the slow endpoint, as the third refuses.
#[test]
fn requests_of_the_shop_have_their_endpoints() {
    for Expected { name, format, is_given, lacks, .. } in FILES {
        let (counts, _) = read(name, is_given.then_some(*format));
        let is_http = !name.ends_with("tcp") && !name.ends_with("tcplog");
        assert_eq!(counts.shop.values().sum::<u64>(), if is_http { 12 } else { 0 }, "{name}");
        if is_http && !lacks.contains(&Need::Endpoint) {
            assert_eq!(counts.shop.len(), 2, "{name}: {:?}", counts.shop);
        }
    }
}

#[test]
fn a_captured_field_is_the_demand() {
    for (name, format, demand) in [
        ("haproxy-3.2-httplog", None, "capture.2"),
        ("evenkeel-httplog", None, "capture.1"),
        ("evenkeel-json", None, "request_fields.X-Tokens"),
        ("evenkeel-template", Some(TEMPLATE), "request.X-Tokens"),
    ] {
        let mut tokens = 0.0;
        open(name, format, Some(demand)).read(|request, _| {
            if let Some(evenkeel_logs::request::Demand::Amount(amount)) = request.demand {
                tokens += amount;
            }
            ControlFlow::Continue(())
        });
        assert_eq!(tokens, (0..12).map(|n| 100.0 * f64::from(n)).sum::<f64>(), "{name}");
    }
}

#[test]
fn nginx_lists_every_try() {
    for name in ["nginx-whatif", "nginx-json"] {
        let (counts, _) = read(name, None);
        let count = |outcome: Outcome| counts.outcomes.get(&format!("{outcome:?}")).copied().unwrap_or_default();
        assert!(count(Outcome::Refused) >= 4 && count(Outcome::Left) == 2 && count(Outcome::Broken) == 2, "{counts:?}");
    }
}

/// Every committed file has an expectation.
#[test]
fn every_file_is_read() {
    let files = std::fs::read_dir(folder()).expect("the folder is committed");
    let mut names: Vec<String> = files.filter_map(|file| file.ok()?.file_name().into_string().ok()).collect();
    let mut expected: Vec<String> = FILES.iter().map(|row| format!("{}.log", row.name)).collect();
    names.sort();
    expected.sort();
    assert_eq!(names, expected);
}
