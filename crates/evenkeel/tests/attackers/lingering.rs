//! Clients that were refused and send on, as if they had not read it.

use crate::scene::{Attack, Scene, stay_unharmed};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn clients_that_send_on_behind_their_last_response_harm_no_other() {
    let scene = Scene::start("lingering", 1, "", "");
    let attack = |attack: &Attack| {
        let refused = |request: &str| {
            let mut client = TcpStream::connect(&scene.listen).expect("it accepts");
            client.write_all(request.as_bytes()).expect("it takes a head");
            client.set_read_timeout(Some(Duration::from_secs(20))).expect("sockets have timeouts");
            let read = client.read(&mut [0; 1024]).expect("a response");
            assert!(read > 0, "a response, not the end");
            client
        };
        let block = vec![b'x'; 256 * 1024];
        while !attack.is_over() {
            // A head without a host is refused here, and what comes behind it is of no use to anyone.
            let mut clients: Vec<TcpStream> = (0..8).map(|_| refused("POST / HTTP/1.1\r\n\r\n")).collect();
            for client in &clients {
                client.set_write_timeout(Some(Duration::from_millis(200))).expect("sockets have timeouts");
            }
            for _ in 0..200 {
                for client in &mut clients {
                    if !attack.is_over() && client.write(&block).is_ok() {
                        attack.hit();
                    }
                }
            }
        }
    };
    stay_unharmed("bytes behind a last response", scene.innocents(), 4, attack);
}
