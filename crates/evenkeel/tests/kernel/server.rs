//! Server at one port of a namespace, over TCP and UDP and both families: it says its name for whatever it gets. It can be
//! switched off and on again.

use super::namespace::Namespace;
use rustix::net::sockopt::{set_ipv6_v6only, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, shutdown, socket_with};
use std::io::{Read, Write};
use std::net::{Ipv6Addr, SocketAddrV6, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::thread;

pub const PORT: u16 = 8000;

/// A server, which serves until it is switched off.
pub struct Server {
    name: &'static str,
    sockets: Mutex<Vec<Arc<OwnedFd>>>,
}

impl Server {
    pub fn start(namespace: &Namespace, name: &'static str) -> Server {
        let server = Server { name, sockets: Mutex::default() };
        server.switch_on(namespace);
        server
    }

    /// Listens over TCP and UDP, as after a start.
    pub fn switch_on(&self, namespace: &Namespace) {
        let name = self.name;
        let (tcp, udp) = namespace.within(|| (open(SocketType::STREAM), open(SocketType::DGRAM)));
        listen(&tcp, 1024).expect("it is bound");
        let listener: TcpListener = tcp.try_clone().expect("a descriptor is left").into();
        let datagrams: UdpSocket = udp.try_clone().expect("a descriptor is left").into();
        thread::spawn(move || accept(&listener, name));
        thread::spawn(move || answer(&datagrams, name));
        *self.sockets.lock().expect("no thread panics with it") = vec![Arc::new(tcp), Arc::new(udp)];
    }

    /// Closes its sockets: connections are refused, and datagrams answered by ICMP. Open connections stay.
    pub fn switch_off(&self) {
        for socket in self.sockets.lock().expect("no thread panics with it").drain(..) {
            // Wakes the thread that waits on it, which has the last descriptor then.
            let _ = shutdown(&*socket, rustix::net::Shutdown::Both);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.switch_off();
    }
}

fn open(kind: SocketType) -> OwnedFd {
    let socket = socket_with(AddressFamily::INET6, kind, SocketFlags::CLOEXEC, None).expect("sockets can be had");
    set_ipv6_v6only(&socket, false).expect("a socket of both families");
    set_socket_reuseaddr(&socket, true).expect("sockets have the option");
    bind(&socket, &SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, PORT, 0, 0)).expect("no other server is in this namespace");
    socket
}

/// Accepts connections until the socket is shut down.
fn accept(listener: &TcpListener, name: &'static str) {
    while let Ok((mut stream, _)) = listener.accept() {
        thread::spawn(move || {
            let mut buffer = [0; 16 * 1024];
            // A request of `GET n` gets a body of n bytes, any other the name.
            while let Ok(len @ 1..) = stream.read(&mut buffer) {
                let said = std::str::from_utf8(&buffer[..len]).unwrap_or_default();
                if said.starts_with("GET /") {
                    // A server of HTTP that closes first.
                    let _ = write!(stream, "HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len());
                    break;
                }
                let wanted = said.strip_prefix("GET ").and_then(|n| n.trim().parse().ok());
                let response = wanted.map_or_else(|| name.as_bytes().to_vec(), |n| vec![b'x'; n]);
                if stream.write_all(&response).is_err() {
                    break;
                }
            }
        });
    }
}

/// Answers datagrams with its name, and with as many bytes as came, until the socket is shut down.
fn answer(socket: &UdpSocket, name: &'static str) {
    let mut buffer = vec![0; 65_535];
    while let Ok((len, from)) = socket.recv_from(&mut buffer) {
        if from.port() == 0 {
            break;
        }
        let mut response = name.as_bytes().to_vec();
        response.resize(len.max(name.len()), b'.');
        let _ = socket.send_to(&response, from);
    }
}

/// Returns the name that a server has put into a response, without padding.
pub fn name_in(response: &[u8]) -> String {
    String::from_utf8_lossy(response).trim_end_matches('.').to_owned()
}
