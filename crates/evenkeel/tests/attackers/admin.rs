//! Clients of the admin listener that hold their connections: they send nothing, or do not read what they asked for.

use crate::scene::{Attack, Scene, connect_from, stay_unharmed};
use std::collections::VecDeque;
use std::io::Write;
use std::time::Duration;

#[test]
fn clients_of_the_admin_that_do_not_read_harm_no_health_check() {
    let scene = Scene::start("admin", 1, "", "");
    let unread = "GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(400);
    let requests = [
        "",
        "GET /metrics HTTP/1.1\r\nhost: local",
        &unread,
        "GET /v1/tap HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n",
        "GET /v1/tap?wait_ms=10000 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    ];
    let attack = |attack: &Attack| {
        let mut held = VecDeque::new();
        for request in requests.iter().cycle() {
            if attack.is_over() {
                return;
            }
            let Some(mut client) = connect_from(&format!("127.0.0.{}:0", 2 + held.len() % 3), &scene.admin) else {
                continue;
            };
            client.set_nonblocking(true).expect("a socket");
            // What does not fit stays unsent.
            if client.write(request.as_bytes()).is_ok() {
                attack.hit();
            }
            held.push_back(client);
            // More than there are places.
            if held.len() > 200 {
                held.pop_front();
                std::thread::park_timeout(Duration::from_millis(2));
            }
        }
    };
    let metrics = scene.innocent_of_admin_at("/metrics", "evenkeel_admin_connections");
    stay_unharmed("the admin's connections", vec![scene.innocent_of_admin(), metrics], 1, attack);
}
