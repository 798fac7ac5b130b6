//! Packets of any kind: valid ones that are cut, lengthened and changed at random.

use super::bytes::{self, ACK, Read, SYN, TCP, ethernet, fragment_header, icmp, ip, segment, tcp, udp};
use super::world::{DROP, Family, NEXT, REDIRECT, World, families};
use evenkeel_kernel::ebpf::forward::Settings;

/// xorshift64*.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }
}

/// True if the packet, as it is, is one that may be translated: by an independent reading of its headers.
fn may_change(packet: &[u8]) -> bool {
    let families = families();
    let is = |addr: &[u8]| {
        families.iter().any(|f| {
            [f.service, f.own].iter().any(|at| match at.ip() {
                std::net::IpAddr::V4(ip) => ip.octets() == addr,
                std::net::IpAddr::V6(ip) => ip.octets() == addr,
            })
        })
    };
    match packet.get(12..14) {
        Some([8, 0]) if packet.len() >= 34 => {
            packet[14] == 0x45 && bytes::sum(&[&packet[14..34]]) == 0xffff && is(&packet[30..34])
        }
        Some([0x86, 0xdd]) if packet.len() >= 54 => packet[14] >> 4 == 6 && is(&packet[38..54]),
        _ => false,
    }
}

#[test]
fn packets_of_any_kind_are_never_changed_wrongly() {
    World::run(Settings::default(), 0, |world| {
        let mut seeds = Vec::new();
        for family in families() {
            let Family { client, service, endpoint, .. } = family;
            let own = world.open(family);
            let port = world.sent(&udp(client, service, b"seed")).from();
            let quoted = tcp(own, endpoint, ACK, (1, 2), &[], b"data");
            let from = endpoint.ip();
            seeds.push(tcp(client, service, SYN, (1, 0), &[2, 4, 5, 180, 1, 3, 3, 7], &[]));
            seeds.push(tcp(client, service, ACK, (101, 501), &[1, 1, 1, 1], b"some data"));
            seeds.push(tcp(endpoint, own, ACK, (501, 101), &[], b"an answer"));
            seeds.push(udp(client, service, b"datagram"));
            seeds.push(udp(endpoint, port, b"datagram"));
            seeds.push(icmp(from, own.ip(), if client.is_ipv4() { 3 } else { 1 }, 1, &quoted[14..]));
            let data = segment(client, service, ACK, (1, 2), &[], &[5; 64]);
            if client.is_ipv4() {
                seeds.push([ethernet(false), ip(client.ip(), service.ip(), TCP, 0x2000, 3, &data)].concat());
                seeds.push([ethernet(false), ip(client.ip(), service.ip(), TCP, 9, 3, &data)].concat());
            } else {
                for (offset, more) in [(0, true), (64, false)] {
                    let header = fragment_header(60, offset, more, 3);
                    let options = [&[TCP, 0, 1, 4, 0, 0, 0, 0][..], &data].concat();
                    let payload = [header, options].concat();
                    seeds.push([ethernet(true), ip(client.ip(), service.ip(), 44, 0, 0, &payload)].concat());
                }
            }
        }
        let seed = 0x5eed_0fec_0de5_eed1;
        let mut random = Random(seed);
        let mut results = std::collections::BTreeMap::new();
        for round in 0..60_000 {
            let mut packet = seeds[random.below(seeds.len())].clone();
            for _ in 0..random.below(4) {
                match random.below(5) {
                    0 => packet.truncate(14 + random.below(packet.len() - 13)),
                    1 => packet.extend((0..random.below(30)).map(|_| random.below(256) as u8).collect::<Vec<_>>()),
                    2 => {
                        let at = random.below(packet.len());
                        packet[at] ^= 1 << random.below(8);
                    }
                    3 => {
                        // Fields of lengths and types sit in the first bytes of headers.
                        let at = [14, 16, 17, 18, 20, 21, 23, 34, 46, 54, 55, 56, 62, 66][random.below(14)];
                        if at < packet.len() {
                            packet[at] = random.below(256) as u8;
                        }
                    }
                    _ => {
                        let at = random.below(packet.len());
                        packet[at] = random.below(256) as u8;
                    }
                }
                if packet[12..14] == [8, 0] && packet.len() >= 34 && random.below(4) > 0 {
                    packet[24..26].copy_from_slice(&[0, 0]);
                    let checksum = (!bytes::sum(&[&packet[14..34]])).to_be_bytes();
                    packet[24..26].copy_from_slice(&checksum);
                }
            }
            let (result, out) = world.send(&packet);
            *results.entry(result).or_insert(0) += 1;
            let context = || format!("seed {seed:#x} round {round}: {packet:02x?} became {out:02x?}");
            match result {
                NEXT => assert_eq!(out, packet, "{}", context()),
                DROP => {}
                REDIRECT => {
                    assert!(may_change(&packet), "{}", context());
                    // IPv4 headers stay right, and so do lengths.
                    Read::ip(&out[14..]);
                }
                _ => panic!("result {result}: {}", context()),
            }
        }
        println!("results: {results:?}");
        assert!(results[&NEXT] > 1000 && results[&REDIRECT] > 1000, "{results:?}");
    });
}
