//! Lower bound of the cost of relaying a session: a relay for comparison only, without timeouts, limits, checks or
//! counts, which alternates between two endpoints. It makes only the system calls that a session needs, so its cost is
//! the kernel's, and no proxy here can cost much less.

use crate::error::{Error, Result, While};
use clap::{Arg, ArgMatches, Command, value_parser};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_nodelay;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Name of the hidden subcommand.
pub const NAME: &str = "bare-relay";

/// Buffer size of a read. After a read that fills it, the relay switches to splicing.
const READ: usize = 32 * 1024;

/// Capacity of a pipe, in bytes.
const PIPE: usize = 1024 * 1024;

/// A splice of fewer bytes switches back to copying.
const SPLICE_MIN: usize = 16 * 1024;

/// Key of the listener's events. The key of a session's events is twice its index plus the side.
const LISTENER: u64 = u64::MAX;

/// Adds the argument: a file with three loopback ports, of itself and of two endpoints.
pub fn arguments(command: Command) -> Command {
    command.arg(Arg::new("ports").required(true).value_parser(value_parser!(PathBuf)))
}

/// Relays until it is killed.
///
/// # Errors
/// If it cannot listen, or the kernel has no epoll.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let file = matches.get_one::<PathBuf>("ports").expect("clap requires it");
    let text = std::fs::read_to_string(file).or_say(|| format!("cannot read {}", file.display()))?;
    let ports: Vec<u16> = text.split_whitespace().filter_map(|port| port.parse().ok()).collect();
    let &[listen, first, second] = &ports[..] else {
        return Err(Error::Wrong(format!("{} has not three ports but \"{text}\"", file.display())));
    };
    let [address, first, second] = [listen, first, second].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    listen_at(address)
        .and_then(|listener| relay(&listener, [first, second]))
        .or_say(|| format!("cannot relay at {address}"))
}

fn listen_at(address: SocketAddr) -> Asked<OwnedFd> {
    let listener = socket()?;
    rustix::net::sockopt::set_socket_reuseaddr(&listener, true)?;
    // Accepted sockets inherit the option.
    set_tcp_nodelay(&listener, true)?;
    rustix::net::bind(&listener, &address)?;
    rustix::net::listen(&listener, 4096)?;
    Ok(listener)
}

fn relay(listener: &OwnedFd, endpoints: [SocketAddr; 2]) -> Asked<()> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN | EventFlags::ET)?;
    let (mut sessions, mut free): (Vec<Option<Session>>, Vec<usize>) = (Vec::new(), Vec::new());
    let (mut buffer, mut pipes, mut turn) = (vec![0; READ], Vec::new(), 0);
    let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 256];
    loop {
        let n = match epoll::wait(&epoll, &mut events[..], None) {
            Err(Errno::INTR) => 0,
            n => n?,
        };
        for Event { flags, data } in events[..n].iter().copied() {
            let key = data.u64();
            if key == LISTENER {
                while let Ok(client) = rustix::net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)
                {
                    let place = free.pop().unwrap_or_else(|| {
                        sessions.push(None);
                        sessions.len() - 1
                    });
                    turn = 1 - turn;
                    match Session::open(&epoll, place as u64 * 2, client, &endpoints[turn], &mut buffer) {
                        Ok(session) => sessions[place] = Some(session),
                        Err(_) => free.push(place),
                    }
                }
                continue;
            }
            let (place, side) = ((key / 2) as usize, (key % 2) as usize);
            let Some(session) = &mut sessions[place] else { continue };
            if session.go_on(side, flags, &mut buffer, &mut pipes) != Ok(true) {
                sessions[place] = None;
                free.push(place);
            }
        }
    }
}

/// Result of a system call, with the bare `errno`.
type Asked<T> = std::result::Result<T, Errno>;

type Pipe = (OwnedFd, OwnedFd);

/// Relayed session: side 0 is the client, side 1 the endpoint.
struct Session {
    sockets: [OwnedFd; 2],
    /// Direction from each side to the other.
    ways: [Way; 2],
}

#[derive(Default)]
struct Way {
    /// Bytes read but not yet written.
    bytes: Vec<u8>,
    /// Pipe with spliced bytes that are not yet written, and their number.
    pages: Option<(Pipe, usize)>,
    is_bulk: bool,
    /// True once the kernel has reported that the side sends no further bytes.
    is_closing: bool,
    is_over: bool,
}

impl Session {
    fn open(epoll: &OwnedFd, key: u64, client: OwnedFd, to: &SocketAddr, buffer: &mut [u8]) -> Asked<Session> {
        let early = match rustix::net::recv(&client, &mut *buffer, RecvFlags::empty()) {
            Err(Errno::AGAIN) => 0,
            read => read?.0,
        };
        let endpoint = socket()?;
        if early > 0 {
            // The ACK that completes the handshake is sent along with the bytes.
            rustix::net::sockopt::set_tcp_quickack(&endpoint, false)?;
        } else {
            set_tcp_nodelay(&endpoint, true)?;
        }
        match rustix::net::connect(&endpoint, to) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error),
        }
        let mut ways: [Way; 2] = Default::default();
        let sent = if early > 0 { send(&endpoint, &buffer[..early], SendFlags::NOSIGNAL)? } else { 0 };
        ways[0].bytes = buffer[sent..early].to_vec();
        let what = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(epoll, &endpoint, EventData::new_u64(key + 1), what)?;
        epoll::add(epoll, &client, EventData::new_u64(key), what)?;
        Ok(Session { sockets: [client, endpoint], ways })
    }

    /// Handles an event of `side`. Returns true if the session continues.
    fn go_on(&mut self, side: usize, flags: EventFlags, buffer: &mut [u8], pipes: &mut Vec<Pipe>) -> Asked<bool> {
        let ended = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        if flags.contains(EventFlags::OUT) && self.ways[1 - side].is_held() {
            self.pump(1 - side, buffer, pipes)?;
        }
        if flags.intersects(EventFlags::IN | ended) {
            self.ways[side].is_closing |= flags.intersects(ended);
            self.pump(side, buffer, pipes)?;
        }
        Ok(!self.ways.iter().all(|way| way.is_over))
    }

    /// Relays the bytes that `side` has sent.
    fn pump(&mut self, side: usize, buffer: &mut [u8], pipes: &mut Vec<Pipe>) -> Asked<()> {
        let (from, to) = (&self.sockets[side], &self.sockets[1 - side]);
        let is_last = self.ways[1 - side].is_over;
        let way = &mut self.ways[side];
        loop {
            if !way.drain(to, pipes)? || way.is_over {
                return Ok(());
            }
            let n = if way.is_bulk {
                let pipe = pipes.pop().map_or_else(pipe, Ok)?;
                match splice(from, None, &pipe.1, None, PIPE, SPLICE) {
                    Err(error) => {
                        pipes.push(pipe);
                        return if error == Errno::AGAIN { Ok(()) } else { Err(error) };
                    }
                    Ok(n) => {
                        way.is_bulk = n >= SPLICE_MIN;
                        way.pages = Some((pipe, n));
                        n
                    }
                }
            } else {
                let n = match rustix::net::recv(from, &mut *buffer, RecvFlags::empty()) {
                    Err(Errno::AGAIN) => return Ok(()),
                    read => read?.0,
                };
                way.is_bulk = n == READ;
                // The FIN is sent with the last bytes, in a single packet.
                let ends = n > 0 && !way.is_bulk && way.is_closing;
                let flags = if ends { SendFlags::NOSIGNAL | SendFlags::MORE } else { SendFlags::NOSIGNAL };
                let sent = if n > 0 { send(to, &buffer[..n], flags)? } else { 0 };
                way.bytes.extend_from_slice(&buffer[sent..n]);
                match n {
                    _ if ends && sent == n => 0,
                    // A short read has emptied the socket: the kernel reports when there is more.
                    1..READ => return Ok(()),
                    n => n,
                }
            };
            if n == 0 {
                way.is_over = true;
                // If both directions have ended, closing the sockets ends them.
                return if is_last { Ok(()) } else { rustix::net::shutdown(to, Shutdown::Write) };
            }
        }
    }
}

impl Way {
    fn is_held(&self) -> bool {
        !self.bytes.is_empty() || self.pages.is_some()
    }

    /// Writes pending bytes. Returns true if all were written.
    fn drain(&mut self, to: &OwnedFd, pipes: &mut Vec<Pipe>) -> Asked<bool> {
        if !self.bytes.is_empty() {
            let n = send(to, &self.bytes, SendFlags::NOSIGNAL)?;
            self.bytes.drain(..n);
            return Ok(self.bytes.is_empty());
        }
        let Some((pipe, mut held)) = self.pages.take() else { return Ok(true) };
        while held > 0 {
            match splice(&pipe.0, None, to, None, held, SPLICE) {
                Err(Errno::AGAIN) => {
                    self.pages = Some((pipe, held));
                    return Ok(false);
                }
                n => held -= n?,
            }
        }
        pipes.push(pipe);
        Ok(true)
    }
}

const SPLICE: SpliceFlags = SpliceFlags::MOVE.union(SpliceFlags::NONBLOCK);

fn socket() -> Asked<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)
}

fn pipe() -> Asked<Pipe> {
    let pipe = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?;
    fcntl_setpipe_size(&pipe.1, PIPE)?;
    Ok(pipe)
}

/// Sends bytes and returns how many were accepted, possibly 0.
fn send(to: &OwnedFd, bytes: &[u8], flags: SendFlags) -> Asked<usize> {
    match rustix::net::send(to, bytes, flags) {
        Err(Errno::AGAIN) => Ok(0),
        sent => sent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn all_that_one_side_says_reaches_the_other_and_so_does_the_end() {
        let endpoint = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint_address = endpoint.local_addr().expect("an address");
        let listener = listen_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a port");
        let relay_address: SocketAddr =
            rustix::net::getsockname(&listener).expect("it listens").try_into().expect("an address");
        std::thread::spawn(move || relay(&listener, [endpoint_address; 2]));
        // More than all buffers on the way hold, so that each side waits for the other; then only a few bytes.
        for len in [24 << 20, 5] {
            let mut client = TcpStream::connect(relay_address).expect("it is let in");
            let said: Vec<u8> = (0_u32..).flat_map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes()).take(len).collect();
            client.write_all(&said[..3]).expect("it takes bytes");
            let (mut served, _) = endpoint.accept().expect("it comes");
            let all = std::thread::scope(|scope| {
                let rest = &said[3..];
                let mut sender = client.try_clone().expect("a descriptor");
                scope.spawn(move || {
                    sender.write_all(rest).expect("it takes bytes");
                    sender.shutdown(std::net::Shutdown::Write).expect("it is open");
                });
                let mut all = Vec::new();
                served.read_to_end(&mut all).expect("they come");
                all
            });
            assert!(all == said, "{len} bytes went there");
            std::thread::scope(|scope| {
                scope.spawn(move || served.write_all(&all).expect("they are taken"));
                let mut back = Vec::new();
                client.read_to_end(&mut back).expect("they come");
                assert!(back == said, "{len} bytes came back");
            });
        }
    }
}
