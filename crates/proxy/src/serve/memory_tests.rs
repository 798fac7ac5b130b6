//! Does a request in messages get to an HTTP/1 endpoint and back, with all that may go wrong?

use super::*;
use crate::support::endpoint::ok;
use crate::support::{Endpoint, Proxy, SOON};
use evenkeel_net::event_loop::yield_now;
use std::future::Future;
use std::sync::mpsc;

/// Runs `scenario` on the worker of a proxy before these endpoints. `name` is that of its listener, and no other test's.
fn run(
    name: &'static str,
    endpoints: &[&Endpoint],
    more: &str,
    scenario: impl for<'c> Fn(&'c Client<'c>) -> Pin<Box<dyn Future<Output = ()> + 'c>> + Send + Sync + 'static,
) -> Proxy {
    let (done, ended) = mpsc::sync_channel(1);
    let scenario = Arc::new(scenario);
    set_scenario(
        name,
        Arc::new(move |client| {
            let (done, scenario) = (done.clone(), scenario.clone());
            Box::pin(async move {
                scenario(client).await;
                done.send(()).expect("the test waits for it");
            })
        }),
    );
    let list: Vec<String> = endpoints.iter().map(|endpoint| format!("\"{}\"", endpoint.addr)).collect();
    let proxy = Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[listener.{name}]\nbind = [\"$BIND\"]\n[pool.web]\nbalance = \"round_robin\"\n\
         endpoints = [{}]\n{more}",
        list.join(", ")
    ));
    let connection = std::net::TcpStream::connect(proxy.addr()).expect("it listens");
    // Only what a client has sent is accepted.
    std::io::Write::write_all(&mut &connection, b"x").expect("it takes a byte");
    ended.recv_timeout(SOON).expect("the scenario ends, and without a panic");
    // None for a later connection: what it holds ends with this test.
    SCENARIOS.lock().expect("nothing panics with it").as_mut().and_then(|all| all.remove(name));
    proxy
}

#[test]
fn a_request_without_a_body_is_translated_and_answered() {
    let endpoint = Endpoint::answering(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\n\r\nhello".to_vec());
    let proxy = run("plain", &[&endpoint], "", |client| {
        Box::pin(async move {
            let fields = [("x-b", "2"), ("connection", "close"), ("te", "trailers"), ("host", "other")];
            for _ in 0..2 {
                let down = Memory::new(client, 9);
                down.serve(client, "GET /a?b HTTP/9", &[], Stated::Nothing, true).await;
                assert_eq!(down.statuses(), [400], "a target has no space");
                let down = Memory::new(client, 9);
                down.serve(client, "GET /a?b", &fields, Stated::Nothing, true).await;
                assert_eq!((down.statuses(), down.body()), (vec![200], "hello".to_string()));
                assert_eq!((down.field("x-a").as_deref(), down.end()), (Some("1"), (true, false)));
            }
        })
    });
    let seen = endpoint.seen();
    assert_eq!((seen.len(), endpoint.accepted()), (2, 1), "the connection carries both");
    assert_eq!(seen[0].line(), "GET /a?b HTTP/1.1");
    assert_eq!([seen[0].field("host"), seen[0].field("x-b")], [Some("example.com"), Some("2")]);
    assert_eq!([seen[0].field("x-forwarded-for"), seen[0].field("te")], [Some("127.0.0.1"), None]);
    assert_eq!([seen[0].field("connection"), seen[0].field("transfer-encoding")], [None, None]);
    assert_eq!(proxy.ended(200), 2);
}

#[test]
fn bodies_and_trailers_pass_both_ways() {
    let endpoint = Endpoint::answering(|request| {
        let body = request.body_text();
        let head =
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        format!("{head}{:x}\r\n{body}\r\n0\r\nX-Sum: 7\r\n\r\n", body.len()).into_bytes()
    });
    run("trailers", &[&endpoint], "", |client| {
        Box::pin(async move {
            let down = Memory::new(client, 9);
            down.push_data(b"one ");
            down.push_data(b"two");
            let trailers: Table = [(&b"x-check"[..], &b"3"[..]), (b"content-length", b"9")].into_iter().collect();
            down.push(Part::Trailers(trailers));
            down.serve(client, "POST /", &[], Stated::Nothing, false).await;
            assert_eq!((down.statuses(), down.body()), (vec![103, 200], "one two".to_string()));
            assert_eq!((down.trailer("x-sum").as_deref(), down.end()), (Some("7"), (true, false)));
            assert_eq!(down.field("transfer-encoding"), None);
            // With a length, it goes on as one.
            let down = Memory::new(client, 9);
            down.push_data(b"three");
            down.push(Part::End);
            down.serve(client, "PUT /", &[], Stated::Length(5), false).await;
            assert_eq!(down.body(), "three");
        })
    });
    let seen = endpoint.seen();
    let wire = String::from_utf8_lossy(&seen[0].wire).into_owned();
    assert!(wire.ends_with("0\r\nx-check: 3\r\n\r\n"), "{wire:?}");
    assert_eq!((seen[1].field("content-length"), seen[1].body_text().as_str()), (Some("5"), "three"));
}

#[test]
fn a_body_that_is_not_as_long_as_it_says_is_refused() {
    let endpoint = Endpoint::start(|conn| {
        conn.next_head();
        conn.rest();
    });
    run("lengths", &[&endpoint], "", |client| {
        Box::pin(async move {
            let down = Memory::new(client, 9);
            down.serve(client, "POST /", &[], Stated::Length(5), true).await;
            assert_eq!((down.statuses(), down.end()), (vec![400], (true, false)), "none comes of what it says");
            for sent in [&b"12"[..], b"1234567"] {
                let down = Memory::new(client, 9);
                down.push_data(sent);
                down.push(Part::End);
                down.serve(client, "POST /", &[], Stated::Length(5), false).await;
                assert_eq!((down.statuses(), down.end()), (vec![400], (true, false)));
            }
        })
    });
}

#[test]
fn a_client_that_takes_no_more_stops_the_endpoint_and_one_that_goes_on_gets_all() {
    const SIZE: usize = 4 << 20;
    let endpoint = Endpoint::answering(|_| ok(&"x".repeat(SIZE)));
    run("down_pressure", &[&endpoint], "", |client| {
        Box::pin(async move {
            let down = Memory::new(client, 1);
            let mut served = std::pin::pin!(down.serve(client, "GET /", &[], Stated::Nothing, true));
            let mut client_side = std::pin::pin!(async {
                // Each part is asked for: sending one without room panics.
                while down.end() == (false, false) {
                    let before = down.body().len();
                    down.has_sent(before + 1).await;
                    down.give_room(1);
                }
            });
            poll_fn(|cx| {
                let _ = client_side.as_mut().poll(cx);
                served.as_mut().poll(cx)
            })
            .await;
            assert_eq!((down.body().len(), down.end()), (SIZE, (true, false)));
        })
    });
}

#[test]
fn an_endpoint_that_does_not_read_stops_the_client() {
    const PARTS: usize = 4096;
    let (go_on, told) = mpsc::sync_channel::<()>(1);
    let told = Mutex::new(told);
    let endpoint = Endpoint::start(move |conn| {
        if conn.next_head().is_some() {
            let _ = told.lock().expect("nothing panics with it").recv_timeout(SOON);
            conn.bytes(PARTS * 16 * 1024);
            conn.send(ok("done"));
        }
    });
    run("up_pressure", &[&endpoint], "", move |client| {
        let go_on = go_on.clone();
        Box::pin(async move {
            let down = Memory::new(client, 9);
            (0..PARTS).for_each(|_| down.push_data(&[b'x'; 16 * 1024]));
            let length = Stated::Length((PARTS * 16 * 1024) as u64);
            let mut served = std::pin::pin!(down.serve(client, "POST /", &[], length, false));
            let mut client_side = std::pin::pin!(async {
                // 64 MiB are more than sockets hold. As many turns as parts would take all, if nothing stopped them.
                for _ in 0..2 * PARTS {
                    yield_now().await;
                }
                assert!(down.taken() < PARTS, "the endpoint has read nothing");
                go_on.send(()).expect("the endpoint waits for it");
                down.has_sent(4).await;
            });
            let mut done = false;
            poll_fn(|cx| {
                done = done || client_side.as_mut().poll(cx).is_ready();
                served.as_mut().poll(cx)
            })
            .await;
            assert_eq!((down.body().as_str(), down.taken()), ("done", PARTS));
        })
    });
}

#[test]
fn a_response_before_the_end_of_its_request_is_passed_on_and_its_connection_not_used_again() {
    let endpoint = Endpoint::start(|conn| {
        if conn.next_head().is_some() {
            conn.send(ok("early"));
            conn.rest();
        }
    });
    run("early", &[&endpoint], "", |client| {
        Box::pin(async move {
            for _ in 0..2 {
                let down = Memory::new(client, 9);
                down.push_data(b"some");
                down.serve(client, "POST /", &[], Stated::Length(1 << 30), false).await;
                assert_eq!((down.body().as_str(), down.end()), ("early", (true, false)));
            }
        })
    });
    assert_eq!(endpoint.accepted(), 2);
}

#[test]
fn a_reset_of_either_side_ends_the_other() {
    let cut = Endpoint::start(|conn| {
        if conn.request().is_some() {
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart");
            // Not before the proxy has all of it.
            conn.finish_sending();
        }
    });
    let proxy = run("cut", &[&cut], "", |client| {
        Box::pin(async move {
            let down = Memory::new(client, 9);
            down.serve(client, "GET /", &[], Stated::Nothing, true).await;
            assert_eq!((down.body().as_str(), down.end()), ("part", (false, true)));
        })
    });
    assert_eq!(proxy.endpoint(0, |e| e.errors.iter().map(|c| c.get()).sum()), 1);
    drop(proxy);
    let silent = Endpoint::silent();
    let proxy = run("vanishes", &[&silent], "", |client| {
        Box::pin(async move {
            let down = Memory::new(client, 9);
            let mut served = std::pin::pin!(down.serve(client, "GET /", &[], Stated::Nothing, true));
            let mut turns = std::pin::pin!(async {
                for _ in 0..100 {
                    yield_now().await;
                }
                down.vanish();
            });
            let mut gone = false;
            poll_fn(|cx| {
                gone = gone || turns.as_mut().poll(cx).is_ready();
                served.as_mut().poll(cx)
            })
            .await;
            assert_eq!(down.statuses(), [0u16; 0]);
        })
    });
    assert_eq!(proxy.in_flight(), 0, "the endpoint is asked no more");
}

#[test]
fn a_request_is_tried_again_and_hedged() {
    let (resets, well) = (Endpoint::resetting(), Endpoint::saying("well"));
    let proxy = run("retried", &[&resets, &well], "[defaults.retry]\nattempts = 2\n", |client| {
        Box::pin(async move {
            for _ in 0..2 {
                let down = Memory::new(client, 9);
                down.serve(client, "GET /", &[], Stated::Nothing, true).await;
                assert_eq!((down.statuses(), down.body()), (vec![200], "well".to_string()));
            }
        })
    });
    assert!(proxy.pool(|pool| pool.retries.get()) >= 1, "at least the first met the endpoint that resets");
    drop(proxy);
    // As many fast answers as make a percentile, and then one endpoint that says nothing to the first copy of a request.
    let silent = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let endpoint = || {
        let silent = silent.clone();
        Endpoint::start(move |conn| {
            while let Some(request) = conn.request() {
                if request.line().contains("/slow") && !silent.swap(true, std::sync::atomic::Ordering::SeqCst) {
                    conn.rest();
                    return;
                }
                conn.send(ok("fast"));
            }
        })
    };
    let endpoints = [endpoint(), endpoint()];
    let hedging = "outlier = 'off'\nretry = { attempts = 0, hedge_after = 'p95', hedge_budget = 1 }";
    let proxy = run("hedged", &[&endpoints[0], &endpoints[1]], hedging, |client| {
        Box::pin(async move {
            for target in ["GET /"; 200].into_iter().chain(["GET /slow"]) {
                let down = Memory::new(client, 9);
                down.serve(client, target, &[], Stated::Nothing, true).await;
                assert_eq!((down.statuses(), down.body()), (vec![200], "fast".to_string()));
            }
        })
    });
    assert!(proxy.pool(|pool| pool.hedges_won.get()) >= 1, "the second copy was answered first");
}

#[test]
fn two_requests_of_one_client_have_a_deadline_each() {
    let (answer, told) = mpsc::sync_channel::<()>(1);
    let told = Mutex::new(told);
    let endpoint = Endpoint::start(move |conn| {
        let Some(request) = conn.request() else { return };
        if request.line().contains("/slow") {
            let _ = told.lock().expect("nothing panics with it").recv_timeout(SOON);
            conn.send(ok("late, and in time"));
        }
        conn.rest();
    });
    let routes = "[[route]]\nname = 'short'\nmatch = { path = '/short' }\npool = 'web'\n\
                  timeouts = { request = '50ms', response = '50ms', connect = '50ms' }\n\
                  [[route]]\nname = 'long'\nmatch = { path = '/slow' }\npool = 'web'\n";
    run("deadlines", &[&endpoint], routes, move |client| {
        let answer = answer.clone();
        Box::pin(async move {
            let (short, long) = (Memory::new(client, 9), Memory::new(client, 9));
            let mut long_served = std::pin::pin!(long.serve(client, "GET /slow", &[], Stated::Nothing, true));
            let mut short_served = std::pin::pin!(async {
                short.serve(client, "GET /short", &[], Stated::Nothing, true).await;
                assert_eq!(short.statuses(), [504]);
                assert_eq!(long.statuses(), [0u16; 0], "its time is not over");
                answer.send(()).expect("the endpoint waits for it");
            });
            let mut short_done = false;
            poll_fn(|cx| {
                short_done = short_done || short_served.as_mut().poll(cx).is_ready();
                long_served.as_mut().poll(cx)
            })
            .await;
            assert_eq!((long.statuses(), long.body()), (vec![200], "late, and in time".to_string()));
        })
    });
}

const CALL: [(&str, &str); 2] = [("content-type", "application/grpc+proto"), ("te", "trailers")];

/// A call that ends with a message.
fn called(status: u8) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n";
    format!("{head}1\r\nm\r\n0\r\ngrpc-status: {status}\r\n\r\n").into_bytes()
}

/// A call that ends without one.
fn refused(status: u8) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\n";
    format!("{head}grpc-status: {status}\r\n\r\n").into_bytes()
}

#[test]
fn an_error_of_a_grpc_call_is_a_status_of_grpc() {
    let closes = Endpoint::resetting();
    let proxy = run("grpc_errors", &[&closes], "", |client| {
        Box::pin(async move {
            for (more, expected) in [(("x-a", "b"), "14"), (("max-forwards", "-"), "14")] {
                let down = Memory::new(client, 9);
                down.serve(client, "POST /s/M", &[CALL[0], more], Stated::Nothing, true).await;
                assert_eq!((down.statuses(), down.end()), (vec![200], (true, false)));
                assert_eq!(down.field("content-type").as_deref(), Some("application/grpc"));
                assert_eq!(down.field("grpc-status").as_deref(), Some(expected));
                assert_eq!(down.field("grpc-message").as_deref(), Some("502 Bad Gateway"));
            }
            let down = Memory::new(client, 9);
            down.serve(client, "POST /s/M", &[("content-type", "application/grpc-web")], Stated::Nothing, true).await;
            assert_eq!(down.statuses(), [502]);
        })
    });
    assert_eq!(proxy.pool(|pool| pool.grpc[14].get()), 2);
}

#[test]
fn how_a_grpc_call_ended_is_counted() {
    let endpoint = Endpoint::answering(|request| match request.line().contains("ok") {
        true => called(0),
        false => called(13),
    });
    let proxy = run("grpc_ends", &[&endpoint], "", |client| {
        Box::pin(async move {
            for (line, status) in [("POST /ok", "0"), ("POST /bad", "13")] {
                let down = Memory::new(client, 9);
                down.serve(client, line, &CALL, Stated::Nothing, true).await;
                assert_eq!((down.body().as_str(), down.trailer("grpc-status").as_deref()), ("m", Some(status)));
            }
        })
    });
    let ended = |code: usize| proxy.pool(|pool| pool.grpc[code].get());
    assert_eq!([0, 13, 14].map(ended), [1, 1, 0]);
}

#[test]
fn a_grpc_call_that_ends_without_a_message_is_tried_again_where_that_is_asked_for() {
    let (busy, well) = (Endpoint::answering(|_| refused(14)), Endpoint::answering(|_| called(0)));
    for (name, on, expected) in
        [("grpc_again", "\"grpc:unavailable\"", [2, 0]), ("grpc_once", "\"grpc:internal\", \"503\"", [1, 1])]
    {
        let config = format!("[defaults.retry]\nattempts = 1\non = [{on}]\n");
        let proxy = run(name, &[&busy, &well], &config, |client| {
            Box::pin(async move {
                // One for each endpoint.
                for _ in 0..2 {
                    let down = Memory::new(client, 9);
                    down.serve(client, "POST /s/M", &CALL, Stated::Nothing, true).await;
                    assert_eq!((down.statuses(), down.end()), (vec![200], (true, false)));
                }
            })
        });
        assert_eq!([0, 14].map(|code| proxy.pool(|pool| pool.grpc[code].get())), expected, "{name}");
    }
}

#[test]
fn a_grpc_call_ends_at_the_deadline_of_its_client() {
    let silent = Endpoint::silent();
    run("grpc_deadline", &[&silent], "", |client| {
        Box::pin(async move {
            let down = Memory::new(client, 9);
            down.serve(client, "POST /s/M", &[CALL[0], ("grpc-timeout", "1m")], Stated::Nothing, true).await;
            assert_eq!((down.statuses(), down.field("grpc-status").as_deref()), (vec![200], Some("4")));
        })
    });
}
