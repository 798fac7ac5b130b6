//! Errors of ICMP that the program translates or makes, and fragments.

use super::bytes::{self, ACK, RST, Read, SYN, TCP, UDP, datagram, ethernet, fragment_header, icmp, ip, tcp, udp};
use super::world::{DROP, Family, REDIRECT, World, families};
use crate::tables;
use evenkeel_kernel::ebpf::forward::Settings;
use std::net::SocketAddr;

#[test]
fn a_service_without_endpoints_refuses() {
    World::run(Settings::default(), 0, |world| {
        for Family { client, service, .. } in families() {
            let service = SocketAddr::new(service.ip(), 81);
            let reset = world.sent(&tcp(client, service, SYN, (100, 0), &[2, 4, 5, 180], b"abc"));
            assert_eq!((reset.from(), reset.to(), reset.flags()), (service, client, RST | ACK));
            assert_eq!(reset.payload[8..12], 104_u32.to_be_bytes());
            for length in [0, 1, 5, 400, 700] {
                let packet = udp(client, service, &vec![7; length]);
                let error = world.sent(&packet);
                assert_eq!((error.source, error.target), (service.ip(), client.ip()));
                assert_eq!(error.payload[..2], if client.is_ipv4() { [3, 3] } else { [1, 4] });
                let quoted = &error.payload[8..];
                assert_eq!(*quoted, packet[14..14 + quoted.len()]);
                assert_eq!(quoted.len(), (packet.len() - 14).min(512));
            }
        }
        assert_eq!(world.tables.total(tables::NO_ENDPOINT), 12);
    });
}

#[test]
fn errors_of_icmp_are_translated_outside_and_inside() {
    World::run(Settings::default(), 0, |world| {
        for family in families() {
            let Family { client, service, endpoint, .. } = family;
            let ipv6 = client.is_ipv6();
            for protocol in [TCP, UDP] {
                let make = |from, to, flags, data: &[u8]| match protocol {
                    TCP => tcp(from, to, flags, (1, 2), &[], data),
                    _ => udp(from, to, data),
                };
                let own = world.sent(&make(client, service, SYN, b"abcd")).from();
                for length in [8, 9, 20, 24] {
                    let packet = make(own, endpoint, SYN, b"abcd");
                    let router = if ipv6 { "fd02::9".parse().unwrap() } else { "10.2.0.9".parse().unwrap() };
                    let head = if ipv6 { 40 } else { 20 };
                    let quoted = &packet[14..packet.len().min(14 + head + length)];
                    let error = world.sent(&icmp(router, own.ip(), if ipv6 { 3 } else { 11 }, 0, quoted));
                    assert_eq!((error.source, error.target), (service.ip(), client.ip()));
                    let original = make(client, service, SYN, b"abcd");
                    // The quoted packet has its original bytes again, checksums included.
                    assert_eq!(error.payload[8..], original[14..14 + quoted.len()], "{length}");

                    let packet = make(service, client, ACK, b"answer");
                    let quoted = &packet[14..packet.len().min(14 + head + length)];
                    let error = world.sent(&icmp(client.ip(), service.ip(), if ipv6 { 1 } else { 3 }, 1, quoted));
                    assert_eq!((error.source, error.target), (own.ip(), endpoint.ip()));
                    let original = make(endpoint, own, ACK, b"answer");
                    assert_eq!(error.payload[8..], original[14..14 + quoted.len()], "{length}");
                }
            }
            // Of no flow, and no error.
            let packet = tcp(SocketAddr::new(service.ip(), 9), client, ACK, (1, 2), &[], &[]);
            world.passes(&icmp(client.ip(), service.ip(), if ipv6 { 1 } else { 3 }, 1, &packet[14..]));
            world.passes(&icmp(client.ip(), service.ip(), if ipv6 { 128 } else { 8 }, 0, b"echo"));
        }
    });
}

#[test]
fn a_packet_that_is_too_large_is_answered_with_the_mtu() {
    World::run(Settings::default(), 0, |world| {
        for family in families() {
            let Family { client, service, .. } = family;
            world.open(family);
            let packet = tcp(client, service, ACK, (101, 501), &[], &[1; 1400]);
            let error = world.sent(&packet);
            assert_eq!((error.source, error.target), (service.ip(), client.ip()));
            assert_eq!(error.payload[..2], if client.is_ipv4() { [3, 4] } else { [2, 0] });
            assert_eq!(error.payload[4..8], 1400_u32.to_be_bytes());
            assert_eq!(error.payload[8..], packet[14..14 + 512]);
        }
        // Without the bit that forbids fragments.
        let Family { client, service, .. } = families()[0];
        assert_eq!(world.send(&udp(client, service, &[1; 1400])).0, DROP);
        assert_eq!(world.tables.total(tables::OVERSIZED), 3);
    });
}

#[test]
fn fragments_follow_the_first_one() {
    World::run(Settings::default(), 0, |world| {
        for Family { client, service, own, endpoint, .. } in families() {
            let whole = datagram(client, service, &[9; 2000]);
            let fragment = |at: usize, end: usize, id: u16| {
                let more = end < whole.len();
                let data = &whole[at..end];
                let packet = if client.is_ipv4() {
                    let field = (at / 8) as u16 | if more { 0x2000 } else { 0 };
                    ip(client.ip(), service.ip(), UDP, field, id, data)
                } else {
                    let header = fragment_header(UDP, at as u16, more, id.into());
                    ip(client.ip(), service.ip(), 44, 0, 0, &[header, data.to_vec()].concat())
                };
                [ethernet(client.is_ipv6()), packet].concat()
            };
            let early = world.send(&fragment(1200, 2008, 5));
            assert_eq!(early.0, DROP);
            let skip = if client.is_ipv4() { 34 } else { 62 };
            let mut joined = Vec::new();
            for (at, end) in [(0, 1200), (1200, 1600), (1600, 2008)] {
                let (result, out) = world.send(&fragment(at, end, 6));
                assert_eq!(result, REDIRECT);
                let read = Read::ip(&out[14..]);
                assert_eq!((read.source, read.target), (own.ip(), endpoint.ip()));
                joined.extend_from_slice(&out[skip..]);
            }
            assert_eq!(bytes::sum_of(own.ip(), endpoint.ip(), UDP, &joined), 0xffff);
            // To a port without a service.
            let other = datagram(client, SocketAddr::new(service.ip(), 99), &[9; 2000]);
            for (at, end) in [(0, 1200), (1200, 2008)] {
                let (more, field) = (end < 2008, (at / 8) as u16);
                let packet = if client.is_ipv4() {
                    ip(client.ip(), service.ip(), UDP, field | if more { 0x2000 } else { 0 }, 8, &other[at..end])
                } else {
                    let header = fragment_header(UDP, at as u16, more, 8);
                    ip(client.ip(), service.ip(), 44, 0, 0, &[header, other[at..end].to_vec()].concat())
                };
                world.passes(&[ethernet(client.is_ipv6()), packet].concat());
            }
        }
        assert_eq!(world.tables.total(tables::FRAGMENT_EARLY), 2);
    });
}
