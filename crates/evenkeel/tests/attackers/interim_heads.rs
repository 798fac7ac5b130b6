//! An endpoint of HTTP/2 that sends interim heads without an end, which its table of fields makes large, to clients that do not
//! read.

use crate::http2::{END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, begin, frame, next, request};
use crate::scene::{Attack, Scene, stay_unharmed};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Bytes by which evenkeel may grow. The heads of each client would be 420 MB.
const GROWTH_MAX: u64 = 150 << 20;

/// Requests that an attacking client has at a time.
const STREAMS: u32 = 90;

/// Answers each request with interim heads of 28 kB, 21 bytes each on the wire: those that come first with sixteen, so that what
/// waits for their client is full, and the others with 500.
fn endpoint() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    addr
}

fn answer(mut stream: TcpStream) -> Option<()> {
    let mut preface = [0; PREFACE.len()];
    stream.read_exact(&mut preface).ok()?;
    stream.write_all(&frame(SETTINGS, 0, 0, b"")).ok()?;
    let status = [0x08, 3, b'1', b'0', b'3'];
    // Of 4000 bytes, for the table.
    let mut field = [&[0x40, 1, b'x', 0x7f, 0xa1, 0x1e][..], &[b'x'; 4000]].concat();
    let mut answered = 0;
    while let Some((kind, _, id, _)) = next(&mut stream) {
        if kind != HEADERS {
            continue;
        }
        let first = frame(HEADERS, END_HEADERS, id, &[&status[..], &field].concat());
        let more = frame(HEADERS, END_HEADERS, id, &[&status[..], &[0xbe; 7]].concat());
        let rest = match answered {
            // :status 204.
            0..60 => [more.repeat(15), frame(HEADERS, END_HEADERS | END_STREAM, id, &[0x89])].concat(),
            _ => more.repeat(500),
        };
        stream.write_all(&[first, rest].concat()).ok()?;
        field = vec![0xbe];
        answered += 1;
    }
    None
}

fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("each process has that");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

#[test]
fn interim_heads_that_no_client_takes_harm_no_other_and_hold_little() {
    let pool = format!("endpoints = ['{}']\nprotocol = 'h2'\noutlier = 'off'\nretry = {{ attempts = 0 }}", endpoint());
    let routes = format!(
        "[[route]]\npool = 'web'\n[[route]]\nmatch = {{ path = '/interim/{{*rest}}' }}\npool = 'interim'\n[pool.interim]\n{pool}"
    );
    let scene = Scene::start("interim-heads", 2, "h2c = true", &routes);
    let before = resident(scene.running.pid());
    let attack = |attack: &Attack| {
        let requests = (0..STREAMS).flat_map(|n| request(2 * n + 1, "/interim/x"));
        let all: Vec<u8> = begin().into_iter().chain(requests).collect();
        let mut clients = Vec::new();
        while !attack.is_over() {
            if clients.len() < 4 {
                let mut client = TcpStream::connect(&scene.listen).expect("it accepts");
                if client.write_all(&all).is_ok() {
                    attack.hit();
                }
                clients.push(client);
            }
            std::thread::park_timeout(std::time::Duration::from_millis(100));
        }
    };
    stay_unharmed("interim heads", scene.innocents(), 1, attack);
    let grown = resident(scene.running.pid()).saturating_sub(before);
    eprintln!("interim heads: grown by {} KiB", grown >> 10);
    assert!(grown < GROWTH_MAX, "{} KiB", grown >> 10);
}
