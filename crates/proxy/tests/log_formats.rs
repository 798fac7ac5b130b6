//! Formats and destinations of the access log, with any bytes that clients send.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

use crate::support::endpoint::{ok, status};
use crate::support::h2_client::H2Client;
use crate::support::h2_server::H2Server;
use crate::support::log::Log;
use crate::support::nginx::Directory;
use crate::support::{Endpoint, Proxy, own_addr, wait_until};
use serde_json::Value;
use std::collections::HashMap;
use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

/// Configuration of a log with more keys.
fn with(log: &Log, more: &str) -> String {
    format!("[telemetry]\naccess_log = {{ path = {:?}, {more} }}", log.0.to_str().expect("a name of ours"))
}

/// Lines of the log once the proxy has stopped.
fn raw(log: &Log, mut proxy: Proxy) -> Vec<String> {
    wait_until("no request is in flight", || proxy.in_flight() == 0);
    proxy.stop();
    let text = std::fs::read(&log.0).expect("the proxy made it");
    assert!(text.is_ascii(), "{}", text.escape_ascii());
    text.split_inclusive(|b| *b == b'\n').map(|line| String::from_utf8_lossy(line).trim_end().to_string()).collect()
}

#[test]
fn combined_is_as_others_write_it() {
    let (endpoint, log) = (Endpoint::saying("hello"), Log::new());
    let proxy = Proxy::with(&[endpoint.addr], "", "", &with(&log, "format = 'combined'"));
    let mut client = proxy.client();
    let fields = "User-Agent: Mozilla/5.0 (\"x\")\r\nReferer: http://a/\r\n";
    let sent = client.send(format!("GET /a?b HTTP/1.1\r\nHost: a\r\n{fields}\r\n")).response();
    client.send("GET /none HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").response();
    let lines = raw(&log, proxy);
    let bytes = sent.head.len() + 5;
    let (front, behind) = lines[0].split_once("] ").expect("a date");
    assert!(front.starts_with("127.0.0.1 - - [") && front.ends_with(" +0000") && front.len() == 41, "{front}");
    assert_eq!(behind, format!("\"GET /a?b HTTP/1.1\" 200 {bytes} \"http://a/\" \"Mozilla/5.0 (\\x22x\\x22)\""));
    assert!(lines[1].contains("\"- - HTTP/1.1\" 400 ") && lines[1].ends_with(" \"-\" \"-\""), "{}", lines[1]);
}

/// `halog` is HAProxy's own tool for its logs.
#[test]
fn halog_reads_httplog() {
    if !evenkeel_peers::installed(&["halog"]) {
        return;
    }
    let (endpoint, log) = (Endpoint::saying("hello"), Log::new());
    let proxy =
        Proxy::with(&[endpoint.addr], "", "", &with(&log, "format = 'httplog', fields = { request = ['Host'] }"));
    let mut client = proxy.client();
    for path in ["/a", "/a", "/b"] {
        client.get(path);
    }
    // It expects the prefix of syslog.
    let lines: String =
        raw(&log, proxy).iter().map(|line| format!("Nov 24 01:14:14 here evenkeel[1]: {line}\n")).collect();
    let says = |format: &str| {
        let mut halog = std::process::Command::new(evenkeel_peers::find("halog").expect("it is installed"));
        let mut halog =
            halog.args(["-q", format]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        halog.stdin.take().expect("it is piped").write_all(lines.as_bytes()).expect("it reads");
        String::from_utf8_lossy(&halog.wait_with_output().expect("it ends").stdout).into_owned()
    };
    let by_status = says("-st");
    assert_eq!(by_status.split_whitespace().collect::<Vec<_>>(), ["200", "3"], "{by_status}");
    let by_server = says("-srv");
    let server = by_server.lines().find(|line| line.starts_with("web/")).unwrap_or_else(|| panic!("{by_server}"));
    assert!(server.starts_with(&format!("web/{}", endpoint.addr)), "{server}");
    let by_path = says("-u");
    assert!(by_path.lines().any(|line| line.starts_with("2 ") && line.ends_with(" /a")), "{by_path}");
}

#[test]
fn chosen_fields_of_both_sides_are_in_the_line_whatever_they_speak() {
    const FIELDS: &str = "fields = { request = ['X-Tenant', 'X-None'], response = ['X-Cache'] }";
    let answer = || b"HTTP/1.1 200 OK\r\nX-Cache: HIT\r\nContent-Length: 0\r\n\r\n".to_vec();
    let h1 = Endpoint::answering(move |_| answer());
    let h2 = H2Server::start(|mut exchange| async move { exchange.reply(200, &[("x-cache", "HIT")], b"", &[]).await });
    for (addr, pool) in [(h1.addr, ""), (h2.addr, "protocol = 'h2'")] {
        let log = Log::new();
        let proxy = Proxy::with(&[addr], "h2c = true", pool, &with(&log, FIELDS));
        proxy.client().send("GET / HTTP/1.1\r\nHost: a\r\nX-Tenant: \"t\r\nUser-Agent: u\r\n\r\n").response();
        let mut client = H2Client::connect(proxy.addr());
        let mut fields = crate::support::h2_client::get("/").to_vec();
        fields.extend([("x-tenant", "\"t"), ("user-agent", "u")]);
        client.head(1, &fields, true);
        assert_eq!(client.answer(1).status(), 200);
        let lines = log.lines(proxy);
        assert_eq!(lines.len(), 2);
        for line in lines {
            assert_eq!(line["request_fields"], serde_json::json!({ "X-Tenant": "\"t" }), "{line}");
            assert_eq!(line["response_fields"], serde_json::json!({ "X-Cache": "HIT" }), "{line}");
            assert_eq!((line["user_agent"].as_str(), line.get("referer")), (Some("u"), None), "{line}");
        }
    }
}

#[test]
fn each_try_is_logged_with_its_endpoint_and_its_cause() {
    let (refusing, resetting) = (own_addr(), Endpoint::resetting());
    let busy = Endpoint::answering(|_| status("503 Service Unavailable", "busy"));
    let good = Endpoint::saying("good");
    let causes: HashMap<String, &str> = HashMap::from([
        (refusing.to_string(), "connect"),
        (resetting.addr.to_string(), "reset"),
        (busy.addr.to_string(), "status 503"),
        (good.addr.to_string(), "answered"),
    ]);
    let pool =
        "outlier = 'off'\nretry = { attempts = 3, on = ['connect', 'reset', '503'], backoff = '1ms..2ms', budget = 1 }";
    let all = [refusing, resetting.addr, busy.addr, good.addr];
    let log = Log::new();
    let proxy = Proxy::with(&all, "", pool, &log.config());
    for _ in 0..4 {
        assert_eq!(proxy.client().get("/").status(), 200);
    }
    let lines = log.lines(proxy);
    let mut most = 0;
    for line in &lines {
        let attempts = line["attempts"].as_array().map(Vec::as_slice).unwrap_or_default();
        let tries = line["tries"].as_u64().expect("a number") as usize;
        assert_eq!(attempts.len(), if tries > 1 { tries } else { 0 }, "{line}");
        for attempt in attempts {
            let (endpoint, cause) = (attempt["endpoint"].as_str().expect("text"), &attempt["cause"]);
            assert_eq!(*cause, causes[endpoint], "{line}");
            assert!(attempt["ms"].is_number(), "{line}");
        }
        if let Some(last) = attempts.last() {
            assert_eq!((&last["endpoint"], &last["cause"]), (&line["endpoint"], &"answered".into()), "{line}");
        }
        most = most.max(tries);
    }
    assert_eq!(most, 4, "one of them began at the first: {lines:?}");
}

#[test]
fn a_request_that_no_try_could_serve_has_them_all() {
    let (first, second, log) = (own_addr(), own_addr(), Log::new());
    let format = "format = '%{tries} %{attempts} %{reason}'";
    let proxy = Proxy::with(&[first, second], "", "outlier = 'off'\nretry = { budget = 1 }", &with(&log, format));
    assert_eq!(proxy.client().get("/").status(), 502);
    let lines = raw(&log, proxy);
    let (tries, rest) = lines[0].split_once(' ').expect("three values");
    let (attempts, reason) = rest.split_once(' ').expect("three values");
    assert_eq!(tries, "2");
    let named: Vec<&str> =
        attempts.split(',').filter_map(|attempt| attempt.split_once("=connect@")).map(|(name, _)| name).collect();
    let mut want = [first.to_string(), second.to_string()];
    want.sort();
    assert!(named.len() == 2 && want.iter().all(|addr| named.contains(&addr.as_str())), "{attempts}");
    assert!(reason.contains("cannot connect"), "{reason}");
}

/// Every byte in every place of a request; refused requests are logged, too.
#[test]
fn no_byte_that_a_client_sends_breaks_a_line() {
    let endpoint = Endpoint::answering(|_| ok(""));
    let chosen = "fields = { request = ['X-Tenant'], response = ['X-Tenant'] }";
    let (json, combined, httplog) = (Log::new(), Log::new(), Log::new());
    let template = "format = '%{request.X-Tenant}|%{path}|%{host}|%{user_agent}'";
    let own = Log::new();
    for (log, more) in [
        (&json, chosen.to_string()),
        (&combined, "format = 'combined'".into()),
        (&httplog, format!("format = 'httplog', {chosen}")),
        (&own, template.into()),
    ] {
        let proxy = Proxy::with(&[endpoint.addr], "", "", &with(log, &more));
        let mut sent = 0;
        for byte in 0..=255u8 {
            for place in 0..5 {
                let mut parts: [Vec<u8>; 5] = std::array::from_fn(|_| b"x".to_vec());
                parts[place] = vec![b'x', byte, b'x'];
                let [method, path, host, agent, tenant] = parts;
                let head = [
                    method,
                    b" /".to_vec(),
                    path,
                    b" HTTP/1.1\r\nHost: ".to_vec(),
                    host,
                    b"\r\nUser-Agent: ".to_vec(),
                    agent,
                    b"\r\nReferer: ".to_vec(),
                    tenant.clone(),
                    b"\r\nX-Tenant: ".to_vec(),
                    tenant,
                    b"\r\n\r\n".to_vec(),
                ];
                let answer = proxy.client().send(head.concat()).response();
                assert!(answer.status() >= 200);
                sent += 1;
            }
        }
        if more == chosen {
            let lines: Vec<Value> = log.lines(proxy);
            assert_eq!(lines.len(), sent);
            continue;
        }
        let lines = raw(log, proxy);
        assert_eq!(lines.len(), sent, "{more}");
        for line in lines {
            assert!(line.bytes().all(|b| matches!(b, b' '..=b'~')), "{}", line.escape_default());
            let quotes = line.matches('"').count();
            assert_eq!(
                quotes,
                match () {
                    () if more == template => 0,
                    () if more.contains("combined") => 6,
                    () => 2,
                },
                "{line}"
            );
        }
    }
}

#[test]
fn a_request_over_a_change_of_format_has_one_whole_line() {
    let (endpoint, log) = (
        Endpoint::start(|conn| {
            while let Some(request) = conn.request() {
                if request.line().contains("/held") {
                    // Until the test creates the file.
                    conn.stream.set_read_timeout(None).expect("a socket has that");
                    let held = std::env::temp_dir().join(request.field("x-until").expect("it says when"));
                    wait_until("it is let go", || held.exists());
                }
                conn.send(ok("hello"));
            }
        }),
        Log::new(),
    );
    let json = "fields = { request = ['X-Until'] }";
    let template = "format = 'A %{path} %{request.X-Other} %{request.X-Until} Z'";
    for (n, (before, after)) in
        [(json, template), (template, json), (template, "format = 'B %{request.X-Until} %{path} Z'")]
            .into_iter()
            .enumerate()
    {
        let folder = Directory::new();
        let name = folder.0.join("go");
        let text = |format: &str| {
            format!(
                "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\n[pool.web]\nendpoints = [\"{}\"]\n{}",
                endpoint.addr,
                with(&log, format)
            )
        };
        let mut proxy = Proxy::start(&text(before));
        let mut held = proxy.client();
        let seen = endpoint.seen().len();
        held.send(format!("GET /held HTTP/1.1\r\nHost: a\r\nX-Until: {}\r\n\r\n", name.display()));
        wait_until("it is there", || endpoint.seen().len() > seen);
        proxy.reload(&text(after)).expect("nothing is wrong with it");
        std::fs::write(&name, "").expect("a file");
        assert_eq!(held.response().status(), 200);
        assert_eq!(proxy.client().get("/").status(), 200);
        let lines = raw(&log, proxy);
        std::fs::remove_file(&log.0).expect("it is there");
        assert_eq!(lines.len(), 2, "{n}: {lines:?}");
        match after {
            _ if after == json => {
                let values: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
                assert!(
                    values[0]["path"].is_null() && values[1]["path"] == "/",
                    "what the template kept is no JSON: {lines:?}"
                );
            }
            _ if after == template => assert_eq!(lines, ["A - - - Z", "A / - - Z"]),
            _ => assert_eq!(lines, ["B - - Z", "B - / Z"]),
        }
    }
}

/// A Unix socket that receives log lines, and its path.
fn logger(folder: &Directory) -> (UnixDatagram, PathBuf) {
    let path = folder.0.join("log.sock");
    let socket = UnixDatagram::bind(&path).expect("the folder is new");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket has that");
    (socket, path)
}

fn received(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 65536];
    let n = socket.recv(&mut bytes).expect("a line within the time that lines wait");
    String::from_utf8_lossy(&bytes[..n]).into_owned()
}

#[test]
fn syslog_and_the_journal_get_each_line() {
    let (endpoint, folder) = (Endpoint::saying("hello"), Directory::new());
    let (socket, path) = logger(&folder);
    for (scheme, front) in [("syslog", "<142>1 "), ("journald", "PRIORITY=6\nSYSLOG_IDENTIFIER=evenkeel\nMESSAGE=")] {
        let log = format!("[telemetry]\naccess_log = {{ path = '{scheme}:{}', facility = 'local1' }}", path.display());
        let proxy = Proxy::with(&[endpoint.addr], "", "", &log);
        proxy.client().get("/one");
        let message = received(&socket);
        assert!(message.starts_with(front), "{message}");
        let line: Value = serde_json::from_str(&message[message.find('{').expect("an object")..]).expect("JSON");
        assert_eq!(line["path"], "/one");
    }
}

/// The queue is bounded and losses are logged; clients notice nothing.
#[test]
fn a_logger_that_reads_nothing_or_is_not_there_costs_lines_and_no_request() {
    let endpoint = Endpoint::saying("hello");
    let folder = Directory::new();
    let (socket, path) = logger(&folder);
    let gone = folder.0.join("gone.sock");
    for path in [&path, &gone] {
        let log = format!("[telemetry]\naccess_log = {{ path = 'syslog:{}' }}", path.display());
        let mut proxy = Proxy::with(&[endpoint.addr], "", "", &log);
        let mut client = proxy.client();
        for _ in 0..20 {
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100));
            (0..100).for_each(|_| assert_eq!(client.response().status(), 200));
        }
        let stats = proxy.server().stats();
        let dropped = || {
            stats.iter().map(|worker| worker.log_lines_dropped.load(std::sync::atomic::Ordering::Relaxed)).sum::<u64>()
        };
        wait_until("lost lines are counted", || dropped() > 0);
        proxy.stop();
        assert!(dropped() <= 2000, "each once");
    }
    drop(socket);
}
