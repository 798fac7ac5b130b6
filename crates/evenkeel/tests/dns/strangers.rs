//! Messages that no client should send, and many at once: each costs no more than itself.

use super::DnsSetup;
use crate::support::{DEADLINE, get};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A question for the A records of a name.
fn question(id: u16, name: &str) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend_from_slice(label.as_bytes());
    }
    message.extend_from_slice(&[0, 0, 1, 0, 1]);
    message
}

fn client(setup: &DnsSetup) -> UdpSocket {
    let ip = setup.listen.rsplit_once(':').expect("an address with a port").0;
    let socket = UdpSocket::bind(format!("{ip}:0")).expect("a port is free");
    socket.connect(&setup.listen).expect("it is ours");
    socket.set_read_timeout(Some(DEADLINE)).expect("it can wait");
    socket
}

fn ask(socket: &UdpSocket, message: &[u8]) -> Vec<u8> {
    let mut answer = [0; 4096];
    socket.send(message).expect("it is sent");
    let length = socket.recv(&mut answer).expect("an answer");
    answer[..length].to_vec()
}

fn code(answer: &[u8]) -> u8 {
    answer[3] & 15
}

#[test]
fn malformed_messages_get_formerr_or_nothing_and_the_next_is_answered() {
    let setup = DnsSetup::start("malformed");
    let socket = client(&setup);
    let good = question(7, "www.gslb.example.com");
    let with = |at: usize, bytes: &[u8]| {
        let mut message = good.clone();
        message[at..at + bytes.len()].copy_from_slice(bytes);
        message
    };
    let and = |bytes: &[u8]| [&good[..], bytes].concat();
    let opt = [0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0];
    let formerr: &[(&str, Vec<u8>)] = &[
        ("no question", question(7, "a")[..12].to_vec()),
        ("a count of none", with(5, &[0])),
        ("two questions", [&with(5, &[2])[..], &good[12..]].concat()),
        ("65535 questions", with(4, &[255, 255])),
        ("cut off in the name", good[..20].to_vec()),
        ("cut off in the type", good[..good.len() - 3].to_vec()),
        ("a pointer to itself", [&good[..12], &[0xc0, 12, 0, 1, 0, 1]].concat()),
        ("a pointer ahead", [&good[..12], &[0xc0, 200, 0, 1, 0, 1]].concat()),
        ("a pointer to the header", [&good[..12], &[0xc0, 0, 0, 1, 0, 1]].concat()),
        ("a label of a reserved kind", [&good[..12], &[0x80, 1, 0, 0, 1, 0, 1]].concat()),
        ("a name of more than 255 bytes", question(7, &vec!["a".repeat(60); 5].join("."))),
        ("an answer that is not there", with(7, &[1])),
        ("an answer in a question", [&with(7, &[1])[..], &[0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4]].concat()),
        ("an additional that is not there", with(11, &[1])),
        ("two of EDNS", [&with(11, &[2])[..], &opt, &opt].concat()),
        ("EDNS with another name", [&with(11, &[1])[..], &[1, b'a'], &opt].concat()),
        ("an option that is too long", [&with(11, &[1])[..], &opt[..9], &[0, 4, 0, 10, 0, 8]].concat()),
        ("a cookie that is too short", [&with(11, &[1])[..], &opt[..9], &[0, 7, 0, 10, 0, 3, 1, 2, 3]].concat()),
        ("a network with too many bits", [&with(11, &[1])[..], &opt[..9], &[0, 8, 0, 8, 0, 4, 0, 1, 33, 0]].concat()),
    ];
    for (what, message) in formerr {
        let answer = ask(&socket, message);
        assert_eq!((code(&answer), &answer[..2]), (1, &message[..2]), "{what}: {answer:?}");
        assert_eq!(answer.len(), 12, "{what}: an answer to nothing is a header");
    }
    for nothing in [&b""[..], b"x", &good[..11], &with(2, &[0x80]), &and(&[0; 3000]), &[0xff; 12]] {
        socket.send(nothing).expect("it is sent");
        let answer = ask(&socket, &question(99, "www.gslb.example.com"));
        assert_eq!((&answer[..2], code(&answer)), (&[0, 99][..], 0), "the next one is answered, and only that");
    }
    let (_, metrics) = get(&setup.admin, "/metrics").expect("an answer");
    let count = |name: &str| {
        let line =
            metrics.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}: {metrics}"));
        line.rsplit(' ').next().and_then(|n| n.parse::<usize>().ok()).expect("a number")
    };
    assert_eq!(count("evenkeel_dns_responses_total{listener=\"dns\",code=\"FORMERR\"}"), formerr.len());
    assert_eq!(count("evenkeel_dns_dropped_total{listener=\"dns\"}"), 6);
    assert_eq!(count("evenkeel_dns_answers_total{pool=\"web\"}"), 6);
}

#[test]
fn pipelined_queries_are_answered_in_order_however_they_are_cut() {
    let setup = DnsSetup::start("pipelined");
    let framed = |id: u16| {
        let message =
            question(id, if id.is_multiple_of(2) { "www.gslb.example.com" } else { "nothing.gslb.example.com" });
        [&(message.len() as u16).to_be_bytes()[..], &message].concat()
    };
    let all: Vec<u8> = (0..200).flat_map(framed).collect();
    for cut in [all.len(), 1, 7, 1000] {
        let mut stream = TcpStream::connect(&setup.listen).expect("it listens");
        stream.set_read_timeout(Some(DEADLINE)).expect("it can wait");
        stream.set_nodelay(true).expect("it is a socket");
        let mut writing = stream.try_clone().expect("a descriptor is free");
        let bytes = all.clone();
        let writer = std::thread::spawn(move || bytes.chunks(cut).all(|part| writing.write_all(part).is_ok()));
        for id in 0..200u16 {
            let mut length = [0; 2];
            stream.read_exact(&mut length).expect("an answer");
            let mut answer = vec![0; u16::from_be_bytes(length).into()];
            stream.read_exact(&mut answer).expect("all of it");
            assert_eq!(answer[..2], id.to_be_bytes(), "in parts of {cut}");
            assert_eq!(code(&answer), if id % 2 == 0 { 0 } else { 3 });
        }
        assert!(writer.join().expect("no panic in there"));
    }
    // What is no query ends its connection, and no other.
    let mut stranger = TcpStream::connect(&setup.listen).expect("it listens");
    stranger.set_read_timeout(Some(DEADLINE)).expect("it can wait");
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").and_then(|()| stranger.write_all(&[0; 18_250])).expect("it is sent");
    let mut said = Vec::new();
    // Whether by its end or by a reset.
    let _ = stranger.read_to_end(&mut said);
    assert!(said.len() <= 14, "at most one refusal: {said:?}");
    assert_eq!(code(&ask(&client(&setup), &question(1, "www.gslb.example.com"))), 0);
}

#[test]
fn twenty_clients_at_once_each_get_their_own_answers() {
    let setup = DnsSetup::start("parallel");
    let seen = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for n in 0..20u16 {
            let (setup, seen) = (&setup, &seen);
            scope.spawn(move || {
                let socket = client(setup);
                for i in 0..200 {
                    let id = n << 8 | i;
                    let answer = ask(&socket, &question(id, "www.gslb.example.com"));
                    assert_eq!((&answer[..2], code(&answer), answer[7]), (&id.to_be_bytes()[..], 0, 2));
                    seen.fetch_add(1, Relaxed);
                }
            });
        }
    });
    assert_eq!(seen.load(Relaxed), 4000);
    assert!(!setup.running.said().contains("panicked"));
}
