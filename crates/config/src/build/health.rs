//! Who may be used: health checks, ejection, slow start, panic and zones of `[pool.NAME]`.

use super::contradiction;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Formed;
use crate::nearest::suggest;
use crate::plan::{Check, Endpoint, HealthCheck};
use crate::quantity::duration_text;
use crate::read::{Section, Value};
use evenkeel_balance::eligible::{Locality, Panic, PanicMode};
use evenkeel_balance::endpoint::stable_hash;
use evenkeel_balance::picker::Algorithm;
use evenkeel_balance::{health, outlier, slow_start};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

pub(super) fn health(pool: &Section, name: &str, findings: &mut Findings) -> Option<HealthCheck> {
    pool.set("health")?;
    let health = pool.section("health");
    let kinds = ["http", "tcp", "udp"];
    let mut set = kinds.into_iter().filter_map(|kind| health.set(kind).map(|set| (kind, set)));
    let check = match (set.next(), set.next()) {
        (None, _) => {
            findings
                .add(Code::Missing, health.place, format!("health of [pool.{name}] does not say how to check"))
                .help("add http = { path = \"/\" }, tcp = {} or udp = { send = \"ping\" }");
            None
        }
        (Some((first, _)), Some((second, set))) => {
            let message = format!("\"health\" has both \"{first}\" and \"{second}\"");
            contradiction(&health, set.place, message, first, findings).help("keep the one that says more");
            None
        }
        (Some(("http", _)), None) => Some(http_check(&health.section("http"), findings)),
        (Some(("udp", _)), None) => {
            let udp = health.section("udp");
            payload(&udp, "send").map(|send| Check::Udp { send, expect: payload(&udp, "expect") })
        }
        (Some(_), None) => Some(Check::Tcp),
    };
    let interval = health.duration("interval").unwrap_or_default();
    let timeout = health.duration("timeout").unwrap_or(HealthCheck::usual_timeout(interval));
    if timeout > interval && !health.is_broken() {
        let (timeout, interval) = (duration_text(timeout), duration_text(interval));
        let message = format!("\"timeout\" is {timeout}, but the next check begins after {interval}, the \"interval\"");
        contradiction(&health, health.place_of("timeout"), message, "interval", findings)
            .help(format!("write timeout = \"{interval}\" or shorter, or make \"interval\" longer"));
    }
    Some(HealthCheck {
        check: check?,
        port: health.set("port").map(|_| health.number("port")),
        interval,
        jitter: health.float("jitter"),
        timeout,
        machine: health::Settings {
            fall: health.number("fall"),
            rise: health.number("rise"),
            initial: match health.word("initial") {
                "healthy" => health::Initial::Healthy,
                "unhealthy" => health::Initial::Unhealthy,
                _ => health::Initial::CheckFirst,
            },
        },
    })
}

impl HealthCheck {
    /// The timeout of checks that set none: longer than a healthy endpoint takes for a small page.
    pub(crate) fn usual_timeout(interval: Duration) -> Duration {
        interval.min(Duration::from_secs(1))
    }
}

fn payload(udp: &Section, key: &str) -> Option<Vec<u8>> {
    if let Some(Formed::Payload(bytes)) = udp.formed(key) { Some(bytes) } else { None }
}

fn http_check(http: &Section, findings: &mut Findings) -> Check {
    let (method, body) = (http.word("method"), http.text("body"));
    if method == "HEAD" && body.is_some() {
        let place = http.place_of("body");
        let message = "\"body\" is expected, but the response to HEAD has none";
        contradiction(http, place, message, "method", findings).help("write method = \"GET\", or leave \"body\" out");
    }
    let statuses = |value| match value {
        Value::Int(n) => u16::try_from(n).ok().map(|n| n..=n),
        Value::Formed(Formed::Statuses(range)) => Some(range),
        _ => None,
    };
    let expect: Vec<RangeInclusive<u16>> =
        http.list("expect").into_iter().filter_map(|located| statuses(located.value)).collect();
    Check::Http {
        method: method.to_string(),
        path: http.text("path").unwrap_or_default(),
        host: http.text("host"),
        expect,
        body,
    }
}

pub(crate) fn outlier(pool: &Section, findings: &mut Findings) -> Option<outlier::Settings> {
    if pool.word("outlier") == "off" {
        return None;
    }
    let outlier = pool.section("outlier");
    let (eject_ns, eject_max_ns) = (outlier.ns("eject"), outlier.ns("eject_max"));
    if eject_ns > eject_max_ns && !outlier.is_broken() {
        let text = |ns| duration_text(Duration::from_nanos(ns));
        let (eject, max) = (text(eject_ns), text(eject_max_ns));
        let (set, other) = if outlier.set("eject").is_some() { ("eject", "eject_max") } else { ("eject_max", "eject") };
        let message =
            format!("the first ejection, \"eject\", lasts {eject}, but the longest, \"eject_max\", only {max}");
        contradiction(&outlier, outlier.place_of(set), message, other, findings)
            .help(format!("write eject_max = \"{eject}\" or longer, or eject = \"{max}\" or shorter"));
    }
    let rate = |rate: Section| outlier::SuccessRate {
        deviations: rate.float("deviations"),
        min_requests: rate.int("min_requests"),
        min_endpoints: rate.number("min_endpoints"),
    };
    let latency = |latency: Section| outlier::Latency {
        factor: latency.float("factor"),
        min_requests: latency.int("min_requests"),
    };
    Some(outlier::Settings {
        consecutive_5xx: outlier.number("consecutive_5xx"),
        consecutive_gateway: outlier.number("consecutive_gateway"),
        consecutive_connect: outlier.number("consecutive_connect"),
        success_rate: outlier.set("success_rate").map(|_| rate(outlier.section("success_rate"))),
        latency: outlier.set("latency").map(|_| latency(outlier.section("latency"))),
        interval_ns: outlier.ns("interval"),
        eject_ns,
        eject_max_ns,
        eject_at_most: outlier.float("eject_at_most"),
    })
}

pub(super) fn slow_start(
    pool: &Section,
    algorithm: &Algorithm,
    findings: &mut Findings,
) -> Option<slow_start::Settings> {
    let set = pool.set("slow_start")?;
    let (name, promises, needs) = (algorithm.name, algorithm.promises, algorithm.needs);
    let shares = promises.shares_when_idle || promises.shares_when_busy || promises.shares_whatever_the_load;
    let mut at_odds = |message: String, help: &str| {
        let balance = pool.place_of("balance");
        findings.add(Code::AtOdds, set.place, message).see("the algorithm is here", balance).help(help);
    };
    if promises.affinity {
        at_odds(
            format!("\"{name}\" keeps keys where they are, but each step of \"slow_start\" moves some"),
            "leave one of the two out: with it, keys move many times instead of once when an endpoint comes back",
        );
    } else if !shares && !needs.latency && !needs.probes {
        // Who promises no shares and learns nothing of endpoints goes by an order of its own.
        at_odds(
            format!("\"{name}\" does not look at weights, so \"slow_start\" does nothing"),
            "leave it out, or choose another algorithm, as \"leastconn\"",
        );
    }
    Some(ramp(&pool.section("slow_start")))
}

/// What a table `slow_start` says.
pub(crate) fn ramp(table: &Section) -> slow_start::Settings {
    slow_start::Settings {
        window_ns: table.ns("window"),
        aggression: table.float("aggression"),
        min_weight: table.float("min_weight"),
    }
}

pub(crate) fn panic(pool: &Section) -> Panic {
    let panic = pool.section("panic");
    Panic {
        healthy_below: panic.float("healthy_below"),
        mode: if panic.word("mode") == "refuse" { PanicMode::Refuse } else { PanicMode::UseAll },
    }
}

/// The own zone, by its name and as algorithms see it.
pub(super) fn locality(
    pool: &Section,
    endpoints: &[Endpoint],
    discovers: bool,
    findings: &mut Findings,
) -> Option<(Arc<str>, Locality)> {
    pool.set("locality")?;
    let locality = pool.section("locality");
    let zone = locality.text("zone")?;
    let mut zones: Vec<&str> = endpoints.iter().filter_map(|e| e.zone.as_deref()).collect();
    // What is found later may be there.
    if !discovers && !zones.contains(&zone.as_str()) {
        zones.sort_unstable();
        zones.dedup();
        let help = match zones.is_empty() {
            true => format!("give endpoints of it zone = \"{zone}\", or leave \"locality\" out"),
            false => suggest(&zone, &zones),
        };
        let message = format!("no endpoint is in the zone \"{zone}\": all requests go to other zones");
        findings.add(Code::UnknownZone, locality.place_of("zone"), message).help(help);
    }
    let hashed = Locality { zone: stable_hash(zone.as_bytes()), spill_at: locality.float("spill_at") };
    Some((zone.into(), hashed))
}
