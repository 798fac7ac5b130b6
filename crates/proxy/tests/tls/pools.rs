//! TLS to endpoints, for requests and TCP sessions, as configured.

use crate::support::endpoint::ok;
use crate::support::log::Log;
use crate::support::pki::{Pki, config, refused};
use crate::support::tls::{BOTH, TlsClient, V12, V13, answering};
use crate::support::{Client, Endpoint, Proxy, wait_until};
use evenkeel_proxy::stats::{CAME, ErrorKind, Unsecured};
use rcgen::{PKCS_ECDSA_P256_SHA256, SanType};
use rustls::{ServerConnection, StreamOwned};
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

/// A plain listener whose pool uses TLS.
fn before(endpoint: &Endpoint, tls: &str) -> Proxy {
    Proxy::with(&[endpoint.addr], "", &format!("tls = {tls}"), "")
}

#[test]
fn an_endpoint_shows_its_own_address_or_the_name_of_the_pool() {
    let pki = Pki::new();
    let of_address = pki.issue_with("unused.test", &PKCS_ECDSA_P256_SHA256, |params| {
        params.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
    });
    let of_name = pki.issue("api.inside");
    for (shown, server_name, status) in [
        (&of_address, "", 200),
        (&of_address, ", server_name = 'api.inside'", 502),
        (&of_name, ", server_name = 'api.inside'", 200),
        (&of_name, ", server_name = 'other.inside'", 502),
        (&of_name, "", 502),
    ] {
        let endpoint = answering(pki.serving(shown), |_| ok("secured"));
        let proxy = before(&endpoint, &format!("{{ ca = {:?} {server_name} }}", pki.ca()));
        assert_eq!(proxy.client().get("/").status(), status, "{server_name}");
    }
}

#[test]
fn an_endpoint_shows_one_of_the_names_of_the_pool_whatever_name_is_requested() {
    let pki = Pki::new();
    let uri = |text: &str| SanType::URI(text.try_into().unwrap());
    let of = |names: Vec<SanType>| {
        pki.issue_with("unused.test", &PKCS_ECDSA_P256_SHA256, |params| params.subject_alt_names = names)
    };
    let dns = |text: &str| SanType::DnsName(text.try_into().unwrap());
    let own = pki.own("own.inside", |params| params.subject_alt_names.push(uri("spiffe://inside/own")));
    let (both, wild) = (of(vec![dns("abc.inside"), uri("spiffe://inside/api")]), of(vec![dns("*.b.inside")]));
    for (shown, ca, names, status) in [
        (&both, pki.ca(), "'abc.inside'", 200),
        (&both, pki.ca(), "'dce.inside'", 502),
        (&both, pki.ca(), "'spiffe://inside/api'", 200),
        (&both, pki.ca(), "'spiffe://inside/ap'", 502),
        (&both, pki.ca(), "'spiffe://inside/other', 'ABC.inside'", 200),
        (&both, pki.ca(), "'*.inside'", 502),
        (&wild, pki.ca(), "'abc.b.inside'", 200),
        (&wild, pki.ca(), "'*.b.inside'", 200),
        (&wild, pki.ca(), "'spiffe://inside/api'", 502),
        (&own, own.cert.clone(), "'spiffe://inside/own'", 200),
        (&own, own.cert.clone(), "'abc.inside'", 502),
        // The right name, of an authority that is not trusted.
        (&both, own.cert.clone(), "'abc.inside'", 502),
    ] {
        let asked = Arc::new(Mutex::new(None));
        let seen = asked.clone();
        let endpoint = crate::support::tls::endpoint(pki.serving(shown), move |stream| {
            *seen.lock().unwrap() = stream.get_ref().conn.server_name().map(str::to_string);
            let mut line = String::new();
            while std::io::BufRead::read_line(stream, &mut line).is_ok_and(|n| n > 2) {}
            let _ = stream.get_mut().write_all(&ok("secured"));
        });
        let proxy = before(&endpoint, &format!("{{ ca = {ca:?}, server_name = 'asked.inside', names = [{names}] }}"));
        let answer = proxy.client().get("/");
        assert_eq!(answer.status(), status, "{names}: {}", answer.body_text());
        assert!(status != 200 || asked.lock().unwrap().as_deref() == Some("asked.inside"), "{names}");
    }
}

#[test]
fn an_endpoint_that_wants_a_certificate_is_shown_that_of_the_pool() {
    let pki = Pki::new();
    let [server, own] = ["b.test", "balancer.test"].map(|name| pki.issue(name));
    let endpoint = answering(pki.wanting(&server), |_| ok("secured"));
    let with = format!("{{ ca = {:?}, server_name = 'b.test', cert = {:?}, key = {:?} }}", pki.ca(), own.cert, own.key);
    assert_eq!(before(&endpoint, &with).client().get("/").body_text(), "secured");
    let without = before(&endpoint, &format!("{{ ca = {:?}, server_name = 'b.test' }}", pki.ca()));
    // With TLS 1.3 the alert comes after the handshake, when the request is already sent.
    let answer = without.client().get("/");
    assert_eq!(answer.status(), 502);
    assert!(answer.body_text().contains("closed TLS with an alert: CertificateRequired"), "{}", answer.body_text());
    assert_ne!(without.endpoint(0, |e| e.errors[ErrorKind::Tls as usize].get()), 0);
}

#[test]
fn without_verification_any_certificate_is_believed() {
    let (pki, stranger) = (Pki::new(), Pki::named("another authority"));
    let expired = stranger.issue_with("x.test", &PKCS_ECDSA_P256_SHA256, |params| {
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    });
    let endpoint = answering(stranger.serving(&expired), |_| ok("secured"));
    let text = config("", &endpoint, "tls = { verify = false }");
    let said = evenkeel_config::render_text(
        &evenkeel_config::parse_str("test.toml", &text.replace("$BIND", "127.0.0.1:1"), &|_| None).diagnostics,
        false,
    );
    assert!(said.contains("warning[EK0313]") && said.contains("are not verified"), "{said}");
    assert_eq!(before(&endpoint, "{ verify = false }").client().get("/").body_text(), "secured");
    assert_eq!(before(&endpoint, &format!("{{ ca = {:?} }}", pki.ca())).client().get("/").status(), 502);
}

#[test]
fn sessions_with_endpoints_go_on_over_requests_checks_and_probes() {
    for versions in [V12, V13] {
        let pki = Pki::new();
        let server = pki.issue("b.test");
        let serving = pki.serving_by(&server, versions);
        let kinds = Arc::new(Mutex::new(Vec::new()));
        let seen = kinds.clone();
        let serve = move |conn: &mut BufReader<StreamOwned<ServerConnection, TcpStream>>| {
            seen.lock().unwrap().push(conn.get_ref().conn.handshake_kind().unwrap());
            while let Ok(Some(request)) = crate::support::message::read_message(conn, false) {
                let close = if request.line().contains("/check") { "" } else { "Connection: close\r\n" };
                let is_probe = request.field("user-agent") == Some("evenkeel-probe");
                let report = if is_probe { "endpoint-load-metrics: TEXT named_metrics.in_flight=4\r\n" } else { "" };
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{report}{close}\r\nok");
                if conn.get_mut().write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
        };
        let serve = Arc::new(serve);
        let endpoints = [(); 2].map(|()| {
            let serve = serve.clone();
            crate::support::tls::endpoint(serving.clone(), move |conn| serve(conn))
        });
        let proxy = Proxy::start(&format!(
            "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\n[pool.web]\nendpoints = [\"{}\", \"{}\"]\n\
             balance = \"prequal\"\nload_reports = {{ probe = \"http\" }}\n\
             health = {{ http = {{ path = '/check' }}, interval = '100ms', initial = 'unhealthy' }}\n\
             tls = {{ ca = {:?}, server_name = 'b.test' }}\n",
            endpoints[0].addr,
            endpoints[1].addr,
            pki.ca()
        ));
        // The check uses TLS, or the endpoints would stay down.
        endpoints.iter().for_each(|endpoint| proxy.becomes(endpoint.addr, "up"));
        let probed = CAME.iter().position(|form| *form == "http").unwrap();
        let mut client = proxy.client();
        wait_until("a probe has brought a report", || {
            assert_eq!(client.get("/").status(), 200);
            proxy.pool(|p| p.reports[probed].get()) > 0
        });
        drop(proxy);
        drop(endpoints);
        let kinds = kinds.lock().unwrap();
        let resumed = kinds.iter().filter(|kind| **kind == rustls::HandshakeKind::Resumed).count();
        assert!(resumed > 0, "{kinds:?}");
    }
}

#[test]
fn a_session_over_tcp_ends_its_tls_here_by_name_with_the_client_in_the_log() {
    let named = |name: &'static str| {
        Endpoint::start(move |conn| {
            conn.send(name);
            conn.rest();
        })
    };
    let (one, two, log, pki) = (named("one"), named("two"), Log::new(), Pki::new());
    let [server, other, shop] = ["a.test", "db.test", "shop.test"].map(|name| pki.issue(name));
    let proxy = Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\nmode = \"tcp\"\npool = \"one\"\n\
         tls = {{ certificates = [{}, {}], client_auth = {{ ca = {:?} }} }}\n\
         [[route]]\nmatch = {{ listener = [\"web\"], host = [\"db.test\"] }}\npool = \"two\"\n\
         [pool.one]\nendpoints = [\"{}\"]\n[pool.two]\nendpoints = [\"{}\"]\n{}",
        server.entry(),
        other.entry(),
        pki.ca(),
        one.addr,
        two.addr,
        log.config()
    ));
    for (name, wanted) in [("a.test", "one"), ("db.test", "two")] {
        let mut client = TlsClient::connect(proxy.addr(), pki.client(BOTH, Some(&shop)), name).unwrap();
        let mut said = [0; 3];
        client.reader.read_exact(&mut said).unwrap();
        assert_eq!(said, wanted.as_bytes());
    }
    assert!(refused(&proxy, pki.client(V13, None), "a.test").contains("CertificateRequired"));
    // A client without TLS is closed: nothing is known about its protocol.
    let mut plain = Client::connect(proxy.addr());
    plain.send("GET / HTTP/1.1\r\n\r\n").ends();
    let failed = |cause: Unsecured| proxy.listener(|l| l.tls.failed[cause as usize].get());
    wait_until("both are counted", || failed(Unsecured::CertificateRequired) == 1 && failed(Unsecured::PlainHttp) == 1);
    wait_until("sessions have ended", || proxy.listener(|l| l.active.get()) == 0);
    let lines = log.lines(proxy);
    let sessions: Vec<_> = lines.iter().filter(|line| line["proto"] == "TCP").collect();
    assert_eq!(sessions.len(), 2);
    for line in sessions {
        assert_eq!(line["client_cert_subject"], "CN=shop.test,O=Example\\, Inc.");
        assert_eq!(line["host"], line["sni"]);
    }
}
