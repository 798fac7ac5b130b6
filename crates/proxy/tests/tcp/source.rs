//! The client's address as source towards the endpoint (`source = "client"`), in a network namespace with client, proxy
//! and endpoint that routes through the proxy. Needs root.

use crate::support::{Proxy, SOON};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Moves this thread, and those that it starts, to an empty network namespace; `false` if this process may not.
fn enter_network_of_its_own() -> bool {
    // SAFETY: the call takes no pointer; it changes the network namespace of this thread alone.
    unsafe { libc::unshare(libc::CLONE_NEWNET) == 0 }
}

fn ip(arguments: &str) {
    let done = std::process::Command::new("ip").args(arguments.split(' ')).status();
    assert!(done.is_ok_and(|status| status.success()), "ip {arguments}");
}

#[test]
fn the_endpoint_sees_the_clients_address() {
    if !evenkeel_peers::installed(&["ip"]) {
        return;
    }
    if !enter_network_of_its_own() {
        return evenkeel_peers::skip("only root may make a network of its own");
    }
    ip("link set lo up");
    // Packets to this client's address are local, and responses to it are routed back to the proxy.
    ip("addr add 192.0.2.7/32 dev lo");
    ip("rule add fwmark 1 lookup 100");
    ip("route add local 0.0.0.0/0 dev lo table 100");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = listener.local_addr().unwrap();
    let proxy = Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\nmode = \"tcp\"\npool = \"web\"\n\
         [pool.web]\nendpoints = [\"{endpoint}\"]\nsource = \"client\""
    ));
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([192, 0, 2, 7], 0)).into()).unwrap();
    socket.connect(&proxy.addr().into()).unwrap();
    let mut client = TcpStream::from(socket);
    client.set_read_timeout(Some(SOON)).unwrap();
    client.write_all(b"who am I?").unwrap();
    let (mut seen, from) = listener.accept().unwrap();
    assert_eq!(from.ip().to_string(), "192.0.2.7");
    assert_ne!(from.port(), client.local_addr().unwrap().port());
    let mut asked = [0; 9];
    seen.read_exact(&mut asked).unwrap();
    seen.write_all(from.ip().to_string().as_bytes()).unwrap();
    drop(seen);
    let mut told = String::new();
    client.read_to_string(&mut told).unwrap();
    assert_eq!(told, "192.0.2.7");
}
