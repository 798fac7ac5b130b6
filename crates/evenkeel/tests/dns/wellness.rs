//! Answers and the health of endpoints: one that ends is no longer named, one that comes back is, and a reload replaces the zone
//! without losing a query.

use crate::support::{Folder, Running, address, eventually, text};
use evenkeel_peers::installed;
use rustix::process::Signal;
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(1);

/// The addresses of a name, in order; empty when there is no answer.
pub fn ask(listen: &str, name: &str) -> Vec<String> {
    let (ip, port) = listen.rsplit_once(':').expect("an address with a port");
    let mut dig = Command::new("dig");
    dig.args([&format!("@{ip}"), "-p", port, "+short", "+tries=1", "+time=5", name]);
    let mut said: Vec<_> =
        text(&dig.output().expect("scripts/setup.sh installs dig").stdout).lines().map(str::to_string).collect();
    said.sort();
    said
}

/// A file with endpoints on three addresses of one port.
fn file(folder: &Folder, listen: &str, ips: &[&str], port: u16, more: &str) -> String {
    let endpoints: Vec<_> = ips.iter().map(|ip| format!("{ip}:{port}")).collect();
    folder.file(
        "evenkeel.toml",
        &format!(
            "[listener.dns]\nbind = ['{listen}']\nmode = 'dns'\n\
             zone = {{ name = 'a.example', records = {{ www = {{ pool = 'web' }} }} {more} }}\n\
             [pool.web]\nbalance = 'round_robin'\nendpoints = {endpoints:?}\n\
             health = {{ tcp = {{}}, interval = '{INTERVAL:?}', timeout = '500ms', jitter = 0, fall = 1, rise = 1 }}\n"
        ),
    )
}

#[test]
fn an_endpoint_that_ends_is_gone_after_a_failed_check_and_comes_back() {
    if !installed(&["dig"]) {
        return;
    }
    let (folder, listen) = (Folder::new("dns-wellness"), address());
    let base = address();
    let (ip, port) = base.rsplit_once(':').expect("an address with a port");
    let port: u16 = port.parse().expect("a number");
    let ips = [ip.to_string(), other(ip, 1), other(ip, 2)];
    let ips = [&*ips[0], &*ips[1], &*ips[2]];
    let serve = |ip: &str| TcpListener::bind((ip, port)).expect("nobody else uses it");
    let mut listeners: Vec<_> = ips.iter().map(|ip| Some(serve(ip))).collect();
    let sorted = |of: &[&str]| {
        let mut of: Vec<_> = of.iter().map(ToString::to_string).collect();
        of.sort();
        of
    };
    let mut running = Running::start(&["run", "--config", &file(&folder, &listen, &ips, port, "")]);
    eventually("all of them", || (ask(&listen, "www.a.example") == sorted(&ips)).then_some(()));

    listeners[1] = None;
    eventually("two of them", || (ask(&listen, "www.a.example") == sorted(&[ips[0], ips[2]])).then_some(()));
    listeners[1] = Some(serve(ips[1]));
    eventually("all of them again", || (ask(&listen, "www.a.example") == sorted(&ips)).then_some(()));

    // None is well: all are named, as the checks may be what is wrong.
    listeners.clear();
    file(&folder, &listen, &ips[..2], port, "");
    running.signal(Signal::HUP);
    eventually("both of the new plan", || (ask(&listen, "www.a.example") == sorted(&ips[..2])).then_some(()));
    let panics = "\n[pool.web.panic]\nmode = 'refuse'\n";
    let path = file(&folder, &listen, &ips[..2], port, ", fail_open = false");
    let whole = std::fs::read_to_string(&path).expect("it was written") + panics;
    std::fs::write(&path, whole).expect("it can be written");
    running.signal(Signal::HUP);
    eventually("none", || ask(&listen, "www.a.example").is_empty().then_some(()));
    running.signal(Signal::TERM);
    assert_eq!(running.code(), Some(0), "{}", running.said());
}

/// Another loopback address that no other test has.
fn other(ip: &str, n: u8) -> String {
    let mut parts: Vec<u8> = ip.split('.').map(|part| part.parse().expect("a number")).collect();
    parts[1] ^= n << 4;
    parts.iter().map(ToString::to_string).collect::<Vec<_>>().join(".")
}

#[test]
fn queries_are_answered_through_reloads() {
    if !installed(&["dig"]) {
        return;
    }
    let (folder, listen) = (Folder::new("dns-reload"), address());
    let zone = |ttl: u32| {
        folder.file(
            "evenkeel.toml",
            &format!(
                "[listener.dns]\nbind = ['{listen}']\nmode = 'dns'\n\
                 zone = {{ name = 'a.example', ttl = '{ttl}s', records = {{ www = {{ pool = 'web' }} }} }}\n\
                 [pool.web]\nbalance = 'round_robin'\nendpoints = ['10.9.0.1:80', '10.9.0.2:80']\n"
            ),
        )
    };
    let running = Running::start(&["run", "--config", &zone(1)]);
    for ttl in 2..12 {
        zone(ttl);
        running.signal(Signal::HUP);
        eventually("the new time to live", || {
            let (ip, port) = listen.rsplit_once(':').expect("an address with a port");
            let mut dig = Command::new("dig");
            // One try: a query that is lost fails the test.
            dig.args([&format!("@{ip}"), "-p", port, "+tries=1", "+noall", "+answer", "www.a.example"]);
            let said = text(&dig.output().expect("scripts/setup.sh installs dig").stdout);
            assert_eq!(said.lines().count(), 2, "{said}");
            said.split_whitespace().nth(1).filter(|seen| *seen == ttl.to_string()).map(|_| ())
        });
    }
}
