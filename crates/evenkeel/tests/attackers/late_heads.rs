//! Clients of HTTP/2 that send heads for streams that evenkeel has reset. Each is decoded and thrown away.

use crate::http2::{DATA, END_HEADERS, END_STREAM, HEADERS, begin, counted, frame};
use crate::scene::{Attack, Scene, stay_unharmed};
use crate::support::eventually;
use std::io::Write;
use std::net::TcpStream;

#[test]
fn heads_for_streams_that_have_ended_harm_no_other_client() {
    let scene = Scene::start("late-heads", 1, "h2c = true", "");
    // A POST of one byte that sends two.
    let head = [&[0x83, 0x86, 0x84, 1, 1, b'a'][..], &[0x0f, 13, 1, b'1']].concat();
    let malformed = [frame(HEADERS, END_HEADERS, 1, &head), frame(DATA, END_STREAM, 1, b"xx")].concat();
    let late = frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0x82; 100]).repeat(100);
    // A connection as long as evenkeel keeps it open, and at most a thousand writes.
    let burst = |goes_on: &dyn Fn() -> bool| {
        let mut client = TcpStream::connect(&scene.listen).expect("it accepts");
        let mut sent = client.write_all(&[begin(), malformed.clone()].concat());
        for _ in 0..1000 {
            if sent.is_err() || !goes_on() {
                break;
            }
            sent = client.write_all(&late);
        }
    };
    let attack = |attack: &Attack| {
        while !attack.is_over() {
            burst(&|| {
                attack.hit();
                !attack.is_over()
            });
        }
    };
    stay_unharmed("heads for streams that have ended", scene.innocents(), 10, attack);
    // A machine with much else to do may not have got more than the allowed rate until now.
    eventually("a flood that is counted", || {
        burst(&|| true);
        (counted(&scene, "evenkeel_http2_floods_total", "kind=\"late_frames\"") > 0).then_some(())
    });
}
