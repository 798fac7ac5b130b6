//! Answers of other routes: pages of errors from a route, and internal redirects of endpoints.

use crate::support::h2_client::{H2Client, get};
use crate::support::h2_server::H2Server;
use crate::support::log::Log;
use crate::support::message::Message;
use crate::support::{Endpoint, Proxy, noise};
use std::net::SocketAddr;

/// Response as the client got it, over either protocol.
#[derive(Debug)]
struct Got {
    status: u16,
    fields: Vec<(String, String)>,
    body: String,
}

impl Got {
    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }

    fn of(message: &Message) -> Got {
        let fields = message.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Got { status: message.status(), fields, body: message.body_text() }
    }
}

/// Sends a GET with these fields over HTTP/1.1 or HTTP/2.
fn ask(proxy: &Proxy, over: &str, path: &str, fields: &[(&str, &str)]) -> Got {
    if over == "HTTP/2" {
        let mut client = H2Client::connect(proxy.addr());
        client.head(1, &[&get(path), fields].concat(), true);
        let answer = client.answer(1);
        let head = answer.heads.last().cloned().unwrap_or_default();
        return Got { status: answer.status(), fields: head, body: answer.body_text() };
    }
    let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let mut client = proxy.client();
    Got::of(&client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")).response())
}

/// An endpoint of the application: `/503` is a response with this status, `/to/x` one that redirects to `/x` internally.
fn app(request: &Message) -> Vec<u8> {
    let path = request.line().split(' ').nth(1).unwrap_or_default().to_owned();
    if let Some(to) = path.strip_prefix("/to") {
        return format!(
            "HTTP/1.1 201 Made\r\nContent-Length: 3\r\nX-Accel-Redirect: {to}\r\nX-Accel-Limit-Rate: 9\r\nX-Own: 1\r\n\
             Content-Type: text/app\r\nCache-Control: private\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\nown"
        )
        .into_bytes();
    }
    match path.trim_start_matches('/').parse::<u16>() {
        Ok(status) => format!("HTTP/1.1 {status} X\r\nContent-Length: 3\r\nX-Own: 1\r\n\r\nown").into_bytes(),
        Err(_) => b"no response\r\n\r\n".to_vec(),
    }
}

/// An endpoint that sends its pages and files over HTTP/1.1 or HTTP/2. It answers with the method, the target and `Range`.
enum Files {
    H1(Endpoint),
    H2(H2Server),
}

impl Files {
    fn start(protocol: &str) -> Files {
        if protocol == "h2" {
            return Files::H2(H2Server::start(|mut exchange| async move {
                exchange.read().await;
                let request = &exchange.request;
                let range = request.headers().get("range").map(|range| range.to_str().expect("ASCII").to_owned());
                let target = request.uri().path_and_query().expect("a path").to_string();
                let body = format!("{} {target} {}", request.method(), range.unwrap_or_default());
                let body = if request.method() == "HEAD" { String::new() } else { body };
                let fields = [("x-files", "1"), ("content-type", "text/file"), ("set-cookie", "c=3")];
                exchange.reply(200, &fields, body.as_bytes(), &[]).await;
            }));
        }
        Files::H1(Endpoint::answering(|request| {
            let line = request.line().trim_end_matches(" HTTP/1.1").to_owned();
            let body = format!("{line} {}", request.field("range").unwrap_or_default());
            let length = body.len();
            let body = if line.starts_with("HEAD") { "" } else { &body };
            format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nX-Files: 1\r\nContent-Type: text/file\r\nSet-Cookie: c=3\r\n\r\n{body}"
            )
            .into_bytes()
        }))
    }

    fn addr(&self) -> SocketAddr {
        match self {
            Files::H1(endpoint) => endpoint.addr,
            Files::H2(server) => server.addr,
        }
    }
}

const PROTOCOLS: [(&str, &str); 4] = [("HTTP/1.1", "h1"), ("HTTP/1.1", "h2"), ("HTTP/2", "h1"), ("HTTP/2", "h2")];

/// A proxy with a route to the application, a pool of files, and more routes.
fn proxy(files: &Files, protocol: &str, route: &str, behind: &str) -> (Endpoint, Proxy) {
    let app = Endpoint::answering(app);
    let protocol = if protocol == "h2" { "protocol = \"h2\"" } else { "" };
    let behind = format!(
        "[pool.files]\nendpoints = [\"{}\"]\n{protocol}\n\
         [pool.down]\nendpoints = [{{ addr = \"127.0.0.1:2\", drain = true }}]\n\
         [[route]]\nname = \"app\"\npool = \"web\"\n{route}\n{behind}",
        files.addr()
    );
    let proxy = Proxy::with(&[app.addr], "h2c = true", "", &behind);
    (app, proxy)
}

const PAGES: &str = "intercept = [404, \"5xx\"]\n\
    error_pages = { 502 = { route = \"fallback\" }, 503-504 = { route = \"pages\", path = \"/e/{status}?x\", fields = { X-More = \"1\" } },\n\
    404 = { route = \"static\", send_status = 410 }, 500 = { body = \"plain\" } }";
const PAGE_ROUTES: &str = "[[route]]\nname = \"pages\"\ninternal = true\npool = \"files\"\nresponse_headers = { set = { X-Route = \"pages\" } }\n\
     [[route]]\nname = \"fallback\"\npool = \"files\"\nmatch = { host = [\"none\"] }\nrewrite = { prefix = \"/f\" }\n\
     [[route]]\nname = \"static\"\ninternal = true\nrespond = { status = 200, body = \"static\" }\n";

/// A route whose endpoint is not asked.
const DOWN: &str = "[[route]]\nmatch = { prefix = \"/down\" }\npool = \"down\"\n\
    error_pages = { 503 = { route = \"pages\", path = \"/e/{status}?x\" } }\n";

#[test]
fn a_route_sends_the_page_of_an_error() {
    for (client, endpoint) in PROTOCOLS {
        let files = Files::start(endpoint);
        let (_app, proxy) = proxy(&files, endpoint, PAGES, PAGE_ROUTES);
        for (path, status, body, route, more) in [
            ("/200", 200, "own", None, None),
            ("/503", 503, "GET /e/503?x ", Some("pages"), Some("1")),
            ("/504", 504, "GET /e/504?x ", Some("pages"), Some("1")),
            // Served by the other route, whose status counts.
            ("/502?q", 200, "GET /f/502?q ", None, None),
            // An error of this proxy, as the endpoint sends no response.
            ("/gone", 200, "GET /f/gone ", None, None),
            ("/404", 410, "static", None, None),
            ("/500", 500, "plain", None, None),
        ] {
            let got = ask(&proxy, client, path, &[("range", "bytes=0-1"), ("if-none-match", "\"a\"")]);
            let seen = (got.status, &*got.body, got.field("x-route"), got.field("x-more"));
            assert_eq!(seen, (status, body, route, more), "{client} {endpoint} {path}: {got:?}");
            assert_eq!(got.field("x-own").is_some(), body == "own", "{got:?}");
        }
    }
}

#[test]
fn a_page_is_asked_for_by_get_or_head_without_the_body_and_the_connection_stays() {
    let files = Files::start("h1");
    let (app, proxy) = proxy(&files, "h1", PAGES, &format!("{PAGE_ROUTES}{DOWN}"));
    let mut client = proxy.client();
    for _ in 0..2 {
        client.send("POST /503 HTTP/1.1\r\nHost: a\r\nContent-Type: a/b\r\nContent-Length: 4\r\n\r\nbody");
        assert_eq!((client.response().body_text(), !app.seen().is_empty()), ("GET /e/503?x ".to_owned(), true));
        let head = client.send("HEAD /503 HTTP/1.1\r\nHost: a\r\n\r\n").head();
        assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{head}");
        assert!(head.contains("Content-Length: 14\r\n") && !head.contains("Connection"), "{head}");
    }
    // Pipelined requests are served in turn.
    client.send(
        "GET /503 HTTP/1.1\r\nHost: a\r\n\r\nGET /404 HTTP/1.1\r\nHost: a\r\n\r\nGET /200 HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    let bodies: Vec<_> = (0..3).map(|_| client.response().body_text()).collect();
    assert_eq!(bodies, ["GET /e/503?x ", "static", "own"]);
    let Files::H1(files) = &files else { unreachable!("over HTTP/1.1") };
    for seen in files.seen() {
        assert_eq!((seen.field("content-type"), seen.field("content-length"), seen.body.len()), (None, None, 0));
        assert_eq!(seen.head.matches("\nHost: a").count(), 1, "{}", seen.head);
    }
    // A client that is still to send its body gets the page, and then the end.
    let mut client = proxy.client();
    client.send("POST /down HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nbody");
    let response = client.response();
    assert_eq!((response.status(), response.field("connection")), (503, Some("close")));
    client.ends();
    let mut client = H2Client::connect(proxy.addr());
    client.head(1, &[&get("/down")[..], &[("content-length", "9")]].concat(), false);
    assert_eq!(client.answer(1).body_text(), "GET /e/503?x ");
    let mut old = proxy.client();
    let response = old.send("GET /503 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").response();
    assert_eq!((response.status(), response.field("connection")), (503, Some("keep-alive")));
}

#[test]
fn a_page_of_a_route_that_fails_is_of_another_source() {
    let files = Files::start("h1");
    // The two name each other, and each is asked once.
    let route = "error_pages = { 5xx = { route = \"other\" } }\nintercept = [\"5xx\"]";
    let other = "[[route]]\nname = \"other\"\nmatch = { prefix = \"/other\" }\npool = \"down\"\n\
                 error_pages = { 5xx = { route = \"app\" } }\n";
    let (app, proxy) = proxy(&files, "h1", route, other);
    for client in ["HTTP/1.1", "HTTP/2"] {
        let got = ask(&proxy, client, "/502", &[]);
        assert_eq!(got.status, 503, "{got:?}");
        assert!(got.body.starts_with("503 Service Unavailable: pool \"down\""), "{got:?}");
    }
    assert_eq!(app.seen().len(), 2);
    // With a path, the status of the error stays; a page without a route applies.
    let route =
        "error_pages = { 502 = { route = \"other\", path = \"/x\" }, \"5xx\" = { body = \"{}\" } }\nintercept = [502]";
    let other = "[[route]]\nname = \"other\"\ninternal = true\npool = \"down\"\n";
    let listener = "h2c = true\nintercept = [\"5xx\"]\nerror_pages = { 500-599 = { body = \"of the listener\" } }";
    let behind = format!(
        "[pool.down]\nendpoints = [{{ addr = \"127.0.0.1:2\", drain = true }}]\n[[route]]\npool = \"web\"\n{route}\n{other}"
    );
    let proxy = Proxy::with(&[app.addr], listener, "", &behind);
    for client in ["HTTP/1.1", "HTTP/2"] {
        let got = ask(&proxy, client, "/502", &[]);
        assert_eq!((got.status, &*got.body), (502, "of the listener"));
    }
}

#[test]
fn a_page_from_a_route_is_the_page_of_no_other() {
    // The route that answers sends a 404, for which the listener has another page.
    let listener =
        "h2c = true\nintercept = [404]\nerror_pages = { 404 = { route = \"missing\" }, 4xx = { body = \"any\" } }";
    let routes = "[[route]]\npool = \"web\"\n[[route]]\nname = \"missing\"\npool = \"web\"\ninternal = true\n\
                  rewrite = { path = \"/404\" }\nresponse_headers = { set = { X-Missing = \"1\" } }\n";
    let app = Endpoint::answering(app);
    let proxy = Proxy::with(&[app.addr], listener, "", routes);
    for client in ["HTTP/1.1", "HTTP/2"] {
        let got = ask(&proxy, client, "/404", &[]);
        assert_eq!((got.status, &*got.body, got.field("x-missing")), (404, "own", Some("1")), "{got:?}");
    }
    // No route matches: the page of the listener is from a route, too.
    let listener = "error_pages = { 404 = { route = \"missing\" } }";
    let routes = "[[route]]\nmatch = { host = [\"other\"] }\npool = \"web\"\n\
                  [[route]]\nname = \"missing\"\ninternal = true\nrespond = { status = 404, body = \"none here\" }\n";
    let log = Log::new();
    let proxy = Proxy::with(&[app.addr], listener, "", &format!("{routes}{}", log.config()));
    assert_eq!(ask(&proxy, "HTTP/1.1", "/200", &[]).body, "none here");
    let lines = log.lines(proxy);
    assert_eq!((&lines[0]["route"], &lines[0]["first_route"]), (&"missing".into(), &"".into()), "{lines:?}");
}

#[test]
fn the_rules_of_the_route_that_sends_the_page_apply() {
    let files = Files::start("h1");
    let route = "intercept = [\"5xx\"]\nerror_pages = { 502 = { route = \"secret\", path = \"/page\" }, 503 = { route = \"secret\" }, 504 = { route = \"near\", path = \"/page\" } }";
    let routes = "[[route]]\nname = \"secret\"\ninternal = true\npool = \"files\"\n\
                  basic_auth = { users = \"ann:$2y$04$bUeub1GoVcOIVEXKSXSHeO4dSoQQKHyFfJbSGubQcLL8CBIY8PQ5G\" }\n\
                  [[route]]\nname = \"near\"\ninternal = true\npool = \"files\"\naccess = { allow = [\"192.0.2.0/24\"] }\n";
    let (_app, proxy) = proxy(&files, "h1", route, routes);
    for client in ["HTTP/1.1", "HTTP/2"] {
        let got = ask(&proxy, client, "/502", &[]);
        assert_eq!((got.status, got.field("x-files")), (502, None), "{got:?}");
        // The route serves the request itself: its challenge is for the client.
        let got = ask(&proxy, client, "/503", &[]);
        assert_eq!((got.status, got.field("x-files")), (401, None), "{got:?}");
        assert!(got.field("www-authenticate").is_some(), "{got:?}");
        let got = ask(&proxy, client, "/504", &[]);
        assert_eq!((got.status, got.field("x-files")), (504, None), "{got:?}");
        // The user and password of the route.
        let got = ask(&proxy, client, "/502", &[("authorization", "Basic YW5uOnNlY3JldA==")]);
        assert_eq!((got.status, &*got.body), (502, "GET /page "), "{got:?}");
    }
    let Files::H1(files) = &files else { unreachable!("over HTTP/1.1") };
    assert_eq!(files.seen().len(), 2);
}

const REDIRECTS: &str = "internal_redirects = \"X-Accel-Redirect\"";
const INTERNAL: &str = "[[route]]\nname = \"files\"\nmatch = { prefix = \"/protected\" }\ninternal = true\npool = \"files\"\n\
                        strip_prefix = true\nresponse_headers = { set = { X-Route = \"files\" } }\n";

#[test]
fn the_internal_route_answers_whose_path_an_endpoint_names() {
    for (client, endpoint) in PROTOCOLS {
        let files = Files::start(endpoint);
        let (_app, proxy) = proxy(&files, endpoint, REDIRECTS, INTERNAL);
        let got = ask(&proxy, client, "/to/protected/a.pdf?q=1", &[("range", "bytes=1-2")]);
        assert_eq!((got.status, &*got.body), (200, "GET /a.pdf?q=1 bytes=1-2"), "{client} {endpoint}: {got:?}");
        let cookies: Vec<_> =
            got.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie")).map(|(_, v)| &**v).collect();
        assert_eq!(cookies, ["c=3", "a=1", "b=2"], "{got:?}");
        for (name, value) in [
            ("content-type", Some("text/app")),
            ("cache-control", Some("private")),
            ("x-files", Some("1")),
            ("x-route", Some("files")),
            ("x-own", None),
            ("x-accel-redirect", None),
            ("x-accel-limit-rate", None),
        ] {
            assert_eq!(got.field(name), value, "{name}: {got:?}");
        }
        // Not for clients, who get a response of the application.
        assert_eq!(ask(&proxy, client, "/protected/a.pdf", &[]).status, 502);
        assert_eq!(ask(&proxy, client, "/404", &[]).body, "own");
    }
    let files = Files::start("h1");
    let (app, proxy) = proxy(&files, "h1", REDIRECTS, INTERNAL);
    let mut connection = proxy.client();
    connection.send("POST /to/protected/x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
    assert_eq!(connection.response().body_text(), "GET /x ");
    let head = connection.send("HEAD /to/protected/x HTTP/1.1\r\nHost: a\r\n\r\n").head();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("Content-Length: 8\r\n"), "{head}");
    assert_eq!(connection.send("GET /200 HTTP/1.1\r\nHost: a\r\n\r\n").response().body_text(), "own");
    assert_eq!(app.seen()[0].body_text(), "body");
}

#[test]
fn cookies_of_filters_stay_and_a_large_file_arrives_whole() {
    let content = noise(3 << 20);
    let body = content.clone();
    let big = Endpoint::answering(move |_| {
        let mut response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
        response.extend_from_slice(&body);
        response
    });
    let app = Endpoint::answering(app);
    let routes = format!(
        "[pool.files]\nendpoints = [\"{}\"]\n[[route]]\npool = \"web\"\n{REDIRECTS}\ncookies = {{ secure = true }}\n{INTERNAL}",
        big.addr
    );
    let proxy =
        Proxy::with(&[app.addr], "", "sticky = { cookie = \"at\", secret = \"sixteen bytes or more\" }", &routes);
    let mut client = proxy.client();
    for _ in 0..2 {
        let got = client.send("GET /to/protected/x HTTP/1.1\r\nHost: a\r\n\r\n").response();
        assert!(got.body == content, "{} bytes", got.body.len());
        for cookie in ["a=1; Secure", "b=2; Secure", "at="] {
            assert!(got.head.contains(&format!("et-Cookie: {cookie}")), "{}", got.head);
        }
    }
}

#[test]
fn a_path_that_cannot_be_followed_is_an_error_of_the_application() {
    let files = Files::start("h1");
    let behind = "[[route]]\nname = \"open\"\nmatch = { prefix = \"/open\" }\npool = \"files\"\n\
                  [[route]]\nname = \"deep\"\nmatch = { prefix = \"/protected/deep\" }\ninternal = true\nrespond = { status = 403 }\n";
    let (_app, proxy) = proxy(&files, "h1", REDIRECTS, &format!("{INTERNAL}{behind}"));
    for (path, status, why) in [
        // Of clients alone.
        ("/open/x", 404, "no internal route for path \"/open/x\""),
        ("http://other/protected/x", 500, "it does not begin with a slash"),
        ("@files", 500, "it does not begin with a slash"),
        ("/protected/../x", 500, "a segment \"..\""),
        ("/protected/%64eep/x", 500, "servers may read the path"),
        ("/protected//deep/x", 500, "servers may read the path"),
        ("/protected/deep/x", 403, ""),
    ] {
        for client in ["HTTP/1.1", "HTTP/2"] {
            let got = ask(&proxy, client, &format!("/to{path}"), &[]);
            assert_eq!(got.status, status, "{path}: {got:?}");
            assert!(got.body.contains(why), "{path}: {got:?}");
        }
    }
}

#[test]
fn redirects_in_a_row_are_bounded() {
    let looping = Endpoint::answering(|_| {
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Accel-Redirect: /loop\r\nSet-Cookie: n=1\r\n\r\n".to_vec()
    });
    let routes = format!(
        "[[route]]\nname = \"app\"\npool = \"web\"\n{REDIRECTS}\n\
         [[route]]\nname = \"loop\"\nmatch = {{ prefix = \"/loop\" }}\ninternal = true\npool = \"web\"\n{REDIRECTS}\n\
         error_pages = {{ 500 = {{ route = \"page\", path = \"/\" }} }}\n\
         [[route]]\nname = \"page\"\nmatch = {{ host = [\"none\"] }}\ninternal = true\nrespond = {{ status = 200, body = \"page\" }}\n"
    );
    let proxy = Proxy::with(&[looping.addr], "h2c = true", "", &routes);
    for (client, asked) in [("HTTP/1.1", 11), ("HTTP/2", 22)] {
        let got = ask(&proxy, client, "/", &[]);
        assert_eq!((got.status, &*got.body), (500, "page"), "{got:?}");
        assert_eq!(looping.seen().len(), asked);
    }
}

#[test]
fn without_the_option_the_field_passes() {
    let files = Files::start("h1");
    let (_app, proxy) = proxy(&files, "h1", "", "");
    for client in ["HTTP/1.1", "HTTP/2"] {
        let got = ask(&proxy, client, "/to/protected/x", &[]);
        assert_eq!((got.status, got.field("x-accel-redirect")), (201, Some("/protected/x")), "{got:?}");
    }
}

#[test]
fn a_stored_response_redirects_each_client_and_files_are_stored_as_they_are() {
    let app = Endpoint::answering(|_| {
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nCache-Control: max-age=60\r\nX-Sendfile: /protected/x\r\n\r\nown"
            .to_vec()
    });
    let files = Endpoint::answering(|_| {
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nCache-Control: max-age=60\r\n\r\nfile".to_vec()
    });
    let routes = format!(
        "[pool.files]\nendpoints = [\"{}\"]\n[[route]]\nname = \"app\"\npool = \"web\"\ncache = true\n\
         internal_redirects = [\"X-Accel-Redirect\", \"X-Sendfile\"]\nintercept = [503]\n\
         [[route]]\nname = \"files\"\nmatch = {{ prefix = \"/protected\" }}\ninternal = true\npool = \"files\"\ncache = true\n",
        files.addr
    );
    let proxy = Proxy::with(&[app.addr], "h2c = true", "", &routes);
    for client in ["HTTP/1.1", "HTTP/2", "HTTP/1.1"] {
        let got = ask(&proxy, client, "/a", &[]);
        assert_eq!((got.status, &*got.body, got.field("x-sendfile")), (200, "file", None), "{got:?}");
    }
    assert_eq!((app.seen().len(), files.seen().len()), (1, 1));
}

#[test]
fn a_request_is_one_line_of_the_log_with_both_routes() {
    let files = Files::start("h1");
    let log = Log::new();
    let routes = format!("{PAGE_ROUTES}{INTERNAL}{}", log.config());
    let (_app, proxy) = proxy(&files, "h1", &format!("{PAGES}\n{REDIRECTS}"), &routes);
    for path in ["/to/protected/x", "/503", "/404", "/200"] {
        ask(&proxy, "HTTP/1.1", path, &[]);
    }
    let metrics = proxy.metrics();
    for (cause, n) in [("error_page", 2), ("internal_redirect", 1)] {
        let line = format!(
            "evenkeel_http_redirected_requests_total{{listener=\"web\",route=\"app\",cause=\"{cause}\"}} {n}\n"
        );
        assert!(metrics.contains(&line), "{metrics}");
    }
    let line = "evenkeel_http_requests_total{listener=\"web\",route=\"files\",method=\"GET\",code=\"200\"} 1\n";
    assert!(metrics.contains(line), "{metrics}");
    let lines = log.lines(proxy);
    let shown = |line: &serde_json::Value| {
        let text = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
        let status = line["status"].as_u64().unwrap_or_default();
        format!(
            "{} {status} {} {} {} {}",
            text("path"),
            text("route"),
            text("first_route"),
            text("pool"),
            line["tries"]
        )
    };
    let lines: Vec<_> = lines.iter().map(shown).collect();
    assert_eq!(
        lines,
        [
            "/to/protected/x 200 files app files 2",
            "/503 503 pages app files 2",
            "/404 410 static app - 1",
            "/200 200 app - web 1"
        ]
    );
}

#[test]
fn a_websocket_that_cannot_be_opened_is_no_page_with_a_200() {
    let files = Files::start("h2");
    let routes = format!(
        "{PAGE_ROUTES}[[route]]\nmatch = {{ prefix = \"/chat\" }}\npool = \"down\"\nerror_pages = {{ 503 = {{ route = \"fallback\" }} }}\n"
    );
    let (_app, proxy) = proxy(&files, "h2", "", &routes);
    let mut client = proxy.client();
    client.send(
        "GET /chat HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    assert_eq!(client.response().status(), 503);
    let mut client = H2Client::connect(proxy.addr());
    let fields = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":path", "/chat"),
        (":authority", "a"),
    ];
    client.head(1, &fields, false);
    assert_eq!(client.answer(1).status(), 503);
    assert_eq!(ask(&proxy, "HTTP/1.1", "/chat", &[]).status, 200);
}

#[test]
fn a_call_of_grpc_gets_a_status_and_no_page() {
    let files = Files::start("h1");
    let (_app, proxy) = proxy(&files, "h1", &format!("{PAGES}\n{REDIRECTS}"), &format!("{PAGE_ROUTES}{INTERNAL}"));
    for path in ["/gone", "/to/protected/x"] {
        let mut client = H2Client::connect(proxy.addr());
        let fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "a")];
        client.head(1, &[&fields[..], &[("content-type", "application/grpc"), ("te", "trailers")]].concat(), true);
        let answer = client.answer(1);
        let Files::H1(files) = &files else { unreachable!("over HTTP/1.1") };
        assert!(files.seen().is_empty(), "{path}: {answer:?}");
        assert_eq!(answer.field("x-accel-redirect"), None, "{answer:?}");
    }
}
