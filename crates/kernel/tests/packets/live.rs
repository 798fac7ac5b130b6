//! Live flows under fire: floods, guessed RST and FIN, ports that are used again while a sweep runs.

use super::any::Random;
use super::bytes::{ACK, FIN, RST, Read, SYN, TCP, tcp, udp};
use super::world::{Family, REDIRECT, SECOND, World, families};
use crate::tables;
use evenkeel_kernel::ebpf::forward::Settings;
use std::net::SocketAddr;

const SEED: u64 = 0x11fe_f10e_5eed_0001;

/// Table of 512 flows that are not proven.
fn small() -> Settings {
    Settings { flows: 4096, ..Settings::default() }
}

/// Connection that both ends take for open, with the numbers that each sends next.
#[derive(Clone, Copy, Debug)]
struct Live {
    client: SocketAddr,
    own: SocketAddr,
    sent: u32,
    answered: u32,
}

/// Family with a client of another address and port.
fn of(family: Family, client: SocketAddr) -> Family {
    Family { client, ..family }
}

fn client(family: Family, n: u32) -> SocketAddr {
    SocketAddr::new(family.client.ip(), 2000 + n as u16)
}

fn open(world: &World, family: Family, client: SocketAddr) -> Live {
    Live { client, own: world.open(of(family, client)), sent: 101, answered: 501 }
}

/// Sends data both ways, which has to arrive as before.
#[track_caller]
fn uses(world: &World, family: Family, live: &mut Live, context: &str) {
    let Family { service, endpoint, .. } = family;
    let (result, out) = world.send(&tcp(live.client, service, ACK, (live.sent, live.answered), &[], b"ask"));
    assert_eq!(result, REDIRECT, "{context}: {live:?}");
    let there = Read::frame(&out);
    assert_eq!((there.from(), there.to(), there.flags()), (live.own, endpoint, ACK), "{context}: {live:?}");
    live.sent += 3;
    let (result, out) = world.send(&tcp(endpoint, live.own, ACK, (live.answered, live.sent), &[], b"answer"));
    assert_eq!(result, REDIRECT, "{context}: {live:?}");
    let back = Read::frame(&out);
    assert_eq!((back.from(), back.to(), back.flags()), (service, live.client, ACK), "{context}: {live:?}");
    live.answered += 6;
}

/// Client that does not exist.
fn nobody(n: u32) -> SocketAddr {
    format!("10.1.0.{}:{}", 100 + n % 100, 1024 + n / 100).parse().expect("an address")
}

/// SYNs of clients that do not exist.
fn flood(world: &World, family: Family, count: u32, from: u32) {
    for n in from..from + count {
        world.send(&tcp(nobody(n), family.service, SYN, (n, 0), &[], &[]));
    }
}

#[test]
fn a_flood_ends_no_proven_flow_and_keeps_no_client_out() {
    World::run(small(), 0, |world| {
        let family = families()[0];
        let Family { service, endpoint, id, .. } = family;
        let mut live: Vec<Live> = (0..50).map(|n| open(&world, family, client(family, n))).collect();
        let datagrams: Vec<(SocketAddr, SocketAddr)> = (50..70)
            .map(|n| {
                let from = client(family, n);
                let own = world.sent(&udp(from, service, b"a")).from();
                world.sent(&udp(endpoint, own, b"b"));
                world.sent(&udp(from, service, b"c"));
                (from, own)
            })
            .collect();
        flood(&world, family, 10_000, 0);
        for n in 0..5_000_u32 {
            world.send(&udp(nobody(n), service, b"request"));
        }
        world.forward.borrow_mut().sweep().expect("a sweep");
        flood(&world, family, 2_000, 10_000);
        assert!(world.tables.total(tables::UNPROVEN_FULL) > 10_000);
        assert_eq!(world.tables.load(id).0, 70);
        live.iter_mut().for_each(|live| uses(&world, family, live, "after a flood"));
        for (from, own) in datagrams {
            assert_eq!(world.sent(&udp(from, service, b"d")).from(), own);
        }

        // A client whose packets take as long as thousands of those of the flood.
        let late = client(family, 100);
        let own = world.sent(&tcp(late, service, SYN, (100, 0), &[], &[])).from();
        world.sent(&tcp(endpoint, own, SYN | ACK, (500, 101), &[], &[]));
        flood(&world, family, 5_000, 20_000);
        let there = world.sent(&tcp(late, service, ACK, (101, 501), &[], b"request"));
        assert_eq!((there.from(), there.to()), (own, endpoint), "found again");
        assert_eq!(world.tables.load(id).0, 70, "it is not proven");
        // A guess of the endpoint's acknowledgement does not count.
        world.sent(&tcp(endpoint, own, ACK, (501, 0x7000_0000), &[], &[]));
        assert_eq!(world.tables.load(id).0, 70);
        world.sent(&tcp(endpoint, own, ACK, (501, 108), &[], b"response"));
        assert_eq!((world.tables.load(id).0, world.tables.total(tables::RESUMED)), (71, 1));
        flood(&world, family, 5_000, 30_000);
        uses(&world, family, &mut Live { client: late, own, sent: 108, answered: 509 }, "found again");
        // Without an endpoint that knows the connection, its RST arrives.
        let stranger = client(family, 101);
        let own = world.sent(&tcp(stranger, service, ACK, (7, 77), &[], b"x")).from();
        let back = world.sent(&tcp(endpoint, own, RST, (77, 0), &[], &[]));
        assert_eq!((back.to(), back.flags()), (stranger, RST));
        // A port that was found again so, and belonged to nothing, is free for a connection.
        world.sent(&tcp(client(family, 102), service, ACK, (7, 77), &[], b"x"));
        let mut fresh = open(&world, family, client(family, 102));
        uses(&world, family, &mut fresh, "a port that had a stray segment");
    });
}

#[test]
fn guessed_ends_end_no_silent_flow_and_right_ones_do() {
    World::run(Settings::default(), 0, |world| {
        let mut random = Random(SEED);
        for family in families() {
            let Family { service, endpoint, id, .. } = family;
            let mut live: Vec<Live> = (0..20).map(|n| open(&world, family, client(family, n))).collect();
            for round in 0..30_000 {
                let Live { client, own, .. } = live[round % live.len()];
                let numbers = (random.below(1 << 31) as u32 * 2 + 1, random.below(1 << 31) as u32 * 2);
                let flags = [RST, RST | ACK, FIN | ACK, ACK][random.below(4)];
                let data: &[u8] = if flags & RST == 0 { b"guess" } else { b"" };
                if random.below(2) == 0 {
                    world.send(&tcp(client, service, flags, numbers, &[], data));
                } else {
                    world.send(&tcp(endpoint, own, flags, numbers, &[], data));
                }
            }
            assert_eq!(world.tables.load(id).0, 20, "seed {SEED:#x}");
            world.tables.change_flows(tables::ENDED, |at| at.saturating_sub(20 * SECOND));
            world.forward.borrow_mut().sweep().expect("a sweep");
            assert!(world.tables.total(tables::RESET_IGNORED) > 10_000);
            live.iter_mut().for_each(|live| uses(&world, family, live, "after guesses"));
            // The right numbers: of either side, with data on their way, and behind a FIN.
            for (n, &Live { client, own, sent, answered }) in live.iter().enumerate() {
                match n % 4 {
                    0 => drop(world.send(&tcp(client, service, RST, (sent, 0), &[], &[]))),
                    1 => drop(world.send(&tcp(endpoint, own, RST | ACK, (answered, sent), &[], &[]))),
                    2 => {
                        world.sent(&tcp(endpoint, own, ACK, (answered, sent), &[], &[1; 1000]));
                        world.sent(&tcp(endpoint, own, RST | ACK, (answered + 1000, sent), &[], &[]));
                    }
                    _ => {
                        world.sent(&tcp(client, service, FIN | ACK, (sent, answered), &[], &[]));
                        world.sent(&tcp(endpoint, own, RST, (answered, 0), &[], &[]));
                    }
                }
                assert_eq!(world.tables.load(id).0, 19 - n as i64);
            }
        }
    });
}

/// Ends a connection in one of its ways.
fn ends(world: &World, family: Family, live: Live, way: usize) {
    let Family { service, endpoint, .. } = family;
    let Live { client, own, sent, answered } = live;
    match way {
        0 => drop(world.sent(&tcp(client, service, RST | ACK, (sent, answered), &[], &[]))),
        1 => drop(world.sent(&tcp(endpoint, own, RST | ACK, (answered, sent), &[], &[]))),
        2 => {
            world.sent(&tcp(client, service, FIN | ACK, (sent, answered), &[], &[]));
            world.sent(&tcp(endpoint, own, FIN | ACK, (answered, sent + 1), &[], &[]));
            world.sent(&tcp(client, service, ACK, (sent + 1, answered + 1), &[], &[]));
        }
        _ => {
            world.sent(&tcp(endpoint, own, FIN | ACK, (answered, sent), &[], b""));
            world.sent(&tcp(client, service, FIN | ACK, (sent, answered + 1), &[], &[]));
            world.sent(&tcp(endpoint, own, ACK, (answered + 1, sent + 1), &[], &[]));
        }
    }
}

#[test]
fn a_sweep_ends_no_flow_that_began_while_it_looked() {
    World::run(Settings::default(), 0, |world| {
        let family = families()[0];
        let mut random = Random(SEED);
        let mut live: Vec<Option<Live>> = (0..100).map(|n| Some(open(&world, family, client(family, n)))).collect();
        for round in 0..200 {
            let context = format!("seed {SEED:#x} round {round}");
            for slot in live.iter_mut() {
                if random.below(3) == 0
                    && let Some(ended) = slot.take()
                {
                    ends(&world, family, ended, random.below(4));
                }
            }
            // What has ended is over.
            world.tables.change_flows(tables::ENDED, |at| at.saturating_sub(20 * SECOND));
            let reuse = || {
                for (n, slot) in live.iter_mut().enumerate() {
                    match random.below(4) {
                        0 | 1 if slot.is_none() => *slot = Some(open(&world, family, client(family, n as u32))),
                        2 => {
                            // The client has lost its connection, and uses the port at once.
                            if let Some(ended) = slot.take() {
                                ends(&world, family, ended, 0);
                                *slot = Some(open(&world, family, ended.client));
                            }
                        }
                        3 => flood(&world, family, 3, round * 400 + n as u32 * 3),
                        _ => {}
                    }
                }
            };
            world.forward.borrow_mut().sweep_with(reuse).expect("a sweep");
            for live in live.iter_mut().flatten() {
                uses(&world, family, live, &context);
            }
            world.forward.borrow_mut().sweep().expect("a sweep");
            assert_eq!(world.tables.load(family.id).0, live.iter().flatten().count() as i64, "{context}");
        }
    });
}

#[test]
fn a_syn_that_meets_a_former_connection_is_sent_again() {
    World::run(Settings::default(), 0, |world| {
        for family in families() {
            let Family { client, service, endpoint, id, .. } = family;
            let options = [2, 4, 5, 0, 1, 3, 3, 7, 4, 2, 1, 1];
            let there = world.sent(&tcp(client, service, SYN, (0xffff_ffff, 0), &options, &[]));
            // As of TIME-WAIT.
            let again = world.sent(&tcp(endpoint, there.from(), ACK, (9_000, 8_000), &[1, 1, 1, 1], &[]));
            assert_eq!((again.from(), again.to(), again.flags()), (there.from(), endpoint, SYN));
            assert_eq!(again.payload, there.payload, "the same segment");
            // Once.
            let back = world.sent(&tcp(endpoint, there.from(), ACK, (9_000, 8_000), &[], &[]));
            assert_eq!((back.to(), back.flags()), (client, ACK));
            assert_eq!(world.tables.load(id), (0, 0, 0));
            world.sent(&tcp(endpoint, there.from(), SYN | ACK, (500, 0), &[], &[]));
            world.sent(&tcp(client, service, ACK, (0, 501), &[], &[]));
            assert_eq!(world.tables.load(id), (1, 1, 0));
        }
        assert_eq!(world.tables.total(tables::SYN_REPEATED), 2);
    });
}

#[test]
fn a_clients_port_serves_two_virtual_addresses_and_the_endpoint_itself() {
    World::run(Settings::default(), tables::CLIENT, |mut world| {
        for family in families() {
            let Family { client, service, endpoint, id, .. } = family;
            let other = SocketAddr::new(service.ip(), 82);
            world.tables.service(other, TCP, 60 * SECOND, tables::CLIENT, &[(id, endpoint, 1)]);
            assert_eq!(world.open(family), client);
            let second = world.open(Family { service: other, ..family });
            assert_eq!(second.ip(), client.ip());
            assert_ne!(second.port(), client.port(), "the endpoint tells them apart");
            let back = world.sent(&tcp(endpoint, second, ACK, (501, 101), &[], b"x"));
            assert_eq!((back.from(), back.to()), (other, client));
            // Past the virtual address: refused while the flow is open.
            let direct = tcp(client, endpoint, SYN, (7, 0), &[], &[]);
            let refused = world.sent(&direct);
            assert_eq!((refused.from(), refused.to(), refused.flags()), (endpoint, client, RST | ACK));
            world.sent(&tcp(client, service, RST, (101, 0), &[], &[]));
            world.passes(&direct);
            world.passes(&tcp(endpoint, client, SYN | ACK, (70, 8), &[], &[]));
        }
        assert_eq!(world.tables.total(tables::PORT_IN_USE), 2);
    });
}
