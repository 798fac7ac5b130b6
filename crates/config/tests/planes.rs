//! Planes of the kernel: which algorithms and listeners are accepted, and what the report lists.

use evenkeel_balance::algorithms;
use evenkeel_config::plan::{Balance, Mode, Plane};
use evenkeel_config::planes::{Fidelity, Forwarding};
use evenkeel_config::{NoFiles, Outcome, parse_str, planes_from, render_text};
use std::path::Path;

const PLANES: [(&str, Plane); 3] = [("nftables", Plane::Nftables), ("ebpf", Plane::Ebpf), ("ipvs", Plane::Ipvs)];

/// A listener of a plane, whose pool has these keys.
fn forwarded(plane: &str, mode: &str, keys: &str) -> Outcome {
    let text = format!(
        "[listener.vip]\nbind = ['192.0.2.10:80']\nmode = '{mode}'\nplane = '{plane}'\npool = 'p'\n[pool.p]\n{keys}\n"
    );
    parse_str("test.toml", &text, &|_| None)
}

#[test]
fn a_plane_is_given_the_algorithms_that_it_keeps() {
    for (name, plane) in PLANES {
        for algorithm in algorithms::ALL {
            let refused =
                matches!(Forwarding::of(Mode::Tcp, plane).keeps(&Balance::of(algorithm)), Fidelity::Refused(_));
            for mode in ["tcp", "udp"] {
                let keys = format!("balance = '{}'\nsource = 'client'\nendpoints = ['10.0.0.1:80']", algorithm.name);
                let outcome = forwarded(name, mode, &keys);
                let said = render_text(&outcome.diagnostics, false);
                assert_eq!(outcome.plan.is_none(), refused, "{name} {mode} {}: {said}", algorithm.name);
                let advised = said.contains("help: set plane = ");
                assert_eq!(advised, refused, "{name} {mode} {}: {said}", algorithm.name);
            }
        }
    }
}

#[test]
fn advice_names_planes_that_keep_the_algorithm() {
    for (balance, plane, help) in [
        (
            "leastconn",
            "nftables",
            "set plane = \"ebpf\" or plane = \"ipvs\" or plane = \"proxy\", or balance = \"round_robin\"",
        ),
        ("random", "nftables", "or balance = { random = { draws = 1 } }"),
        ("first", "ebpf", "set plane = \"proxy\", or balance = \"leastconn\""),
    ] {
        let outcome = forwarded(plane, "tcp", &format!("balance = '{balance}'\nendpoints = ['10.0.0.1:80']"));
        let said = render_text(&outcome.diagnostics, false);
        assert!(said.contains(help), "{said}");
    }
}

#[test]
fn names_of_any_family_and_addresses_of_the_listeners_are_endpoints() {
    let keys =
        "balance = 'round_robin'\nendpoints = ['db.example.com:80', '10.0.0.1:80']\ndiscover = { file = 'more.toml' }";
    let outcome = forwarded("nftables", "tcp", keys);
    assert!(outcome.plan.is_some() && outcome.diagnostics.is_empty(), "{}", render_text(&outcome.diagnostics, false));
}

#[test]
fn an_address_of_the_kernel_belongs_to_one_listener_of_its_transport() {
    let text = |second: &str| {
        format!(
            "[listener.vip]\nbind = ['192.0.2.10:80']\nmode = 'tcp'\nplane = 'ebpf'\npool = 'p'\n\
             [listener.other]\n{second}\npool = 'p'\n[pool.p]\nendpoints = ['10.0.0.1:80']\n"
        )
    };
    for (second, clashes) in [
        ("bind = ['192.0.2.10:80']\nmode = 'tcp'\nplane = 'ebpf'", true),
        ("bind = ['192.0.2.10:80']\nmode = 'tcp'", true),
        ("bind = ['192.0.2.10:80']", true),
        ("bind = ['0.0.0.0:80']", true),
        ("bind = ['192.0.2.10:80']\nmode = 'udp'\nplane = 'ebpf'", false),
        ("bind = ['192.0.2.10:81']\nmode = 'tcp'\nplane = 'ebpf'", false),
    ] {
        let outcome = parse_str("test.toml", &text(second), &|_| None);
        let said = render_text(&outcome.diagnostics, false);
        assert_eq!(said.contains("EK0206"), clashes, "{second}: {said}");
    }
}

#[test]
fn the_report_has_a_line_for_each_pool_of_a_listener_also_if_it_is_refused() {
    let folder = std::env::temp_dir().join(format!("evenkeel-planes-{}.toml", std::process::id()));
    let text = "[listener.web]\nbind = ['127.0.0.1:80']\n[listener.vip]\nbind = ['192.0.2.10:80']\nmode = 'tcp'\n\
                plane = 'nftables'\npool = 'sessions'\n[listener.names]\nbind = ['127.0.0.1:53']\nmode = 'dns'\n\
                zone = { name = 'a.example', records = { www = { pool = 'web' } } }\n[[route]]\npool = 'web'\n\
                [pool.web]\nendpoints = ['10.0.0.1:80']\n[pool.sessions]\nbalance = 'leastconn'\nendpoints = ['10.0.0.1:80']\n";
    std::fs::write(&folder, text).expect("the temporary folder can be written");
    let lines = planes_from(&evenkeel_config::Disk, &folder, &|_| None);
    let _ = std::fs::remove_file(&folder);
    let of: Vec<_> =
        lines.iter().map(|line| (&*line.listener, line.kind.name(), &*line.pool, line.keeps.word())).collect();
    assert_eq!(
        of,
        [
            ("web", "proxy http", "web", "exact"),
            ("vip", "nftables", "sessions", "refused"),
            ("names", "dns", "web", "approximated"),
        ]
    );
    let names: Vec<&str> = lines[1].that_keep().into_iter().map(Forwarding::name).collect();
    assert_eq!(names, ["ebpf", "ipvs", "proxy tcp/udp"]);
    assert!(planes_from(&NoFiles, Path::new("absent.toml"), &|_| None).is_empty());
}
