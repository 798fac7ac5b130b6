//! Clients of the admin listener that hold what others need: connections without a request, answers that are not read, streams, and
//! requests in the name of another host.

use crate::support::{DEADLINE, Endpoint, Folder, Running, address, ask, evenkeel, eventually, get, text};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

struct Setup {
    admin: String,
    file: String,
    _folder: Folder,
    _endpoint: Endpoint,
}

impl Setup {
    fn new(name: &str, keys: &str) -> Setup {
        let (folder, endpoint, admin) = (Folder::new(name), Endpoint::start("one"), address());
        let text = format!(
            "[admin]\nbind = 'unix:{}'\nhttp = {{ bind = '{admin}'{keys} }}\n[listener.web]\nbind = ['{}']\n\
             [pool.web]\nendpoints = ['{}']\n",
            folder.0.join("admin.sock").display(),
            address(),
            endpoint.addr
        );
        Setup { file: folder.file("evenkeel.toml", &text), admin, _folder: folder, _endpoint: endpoint }
    }

    fn run(&self) -> Running {
        Running::start(&["run", "-c", &self.file])
    }

    /// Connections that sent this and read nothing.
    fn hold(&self, many: usize, request: &str) -> Vec<TcpStream> {
        let one = |_| {
            let mut stream = TcpStream::connect(&self.admin).expect("it listens");
            // What does not fit any more stays unsent; one that was replaced may be gone already.
            stream.set_nonblocking(true).expect("a socket");
            let _ = stream.write(request.as_bytes());
            stream
        };
        (0..many).map(one).collect()
    }

    /// Returns the time that the slowest of these took, each of which has to be answered.
    #[track_caller]
    fn innocent(&self) -> Duration {
        let mut slowest = Duration::ZERO;
        for path in ["/livez", "/readyz", "/metrics", "/v1/status"] {
            let began = Instant::now();
            let (status, _) = get(&self.admin, path).expect("an answer");
            assert_eq!(status, 200, "{path}");
            slowest = slowest.max(began.elapsed());
        }
        let began = Instant::now();
        let done = evenkeel(&["status", "-c", &self.file]);
        assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
        slowest.max(began.elapsed())
    }

    fn rejected(&self, reason: &str) -> u64 {
        let (_, metrics) = get(&self.admin, "/metrics").expect("an answer");
        let line = format!("evenkeel_admin_rejected_total{{socket=\"http\",reason=\"{reason}\"}} ");
        let value = metrics.lines().find_map(|line_of| line_of.strip_prefix(line.as_str()));
        value.expect("there is such a series").trim().parse().expect("a number")
    }
}

/// Far more than an answer takes, and less than any timeout of the listener: waiting for one of these fails.
const SOON: Duration = Duration::from_secs(10);

#[test]
fn clients_that_hold_connections_shut_no_one_out() {
    let setup = Setup::new("admin-hold", "");
    let _running = setup.run();
    let metrics = "GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(400);
    let requests = [
        // Nothing, half a head, a body that does not come, and answers that are not read.
        "",
        "GET /metrics HTTP/1.1\r\nhost: local",
        "POST /v1/config HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9999\r\n\r\n",
        &metrics,
        // Streams, which end by themselves only.
        "GET /v1/events HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n",
        "GET /v1/tap HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n",
        "GET /ui HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n",
        "GET /v1/tap?wait_ms=10000 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    ];
    let mut held = Vec::new();
    for request in requests {
        // Twice as many as there are places; those before are held too.
        held.push(setup.hold(128, request));
        let slowest = setup.innocent();
        assert!(slowest < SOON, "{slowest:?} beside {:?}", request.lines().next());
    }
    let rejected = ["replaced", "streams"].map(|reason| setup.rejected(reason));
    assert!(rejected.iter().all(|count| *count > 0), "{rejected:?}");
}

#[test]
fn streams_have_a_limit_that_a_metric_counts() {
    let setup = Setup::new("admin-streams", ", streams = 2");
    let _running = setup.run();
    let follow = || {
        let mut stream = TcpStream::connect(&setup.admin).expect("it listens");
        stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
        let request = "GET /v1/events HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut status = [0; 12];
        stream.read_exact(&mut status).expect("an answer");
        (text(&status[9..]), stream)
    };
    let open = [follow(), follow()];
    assert_eq!(open.each_ref().map(|(status, _)| status.as_str()), ["200", "200"]);
    assert_eq!(follow().0, "503");
    assert_eq!(setup.rejected("streams"), 1);
    let (_, metrics) = get(&setup.admin, "/metrics").expect("an answer");
    assert!(metrics.contains("evenkeel_admin_streams{socket=\"http\"} 2"), "{metrics}");
    drop(open);
    eventually("room for a stream", || (follow().0 == "200").then_some(()));
}

#[test]
fn every_path_wants_one_host_that_is_this_one() {
    let setup = Setup::new("admin-host", ", hosts = ['admin.example']");
    let _running = setup.run();
    let status = |path: &str, version: &str, hosts: &str| {
        let request = format!("GET {path} HTTP/{version}\r\n{hosts}connection: close\r\n\r\n");
        ask(&setup.admin, &request).expect("an answer").get(9..12).map(str::to_owned).expect("a status")
    };
    let (_, port) = setup.admin.rsplit_once(':').expect("a port");
    for path in ["/livez", "/readyz", "/metrics", "/v1/status", "/ui", "/ui/style.css", "/none"] {
        let good = if path == "/none" { "404" } else { "200" };
        for (hosts, want) in [
            (format!("host: {}\r\n", setup.admin), good),
            (format!("host: localhost:{port}\r\n"), good),
            ("host: admin.example\r\n".to_owned(), good),
            (format!("host: evil.example:{port}\r\n"), "403"),
            ("host: localhost\r\nhost: localhost\r\n".to_owned(), "400"),
            ("host: localhost\r\nhost: evil.example\r\n".to_owned(), "400"),
            (String::new(), "400"),
        ] {
            assert_eq!(status(path, "1.1", &hosts), want, "{path} {hosts:?}");
        }
        assert_eq!(status(path, "1.0", ""), good, "{path}: an old health check sends none");
    }
    assert!(setup.rejected("host") > 0);
}
