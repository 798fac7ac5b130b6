//! Streams of HTTP/2 that each cost a worker more than others of their connection wait for: bodies without end that are
//! compressed, and tokens whose signatures are wrong.

use crate::http2::{END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, counted, frame, next};
use crate::scene::{Attack, Scene, stay_unharmed};
use crate::support::address;
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

const WINDOW_UPDATE: u8 = 8;

/// Largest window (RFC 9113 section 6.9.1).
const WINDOW: u32 = 0x7fff_ffff;

/// Preface, windows that never close, and nothing else.
fn opened(addr: &str) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(addr).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    let window = [&[0, 4][..], &WINDOW.to_be_bytes()].concat();
    let more = (WINDOW - 65_535).to_be_bytes();
    let begin = [PREFACE, &frame(SETTINGS, 0, 0, &window), &frame(WINDOW_UPDATE, 0, 0, &more)].concat();
    stream.write_all(&begin).ok()?;
    Some(stream)
}

/// A GET with one more field, by its number in HPACK's static table.
fn request(stream: u32, path: &str, (field, value): (u8, &str)) -> Vec<u8> {
    // Literals with the names of the table, and a length of up to 7 bits and more.
    let length = match value.len() {
        short @ 0..127 => vec![short as u8],
        long @ 127..255 => vec![127, (long - 127) as u8],
        long => panic!("{long} bytes take another form"),
    };
    let (path, field) = (path.as_bytes(), [0x0f, field - 15]);
    let block = [&[0x82, 0x86, 4, path.len() as u8], path, &[1, 1, b'a'], &field, &length, value.as_bytes()].concat();
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &block)
}

/// An endpoint whose bodies have no end, and are of text that compresses by half or so.
fn pours() -> String {
    let addr = address();
    let listener = TcpListener::bind(&addr).expect("nobody else uses it");
    let mut x = 1u64;
    let digit = |_| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        b"etaoin shrdlucmf"[(x >> 60) as usize]
    };
    let text: Vec<u8> = (0..1 << 20).map(digit).collect();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let text = text.clone();
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n");
                while stream.write_all(&text).is_ok() {}
            });
        }
    });
    addr
}

fn compressed(coding: &'static str) {
    let more = format!(
        "[[route]]\npool = 'web'\n[[route]]\npool = 'pours'\nmatch = {{ prefix = '/pours' }}\ncompress = true\n\
         [pool.pours]\nendpoints = ['{}']\n",
        pours()
    );
    let scene = Scene::start(&format!("compressed-{coding}"), 2, "h2c = true", &more);
    let attack = |attack: &Attack| {
        while !attack.is_over() {
            let Some(mut stream) = opened(&scene.listen) else { continue };
            let requests = (0..100).flat_map(|n| request(2 * n + 1, "/pours", (16, coding)));
            if stream.write_all(&requests.collect::<Vec<u8>>()).is_err() {
                continue;
            }
            let mut room = vec![0; 1 << 20];
            while !attack.is_over() && !matches!(stream.read(&mut room), Ok(0)) {
                attack.hit();
            }
        }
    };
    stay_unharmed(&format!("400 bodies without end, by {coding}"), scene.innocents(), 4, attack);
}

#[test]
fn bodies_without_end_that_are_compressed_with_brotli_harm_no_other_client() {
    compressed("br");
}

#[test]
fn bodies_without_end_that_are_compressed_with_zstd_harm_no_other_client() {
    compressed("zstd");
}

#[test]
fn bodies_without_end_that_are_compressed_with_gzip_harm_no_other_client() {
    compressed("gzip");
}

/// The point that P-384 begins with, so that a signature is verified to its end.
const KEYS: &str = r#"{"keys":[{"kty":"EC","crv":"P-384","kid":"1","x":"qofKIr6LBTeOscce8yCtdG4dO2KLp5uYWfdB4IJUKjhVAvJdv1UpbDpUXjhydgq3","y":"NhfeSpYmLG9dnpi_kpLcKfj0Hb0omhR86doxE7XwuMAKYLHOHX6BnXpDHXyQ6g5f"}]}"#;

/// A token of `{"alg":"ES384","kid":"1"}` and `{"sub":"ann"}`, whose signature is that of nothing.
const TOKEN: &str = "Bearer eyJhbGciOiJFUzM4NCIsImtpZCI6IjEifQ.eyJzdWIiOiJhbm4ifQ.AQcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHAgkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJ";

#[test]
fn tokens_whose_signatures_are_wrong_harm_no_other_client() {
    let folder = crate::support::Folder::new("attackers-tokens-keys");
    let more = format!(
        "[[route]]\npool = 'web'\n[[route]]\npool = 'web'\nmatch = {{ prefix = '/tokens' }}\n\
         jwt = {{ keys = '{}', require_exp = false }}",
        folder.file("keys.json", KEYS)
    );
    let scene = Scene::start("wrong-signatures", 2, "h2c = true", &more);
    let attack = |attack: &Attack| {
        while !attack.is_over() {
            let Some(mut stream) = opened(&scene.listen) else { continue };
            let mut answers = BufReader::new(stream.try_clone().expect("a descriptor"));
            let mut streams = (1..).step_by(2);
            let mut ask = |many| {
                let all: Vec<u8> =
                    streams.by_ref().take(many).flat_map(|id| request(id, "/tokens", (23, TOKEN))).collect();
                stream.write_all(&all).is_ok()
            };
            let mut goes_on = ask(100);
            while goes_on && !attack.is_over() {
                match next(&mut answers) {
                    // A stream has ended, and another one begins.
                    Some((_, flags, 1.., _)) if flags & END_STREAM != 0 => {
                        attack.hit();
                        goes_on = ask(1);
                    }
                    Some(_) => {}
                    None => break,
                }
            }
        }
    };
    stay_unharmed("1,000 tokens whose signatures are wrong", scene.innocents(), 10, attack);
    assert!(counted(&scene, "evenkeel_http_jwt_refused_requests_total", "reason=\"signature\"") > 0);
}
