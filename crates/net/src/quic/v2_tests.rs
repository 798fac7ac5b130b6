//! Packets of RFC 9369 appendix A, and translation there and back.

use super::tests;
use super::tls::{labels, of_long_headers};
use super::v2::*;
use super::versions::V1;
use bytes::BytesMut;
use evenkeel_balance::Rng;
use quinn_proto::ConnectionId;
use quinn_proto::crypto::Keys;
use rustls::{CipherSuite, Side};
use std::net::UdpSocket;
use std::time::Duration;

/// Id that the client of the appendix has chosen.
const ID: &str = "8394c8f03e515708";

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a digit") as u8;
    hex.as_bytes().as_chunks::<2>().0.iter().map(|[high, low]| digit(*high) << 4 | digit(*low)).collect()
}

fn keys(version: u32, id: &[u8], side: Side) -> Keys {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let suite = provider.cipher_suites.iter().find(|suite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256);
    let suite = suite.and_then(|suite| suite.tls13()?.quic_suite()).expect("a suite of QUIC");
    of_long_headers(version, suite.keys(id, side, labels(version)))
}

/// Protects a packet as the state machine does: `header` has the type of version 1.
fn protect(keys: &Keys, number: u64, header: &[u8], number_len: usize, payload: &[u8]) -> Vec<u8> {
    let mut packet = [header, payload, &[0; 16]].concat();
    keys.packet.local.encrypt(number, &mut packet, header.len());
    keys.header.local.encrypt(header.len() - number_len, &mut packet);
    packet
}

/// Opens a packet as the state machine does.
fn open(keys: &Keys, number: u64, header_len: usize, number_len: usize, packet: &[u8]) -> Option<Vec<u8>> {
    let mut packet = packet.to_vec();
    assert!(translate(&mut packet));
    assert_eq!(packet[0] & 0x30, 0, "an Initial");
    keys.header.remote.decrypt(header_len - number_len, &mut packet);
    let mut payload = BytesMut::from(&packet[header_len..]);
    keys.packet.remote.decrypt(number, &packet[..header_len], &mut payload).ok()?;
    Some(payload.to_vec())
}

#[test]
fn initial_packets_are_those_of_the_rfc() {
    let [client, server] = [Side::Client, Side::Server].map(|side| keys(V2, &bytes(ID), side));
    let mut payload = bytes(CRYPTO);
    payload.resize(1162, 0);
    let packet = protect(&client, 2, &bytes("c36b3343cf088394c8f03e5157080000449e00000002"), 4, &payload);
    assert_eq!(packet, bytes(CLIENT));
    assert_eq!(open(&server, 2, 22, 4, &packet), Some(payload));

    let payload = bytes(SERVER_PAYLOAD);
    let packet = protect(&server, 1, &bytes("c16b3343cf0008f067a5502a4262b50040750001"), 2, &payload);
    assert_eq!(packet, bytes(SERVER));
    assert_eq!(open(&client, 1, 20, 2, &packet), Some(payload));
}

#[test]
fn a_retry_is_that_of_the_rfc() {
    let mut packet = bytes(RETRY);
    let tag = packet.split_off(packet.len() - 16);
    // As the state machine writes it.
    packet[0] |= 0x30;
    assert_eq!(retry_tag(&ConnectionId::new(&bytes(ID)), &packet)[..], tag);
    translate_retry(&mut packet);
    packet.extend(tag);
    assert_eq!(packet, bytes(RETRY));
}

#[test]
fn a_packet_of_another_version_does_not_open() {
    let server = keys(V2, &bytes(ID), Side::Server);
    let (header, mut payload) = (bytes("c0000000010883940000"), BytesMut::zeroed(32));
    assert!(server.packet.remote.decrypt(0, &header, &mut payload).is_err());
    assert!(server.packet.remote.decrypt(0, &header[..3], &mut payload).is_err());
}

/// An Initial packet of a client with this id and token, whose only frame is a PING.
fn initial(version: u32, id: &[u8], token: &[u8]) -> Vec<u8> {
    let mut header = vec![0xc3];
    header.extend_from_slice(&version.to_be_bytes());
    header
        .extend([&[id.len() as u8][..], id, &[0, 0x40 | (token.len() >> 8) as u8, token.len() as u8], token].concat());
    let payload = [&[1][..], &[0; 1199]].concat();
    header.extend_from_slice(&((4 + payload.len() + 16) as u16 | 1 << 14).to_be_bytes());
    header.extend([0; 4]);
    protect(&keys(version, id, Side::Client), 0, &header, 4, &payload)
}

#[test]
fn a_token_of_one_version_proves_nothing_in_the_other() {
    let (addr, _) = tests::server(true);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("sockets have timeouts");
    // Sends an Initial. Returns the token of the Retry that follows, and the id for it; `None` if another packet follows.
    let ask = |version: u32, id: &[u8], token: &[u8]| {
        socket.send_to(&initial(version, id, token), addr).expect("room");
        let mut answer = [0; 1500];
        let len = socket.recv(&mut answer).expect("an answer");
        let answer = &mut answer[..len];
        assert_eq!(answer[1..5], version.to_be_bytes(), "{answer:x?}");
        translate(answer);
        // The client's id is empty.
        let (id, rest) = answer[7..].split_at(usize::from(answer[6]));
        (answer[0] & 0x30 == 0x30).then(|| (id.to_vec(), rest[..rest.len() - 16].to_vec()))
    };
    for (version, other) in [(V1, V2), (V2, V1)] {
        let (id, token) = ask(version, b"12345678", b"").expect("a Retry");
        assert!(ask(other, &id, &token).is_some(), "a Retry again, from {version:#x} to {other:#x}");
        let (id, token) = ask(version, b"abcdefgh", b"").expect("a Retry");
        assert_eq!(ask(version, &id, &token), None, "{version:#x}");
    }
}

/// Writes a variable-length integer in a random length that it fits into.
fn write_var(n: u64, rng: &mut Rng, out: &mut Vec<u8>) {
    let least = [1 << 6, 1 << 14, 1 << 30].iter().filter(|limit| n >= **limit).count() as u32;
    let kind = least + rng.below(4 - least);
    let at = out.len();
    out.extend_from_slice(&n.to_be_bytes()[8 - (1 << kind)..]);
    out[at] |= (kind as u8) << 6;
}

fn random(len: usize, rng: &mut Rng) -> Vec<u8> {
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

/// A packet with a long header of a version; `kind` is the number that its type has there.
fn long(version: u32, kind: u8, rng: &mut Rng) -> Vec<u8> {
    let mut packet = vec![0x80 | rng.next_u64() as u8 & 0x4f | kind << 4];
    packet.extend_from_slice(&version.to_be_bytes());
    for _ in 0..2 {
        let id = rng.below(21) as usize;
        packet.push(id as u8);
        packet.extend(random(id, rng));
    }
    let in_v1 = if version == V2 { kind.wrapping_sub(1) & 3 } else { kind };
    if in_v1 == 0 {
        let token = rng.below(80) as usize;
        write_var(token as u64, rng, &mut packet);
        packet.extend(random(token, rng));
    }
    let len = rng.below(200) as usize;
    if in_v1 != 3 {
        write_var(len as u64, rng, &mut packet);
    }
    packet.extend(random(len, rng));
    packet
}

#[test]
fn each_packet_of_a_datagram_is_translated_and_no_other_byte() {
    let mut rng = Rng::new(9369);
    for round in 0..20_000 {
        // Packets of version 2, and perhaps others after them: a Retry, which has no length, or packets that are left as
        // they are.
        let packets: Vec<_> = (0..1 + rng.below(4)).map(|_| long(V2, 1 + rng.below(3) as u8, &mut rng)).collect();
        let rest = match rng.below(5) {
            0 => long(V2, 0, &mut rng),
            1 => [long(V1, rng.below(3) as u8, &mut rng), long(V2, 1, &mut rng)].concat(),
            2 => [vec![0x40], random(40, &mut rng)].concat(),
            3 => random(rng.below(8) as usize, &mut rng).iter().map(|byte| byte & 0x7f).collect(),
            _ => Vec::new(),
        };
        let whole = [packets.concat(), rest.clone()].concat();
        let mut want = Vec::new();
        for packet in &packets {
            let first = packet[0] & 0xcf | ((packet[0] & 0x30) - 0x10);
            assert_eq!(to_v2(first), packet[0], "the way back");
            want.push(first);
            want.extend_from_slice(&packet[1..]);
        }
        let at = want.len();
        want.extend(rest);
        if is_v2(&want[at..]) {
            want[at] |= 0x30;
        }
        let mut datagram = whole.clone();
        assert!(translate(&mut datagram));
        assert_eq!(datagram, want, "round {round}: {whole:02x?}");
    }
    for first in 0..=u8::MAX {
        assert_eq!((to_v1(to_v2(first)), to_v2(to_v1(first))), (first, first));
    }
}

#[test]
fn datagrams_of_version_1_are_left_as_they_are() {
    let mut rng = Rng::new(9000);
    for _ in 0..2_000 {
        let kind = rng.below(4) as u8;
        let datagram = [long(V1, kind, &mut rng), long(V2, 1, &mut rng)].concat();
        let mut seen = datagram.clone();
        assert!(!translate(&mut seen));
        translate_retry(&mut seen);
        assert_eq!(seen, datagram);
    }
}

#[test]
fn any_bytes_are_translated_without_a_panic() {
    let mut rng = Rng::new(2);
    for _ in 0..200_000 {
        let mut datagram = random(rng.below(64) as usize, &mut rng);
        if let Some(front) = datagram.get_mut(..5) {
            front[0] |= 0x80;
            front[1..].copy_from_slice(&V2.to_be_bytes());
        }
        // Often an id that fits.
        if let Some(id) = datagram.get_mut(5).filter(|_| rng.coin()) {
            *id &= 7;
        }
        let len = datagram.len();
        assert_eq!(translate(&mut datagram), len >= 5);
        translate_retry(&mut datagram);
    }
    // Each cut of a datagram.
    for kind in 0..4 {
        let whole = [long(V2, kind, &mut rng), long(V2, 3, &mut rng)].concat();
        for cut in 0..whole.len() {
            translate(&mut whole[..cut].to_vec());
        }
    }
}

const CRYPTO: &str = "\
     060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e86804fe3a47f06a2b69484c00000413011302010000c0000000\
     10000e00000b6578616d706c652e636f6dff01000100000a00080006001d0017001800100007000504616c706e0005000501000000000033\
     00260024001d00209370b2c9caa47fbabaf4559fedba753de171fa71f50f1ce15d43e994ec74d748002b0003020304000d0010000e040305\
     0306030203080408050806002d00020101001c00024001003900320408ffffffffffffffff05048000ffff07048000ffff08011001048000\
     75300901100f088394c8f03e51570806048000ffff";

const CLIENT: &str = "\
     d76b3343cf088394c8f03e5157080000449ea0c95e82ffe67b6abcdb4298b485dd04de806071bf03dceebfa162e75d6c96058bdbfb127cdf\
     cbf903388e99ad049f9a3dd4425ae4d0992cfff18ecf0fdb5a842d09747052f17ac2053d21f57c5d250f2c4f0e0202b70785b7946e992e58\
     a59ac52dea6774d4f03b55545243cf1a12834e3f249a78d395e0d18f4d766004f1a2674802a747eaa901c3f10cda5500cb9122faa9f1df66\
     c392079a1b40f0de1c6054196a11cbea40afb6ef5253cd6818f6625efce3b6def6ba7e4b37a40f7732e093daa7d52190935b8da58976ff33\
     12ae50b187c1433c0f028edcc4c2838b6a9bfc226ca4b4530e7a4ccee1bfa2a3d396ae5a3fb512384b2fdd851f784a65e03f2c4fbe11a53c\
     7777c023462239dd6f7521a3f6c7d5dd3ec9b3f233773d4b46d23cc375eb198c63301c21801f6520bcfb7966fc49b393f0061d974a2706df\
     8c4a9449f11d7f3d2dcbb90c6b877045636e7c0c0fe4eb0f697545460c806910d2c355f1d253bc9d2452aaa549e27a1fac7cf4ed77f322e8\
     fa894b6a83810a34b361901751a6f5eb65a0326e07de7c1216ccce2d0193f958bb3850a833f7ae432b65bc5a53975c155aa4bcb4f7b2c4e5\
     4df16efaf6ddea94e2c50b4cd1dfe06017e0e9d02900cffe1935e0491d77ffb4fdf85290fdd893d577b1131a610ef6a5c32b2ee0293617a3\
     7cbb08b847741c3b8017c25ca9052ca1079d8b78aebd47876d330a30f6a8c6d61dd1ab5589329de714d19d61370f8149748c72f132f0fc99\
     f34d766c6938597040d8f9e2bb522ff99c63a344d6a2ae8aa8e51b7b90a4a806105fcbca31506c446151adfeceb51b91abfe43960977c874\
     71cf9ad4074d30e10d6a7f03c63bd5d4317f68ff325ba3bd80bf4dc8b52a0ba031758022eb025cdd770b44d6d6cf0670f4e990b22347a7db\
     848265e3e5eb72dfe8299ad7481a408322cac55786e52f633b2fb6b614eaed18d703dd84045a274ae8bfa73379661388d6991fe39b0d93de\
     bb41700b41f90a15c4d526250235ddcd6776fc77bc97e7a417ebcb31600d01e57f32162a8560cacc7e27a096d37a1a86952ec71bd89a3e9a\
     30a2a26162984d7740f81193e8238e61f6b5b984d4d3dfa033c1bb7e4f0037febf406d91c0dccf32acf423cfa1e7071010d3f270121b493c\
     e85054ef58bada42310138fe081adb04e2bd901f2f13458b3d6758158197107c14ebb193230cd1157380aa79cae1374a7c1e5bbcb80ee23e\
     06ebfde206bfb0fcbc0edc4ebec309661bdd908d532eb0c6adc38b7ca7331dce8dfce39ab71e7c32d318d136b6100671a1ae6a6600e3899f\
     31f0eed19e3417d134b90c9058f8632c798d4490da4987307cba922d61c39805d072b589bd52fdf1e86215c2d54e6670e07383a27bbffb5a\
     ddf47d66aa85a0c6f9f32e59d85a44dd5d3b22dc2be80919b490437ae4f36a0ae55edf1d0b5cb4e9a3ecabee93dfc6e38d209d0fa6536d27\
     a5d6fbb17641cde27525d61093f1b28072d111b2b4ae5f89d5974ee12e5cf7d5da4d6a31123041f33e61407e76cffcdcfd7e19ba58cf4b53\
     6f4c4938ae79324dc402894b44faf8afbab35282ab659d13c93f70412e85cb199a37ddec600545473cfb5a05e08d0b209973b2172b4d21fb\
     69745a262ccde96ba18b2faa745b6fe189cf772a9f84cbfc";

const SERVER_PAYLOAD: &str = "\
     02000000000600405a020000560303eefce7f7b37ba1d1632e96677825ddf73988cfc79825df566dc5430b9a045a1200130100002e003300\
     24001d00209d3c940d89690b84d08a60993c144eca684d1081287c834d5311bcf32bb9da1a002b00020304";

const SERVER: &str = "\
     dc6b3343cf0008f067a5502a4262b5004075d92faaf16f05d8a4398c47089698baeea26b91eb761d9b89237bbf87263017915358230035f7\
     fd3945d88965cf17f9af6e16886c61bfc703106fbaf3cb4cfa52382dd16a393e42757507698075b2c984c707f0a0812d8cd5a6881eaf21ce\
     da98f4bd23f6fe1a3e2c43edd9ce7ca84bed8521e2e140";

const RETRY: &str = "cf6b3343cf0008f067a5502a4262b5746f6b656ec8646ce8bfe33952d955543665dcc7b6";
