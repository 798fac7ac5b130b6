//! A successor that cannot be started is reported. Alone in its process, because the test depends on which
//! descriptor numbers are free, and a concurrent test would open and close some.

use evenkeel_net::inherit::hand_over;
use rustix::fd::AsFd;
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::net::UdpSocket;
use std::process::Command;

#[test]
fn why_a_successor_cannot_be_started_is_heard_whichever_numbers_are_free() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (_hears, says) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    // More than the test has open, so that some of the numbers are free; any of them may be the one that
    // matters.
    for count in [1, 2, 5, 10, 20, 40, 80] {
        let sockets: Vec<_> = (0..count).map(|i| (i.to_string(), socket.as_fd())).collect();
        let mut command = Command::new("/nonexistent/evenkeel");
        hand_over(&mut command, 1, &sockets, &says).unwrap();
        let started = command.spawn().map(|mut child| child.wait());
        assert_eq!(started.unwrap_err().kind(), io::ErrorKind::NotFound, "{count} sockets");
    }
}
