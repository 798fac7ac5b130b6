//! Values of arguments. The rules of configuration and scenario files apply.

use crate::arguments::At;
use clap::builder::{PossibleValue, PossibleValuesParser};
use evenkeel_balance::algorithms;
use evenkeel_config::{Diagnostic, Plan, tables};
use evenkeel_sim::planes::{self, PlaneCost};
use std::time::Duration;

/// Algorithms that a simulation compares.
#[derive(Clone, Debug)]
pub struct Policies(pub Vec<evenkeel_sim::Policy>);

/// Names as results show them, by the rules of scenario files.
pub fn policies(text: &str) -> Result<Policies, String> {
    evenkeel_sim::file::policies(text).map(Policies).map_err(|problem| said(&problem))
}

/// A number of requests a second.
pub fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| (0.001..=1e9).contains(rate));
    rate.ok_or_else(|| "write a number of requests per second, 0.001 to 1000000000".to_string())
}

/// A multiple of a load or of work.
pub fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor: &f64| (0.01..=100.0).contains(factor));
    factor.ok_or_else(|| "write a factor, 0.01 to 100, such as 1.5".to_string())
}

/// A percentile of latencies, as a part from 0 to 1.
pub fn percentile(text: &str) -> Result<f64, String> {
    let part = text.strip_prefix('p').and_then(|number| number.parse().ok()).map(|number: f64| number / 100.0);
    part.filter(|part| (0.5..=0.999).contains(part))
        .ok_or_else(|| "write a percentile, p50 to p99.9, such as p95".into())
}

pub fn plane(text: &str) -> Result<&'static PlaneCost, String> {
    planes::find(text).ok_or_else(|| format!("no such plane; there are {}", planes::NAMES.join(", ")))
}

/// A length of time, as files have it.
pub fn time(text: &str) -> Result<Duration, String> {
    let ns = tables::duration_ns(text).filter(|ns| (1_000..=3_600_000_000_000).contains(ns));
    ns.map(Duration::from_nanos).ok_or_else(|| "write a time with a unit, 1us to 1h, such as 10ms".to_string())
}

/// Names of the kinds of advice.
pub fn kinds_of_advice() -> PossibleValuesParser {
    PossibleValuesParser::new(evenkeel_advise::kinds::ALL.iter().map(|kind| kind.name))
}

/// Names of the registry, so that help, completion and did-you-mean know them.
pub fn algorithm_names() -> PossibleValuesParser {
    algorithms::ALL.iter().map(|a| PossibleValue::new(a.name).aliases(a.aliases)).collect::<Vec<_>>().into()
}

/// Peer address for checks of a single address: no machine has it (RFC 5737).
const NOWHERE: &str = "192.0.2.1:1";

/// An endpoint, by the rules of the configuration file.
pub fn endpoint(text: &str) -> Result<String, String> {
    let outcome = Plan::for_addresses(NOWHERE, &[text], None, false);
    match outcome.diagnostics.first() {
        None => Ok(text.to_string()),
        Some(_) if std::path::Path::new(text).extension().is_some_and(|e| e == "toml") => {
            Err(format!("an endpoint is HOST:PORT; to run a configuration file: evenkeel run -c {text}"))
        }
        Some(problem) => Err(said(problem)),
    }
}

/// An address to listen on, by the rules of the configuration file; a port alone is that port everywhere.
pub fn listen(text: &str) -> Result<String, String> {
    bind(text, everywhere)
}

/// Reads an address like [`listen`], but a port alone is on this machine: the admin answers all that reach it.
pub fn admin(text: &str) -> Result<String, String> {
    bind(text, |port| format!("127.0.0.1:{port}"))
}

/// The address of the admin of a running evenkeel.
pub fn admin_address(text: &str) -> Result<At, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return match path.starts_with('/') {
            true => Ok(At::Socket(path.into())),
            false => Err(format!("the path of a Unix socket must be absolute, such as unix:/run/evenkeel/{path}")),
        };
    }
    if text.starts_with('/') {
        return Err(format!("write a Unix socket as unix:{text}"));
    }
    if text.starts_with("https://") {
        return Err("the admin listener has no TLS: write http://HOST:PORT".to_string());
    }
    let address = text.strip_prefix("http://").unwrap_or(text);
    let address = address.strip_suffix('/').unwrap_or(address);
    let (host, port) = address.rsplit_once(':').unwrap_or(("", address));
    if port.parse::<u16>().is_err() || host.contains('/') {
        return Err("write HOST:PORT, :PORT, http://HOST:PORT or unix:PATH".to_string());
    }
    let host = if host.is_empty() { "127.0.0.1" } else { host };
    Ok(At::Address(format!("{host}:{port}")))
}

fn bind(text: &str, alone: impl Fn(&str) -> String) -> Result<String, String> {
    let port = text.strip_prefix(':').unwrap_or(text);
    let full = if port.parse::<u16>().is_ok() { alone(port) } else { text.to_string() };
    let outcome = Plan::for_addresses(&full, &[NOWHERE], None, false);
    outcome.diagnostics.first().map_or(Ok(full), |problem| Err(said(problem)))
}

/// Every address of this machine, IPv6 and IPv4; only IPv4 where the kernel has no IPv6.
pub fn everywhere(port: &str) -> String {
    let ipv6 = std::net::UdpSocket::bind("[::]:0").is_ok();
    format!("{}:{port}", if ipv6 { "[::]" } else { "0.0.0.0" })
}

/// Text of a problem on one line. clap prints it behind the argument.
fn said(problem: &Diagnostic) -> String {
    let help = problem.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
    format!("{}{help}", problem.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_listens_everywhere() {
        for text in [":8080", "8080"] {
            assert!(["[::]:8080", "0.0.0.0:8080"].contains(&&*listen(text).unwrap()), "{text}");
        }
        assert_eq!(listen("127.0.0.1:80").unwrap(), "127.0.0.1:80");
        assert_eq!(admin(":9900").unwrap(), "127.0.0.1:9900");
        let at = |text| admin_address(text).map(|at| format!("{at:?}"));
        for (text, want) in [
            (":9900", "127.0.0.1:9900"),
            ("9900", "127.0.0.1:9900"),
            ("lb-1:9900", "lb-1:9900"),
            ("http://[::1]:9900/", "[::1]:9900"),
        ] {
            assert_eq!(at(text), Ok(format!("{:?}", At::Address(want.into()))));
        }
        assert_eq!(at("unix:/a b"), Ok(format!("{:?}", At::Socket("/a b".into()))));
        for text in ["", "unix:a", "/a", "https://a:1", "http://a:1/ui", "a", "a:b", "a:70000"] {
            assert!(admin_address(text).is_err(), "{text}");
        }
        for text in ["", ":", ":0", "0", "localhost:80", "127.0.0.1", ":65536"] {
            assert!(listen(text).is_err(), "{text}");
        }
    }
}
