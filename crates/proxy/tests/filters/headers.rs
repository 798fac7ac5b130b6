//! `request_headers`, `response_headers` and `cookies` of routes: for clients and endpoints of both protocols, and for
//! answers of the proxy itself.

use super::echo::{CLIENTS, Echoes, ask, fields, got, secure};
use super::{Answer, field};
use crate::support::endpoint::{ok, status};
use crate::support::h2_client::H2Client;
use crate::support::{Endpoint, Proxy, own_addr};

const REQUESTS: &str = r#"
[[route]]
name = "shop"
pool = "web"
match = { path = "/users/{id}" }
[route.request_headers]
remove = ["X-Debug", "X-Internal-*"]
rename = { X-Old = "X-New", X-Forwarded-Proto = "X-Proto" }
add = { X-Tag = "a{{b}}" }
[route.request_headers.set]
X-Real-IP = "{client.ip}"
X-Where = "{scheme}://{host}{path}?{query}"
X-User = "{path.id}"
X-Query = "{query.q}"
X-Cookie = "{cookie.s}"
X-Id = "{request_id}"
X-None = "{header.absent}"
X-Copy = "<{header.x-old}> <{header.x-forwarded-for}>"
X-Method = "{method}"
X-Time = "{time.unix}"
X-Tls = "{tls.version}{tls.cipher}{tls.server_name}{tls.client.subject}{tls.client.fingerprint}"
X-Forwarded-Host = "fixed.example"
"#;

#[tokio::test]
async fn fields_of_requests_are_removed_renamed_set_and_added_in_this_order() {
    let echoes = Echoes::start();
    for (endpoint, proxy) in echoes.proxies_with("paths = 'as_sent'", REQUESTS) {
        for client in CLIENTS {
            let sent = [
                ("x-debug", "1"),
                ("x-internal-a", "1"),
                ("x-old", "old"),
                ("x-new", "new"),
                ("x-real-ip", "6.6.6.6"),
                ("x-none", "spoofed"),
                ("x-tag", "mine"),
                ("x-tls", "spoofed"),
                ("cookie", "t=1; s=7"),
                ("x-forwarded-for", "6.6.6.6"),
                ("x_forwarded_for", "6.6.6.6"),
                ("x-forwarded-proto", "https"),
            ];
            let answer = ask(client, &proxy, "/users/a%2Fb?q=1%0d%0aX:y&r=2", &sent).await;
            let at = format!("{client}, {endpoint}: {answer:?}");
            assert_eq!(answer.0, 200, "{at}");
            let (location, scheme, tls) = match client {
                "h3 client" => {
                    ("https://a/users/a%2Fb?q=1%0d%0aX:y&r=2", "https", &["TLSv1.3TLS_AES_128_GCM_SHA256a"][..])
                }
                _ => ("http://a/users/a%2Fb?q=1%0d%0aX:y&r=2", "http", &[][..]),
            };
            for (name, values) in [
                ("x-debug", &[][..]),
                ("x-internal-a", &[]),
                ("x-old", &[]),
                ("x-new", &["old"]),
                ("x-real-ip", &["127.0.0.1"]),
                ("x-where", &[location]),
                ("x-user", &["a%2Fb"]),
                ("x-query", &["1%0d%0aX:y"]),
                ("x-cookie", &["7"]),
                ("x-none", &[]),
                ("x-tls", tls),
                ("x-copy", &["<old> <127.0.0.1>"]),
                ("x-method", &["GET"]),
                ("x-proto", &[scheme]),
                ("x-forwarded-proto", &[]),
                ("x-tag", &["mine", "a{b}"]),
                ("x-forwarded-host", &["fixed.example"]),
                ("x-forwarded-for", &["127.0.0.1"]),
            ] {
                assert_eq!(got(&answer, name), values, "{name}: {at}");
            }
            assert_eq!(got(&answer, "x-id")[0].len(), 32, "{at}");
            assert!(got(&answer, "x-time")[0].parse::<u64>().is_ok_and(|time| time > 1_600_000_000), "{at}");
        }
    }
}

#[tokio::test]
async fn no_value_of_a_client_ends_its_field_and_begins_another() {
    let echoes = Echoes::start();
    let rest = "[[route]]\npool = 'web'\nmatch = { path = '/{x}/{*rest}' }\n[route.request_headers.set]\n\
                X-Path = '{path.x} {path.rest}'\nX-Value = 'a{header.x-evil}b'\nX-Raw = '{query.v}'";
    for (endpoint, proxy) in echoes.proxies(rest) {
        for client in CLIENTS {
            // Escapes stay escapes.
            let answer = ask(client, &proxy, "/%0d%0aX-Evil:%201/%00?v=%0D%0AX-Evil:1", &[]).await;
            let at = format!("{client}, {endpoint}: {answer:?}");
            assert_eq!(got(&answer, "x-path"), ["%0d%0aX-Evil:%201 %00"], "{at}");
            assert_eq!((got(&answer, "x-raw"), got(&answer, "x-evil")), (vec!["%0D%0AX-Evil:1"], vec![]), "{at}");
            // Others than ASCII and tabs are no line ends.
            let answer = ask(client, &proxy, "/a/", &[("x-evil", "1\t2")]).await;
            assert_eq!(got(&answer, "x-value"), ["a1\t2b"], "{client}, {endpoint}");
        }
    }
}

#[tokio::test]
async fn a_pool_changes_fields_of_requests_after_the_route_and_of_responses_before_it() {
    let echoes = Echoes::start();
    let other = "[pool.other]\nendpoints = ['$ENDPOINT']\nprotocol = '$PROTOCOL'\n";
    let rest = format!(
        "request_headers = {{ set = {{ X-Set = 'pool {{header.x-set}} {{query.q}}' }}, remove = ['X-Gone'] }}\n\
         response_headers = {{ rename = {{ X-Powered-By = 'X-Power' }}, remove = ['Server'], \
         set = {{ X-Asked = '{{path}} {{pool}}' }} }}\n{other}\
         [[route]]\npool = 'web'\nmatch = {{ path = '/x' }}\nrequest_headers = {{ set = {{ X-Set = 'route', X-Gone = '1' }} }}\n\
         response_headers = {{ set = {{ X-Power = 'route {{method}}', X-Host = '{{host}}' }} }}\n\
         [[route]]\npool = 'web'\nmatch = {{ path = '/y' }}\n\
         [[route]]\npool = 'other'\nmatch = {{ path = '/z' }}\n\
         [[route]]\nsplit = {{ weights = {{ web = 1, other = 0 }} }}\nmatch = {{ path = '/split' }}\n\
         [[route]]\nsplit = {{ weights = {{ web = 0, other = 1 }} }}\nmatch = {{ path = '/rest' }}\n"
    );
    for (endpoint, proxy) in echoes.proxies(&rest) {
        for client in CLIENTS {
            let sent = [("x-gone", "of the client"), ("x-set", "of the client")];
            for (path, set, gone, server, power, asked) in [
                ("/x?q=1", "pool route 1", false, None, Some(("x-power", "route GET")), Some("/x web")),
                ("/y?q=2", "pool of the client 2", false, None, Some(("x-power", "tests")), Some("/y web")),
                ("/z", "of the client", true, Some("echo/1"), Some(("x-powered-by", "tests")), None),
                ("/split?q=3", "pool of the client 3", false, None, Some(("x-power", "tests")), Some("/split web")),
                ("/rest", "of the client", true, Some("echo/1"), Some(("x-powered-by", "tests")), None),
            ] {
                let answer = ask(client, &proxy, path, &sent).await;
                let at = format!("{client}, {endpoint}, {path}: {answer:?}");
                assert_eq!(
                    (got(&answer, "x-set"), got(&answer, "x-gone").len()),
                    (vec![set], usize::from(gone)),
                    "{at}"
                );
                assert_eq!((field(&answer, "server"), field(&answer, "x-asked")), (server, asked), "{at}");
                if let Some((name, value)) = power {
                    assert_eq!(fields(&answer, name), [value], "{at}");
                }
            }
            let answer = ask(client, &proxy, "/x", &sent).await;
            assert_eq!(field(&answer, "x-host"), Some("a"), "{client}, {endpoint}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn answers_of_the_proxy_itself_have_no_fields_of_the_pool() {
    let proxy = Proxy::with(&[own_addr()], "h2c = true", "response_headers = { set = { X-Pool = '1' } }", &secure(""));
    for client in CLIENTS {
        let answer = ask(client, &proxy, "/", &[]).await;
        assert_eq!((answer.0, field(&answer, "x-pool")), (502, None), "{client}: {answer:?}");
    }
}

/// HTTP/2 allows control characters in values that HTTP/1 does not have.
#[test]
fn a_value_with_a_control_character_is_not_sent_and_does_not_leave_the_clients_own() {
    let endpoint = Endpoint::answering(|request| ok(&request.head));
    let rest = "[[route]]\npool = 'web'\nrequest_headers = { set = { X-Set = '{header.x-evil}' } }";
    let proxy = Proxy::with(&[endpoint.addr], "h2c = true", "", rest);
    for evil in ["a\x01b", "a\x7f", "\x1b[31m", "a\x0bb"] {
        let mut client = H2Client::connect(proxy.addr());
        let head = [
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/"),
            (":authority", "a"),
            ("x-evil", evil),
            ("x-set", "spoofed"),
        ];
        client.head(1, &head, true);
        let answer = client.answer(1);
        let body = answer.body_text().to_lowercase();
        assert!(answer.status() != 200 || !body.contains("\r\nx-set:"), "{evil:?}: {} {body}", answer.status());
    }
}

#[tokio::test]
async fn values_that_grow_too_long_are_a_431_and_those_of_responses_are_left_out() {
    let echoes = Echoes::start();
    let many = "{header.x-long}".repeat(200);
    let rest = format!(
        "[[route]]\npool = 'web'\nmatch = {{ path = '/request' }}\nrequest_headers = {{ set = {{ X-Many = '{many}' }} }}\n\
         [[route]]\npool = 'web'\nmatch = {{ path = '/several' }}\n[route.request_headers.set]\n\
         A = '{{header.x-long}}'\nB = '{{header.x-long}}'\nC = '{{header.x-long}}'\nD = '{{header.x-long}}'\n\
         [[route]]\npool = 'web'\nmatch = {{ path = '/response' }}\n\
         response_headers = {{ set = {{ X-First = 'a', X-Many = '{many}' }} }}"
    );
    let long = "x".repeat(5000);
    for (endpoint, proxy) in echoes.proxies(&rest) {
        for client in CLIENTS {
            for path in ["/request", "/several"] {
                let answer = ask(client, &proxy, path, &[("x-long", &long)]).await;
                assert_eq!(answer.0, 431, "{client}, {endpoint}, {path}: {}", answer.2);
                assert!(answer.2.contains("of request_headers would be too long"), "{}", answer.2);
                assert_eq!(ask(client, &proxy, path, &[("x-long", "1")]).await.0, 200);
            }
            let answer = ask(client, &proxy, "/response", &[("x-long", &long)]).await;
            assert_eq!((answer.0, field(&answer, "x-first"), field(&answer, "x-many")), (200, Some("a"), None));
            let answer = ask(client, &proxy, "/response", &[("x-long", "1")]).await;
            assert_eq!(field(&answer, "x-many").map(str::len), Some(200));
        }
    }
}

#[tokio::test]
async fn fields_of_responses_are_changed_for_any_two_protocols() {
    let echoes = Echoes::start();
    let rest = r#"
[[route]]
name = "shop"
pool = "web"
match = { path = "/{id}" }
[route.response_headers]
remove = ["X-Powered-*"]
rename = { X-Old = "X-New" }
set = { Server = "", X-By = "{pool} {endpoint} {route} {status}", X-Of = "{method} {host} {path.id} {header.x-a}", X-Gone = "{header.absent}" }
add = { X-Tag = "a" }
"#;
    for ((endpoint, proxy), addr) in echoes.proxies(rest).into_iter().zip(echoes.addrs()) {
        for client in CLIENTS {
            let answer = ask(client, &proxy, "/seven", &[("x-a", "of the request")]).await;
            let at = format!("{client}, {endpoint}: {answer:?}");
            for (name, values) in [
                ("x-powered-by", &[][..]),
                ("x-old", &[]),
                ("x-new", &["kept"]),
                ("server", &[]),
                ("x-by", &[&*format!("web {addr} shop 200")]),
                ("x-of", &["GET a seven of the request"]),
                ("x-gone", &[]),
                ("x-tag", &["a"]),
            ] {
                assert_eq!(fields(&answer, name), values, "{name}: {at}");
            }
        }
    }
}

/// Answers of an endpoint that refuses and of the proxy have the fields too.
#[tokio::test]
async fn own_answers_and_those_after_a_retry_have_the_fields_too() {
    let rules = "[[route]]\npool = 'web'\nresponse_headers = { security = true, set = { X-By = '{endpoint}|{path}' } }\n\
                request_headers = { set = { X-Set = '{client.ip}' } }";
    let rest = &format!("{rules}\n{}", secure(""));
    let proxy = Proxy::with(&[own_addr()], "h2c = true", "retry = { attempts = 0 }", rest);
    for client in CLIENTS {
        let answer = ask(client, &proxy, "/x", &[]).await;
        assert!(answer.0 == 502 || answer.0 == 503, "{answer:?}");
        assert_eq!(field(&answer, "x-content-type-options"), Some("nosniff"), "{answer:?}");
        assert!(field(&answer, "x-by").is_some_and(|by| by.ends_with("|/x")), "{answer:?}");
    }
    let bad = Endpoint::answering(|_| status("503 Busy", "busy"));
    let good = Endpoint::answering(|request| ok(request.field("x-set").unwrap_or("-")));
    let pool = "outlier = 'off'\nretry = { backoff = '1ms..2ms', on = [503], budget = 1.0 }";
    let rest = &format!("{rules}\n{}", secure(""));
    let proxy = Proxy::with(&[bad.addr, good.addr], "h2c = true", pool, rest);
    for client in CLIENTS {
        for _ in 0..4 {
            let answer = ask(client, &proxy, "/x", &[]).await;
            assert_eq!((answer.0, &*answer.2), (200, "127.0.0.1"), "{client}");
            assert_eq!(field(&answer, "x-by"), Some(&*format!("{}|/x", good.addr)), "{client}");
        }
    }
    assert!(!bad.seen().is_empty() && bad.seen().iter().all(|seen| seen.field("x-set") == Some("127.0.0.1")));
}

fn security(answer: &Answer) -> [Vec<&str>; 3] {
    ["x-content-type-options", "x-frame-options", "referrer-policy"].map(|name| fields(answer, name))
}

#[tokio::test]
async fn security_is_a_set_of_fields_of_which_the_endpoint_and_the_route_may_choose_others() {
    let endpoint = Endpoint::answering(|request| match request.line().split(' ').nth(1) {
        Some("/own") => b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Content-Type-Options: sniff\r\n\
                          x-frame-options: ALLOWALL\r\nReferrer-Policy: origin\r\n\r\n"
            .to_vec(),
        _ => ok(""),
    });
    let rest = "[[route]]\npool = 'web'\nresponse_headers = { security = true }\n\
                [[route]]\npool = 'web'\nmatch = { path = '/deny' }\n\
                response_headers = { security = true, remove = ['Referrer-Policy'], set = { X-Frame-Options = 'DENY' } }";
    let proxy = Proxy::with(&[endpoint.addr], "h2c = true", "", &format!("{rest}\n{}", secure("")));
    let usual = "strict-origin-when-cross-origin";
    for client in CLIENTS {
        let answer = ask(client, &proxy, "/", &[]).await;
        assert_eq!(security(&answer), [vec!["nosniff"], vec!["SAMEORIGIN"], vec![usual]], "{client}");
        let answer = ask(client, &proxy, "/own", &[]).await;
        assert_eq!(security(&answer), [vec!["nosniff"], vec!["ALLOWALL"], vec!["origin"]], "{client}");
        let answer = ask(client, &proxy, "/deny", &[]).await;
        assert_eq!(security(&answer), [vec!["nosniff"], vec!["DENY"], vec![]], "{client}");
    }
}

#[tokio::test]
async fn fields_that_show_what_runs_are_hidden_where_they_are_to_be() {
    let endpoint = Endpoint::answering(|_| {
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nserver: x/1\r\nX-Powered-By: y\r\nX-AspNet-Version: 4\r\n\
          x-accel-expires: 9\r\nX-Kept: 1\r\n\r\n"
            .to_vec()
    });
    let rest = "[[route]]\npool = 'web'\nresponse_headers = { hide = true }\n\
                [[route]]\npool = 'web'\nmatch = { path = '/open' }\n";
    let proxy = Proxy::with(&[endpoint.addr], "h2c = true", "", &format!("{rest}\n{}", secure("")));
    for client in CLIENTS {
        for (path, count) in [("/", 0), ("/open", 4)] {
            let answer = ask(client, &proxy, path, &[]).await;
            let hidden = ["server", "x-powered-by", "x-aspnet-version", "x-accel-expires"];
            assert_eq!(hidden.iter().filter(|name| field(&answer, name).is_some()).count(), count, "{client} {path}");
            assert_eq!(field(&answer, "x-kept"), Some("1"), "{client} {path}");
        }
    }
}

#[tokio::test]
async fn cookies_of_endpoints_get_attributes_and_that_of_a_session_keeps_its_own() {
    let echoes = Echoes::start();
    let rest = "sticky = { secret = 'a secret of tests' }\n[[route]]\npool = 'web'\n\
                cookies = { secure = true, http_only = true, same_site = 'lax' }";
    for (endpoint, proxy) in echoes.proxies(rest) {
        for client in CLIENTS {
            let answer = ask(client, &proxy, "/", &[]).await;
            let at = format!("{client}, {endpoint}: {answer:?}");
            let (own, others): (Vec<&str>, Vec<&str>) =
                fields(&answer, "set-cookie").into_iter().partition(|cookie| cookie.starts_with("evenkeel"));
            assert_eq!(
                others,
                ["a=1; Path=/; Secure; HttpOnly; SameSite=Lax", "b=2; Secure; HttpOnly; SameSite=Lax"],
                "{at}"
            );
            assert!(own.len() == 1 && !own[0].contains("; Secure"), "{at}");
        }
    }
}

const EDITS: &str = r#"
[[route]]
pool = "web"
match = { prefix = "/" }
[route.request_headers]
set = { X-First = "1" }
add = { X-Many = ["a", "{client.ip}"] }
[[route.request_headers.edits]]
when = { header = { X-First = "1" } }
rename = { X-First = "X-Second" }
[[route.request_headers.edits]]
when = { header = { X-First = { present = true } } }
set = { X-Never = "1" }
[[route.request_headers.edits]]
when = { header = { X-Second = "1" }, not = { query = { q = "skip" } } }
set = { X-Third = "{header.x-second}{header.x-second}" }
[[route.request_headers.edits]]
when = { prefix = "/a", host = ["*.example", "a"] }
add = { X-Many = "c" }
[[route.response_headers.edits]]
when = { status = ["2xx"] }
set = { X-Status = "{status}" }
[[route.response_headers.edits]]
when = { status = 404 }
set = { X-Wrong = "1" }
[[route.response_headers.edits]]
when = { header = { Server = { search = "^echo/[0-9]" } } }
remove = ["Server"]
add = { X-Many = ["1", "2"] }
[[route.response_headers.edits]]
when = { header = { Server = { present = false } }, request = { path = "/a", cookie = { s = "1" } } }
set = { X-Of = "{header.x-t|url_decode}-{path.last}" }
"#;

#[tokio::test]
async fn edits_are_applied_in_their_order_where_their_conditions_are_met() {
    let echoes = Echoes::start();
    for (endpoint, proxy) in echoes.proxies(EDITS) {
        for client in CLIENTS {
            let answer = ask(client, &proxy, "/a?q=1", &[("cookie", "s=1"), ("x-t", "a%20b"), ("x-first", "2")]).await;
            let at = format!("{client}, {endpoint}: {answer:?}");
            for (name, values) in [
                ("x-first", &[][..]),
                ("x-second", &["1"]),
                ("x-never", &[]),
                ("x-third", &["11"]),
                ("x-many", &["a", "127.0.0.1", "c"]),
            ] {
                assert_eq!(got(&answer, name), values, "{name}: {at}");
            }
            for (name, values) in [
                ("x-status", &["200"][..]),
                ("x-wrong", &[]),
                ("server", &[]),
                ("x-many", &["1", "2"]),
                ("x-of", &["a b-a"]),
            ] {
                assert_eq!(fields(&answer, name), values, "{name}: {at}");
            }
            let answer = ask(client, &proxy, "/b?q=skip", &[("x-t", "%0d%0aX: 1")]).await;
            let at = format!("{client}, {endpoint}: {answer:?}");
            assert_eq!((got(&answer, "x-third"), got(&answer, "x-many")), (vec![], vec!["a", "127.0.0.1"]), "{at}");
            assert_eq!((fields(&answer, "x-of"), fields(&answer, "x-status")), (vec![], vec!["200"]), "{at}");
            // A line break that was decoded is not sent.
            let answer = ask(client, &proxy, "/a", &[("cookie", "s=1"), ("x-t", "%0d%0aX: 1")]).await;
            assert_eq!((fields(&answer, "x-of"), fields(&answer, "x")), (vec![], vec![]), "{answer:?}");
        }
    }
}

const FUNCTIONS: &str = r#"
[[route]]
pool = "web"
match = { path = "/{first}/{*rest}" }
[route.request_headers.set]
X-Uri = "{request_uri}"
X-Segments = "{path.first} {path.last}"
X-Client = "{header.x-for|before(,)|default(none)}"
X-Words = "{header.x-list|word(2,',; ')} {header.x-list|word(-1,',; ')|upper}"
X-Dollar = "{dollar}host {percent}[src]"
X-Decoded = "{query.q|url_decode}"
X-Encoded = "{query.q|url_decode|url_encode}"
X-Long = "{header.x-long|before(.)}"
"#;

#[tokio::test]
async fn functions_change_values_and_never_add_a_line() {
    let echoes = Echoes::start();
    for (endpoint, proxy) in echoes.proxies(FUNCTIONS) {
        for client in CLIENTS {
            let long = format!("short.{}", "x".repeat(9000));
            let sent = [("x-for", "10.0.0.1, 10.0.0.2"), ("x-list", "a, b;c"), ("x-long", &long)];
            let answer = ask(client, &proxy, "/a/b%20c?q=%41%0d%0aX:1", &sent).await;
            let at = format!("{client}, {endpoint}: {answer:?}");
            for (name, values) in [
                ("x-uri", &["/a/b%20c?q=%41%0d%0aX:1"][..]),
                // The parameter has the name.
                ("x-segments", &["a b%20c"]),
                ("x-client", &["10.0.0.1"]),
                ("x-words", &["b C"]),
                ("x-dollar", &["$host %[src]"]),
                ("x-decoded", &[]),
                ("x", &[]),
                ("x-encoded", &["A%0D%0AX%3A1"]),
                ("x-long", &["short"]),
            ] {
                let got: Vec<_> = got(&answer, name).into_iter().filter(|value| *value != long).collect();
                assert_eq!(got, values, "{name}: {at}");
            }
            let answer = ask(client, &proxy, "/a/?", &[]).await;
            let (uri, client_ip) = (got(&answer, "x-uri"), got(&answer, "x-client"));
            assert_eq!((uri, client_ip), (vec!["/a/"], vec!["none"]), "{client}, {endpoint}: {answer:?}");
        }
    }
}
