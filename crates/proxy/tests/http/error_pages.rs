//! Error pages of a route or listener: used for the proxy's own responses only.

use crate::support::h2_client::H2Client;
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

/// A proxy whose route has pages, and an endpoint that answers with the status in the path, or not at all.
fn intercepting(route: &str, behind: &str) -> (Endpoint, Proxy) {
    let endpoint = Endpoint::answering(|request| {
        let status = request.line().split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
        match status.parse::<u16>() {
            Ok(status) => format!("HTTP/1.1 {status} X\r\nContent-Length: 3\r\nX-Own: 1\r\n\r\nown").into_bytes(),
            Err(_) => b"no response\r\n\r\n".to_vec(),
        }
    });
    let route = format!("[[route]]\npool = \"web\"\n{route}\n{behind}");
    // The proxy ends first, and with it its connections.
    let proxy = Proxy::with(&[endpoint.addr], "h2c = true", "", &route);
    (endpoint, proxy)
}

#[test]
fn responses_of_endpoints_are_replaced_where_they_are_to_be() {
    let pages = "intercept = [404, \"500-599\"]\nerror_pages = [\n\
        { status = [\"4xx\"], body = \"none\", fields = { X-Path = \"{path}\", X-Status = \"{status}\" } },\n\
        { status = [\"5xx\"], body = \"{}\", type = \"application/json\", send_status = 200 } ]";
    let (_endpoint, proxy) = intercepting(pages, "");
    for (path, status, media_type, body) in [
        ("/200", 200, None, "own"),
        ("/403", 403, None, "own"),
        ("/404", 404, Some("text/plain; charset=utf-8"), "none"),
        ("/503", 200, Some("application/json"), "{}"),
        // One of this proxy, as the endpoint sends none.
        ("/gone", 200, Some("application/json"), "{}"),
    ] {
        let response = proxy.client().get(path);
        assert_eq!((response.status(), &*response.body_text()), (status, body), "{path}");
        assert_eq!(response.field("content-type"), media_type, "{path}");
        assert_eq!(response.field("x-own").is_some(), body == "own", "{path}");
        let is_none = body == "none";
        assert_eq!(response.field("x-path"), is_none.then_some(path), "{path}");
        assert_eq!(response.field("x-status"), is_none.then_some("404"), "{path}");
    }
    let mut client = H2Client::connect(proxy.addr());
    client.get(1, "/404");
    let answer = client.answer(1);
    assert_eq!((answer.status(), &*answer.body_text()), (404, "none"));
}

#[test]
fn an_errorfile_is_sent_with_its_head() {
    let file =
        Page::new(b"HTTP/1.0 599 Busy\r\nCache-Control: no-cache\r\nConnection: close\r\nX-Is: file\r\n\r\nbusy");
    let path = file.0.to_str().expect("a name of ours");
    let (_endpoint, proxy) =
        intercepting(&format!("intercept = [\"5xx\"]\nerror_pages = [{{ status = [503], errorfile = {path:?} }}]"), "");
    let mut client = proxy.client();
    for _ in 0..2 {
        let response = client.get("/503");
        assert_eq!((response.status(), &*response.body_text()), (599, "busy"));
        assert_eq!((response.field("x-is"), response.field("connection")), (Some("file"), None));
    }
    file.says(b"<p>no head</p>");
    let config = format!(
        "[listener.web]\nbind = [\"$BIND\"]\n[pool.web]\nendpoints = [\"127.0.0.1:2\"]\n[[route]]\npool = \"web\"\n\
         error_pages = [{{ status = [503], errorfile = {path:?} }}]"
    );
    let mut proxy = proxy;
    let error = proxy.reload(&config).expect_err("it has no head").to_string();
    assert!(error.contains("no empty line behind its head"), "{error}");
}

#[test]
fn a_pool_sends_the_page_once() {
    let pages = Endpoint::answering(|request| match request.line().split(' ').nth(1) {
        Some("/errors/503.html?x=1") => b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-Page: 1\r\n\r\npage".to_vec(),
        Some("/502") => b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nserved".to_vec(),
        _ => b"HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno".to_vec(),
    });
    let behind = format!("[pool.pages]\nendpoints = [\"{}\"]\n", pages.addr);
    let (endpoint, proxy) = intercepting(
        "intercept = [\"5xx\"]\nerror_pages = [ { status = [\"5xx\"], pool = \"pages\" },\n\
         { status = [503], pool = \"pages\", path = \"/errors/{status}.html?x=1\", fields = { X-More = \"1\" } } ]",
        &behind,
    );
    for (path, status, body, more) in [
        ("/503", 503, "page", Some("1")),
        // Served by the other pool, whose status counts.
        ("/502", 200, "served", None),
        // The other pool fails, too: that is the answer.
        ("/504", 503, "no", None),
    ] {
        let mut client = proxy.client();
        client.send(format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nX-Asked: 1\r\nIf-None-Match: \"a\"\r\nContent-Length: 4\r\n\r\nbody"
        ));
        let response = client.response();
        assert_eq!((response.status(), &*response.body_text()), (status, body), "{path}");
        assert_eq!(response.field("x-more"), more, "{path}");
    }
    assert_eq!((endpoint.seen().len(), pages.seen().len()), (3, 3));
    for asked in pages.seen() {
        assert!(asked.line().starts_with("GET "), "{}", asked.line());
        assert_eq!((asked.field("x-asked"), asked.field("if-none-match")), (Some("1"), None));
        assert!(asked.body_text().is_empty());
    }
    let head = proxy.client().send("HEAD /503 HTTP/1.1\r\nHost: a\r\n\r\n").head();
    assert!(head.starts_with("HTTP/1.1 503 ") && head.contains("Content-Length: 4\r\n"), "{head}");
}

#[test]
fn a_pool_that_sends_no_page_is_a_line_of_text() {
    let behind = "[pool.pages]\nendpoints = [{ addr = \"127.0.0.1:2\", drain = true }]\n";
    let (_endpoint, proxy) =
        intercepting("intercept = [503]\nerror_pages = [{ status = [503], pool = \"pages\" }]", behind);
    let response = proxy.client().get("/503");
    assert_eq!(response.status(), 503);
    let text = response.body_text();
    assert!(text.contains("pool \"pages\" has sent no error page for 503"), "{text}");
    assert_eq!(text.lines().count(), 1);
}

/// A 404 is stored as the endpoint sent it, and each client gets the page.
#[test]
fn a_stored_response_is_intercepted_and_counted_once() {
    let endpoint = Endpoint::answering(|_| {
        b"HTTP/1.1 404 No\r\nCache-Control: max-age=60\r\nContent-Length: 3\r\n\r\nown".to_vec()
    });
    let route = "[[route]]\npool = \"web\"\ncache = true\nintercept = [404]\nerror_pages = [{ status = [404], body = \"page\" }]";
    let proxy = Proxy::with(&[endpoint.addr], "", "", route);
    for _ in 0..3 {
        assert_eq!(proxy.client().get("/a").body_text(), "page");
    }
    assert_eq!(endpoint.seen().len(), 1);
    let metrics = proxy.metrics();
    let line = metrics.lines().find(|line| line.contains("result=\"hit\"")).unwrap_or_default();
    assert!(line.ends_with(" 2"), "{line}");
}

#[test]
fn the_page_of_the_listener_is_for_routes_without_one() {
    let endpoint = Endpoint::answering(|_| b"HTTP/1.1 503 Busy\r\nContent-Length: 3\r\n\r\nown".to_vec());
    let listener = "intercept = [\"5xx\"]\nerror_pages = [{ status = [\"5xx\"], body = \"of the listener\" }]";
    let routes = "[[route]]\nmatch = { prefix = \"/own\" }\npool = \"web\"\nintercept = [503]\n\
                  error_pages = [{ status = [503], body = \"of the route\" }]\n[[route]]\npool = \"web\"\n";
    let proxy = Proxy::with(&[endpoint.addr], listener, "", routes);
    assert_eq!(proxy.client().get("/own").body_text(), "of the route");
    assert_eq!(proxy.client().get("/other").body_text(), "of the listener");
}

#[test]
fn a_page_keeps_the_fields_by_which_a_client_goes_on() {
    let endpoint = Endpoint::answering(|_| {
        b"HTTP/1.1 405 X\r\nAllow: PUT\r\nRetry-After: 7\r\nX-Own: 1\r\nContent-Length: 3\r\n\r\nown".to_vec()
    });
    let users = "ann:$2y$04$bUeub1GoVcOIVEXKSXSHeO4dSoQQKHyFfJbSGubQcLL8CBIY8PQ5G";
    let guarded = |path, page| {
        format!(
            "[[route]]\nmatch = {{ path = \"{path}\" }}\npool = \"web\"\nbasic_auth = {{ users = \"{users}\" }}\n\
             error_pages = [{{ status = [401], {page} }}]\n"
        )
    };
    let routes = guarded("/plain", "body = \"page\"")
        + &guarded("/own", "body = \"page\", fields = { WWW-Authenticate = \"Own\" }")
        + &guarded("/other-status", "body = \"page\", send_status = 404")
        + &guarded("/by-route", "route = \"page\", path = \"/page\"")
        + "[[route]]\nname = \"page\"\nmatch = { path = \"/page\" }\nrespond = { status = 200, body = \"page\" }\n\
           [[route]]\npool = \"web\"\nintercept = [405]\nerror_pages = [{ status = [405], body = \"page\" }]\n";
    let proxy = Proxy::with(&[endpoint.addr], "", "", &routes);
    let challenge = "Basic realm=\"restricted\", charset=\"UTF-8\"";
    for (path, status, expected) in [
        ("/plain", 401, Some(challenge)),
        ("/own", 401, Some("Own")),
        ("/other-status", 404, None),
        ("/by-route", 401, Some(challenge)),
    ] {
        let response = proxy.client().get(path);
        assert_eq!((response.status(), response.body_text().as_str()), (status, "page"), "{path}");
        let lines = response.head.lines().filter(|line| line.to_ascii_lowercase().starts_with("www-authenticate:"));
        assert_eq!((response.field("www-authenticate"), lines.count()), (expected, expected.iter().len()), "{path}");
    }
    let response = proxy.client().get("/");
    assert_eq!((response.status(), response.body_text().as_str()), (405, "page"));
    assert_eq!(
        [response.field("allow"), response.field("retry-after"), response.field("x-own")],
        [Some("PUT"), Some("7"), None]
    );
}
