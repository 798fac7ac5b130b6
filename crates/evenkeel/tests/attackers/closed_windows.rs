//! Clients of HTTP/2 that ask for compressed responses on many streams, and take nothing or little of them. What waits for them is
//! bounded for the whole process, and other clients are served.

use crate::http2::{END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, frame, next};
use crate::scene::{Attack, Scene, stay_unharmed};
use crate::support::{address, eventually, get};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Streams of a connection, as many as may be open by default.
const STREAMS: u32 = 100;

/// Memory for compression under attack.
const LIMIT: u64 = 4 << 20;

/// Bytes that compressors may leave when they are given up, which are counted, but are there already.
const LEFT: u64 = 4 << 20;

/// A server of pages of text that are longer than any window of these clients.
fn pages() -> String {
    let addr = address();
    let listener = TcpListener::bind(&addr).expect("nobody else uses it");
    let page: String = (0..40_000).map(|n| format!("<p>line {}</p>\n", n * 7919 % 10_007)).collect();
    let response =
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n{page}", page.len());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let response = response.clone();
            let serve = move || {
                // A head comes in one piece.
                while stream.read(&mut [0; 4096]).is_ok_and(|n| n > 0) && stream.write_all(response.as_bytes()).is_ok()
                {
                }
            };
            let _ = std::thread::Builder::new().stack_size(64 << 10).spawn(serve);
        }
    });
    addr
}

fn scene(name: &str) -> Scene {
    let more = format!(
        "[[route]]\nmatch = {{ host = ['innocent'] }}\npool = 'web'\n\
         [[route]]\nmatch = {{ host = ['a'] }}\npool = 'pages'\n\
         compress = {{ algorithms = ['zstd', 'br', 'gzip'] }}\n[pool.pages]\nendpoints = ['{}']\n",
        pages()
    );
    let runtime = format!("compression_memory = \"{LIMIT}B\"");
    Scene::start_with(&runtime, name, 1, "h2c = true", &more)
}

/// Asks for a page on each stream of a connection whose streams have this window, and reads until all have their heads.
fn ask(addr: &str, window: u32, coding: &str) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(addr).ok()?;
    stream.set_read_timeout(Some(crate::support::DEADLINE)).ok()?;
    // SETTINGS_INITIAL_WINDOW_SIZE.
    let settings = [&[0, 4], &window.to_be_bytes()[..]].concat();
    let mut all = [PREFACE, &frame(SETTINGS, 0, 0, &settings)].concat();
    for id in (0..STREAMS).map(|n| 2 * n + 1) {
        // As `http2::request`, with `accept-encoding` by its name in the static table.
        let front = [&[0x82, 0x86, 4, 1, b'/', 1, 1, b'a', 0x0f, 1, coding.len() as u8], coding.as_bytes()].concat();
        all.extend(frame(HEADERS, END_HEADERS | END_STREAM, id, &front));
    }
    stream.write_all(&all).ok()?;
    let mut heads = 0;
    while heads < STREAMS {
        let (kind, ..) = next(&mut stream)?;
        heads += u32::from(kind == HEADERS);
    }
    Some(stream)
}

/// A value of the admin at this address.
fn counted(admin: &str, series: &str) -> u64 {
    let (status, metrics) = get(admin, "/metrics").expect("the admin listener answers");
    assert_eq!(status, 200, "{metrics}");
    let values = metrics.lines().filter_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse::<u64>().ok());
    values.sum()
}

fn memory(admin: &str) -> u64 {
    counted(admin, "evenkeel_http_compression_memory_bytes")
}

fn lacked(admin: &str, outcome: &str) -> u64 {
    counted(admin, &format!("evenkeel_http_compression_memory_lacks_total{{outcome=\"{outcome}\"}}"))
}

/// Holds what the attack has opened, and looks at the memory meanwhile.
fn hold(attack: &Attack, admin: &str, most: u64) {
    while !attack.is_over() {
        let bytes = memory(admin);
        assert!(bytes <= most, "compressors take {bytes} bytes");
        std::thread::park_timeout(Duration::from_millis(100));
    }
}

#[test]
fn streams_without_a_window_get_no_compressor_and_harm_no_other_client() {
    let scene = scene("no-windows");
    let attack = |attack: &Attack| {
        let codings = ["zstd", "br", "gzip"].into_iter().cycle();
        let open: Vec<_> =
            codings.take(5).map(|coding| ask(&scene.listen, 0, coding).expect("all have heads")).collect();
        attack.hit();
        hold(attack, &scene.admin, 0);
        drop(open);
    };
    stay_unharmed("streams without a window", scene.innocents(), 2, attack);
    assert_eq!(lacked(&scene.admin, "identity"), 0);
}

#[test]
fn streams_with_small_windows_hold_no_more_than_the_memory_for_compression() {
    let scene = scene("small-windows");
    let attack = |attack: &Attack| {
        let codings = ["zstd", "br", "gzip"].into_iter().cycle();
        let open: Vec<_> =
            codings.take(3).map(|coding| ask(&scene.listen, 500, coding).expect("all have heads")).collect();
        eventually("compressors are made", || {
            (memory(&scene.admin) > LIMIT / 2 || lacked(&scene.admin, "given_up") > 0).then_some(())
        });
        eventually("some are given up", || (lacked(&scene.admin, "given_up") > 0).then_some(()));
        eventually("most of the memory is free again", || (memory(&scene.admin) <= LIMIT / 2 + LEFT).then_some(()));
        attack.hit();
        hold(attack, &scene.admin, LIMIT + LEFT);
        drop(open);
    };
    stay_unharmed("streams with small windows", scene.innocents(), 2, attack);
    let found = ["small_window", "identity", "stored"].map(|outcome| lacked(&scene.admin, outcome));
    assert!(found.iter().sum::<u64>() > 0, "{found:?}");
    eventually("all is given back", || (memory(&scene.admin) == 0).then_some(()));
}
