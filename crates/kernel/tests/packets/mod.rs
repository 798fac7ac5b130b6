//! Program of forwarding, with packets made by hand: BPF_PROG_TEST_RUN.

mod any;
pub mod bytes;
mod icmp;
mod live;
mod world;

use crate::tables;
use bytes::{ACK, FIN, RST, SYN, TCP, UDP, ethernet, ip, tcp, udp};
use evenkeel_kernel::ebpf::forward::Settings;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use world::{DROP, Family, REDIRECT, SECOND, World, families};

/// Endpoints refuse ports that a process before has just used.
#[test]
fn source_ports_begin_elsewhere_after_each_start() {
    let ports = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..4 {
        let ports = ports.clone();
        World::run(Settings::default(), 0, move |world| {
            let Family { client, service, .. } = families()[0];
            let port = world.sent(&tcp(client, service, SYN, (1, 0), &[], b"")).from().port();
            ports.lock().expect("no thread panics with it").push(port);
        });
    }
    let ports = ports.lock().expect("no thread panics with it");
    assert!(ports.is_empty() || ports.iter().any(|port| *port != ports[0]), "{ports:?}");
}

#[test]
fn packets_are_translated_both_ways() {
    World::run(Settings::default(), 0, |world| {
        for family in families() {
            let Family { client, service, own, endpoint, .. } = family;
            for protocol in [TCP, UDP] {
                let make = |from, to, flags, numbers, data: &[u8]| match protocol {
                    TCP => tcp(from, to, flags, numbers, &[], data),
                    _ => udp(from, to, data),
                };
                let there = world.sent(&make(client, service, SYN, (1, 0), b""));
                assert_eq!((there.source, there.to(), there.ttl), (own.ip(), endpoint, 63));
                let port = there.from();
                let back = world.sent(&make(endpoint, port, SYN | ACK, (5, 2), b"odd"));
                assert_eq!((back.from(), back.to(), back.ttl), (service, client, 63));
                assert!(back.payload.ends_with(b"odd"));
                for length in [0, 1, 2, 999, 1000] {
                    let data = vec![0xa5; length];
                    let there = world.sent(&make(client, service, ACK, (2, 6), &data));
                    assert_eq!((there.from(), there.to()), (port, endpoint));
                    assert!(there.payload.ends_with(&data));
                }
            }
        }
    });
}

#[test]
fn with_the_clients_source_only_the_target_is_translated() {
    World::run(Settings::default(), tables::CLIENT, |world| {
        for family in families() {
            let Family { client, service, endpoint, .. } = family;
            let there = world.sent(&tcp(client, service, SYN, (1, 0), &[], &[]));
            assert_eq!((there.from(), there.to()), (client, endpoint));
            let back = world.sent(&tcp(endpoint, client, SYN | ACK, (5, 2), &[], &[]));
            assert_eq!((back.from(), back.to()), (service, client));
        }
    });
}

#[test]
fn a_connection_counts_from_the_clients_acknowledgement_until_its_end() {
    World::run(Settings::default(), 0, |world| {
        for family in families() {
            let Family { client, service, endpoint, id, .. } = family;
            let own = world.sent(&tcp(client, service, SYN, (100, 0), &[], &[])).from();
            assert_eq!(world.tables.load(id), (0, 0, 0));
            world.sent(&tcp(client, service, ACK, (101, 501), &[], &[]));
            assert_eq!(world.tables.load(id), (0, 0, 0), "before the endpoint has answered");
            world.sent(&tcp(endpoint, own, SYN | ACK, (500, 101), &[], &[]));
            assert_eq!(world.tables.load(id), (0, 0, 0));
            world.sent(&tcp(client, service, ACK, (101, 0x8000_0000), &[], &[]));
            assert_eq!(world.tables.load(id), (0, 0, 0), "a guessed number");
            world.sent(&tcp(client, service, ACK, (101, 501), &[], &[]));
            world.sent(&tcp(client, service, ACK, (101, 501), &[], b"x"));
            assert_eq!(world.tables.load(id), (1, 1, 0));
            world.sent(&tcp(endpoint, own, FIN | ACK, (501, 102), &[], &[]));
            assert_eq!(world.tables.load(id), (1, 1, 0), "half closed");
            world.sent(&tcp(client, service, FIN | ACK, (102, 502), &[], &[]));
            assert_eq!(world.tables.load(id), (0, 1, 0));
            world.sent(&tcp(endpoint, own, RST, (502, 102), &[], &[]));
            assert_eq!(world.tables.load(id), (0, 1, 0), "an end counts once");
            // The client's port is used again.
            let again = world.open(family);
            assert_eq!(
                again, own,
                "a client's port and this machine's go together, as time stamps of the client only rise"
            );
            assert_eq!(world.tables.load(id), (1, 2, 0));
            world.sent(&tcp(client, service, RST, (101, 0), &[], &[]));
            assert_eq!(world.tables.load(id), (0, 2, 0));
            world.forward.borrow_mut().sweep().expect("a sweep");
            assert_eq!(world.tables.load(id), (0, 2, 0));
        }
    });
}

#[test]
fn a_refused_connection_is_a_failure() {
    World::run(Settings::default(), 0, |world| {
        let Family { client, service, endpoint, id, .. } = families()[0];
        let own = world.sent(&tcp(client, service, SYN, (100, 0), &[], &[])).from();
        world.sent(&tcp(endpoint, own, RST | ACK, (0, 101), &[], &[]));
        assert_eq!(world.tables.load(id), (0, 1, 1));
    });
}

#[test]
fn a_connection_that_is_not_answered_is_a_failure_after_some_seconds() {
    World::run(Settings::default(), 0, |world| {
        let Family { client, service, id, .. } = families()[0];
        world.sent(&tcp(client, service, SYN, (100, 0), &[], &[]));
        world.forward.borrow_mut().sweep().expect("a sweep");
        assert_eq!(world.tables.load(id), (0, 0, 0));
        world.tables.age_flows(88, 6 * SECOND);
        world.forward.borrow_mut().sweep().expect("a sweep");
        assert_eq!(world.tables.load(id), (0, 1, 1));
        assert_eq!(world.tables.flows().len(), 0);
    });
}

#[test]
fn datagrams_count_from_the_answer_or_the_second_one_until_they_are_idle() {
    World::run(Settings::default(), 0, |world| {
        for family in families() {
            let Family { client, service, endpoint, id, .. } = family;
            let own = world.sent(&udp(client, service, b"a")).from();
            assert_eq!(world.tables.load(id).0, 0);
            world.sent(&udp(endpoint, own, b"b"));
            assert_eq!(world.tables.load(id).0, 1);
            world.sent(&udp(client, service, b"c"));
            assert_eq!(world.tables.load(id).0, 1);
            let other = SocketAddr::new(client.ip(), 4001);
            world.sent(&udp(other, service, b"a"));
            assert_eq!(world.tables.load(id).0, 1);
            world.sent(&udp(other, service, b"a"));
            assert_eq!(world.tables.load(id).0, 2);
            world.forward.borrow_mut().sweep().expect("a sweep");
            assert_eq!(world.tables.load(id).0, 2);
            world.tables.age_flows(80, 61 * SECOND);
            world.forward.borrow_mut().sweep().expect("a sweep");
            assert_eq!(world.tables.load(id).0, 0);
            assert_eq!(world.tables.flows().len(), 0);
        }
    });
}

#[test]
fn datagrams_of_an_endpoint_that_left_end_and_connections_stay() {
    World::run(Settings::default(), 0, |world| {
        let family = families()[0];
        world.open(family);
        world.sent(&udp(family.client, family.service, b"a"));
        world.sent(&udp(family.client, family.service, b"a"));
        assert_eq!(world.tables.load(family.id).0, 2);
        world.forward.borrow_mut().left(&[family.id].into()).expect("left");
        world.forward.borrow_mut().sweep().expect("a sweep");
        assert_eq!(world.tables.load(family.id).0, 1);
        assert_eq!(world.tables.flows().len(), 2);
    });
}

#[test]
fn a_segment_of_no_connection_is_reset() {
    World::run(Settings::default(), 0, |world| {
        for Family { client, service, .. } in families() {
            let reset = world.sent(&tcp(client, service, ACK, (100, 777), &[], b"abc"));
            assert_eq!((reset.from(), reset.to(), reset.flags()), (service, client, RST));
            assert_eq!(reset.payload[4..8], 777_u32.to_be_bytes());
            assert_eq!(world.send(&tcp(client, service, RST, (100, 777), &[], &[])).0, DROP);
        }
        assert_eq!(world.tables.total(tables::STRAY), 4);
    });
}

#[test]
fn segment_sizes_are_clamped_to_the_lower_mtu() {
    World::run(Settings::default(), 0, |world| {
        for (n, Family { client, service, endpoint, .. }) in families().into_iter().enumerate() {
            let most = if client.is_ipv4() { 1360_u16 } else { 1340 };
            // At even and odd offsets, after options of other sizes, and after ones that are cut off.
            let lists: [&[u8]; 5] = [
                &[2, 4, 5, 180],
                &[1, 2, 4, 5, 180, 1, 1, 0],
                &[1, 1, 1, 2, 4, 5, 180, 0],
                &[8, 10, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 4, 5, 180, 1, 1, 0],
                &[3, 3, 7, 2, 4, 5, 180, 0],
            ];
            for (i, options) in lists.into_iter().enumerate() {
                let from = SocketAddr::new(client.ip(), (5000 + 100 * n + i) as u16);
                let there = world.sent(&tcp(from, service, SYN, (1, 0), options, &[]));
                let at = options.windows(4).position(|w| w == [2, 4, 5, 180]).unwrap() + 22;
                assert_eq!(there.payload[at..at + 2], most.to_be_bytes(), "{options:?}");
                let back = world.sent(&tcp(endpoint, there.from(), SYN | ACK, (1, 2), options, &[]));
                assert_eq!(back.payload[at..at + 2], most.to_be_bytes());
            }
            for options in [
                &[2, 4, 2, 0][..],
                &[2, 0, 5, 180],
                &[9, 1, 2, 4],
                &[1, 1, 2, 4],
                &[99, 200, 2, 4, 5, 180, 0, 0],
                &[0, 2, 4, 5, 180, 0, 0, 0],
            ] {
                let from = SocketAddr::new(client.ip(), 6000);
                let there = world.sent(&tcp(from, service, SYN, (1, 0), options, &[]));
                assert_eq!(there.payload[20..], *options);
            }
        }
    });
}

#[test]
fn a_packet_without_a_hop_left_is_dropped() {
    World::run(Settings::default(), 0, |world| {
        let Family { client, service, .. } = families()[1];
        let mut packet = udp(client, service, b"x");
        packet[14 + 7] = 1;
        assert_eq!(world.send(&packet), (DROP, packet));
        assert_eq!(world.tables.total(tables::EXPIRED), 1);
    });
}

#[test]
fn a_checksum_of_zero_stays_and_a_computed_zero_is_sent_as_ones() {
    World::run(Settings::default(), 0, |world| {
        let Family { client, service, .. } = families()[0];
        let mut packet = udp(client, service, b"data");
        packet[40..42].copy_from_slice(&[0, 0]);
        let (result, out) = world.send(&packet);
        assert_eq!((result, &out[40..42]), (REDIRECT, &[0, 0][..]));
        // Some of 65,536 payloads give 0.
        for n in 0..=65_535_u16 {
            let read = world.sent(&udp(client, service, &n.to_be_bytes()));
            assert_ne!(read.payload[6..8], [0, 0]);
        }
    });
}

#[test]
fn what_is_not_read_is_left_to_the_stack() {
    World::run(Settings::default(), 0, |world| {
        let Family { client, service, .. } = families()[0];
        let good = tcp(client, service, SYN, (1, 0), &[], &[]);
        let changed = |at: usize, byte: u8| {
            let mut packet = good.clone();
            packet[at] = byte;
            packet
        };
        // A tag of VLAN, ARP, another machine's frame, a wrong checksum of IP, IPv4 with options.
        world.passes(&[&good[..12], &[0x81, 0, 0, 5], &good[12..]].concat());
        world.passes(&[&good[..12], &[8, 6], &good[14..]].concat());
        world.passes(&changed(5, 9));
        world.passes(&changed(24, 1));
        let mut options = ip(client.ip(), service.ip(), TCP, 0, 1, &[&[1, 1, 1, 1][..], &good[34..]].concat());
        options[0] = 0x46;
        world.passes(&[ethernet(false), options].concat());
        // A port without a service, and an address without one.
        world.passes(&tcp(client, SocketAddr::new(service.ip(), 82), SYN, (1, 0), &[], &[]));
        world.passes(&tcp(client, "10.9.0.2:80".parse().unwrap(), SYN, (1, 0), &[], &[]));
        // Truncated.
        for length in 14..good.len() {
            world.passes(&good[..length]);
        }
        assert_eq!(world.tables.flows().len(), 0);
    });
}

#[test]
fn ports_run_out_and_are_counted() {
    let settings = Settings { ports: 2000..=2063, ..Settings::default() };
    World::run(settings, 0, |world| {
        let Family { client, service, .. } = families()[0];
        let mut ports = std::collections::BTreeSet::new();
        for n in 0..64 {
            let own = world.sent(&udp(SocketAddr::new(client.ip(), 3000 + n), service, b"x")).from();
            assert!(ports.insert(own.port()), "a port is given twice");
        }
        assert_eq!((ports.first(), ports.last()), (Some(&2000), Some(&2063)));
        assert_eq!(world.send(&udp(SocketAddr::new(client.ip(), 3064), service, b"x")).0, DROP);
        assert_eq!(world.tables.total(tables::PORTS_EXHAUSTED), 1);
    });
}

#[test]
fn the_real_range_of_ports_lasts_for_sixty_thousand_flows() {
    World::run(Settings::default(), 0, |world| {
        let Family { service, endpoint, .. } = families()[0];
        let mut sent = 0;
        for n in 0..70_000_u32 {
            let client: SocketAddr = format!("10.1.0.{}:{}", 2 + n / 60_000, 1024 + n % 60_000).parse().unwrap();
            let (result, out) = world.send(&udp(client, service, b"x"));
            if result == REDIRECT {
                sent += 1;
                // Proved at once: so no other one takes its port.
                world.sent(&udp(endpoint, bytes::Read::frame(&out).from(), b"x"));
                world.sent(&udp(client, service, b"x"));
            }
        }
        let exhausted = world.tables.total(tables::PORTS_EXHAUSTED);
        assert_eq!(sent + exhausted, 70_000);
        assert_eq!(world.tables.proven_flows() as u64, sent * 2);
        // 64,512 ports; the last ones are found by chance, 48 draws each.
        assert!((62_000..=64_512).contains(&sent), "{sent} flows");
        println!("{sent} flows of 70,000 got a port");
    });
}

/// Prints the time that the program takes for packets of either direction: `--ignored --nocapture` shows it.
#[test]
#[ignore = "measures"]
fn time_of_the_program() {
    World::run(Settings::default(), 0, |world| {
        let _statistics = aya::sys::enable_stats(aya::sys::Stats::RunTime).expect("statistics");
        let measure = |what: &str, packet: &dyn Fn(u32) -> Vec<u8>| {
            let read = || {
                let info = world.program.info().expect("information");
                (info.run_time(), info.run_count())
            };
            let before = read();
            for n in 0..20_000 {
                world.send(&packet(n));
            }
            let after = read();
            println!("{what}: {} ns", (after.0 - before.0).as_nanos() / u128::from(after.1 - before.1));
        };
        for _ in 0..3 {
            for family in families() {
                let Family { client, service, endpoint, .. } = family;
                let own = world.open(family);
                let there = tcp(client, service, ACK, (101, 501), &[], b"data");
                let back = tcp(endpoint, own, ACK, (501, 101), &[], b"data");
                let other = tcp(client, SocketAddr::new(service.ip(), 99), ACK, (101, 501), &[], b"data");
                let name = if client.is_ipv4() { "IPv4" } else { "IPv6" };
                measure(&format!("{name} to the endpoint"), &|_| there.clone());
                measure(&format!("{name} from the endpoint"), &|_| back.clone());
                measure(&format!("{name} of no service"), &|_| other.clone());
                measure(&format!("{name} new connection"), &|n| {
                    let from = SocketAddr::new(client.ip(), (n % 60_000 + 5000) as u16);
                    tcp(from, service, SYN, (1, 0), &[2, 4, 5, 180], &[])
                });
            }
        }
        let (began, flows) = (std::time::Instant::now(), world.tables.flows().len() / 2);
        println!("{flows} flows are listed one by one in {:?}", began.elapsed());
        for _ in 0..3 {
            let began = std::time::Instant::now();
            world.forward.borrow_mut().sweep().expect("a sweep");
            println!("a sweep of {flows} flows takes {:?}", began.elapsed());
        }
    });
}
