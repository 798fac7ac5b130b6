//! Clients of HTTP/2 that take their requests back: on purpose, as fast as they can (CVE-2023-44487), and as the users of a proxy
//! do, on the connection that others use too.

use crate::http2::{CANCEL, RST_STREAM, Shared, begin, counted, frame, request};
use crate::scene::{Attack, Innocent, Scene, stay_unharmed};
use crate::support::eventually;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A scene with a second endpoint below `/silent/`, which never answers.
fn scene(name: &str) -> Scene {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = silent.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for mut stream in silent.incoming().flatten() {
            // Until evenkeel closes.
            std::thread::spawn(move || while matches!(stream.read(&mut [0; 1024]), Ok(1..)) {});
        }
    });
    let routes = format!(
        "[[route]]\npool = 'web'\n[[route]]\nmatch = {{ path = '/silent/{{*rest}}' }}\npool = 'silent'\n\
         [pool.silent]\nendpoints = ['{addr}']\noutlier = 'off'"
    );
    Scene::start(name, 2, "h2c = true", &routes)
}

#[test]
fn rapid_resets_harm_no_other_client() {
    let scene = scene("rapid-resets");
    // A connection as long as evenkeel keeps it open, and at most a thousand writes.
    let burst = |goes_on: &dyn Fn() -> bool| {
        let mut client = TcpStream::connect(&scene.listen).expect("it accepts");
        let mut sent = client.write_all(&begin());
        let mut streams = (1..).step_by(2);
        for _ in 0..1000 {
            if sent.is_err() || !goes_on() {
                break;
            }
            let both = |id| [request(id, "/silent/x"), frame(RST_STREAM, 0, id, &CANCEL)].concat();
            let some: Vec<u8> = streams.by_ref().take(100).flat_map(both).collect();
            sent = client.write_all(&some);
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
    stay_unharmed("rapid resets", scene.innocents(), 4, attack);
    // A machine with much else to do may not have got more than the allowed rate until now.
    eventually("a flood that is counted", || {
        burst(&|| true);
        (counted(&scene, "evenkeel_http2_floods_total", "kind=\"resets\"") > 0).then_some(())
    });
}

/// 400 cancels a second: more than the innocent clients' requests, which succeed as if there were none.
#[test]
fn cancels_of_users_harm_no_other_request_of_their_connection() {
    let scene = scene("cancels");
    let shared = Arc::new(Shared::connect(&scene.listen));
    let innocents = (0..4).map(|_| {
        let shared = shared.clone();
        Innocent::new("a shared connection", move || shared.get("/innocent"))
    });
    let attack = |attack: &Attack| {
        let (began, mut cancelled, mut begun) = (Instant::now(), 0, VecDeque::new());
        while !attack.is_over() {
            // What the processor was taken for is made up for.
            while cancelled < began.elapsed().as_millis() * 400 / 1000 {
                begun.push_back(shared.ask("/silent/x").0);
                // Each is under way for a moment.
                if begun.len() > 8 {
                    begun.pop_front().iter().for_each(|id| shared.cancel(*id));
                    attack.hit();
                }
                cancelled += 1;
            }
            std::thread::park_timeout(Duration::from_millis(2));
        }
    };
    let felt = stay_unharmed("400 cancels a second", innocents.collect(), 1, attack);
    assert!(felt.requests >= 20, "{felt:?}");
    assert_eq!(counted(&scene, "evenkeel_http2_floods_total", ""), 0);
    assert!(counted(&scene, "evenkeel_http2_resets_received_total", "code=\"cancel\"") > 400);
}
