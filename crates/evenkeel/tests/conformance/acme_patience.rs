//! An authority is given the time that it takes, and left alone for as long as it wants: Pebble, behind a proxy that makes it slow,
//! or has it ask for a pause.

use crate::acme::{Authority, Setting};
use crate::files::Certificate;
use crate::support::{Folder, address, eventually};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Time that the authority works at an order. A client that asks after pauses that double, for 90 s in all, asks last before that.
const WORKS: Duration = Duration::from_secs(40);

const NAME: &str = "a.evenkeel.example";

/// A proxy between evenkeel and the authority. Listens until the process of the test ends.
struct Between {
    listen: String,
    inner: String,
    /// Start of the authority's work at an order.
    began: Mutex<Option<Instant>>,
    is_slow: bool,
    is_limited: AtomicBool,
    /// Orders that the authority made, or that were refused for its sake.
    orders: AtomicUsize,
    ca: String,
}

impl Between {
    fn start(folder: &Folder, listen: &str, inner: &str, is_slow: bool) -> Arc<Between> {
        let certificate = Certificate::make(folder, "between", &[listen]);
        let chain = CertificateDer::pem_file_iter(&certificate.cert).expect("a file").map(|one| one.expect("one"));
        let key = PrivateKeyDer::from_pem_file(&certificate.key).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("its own versions")
            .with_no_client_auth()
            .with_single_cert(chain.collect(), key)
            .expect("a certificate and its key");
        let (began, is_limited, orders) = (Mutex::default(), AtomicBool::default(), AtomicUsize::default());
        let (listen, inner) = (listen.to_string(), inner.to_string());
        let between = Arc::new(Between { began, is_slow, is_limited, orders, ca: certificate.ca, listen, inner });
        let (listener, config) = (TcpListener::bind(&between.listen).expect("an address of ours"), Arc::new(config));
        let this = between.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (this, stream, config) = (this.clone(), stream.expect("a client"), config.clone());
                // A client may be killed meanwhile.
                std::thread::spawn(move || _ = this.serve(stream, config));
            }
        });
        between
    }

    /// Serves one request, as evenkeel has a connection for each.
    fn serve(&self, stream: TcpStream, config: Arc<ServerConfig>) -> Option<()> {
        let mut stream = BufReader::new(StreamOwned::new(ServerConnection::new(config).ok()?, stream));
        let (mut head, mut length) = (Vec::new(), 0);
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).ok().filter(|n| *n > 0)?;
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            head.push(line);
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).ok()?;
        let mut words = head.first()?.split(' ');
        let answer = self.answer(words.next()?, words.next()?, &body)?;
        stream.get_mut().write_all(&answer).ok()?;
        stream.get_mut().conn.send_close_notify();
        stream.get_mut().flush().ok()
    }

    fn answer(&self, method: &str, path: &str, body: &[u8]) -> Option<Vec<u8>> {
        let is_order = path.contains("order-plz");
        if is_order && self.is_limited.load(SeqCst) {
            self.orders.fetch_add(1, SeqCst);
            let problem =
                "{\"type\":\"urn:ietf:params:acme:error:rateLimited\",\"detail\":\"too many\",\"status\":429}";
            let length = problem.len();
            return Some(
                format!(
                    "HTTP/1.1 429 Too Many Requests\r\nretry-after: 100000\r\ncontent-type: application/problem+json\r\n\
                     content-length: {length}\r\nconnection: close\r\n\r\n{problem}"
                )
                .into(),
            );
        }
        let (head, mut content) = self.ask(method, path, body)?;
        // Pebble rejects one nonce in twenty; the client then repeats its request.
        if is_order && head.split(' ').nth(1) == Some("201") {
            self.orders.fetch_add(1, SeqCst);
        }
        if path.contains("finalize") {
            self.began.lock().expect("nothing panics with it").get_or_insert_with(Instant::now);
        }
        let mut headers: Vec<&str> = head.lines().filter(|line| is_passed_on(line)).collect();
        if let Ok(mut order) = serde_json::from_slice::<Value>(&content)
            && order.get("finalize").is_some()
            && order["status"] == "valid"
            && self.works()
        {
            order["status"] = "processing".into();
            content = order.to_string().into();
            headers.retain(|line| !line.to_ascii_lowercase().starts_with("retry-after"));
        }
        let mut answer = format!("{}\r\n", head.lines().next()?).into_bytes();
        headers.iter().for_each(|line| answer.extend_from_slice(format!("{line}\r\n").as_bytes()));
        answer.extend_from_slice(format!("content-length: {}\r\nconnection: close\r\n\r\n", content.len()).as_bytes());
        answer.extend_from_slice(if method == "HEAD" { &[] } else { &content });
        Some(answer)
    }

    fn works(&self) -> bool {
        let began = *self.began.lock().expect("nothing panics with it");
        self.is_slow && began.is_some_and(|began| began.elapsed() < WORKS)
    }

    /// Returns the answer of the authority: its head and its body.
    fn ask(&self, method: &str, path: &str, body: &[u8]) -> Option<(String, Vec<u8>)> {
        let mut curl = Command::new("curl");
        curl.args(["-sSki", "--http1.1", "--noproxy", "*", "--max-time", "20", "-H"])
            .arg(format!("Host: {}", self.listen));
        match method {
            "HEAD" => curl.arg("--head"),
            "POST" => curl.args(["-H", "Content-Type: application/jose+json", "--data-binary", "@-"]),
            _ => &mut curl,
        };
        curl.arg(format!("https://{}{path}", self.inner));
        let mut asked = curl.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        asked.stdin.take()?.write_all(body).ok()?;
        let said = asked.wait_with_output().ok()?.stdout;
        let end = said.windows(4).position(|four| four == b"\r\n\r\n")?;
        Some((String::from_utf8_lossy(&said[..end]).into_owned(), said[end + 4..].to_vec()))
    }
}

fn is_passed_on(line: &str) -> bool {
    let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
    ["content-type", "location", "link", "replay-nonce", "retry-after"].contains(&&*name)
}

fn begin(name: &str, is_slow: bool) -> (Setting, Authority, Arc<Between>) {
    let (setting, inner) = (Setting::new(name), address());
    let authority = Authority::start(&setting.folder, &inner, setting.ports(), 7_776_000, &[]);
    let between = Between::start(&setting.folder, &setting.authority, &inner, is_slow);
    (setting, authority, between)
}

#[test]
#[ignore = "`make conformance` runs it"]
fn an_authority_that_works_for_long_is_waited_for_across_a_restart() {
    crate::judges!("pebble", "pebble-challtestsrv", "openssl", "curl");
    for restarts in [false, true] {
        let (setting, _authority, between) = begin(&format!("acme-slow-{restarts}"), true);
        let mut running = setting.run("http-01", &[NAME], &between.ca);
        if restarts {
            eventually("work at the order", || between.works().then_some(()));
            drop(running);
            running = setting.run("http-01", &[NAME], &between.ca);
        }
        let shown = setting.issued(NAME, &running);
        assert!(shown.contains(&format!("DNS:{NAME}")), "{shown}");
        assert_eq!(between.orders.load(SeqCst), 1, "restarts: {restarts}\n{}", running.said());
        assert_eq!(setting.metric("evenkeel_acme_issued_total "), 1.0);
        assert_eq!(running.said().contains("resuming an earlier order"), restarts, "{}", running.said());
    }
}

#[test]
#[ignore = "`make conformance` runs it"]
fn an_authority_that_asks_for_a_pause_is_left_alone_across_restarts() {
    crate::judges!("pebble", "pebble-challtestsrv", "openssl", "curl");
    let (setting, _authority, between) = begin("acme-pause", false);
    between.is_limited.store(true, SeqCst);
    for round in 0..5 {
        let running = setting.run("http-01", &[NAME], &between.ca);
        let due = || {
            let due = setting.metric("evenkeel_acme_due_timestamp_seconds{name=\"a.evenkeel.example\"} ");
            let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later").as_secs_f64();
            (due > now + 90_000.0).then_some(())
        };
        eventually("a pause", due);
        assert_eq!(between.orders.load(SeqCst), 1, "round {round}: {}", running.said());
    }
}
