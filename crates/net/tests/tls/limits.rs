//! Limits of a key: TLS 1.3 replaces it, TLS 1.2 stops.

use super::pair::{Pair, SUITES};
use evenkeel_net::buffer::Buf;
use evenkeel_net::tls::record::{Fault, HANDSHAKE, Key};
use evenkeel_net::tls::session::{End, Session};
use rustls::ProtocolVersion;

/// A server whose key has sealed this many records, and the client that reads them.
fn sealed_so_far(suite: usize, records: u64) -> (Session, Session, bool) {
    let Pair { server, client, .. } = Pair::new(SUITES[suite]);
    let is_13 = server.protocol_version() == Some(ProtocolVersion::TLSv1_3);
    let (mut server, mut client) =
        (server.dangerous_into_kernel_connection().unwrap(), client.dangerous_into_kernel_connection().unwrap());
    (server.0.tx.0, client.0.rx.0) = (records, records);
    (Session::server(server, Vec::new()).unwrap(), Session::client(client, Vec::new()).unwrap(), is_13)
}

fn read(client: &mut Session, sealed: &mut Buf) -> Vec<u8> {
    let (mut out, mut rest) = (Buf::take(), Buf::none());
    client.open(sealed, &mut out, &mut rest);
    assert!(rest.is_empty() && sealed.is_empty());
    assert_eq!(client.end, End::Open);
    out.filled().to_vec()
}

/// RFC 8446 section 5.5 allows 2^24.5 full records with one key of AES-GCM.
#[test]
fn a_key_of_tls_1_3_is_replaced_in_time_and_one_of_tls_1_2_seals_no_more() {
    for suite in 0..SUITES.len() {
        for limit in [1 << 23, 1 << 24] {
            let (mut server, mut client, is_13) = sealed_so_far(suite, limit - 2);
            for n in 0..5_u8 {
                let mut out = Buf::take_whole();
                let sealed = server.seal(&[n; 100], &mut out);
                if !is_13 && limit == 1 << 24 && n >= 2 {
                    assert_eq!(sealed, Err(Fault::Exhausted));
                    continue;
                }
                assert_eq!(sealed, Ok(100), "suite {suite}, record {n}");
                // A key update takes a record of its own.
                let is_new = is_13 && n == if limit == 1 << 23 { 2 } else { 0 };
                assert_eq!(out.len() > 100 + 40, is_new, "suite {suite}, record {n}: {} bytes", out.len());
                assert_eq!(read(&mut client, &mut out), [n; 100]);
            }
        }
    }
}

/// RFC 8446 section 4.6.3: "If an implementation receives any other value, it MUST terminate the connection
/// with an "illegal_parameter" alert."
#[test]
fn a_key_update_of_an_unknown_kind_is_an_illegal_parameter() {
    let Pair { server, client, .. } = Pair::new(SUITES[0]);
    let mut server = Session::server(server.dangerous_into_kernel_connection().unwrap(), Vec::new()).unwrap();
    let mut peer = Key::new(true, client.dangerous_into_kernel_connection().unwrap().0.tx).unwrap();
    let mut wire = Buf::take();
    let n = peer.seal(HANDSHAKE, &[24, 0, 0, 1, 2], wire.spare()).unwrap();
    wire.fill(n);
    server.open(&mut wire, &mut Buf::take(), &mut Buf::none());
    assert_eq!(server.end, End::Failed(Fault::Illegal));
    assert_eq!(Fault::Illegal.alert(), 47);
}
