//! Datagrams: flows that end with their endpoint, services without one, and packets that are large.

use super::mechanism::for_each;
use super::site::{Family, NAMES, Site, connect, datagrams, exchange};
use super::support::eventually;
use std::io::{ErrorKind, Read, Write};
use std::net::UdpSocket;

/// Checks over TCP, for servers of both.
const CHECKED: &str = "health = { tcp = {}, interval = '200ms', fall = 2, rise = 1 }\npanic = { healthy_below = 0 }";

#[test]
fn a_flow_gets_another_endpoint_when_its_own_is_down_and_keeps_one_that_drains() {
    for_each(|mechanism| {
        let site = Site::start(mechanism, Family::V4, "udp", [""; 4], CHECKED);
        let client = site.sender();
        let first = client.exchange(b"who").expect("it is answered");
        let at = super::site::NAMES.iter().position(|name| *name == first).expect("it is known");
        assert!(site.command(&["drain", "web", &first]).is_some(), "{}", site.said());
        site.serves("udp", &(0..4).filter(|other| *other != at).collect::<Vec<_>>());
        assert_eq!(client.exchange(b"who").expect("it is answered"), first, "{}", mechanism.name);
        site.servers[at].switch_off();
        let other = eventually("another endpoint", || client.exchange(b"who").ok());
        assert_ne!(other, first, "{}", mechanism.name);
    });
}

#[test]
fn a_connected_socket_of_an_endpoint_that_is_down_or_removed_is_ended() {
    for_each(|mechanism| {
        for family in [Family::V4, Family::V6].into_iter().filter(|_| mechanism.binds_sockets) {
            let site = Site::start(mechanism, family, "udp", [""; 4], CHECKED);
            let to = site.address();
            let ended = "evenkeel_kernel_events_total{plane=\"ebpf\",reason=\"sockets-ended\"}";
            let sockets: Vec<UdpSocket> = (0..40).map(|_| site.as_client(|| datagrams(to))).collect();
            let name = |socket: &UdpSocket| exchange(socket, b"who").expect("it is answered");
            let mut of: Vec<Vec<&UdpSocket>> = vec![Vec::new(); 4];
            for socket in &sockets {
                let name = name(socket);
                of[NAMES.iter().position(|known| *known == name).expect("it is known")].push(socket);
            }
            let is_ended = |socket: &&UdpSocket| {
                // An end is an error of the next call; afterwards, the socket is connected to nothing.
                let error = socket.send(b"who").err()?;
                let kinds = [Some(libc::ECONNABORTED), Some(libc::EDESTADDRREQ)];
                kinds.contains(&error.raw_os_error()).then_some(())
            };
            site.servers[1].switch_off();
            let begun = of[1].len();
            eventually("ends of sockets", || of[1].iter().all(|socket| is_ended(socket).is_some()).then_some(()));
            eventually("a count", || (site.sum(ended) == begun as f64).then_some(()));
            site.write_endpoints("udp", "", &[(0, ""), (1, ""), (3, "")], CHECKED);
            site.reload();
            eventually("more ends", || of[2].iter().all(|socket| is_ended(socket).is_some()).then_some(()));
            assert!(of[0].iter().all(|socket| name(socket) == "a") && of[3].iter().all(|socket| name(socket) == "d"));
            // The same socket may connect again.
            let again = of[1].iter().chain(&of[2]).next().expect("forty sockets are at more than two endpoints");
            site.as_client(|| again.connect(to).expect("there is a route"));
            eventually("an answer", || exchange(again, b"who").ok().filter(|name| ["a", "d"].contains(&&**name)));
        }
    });
}

#[test]
fn a_service_without_endpoints_refuses_and_recovers_for_the_same_socket() {
    for_each(|mechanism| {
        for family in [Family::V4, Family::V6] {
            let site = Site::start(mechanism, family, "udp", [""; 4], CHECKED);
            let client = site.sender();
            site.servers.iter().for_each(super::server::Server::switch_off);
            eventually(&format!("{}: a refusal by ICMP\n{}", mechanism.name, site.said()), || {
                let refused = client.exchange(b"who").err()?;
                // The kernel refuses a local client also by the result of its call.
                matches!(refused.kind(), ErrorKind::ConnectionRefused | ErrorKind::PermissionDenied).then_some(())
            });
            site.servers[2].switch_on(&site.endpoints[2]);
            let name = eventually("an answer", || client.exchange(b"who").ok());
            assert_eq!(name, "c", "{}", mechanism.name);
        }
    });
}

#[test]
fn connections_to_a_service_without_endpoints_are_refused() {
    for_each(|mechanism| {
        for family in [Family::V4, Family::V6] {
            let site = Site::start(mechanism, family, "tcp", ["weight = 0"; 4], "");
            let refused = site.connect().expect_err("no endpoint serves").kind();
            assert_eq!(refused, ErrorKind::ConnectionRefused, "{} {family:?}", mechanism.name);
        }
    });
}

#[test]
fn a_megabyte_passes_a_narrow_link() {
    for_each(|mechanism| {
        for family in [Family::V4, Family::V6] {
            let site = Site::start(mechanism, family, "tcp", [""; 4], "");
            for (at, namespace) in site.endpoints.iter().enumerate() {
                namespace.ip("link set eth0 mtu 1400");
                site.balancer.ip(&format!("link set e{} mtu 1400", at + 1));
            }
            let to = site.address();
            let received = site.as_client(|| {
                let mut stream = connect(to).expect("it is balanced");
                // A request that does not fit into a packet, whose answer does not either.
                let mut request = vec![b' '; 100_000];
                request[..4].copy_from_slice(b"GET ");
                stream.write_all(b"GET 1000000\n").expect("it is sent");
                let mut body = vec![0; 1_000_000];
                stream.read_exact(&mut body).expect("all of it comes");
                stream.write_all(&request).expect("it is sent");
                let mut name = [0; 1];
                stream.read_exact(&mut name).expect("it is answered");
                body.len()
            });
            assert_eq!(received, 1_000_000, "{} {family:?}", mechanism.name);
        }
    });
}

#[test]
fn a_datagram_of_four_thousand_bytes_arrives_and_so_does_its_answer() {
    for_each(|mechanism| {
        for family in [Family::V4, Family::V6] {
            let site = Site::start(mechanism, family, "udp", [""; 4], "");
            let to = site.address();
            let len = site.as_client(|| {
                let socket = datagrams(to);
                socket.send(&[b'x'; 4000]).expect("it is sent");
                socket.recv(&mut [0; 8000]).expect("it is answered")
            });
            assert_eq!(len, 4000, "{} {family:?}", mechanism.name);
        }
    });
}
