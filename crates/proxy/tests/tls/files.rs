//! TLS as a configuration says it: certificates in files, taken up again at a reload.

use crate::support::certificate::Certificate;
use crate::support::tls::{Authority, BOTH, V13, answering};
use crate::support::{Endpoint, Proxy, own_addr, tool};
use evenkeel_peers::installed;
use evenkeel_proxy::StartError;
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

/// What curl gets that trusts the certificate `of` alone, for this name.
fn fetch(proxy: &Proxy, name: &str, of: &Path) -> Result<String, String> {
    let port = proxy.addr().port();
    let mut curl = tool("curl");
    curl.args(["-sS", "--noproxy", "*", "--max-time", "20", "--resolve", &format!("{name}:{port}:127.0.0.1")]);
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
    let own = || own_addr().port();
    let (a, b, new) =
        (Certificate::of("a.test", own()), Certificate::of("b.test", own()), Certificate::of("a.test", own()));
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
    // And what cannot be used changes nothing.
    std::fs::copy(b.key(), a.key()).unwrap();
    let error = proxy.reload(&config(&endpoint, &[&a, &b], "")).unwrap_err();
    assert!(matches!(error, StartError::Tls(..)) && error.to_string().contains("cert.pem"), "{error}");
    assert_eq!(fetch(&proxy, "a.test", &new.cert()).unwrap(), "hello");
}

#[test]
fn a_pool_trusts_the_authority_of_its_file() {
    if !installed(&["openssl"]) {
        return;
    }
    let (ca, owner) = (Authority::new("ca"), Certificate::of("a.test", own_addr().port()));
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
