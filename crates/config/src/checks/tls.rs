//! Can certificates and keys be used, and do they have the names that routes use? The machine reads them.

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Formed;
use crate::machine::{CertificateFault, Machine};
use crate::source::Span;
use crate::table::Section;
use std::path::Path;

/// Reports what is to be said of the files of TLS.
pub(crate) fn check(root: &Section, machine: &dyn Machine, findings: &mut Findings) {
    for listener in root.named("listener") {
        let tls = listener.section.section("tls");
        let mut names: Vec<String> = Vec::new();
        for certificate in tls.sections("certificates") {
            names.extend(pair(certificate, machine, findings));
        }
        if !names.is_empty() {
            uncovered(root, &listener.name, &names, findings);
        }
        authorities(&tls.section("client_auth"), machine, findings);
    }
    for pool in root.named("pool") {
        let tls = pool.section.section("tls");
        authorities(&tls, machine, findings);
        pair(&tls, machine, findings);
    }
}

/// A certificate and its key: the names that it has.
fn pair(section: &Section, machine: &dyn Machine, findings: &mut Findings) -> Vec<String> {
    let (Some(cert), Some(key)) = (section.text("cert"), section.text("key")) else { return Vec::new() };
    let certified = machine.certificate(Path::new(&cert), Path::new(&key));
    for fault in certified.faults {
        report(section.span_of(if fault.of_key { "key" } else { "cert" }), fault, findings);
    }
    certified.names.unwrap_or_default()
}

fn authorities(section: &Section, machine: &dyn Machine, findings: &mut Findings) {
    if let Some(ca) = section.text("ca") {
        for fault in machine.authorities(Path::new(&ca)) {
            report(section.span_of("ca"), fault, findings);
        }
    }
}

fn report(span: Span, fault: CertificateFault, findings: &mut Findings) {
    let code = if fault.is_error { Code::Certificate } else { Code::WeakCertificate };
    findings.add(code, span, fault.what).help(fault.help);
}

/// Reports hosts of routes that name a listener which none of its certificates has.
fn uncovered(root: &Section, listener: &str, names: &[String], findings: &mut Findings) {
    for route in root.sections("route") {
        let matches = route.section("match");
        let is_here = |(formed, _): &(Formed, Span)| matches!(formed, Formed::Text(name) if name == listener);
        if !matches.formed_list("listener").iter().any(is_here) {
            continue;
        }
        for (formed, span) in matches.formed_list("host") {
            let Formed::Host(host) = formed else { continue };
            let host = host.to_string();
            if !names.iter().any(|name| covers(name, &host)) {
                findings
                    .add(
                        Code::NotCovered,
                        span,
                        format!("no certificate of listener \"{listener}\" has the name \"{host}\""),
                    )
                    .help(format!("clients refuse to connect; the certificates have: {}", names.join(", ")));
            }
        }
    }
}

/// Whether a name of a certificate stands for a host: `*` for one label.
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
