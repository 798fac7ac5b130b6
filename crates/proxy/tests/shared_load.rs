//! Load reports of endpoints: balancers receive them in every form, and clients never see them.

use crate::support::endpoint::ok;
use crate::support::{Client, Endpoint, Proxy, wait_until};
use evenkeel_proxy::stats::{ANSWERS_DROPPED, CAME, Dropped, GIVEN, PROBES, PoolStats};
use std::collections::{HashMap, HashSet};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;

/// Index of a label among the counters.
#[track_caller]
fn at(labels: &[&str], label: &str) -> usize {
    labels.iter().position(|l| *l == label).expect("a label that there is")
}

fn came(pool: &PoolStats, form: &str) -> u64 {
    pool.reports[at(&CAME, form)].get()
}

fn dropped(pool: &PoolStats) -> u64 {
    pool.reports_dropped.iter().map(|n| n.get()).sum()
}

fn probes(pool: &PoolStats, result: &str) -> u64 {
    pool.probes[at(&PROBES, result)].get()
}

/// Answers by datagram that all workers dropped for this reason.
fn answers_dropped(proxy: &Proxy, reason: &str) -> u64 {
    proxy.server().stats().iter().map(|w| w.probing.answers_dropped[at(&ANSWERS_DROPPED, reason)].get()).sum()
}

/// A 200 with these fields.
fn with_fields(fields: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{fields}\r\nok").into_bytes()
}

/// Configuration of a pool that probes its endpoints.
fn asking(endpoints: &[SocketAddr], reports: &str) -> String {
    let list: Vec<_> = endpoints.iter().map(|addr| format!("\"{addr}\"")).collect();
    format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\n\
         [pool.web]\nbalance = \"prequal\"\nload_reports = {reports}\nendpoints = [{}]\n",
        list.join(", ")
    )
}

/// An evenkeel in front of an application, which reports its load.
fn sidecar(application: SocketAddr) -> Proxy {
    Proxy::with(&[application], "report_load = true", "", "")
}

#[test]
fn a_report_in_a_header_is_counted_and_kept_from_the_client() {
    for (form, field) in [
        ("bin", "Endpoint-Load-Metrics-Bin: CQAAAAAAAOA/MQAAAAAAAFlAOQAAAAAAAABAQg4KA3JpZhEAAAAAAAAQQA"),
        ("bin", "endpoint-load-metrics: BIN CQAAAAAAAOA/MQAAAAAAAFlAOQAAAAAAAABAQg4KA3JpZhEAAAAAAAAQQA=="),
        ("text", "endpoint-load-metrics: TEXT named_metrics.in_flight=4, cpu_utilization=0.5"),
        ("json", "endpoint-load-metrics: JSON {\"cpu_utilization\":0.5,\"named_metrics\":{\"rif\":4}}"),
    ] {
        let endpoint = Endpoint::answering(move |_| with_fields(&format!("{field}\r\nEtag: 1\r\n")));
        let proxy = Proxy::with(&[endpoint.addr], "", "load_reports = true", "");
        let response = proxy.client().get("/");
        assert_eq!((response.status(), response.body_text()), (200, "ok".to_string()));
        let head = response.head.to_ascii_lowercase();
        assert!(!head.contains("load-metrics") && head.contains("etag: 1"), "{head}");
        wait_until("the report is in", || proxy.pool(|p| came(p, form)) == 1);
        assert_eq!(proxy.pool(dropped), 0, "{field}");
        assert_eq!(proxy.endpoint(0, |e| e.reported.in_flight.get()), 4, "{field}");
        assert_eq!(proxy.endpoint(0, |e| e.reported.utilization_ppm.get()), 500_000, "{field}");
    }
}

#[test]
fn who_wants_no_reports_gets_responses_as_they_were_sent_and_so_do_clients_who_may_have_them() {
    let sent = "endpoint-load-metrics: TEXT eps=1\r\n";
    let endpoint = Endpoint::answering(move |_| with_fields(sent));
    for (reports, read) in [("", 0), ("load_reports = { in_band = false }", 0), ("load_reports = { pass = true }", 1)] {
        let proxy = Proxy::with(&[endpoint.addr], "", reports, "");
        assert!(proxy.client().get("/").head.contains(sent), "{reports}");
        wait_until("it is read or not", || proxy.pool(|p| came(p, "text")) == read);
    }
}

#[test]
fn a_report_in_trailers_is_taken_and_the_others_go_on() {
    let chunked = |trailers: &str| {
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n{trailers}\r\n").into_bytes()
    };
    let trailers = "Etag: 1\r\nEndpoint-Load-Metrics: TEXT named_metrics.in_flight=3\r\nX-End: 2\r\n";
    let endpoint = Endpoint::start(move |conn| {
        // Once complete, and twice split within the field's name.
        for cut in [0, 60, 85] {
            if conn.request().is_none() {
                return;
            }
            let wire = chunked(trailers);
            conn.send(&wire[..cut]);
            conn.send(&wire[cut..]);
        }
    });
    let proxy = Proxy::with(&[endpoint.addr], "", "load_reports = true", "");
    let mut client = proxy.client();
    for n in 1..=3 {
        let response = client.get("/");
        assert_eq!(
            crate::support::text(&response.wire),
            crate::support::text(b"2\r\nok\r\n0\r\nEtag: 1\r\nX-End: 2\r\n\r\n")
        );
        wait_until("the report is in", || proxy.pool(|p| came(p, "text")) == n);
    }
    assert_eq!(endpoint.accepted(), 1, "the connection was good for another request each time");
    let mut old = proxy.client();
    old.send("GET / HTTP/1.0\r\n\r\n");
    let rest = String::from_utf8(old.rest()).expect("ASCII");
    assert!(rest.ends_with("\r\n\r\nok"), "an HTTP/1.0 client gets no trailers: {rest:?}");
}

#[test]
fn nonsense_about_load_is_counted_and_its_request_is_well() {
    let nonsense = [
        ("text", "endpoint-load-metrics: TEXT named_metrics.in_flight"),
        ("value", "endpoint-load-metrics: TEXT named_metrics.in_flight=-1"),
        ("value", "endpoint-load-metrics: TEXT named_metrics.in_flight=NaN"),
        ("twice", "endpoint-load-metrics: TEXT eps=1,eps=1"),
        ("name", "endpoint-load-metrics: JSON {\"x\":1}"),
        ("json", "endpoint-load-metrics: JSON {\"eps\":"),
        ("base64", "endpoint-load-metrics-bin: !"),
        ("protobuf", "endpoint-load-metrics-bin: CAE="),
        ("form", "endpoint-load-metrics: ?"),
        ("utilization_only", "endpoint-load-metrics: TEXT cpu_utilization=0.3"),
        ("implausible", "endpoint-load-metrics: TEXT named_metrics.in_flight=1e30"),
    ];
    let endpoint = Endpoint::answering(move |request| {
        let path = request.line().split(' ').nth(1).and_then(|path| path[1..].parse::<usize>().ok()).expect("a number");
        with_fields(&format!("{}\r\n", nonsense[path].1))
    });
    let proxy = Proxy::with(&[endpoint.addr], "", "load_reports = true", "");
    let mut client = proxy.client();
    let (mut before, mut counters) = (vec![0; 64], HashMap::new());
    for (i, (reason, field)) in nonsense.iter().enumerate() {
        let response = client.get(&format!("/{i}"));
        assert_eq!((response.status(), response.body_text()), (200, "ok".to_string()), "{field}");
        wait_until("it is counted", || proxy.pool(dropped) == i as u64 + 1);
        let stats = proxy.server().stats();
        let now: Vec<u64> = stats[0].pools[0].reports_dropped.iter().map(|n| n.get()).collect();
        let counter = (0..now.len()).find(|&at| now[at] > before[at]).expect("one went up");
        assert_eq!(*counters.entry(reason).or_insert(counter), counter, "one counter for each reason");
        before = now;
    }
    let different: HashSet<_> = counters.values().collect();
    assert_eq!(different.len(), counters.len(), "{counters:?}");
    assert_eq!(proxy.pool(|p| came(p, "text")), 2, "that of the processor and the implausible one could be read");
}

#[test]
fn a_sidecar_reports_its_load_with_each_response_at_its_path_and_by_datagram() {
    let held = Arc::new(AtomicBool::new(true));
    let application = {
        let held = held.clone();
        Endpoint::answering(move |request| {
            if request.line().contains("/slow") {
                wait_until("it may answer", || !held.load(SeqCst));
            }
            with_fields("endpoint-load-metrics: TEXT eps=1\r\n")
        })
    };
    let sidecar = sidecar(application.addr);
    let mut slow = sidecar.client();
    slow.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the slow one is at the application", || application.seen().len() == 1);

    let response = sidecar.client().get("/");
    let told: Vec<_> = response.head.lines().filter(|line| line.contains("load-metrics")).collect();
    assert_eq!(told.len(), 1, "the sidecar's word replaces the application's: {told:?}");
    assert!(told[0].starts_with("endpoint-load-metrics: TEXT named_metrics.in_flight=1,named_metrics.latency_ns="));

    let page = sidecar.client().get("/.well-known/evenkeel/load");
    assert!(page.body_text().starts_with("{\"named_metrics\":{\"in_flight\":1,"), "{}", page.body_text());
    assert!(page.field("endpoint-load-metrics").is_some());
    assert_eq!(application.seen().len(), 2, "no route got it");

    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.set_read_timeout(Some(crate::support::SOON)).expect("sockets have timeouts");
    let mut question = [0; 40];
    question[..16].copy_from_slice(b"EKLP\x01\x01\0\0\x01\x02\x03\x04\x05\x06\x07\x08");
    // Malformed probes first: they get no answer, so the answer that comes is to the last one.
    let mut odd = question;
    odd[39] = 1;
    for wrong in [&odd[..], &question[..39], &[question.as_slice(), b"x"].concat(), b"", b"GET / HTTP/1.1\r\n\r\n"] {
        socket.send_to(wrong, sidecar.addr()).expect("it is sent");
    }
    socket.send_to(&question, sidecar.addr()).expect("it is sent");
    let mut answer = [0; 64];
    let (n, from) = socket.recv_from(&mut answer).expect("an answer");
    assert_eq!((n, from), (question.len(), sidecar.addr()), "as long as the question, from where it was sent to");
    assert_eq!(
        (&answer[..6], &answer[8..16], &answer[20..24]),
        (&b"EKLP\x01\x02"[..], &question[8..16], &[0, 0, 0, 1][..])
    );
    assert_eq!(sidecar.listener(|l| l.no_probes.get()), 5);

    held.store(false, SeqCst);
    assert!(slow.response().head.contains("named_metrics.in_flight=0,"));
    assert_eq!(sidecar.listener(|l| l.reports_given[0].get()), 2);
}

#[test]
fn a_sidecar_that_cannot_answer_still_reports_its_load() {
    let sidecar = sidecar(crate::support::own_addr());
    let response = sidecar.client().get("/");
    assert_eq!(response.status(), 502);
    assert!(response.field("endpoint-load-metrics").is_some(), "{}", response.head);
}

#[test]
fn two_balancers_ask_the_same_sidecars_and_go_on_when_those_fall_silent() {
    let application = Endpoint::saying("app");
    for probe in ["udp", "http"] {
        let mut sidecars = [sidecar(application.addr), sidecar(application.addr)];
        let addresses = sidecars.each_ref().map(Proxy::addr);
        let config = asking(&addresses, &format!("{{ probe = \"{probe}\" }}"));
        let balancers = [Proxy::start(&config), Proxy::start(&config)];
        let mut clients: Vec<Client> = balancers.iter().map(Proxy::client).collect();
        wait_until("both know of both", || {
            clients.iter_mut().for_each(|client| assert_eq!(client.get("/").status(), 200));
            let heard = |b: &Proxy| (0..2).all(|e| b.endpoint(e, |e| e.reported.at_ns.get()) > 0);
            balancers.iter().all(|b| heard(b) && b.pool(|p| came(p, probe)) >= 10)
        });
        // Now without reports: the listeners are not evenkeels.
        sidecars.iter_mut().for_each(Proxy::stop);
        let silent: Vec<_> = addresses
            .iter()
            .map(|addr| {
                Endpoint::on(TcpListener::bind(addr).expect("the port is free"), |conn| {
                    while conn.request().is_some() {
                        conn.send(ok("silent"));
                    }
                })
            })
            .collect();
        let lost = |b: &Proxy| b.pool(|p| probes(p, "timeout") + probes(p, "no_report"));
        wait_until("probes are given up", || {
            clients.iter_mut().for_each(|client| {
                assert_eq!(client.get("/").body_text(), "silent", "requests go on");
            });
            balancers.iter().all(|b| lost(b) >= 10)
        });
        drop((clients, balancers, silent));
    }
}

/// An endpoint that serves requests, and answers datagrams by a closure, until dropped.
struct Odd {
    endpoint: Endpoint,
    closing: Arc<AtomicBool>,
    answering: Option<JoinHandle<()>>,
}

impl Odd {
    /// `answer` gets a socket of the endpoint, a question and its sender.
    fn start(answer: impl Fn(&UdpSocket, [u8; 40], SocketAddr) + Send + 'static) -> Odd {
        let (tcp, udp) = (0..100)
            .find_map(|_| {
                let tcp = TcpListener::bind("127.0.0.1:0").expect("a free port");
                let udp = UdpSocket::bind(tcp.local_addr().expect("it is bound")).ok()?;
                Some((tcp, udp))
            })
            .expect("a port that is free for both");
        udp.set_read_timeout(Some(std::time::Duration::from_millis(20))).expect("sockets have timeouts");
        let endpoint = Endpoint::on(tcp, |conn| {
            while conn.request().is_some() {
                conn.send(ok("ok"));
            }
        });
        let closing = Arc::new(AtomicBool::new(false));
        let until = closing.clone();
        let answering = std::thread::spawn(move || {
            while !until.load(SeqCst) {
                let mut question = [0; 40];
                if let Ok((40, from)) = udp.recv_from(&mut question) {
                    answer(&udp, question, from);
                }
            }
        });
        Odd { endpoint, closing, answering: Some(answering) }
    }
}

impl Drop for Odd {
    fn drop(&mut self) {
        self.closing.store(true, SeqCst);
        let ended = self.answering.take().map(JoinHandle::join);
        assert!(!matches!(ended, Some(Err(_))) || std::thread::panicking(), "the endpoint failed");
    }
}

/// The correct answer to a question.
fn answer_to(mut question: [u8; 40], stamp: u64) -> [u8; 40] {
    question[5] = 2;
    question[32..].copy_from_slice(&stamp.to_be_bytes());
    question
}

/// Sends requests until `holds` is true; all of them succeed.
fn ask_until(proxy: &Proxy, what: &str, holds: impl Fn() -> bool) {
    let mut client = proxy.client();
    wait_until(what, || {
        assert_eq!(client.get("/").status(), 200);
        holds()
    });
}

#[test]
fn answers_that_come_twice_from_elsewhere_or_from_nowhere_are_dropped() {
    let other = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let liar = Odd::start(move |socket, question, from| {
        let answer = answer_to(question, 0);
        let mut made_up = answer;
        made_up[8] ^= 1;
        let mut longer = answer.to_vec();
        longer.push(0);
        // From another address, for another question, too long, not an answer; then the correct answer, twice.
        let _ = other.send_to(&answer, from);
        for bytes in [&made_up[..], &longer, &question, &answer, &answer] {
            let _ = socket.send_to(bytes, from);
        }
    });
    let second = Odd::start(|socket, question, from| {
        let _ = socket.send_to(&answer_to(question, 0), from);
    });
    let proxy = Proxy::start(&asking(&[liar.endpoint.addr, second.endpoint.addr], "{ probe = \"udp\" }"));
    ask_until(&proxy, "each lie is counted", || {
        ["sender", "unknown", "malformed", "repeated"].iter().all(|reason| answers_dropped(&proxy, reason) >= 2)
    });
    assert!(proxy.pool(|p| probes(p, "answered")) >= 2, "the right answers counted");
    let said = proxy.endpoint(0, |e| e.reported.at_ns.get());
    assert!(said > 0, "the right answer came after the wrong ones and was taken");
}

#[test]
fn an_answer_that_is_late_is_dropped() {
    let held = std::cell::RefCell::new(Vec::new());
    let slow = Odd::start(move |socket, question, from| {
        let mut held = held.borrow_mut();
        held.push((question, from, std::time::Instant::now()));
        // Long after the time limit, when another question comes.
        held.retain(|(question, from, at)| {
            let over = at.elapsed() > std::time::Duration::from_millis(200);
            if over {
                let _ = socket.send_to(&answer_to(*question, 0), from);
            }
            !over
        });
    });
    let config = asking(&[slow.endpoint.addr, crate::support::own_addr()], "{ probe = \"udp\", timeout = \"50ms\" }");
    let proxy = Proxy::start(&format!("{config}outlier = \"off\"\nretry = {{ on = [\"connect\"] }}\n"));
    ask_until(&proxy, "an answer is late", || answers_dropped(&proxy, "late") > 0);
    assert_eq!(proxy.pool(|p| probes(p, "answered")), 0);
    assert!(proxy.pool(|p| probes(p, "timeout")) > 0);
}

#[test]
fn a_reload_switches_reports_on_and_off_and_no_connection_notices() {
    let application = Endpoint::saying("app");
    let sidecars = [sidecar(application.addr), sidecar(application.addr)];
    let addresses = sidecars.each_ref().map(Proxy::addr);
    let on = asking(&addresses, "{ probe = \"udp\" }");
    let off = asking(&addresses, "false").replace("prequal", "round_robin");
    let mut proxy = Proxy::start(&off);
    let mut client = proxy.client();
    for config in [&on, &off, &on] {
        assert_eq!(client.get("/").status(), 200);
        proxy.reload(config).expect("a good plan");
        let before = proxy.pool(|p| came(p, "udp"));
        if config.contains("prequal") {
            wait_until("endpoints are asked", || {
                assert_eq!(client.get("/").status(), 200);
                proxy.pool(|p| came(p, "udp")) > before + 5
            });
        } else {
            assert!(client.get("/").field("endpoint-load-metrics").is_some(), "nobody takes it out any more");
        }
    }
    assert_eq!(proxy.listener(|l| l.accepted.get()), 1, "one connection saw all of it");
}

#[test]
fn endpoints_that_discovery_finds_are_asked_and_those_that_have_left_are_not() {
    let application = Endpoint::saying("app");
    let sidecars = [sidecar(application.addr), sidecar(application.addr), sidecar(application.addr)];
    let [a, b, c] = sidecars.each_ref().map(Proxy::addr);
    let asked = |i: usize| sidecars[i].listener(|l| l.reports_given[at(&GIVEN, "udp")].get());
    let mut proxy = Proxy::start(&asking(&[a, b], "{ probe = \"udp\" }"));
    ask_until(&proxy, "the first two are asked", || asked(0) > 5 && asked(1) > 5);
    assert_eq!(asked(2), 0);
    let rounds = [(vec![b, c], [1, 2]), (vec![c, a], [2, 0]), (vec![a, b], [0, 1])];
    for (found, here) in rounds {
        proxy.find(&found);
        let before = here.map(asked);
        // Probes that were due by then are sent first, and a sidecar receives them before a new connection.
        ask_until(&proxy, "both are asked", || here.iter().zip(before).all(|(i, before)| asked(*i) > before + 5));
        let gone = (0..3).find(|i| !here.contains(i)).expect("one of three");
        sidecars[gone].has_heard();
        let then = asked(gone);
        let before = here.map(asked);
        ask_until(&proxy, "both are asked again", || here.iter().zip(before).all(|(i, before)| asked(*i) > before + 5));
        sidecars[gone].has_heard();
        assert_eq!(asked(gone), then, "nobody asks one that has left");
        let heard = (0..2).all(|e| proxy.endpoint(e, |e| e.reported.at_ns.get()) > 0);
        assert!(heard, "each of the two has its own numbers");
    }
}

#[test]
fn an_answer_of_one_that_has_left_is_not_taken_for_that_of_its_heir() {
    // The answer comes only on command, with a recognisable value.
    let (told, tells) = std::sync::mpsc::channel::<()>();
    let holding = Arc::new(AtomicBool::new(false));
    let holds = holding.clone();
    let leaver = Odd::start(move |socket, question, from| {
        if !holds.swap(true, SeqCst) {
            let _ = tells.recv_timeout(crate::support::SOON);
            let mut answer = answer_to(question, 0);
            answer[20..24].copy_from_slice(&777_u32.to_be_bytes());
            let _ = socket.send_to(&answer, from);
        }
    });
    let application = Endpoint::saying("app");
    let sidecars = [sidecar(application.addr), sidecar(application.addr)];
    let [stays, heir] = sidecars.each_ref().map(Proxy::addr);
    let config = asking(&[leaver.endpoint.addr, stays], "{ probe = \"udp\", timeout = \"10s\" }");
    let mut proxy = Proxy::start(&config);
    ask_until(&proxy, "it is asked", || holding.load(SeqCst));
    // Away, and another endpoint in its place: the slot is free once nothing is in flight there.
    proxy.find(&[stays]);
    proxy.find(&[heir, stays]);
    ask_until(&proxy, "its heir is known", || proxy.endpoint(0, |e| e.reported.at_ns.get()) > 0);
    // Reports may also be overtaken and dropped, but for another reason.
    let gone = |pool: &PoolStats| pool.reports_dropped[at(&Dropped::names(), "gone")].get();
    assert_eq!(proxy.pool(gone), 0);
    told.send(()).expect("it waits");
    ask_until(&proxy, "the late answer is dropped", || proxy.pool(gone) == 1);
    (0..2).for_each(|e| assert_ne!(proxy.endpoint(e, |e| e.reported.in_flight.get()), 777));
}

#[test]
fn a_sidecar_starts_and_stops_to_report_while_its_connections_live() {
    let application = Endpoint::saying("app");
    let config = |reports: &str| {
        format!(
            "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\nreport_load = {reports}\n\
             [pool.web]\nendpoints = [\"{}\"]\n",
            application.addr
        )
    };
    let mut proxy = Proxy::start(&config("false"));
    let mut client = proxy.client();
    let field = |client: &mut Client| client.get("/").field("endpoint-load-metrics").is_some();
    let is_free = |addr: SocketAddr| UdpSocket::bind(addr).is_ok();
    assert!(!field(&mut client) && is_free(proxy.addr()));
    for _ in 0..2 {
        proxy.reload(&config("true")).expect("a good plan");
        assert!(field(&mut client) && !is_free(proxy.addr()));
        proxy.reload(&config("{ header = false }")).expect("a good plan");
        assert!(!field(&mut client) && !is_free(proxy.addr()), "datagrams are answered as before");
        proxy.reload(&config("false")).expect("a good plan");
        assert!(!field(&mut client));
        wait_until("its socket is closed", || is_free(proxy.addr()));
    }
    assert_eq!(proxy.listener(|l| l.accepted.get()), 1);
}
