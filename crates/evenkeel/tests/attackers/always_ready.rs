//! Connections that never wait: what one of them sends is there before it is read, and what it is sent is taken at once. For
//! every loop of a worker that reads and writes, with a single worker, so that an attacker and the innocent clients share it.

use crate::scene::{Attack, Innocent, Scene, stay_unharmed};
use crate::support::address;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

/// Between two looks at whether an attack is over.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Connects, sends `opening` and then `more` over and over, and reads what comes, until the attack is over; each connection
/// that ends is followed by another.
pub fn pump(attack: &Attack, addr: &str, opening: &[u8], more: &[u8]) {
    let many = more.repeat((256 << 10) / more.len());
    while !attack.is_over() {
        let Ok(mut stream) = TcpStream::connect(addr) else { continue };
        let _ = stream.set_read_timeout(Some(LOOK_EVERY));
        let _ = stream.set_write_timeout(Some(LOOK_EVERY));
        let mut answers = stream.try_clone().expect("a descriptor");
        std::thread::scope(|scope| {
            scope.spawn(move || drain(&mut answers, || !attack.is_over()));
            if stream.write_all(opening).is_err() {
                return;
            }
            let mut left = &many[..];
            while !attack.is_over() {
                match stream.write(left) {
                    Ok(n) => left = if n < left.len() { &left[n..] } else { &many },
                    Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                    Err(_) => break,
                }
                attack.hit();
            }
            let _ = stream.shutdown(Shutdown::Both);
        });
    }
}

/// Reads until the end, or while `lasts`.
fn drain(stream: &mut TcpStream, lasts: impl Fn() -> bool) {
    let mut room = vec![0; 1 << 20];
    while lasts() {
        match stream.read(&mut room) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return,
        }
    }
}

/// A server that takes all that comes, as fast as it comes, and answers with `answer` at first; where it pours, with bytes
/// without end behind it.
fn sink(answer: &'static [u8], pours: bool) -> String {
    let addr = address();
    let listener = TcpListener::bind(&addr).expect("nobody else uses it");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                // The head is there when anything is.
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(answer);
                if pours {
                    let mut reads = stream.try_clone().expect("a descriptor");
                    std::thread::spawn(move || drain(&mut reads, || true));
                    while stream.write_all(&[b'x'; 64 << 10]).is_ok() {}
                } else {
                    drain(&mut stream, || true);
                }
            });
        }
    });
    addr
}

/// A scene with a single worker, and a route of the host `attacked` to a pool of its own.
fn scene(name: &str, endpoint: &str, listener: &str, pool: &str) -> Scene {
    let more = format!(
        "[[route]]\nmatch = {{ host = ['innocent'] }}\npool = 'web'\n\
         [[route]]\nmatch = {{ host = ['attacked'] }}\npool = 'attacked'\n\
         [pool.attacked]\nendpoints = ['{endpoint}']\n{pool}\n"
    );
    Scene::start(name, 1, listener, &more)
}

#[test]
fn pipelined_requests_without_a_route_harm_no_other_client() {
    let scene = scene("own-404", "127.0.0.1:9", "", "");
    let attack = |attack: &Attack| pump(attack, &scene.listen, b"", b"GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    stay_unharmed("pipelined requests without a route", scene.innocents(), 2, attack);
}

#[test]
fn pipelined_requests_that_are_redirected_harm_no_other_client() {
    let redirects = address();
    let more = format!("[listener.redirects]\nbind = ['{redirects}']\nredirect_https = true");
    let scene = Scene::start("own-308", 1, "", &more);
    let attack = |attack: &Attack| pump(attack, &redirects, b"", b"GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    stay_unharmed("pipelined requests that are redirected", scene.innocents(), 2, attack);
}

const CHUNKED: &[u8] = b"POST / HTTP/1.1\r\nhost: attacked\r\ntransfer-encoding: chunked\r\n\r\n";

#[test]
fn bodies_in_chunks_of_one_byte_harm_no_other_client() {
    let scene = scene("chunks", &sink(b"", false), "", "");
    let attack = |attack: &Attack| pump(attack, &scene.listen, CHUNKED, b"1\r\nx\r\n");
    stay_unharmed("bodies in chunks of one byte", scene.innocents(), 2, attack);
}

/// The attacked pool speaks HTTP/2 with another evenkeel, whose endpoint takes all.
#[test]
fn bodies_that_pass_as_messages_harm_no_other_client() {
    let behind = scene("messages-behind", &sink(b"", false), "h2c = true", "");
    let scene = scene("messages", &behind.listen, "", "protocol = 'h2'");
    let attack = |attack: &Attack| pump(attack, &scene.listen, CHUNKED, b"1\r\nx\r\n");
    stay_unharmed("bodies that pass as messages", scene.innocents(), 2, attack);
}

#[test]
fn tunnels_that_are_full_both_ways_harm_no_other_client() {
    let switch = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
    let scene = scene("tunnel", &sink(switch, true), "", "");
    let opening = b"GET / HTTP/1.1\r\nhost: attacked\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
    let attack = |attack: &Attack| pump(attack, &scene.listen, opening, b"0123456789abcdef");
    stay_unharmed("tunnels that are full both ways", scene.innocents(), 2, attack);
}

#[test]
fn sessions_over_tcp_that_are_full_both_ways_harm_no_other_client() {
    let tcp = address();
    let more = format!(
        "[listener.tcp]\nbind = ['{tcp}']\nmode = 'tcp'\npool = 'tcp'\n[pool.tcp]\nendpoints = ['{}']",
        sink(b"hello", true)
    );
    let scene = Scene::start("tcp", 1, "pool = 'web'", &more);
    let attack = |attack: &Attack| pump(attack, &tcp, b"", b"0123456789abcdef");
    stay_unharmed("sessions over TCP that are full both ways", scene.innocents(), 2, attack);
}

/// Frames that the peer may send as often as it likes, and a window that never ends.
#[test]
fn http2_frames_without_end_harm_no_other_client() {
    let scene = scene("h2-frames", "127.0.0.1:9", "h2c = true", "");
    let opening = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let window_update = b"\0\0\x04\x08\0\0\0\0\0\0\0\0\x01";
    let attack = |attack: &Attack| pump(attack, &scene.listen, opening, window_update);
    stay_unharmed("frames of HTTP/2 without end", scene.innocents(), 2, attack);
}

#[test]
fn dns_queries_pipelined_over_tcp_harm_no_other_client() {
    let (dns, query) = (address(), dns_query());
    let scene = dns_scene("dns-tcp", &dns);
    let framed = [&(query.len() as u16).to_be_bytes()[..], &query].concat();
    let attack = |attack: &Attack| pump(attack, &dns, b"", &framed);
    stay_unharmed("DNS pipelined over TCP", vec![innocent_resolver(&dns)], 4, attack);
    scene.reloads();
}

#[test]
fn dns_queries_by_datagrams_without_end_harm_no_other_client() {
    let dns = address();
    let scene = dns_scene("dns-udp", &dns);
    let attack = |attack: &Attack| flood(attack, &dns, &dns_query());
    // Some of the resolver's own datagrams find the socket full, so it comes over TCP.
    stay_unharmed("DNS by datagrams without end", vec![innocent_resolver_over_tcp(&dns)], 1, attack);
    scene.reloads();
}

#[test]
fn datagrams_without_end_harm_no_other_client() {
    let (udp, endpoint) = (address(), UdpSocket::bind("127.0.0.1:0").expect("a socket"));
    let more = format!(
        "[listener.udp]\nbind = ['{udp}']\nmode = 'udp'\npool = 'udp'\n[pool.udp]\nendpoints = ['{}']",
        endpoint.local_addr().expect("it is bound")
    );
    let scene = Scene::start("udp", 1, "pool = 'web'", &more);
    let attack = |attack: &Attack| flood(attack, &udp, b"datagram");
    stay_unharmed("datagrams without end", scene.innocents(), 1, attack);
}

#[test]
fn requests_pipelined_to_the_admin_listener_harm_no_other_client() {
    let scene = Scene::start("admin", 1, "", "");
    let attack = |attack: &Attack| pump(attack, &scene.admin, b"", b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let innocents = scene.innocents().into_iter().chain([scene.innocent_of_admin()]).collect();
    stay_unharmed("requests pipelined to the admin listener", innocents, 2, attack);
}

#[test]
fn connections_without_end_harm_no_other_client() {
    let scene = Scene::start("connections", 1, "", "");
    let attack = |attack: &Attack| {
        while !attack.is_over() {
            if TcpStream::connect(&scene.listen).is_ok() {
                attack.hit();
            }
        }
    };
    // A new connection waits behind those of the attacker, which is what a queue is.
    let kept = scene.innocents().pop().expect("there are two");
    stay_unharmed("connections without end", vec![kept], 2, attack);
}

fn flood(attack: &Attack, addr: &str, datagram: &[u8]) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(addr).expect("loopback");
    while !attack.is_over() {
        if socket.send(datagram).is_ok() {
            attack.hit();
        }
    }
}

fn dns_scene(name: &str, dns: &str) -> Scene {
    let more = format!(
        "[listener.dns]\nbind = ['{dns}']\nmode = 'dns'\n[listener.dns.zone]\nname = 'example.com'\n\
         contact = 'ops.example.com'\nresponses_per_subnet = 0\nns = [{{ name = 'ns.elsewhere.example' }}]\n\
         apex = {{ pool = 'web' }}"
    );
    Scene::start(name, 1, "pool = 'web'", &more)
}

/// A query for the addresses of `example.com`.
fn dns_query() -> Vec<u8> {
    [&[0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], b"\x07example\x03com\0", &[0, 1, 0, 1]].concat()
}

/// A client that asks by datagrams.
fn innocent_resolver(dns: &str) -> Innocent {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(dns).expect("loopback");
    socket.set_read_timeout(Some(crate::support::DEADLINE)).expect("sockets have timeouts");
    Innocent::new("a resolver", move || {
        let mut answer = [0; 512];
        let asked = socket.send(&dns_query()).and_then(|_| socket.recv(&mut answer));
        is_answer(&answer[..asked.map_err(|error| error.to_string())?])
    })
}

/// A client with a connection for each query.
fn innocent_resolver_over_tcp(dns: &str) -> Innocent {
    let dns = dns.to_owned();
    Innocent::new("a resolver over TCP", move || {
        let ask = || {
            let mut stream = TcpStream::connect(&dns)?;
            stream.set_read_timeout(Some(crate::support::DEADLINE))?;
            let query = dns_query();
            stream.write_all(&[&(query.len() as u16).to_be_bytes()[..], &query].concat())?;
            let mut length = [0; 2];
            stream.read_exact(&mut length)?;
            let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
            stream.read_exact(&mut answer).map(|()| answer)
        };
        is_answer(&ask().map_err(|error: std::io::Error| error.to_string())?)
    })
}

fn is_answer(message: &[u8]) -> Result<(), String> {
    // A response without an error, with one record.
    let is_whole = message.len() > 12 && message[2] & 0x80 != 0 && message[3] & 15 == 0 && message[7] == 1;
    if is_whole { Ok(()) } else { Err(format!("{message:02x?}")) }
}
