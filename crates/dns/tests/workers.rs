//! Does anybody hear of a worker that cannot go on? With threads and sockets, and pools that the test owns.

use evenkeel_balance::{Instant, Params, Pool, Seat, algorithms, control};
use evenkeel_config::{Plan, parse_str};
use evenkeel_dns::{PoolParts, Server};
use evenkeel_net::listen::{self, ListenFd, Protocol};
use evenkeel_net::workers::Command;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

const WORKERS: u32 = 2;

fn plan() -> Plan {
    let text = "[listener.dns]\nbind = ['127.0.0.1:53']\nmode = 'dns'\nzone = { name = 'a.example', \
                records = { www = { pool = 'web' } } }\n[pool.web]\nendpoints = ['10.0.0.1:80']\n";
    let outcome = parse_str("test.toml", text, &|_| None);
    outcome.plan.unwrap_or_else(|| panic!("{:?}", outcome.diagnostics))
}

fn no_endpoints(_: &str, worker: u32) -> PoolParts {
    let (mut pool, algorithm) = (Pool::new(WORKERS), algorithms::default());
    pool.configure(control::Settings::default(), Instant(0));
    let (params, seat) = (Params::defaults(algorithm.params), Seat::default());
    let balancer = pool.balancer(algorithm, &params, seat, u64::from(worker)).expect("its defaults");
    PoolParts { balancer, goes_by_key: false, endpoints: Vec::new() }
}

/// One socket for each worker, at whatever port is free: nobody asks here.
fn sockets(protocol: Protocol) -> io::Result<Vec<Vec<ListenFd>>> {
    let addr = SocketAddr::from(([127, 0, 0, 1], 0));
    match protocol {
        Protocol::Udp => listen::udp(addr, WORKERS as usize, Vec::new(), false),
        Protocol::Tcp => listen::tcp(addr, WORKERS as usize, Vec::new()),
    }
}

/// The thread of the next worker to end.
fn next_end(server: &mut Server) -> JoinHandle<io::Result<()>> {
    loop {
        if let Some(thread) = server.take_ended() {
            return thread;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_worker_that_cannot_serve_a_socket_ends_and_says_why() {
    for broken in [Protocol::Udp, Protocol::Tcp] {
        let mut server = Server::new(WORKERS as usize).expect("random bytes");
        let mut open = |protocol, _, _| {
            let mut all = sockets(protocol)?;
            if protocol == broken {
                // The kernel watches no regular file.
                all[0] = vec![Arc::new(std::fs::File::open("/proc/self/exe")?.into())];
            }
            Ok(all)
        };
        let prepared = server.prepare(&plan(), &mut open).expect("nothing of it can fail yet");
        server.apply(&plan(), prepared, &no_endpoints).expect("nothing interrupts");

        let ended = next_end(&mut server);
        // Sockets are given out from the last worker's to the first's.
        assert_eq!(ended.thread().name(), Some("dns-1"), "{broken:?}");
        let why = ended.join().expect("no panic").expect_err("it could not go on");
        assert_eq!(why.kind(), io::ErrorKind::PermissionDenied, "{broken:?}: {why}");
        assert!(server.take_ended().is_none() && !server.has_ended(), "{broken:?}: the other one goes on");

        // One that is told to end does so without an error.
        server.command(Command::Drain);
        next_end(&mut server).join().expect("no panic").expect("it was told to");
        assert!(server.has_ended());
    }
}
