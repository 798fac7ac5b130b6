//! Clients that begin a handshake and stall: as many as there are places, and more.

use crate::scene::{Attack, Scene, stay_unharmed};
use crate::tls_client::{from, hello, innocents};
use std::collections::VecDeque;
use std::io::Write;
use std::time::Duration;

/// Handshakes that may be under way. The default is 2,000, for which a test process has too few descriptors.
const MOST: usize = 50;

/// Keeps so many connections from `ip` that have sent `bytes`, the newest for the oldest.
fn stall(attack: &Attack, scene: &Scene, ip: [u8; 4], connections: usize, bytes: &[u8]) {
    let mut open = VecDeque::new();
    while !attack.is_over() {
        for _ in 0..connections / 4 {
            let mut stream = from(ip, &scene.listen);
            if stream.write_all(bytes).is_ok() && open.len() + 1 >= connections {
                attack.hit();
            }
            open.push_back(stream);
        }
        open.drain(..open.len().saturating_sub(connections));
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

fn scene(name: &str) -> Scene {
    Scene::start(name, 1, &format!("tls = {{ self_signed = true, handshakes = {MOST} }}"), "")
}

#[test]
fn clients_that_send_one_byte_of_a_handshake_harm_no_other_client() {
    let scene = scene("one-byte");
    // At the address of the innocent clients.
    let attack = |attack: &Attack| stall(attack, &scene, [127, 0, 0, 1], 3 * MOST, &[22]);
    stay_unharmed("one byte of a handshake", innocents(&scene.listen, None, "innocent"), 1, attack);
}

#[test]
fn clients_that_fill_the_waiting_places_harm_no_other_client() {
    let scene = scene("waiting-places");
    let attack = |attack: &Attack| stall(attack, &scene, [127, 0, 0, 2], 6 * MOST, &[22, 3, 1, 2, 0, 1]);
    stay_unharmed("all waiting places", innocents(&scene.listen, None, "innocent"), 1, attack);
}

#[test]
fn clients_that_stall_behind_a_whole_hello_harm_no_other_client() {
    let (scene, hello) = (scene("whole-hello"), hello());
    let attack = |attack: &Attack| stall(attack, &scene, [127, 0, 0, 2], 2 * MOST, &hello);
    stay_unharmed("a whole ClientHello and no more", innocents(&scene.listen, None, "innocent"), 1, attack);
}
