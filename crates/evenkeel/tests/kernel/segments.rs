//! Segments that belong to no window of a connection, and endpoints that die while a connection begins.

use super::flood::{ACK, Segment};
use super::mechanism::for_each;
use super::server::PORT;
use super::site::{Family, NAMES, Site, connect, said};
use super::support::eventually;
use std::net::{SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::AsRawFd;

/// Distance of a sequence number from the end of all windows. One before a window may be that of a repetition.
const FAR: u32 = 1 << 30;

#[test]
fn a_segment_outside_the_window_resets_no_connection() {
    for_each(|mechanism| {
        for source in ["own", "client"].into_iter().filter(|_| !mechanism.is_local) {
            let site = Site::start(mechanism, Family::V4, "tcp", [""; 4], &format!("source = '{source}'"));
            // As usual, the machine has the address, and would answer what is not translated.
            site.balancer.ip(&format!("addr add {}/32 dev lo", site.address().ip()));
            let mut held = Vec::new();
            for round in 0..8 {
                let known: Vec<Vec<SocketAddrV4>> = (0..4).map(|at| peers(&site, at)).collect();
                let mut stream = site.connect().expect("it is balanced");
                let name = said(&mut stream).expect("it is answered");
                let at = NAMES.iter().position(|known| *known == name).expect("it is known");
                let (sent, received) = sequences(&stream);
                let client = v4(stream.local_addr().expect("it is connected"));
                let forged = Segment {
                    from: client,
                    to: v4(site.address()),
                    sequence: sent.wrapping_add(FAR),
                    acknowledged: received,
                    flags: ACK,
                };
                site.clients.within(|| forged.send(b"x"));
                let peer = peers(&site, at).into_iter().find(|peer| !known[at].contains(peer)).expect("it is new");
                // Of the real endpoint, so that no other address is involved.
                let forged = Segment {
                    from: v4(SocketAddr::new(site.endpoint(at), PORT)),
                    to: peer,
                    sequence: received.wrapping_add(FAR),
                    acknowledged: sent,
                    flags: ACK,
                };
                site.endpoints[at].within(|| forged.send(b"x"));
                let what = format!("{}, source = {source}, round {round}", mechanism.name);
                for _ in 0..2 {
                    let answer = said(&mut stream).unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert_eq!(answer, name, "{what}");
                }
                held.push(stream);
            }
            if mechanism.plane == "nftables" {
                let dropped = "evenkeel_kernel_events_total{plane=\"nftables\",reason=\"invalid\"}";
                eventually("a count of what was dropped", || (site.sum(dropped) >= 16.0).then_some(()));
            }
        }
    });
}

fn v4(addr: SocketAddr) -> SocketAddrV4 {
    match addr {
        SocketAddr::V4(addr) => addr,
        SocketAddr::V6(addr) => panic!("{addr} is not of IPv4"),
    }
}

/// Peers of the connections that an endpoint has. Its listener is of both families.
fn peers(site: &Site, at: usize) -> Vec<SocketAddrV4> {
    let table =
        site.endpoints[at].within(|| std::fs::read_to_string("/proc/thread-self/net/tcp6").expect("it is there"));
    let parse = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let (own, peer, state) = (fields.next()?, fields.next()?, fields.next()?);
        let (ip, port) = peer.split_once(':')?;
        let is_ours = own.ends_with(&format!(":{PORT:04X}")) && state == "01";
        let ip = u32::from_str_radix(ip.get(ip.len() - 8..)?, 16).ok()?.to_ne_bytes();
        is_ours.then_some(SocketAddrV4::new(ip.into(), u16::from_str_radix(port, 16).ok()?))
    };
    table.lines().skip(1).filter_map(parse).collect()
}

/// Next sequence numbers of a connection: of what it sends, and of what it receives.
fn sequences(stream: &TcpStream) -> (u32, u32) {
    const RECEIVED: i32 = 1;
    const SENT: i32 = 2;
    const OFF_WITHOUT_PROBE: i32 = -1;
    let set = |option: i32, value: i32| {
        // SAFETY: the descriptor is open, and `value` is an int that lives during the call, of the length that is passed.
        let result = unsafe {
            let length = size_of::<i32>() as libc::socklen_t;
            libc::setsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, option, (&raw const value).cast(), length)
        };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    };
    let next = |queue: i32| {
        set(libc::TCP_REPAIR_QUEUE, queue);
        let (mut value, mut length) = (0u32, size_of::<u32>() as libc::socklen_t);
        // SAFETY: the descriptor is open; `value` and its length are written, and live during the call.
        let result = unsafe {
            let into = (&raw mut value).cast();
            libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_QUEUE_SEQ, into, &raw mut length)
        };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        value
    };
    set(libc::TCP_REPAIR, 1);
    let both = (next(SENT), next(RECEIVED));
    set(libc::TCP_REPAIR, OFF_WITHOUT_PROBE);
    both
}

/// Checks that fail soon, also for want of an answer.
const CHECKED: &str = "health = { tcp = {}, interval = '200ms', timeout = '200ms', fall = 2, rise = 1 }\n\
    panic = { healthy_below = 0 }";

#[test]
fn a_client_whose_endpoint_died_connects_to_another_one() {
    for_each(|mechanism| {
        for family in [Family::V4, Family::V6] {
            let site = Site::start(mechanism, family, "tcp", [""; 4], CHECKED);
            site.serves("tcp", &[0, 1, 2, 3]);
            for command in [
                "nft add table inet dead",
                "nft add chain inet dead silent { type filter hook input priority -300 ; policy drop ; }",
            ] {
                site.endpoints[1].run(command);
            }
            // All before the first check has failed. The client gives up after five seconds.
            let (to, is_bound) = (site.address(), mechanism.binds_sockets);
            let begin = || {
                let stream = match connect(to) {
                    // The kernel cannot direct such a socket elsewhere: its owner is told at once, and opens another.
                    Err(error) if is_bound => {
                        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionAborted, "{}", mechanism.name);
                        connect(to)
                    }
                    result => result,
                };
                said(&mut stream.unwrap_or_else(|error| panic!("{} {family:?}: {error}", mechanism.name)))
            };
            let names = site.as_client(|| {
                std::thread::scope(|scope| {
                    let clients: Vec<_> = (0..24).map(|_| scope.spawn(begin)).collect();
                    clients.into_iter().map(|client| client.join()).collect::<Vec<_>>()
                })
            });
            for name in names {
                let name = name.unwrap_or_else(|panic| std::panic::resume_unwind(panic)).expect("it is answered");
                assert_ne!(name, "b", "{} {family:?}", mechanism.name);
            }
        }
    });
}
