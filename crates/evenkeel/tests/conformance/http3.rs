//! HTTP/3 with a browser: announced by `Alt-Svc` over TCP, and without a connection over TCP before.

use crate::browser::driver::{Driver, open_with};
use crate::files::{Certificate, said};
use crate::support::{Endpoint, Folder, Running, within};
use evenkeel_peers::{find, installed, own_addr};
use std::mem::ManuallyDrop;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

/// An evenkeel in front of an endpoint, with a log.
struct Site {
    folder: Folder,
    addr: SocketAddr,
    /// Hash of the certificate's key, by which browsers trust it.
    spki: String,
    _endpoint: Endpoint,
    _running: Running,
}

impl Site {
    fn start(name: &str) -> Site {
        let (folder, endpoint, addr) = (Folder::new(name), Endpoint::start("page"), own_addr());
        let certificate = Certificate::make(&folder, "front", &[&addr.to_string()]);
        let script = "openssl x509 -in \"$0\" -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64";
        let spki = said(Command::new("bash").args(["-c", script, &certificate.cert])).trim().to_owned();
        let config = format!(
            "[telemetry.access_log]\npath = '{}'\n[listener.web]\nbind = ['{addr}']\nhttp3 = true\ntls = {{ certificates = [{{ cert = '{}', \
             key = '{}' }}] }}\n[pool.web]\nendpoints = ['{}']\n",
            folder.0.join("access.jsonl").display(),
            certificate.cert,
            certificate.key,
            endpoint.addr
        );
        let running = Running::start(&["run", "--config", &folder.file("evenkeel.toml", &config)]);
        Site { folder, addr, spki, _endpoint: endpoint, _running: running }
    }

    fn url(&self) -> String {
        format!("https://{}/page", self.addr)
    }

    /// Arguments with which a browser trusts the certificate, and begins with HTTP/3 at one port. Only at the address of such a
    /// port is a root that it does not know good for HTTP/3.
    fn arguments(&self, port: u16) -> [String; 3] {
        [
            "--enable-quic".to_owned(),
            format!("--ignore-certificate-errors-spki-list={}", self.spki),
            format!("--origin-to-force-quic-on={}:{port}", self.addr.ip()),
        ]
    }

    /// Protocols of the requests for the page so far.
    fn protocols(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.folder.0.join("access.jsonl")).unwrap_or_default();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let pages = lines.filter(|line| line["path"] == "/page");
        pages.filter_map(|line| Some(line["proto"].as_str()?.to_owned())).collect()
    }
}

#[test]
#[ignore = "`make conformance` runs it"]
fn a_browser_that_must_begin_with_http3_does() {
    if !installed(&["chromium", "openssl"]) {
        return;
    }
    let site = Site::start("http3-forced");
    let mut command = Command::new(find("chromium").expect("it is installed"));
    command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"]);
    command.args(site.arguments(site.addr.port()));
    command.arg(format!("--user-data-dir={}", site.folder.0.join("profile").display()));
    let dom = said(command.arg(site.url()));
    assert!(dom.contains("page"), "{dom}");
    let protocols = within(Duration::from_secs(10), || Some(site.protocols()).filter(|all| !all.is_empty()));
    assert_eq!(protocols.unwrap_or_default(), ["HTTP/3"]);
}

#[test]
#[ignore = "`make conformance` runs it"]
fn a_browser_changes_to_http3_after_the_announcement() {
    crate::judges!("chromedriver", "openssl");
    let site = Site::start("http3-announced");
    let (_driver, url) = Driver::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("an event loop");
    runtime.block_on(async {
        let browser = ManuallyDrop::new(open_with(&url, &site.arguments(1)).await);
        for _ in 0..40 {
            browser.goto(site.url()).await.expect("a page");
            if site.protocols().iter().any(|protocol| protocol == "HTTP/3") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        ManuallyDrop::into_inner(browser).quit().await.expect("it ends");
    });
    let protocols = site.protocols();
    assert_eq!(protocols.first().map(String::as_str), Some("HTTP/2"), "the first is over TCP");
    assert_eq!(protocols.last().map(String::as_str), Some("HTTP/3"), "{protocols:?}");
}
