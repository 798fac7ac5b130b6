//! Checks of TLS files by the machine: usable certificates and keys, and names that cover the hosts of
//! routes.

use super::machine::is_secret_itself;
use crate::code::Code;
use crate::diagnostic::Findings;
#[cfg(test)]
use crate::form::HostPattern;
use crate::form::{Formed, Pem};
use crate::machine::{CertificateFault, Certified, Machine, TlsFile};
use crate::sections::listener::Mode;
use crate::source::Span;
use crate::table::Section;
use std::path::Path;

/// Reports faults of TLS files, and hosts that no certificate covers.
pub(crate) fn check(root: &Section, machine: &Machine, findings: &mut Findings) {
    for listener in root.named("listener") {
        let tls = listener.section.section("tls");
        let mut names: Vec<String> = Vec::new();
        for certificate in tls.sections("certificates") {
            for (formed, _) in certificate.formed_list("acme") {
                let Formed::Host(host) = formed else { continue };
                names.push(host.to_string());
            }
            let Some(Certified { names: its, self_signed, .. }) = pair(certificate, machine, findings) else {
                continue;
            };
            names.extend(used(its.unwrap_or_default(), &certificate.formed_list("hosts")));
            if self_signed {
                let what = "the certificate is self-signed: clients refuse to connect unless they trust it explicitly";
                findings.add(Code::WeakCertificate, certificate.span_of("cert"), what).help(
                    "get one issued by a CA; to try things out, self_signed = true instead of certificates needs no file",
                );
            }
            file(certificate, "ocsp", TlsFile::Ocsp, path, machine, findings);
            if let (Some(response), Some(cert)) = (certificate.text("ocsp"), certificate.text("cert")) {
                for fault in (machine.ocsp)(Path::new(&response), &Pem::of(&cert)) {
                    report(certificate.span_of("ocsp"), fault, findings);
                }
            }
        }
        if !names.is_empty() {
            uncovered(root, &listener.name, &names, findings);
        }
        let auth = tls.section("client_auth");
        file(&auth, "ca", TlsFile::ClientAuthorities, Pem::of, machine, findings);
        file(&auth, "crl", TlsFile::Revoked, Pem::of, machine, findings);
        for (key, span) in tls.formed_list("ticket_keys") {
            let Formed::Text(key) = key else { continue };
            if is_secret_itself(Path::new(&key), span, machine, findings) {
                continue;
            }
            let faults = (machine.tls_file)(TlsFile::TicketKey, &path(&key));
            faults.into_iter().for_each(|fault| report(span, fault, findings));
        }
    }
    file(&root.section("acme"), "ca", TlsFile::Authorities, path, machine, findings);
    for pool in root.named("pool") {
        let tls = pool.section.section("tls");
        file(&tls, "ca", TlsFile::Authorities, Pem::of, machine, findings);
        pair(&tls, machine, findings);
    }
}

/// Reports the faults of a certificate and its key. The result has none left; `None` if either is not set.
fn pair(section: &Section, machine: &Machine, findings: &mut Findings) -> Option<Certified> {
    let (cert, key) = (section.text("cert")?, section.text("key")?);
    if let Pem::File(path) = Pem::of(&key)
        && is_secret_itself(&path, section.span_of("key"), machine, findings)
    {
        return None;
    }
    let mut certified = (machine.certificate)(&Pem::of(&cert), &Pem::of(&key));
    for fault in std::mem::take(&mut certified.faults) {
        report(section.span_of(if fault.of_key { "key" } else { "cert" }), fault, findings);
    }
    Some(certified)
}

/// A key that takes only the path of a file.
fn path(text: &str) -> Pem {
    Pem::File(text.into())
}

/// Reports the faults of the file that `key` names. `of` reads its value.
fn file(section: &Section, key: &str, kind: TlsFile, of: fn(&str) -> Pem, machine: &Machine, findings: &mut Findings) {
    if let Some(text) = section.text(key) {
        for fault in (machine.tls_file)(kind, &of(&text)) {
            report(section.span_of(key), fault, findings);
        }
    }
}

fn report(span: Span, fault: CertificateFault, findings: &mut Findings) {
    let code = if fault.is_error { Code::Certificate } else { Code::WeakCertificate };
    findings.add(code, span, fault.what).help(fault.help);
}

/// Reports hosts of routes that no certificate of the listener covers. A route that names no listener counts
/// only if this is the single listener that serves requests; otherwise its hosts may be meant for another.
fn uncovered(root: &Section, listener: &str, names: &[String], findings: &mut Findings) {
    let serves = |listener: &Section| {
        listener.word("mode") == Mode::Http.name() && listener.switched("redirect_https").is_none()
    };
    let mut serving = root.named("listener").iter().filter(|listener| serves(&listener.section));
    let is_alone = serving.next().is_some_and(|first| first.name == listener) && serving.next().is_none();
    for route in root.sections("route") {
        let matches = route.section("match");
        let is_here = |(formed, _): &(Formed, Span)| matches!(formed, Formed::Text(name) if name == listener);
        let listeners = matches.formed_list("listener");
        if !(listeners.is_empty() && is_alone || listeners.iter().any(is_here)) {
            continue;
        }
        for (formed, span) in matches.formed_list("host") {
            let Formed::Host(host) = formed else { continue };
            let host = host.to_string();
            if !names.iter().any(|name| covers(name, &host)) {
                findings
                    .add(Code::NotCovered, span, format!("no certificate of listener \"{listener}\" covers \"{host}\""))
                    .help(format!("clients refuse to connect; the certificates cover: {}", names.join(", ")));
            }
        }
    }
}

/// Names for which a certificate is used: those in it, as far as they are among its `hosts` if that is set.
fn used(names: Vec<String>, hosts: &[(Formed, Span)]) -> Vec<String> {
    if hosts.is_empty() {
        return names;
    }
    let hosts = hosts.iter().filter_map(|(formed, _)| if let Formed::Host(host) = formed { Some(host) } else { None });
    let hosts: Vec<String> = hosts.map(ToString::to_string).collect();
    let covered = hosts.iter().filter(|host| names.iter().any(|name| covers(name, host)));
    let below = names.iter().filter(|name| hosts.iter().any(|host| covers(host, name)));
    covered.chain(below).cloned().collect()
}

/// True if a certificate's name covers a host; `*` stands for a label.
fn covers(name: &str, host: &str) -> bool {
    if name.eq_ignore_ascii_case(host) {
        return true;
    }
    let Some(domain) = name.strip_prefix("*.") else { return false };
    host.split_once('.').is_some_and(|(label, rest)| !label.is_empty() && rest.eq_ignore_ascii_case(domain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_for_certain_hosts_covers_no_others() {
        let host = |host: &str| {
            let pattern = match host.strip_prefix('*') {
                Some(suffix) => HostPattern::Wildcard(suffix.to_owned()),
                None => HostPattern::Exact(host.to_owned()),
            };
            (Formed::Host(pattern), Span::whole(0))
        };
        let names = || vec!["*.a.com".to_owned(), "x.b.com".to_owned(), "c.com".to_owned()];
        assert_eq!(used(names(), &[]), names());
        assert_eq!(used(names(), &[host("w.a.com"), host("*.b.com"), host("d.com")]), ["w.a.com", "x.b.com"]);
    }

    #[test]
    fn a_wildcard_stands_for_one_label() {
        for (name, host, is) in [
            ("example.com", "Example.com", true),
            ("*.example.com", "www.example.com", true),
            ("*.example.com", "*.example.com", true),
            ("*.example.com", "a.b.example.com", false),
            ("*.example.com", "example.com", false),
            ("example.com", "www.example.com", false),
        ] {
            assert_eq!(covers(name, host), is, "{name} {host}");
        }
    }
}
