//! Pages of the dashboard as sent: figures, filters, rights of callers. `make conformance` looks at them in a browser.

use crate::support::{Endpoint, Folder, Running, address, ask, eventually, get};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

/// `anna` with the write token, as browsers send it.
const ANNA: &str = "Authorization: Basic YW5uYTphLXRva2VuLXRoYXQtbWF5LXdyaXRl\r\n";

struct Site {
    _folder: Folder,
    _endpoints: [Endpoint; 2],
    running: Running,
    admin: String,
    listen: String,
}

impl Site {
    fn new(name: &str, more: &str) -> Site {
        let (folder, listen, admin) = (Folder::new(name), address(), address());
        let endpoints = [Endpoint::start("one"), Endpoint::start("two")];
        let token = folder.file("token", "a-token-that-may-write\n");
        let text = format!(
            "[admin]\nhttp = {{ bind = '{admin}', write_token = '{token}' }}\n[telemetry.explain]\nsample = 1.0\n\
             [listener.web]\nbind = ['{listen}']\npool = 'shop'\n[pool.shop]\nshadow = ['leastconn']\nendpoints = [\
             {{ name = 'one', addr = '{}' }}, {{ name = 'two', addr = '{}' }}]\n{more}",
            endpoints[0].addr, endpoints[1].addr
        );
        let running = Running::start(&["run", "-c", &folder.file("evenkeel.toml", &text)]);
        Site { _folder: folder, _endpoints: endpoints, running, admin, listen }
    }

    /// Fetches a page: status and body.
    fn fetch(&self, path: &str) -> (u16, String) {
        let response = self.send("GET", path, "", "");
        let (head, body) = response.split_once("\r\n\r\n").expect("a whole head");
        (head[9..12].parse().expect("a status"), body.to_owned())
    }

    #[track_caller]
    fn page(&self, path: &str) -> String {
        let (status, page) = self.fetch(path);
        assert_eq!(status, 200, "{path}: {page}");
        page
    }

    fn send(&self, method: &str, path: &str, fields: &str, body: &str) -> String {
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{fields}Content-Length: {length}",
            self.admin
        );
        ask(&self.admin, &format!("{head}\r\n\r\n{body}")).expect("an answer")
    }
}

#[test]
fn every_page_is_light_and_takes_nothing_from_elsewhere() {
    let site = Site::new("dashboard-pages", "");
    for _ in 0..20 {
        assert_eq!(get(&site.listen, "/").expect("an answer").0, 200);
    }
    let paths = [
        "/ui",
        "/ui/flow",
        "/ui/pools",
        "/ui/pools?q=two&sort=p99",
        "/ui/pools/shop/one",
        "/ui/routes",
        "/ui/routes?url=/x&method=GET",
        "/ui/cache",
        "/ui/tap",
        "/ui/explain",
        "/ui/shadows",
        "/ui/advice",
        "/ui/certificates",
        "/ui/dns",
    ];
    for path in paths {
        let page = site.page(path);
        assert!(page.len() < 100_000, "{path} has {} bytes", page.len());
        assert!(!page.contains("src=\"http") && !page.contains("href=\"http") && !page.contains(" style="), "{page}");
        assert!(!page.contains("NaN") && !page.contains(">inf"), "{page}");
        let response =
            ask(&site.admin, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
        let response = response.expect("an answer").to_lowercase();
        assert!(response.contains("content-security-policy: default-src 'none'"), "{response}");
    }
    let page = site.page("/ui/pools?q=two");
    assert!(page.contains("/ui/pools/shop/two") && !page.contains("/ui/pools/shop/one"), "{page}");
    let tried = site.page("/ui/routes?url=/x");
    assert!(tried.contains("Its pool would pick"), "{tried}");
    let wrong = site.page("/ui/routes?url=nonsense");
    assert!(wrong.contains("is not http://HOST/PATH"), "{wrong}");
    let explained = site.page("/ui/explain");
    let link = explained.split("/ui/explain/").nth(1).and_then(|rest| rest.split('"').next()).expect("one is listed");
    let one = site.page(&format!("/ui/explain/{link}"));
    assert!(one.contains("Try 1: ") && one.contains("Decided by"), "{one}");
    for missing in ["/ui/pools/shop/three", "/ui/pools/none/one", "/ui/explain/none"] {
        assert_eq!(site.fetch(missing).0, 404, "{missing}");
    }
    assert!(site.send("GET", "/", "", "").contains("location: /ui\r\n"));
}

#[test]
fn figures_are_those_of_the_metrics() {
    let site = Site::new("dashboard-figures", "");
    for _ in 0..30 {
        assert_eq!(get(&site.listen, "/").expect("an answer").0, 200);
    }
    let metrics = site.page("/metrics");
    let sum = |family: &str, label: &str| -> u64 {
        let lines = metrics.lines().filter(|line| line.starts_with(family) && line.contains(label));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    };
    assert_eq!(sum("evenkeel_http_requests_total", "code=\"200\""), 30);
    // The process adds up every second.
    eventually("thirty requests in the history", || {
        let history = site.page("/v1/history");
        let counts =
            history.split("\"requests\":").skip(1).filter_map(|rest| rest.split(',').next()?.parse::<u64>().ok());
        (counts.sum::<u64>() == 30).then_some(())
    });
    eventually("thirty requests by the route", || site.page("/ui/routes").contains(">30</td>").then_some(()));
    let page = site.page("/ui/pools");
    for endpoint in ["one", "two"] {
        let tries = sum("evenkeel_upstream_requests_total", &format!("endpoint=\"{endpoint}\""));
        assert!(tries > 0 && page.contains(&format!(">0</span> of {tries}</td>")), "{endpoint} had {tries}: {page}");
    }
}

#[test]
fn routes_have_their_actions_criteria_and_filters_everywhere() {
    let more = "[pool.canary]\nendpoints = ['127.0.0.1:1']\n\
        [[route]]\nname = 'cart'\nmatch = { prefix = '/cart', method = ['GET'], not = { header = { x-bot = 'yes' } } }\n\
        split = { weights = { shop = 3, canary = 1 } }\nbody_max = '1MiB'\nresponse_headers = { remove = ['server'] }\n\
        [[route]]\nname = 'old'\nmatch = { path = '/old' }\nredirect = { path = '/new', status = 301 }\n\
        [[route]]\nname = 'gone'\nmatch = { any = [{ path = '/a' }, { host = ['b.example'], starts_with = '/b' }] }\n\
        respond = 410\n";
    let site = Site::new("dashboard-actions", more);
    let routes: Vec<Value> = serde_json::from_str(&site.page("/v1/routes")).expect("JSON");
    let route = |name: &str| routes.iter().find(|route| route["name"] == name).expect("it is listed");
    let cart = route("cart");
    let pools: Vec<(&str, f64)> = cart["action"]["split"]["pools"]
        .as_array()
        .expect("pools")
        .iter()
        .map(|pool| (pool["pool"].as_str().expect("a name"), pool["share"].as_f64().expect("a share")))
        .collect();
    assert_eq!(pools, [("shop", 0.75), ("canary", 0.25)]);
    let matching =
        json!({ "hosts": [], "path": "prefix /cart", "criteria": ["method GET", "not header x-bot = yes"], "any": [] });
    assert_eq!(cart["match"], matching);
    assert_eq!(cart["filters"], json!(["response_headers", "body_max"]));
    assert_eq!(route("old")["action"], json!({ "redirect": { "status": 301, "to": "/new" } }));
    assert_eq!(route("gone")["action"], json!({ "respond": { "status": 410 } }));
    assert_eq!(route("gone")["match"]["any"], json!(["path /a", "host b.example, starts_with /b"]));
    assert_eq!((&route("web")["action"], &route("web")["pool"]), (&json!({ "pool": "shop" }), &json!("shop")));

    let page = site.page("/ui/routes");
    for part in
        [">shop</a> 75 %", ">canary</a> 25 %", "redirect 301", "respond 410", "not header x-bot = yes", "body_max"]
    {
        assert!(page.contains(part), "no {part} in {page}");
    }
    let patched = site.send(
        "PATCH",
        "/v1/routes/cart/split",
        &format!("{ANNA}Content-Type: application/json\r\n"),
        r#"{"weights":{"canary":3}}"#,
    );
    assert!(patched.starts_with("HTTP/1.1 200"), "{patched}");
    let page = site.page("/ui/routes");
    assert!(page.contains(">canary</a> 50 %") && page.contains("weights by anna"), "{page}");
    let get = "GET /old HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    eventually("a band to the redirect", || {
        ask(&site.listen, get).expect("an answer");
        site.page("/ui/flow").contains("redirect 301 to /new").then_some(())
    });
}

/// Responses of filters count for the route only: no endpoint of the pool got the request.
#[test]
fn a_pool_has_only_what_was_sent_to_it() {
    let more = "[[route]]\nname = 'closed'\nmatch = { prefix = '/closed' }\npool = 'shop'\n\
        maintenance = true\n\
        [[route]]\nname = 'denied'\nmatch = { prefix = '/denied' }\npool = 'shop'\naccess = { deny = ['127.0.0.0/8'] }\n\
        [[route]]\nname = 'gone'\nmatch = { prefix = '/gone' }\npool = 'empty'\n[pool.empty]\nendpoints = ['127.0.0.1:1']\n";
    let site = Site::new("dashboard-sent", more);
    let rates = || -> Vec<(String, f64, f64, f64, f64)> {
        let routes: Vec<Value> = serde_json::from_str(&site.page("/v1/routes")).expect("JSON");
        let of = |at: &Value, key: &str| at[key].as_f64().expect("a rate");
        let one = |route: &Value| {
            let at = &route["at"][0];
            let name = route["name"].as_str().expect("a name").to_owned();
            (name, of(at, "rate"), of(at, "error_rate"), of(at, "sent_rate"), of(at, "sent_error_rate"))
        };
        routes.iter().map(one).collect()
    };
    let at = |name: &str, rates: &[(String, f64, f64, f64, f64)]| {
        let found = rates.iter().find(|(known, ..)| known == name).expect("it is listed");
        (found.1, found.2, found.3, found.4)
    };
    eventually("rates of all routes", || {
        for (path, status) in [("/", 200), ("/closed", 503), ("/denied", 403), ("/gone", 502)] {
            assert_eq!(get(&site.listen, path).expect("an answer").0, status, "{path}");
        }
        let rates = rates();
        let ((all, .., sent, _), (closed, failed, unsent, _)) = (at("web", &rates), at("closed", &rates));
        let ((denied, ..), (gone, lost, tried, blamed)) = (at("denied", &rates), at("gone", &rates));
        let is_there = all > 0.0 && closed > 0.0 && denied > 0.0 && gone > 0.0;
        is_there.then(|| {
            assert_eq!((all, sent), (sent, all), "each went on to the pool");
            assert_eq!((failed, unsent), (closed, 0.0), "maintenance is an error of the route alone");
            assert_eq!((lost, tried, blamed), (gone, gone, gone), "the pool had no endpoint that could be reached");
        })
    });
    eventually("a band to what no pool got", || {
        get(&site.listen, "/closed").expect("an answer");
        get(&site.listen, "/").expect("an answer");
        let page = site.page("/ui/flow");
        let row =
            |from: &str, to: &str| format!("scope=\"row\">{from}</th><td class=\"\" data-label=\"To\">\u{2192} {to}");
        let has = |from: &str, to: &str| page.contains(&row(from, to));
        (has("closed", "answered by evenkeel") && has("web", "shop") && !has("closed", "shop")).then_some(())
    });
}

#[test]
fn a_page_follows_what_happens() {
    let site = Site::new("dashboard-live", "");
    let mut stream = TcpStream::connect(&site.admin).expect("it listens");
    let request = format!("GET /ui/pools HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\n\r\n", site.admin);
    stream.write_all(request.as_bytes()).expect("it reads");
    stream.set_read_timeout(Some(crate::support::DEADLINE)).expect("a timeout");
    let mut lines = BufReader::new(stream).lines();
    let mut next = |has: &str| {
        let mut found = lines.by_ref().map_while(Result::ok).filter(|line| line.starts_with("data:"));
        found.find(|line| line.contains(has)).unwrap_or_else(|| panic!("the page never has {has}"))
    };
    let page = next("/ui/pools/shop/two");
    assert!(!page.contains("<nav"), "the content alone");
    assert!(!page.contains("Undrain"), "who does not sign in changes nothing");
    let path = "/v1/pools/shop/endpoints/two";
    let fields = format!("{ANNA}Content-Type: application/json\r\n");
    let answer = site.send("PATCH", path, &fields, r#"{"drain":"now"}"#);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    next("drained by anna, with the write token");
}

#[test]
fn who_signs_in_may_change_things() {
    let site = Site::new("dashboard-sign-in", "");
    assert!(site.page("/ui").contains("Sign in to change things"));
    let asked = site.send("GET", "/sign-in", "", "");
    assert!(
        asked.starts_with("HTTP/1.1 401") && asked.contains("www-authenticate: Basic realm=\"evenkeel\""),
        "{asked}"
    );
    let wrong = site.send("GET", "/sign-in", "Authorization: Basic YW5uYTpub3QtdGhlLXRva2VuLW9mLWl0\r\n", "");
    assert!(wrong.starts_with("HTTP/1.1 401"), "{wrong}");
    let signed_in = site.send("GET", "/sign-in", ANNA, "");
    assert!(signed_in.starts_with("HTTP/1.1 303") && signed_in.contains("location: /ui\r\n"), "{signed_in}");
    let page = site.send("GET", "/ui/pools", ANNA, "");
    assert!(page.contains("Signed in: anna, with the write token") && page.contains("data-method=\"PATCH\""), "{page}");
    let forged = format!("{ANNA}Origin: http://evil.example\r\nContent-Type: application/json\r\n");
    let answer = site.send("PATCH", "/v1/pools/shop/endpoints/two", &forged, r#"{"drain":"now"}"#);
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    drop(site.running);
}

#[test]
fn addresses_alone_come_with_a_dashboard_that_can_be_used() {
    let (endpoint, listen, admin) = (Endpoint::start("one"), address(), address());
    let running = Running::start(&["run", &endpoint.addr, "--listen", &listen, "--admin", &admin]);
    let said = running.said();
    let line = said.lines().find(|line| line.contains("dashboard")).expect("it says where").to_owned();
    assert!(line.contains(&format!("http://{admin}/")), "{line}");
    let password = line.rsplit("password ").next().expect("and how to sign in").trim().to_owned();
    assert_eq!(password.len(), 32, "{line}");
    let send = |token: &str| {
        let head = format!("POST /v1/explanations/next/default HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n");
        ask(&admin, &format!("{head}Authorization: Bearer {token}\r\nContent-Length: 0\r\n\r\n")).expect("an answer")
    };
    assert!(!send(&password).starts_with("HTTP/1.1 401"));
    assert!(send("00000000000000000000000000000000").starts_with("HTTP/1.1 401"));
}

#[test]
fn requests_are_followed_as_they_end() {
    let site = Site::new("dashboard-tap", "");
    let followed = |query: &str| {
        let stream = TcpStream::connect(&site.admin).expect("it listens");
        let request =
            format!("GET /ui/tap{query} HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\n\r\n", site.admin);
        (&stream).write_all(request.as_bytes()).expect("it reads");
        let mut lines = BufReader::new(stream).lines();
        // What comes while there are requests, until the page shows one.
        eventually("a request on the page", || {
            let _ = get(&site.listen, "/cart?a=b");
            let _ = get(&site.listen, "/other");
            let page = lines.find_map(|line| line.expect("it goes on").strip_prefix("data: ").map(str::to_owned))?;
            page.contains("<svg class=\"phases\"").then_some(page)
        })
    };
    let all = followed("");
    assert!(all.contains("GET test/cart?a=b") && all.contains("GET test/other"), "{all}");
    let some = followed("?path=/cart&status=2xx&pool=shop");
    assert!(some.contains("GET test/cart?a=b") && !some.contains("GET test/other"), "{some}");
    for (query, said) in [
        ("status=9xx", "status &quot;9xx&quot; is unknown"),
        ("pool=none", "unknown pool"),
        ("min_ms=x", "min_ms must be a number"),
    ] {
        let (status, page) = site.fetch(&format!("/ui/tap?{query}"));
        assert!((400..500).contains(&status) && page.contains(said), "{page}");
    }
}

#[test]
fn an_endpoint_that_says_how_busy_it_is_is_shown_so() {
    let addr = address();
    let listener = std::net::TcpListener::bind(&addr).expect("nobody else uses it");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let head = BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
            if head.count() > 0 {
                let report = "endpoint-load-metrics: TEXT named_metrics.in_flight=4, cpu_utilization=0.5";
                let answer = format!("HTTP/1.1 200 OK\r\n{report}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                let _ = stream.write_all(answer.as_bytes());
            }
        }
    });
    let busy = format!(
        "[pool.busy]\nload_reports = true\nendpoints = [{{ name = 'b', addr = '{addr}' }}]\n\
         [[route]]\npool = 'busy'\nmatch = {{ path = '/busy' }}\n"
    );
    let site = Site::new("dashboard-reports", &busy);
    assert!(!site.page("/ui/pools/busy/b").contains("Reports"));
    assert_eq!(get(&site.listen, "/busy").expect("an answer").0, 200);
    let page = site.page("/ui/pools/busy/b");
    assert!(page.contains("4 in flight from all balancers, 50 % busy, 0s ago"), "{page}");
    let (_, pool) = site.fetch("/v1/pools/busy");
    assert!(pool.contains("\"report\":{\"age_ms\":") && pool.contains("\"in_flight\":4,"), "{pool}");
}
