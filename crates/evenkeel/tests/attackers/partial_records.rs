//! Clients that send the front of a record, and no more of it.

use crate::scene::{Attack, Scene, stay_unharmed};
use crate::support::eventually;
use crate::tls_client::{TlsConnection, client, innocents};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// The header of a record of 16 KiB, and one byte of it.
const FRONT: [u8; 6] = [23, 3, 3, 64, 0, 1];

const CONNECTIONS: u64 = 400;

/// Memory that such a connection may hold beyond that of an idle one: a small part of the buffer of 34 KiB that each held before.
const HELD_MAX: u64 = 12 * 1024;

fn resident(scene: &Scene) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{}/statm", scene.running.pid())).expect("it runs");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}

#[test]
fn fronts_of_records_hold_little_memory_and_harm_no_other_client() {
    let scene = Scene::start("partial-records", 1, "tls = { self_signed = true }", "");
    let grown = AtomicU64::new(u64::MAX);
    let attack = |attack: &Attack| {
        let config = client(None);
        let open = |_| {
            let mut connection = TlsConnection::open(&scene.listen, &config).expect("it accepts");
            connection.get("/", "innocent").expect("an answer");
            connection
        };
        let mut connections: Vec<TlsConnection> = (0..CONNECTIONS).map(open).collect();
        let before = resident(&scene);
        for connection in &mut connections {
            connection.0.sock.write_all(&FRONT).expect("they are taken");
        }
        // Another connection is answered behind all of that.
        open(0);
        attack.hit();
        while !attack.is_over() {
            std::thread::park_timeout(Duration::from_millis(20));
        }
        grown.store(resident(&scene).saturating_sub(before), SeqCst);
    };
    stay_unharmed("fronts of records", innocents(&scene.listen, None, "innocent"), 1, attack);
    let each = eventually("a figure", || Some(grown.load(SeqCst)).filter(|grown| *grown != u64::MAX)) / CONNECTIONS;
    assert!(each < HELD_MAX, "{each} bytes for each connection");
}
