//! Spans of requests, and the same ones in the requests to endpoints, as a collector that reads OTLP sees them.

mod backend;
mod collector;

use crate::support::{Folder, Running, address, ask, eventually, get, text};
use backend::{Backend, response};
use collector::{Collector, attribute, hex};
use evenkeel_peers::installed;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// An evenkeel, and where it is.
struct Setup {
    folder: Folder,
    listen: String,
    admin: String,
    file: String,
}

impl Setup {
    /// `traces`: the lines of its section; `listener` and `pool`: more of theirs.
    fn new(name: &str, endpoints: &[&str], traces: &str, listener: &str, pool: &str) -> Setup {
        let (folder, listen, admin) = (Folder::new(name), address(), address());
        let file = folder.file("evenkeel.toml", "");
        let setup = Setup { folder, listen, admin, file };
        setup.write(endpoints, traces, listener, pool);
        setup
    }

    fn write(&self, endpoints: &[&str], traces: &str, listener: &str, pool: &str) {
        let text = format!(
            "[runtime]\nworkers = 1\n[admin]\nhttp = {{ bind = '{}' }}\n{traces}\n[telemetry.access_log]\npath = '{}'\n\
             [listener.web]\nbind = ['{}']\n{listener}\npool = 'shop'\n\
             [pool.shop]\nendpoints = {endpoints:?}\noutlier = 'off'\n{pool}\n",
            self.admin,
            self.log(),
            self.listen,
        );
        std::fs::write(&self.file, text).expect("it can be written");
    }

    fn log(&self) -> String {
        self.folder.0.join("access.jsonl").display().to_string()
    }

    fn run(&self) -> Running {
        Running::start(&["run", "-c", &self.file])
    }

    /// The response to a request with these fields.
    fn ask(&self, path: &str, fields: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nhost: shop.test:8080\r\n{fields}connection: close\r\n\r\n");
        ask(&self.listen, &request).expect("an answer")
    }

    fn metric(&self, name: &str) -> u64 {
        let (_, metrics) = get(&self.admin, "/metrics").expect("an answer");
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)).expect("there is such a metric");
        line.trim().parse().expect("a number")
    }
}

fn traces(collector: &str, more: &str) -> String {
    format!("[telemetry.traces]\nendpoint = 'http://{collector}'\n{more}\n")
}

/// Trace, span and flags of a `traceparent`.
fn taken_apart(traceparent: &str) -> (String, String, String) {
    let parts: Vec<&str> = traceparent.split('-').collect();
    assert_eq!((parts.len(), parts[0]), (4, "00"), "{traceparent}");
    (parts[1].into(), parts[2].into(), parts[3].into())
}

/// A tree is a span of a server, and below it one for each try, within its time. The spans of the tries, in order.
#[track_caller]
fn tries_of(tree: &[Span], parent: &str) -> Vec<Span> {
    let is = |span: &Span, kind: SpanKind| span.kind == i32::from(kind);
    assert_eq!(tree.iter().filter(|span| is(span, SpanKind::Server)).count(), 1, "{tree:?}");
    let server = tree.iter().find(|span| is(span, SpanKind::Server)).expect("it was counted");
    assert_eq!(hex(&server.parent_span_id), parent);
    let tries: Vec<Span> = tree.iter().filter(|span| is(span, SpanKind::Client)).cloned().collect();
    for one in &tries {
        assert_eq!(one.parent_span_id, server.span_id);
        assert!(server.start_time_unix_nano <= one.start_time_unix_nano);
        assert!(one.start_time_unix_nano <= one.end_time_unix_nano);
        assert!(one.end_time_unix_nano <= server.end_time_unix_nano, "{tree:?}");
    }
    let attempts: Vec<usize> =
        tries.iter().filter_map(|one| attribute(one, "evenkeel.attempt")?.parse().ok()).collect();
    assert_eq!(attempts, (1..=tries.len()).collect::<Vec<_>>());
    tries
}

fn has(span: &Span, attributes: &[(&str, &str)]) {
    for (key, value) in attributes {
        assert_eq!(attribute(span, key).as_deref(), Some(*value), "{key} of {span:?}");
    }
}

#[test]
fn a_retried_request_leaves_a_tree_that_its_endpoints_and_its_log_name_alike() {
    let (collector, broken, fine) = (Collector::start(), Backend::always(503), Backend::always(200));
    let retry = "retry = { on = ['503'], budget = 1, budget_floor = 1000 }";
    let on = traces(&collector.addr, "sample = 1\nservice_name = 'edge'");
    let setup = Setup::new("retried", &[&broken.addr, &fine.addr], &on, "request_id = true", retry);
    let mut running = setup.run();
    // Some go to the broken one first.
    let path = (0..1000).map(|n| format!("/{n}?secret=1")).find(|path| {
        assert!(setup.ask(path, "").starts_with("HTTP/1.1 200"));
        broken.fields(path).is_some()
    });
    let path = path.expect("both are picked");
    let seen = [&broken, &fine].map(|one| taken_apart(&one.field(&path, "traceparent").expect("it is told")));
    let trace = &seen[0].0;
    let tree = collector.tree(trace, 3);
    let tries = tries_of(&tree, "");
    assert_eq!(tree.len(), 3);
    for (one, (of, span, flags)) in tries.iter().zip(&seen) {
        assert_eq!((of, span, &**flags), (trace, &hex(&one.span_id), "03"));
    }
    let (ip, port) = broken.addr.rsplit_once(':').expect("a port");
    let first = [("evenkeel.cause", "status 503"), ("error.type", "503"), ("http.response.status_code", "503")];
    has(&tries[0], &first);
    has(&tries[0], &[("server.address", ip), ("server.port", port), ("evenkeel.endpoint", &broken.addr)]);
    has(&tries[0], &[("evenkeel.pool", "shop"), ("evenkeel.pick.how", "picked"), ("http.request.method", "GET")]);
    assert_eq!(attribute(&tries[0], "http.request.resend_count"), None);
    has(&tries[1], &[("evenkeel.cause", "answered"), ("http.request.resend_count", "1")]);
    has(&tries[1], &[("http.response.status_code", "200"), ("evenkeel.endpoint", &fine.addr)]);
    assert!(tries[0].status.as_ref().is_some_and(|status| status.code == 2) && tries[1].status.is_none());
    let server = tree.iter().find(|span| span.parent_span_id.is_empty()).expect("the first");
    let path_alone = path.split('?').next().expect("a path");
    has(server, &[("url.path", path_alone), ("url.scheme", "http"), ("server.address", "shop.test")]);
    has(server, &[("server.port", "8080"), ("http.response.status_code", "200"), ("network.protocol.version", "1.1")]);
    has(server, &[("client.address", "127.0.0.1"), ("evenkeel.tries", "2"), ("evenkeel.request_id", trace)]);
    assert!(server.name.starts_with("GET "), "{}", server.name);
    assert_eq!(collector.resource("service.name"), Some(Value::StringValue("edge".into())));
    assert_eq!(collector.resource("process.pid"), Some(Value::IntValue(running.pid().into())));
    // Its id, which clients see, is the same, and so is that of the log.
    assert_eq!(fine.field(&path, "x-request-id").as_ref(), Some(trace));
    running.signal(Signal::TERM);
    assert_eq!(running.code(), Some(0));
    let log = std::fs::read_to_string(setup.log()).expect("there is a log");
    let line = log.lines().find(|line| line.contains(&format!("\"path\":\"{path}\""))).expect("one for each");
    assert!(line.contains(&format!("\"trace_id\":\"{trace}\"")), "{line}");
}

#[test]
fn both_copies_of_a_hedged_request_have_spans_of_their_own() {
    let (collector, came) = (Collector::start(), Arc::<AtomicUsize>::default());
    let backend = || {
        let came = came.clone();
        Backend::start(move |head| {
            if !head.starts_with("get /slow ") {
                std::thread::sleep(Duration::from_millis(10));
                return Some(response(200));
            }
            if came.fetch_add(1, SeqCst) == 0 {
                eventually("the second copy", || (came.load(SeqCst) > 1).then_some(()));
                // Later than the other's answer, at which it is given up.
                std::thread::sleep(Duration::from_millis(500));
            }
            Some(response(200))
        })
    };
    let all = [backend(), backend()];
    let endpoints = all.each_ref().map(|one| &*one.addr);
    let hedging = "retry = { attempts = 0, hedge_after = 'p95', hedge_budget = 1 }";
    let setup = Setup::new("hedged", &endpoints, &traces(&collector.addr, "sample = 1"), "", hedging);
    let _running = setup.run();
    // As many latencies as make a percentile.
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| (0..20).for_each(|_| assert!(setup.ask("/", "").starts_with("HTTP/1.1 200"))));
        }
    });
    assert!(setup.ask("/slow", "").starts_with("HTTP/1.1 200"));
    let seen: Vec<_> = all.iter().filter_map(|one| one.field("/slow", "traceparent")).collect();
    assert_eq!(seen.len(), 2, "a copy for each");
    let mut seen: Vec<_> = seen.iter().map(|one| taken_apart(one)).collect();
    let tries = tries_of(&collector.tree(&seen[0].0, 3), "");
    let of = |name: &str| tries.iter().find(|one| attribute(one, "evenkeel.cause").as_deref() == Some(name));
    let (first, second) = (of("overtaken").expect("the first"), of("answered").expect("the second"));
    has(second, &[("evenkeel.pick.how", "hedge"), ("http.request.resend_count", "1"), ("evenkeel.attempt", "2")]);
    has(first, &[("evenkeel.pick.how", "picked"), ("error.type", "overtaken"), ("evenkeel.attempt", "1")]);
    let mut spans = [first, second].map(|span| hex(&span.span_id)).to_vec();
    spans.sort();
    seen.sort_by(|a, b| a.1.cmp(&b.1));
    assert_eq!(seen.iter().map(|one| &one.1).collect::<Vec<_>>(), spans.iter().collect::<Vec<_>>());
    assert_eq!(seen[0].0, seen[1].0);
}

#[test]
fn what_a_client_decided_holds_and_its_context_goes_on() {
    let (collector, backend) = (Collector::start(), Backend::always(200));
    let on = traces(&collector.addr, "sample = 0\nformats = ['w3c']");
    let setup = Setup::new("parents", &[&backend.addr], &on, "", "");
    let running = setup.run();
    let told = |path: &str| taken_apart(&backend.field(path, "traceparent").expect("it is told"));

    setup.ask("/yes", &format!("traceparent: 00-{TRACE}-{PARENT}-01\r\ntracestate: a=b,c=d\r\n"));
    let tries = tries_of(&collector.tree(TRACE, 2), PARENT);
    assert_eq!(told("/yes"), (TRACE.into(), hex(&tries[0].span_id), "01".into()));
    assert_eq!(backend.field("/yes", "tracestate").as_deref(), Some("a=b,c=d"));

    // Nothing is to be added, so nothing is touched, but for the names that the test makes lower case.
    let fields = format!("TraceParent: 00-{TRACE}-{PARENT}-00\r\ntracestate: a=b\r\nb3: 0\r\n");
    setup.ask("/no", &fields);
    let lines = backend.fields("/no").expect("it came");
    assert!(fields.to_lowercase().lines().all(|line| lines.iter().any(|other| other == line)), "{lines:?}");

    // One that is none is replaced, and nobody has decided.
    setup.ask("/bad", &format!("traceparent: 00-{TRACE}-{PARENT}\r\ntracestate: a=b\r\n"));
    let (trace, _, flags) = told("/bad");
    assert!(trace != TRACE && flags == "02", "{trace} {flags}");
    assert_eq!(backend.field("/bad", "tracestate"), None);
    setup.ask("/none", "");
    assert_eq!(told("/none").2, "02");

    let other = "00000000000000010000000000000002";
    setup.ask("/b3", &format!("b3: {other}-{PARENT}-1\r\n"));
    let tries = tries_of(&collector.tree(other, 2), PARENT);
    let span = hex(&tries[0].span_id);
    assert_eq!(backend.field("/b3", "b3"), Some(format!("{other}-{span}-1")));
    assert_eq!(told("/b3"), (other.into(), span, "01".into()));

    let short = "48485a3953bb6124";
    setup.ask(
        "/multi",
        &format!("X-B3-TraceId: {short}\r\nX-B3-SpanId: {PARENT}\r\nX-B3-Flags: 1\r\nX-B3-ParentSpanId: {short}\r\n"),
    );
    let tries = tries_of(&collector.tree(&format!("{short:0>32}"), 2), PARENT);
    let field = |name: &str| backend.field("/multi", name);
    assert_eq!((field("x-b3-traceid").as_deref(), field("x-b3-spanid")), (Some(short), Some(hex(&tries[0].span_id))));
    assert_eq!((field("x-b3-flags").as_deref(), field("x-b3-parentspanid")), (Some("1"), None));
    assert_eq!(collector.spans(), 6, "no request left spans that nobody wanted");
    drop(running);

    // Strangers begin a trace of their own.
    let on = traces(&collector.addr, "sample = 1\nparents = 'trusted'\nformats = ['b3multi']");
    setup.write(&[&backend.addr], &on, "", "");
    let _running = setup.run();
    setup.ask("/stranger", &format!("traceparent: 00-{TRACE}-{PARENT}-01\r\ntracestate: a=b\r\n"));
    let (trace, span, _) = told("/stranger");
    assert_ne!(trace, TRACE);
    assert_eq!(hex(&tries_of(&collector.tree(&trace, 2), "")[0].span_id), span);
    assert_eq!(
        backend.field("/stranger", "x-b3-spanid"),
        Some(span),
        "in the format that is wanted, and in that which came"
    );
    assert_eq!(backend.field("/stranger", "tracestate"), None);
}

#[test]
fn off_goes_on_untouched_and_a_reload_turns_it_on_and_off() {
    let (collector, backend) = (Collector::start(), Backend::always(200));
    let setup = Setup::new("off", &[&backend.addr], "", "", "");
    let running = setup.run();
    let fields = format!("traceparent: nonsense\r\ntracestate: a=b\r\nb3: {TRACE}-{PARENT}-1\r\nx-b3-sampled: ?\r\n");
    let untouched = |path: &str| {
        setup.ask(path, &fields);
        let lines = backend.fields(path).expect("it came");
        fields.lines().all(|line| lines.iter().any(|other| other == line))
    };
    assert!(untouched("/off"));
    let reload = |traces: &str, changes: usize| {
        setup.write(&[&backend.addr], traces, "", "");
        running.signal(Signal::HUP);
        let applied = || running.said().matches("; changed: telemetry").count();
        eventually("the reload", || (applied() == changes).then_some(()));
    };
    reload(&traces(&collector.addr, "sample = 0.5"), 1);
    assert!(!untouched("/on"));
    tries_of(&collector.tree(TRACE, 2), PARENT);
    reload("", 2);
    assert!(untouched("/off-again"));
    reload(&traces(&collector.addr, "sample = 1"), 3);
    assert!(!untouched("/on-again"));
    collector.tree(TRACE, 4);
}

#[test]
fn a_dead_collector_delays_no_request_and_is_told_of_once() {
    let (backend, dead) = (Backend::always(200), address());
    let setup = Setup::new("dead", &[&backend.addr], &traces(&dead, "sample = 1"), "", "");
    let running = setup.run();
    let mut client = BufReader::new(TcpStream::connect(&setup.listen).expect("it listens"));
    // More than may wait, and than one batch takes.
    for _ in 0..6000 {
        client.get_mut().write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").expect("it is open");
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            assert!(client.read_line(&mut line).expect("an answer") > 0);
        }
    }
    eventually("requests that found no room", || {
        (setup.metric("evenkeel_traces_requests_dropped_total ") > 0).then_some(())
    });
    let says = |what: &str| running.said().matches(what).count();
    eventually("a word of it", || (says("cannot send spans") == 1).then_some(()));
    let collector = Collector::at(&dead);
    eventually("those that waited", || (setup.metric("evenkeel_traces_spans_exported_total ") > 0).then_some(()));
    eventually("a word of it", || (says("accepts spans again") == 1).then_some(()));
    assert!(collector.spans() > 0);
    assert_eq!(says("cannot send spans"), 1, "{}", running.said());
    // One that does not want spans is no reason to keep them.
    collector.answers(400);
    eventually("refusals", || {
        setup.ask("/", "");
        let refused = "evenkeel_traces_spans_dropped_total{reason=\"refused\"} ";
        (setup.metric(refused) > 0).then_some(())
    });
    eventually("a word of it", || (says("refused spans: 400") == 1).then_some(()));
}

#[test]
fn a_collector_over_tls_gets_the_fields_that_it_wants() {
    if !installed(&["openssl"]) {
        return;
    }
    let (collector, backend, front) = (Collector::start(), Backend::always(200), address());
    let folder = Folder::new("collector");
    let (ip, _) = front.rsplit_once(':').expect("a port");
    let (cert, key) = (folder.0.join("c.pem").display().to_string(), folder.0.join("c.key").display().to_string());
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=collector", "-addext", &format!("subjectAltName=IP:{ip}"), "-keyout", &key, "-out", &cert])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .output()
        .expect("openssl can be started");
    assert!(made.status.success(), "{}", text(&made.stderr));
    let tls = folder.file(
        "tls.toml",
        &format!(
            "[listener.web]\nbind = ['{front}']\ntls = {{ certificates = [{{ cert = '{cert}', key = '{key}' }}] }}\n\
             [pool.web]\nendpoints = ['{}']\n",
            collector.addr
        ),
    );
    let _front = Running::start(&["run", "-c", &tls]);
    let secret = folder.file("headers", "Authorization: Bearer xyz\n");
    let on = format!(
        "[telemetry.traces]\nendpoint = 'https://{front}/otlp'\nsample = 1\nca = '{cert}'\nheaders_file = '{secret}'"
    );
    let setup = Setup::new("over-tls", &[&backend.addr], &on, "", "");
    let _running = setup.run();
    setup.ask("/", "");
    eventually("its spans", || (collector.spans() == 2).then_some(()));
    let head = collector.heads().remove(0);
    assert!(head.starts_with("post /otlp/v1/traces http/1.1\r\n"), "{head}");
    assert!(head.contains("authorization: bearer xyz\r\n") && head.contains("content-type: application/x-protobuf"));
}

#[test]
fn messages_of_http2_are_told_of_alike_on_both_sides() {
    if !installed(&["curl"]) {
        return;
    }
    let (collector, broken, fine) = (Collector::start(), Backend::always(503), Backend::always(200));
    // Each behind an evenkeel that speaks HTTP/2, and leaves the fields alone.
    let front = |name: &str, of: &Backend| Setup::new(name, &[&of.addr], "", "h2c = true", "");
    let fronts = [front("h2-broken", &broken), front("h2-fine", &fine)];
    let _fronts = fronts.each_ref().map(Setup::run);
    let retry = "protocol = 'h2'\nretry = { on = ['503'], budget = 1, budget_floor = 1000 }";
    let endpoints = fronts.each_ref().map(|one| &*one.listen);
    let on = traces(&collector.addr, "sample = 1\nformats = ['w3c', 'b3']");
    let setup = Setup::new("h2", &endpoints, &on, "h2c = true", retry);
    let _running = setup.run();
    let path = (0..1000).map(|n| format!("/{n}")).find(|path| {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--noproxy", "*", "--max-time", "20", "--http2-prior-knowledge", "-o", "/dev/null"]);
        let done =
            curl.args(["-w", "%{http_code} %{http_version}", &format!("http://{}{path}", setup.listen)]).output();
        assert_eq!(text(&done.expect("curl can be started").stdout), "200 2");
        broken.fields(path).is_some()
    });
    let path = path.expect("both are picked");
    let seen = [&broken, &fine].map(|one| taken_apart(&one.field(&path, "traceparent").expect("it is told")));
    let tree = collector.tree(&seen[0].0, 3);
    let tries = tries_of(&tree, "");
    for ((one, (_, span, _)), backend) in tries.iter().zip(&seen).zip([&broken, &fine]) {
        assert_eq!(span, &hex(&one.span_id));
        assert_eq!(backend.field(&path, "b3"), Some(format!("{}-{span}-1", seen[0].0)));
        assert_eq!(backend.heads().iter().filter(|head| head.contains(&**span)).count(), 1);
    }
    has(&tries[0], &[("evenkeel.cause", "status 503")]);
    let server = tree.iter().find(|span| span.parent_span_id.is_empty()).expect("the first");
    has(server, &[("network.protocol.version", "2")]);
}
