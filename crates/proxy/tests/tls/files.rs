//! TLS as configured: certificates in files, reread at a reload.

use crate::support::certificate::Certificate;
use crate::support::tls::{Authority, BOTH, V13, answering, curl};
use crate::support::{Endpoint, Proxy, wait_until};
use evenkeel_peers::installed;
use std::path::Path;

fn config(endpoint: &Endpoint, certificates: &[&Certificate], pool: &str) -> String {
    let list: Vec<String> =
        certificates.iter().map(|c| format!("{{ cert = {:?}, key = {:?} }}", c.cert(), c.key())).collect();
    format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\ntls = {{ certificates = [{}] }}\n\
         [pool.web]\nendpoints = [\"{}\"]\n{pool}\n",
        list.join(", "),
        endpoint.addr
    )
}

/// Body that curl gets for this name when it trusts only the certificate in `of`; else its error.
fn fetch(proxy: &Proxy, name: &str, of: &Path) -> Result<String, String> {
    let port = proxy.addr().port();
    let mut curl = curl(proxy, name);
    let out = curl.arg("--cacert").arg(of).arg(format!("https://{name}:{port}/")).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if out.status.success() { Ok(text(&out.stdout)) } else { Err(text(&out.stderr)) }
}

#[test]
fn a_client_gets_the_certificate_for_its_name_and_a_reload_changes_it() {
    if !installed(&["curl", "openssl"]) {
        return;
    }
    let endpoint = Endpoint::saying("hello");
    let (a, b, new) = (Certificate::of("a.test"), Certificate::of("b.test"), Certificate::of("a.test"));
    let mut proxy = Proxy::start(&config(&endpoint, &[&a, &b], ""));
    for (name, of) in [("a.test", &a), ("b.test", &b)] {
        assert_eq!(fetch(&proxy, name, &of.cert()).unwrap(), "hello");
    }
    assert!(fetch(&proxy, "b.test", &a.cert()).is_err());
    // The same files with other contents.
    std::fs::copy(new.cert(), a.cert()).unwrap();
    std::fs::copy(new.key(), a.key()).unwrap();
    proxy.reload(&config(&endpoint, &[&a, &b], "")).unwrap();
    assert_eq!(fetch(&proxy, "a.test", &new.cert()).unwrap(), "hello");
    // Unusable files change nothing.
    std::fs::copy(b.key(), a.key()).unwrap();
    let error = proxy.reload(&config(&endpoint, &[&a, &b], "")).unwrap_err();
    assert!(error.to_string().contains("cert.pem"), "{error}");
    assert_eq!(fetch(&proxy, "a.test", &new.cert()).unwrap(), "hello");
}

#[test]
fn certificates_may_stand_in_the_configuration() {
    if !installed(&["curl", "openssl"]) {
        return;
    }
    let (ca, a, b) = (Authority::new("ca"), Certificate::of("a.test"), Certificate::of("b.test"));
    let endpoint = answering(ca.server("b.test", &[], |_| ()), |_| crate::support::endpoint::ok("secured"));
    let text = |path: &Path| format!("{:?}", std::fs::read_to_string(path).unwrap());
    let config = |of: &Certificate, trusted: &Path| {
        format!(
            "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\n\
             tls = {{ certificates = [{{ cert = {}, key = {} }}] }}\n\
             [pool.web]\nendpoints = [\"{}\"]\ntls = {{ ca = {}, server_name = \"b.test\" }}\n",
            text(&of.cert()),
            text(&of.key()),
            endpoint.addr,
            text(trusted)
        )
    };
    let mut proxy = Proxy::start(&config(&a, &ca.pem()));
    assert_eq!(fetch(&proxy, "a.test", &a.cert()).unwrap(), "secured");
    proxy.reload(&config(&b, &ca.pem())).unwrap();
    assert_eq!(fetch(&proxy, "b.test", &b.cert()).unwrap(), "secured");
    // Another authority than that of the endpoint.
    proxy.reload(&config(&b, &b.cert())).unwrap();
    assert!(fetch(&proxy, "b.test", &b.cert()).unwrap().contains("502"));
}

#[test]
fn a_pool_trusts_the_authority_of_its_file() {
    if !installed(&["openssl"]) {
        return;
    }
    let (ca, owner) = (Authority::new("ca"), Certificate::of("a.test"));
    let pem = ca.pem();
    let endpoint = answering(ca.server("b.test", &[], |_| ()), |_| crate::support::endpoint::ok("secured"));
    let pool = |name: &str| format!("tls = {{ ca = {pem:?}, server_name = '{name}' }}");
    for (name, status) in [("b.test", 200), ("c.test", 502)] {
        let proxy = Proxy::start(&config(&endpoint, &[&owner], &pool(name)));
        let mut trusting = crate::support::tls::trusting(&owner.cert(), if status == 200 { V13 } else { BOTH });
        let answer = trusting.connect(proxy.addr(), "a.test").get("/");
        assert_eq!(answer.status(), status);
    }
    let _ = std::fs::remove_file(&pem);
}

#[test]
fn clients_prove_their_identity_and_endpoints_get_it() {
    let (ca, clients) = (Authority::new("ca"), Authority::new("clients"));
    let (own, pem) = (Certificate::of("a.test"), clients.pem());
    drop(ca);
    let endpoint = Endpoint::saying("hello");
    let tls = format!(
        "tls = {{ certificates = [{{ cert = {:?}, key = {:?} }}], client_auth = {{ ca = {pem:?} }}, hsts = '365d' }}",
        own.cert(),
        own.key()
    );
    let config = format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\n{tls}\n[pool.web]\nendpoints = [\"{}\"]\n",
        endpoint.addr
    );
    let proxy = Proxy::start(&config);
    // Without a certificate. With TLS 1.3 the client learns of it at its first read.
    let mut without = crate::support::tls::trusting(&own.cert(), V13).connect(proxy.addr(), "a.test");
    let refused = std::io::Read::read(&mut without.reader, &mut [0]).unwrap_err();
    assert!(refused.to_string().contains("CertificateRequired"), "{refused}");
    let cause = evenkeel_proxy::stats::Unsecured::CertificateRequired as usize;
    wait_until("it is counted", || proxy.listener(|l| l.tls.failed[cause].get()) == 1);
    let (config, fingerprint) = clients.showing(&own.cert());
    let mut with = crate::support::tls::TlsClient::connect(proxy.addr(), config, "a.test").unwrap();
    let spoofed = "X-Client-Cert-Fingerprint: 00\r\nClient_Cert: x\r\nClient-Cert: :eA==:\r\n";
    let answer = with.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{spoofed}\r\n")).response();
    assert_eq!(answer.field("strict-transport-security"), Some("max-age=31536000"));
    let seen = &endpoint.seen()[0];
    assert_eq!(seen.field("x-client-cert-fingerprint"), Some(&*fingerprint));
    assert_eq!((seen.field("x-client-cert-verified"), seen.field("client-cert")), (Some("SUCCESS"), None));
    let _ = std::fs::remove_file(&pem);
}

#[test]
fn fields_of_a_route_may_have_facts_of_tls() {
    let clients = Authority::new("clients");
    let (own, pem) = (Certificate::of("a.test"), clients.pem());
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\ntls = {{ certificates = [{{ cert = {:?}, key = {:?} \
         }}], client_auth = {{ ca = {pem:?} }} }}\n[pool.web]\nendpoints = [\"{}\"]\n[[route]]\npool = 'web'\n\
         [route.request_headers]\nremove = ['X-Client-Cert-*']\n[route.request_headers.set]\n\
         X-Tls = '{{tls.version}} {{tls.cipher}} {{tls.server_name}} {{scheme}}'\n\
         X-Print = '{{tls.client.fingerprint}}'\nX-Subject = '{{tls.client.subject}}'\n\
         [route.response_headers.set]\nX-Subject = '{{tls.client.subject}} {{port}}'",
        own.cert(),
        own.key(),
        endpoint.addr
    ));
    let (config, fingerprint) = clients.showing(&own.cert());
    let mut client = crate::support::tls::TlsClient::connect(proxy.addr(), config, "a.test").unwrap();
    let answer = client.send("GET / HTTP/1.1\r\nHost: a\r\nX-Subject: spoofed\r\n\r\n").response();
    let seen = &endpoint.seen()[0];
    let tls = seen.field("x-tls").unwrap_or_default();
    assert!(tls.starts_with("TLSv1.3 TLS_") && tls.ends_with(" a.test https"), "{tls}");
    assert_eq!(seen.field("x-print"), Some(&*fingerprint));
    let subject = seen.field("x-subject").expect("the certificate has one");
    assert!(subject.contains('=') && subject != "spoofed", "{subject}");
    assert_eq!(answer.field("x-subject"), Some(&*format!("{subject} {}", proxy.addr().port())));
    assert_eq!(seen.field("x-client-cert-subject"), None);
    let _ = std::fs::remove_file(&pem);
}

#[test]
fn a_plain_listener_may_send_all_clients_to_tls() {
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::with(&[endpoint.addr], "redirect_https = true", "", "");
    let mut client = proxy.client();
    for (host, wanted) in
        [("a.test", "https://a.test/x?y"), ("a.test:80", "https://a.test/x?y"), ("[::1]", "https://[::1]/x?y")]
    {
        let answer = client.send(format!("GET /x?y HTTP/1.1\r\nHost: {host}\r\n\r\n")).response();
        assert_eq!((answer.status(), answer.field("location")), (308, Some(wanted)));
    }
    assert!(endpoint.seen().is_empty());
}

#[test]
fn a_redirect_to_tls_has_the_port_and_spares_what_came_over_https_to_a_trusted_proxy() {
    let endpoint = Endpoint::saying("hello");
    let listener = "redirect_https = { port = 8443 }\ntrusted_proxies = ['127.0.0.1']";
    let proxy = Proxy::with(&[endpoint.addr], listener, "", "");
    let mut client = proxy.client();
    for (fields, status) in [
        ("", 308),
        ("X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: http\r\n", 308),
        ("X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n", 200),
        ("Forwarded: for=192.0.2.1;proto=https\r\n", 200),
    ] {
        let answer = client.send(format!("GET /x HTTP/1.1\r\nHost: a.test:81\r\n{fields}\r\n")).response();
        let wanted = (status == 308).then_some("https://a.test:8443/x");
        assert_eq!((answer.status(), answer.field("location")), (status, wanted), "{fields}");
    }
    // Fields of anyone else are not believed.
    let proxy = Proxy::with(&[endpoint.addr], "redirect_https = true\ntrusted_proxies = ['192.0.2.0/24']", "", "");
    let answer = proxy.client().send("GET /x HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-Proto: https\r\n\r\n").response();
    assert_eq!((answer.status(), answer.field("location")), (308, Some("https://a.test/x")));
}
