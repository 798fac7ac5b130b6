//! Health checks and ejection of a cluster.

use crate::node::Node;
use evenkeel_balance::outlier::{self, SuccessRate};
use evenkeel_config::plan::{Check, HealthCheck};
use std::time::Duration;

/// Envoy's defaults of `outlier_detection`.
const INTERVAL: Duration = Duration::from_secs(10);
const EJECT: Duration = Duration::from_secs(30);
const EJECT_MAX: Duration = Duration::from_secs(300);

/// Returns the first health check of a cluster: a pool has at most one.
///
/// # Errors
/// The field that no check of a pool can have.
pub fn health(cluster: &Node<'_>) -> Result<Option<HealthCheck>, String> {
    let mut all = cluster.nodes("health_checks");
    let Some(node) = all.next() else { return Ok(None) };
    for more in all {
        more.part(Err::<(), _>("health_checks: a pool has one".to_owned()))?;
    }
    node.part(one(node))
}

fn one(node: &Node<'_>) -> Result<HealthCheck, String> {
    let positive = |name| node.duration(name).filter(|time| !time.is_zero());
    let interval = positive("interval").ok_or("health_checks: it has no interval")?.max(Duration::from_millis(10));
    let timeout = positive("timeout").ok_or("health_checks: it has no timeout")?;
    let mut health =
        HealthCheck { check: check(node).map_err(|why| format!("health_checks: {why}"))?, ..HealthCheck::default() };
    health.interval = interval;
    health.timeout = timeout.clamp(Duration::from_millis(1), interval.min(Duration::from_secs(3600)));
    let times = |name| node.wrapped(name).map(|times| u32::try_from(times.clamp(1, 1000)).unwrap_or(1000));
    health.machine.fall = times("unhealthy_threshold").unwrap_or(health.machine.fall);
    health.machine.rise = times("healthy_threshold").unwrap_or(health.machine.rise);
    health.port = node.wrapped("alt_port").and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
    node.text("name");
    Ok(health)
}

fn check(node: &Node<'_>) -> Result<Check, String> {
    let is_set = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
    if let Some(http) = node.node("http_health_check") {
        let path = is_set(http.text("path")).ok_or("http_health_check has no path")?;
        let method = match http.number("method") {
            0 | 1 => "GET",
            2 => "HEAD",
            7 => "OPTIONS",
            _ => return Err(format!("http_health_check.method: {} is not GET, HEAD or OPTIONS", http.word("method"))),
        };
        let mut expect = Vec::new();
        for range in http.nodes("expected_statuses") {
            // The end is not part of it.
            let (start, end) = (range.number("start").max(200), range.number("end").min(600));
            let bounds = u16::try_from(start).ok().zip(u16::try_from(end.saturating_sub(1)).ok());
            let (start, end) =
                bounds.filter(|(start, end)| start <= end).ok_or("expected_statuses: a range is empty")?;
            expect.push(start..=end);
        }
        if expect.is_empty() {
            expect.push(200..=200);
        }
        return Ok(Check::Http {
            method: method.to_owned(),
            path,
            host: is_set(http.text("host")),
            expect,
            body: None,
        });
    }
    if let Some(grpc) = node.node("grpc_health_check") {
        let service = grpc.text("service_name").unwrap_or_default().to_owned();
        return Ok(Check::Grpc { service, host: is_set(grpc.text("authority")) });
    }
    let tcp = node.node("tcp_health_check").ok_or("it is none of http, grpc and tcp")?;
    let mut expected = tcp.nodes("receive");
    let expect = expected.next().map(payload).transpose()?;
    if expected.next().is_some() {
        return Err("tcp_health_check.receive: a check expects one text".to_owned());
    }
    let send = tcp.node("send").map(payload).transpose()?;
    Ok(Check::Tcp { send, expect, quit: None })
}

/// Bytes of a payload. Its `text` is hexadecimal.
fn payload(node: &Node<'_>) -> Result<Vec<u8>, String> {
    if let Some(bytes) = node.raw("binary") {
        return Ok(bytes.to_vec());
    }
    let text = node.text("text").unwrap_or_default();
    let pairs = text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    let bytes: Option<Vec<u8>> = pairs.collect();
    bytes.filter(|_| text.len().is_multiple_of(2)).ok_or_else(|| format!("{text:?} is not hexadecimal"))
}

/// Returns the ejection of a cluster, which has none by default.
pub fn outlier(cluster: &Node<'_>) -> Option<outlier::Settings> {
    let node = cluster.node("outlier_detection")?;
    let number =
        |name, default: u64| u32::try_from(node.wrapped(name).unwrap_or(default).min(1_000_000)).unwrap_or_default();
    let ns = |name, default| {
        let time = node.duration(name).filter(|time| !time.is_zero()).unwrap_or(default);
        u64::try_from(time.max(Duration::from_millis(100)).as_nanos()).unwrap_or(u64::MAX)
    };
    // An ejection that is enforced in less than half of all cases is off.
    let enforced = |name, default| {
        let share = number(name, default);
        if (1..100).contains(&share) {
            node.differs(format!("{name}: ejection is enforced always or never, and {share} % is the nearer of both"));
        }
        share >= 50
    };
    let when = |is_on: bool, times: u32| if is_on { times } else { 0 };
    let hour = 3_600_000_000_000;
    let eject_ns = ns("base_ejection_time", EJECT).min(24 * hour);
    let rate = SuccessRate {
        deviations: (f64::from(number("success_rate_stdev_factor", 1900)) / 1000.0).clamp(0.1, 10.0),
        min_requests: number("success_rate_request_volume", 100).max(1).into(),
        min_endpoints: number("success_rate_minimum_hosts", 5).clamp(2, 65_535),
    };
    Some(outlier::Settings {
        consecutive_5xx: when(enforced("enforcing_consecutive_5xx", 100), number("consecutive_5xx", 5)),
        consecutive_gateway: when(
            enforced("enforcing_consecutive_gateway_failure", 0),
            number("consecutive_gateway_failure", 5),
        ),
        consecutive_connect: when(
            enforced("enforcing_consecutive_local_origin_failure", 100),
            number("consecutive_local_origin_failure", 5),
        ),
        success_rate: enforced("enforcing_success_rate", 100).then_some(rate),
        latency: None,
        interval_ns: ns("interval", INTERVAL).min(hour),
        eject_ns,
        eject_max_ns: ns("max_ejection_time", EJECT_MAX).clamp(eject_ns, 24 * hour),
        eject_at_most: f64::from(number("max_ejection_percent", 10).min(100)) / 100.0,
    })
}
