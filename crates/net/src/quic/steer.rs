//! Distribution of datagrams over the workers' sockets by the kernel: a program of the group of sockets reads the worker
//! from the connection id, so that a client whose address changes stays with its worker. Without it, such datagrams come to
//! the socket that the kernel picks by their addresses.

use super::ids::WORKER;
use super::v2::V2;
use rustix::fd::{AsFd, AsRawFd};
use std::io;

/// Instruction of classic BPF: `code`, jumps, operand.
const fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// Result of a program whose socket does not exist: the kernel picks by the addresses, as without the program.
const BY_ADDRESSES: u32 = u32::MAX;

/// Bytes between the first byte of a datagram and the id: in a short header, and in a long header.
const SHORT: u32 = 1;
const LONG: u32 = 6;

/// Bytes before the version in a long header.
const VERSION: u32 = 1;

/// The program, which sees the payload of UDP. The top bit marks a long header; of these, only Handshake packets surely
/// have an id of the server. Their type has the bit 0x20 in version 1, and the bits 0x30 in version 2. In others of version
/// 1, the bit is not set but in a Retry, which servers do not receive.
fn program() -> [libc::sock_filter; 13] {
    use libc::{BPF_A, BPF_ABS, BPF_B, BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W};
    let load = |at| instruction(BPF_LD | BPF_B | BPF_ABS, 0, 0, at);
    let has_bit = |bit, jt, jf| instruction(BPF_JMP | BPF_JSET | BPF_K, jt, jf, bit);
    let answer = instruction(BPF_RET | BPF_A, 0, 0, 0);
    [
        load(0),
        has_bit(0x80, 2, 0),
        load(SHORT + WORKER as u32),
        answer,
        instruction(BPF_LD | BPF_W | BPF_ABS, 0, 0, VERSION),
        instruction(BPF_JMP | BPF_JEQ | BPF_K, 0, 2, V2),
        load(0),
        has_bit(0x10, 0, 4),
        load(0),
        has_bit(0x20, 0, 2),
        load(LONG + WORKER as u32),
        answer,
        instruction(BPF_RET | BPF_K, 0, 0, BY_ADDRESSES),
    ]
}

/// Attaches the program to the group of a socket, which all sockets at its address have joined in the order of the
/// workers.
///
/// # Errors
/// The kernel refuses the program.
pub fn by_id(socket: impl AsFd) -> io::Result<()> {
    let mut program = program();
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // The kernel copies the instructions, which outlive the call.
    set(socket, libc::SO_ATTACH_REUSEPORT_CBPF, &filter)
}

/// Detaches the program from the group of a socket, so that the kernel picks by the addresses.
pub fn by_addresses(socket: impl AsFd) {
    // It fails if there is no program.
    let _ = set(socket, libc::SO_DETACH_REUSEPORT_BPF, &0i32);
}

fn set<T>(socket: impl AsFd, option: libc::c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the descriptor is open for the call, and the pointer and length describe `value`.
    let done = unsafe {
        libc::setsockopt(socket.as_fd().as_raw_fd(), libc::SOL_SOCKET, option, (&raw const *value).cast(), len)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::ids::LEN;
    use crate::quic::versions::V1;
    use socket2::{Domain, Protocol, Socket, Type};
    use std::net::{SocketAddr, UdpSocket};

    /// Two sockets at an address, in the order of their workers.
    fn group() -> [UdpSocket; 2] {
        let mut addr: SocketAddr = ([127, 0, 0, 1], 0).into();
        [0, 1].map(|_| {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).expect("a socket");
            socket.set_reuse_port(true).expect("the kernel has it");
            socket.bind(&addr.into()).expect("a port");
            let socket = UdpSocket::from(socket);
            socket.set_nonblocking(true).expect("sockets have that");
            addr = socket.local_addr().expect("it is bound");
            socket
        })
    }

    #[test]
    fn datagrams_with_ids_of_the_server_come_to_its_worker_and_others_to_any() {
        let group = group();
        by_id(&group[0]).expect("the program is right");
        let to = group[0].local_addr().expect("it is bound");
        // Datagrams that each socket got, of one from each of 32 addresses.
        let counts = |datagram: &[u8]| {
            let clients: Vec<_> = (0..32).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a port")).collect();
            for client in &clients {
                client.send_to(datagram, to).expect("room");
            }
            [0, 1].map(|worker: usize| {
                let mut bytes = [0; 64];
                std::iter::from_fn(|| group[worker].recv(&mut bytes).ok()).count()
            })
        };
        for worker in 0..2 {
            let mut id = [7; LEN];
            id[WORKER] = worker;
            let all = if worker == 0 { [32, 0] } else { [0, 32] };
            assert_eq!(counts(&[&[0x40][..], &id, b"rest"].concat()), all, "a short header");
            let long = |version: u32, kind: u8| {
                [&[0xc0 | kind << 4][..], &version.to_be_bytes(), &[LEN as u8], &id, b"rest"].concat()
            };
            for (version, kind) in [(V1, 2), (V2, 3)] {
                assert_eq!(counts(&long(version, kind)), all, "Handshake of {version:#x}");
            }
            // Initial and 0-RTT.
            for (version, kind) in [(V1, 0), (V1, 1), (V2, 1), (V2, 2)] {
                let counts = counts(&long(version, kind));
                assert!(counts[0] > 0 && counts[1] > 0, "type {kind} of {version:#x}: {counts:?}");
            }
        }
    }
}
