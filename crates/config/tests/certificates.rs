//! Faults of TLS files, and the places they are reported at, with a fake machine that knows certificates.

use evenkeel_config::{CertificateFault, Certified, Found, Machine, TlsFile, check, render_text};

fn fault(of_key: bool, is_error: bool, what: &str) -> CertificateFault {
    CertificateFault { of_key, is_error, what: what.to_string(), help: "mend it".to_string() }
}

/// A machine that has every file, and reads the faults of TLS files from their names.
fn knowing() -> Machine {
    Machine {
        look: Box::new(|_| Ok(Found::File)),
        read: Box::new(|_| Ok(Vec::new())),
        append: Box::new(|_| Ok(())),
        has: Box::new(|_| Ok(())),
        is_own: Box::new(|_| false),
        certificate: Box::new(|cert, _| {
            let text = cert.to_string();
            let mut certified = Certified { self_signed: text.contains("self"), ..Certified::default() };
            if text.contains("bad-key") {
                certified.faults.push(fault(true, true, "the key is wrong"));
            }
            certified.names = Some(vec!["a.example".to_string(), "*.b.example".to_string()]);
            certified
        }),
        ocsp: Box::new(|file, cert| {
            assert!(cert.to_string().ends_with(".pem"));
            let expired = file.to_str().is_some_and(|file| file.contains("expired"));
            expired.then(|| fault(false, false, "it has expired")).into_iter().collect()
        }),
        tls_file: Box::new(|kind, file| {
            let wrong = file.to_string().contains("bad");
            wrong.then(|| fault(false, kind != TlsFile::Revoked, &format!("{kind:?} is wrong"))).into_iter().collect()
        }),
        ..Machine::this()
    }
}

fn said(name: &str, text: &str) -> String {
    let path = std::env::temp_dir().join(format!("evenkeel-certificates-{}-{name}.toml", std::process::id()));
    std::fs::write(&path, text).expect("the temporary folder can be written");
    let said = render_text(&check(&path, &|_| None, &knowing()).diagnostics, false);
    std::fs::remove_file(&path).expect("it is there");
    said
}

const POOL: &str = "\n[pool.p]\nendpoints = ['10.0.0.1:80']\n";

#[test]
fn each_fault_is_reported_at_its_key() {
    let tls = "[listener.web]\nbind = ['127.0.0.1:443']\n[listener.web.tls]\n\
               certificates = [{ cert = 'bad-key.pem', key = 'a.key', ocsp = 'bad.ocsp' }]\nticket_keys = ['ok.key', 'bad.key']\n\
               client_auth = { ca = 'bad-ca.pem', crl = 'bad.crl' }\n";
    let said = said("each", &format!("{tls}{POOL}"));
    for (code, what, at) in [
        ("error[EK0214]", "the key is wrong", "'a.key'"),
        ("error[EK0214]", "Ocsp is wrong", "'bad.ocsp'"),
        ("error[EK0214]", "TicketKey is wrong", "'bad.key'"),
        ("error[EK0214]", "Authorities is wrong", "'bad-ca.pem'"),
        ("warning[EK0311]", "Revoked is wrong", "'bad.crl'"),
    ] {
        let report =
            said.split("\n\n").find(|report| report.contains(what)).unwrap_or_else(|| panic!("{what}: {said}"));
        assert!(report.starts_with(code) && report.contains(at), "{report}");
    }
}

#[test]
fn an_ocsp_response_that_is_not_stapled_is_reported_at_its_key() {
    let report = |ocsp: &str| {
        let pair = format!("{{ cert = 'a.pem', key = 'a.key', ocsp = '{ocsp}' }}");
        said(ocsp, &format!("[listener.web]\nbind = ['127.0.0.1:443']\ntls = {{ certificates = [{pair}] }}\n{POOL}"))
    };
    let expired = report("expired.ocsp");
    assert!(expired.starts_with("warning[EK0311]: it has expired") && expired.contains("'expired.ocsp'"), "{expired}");
    assert_eq!(report("good.ocsp"), "");
}

#[test]
fn a_self_signed_certificate_is_told_of_at_listeners_alone() {
    let certificates = "tls = { certificates = [{ cert = 'self.pem', key = 'a.key' }] }";
    let of_listener = said("listener", &format!("[listener.web]\nbind = ['127.0.0.1:443']\n{certificates}\n{POOL}"));
    assert!(of_listener.contains("warning[EK0311]") && of_listener.contains("self_signed = true"), "{of_listener}");
    let tls = "tls = { cert = 'self.pem', key = 'a.key' }";
    let of_pool = said("pool", &format!("[listener.web]\nbind = ['127.0.0.1:80']\n{POOL}{tls}\n"));
    assert_eq!(of_pool, "");
}

#[test]
fn hosts_without_a_certificate_are_reported_where_requests_for_them_come() {
    let web =
        "[listener.web]\nbind = ['127.0.0.1:443']\ntls = { certificates = [{ cert = 'a.pem', key = 'a.key' }] }\n";
    let route =
        |listener: &str, host: &str| format!("[[route]]\nmatch = {{ {listener} host = ['{host}'] }}\npool = 'p'\n");
    let redirecting = "[listener.plain]\nbind = ['127.0.0.1:80']\nredirect_https = true\n";
    let plain = "[listener.plain]\nbind = ['127.0.0.1:80']\n";
    for (n, (listeners, listener, host, is_told)) in [
        ("", "listener = ['web'],", "c.example", true),
        ("", "listener = ['web'],", "a.example", false),
        ("", "listener = ['web'],", "x.b.example", false),
        ("", "", "c.example", true),
        ("", "", "a.example", false),
        (redirecting, "", "c.example", true),
        // Requests for the host may arrive at the plain listener.
        (plain, "", "c.example", false),
        (plain, "listener = ['web'],", "c.example", true),
        (plain, "listener = ['plain'],", "c.example", false),
    ]
    .into_iter()
    .enumerate()
    {
        let text = format!(
            "{web}{listeners}{}{}{POOL}",
            route(listener, host),
            route("", "a.example").repeat(usize::from(host != "a.example"))
        );
        let said = said(&format!("hosts-{n}"), &text);
        assert_eq!(said.contains("EK0312"), is_told, "{n}: {said}");
    }
}
