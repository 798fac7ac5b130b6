//! Connections: shares, health, drain, slow start, and what survives.

use super::mechanism::{Mechanism, for_each};
use super::site::{Family, Site, connect, said};
use super::support::eventually;
use rustix::process::Signal;

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// Checks that fail and pass soon.
const CHECKED: &str = "health = { tcp = {}, interval = '200ms', fall = 2, rise = 1 }\npanic = { healthy_below = 0 }";

/// Checks that so many of `n` are this share: five standard deviations of a binomial, and one.
#[track_caller]
fn check(count: usize, n: usize, share: f64, what: &str) {
    let (n, count) = (n as f64, count as f64);
    let slack = 5.0 * (n * share * (1.0 - share)).sqrt() + 1.0;
    assert!((count - n * share).abs() <= slack, "{what}: {count} of {n}, not {share} of them");
}

#[test]
fn shares_follow_weights() {
    for_each(|mechanism| {
        for family in FAMILIES {
            let of = ["weight = 5", "weight = 3", "weight = 2", "weight = 0"];
            for transport in ["tcp", "udp"] {
                let site = Site::start(mechanism, family, transport, of, "");
                for balance in mechanism.balances {
                    site.write(transport, of, &format!("balance = {balance}"));
                    site.reload();
                    let counts = site.counts(transport, 500);
                    let what = format!("{} {family:?} {transport} {balance}: {counts:?}", mechanism.name);
                    // By load, a connection goes elsewhere if the one before it is not closed yet.
                    let is_blind = balance.contains("draws = 1") || balance.contains("round_robin");
                    for (at, share) in [0.5, 0.3, 0.2, 0.0, 0.0].into_iter().enumerate() {
                        if is_blind || share == 0.0 {
                            check(counts[at], 500, share, &what);
                        } else {
                            assert!(counts[at] > 25, "{what}");
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn an_endpoint_that_fails_its_checks_gets_nothing_until_they_pass() {
    for_each(|mechanism| {
        let site = Site::start(mechanism, Family::V4, "tcp", [""; 4], CHECKED);
        site.serves("tcp", &[0, 1, 2, 3]);
        site.servers[1].switch_off();
        site.serves("tcp", &[0, 2, 3]);
        site.servers[1].switch_on(&site.endpoints[1]);
        site.serves("tcp", &[0, 1, 2, 3]);
    });
}

#[test]
fn held_connections_survive_changes_of_rules() {
    for_each(|mechanism| {
        for family in FAMILIES {
            let site = Site::start(mechanism, family, "tcp", [""; 4], "");
            let mut held: Vec<_> = (0..8).map(|_| site.connect().expect("it is balanced")).collect();
            let names: Vec<String> = held.iter_mut().map(|stream| said(stream).expect("it is answered")).collect();
            for of in [["weight = 0", "", "", ""], ["drain = true"; 4], ["", "weight = 9", "drain = true", ""]] {
                site.write("tcp", of, "");
                site.reload();
                for (stream, name) in held.iter_mut().zip(&names) {
                    assert_eq!(&said(stream).expect("it survives"), name, "{} {of:?}", mechanism.name);
                }
            }
            site.write_endpoints("tcp", "", &[(0, "")], "");
            site.reload();
            site.serves("tcp", &[0]);
            for (stream, name) in held.iter_mut().zip(&names) {
                assert_eq!(&said(stream).expect("it survives its endpoint's removal"), name, "{}", mechanism.name);
            }
        }
    });
}

#[test]
fn operators_drain_and_readmit() {
    for_each(|mechanism| {
        let site = Site::start(mechanism, Family::V4, "tcp", [""; 4], "");
        site.serves("tcp", &[0, 1, 2, 3]);
        assert!(site.command(&["drain", "web", "c"]).is_some(), "{}", site.said());
        site.serves("tcp", &[0, 1, 3]);
        assert!(site.command(&["undrain", "web", "c"]).is_some(), "{}", site.said());
        site.serves("tcp", &[0, 1, 2, 3]);
    });
}

#[test]
fn whoever_comes_begins_with_a_part_of_its_share() {
    for_each(|mechanism| {
        let ramp = "slow_start = { window = '1h', min_weight = 0.1 }";
        let site = Site::lay_out(mechanism, Family::V4);
        let mut site = site;
        site.write_endpoints("tcp", "", &[(0, ""), (1, "")], ramp);
        site.run();
        site.serves("tcp", &[0, 1]);
        site.write_endpoints("tcp", "", &[(0, ""), (1, ""), (2, "")], ramp);
        site.reload();
        let counts = eventually("a ramp", || Some(site.counts("tcp", 500)).filter(|counts| counts[2] > 0));
        check(counts[2], 500, 0.1 / 2.1, &format!("{}: {counts:?}", mechanism.name));
    });
}

#[test]
fn open_connections_are_counted_and_none_is_left() {
    for_each(|mechanism| {
        let site = Site::start(mechanism, Family::V4, "tcp", [""; 4], "");
        let mut held: Vec<_> = (0..12).map(|_| site.connect().expect("it is balanced")).collect();
        held.iter_mut().for_each(|stream| _ = said(stream).expect("it is answered"));
        let open = || site.sum("evenkeel_kernel_connections_open");
        eventually("twelve open connections", || (open() == 12.0).then_some(()));
        assert_eq!(site.sum("evenkeel_kernel_connections_total"), 12.0, "{}", mechanism.name);
        drop(held);
        eventually("no open connection", || (open() == 0.0).then_some(()));
    });
}

#[test]
fn connections_survive_a_crash_a_start_and_an_upgrade() {
    for_each(|mechanism| {
        let mut site = Site::start(mechanism, Family::V4, "tcp", [""; 4], "");
        let mut held: Vec<_> = (0..8).map(|_| site.connect().expect("it is balanced")).collect();
        let names: Vec<String> = held.iter_mut().map(|stream| said(stream).expect("it is answered")).collect();
        let mut survive = |when: &str| {
            for (stream, name) in held.iter_mut().zip(&names) {
                assert_eq!(&said(stream).expect("it survives"), name, "{} {when}", mechanism.name);
            }
        };
        site.running().signal(Signal::KILL);
        site.running().ends();
        survive("a crash");
        site.serves("tcp", &[0, 1, 2, 3]);
        site.run();
        survive("a start");
        site.serves("tcp", &[0, 1, 2, 3]);
        let open = || site.sum("evenkeel_kernel_connections_open");
        eventually("the open connections of before", || (open() == 8.0).then_some(()));
        assert!(site.command(&["upgrade"]).is_some(), "{}", site.said());
        survive("an upgrade");
        site.serves("tcp", &[0, 1, 2, 3]);
    });
}

/// A mechanism that keeps clients at their endpoints.
fn with_affinity(mechanism: &'static Mechanism) -> Site {
    let mut site = Site::lay_out(mechanism, Family::V4);
    site.write_listener("tcp", "kernel = { affinity = '1h' }", [""; 4], "");
    site.run();
    site
}

#[test]
fn a_client_keeps_its_endpoint_while_that_serves() {
    for_each(|mechanism| {
        let site = with_affinity(mechanism);
        let first = site.ask("tcp").expect("it is answered");
        assert!(site.ask_all("tcp", 50).iter().all(|name| name.as_ref() == Some(&first)), "{}", mechanism.name);
        let at = super::site::NAMES.iter().position(|name| *name == first).expect("it is known");
        let mut of = [""; 4];
        of[at] = "drain = true";
        site.write_listener("tcp", "kernel = { affinity = '1h' }", of, "");
        site.reload();
        let another = || site.ask("tcp").filter(|name| *name != first);
        let second = eventually("another endpoint", another);
        assert!(site.ask_all("tcp", 50).iter().all(|name| name.as_ref() == Some(&second)), "{}", mechanism.name);
    });
}

#[test]
fn connections_survive_the_last_listener_of_the_kernel() {
    for_each(|mechanism| {
        let site = Site::start(mechanism, Family::V4, "tcp", [""; 4], "");
        let mut held = site.connect().expect("it is balanced");
        let name = said(&mut held).expect("it is answered");
        eventually("a connection that is counted", || {
            (site.sum("evenkeel_kernel_connections_open") == 1.0).then_some(())
        });
        let config = std::fs::read_to_string(site.config()).expect("it was written");
        let kernel = format!("[kernel]\nname = '{}'\n{}\n", site.name(), mechanism.settings);
        let other = config.replace(&format!("plane = '{}'", mechanism.plane), "").replace(&kernel, "");
        let other = other.replace(&site.address().to_string(), "127.0.0.1:81");
        std::fs::write(site.config(), other).expect("it is ours");
        site.reload();
        eventually("no more service", || site.connect().is_err().then_some(()));
        assert_eq!(said(&mut held).expect("it survives"), name, "{}", mechanism.name);
        drop(held);
        eventually("an empty kernel", || site.balancer.run("nft list ruleset").is_empty().then_some(()));
    });
}

#[test]
fn an_endpoint_reaches_the_service_that_it_is_part_of() {
    for_each(|mechanism| {
        // Local clients are not endpoints here.
        for family in FAMILIES.into_iter().filter(|_| !mechanism.is_local) {
            let site = Site::start(mechanism, family, "tcp", [""; 4], "");
            let to = site.address();
            let ask = || (0..40).map(|_| said(&mut connect(to).ok()?).ok()).collect::<Vec<_>>();
            let answers = site.endpoints[0].within(ask);
            for name in super::site::NAMES {
                let what = format!("{} {family:?}: {answers:?}", mechanism.name);
                assert!(answers.contains(&Some(name.to_owned())) && !answers.contains(&None), "{what}");
            }
        }
    });
}

#[test]
fn half_open_connections_move_no_count() {
    for_each(|mechanism| {
        if !mechanism.is_local {
            let site = Site::start(mechanism, Family::V4, "tcp", [""; 4], "");
            // Answers go to addresses that no client has, so no handshake is completed.
            let to = site.address();
            site.clients.within(|| super::flood::syns(to, 2000));
            let answered = "evenkeel_kernel_connections_total";
            if mechanism.plane == "nftables" {
                eventually("counted beginnings", || (site.sum(answered) >= 1000.0).then_some(()));
            }
            assert_eq!(site.sum("evenkeel_kernel_connections_open"), 0.0, "{}", mechanism.name);
            site.serves("tcp", &[0, 1, 2, 3]);
        }
    });
}

#[test]
fn a_flood_of_beginnings_ends_no_silent_connection() {
    for_each(|mechanism| {
        if !mechanism.is_local {
            let site = Site::start(mechanism, Family::V4, "tcp", [""; 4], "");
            let mut held: Vec<_> = (0..20).map(|_| site.connect().expect("it is balanced")).collect();
            let names: Vec<String> = held.iter_mut().map(|stream| said(stream).expect("it is answered")).collect();
            // Several times what the table of flows holds.
            let to = site.address();
            site.clients.within(|| super::flood::syns(to, 30_000));
            for (stream, name) in held.iter_mut().zip(&names) {
                assert_eq!(&said(stream).expect("it survives"), name, "{}", mechanism.name);
            }
            site.serves("tcp", &[0, 1, 2, 3]);
        }
    });
}
