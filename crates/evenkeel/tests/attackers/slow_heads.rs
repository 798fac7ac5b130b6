//! Clients that send a byte of a head now and then.

use crate::scene::{Attack, Scene, stay_unharmed};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn heads_that_come_byte_by_byte_harm_no_other_client() {
    let scene = Scene::start("slow-heads", 1, "", "");
    let attack = |attack: &Attack| {
        let mut clients: Vec<TcpStream> =
            (0..200).map(|_| TcpStream::connect(&scene.listen).expect("it accepts")).collect();
        for byte in "GET / HTTP/1.1\r\nhost: a\r\nx-filler: ".bytes().chain(std::iter::repeat(b'x')) {
            if attack.is_over() {
                return;
            }
            for client in &mut clients {
                if client.write_all(&[byte]).is_ok() {
                    attack.hit();
                }
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
    };
    stay_unharmed("heads that come byte by byte", scene.innocents(), 1, attack);
}
