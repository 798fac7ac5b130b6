//! Balancing, logs and end of a process, over real sockets.

use crate::support::{Endpoint, Folder, Running, address, ask, evenkeel, eventually, get, text};
use rustix::process::Signal;
use std::net::{TcpListener, TcpStream};

#[test]
fn balances_between_two_endpoints_and_counts_them() {
    let (a, b) = (Endpoint::start("a"), Endpoint::start("b"));
    let (listen, admin) = (address(), address());
    let arguments = ["run", &a.addr, &b.addr, "--listen", &listen, "--admin", &admin, "--balance", "round_robin"];
    let mut running = Running::start(&arguments);
    assert!(running.said().contains(&format!("listening  http://{listen}")), "{}", running.said());
    assert!(running.said().contains(&format!("pool web by round_robin: {}, {}", a.addr, b.addr)), "{}", running.said());
    assert!(!running.said().contains("does not accept connections"), "{}", running.said());
    let answers: Vec<String> = (0..20)
        .map(|_| {
            let (status, body) = get(&listen, "/").expect("an answer");
            assert_eq!(status, 200);
            body
        })
        .collect();
    let of_a = answers.iter().filter(|body| *body == "a").count();
    // Each worker alternates for itself; which of them accepts is the kernel's choice.
    assert!((1..20).contains(&of_a), "{answers:?}");
    assert_eq!((a.served(), b.served()), (of_a, 20 - of_a));

    let by_endpoint = |e: &Endpoint, n: usize| {
        format!("evenkeel_upstream_requests_total{{pool=\"web\",endpoint=\"{}\",code_class=\"2xx\"}} {n}", e.addr)
    };
    let wanted = [
        "evenkeel_http_requests_total{listener=\"web\",route=\"default\",method=\"GET\",code=\"200\"} 20".to_string(),
        "evenkeel_http_request_duration_seconds_count{listener=\"web\",route=\"default\",code_class=\"2xx\"} 20".into(),
        "evenkeel_connections_total{listener=\"web\"} 20".into(),
        "evenkeel_connections_active{listener=\"web\"} 0".into(),
        "evenkeel_upstream_requests_active{pool=\"web\",endpoint=\"".to_string() + &a.addr + "\"} 0",
        by_endpoint(&a, of_a),
        by_endpoint(&b, 20 - of_a),
    ];
    // A request is counted when it has ended, which its client knows a moment earlier.
    eventually("the right numbers", || {
        let (status, metrics) = get(&admin, "/metrics").expect("an answer");
        assert_eq!(status, 200);
        wanted.iter().all(|line| metrics.lines().any(|l| l == line)).then_some(())
    });
    let (_, metrics) = get(&admin, "/metrics").expect("an answer");
    assert!(!metrics.contains("# EOF") && metrics.contains("\nprocess_resident_memory_bytes "), "{metrics}");
    let host = &admin;
    let request = format!(
        "GET /metrics HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\naccept: application/openmetrics-text\r\n\r\n"
    );
    let open_metrics = ask(&admin, &request).expect("an answer");
    assert!(open_metrics.contains("content-type: application/openmetrics-text; version=1.0.0"), "{open_metrics}");
    assert!(open_metrics.ends_with("# EOF\n"), "{open_metrics}");
    assert_eq!(get(&admin, "/readyz").expect("an answer"), (200, "{\"ready\":true,\"reasons\":[]}\n".to_string()));
    assert_eq!(get(&admin, "/livez").expect("an answer"), (200, "ok\n".to_string()));
    assert_eq!(get(&admin, "/livez/nothing").expect("an answer").0, 404);
    // The dashboard is for browsers that were sent to this address, which `test` is not.
    assert_eq!(get(&admin, "/").expect("an answer").0, 403);
    running.signal(Signal::INT);
    assert_eq!(running.code(), Some(0), "{}", running.said());
}

#[test]
fn says_what_is_spoken_where_and_with_a_file_connects_to_nothing_unasked() {
    let (folder, tcp, udp) = (Folder::new("greeting"), address(), address());
    let (of_tcp, of_udp) = (address(), address());
    let endpoint = TcpListener::bind(&of_tcp).expect("nobody else uses it");
    endpoint.set_nonblocking(true).expect("it can be");
    let file = folder.file(
        "evenkeel.toml",
        &format!(
            "[listener]\ntcp = {{ bind = ['{tcp}'], mode = 'tcp', pool = 'tcp' }}\n\
             udp = {{ bind = ['{udp}'], mode = 'udp', pool = 'udp' }}\n\
             [pool]\ntcp = {{ endpoints = ['{of_tcp}'] }}\nudp = {{ endpoints = ['{of_udp}'] }}\n"
        ),
    );
    let running = Running::start(&["run", "-c", &file]);
    let said = running.said();
    for (mode, listen) in [("tcp", &tcp), ("udp", &udp)] {
        assert!(said.contains(&format!("listening  {mode}://{listen} (listener {mode})")), "{said}");
    }
    // What was connected before the greeting waits to be accepted.
    assert!(!said.contains("does not accept connections") && !said.contains("  tried "), "{said}");
    let accepted = endpoint.accept().map_err(|error| error.kind());
    assert_eq!(accepted.err(), Some(std::io::ErrorKind::WouldBlock), "the start has connected to an endpoint");
}

#[test]
fn what_checks_and_requests_say_of_endpoints_is_in_the_metrics() {
    let (well, dead, folder) = (Endpoint::start("well"), address(), Folder::new("watched"));
    let (listen, admin) = (address(), address());
    let text = format!(
        "[admin]\nhttp = {{ bind = '{admin}' }}\n[listener.web]\nbind = ['{listen}']\n[pool.web]\n\
         endpoints = [{{ addr = '{}', weight = 3 }}, '{dead}']\nhealth = {{ http = {{}}, interval = '100ms' }}\n\
         panic = {{ healthy_below = 0.9 }}\n",
        well.addr
    );
    let running = Running::start(&["run", "-c", &folder.file("evenkeel.toml", &text)]);
    eventually("the first checks", || (get(&admin, "/readyz").ok()?.0 == 200).then_some(()));
    assert_eq!(get(&listen, "/").expect("an answer"), (200, "well".to_string()));
    let of = |name: &str, endpoint: &str, more: &str| {
        format!("evenkeel_{name}{{pool=\"web\",endpoint=\"{endpoint}\"{more}}}")
    };
    let metrics = eventually("both were checked", || {
        let metrics = get(&admin, "/metrics").ok()?.1;
        let passed = of("health_checks_total", &well.addr, ",result=\"passed\"");
        let checked = metrics.lines().any(|line| line.starts_with(&passed) && !line.ends_with(" 0"));
        (checked && metrics.contains("evenkeel_pool_panic{pool=\"web\"} 1\n")).then_some(metrics)
    });
    for line in [
        of("endpoint_state", &well.addr, ",state=\"up\"") + " 1",
        of("endpoint_state", &dead, ",state=\"up\"") + " 0",
        of("endpoint_state", &dead, ",state=\"down\"") + " 1",
        of("endpoint_weight", &well.addr, ",kind=\"configured\"") + " 3.0",
        of("endpoint_weight", &well.addr, ",kind=\"effective\"") + " 3.0",
        of("health_checks_total", &dead, ",result=\"passed\"") + " 0",
        of("endpoint_transitions_total", &dead, "") + " 1",
        of("outlier_ejections_total", &dead, "") + " 0",
    ] {
        assert!(metrics.lines().any(|l| l == line), "no line {line} in\n{metrics}");
    }
    let failed = of("health_checks_total", &dead, ",result=\"failed\"") + " 0";
    assert!(!metrics.contains(&failed), "{metrics}");
    // How many were well by then is the checks' order.
    let says = ["ERROR pool \"web\": ", " of 2 endpoints healthy; using all of them (panic.mode = \"use-all\")"];
    let told = |line: &str| says.iter().all(|part| line.contains(part));
    assert!(running.said().lines().any(told), "{}", running.said());
}

#[test]
fn the_printed_configuration_checks_clean_and_runs() {
    let (endpoint, folder, listen) = (Endpoint::start("a"), Folder::new("printed"), address());
    let printed = evenkeel(&["run", &endpoint.addr, "--listen", &listen, "--balance", "rr", "--print-config"]);
    assert!(printed.status.success(), "{}", text(&printed.stderr));
    let file = folder.file("evenkeel.toml", &text(&printed.stdout));
    let checked = evenkeel(&["check", &file]);
    assert!(checked.status.success() && checked.stderr.is_empty(), "{}", text(&checked.stderr));
    let _running = Running::start(&["run", "-c", &file]);
    assert_eq!(get(&listen, "/").expect("an answer"), (200, "a".to_string()));
}

#[test]
fn starts_with_dead_endpoints_and_says_so() {
    let (alive, dead, listen) = (Endpoint::start("alive"), address(), address());
    let running = Running::start(&["run", &alive.addr, &dead, "--listen", &listen]);
    let said = running.said();
    assert!(said.contains(&format!("endpoint {dead} does not accept connections: connection refused")), "{said}");
    assert!(said.contains("tried      2 endpoints, with one connection each"), "{said}");
    for _ in 0..8 {
        assert_eq!(get(&listen, "/").expect("an answer"), (200, "alive".to_string()));
    }
}

#[test]
fn a_first_signal_drains_what_runs() {
    for signal in [Signal::TERM, Signal::QUIT, Signal::INT] {
        let (endpoint, listen, admin) = (Endpoint::start("late"), address(), address());
        let mut running = Running::start(&["run", &endpoint.addr, "--listen", &listen, "--admin", &admin]);
        let held = endpoint.hold();
        let client = std::thread::spawn({
            let listen = listen.clone();
            move || get(&listen, "/")
        });
        eventually("the request at the endpoint", || (endpoint.began() == 1).then_some(()));
        running.signal(signal);
        eventually("not ready", || (get(&admin, "/readyz").ok()?.0 == 503).then_some(()));
        assert!(get(&admin, "/readyz").expect("an answer").1.contains("draining"));
        assert_eq!(get(&admin, "/livez").expect("an answer").0, 200, "it lives until it has ended");
        eventually("no listener", || TcpStream::connect(&listen).is_err().then_some(()));
        drop(held);
        let answer = client.join().expect("no panic").expect("an answer");
        assert_eq!(answer, (200, "late".to_string()), "the request that ran was finished");
        assert_eq!(running.code(), Some(0), "{}", running.said());
        assert!(running.said().contains("drained"), "{}", running.said());
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    let (endpoint, listen) = (Endpoint::start("never"), address());
    let mut running = Running::start(&["run", &endpoint.addr, "--listen", &listen]);
    let _held = endpoint.hold();
    let client = std::thread::spawn({
        let listen = listen.clone();
        move || get(&listen, "/")
    });
    eventually("the request at the endpoint", || (endpoint.began() == 1).then_some(()));
    running.signal(Signal::TERM);
    eventually("draining", || running.said().contains("draining").then_some(()));
    running.signal(Signal::INT);
    assert_eq!(running.code(), Some(0), "{}", running.said());
    assert!(running.said().contains("second signal: closing the remaining connections"), "{}", running.said());
    let cut = client.join().expect("no panic");
    assert!(cut.is_err() || cut.as_ref().is_ok_and(|(status, _)| *status == 0), "{cut:?}");
}

#[test]
fn before_it_drains_it_serves_without_being_ready_for_as_long_as_is_set() {
    for (delay, hurries) in [("100ms", false), ("1h", true)] {
        let (endpoint, folder, listen, admin) = (Endpoint::start("a"), Folder::new("delay"), address(), address());
        let file = folder.file(
            "evenkeel.toml",
            &format!(
                "[runtime]\nshutdown_delay = '{delay}'\n[admin]\nhttp = {{ bind = '{admin}' }}\n\
                 [listener.web]\nbind = ['{listen}']\n[pool.web]\nendpoints = ['{}']\n",
                endpoint.addr
            ),
        );
        let mut running = Running::start(&["run", "-c", &file]);
        running.signal(Signal::TERM);
        if hurries {
            eventually("not ready", || (get(&admin, "/readyz").ok()?.0 == 503).then_some(()));
            assert!(get(&admin, "/readyz").expect("an answer").1.contains("draining"));
            for _ in 0..5 {
                assert_eq!(get(&listen, "/").expect("it is accepted"), (200, "a".to_string()));
            }
            // Ends at once, whatever runs.
            let _held = endpoint.hold();
            let began = endpoint.began();
            let client = std::thread::spawn({
                let listen = listen.clone();
                move || get(&listen, "/")
            });
            eventually("the request at the endpoint", || (endpoint.began() > began).then_some(()));
            running.signal(Signal::TERM);
            assert_eq!(running.code(), Some(0), "{}", running.said());
            assert!(running.said().contains("second signal: closing the remaining connections"), "{}", running.said());
            let _ = client.join();
        }
        assert_eq!(running.code(), Some(0), "{}", running.said());
        let said = running.said();
        let at = |text: &str| said.find(text).unwrap_or_else(|| panic!("{text:?}: {said}"));
        assert!(at("serving until the delay is over") < at("accepting no new connections"), "{said}");
    }
}

#[test]
fn the_time_to_drain_is_bounded() {
    let (endpoint, folder, listen) = (Endpoint::start("never"), Folder::new("bounded"), address());
    let file = folder.file(
        "evenkeel.toml",
        &format!(
            "[runtime]\ndrain_timeout = '50ms'\n[listener.web]\nbind = ['{listen}']\n[pool.web]\nendpoints = ['{}']\n",
            endpoint.addr
        ),
    );
    let mut running = Running::start(&["run", "-c", &file]);
    let _held = endpoint.hold();
    let client = std::thread::spawn({
        let listen = listen.clone();
        move || get(&listen, "/")
    });
    eventually("the request at the endpoint", || (endpoint.began() == 1).then_some(()));
    running.signal(Signal::HUP);
    eventually("an answer to SIGHUP", || running.said().contains("SIGHUP").then_some(()));
    running.signal(Signal::TERM);
    assert_eq!(running.code(), Some(0), "{}", running.said());
    assert!(running.said().contains("drain time is over"), "{}", running.said());
    let _ = client.join();
}

#[test]
fn a_log_for_machines_has_nothing_else_in_it() {
    let (endpoint, folder, listen) = (Endpoint::start("a"), Folder::new("json"), address());
    let file = folder.file(
        "evenkeel.toml",
        &format!(
            "[runtime]\nlog = {{ format = 'json' }}\n[telemetry]\naccess_log = {{ path = '{}' }}\n\
             [listener.web]\nbind = ['{listen}']\n[pool.web]\nendpoints = ['{}']\n",
            folder.0.join("access.jsonl").display(),
            endpoint.addr
        ),
    );
    let child = std::process::Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .args(["run", "-c", &file])
        .env("RUNTIME_DIRECTORY", &folder.0)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    eventually("an answer", || (get(&listen, "/it").ok()?.0 == 200).then_some(()));
    let pid = rustix::process::Pid::from_child(&child);
    // Whoever can be asked has caught its signals already.
    rustix::process::kill_process(pid, Signal::TERM).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    let lines: Vec<serde_json::Value> =
        text(&output.stderr).lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(lines.iter().any(|l| l["message"] == "listening" && l["listener"] == "web"), "{lines:?}");
    let log = std::fs::read_to_string(folder.0.join("access.jsonl")).expect("a log");
    let line: serde_json::Value = serde_json::from_str(log.lines().next().expect("a line")).expect("JSON");
    assert_eq!((&line["path"], &line["status"]), (&"/it".into(), &200.into()), "{log}");
}
