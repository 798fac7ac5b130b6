//! Error pages of a route or listener: used for the proxy's own responses only.

use crate::support::log::Log;
use crate::support::{Endpoint, Proxy, noise};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A file that is removed on drop.
struct Page(PathBuf);

impl Page {
    fn new(content: &[u8]) -> Page {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("evenkeel-page-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let page = Page(std::env::temp_dir().join(name));
        page.says(content);
        page
    }

    fn says(&self, content: &[u8]) {
        std::fs::write(&self.0, content).expect("the temporary folder can be written");
    }

    /// Entry of an `error_pages` list. `more`: other keys, each after a comma.
    fn for_status(&self, status: &str, more: &str) -> String {
        format!("{{ status = [{status}], file = {:?}{more} }}, ", self.0.to_str().expect("a name of ours"))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A configuration with host `own`, whose route has pages, and `other` without; neither has a usable endpoint.
fn config(listener: &str, route: &str, behind: &str) -> String {
    let listener = if listener.is_empty() { String::new() } else { format!("error_pages = [{listener}]\n") };
    format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\n{listener}\
         [pool.p]\nendpoints = [{{ addr = \"127.0.0.1:2\", drain = true }}]\n\
         [[route]]\npool = \"p\"\nmatch = {{ host = [\"own\"] }}\nerror_pages = [{route}]\n\
         [[route]]\npool = \"p\"\nmatch = {{ host = [\"other\"] }}\n{behind}"
    )
}

#[test]
fn the_page_of_the_route_goes_before_that_of_the_listener_and_of_fewer_statuses_before_more() {
    let pages = ["all of 5xx", "just 503", "of the route", "{}", "of requests"].map(|text| Page::new(text.as_bytes()));
    let [all, just, of_route, json, of_requests] = &pages;
    let log = Log::new();
    let listener = all.for_status("\"5xx\"", "")
        + &just.for_status("503", ", type = \"text/plain\"")
        + &of_requests.for_status("\"400..=404\", 505", "");
    let route = of_route.for_status("\"502..=504\"", "") + &json.for_status("408", ", type = \"application/json\"");
    let proxy = Proxy::start(&config(&listener, &route, &log.config()));
    let html = "text/html; charset=utf-8";
    for (request, status, media_type, body) in [
        ("GET / HTTP/1.1\r\nHost: own\r\n\r\n", 503, html, "of the route"),
        ("GET / HTTP/1.1\r\nHost: other\r\n\r\n", 503, "text/plain", "just 503"),
        ("GET / HTTP/1.1\r\nHost: none\r\n\r\n", 404, html, "of requests"),
        ("GET / HTTP/1.1\r\nA: b\n\r\n", 400, html, "of requests"),
        ("GET / HTTP/2.0\r\nHost: own\r\n\r\n", 505, html, "of requests"),
        ("CONNECT / HTTP/1.1\r\nHost: own\r\n\r\n", 501, html, "all of 5xx"),
    ] {
        let response = proxy.client().send(request).response();
        assert_eq!((response.status(), response.body_text().as_str()), (status, body), "{request}");
        assert_eq!(response.field("content-type"), Some(media_type));
        assert_eq!(response.field("content-length"), Some(body.len().to_string().as_str()));
    }
    // The client's connection stays open, and HEAD gets the length without the body.
    let mut client = proxy.client();
    let head = client.send("HEAD / HTTP/1.1\r\nHost: own\r\n\r\n").head();
    assert!(head.starts_with("HTTP/1.1 503 ") && head.contains("Content-Length: 12\r\n"), "{head}");
    assert_eq!(client.send("GET / HTTP/1.1\r\nHost: own\r\n\r\n").response().body_text(), "of the route");
    let lines = log.lines(proxy);
    assert!(lines.iter().all(|line| line["reason"].is_string()), "{lines:?}");
}

#[test]
fn a_response_of_an_endpoint_passes_as_it_is() {
    let page = Page::new(b"of evenkeel");
    let endpoint = Endpoint::answering(|_| b"HTTP/1.1 503 Busy\r\nContent-Length: 3\r\n\r\nown".to_vec());
    let pages = format!("error_pages = [{}]", page.for_status("\"5xx\"", ""));
    let proxy = Proxy::with(&[endpoint.addr], &pages, "", "");
    assert_eq!(proxy.client().get("/").body_text(), "own");
}

#[test]
fn the_largest_page_arrives_whole() {
    let content = noise(256 * 1024);
    let page = Page::new(&content);
    let proxy = Proxy::start(&config("", &page.for_status("503", ""), ""));
    let mut client = proxy.client();
    for _ in 0..2 {
        let response = client.send("GET / HTTP/1.1\r\nHost: own\r\n\r\n").response();
        assert!(response.body == content, "{} bytes of {}", response.body.len(), content.len());
    }
}

#[test]
fn a_reload_reads_a_page_again_and_one_without_the_page_changes_nothing() {
    let page = Page::new(b"before");
    let text = config("", &page.for_status("503", ""), "");
    let mut proxy = Proxy::start(&text);
    let mut client = proxy.client();
    let mut told = || client.send("GET / HTTP/1.1\r\nHost: own\r\n\r\n").response().body_text();
    page.says(b"later");
    assert_eq!(told(), "before", "it is in memory");
    proxy.reload(&text).expect("the page is there");
    assert_eq!(told(), "later");
    page.says(&[b'x'; 256 * 1024 + 1]);
    let error = proxy.reload(&text).expect_err("it is too large").to_string();
    assert!(error.contains("error page ") && error.contains("the limit of 262144 bytes"), "{error}");
    let _ = std::fs::remove_file(&page.0);
    let error = proxy.reload(&text).expect_err("it is gone").to_string();
    assert!(error.contains(page.0.to_str().expect("a name of ours")), "{error}");
    assert_eq!(told(), "later");
}
