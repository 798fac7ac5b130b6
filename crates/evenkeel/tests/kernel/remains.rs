//! Rules and programs of evenkeel in the kernel: nothing is left behind, nothing of others is touched.

use super::mechanism::{MECHANISMS, for_each};
use super::site::{Family, Site, said};
use super::support::{evenkeel, eventually, text, within};
use rustix::process::Signal;
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn nothing_is_left_after_the_end() {
    for_each(|mechanism| {
        let mut site = Site::start(mechanism, Family::V4, "tcp", [""; 4], "");
        site.running().signal(Signal::TERM);
        assert_eq!(site.running().ends(), Some(0), "{}", site.said());
        assert_eq!(site.balancer.run("nft list ruleset"), "", "{}", mechanism.name);
        assert!(site.connect().is_err());
    });
}

#[test]
fn the_kernel_balances_on_if_it_shall() {
    for_each(|mechanism| {
        let mut site = Site::lay_out(mechanism, Family::V4);
        site.write("tcp", [""; 4], "");
        let config = std::fs::read_to_string(site.config()).expect("it was written");
        std::fs::write(site.config(), config.replace("[kernel]\n", "[kernel]\non_exit = 'keep'\n"))
            .expect("it is ours");
        site.run();
        site.running().signal(Signal::TERM);
        assert_eq!(site.running().ends(), Some(0), "{}", site.said());
        site.serves("tcp", &[0, 1, 2, 3]);
    });
}

#[test]
fn a_table_of_the_same_name_that_is_not_ours_is_an_error_and_stays() {
    super::mechanism::alone(|| {
        let site = Site::lay_out(&MECHANISMS[0], Family::V4);
        site.balancer.run(&format!("nft add table inet {}", site.name()));
        site.balancer.run(&format!("nft add chain inet {} theirs", site.name()));
        site.write("tcp", [""; 4], "");
        let config = site.config();
        let output = site.balancer.within(|| evenkeel(&["run", "-c", &config]));
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(&format!("table \"{}\"", site.name())), "{said}");
        assert!(site.balancer.run("nft list ruleset").contains("theirs"));
    });
}

#[test]
fn rules_that_others_flush_are_restored() {
    super::mechanism::alone(|| {
        let site = Site::start(&MECHANISMS[0], Family::V4, "tcp", [""; 4], "");
        let mut held = site.connect().expect("it is balanced");
        let name = said(&mut held).expect("it is answered");
        site.balancer.run("nft flush ruleset");
        eventually("rules again", || site.ask("tcp"));
        assert_eq!(said(&mut held).expect("it survives"), name);
    });
}

#[test]
fn an_interface_that_is_made_again_is_found_at_once() {
    for_each(|mechanism| {
        if mechanism.name != "ebpf, forward" {
            return;
        }
        let site = Site::start(mechanism, Family::V4, "tcp", [""; 4], "");
        site.serves("tcp", &[0, 1, 2, 3]);
        // Interfaces are looked at each ten seconds in any case, so that chance would find it in time once or twice.
        for _ in 0..4 {
            site.cable_clients_again();
            let to = site.address();
            let connect = || TcpStream::connect_timeout(&to, Duration::from_millis(200)).ok();
            let found = within(Duration::from_secs(5), || site.clients.within(connect));
            assert!(found.is_some(), "{}", site.said());
        }
    });
}

#[test]
fn cleanup_removes_what_a_crash_has_left_and_nothing_that_is_in_use() {
    for_each(|mechanism| {
        let mut site = Site::start(mechanism, Family::V4, "tcp", [""; 4], "");
        let config = site.config();
        let cleanup = |site: &Site| site.balancer.within(|| evenkeel(&["cleanup", "--config", &config]));
        let mut held = site.connect().expect("it is balanced");
        super::site::said(&mut held).expect("it is answered");
        let refused = cleanup(&site);
        let said = text(&refused.stderr);
        assert!(
            refused.status.code() == Some(1) && said.contains("and uses its rules in the kernel"),
            "{}: {said}",
            mechanism.name
        );
        site.serves("tcp", &[0, 1, 2, 3]);
        site.running().signal(Signal::KILL);
        site.running().ends();
        site.serves("tcp", &[0, 1, 2, 3]);
        let removed = cleanup(&site);
        let said = text(&removed.stdout);
        assert!(removed.status.success(), "{}: {}", mechanism.name, text(&removed.stderr));
        assert!(said.starts_with(mechanism.plane) && said.contains("with 4 endpoints"), "{}: {said}", mechanism.name);
        assert_eq!(site.balancer.run("nft list ruleset"), "", "{}", mechanism.name);
        assert!(site.connect().is_err());
        let again = text(&cleanup(&site).stdout);
        assert!(again.starts_with("nothing is left under the name"), "{}: {again}", mechanism.name);
        // The connection ended unseen, and counts no more.
        drop(held);
        site.run();
        site.serves("tcp", &[0, 1, 2, 3]);
        eventually("no open connection", || (site.sum("evenkeel_kernel_connections_open") == 0.0).then_some(()));
    });
}

#[test]
fn a_name_has_one_process_and_what_others_remove_under_it_is_restored() {
    for_each(|mechanism| {
        let site = Site::start(mechanism, Family::V4, "tcp", [""; 4], "");
        let copy = format!("{}.copy.toml", site.config());
        let config = std::fs::read_to_string(site.config()).expect("it was written");
        std::fs::write(&copy, config.replace(":9900", ":9901").replace("admin.sock", "other.sock"))
            .expect("it is ours");
        for command in [&["run", "-c", &copy][..], &["cleanup", "--config", &copy]] {
            let refused = site.balancer.within(|| evenkeel(command));
            let said = text(&refused.stderr);
            assert!(refused.status.code() == Some(1) && said.contains("under the name"), "{}: {said}", mechanism.name);
            site.serves("tcp", &[0, 1, 2, 3]);
        }
        let forced = site.balancer.within(|| evenkeel(&["cleanup", "--force", "--config", &copy]));
        assert!(forced.status.success(), "{}: {}", mechanism.name, text(&forced.stderr));
        eventually("what was removed", || site.ask("tcp"));
        site.serves("tcp", &[0, 1, 2, 3]);
    });
}

#[test]
fn operators_see_the_plane_its_connections_and_what_the_kernel_has() {
    for_each(|mechanism| {
        let site = Site::start(mechanism, Family::V4, "tcp", [""; 4], "");
        let mut held = site.connect().expect("it is balanced");
        said(&mut held).expect("it is answered");
        let line = format!("listener web (tcp by {}) on {}: 1 connections open", mechanism.plane, site.address());
        eventually("an open connection in the status", || {
            site.command(&["status"]).filter(|status| status.contains(&line))
        });
        let explained = site.command(&["explain", "--listener", "web"]).unwrap_or_else(|| panic!("{}", site.said()));
        let begin = format!("listener web ({}) -> pool web: 1 connections open", mechanism.plane);
        assert!(explained.starts_with(&begin) && explained.lines().count() > 1, "{explained}");
        assert!(site.command(&["explain", "--listener", "none"]).is_none());
    });
}

#[test]
fn open_connections_have_time_to_end_before_nothing_translates_them_any_more() {
    for_each(|mechanism| {
        let mut site = Site::start(mechanism, Family::V4, "tcp", [""; 4], "");
        let mut held = site.connect().expect("it is balanced");
        let name = said(&mut held).expect("it is answered");
        eventually("the open connection", || (site.sum("evenkeel_kernel_connections_open") == 1.0).then_some(()));
        site.running().signal(Signal::TERM);
        // Connections that were balanced at connect() need nothing any more, so that nothing is there to refuse others.
        let is_refused = |error: std::io::Error| {
            error.kind() == std::io::ErrorKind::ConnectionRefused || mechanism.name == "ebpf, connect"
        };
        eventually("nothing new", || site.connect().is_err_and(is_refused).then_some(()));
        assert_eq!(said(&mut held).expect("it survives"), name, "{}", mechanism.name);
        drop(held);
        assert_eq!(site.running().ends(), Some(0), "{}", site.said());
        assert_eq!(site.balancer.run("nft list ruleset"), "", "{}", mechanism.name);
    });
}
