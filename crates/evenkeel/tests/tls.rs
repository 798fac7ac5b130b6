//! TLS of the whole program: tried out from the command line, checked, and believed by the authorities of the system.

use crate::support::{Endpoint, Folder, Running, address, ends, eventually, get, text};
use evenkeel_peers::installed;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;

/// Output of curl, or its error.
fn curl(arguments: &[&str]) -> Result<String, String> {
    let out = Command::new("curl").args(["-sS", "--noproxy", "*", "--max-time", "20"]).args(arguments).output();
    let out = out.expect("it was looked for");
    if out.status.success() { Ok(text(&out.stdout)) } else { Err(text(&out.stderr)) }
}

/// A certificate for this machine that vouches for itself, and its key.
fn certificate(folder: &Folder, days: &str, ip: IpAddr) -> (String, String) {
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| folder.0.join(name).display().to_string());
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", days])
        .args(["-subj", "/CN=here", "-addext", &format!("subjectAltName=IP:{ip},DNS:a.example")])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", &key, "-out", &cert])
        .output();
    assert!(made.is_ok_and(|made| made.status.success()));
    (cert, key)
}

#[test]
fn tls_is_tried_out_with_one_argument() {
    if !installed(&["curl"]) {
        return;
    }
    let (endpoint, listen) = (Endpoint::start("a"), address());
    let running = Running::start(&["run", &endpoint.addr, "--listen", &listen, "--tls-self-signed"]);
    assert!(running.said().contains(&format!("listening  https://{listen}")), "{}", running.said());
    let line = running.said().lines().find_map(|line| line.trim().strip_prefix("try ").map(str::to_string));
    let line = line.unwrap_or_else(|| panic!("{}", running.said()));
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[..2], ["curl", "-k"]);
    assert_eq!(curl(&["-k", words[2]]).expect("an answer"), "a");
    assert_eq!(curl(&["-k", words[2], "-w", " %{http_version}"]).expect("an answer"), "a 2");
    assert!(curl(&[words[2]]).expect_err("no client knows it").contains("self-signed"));
    // A client that does not know better is told.
    let (status, body) = get(&listen, "/").expect("an answer");
    assert!(status == 400 && body.contains("use https://"), "{status} {body}");
    let printed = ends(&["run", "127.0.0.1:1", "--tls-self-signed", "--print-config"], 0, &[]);
    assert!(printed.contains("self_signed = true"), "{printed}");
}

#[test]
fn endpoints_are_believed_by_the_authorities_of_the_system() {
    if !installed(&["openssl"]) {
        return;
    }
    let (folder, endpoint, secured, listen) = (Folder::new("roots"), Endpoint::start("a"), address(), address());
    let ip = secured.parse::<SocketAddr>().expect("an address").ip();
    let (cert, key) = certificate(&folder, "20", ip);
    let file = folder.file(
        "secured.toml",
        &format!(
            "[listener.secured]\nbind = ['{secured}']\ntls = {{ certificates = [{{ cert = '{cert}', key = '{key}' }}] }}\n\
             [pool.plain]\nendpoints = ['{}']\n",
            endpoint.addr
        ),
    );
    let _endpoint = Running::start(&["run", "-c", &file]);
    for (name, tls, status, said) in [("true", "true", 200, ""), ("off", "{ verify = false }", 200, "EK0313")] {
        let file = folder.file(
            &format!("{name}.toml"),
            &format!("[listener.web]\nbind = ['{listen}']\n[pool.web]\nendpoints = ['{secured}']\ntls = {tls}\n"),
        );
        let running = Running::start_in(&[("SSL_CERT_FILE", &cert)], &["run", "-c", &file]);
        assert_eq!(get(&listen, "/").expect("an answer").0, status);
        assert!(running.said().contains(said), "{}", running.said());
    }
    // Those of the system do not know it.
    let file = folder.0.join("true.toml").display().to_string();
    let roots = Folder::new("other-roots");
    let (other, _) = certificate(&roots, "20", ip);
    let _running = Running::start_in(&[("SSL_CERT_FILE", &other)], &["run", "-c", &file]);
    assert_eq!(get(&listen, "/").expect("an answer").0, 502);
}

#[test]
fn check_looks_at_certificates_and_elsewhere_does_not() {
    if !installed(&["openssl"]) {
        return;
    }
    let folder = Folder::new("checked");
    let (cert, key) = certificate(&folder, "3", Ipv4Addr::LOCALHOST.into());
    let file = folder.file(
        "checked.toml",
        &format!(
            "[listener.web]\nbind = ['127.0.0.1:8443']\ntls = {{ certificates = [{{ cert = '{cert}', key = '{key}' }}] }}\n\
             [[route]]\nmatch = {{ host = ['a.example', 'b.example'] }}\npool = 'web'\n\
             [pool.web]\nendpoints = ['127.0.0.1:8081']\ntls = {{ verify = false }}\n"
        ),
    );
    let says = ["expires on", "self-signed", "covers \"b.example\"", "EK0313", "4 warnings"];
    ends(&["check", &file], 0, &says);
    std::fs::write(&key, "rubbish").expect("a file");
    ends(&["check", &file], 78, &["error[EK0214]", "has no private key"]);
    ends(&["run", "-c", &file], 1, &["tls of listener \"web\"", "has no private key"]);
    ends(&["check", &file, "--elsewhere"], 0, &["1 warning"]);
}

#[test]
fn files_that_change_are_taken_up_and_wrong_ones_are_told_of() {
    if !installed(&["curl", "openssl"]) {
        return;
    }
    let (folder, other, endpoint, listen, admin) =
        (Folder::new("renewed"), Folder::new("renewal"), Endpoint::start("a"), address(), address());
    let ip = listen.parse::<SocketAddr>().expect("an address").ip();
    let [(cert, key), (new_cert, new_key)] = [&folder, &other].map(|folder| certificate(folder, "20", ip));
    let file = folder.file(
        "renewed.toml",
        &format!(
            "[admin]\nhttp = {{ bind = '{admin}' }}\n\
             [listener.web]\nbind = ['{listen}']\ntls = {{ certificates = [{{ cert = '{cert}', key = '{key}' }}] }}\n\
             [pool.web]\nendpoints = ['{}']\n",
            endpoint.addr
        ),
    );
    let running = Running::start(&["run", "-c", &file]);
    let trusting = |cert: &str| curl(&["--cacert", cert, &format!("https://{listen}/")]);
    let first = folder.file("first.pem", &std::fs::read_to_string(&cert).expect("a file"));
    assert_eq!(trusting(&first).expect("an answer"), "a");
    std::fs::copy(&new_cert, &cert).expect("a file");
    let said = |what: &str| eventually(what, || running.said().contains(what).then_some(()));
    said("does not match the certificate");
    assert!(running.said().contains("tls of listener \"web\": keeping the previous certificates"));
    assert_eq!(trusting(&first).expect("the one of before"), "a");
    std::fs::copy(&new_key, &key).expect("a file");
    said("certificates reloaded");
    assert_eq!(trusting(&new_cert).expect("the new one"), "a");
    assert!(trusting(&first).is_err());
    let (_, metrics) = get(&admin, "/metrics").expect("an answer");
    for line in [
        "evenkeel_certificate_reloads_total{result=\"applied\"} 1",
        "evenkeel_certificate_reloads_total{result=\"refused\"} 1",
        "evenkeel_certificate_not_after_timestamp_seconds{listener=\"web\",name=\"",
        "evenkeel_tls_handshake_failures_total{listener=\"web\",cause=\"distrusted\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}
