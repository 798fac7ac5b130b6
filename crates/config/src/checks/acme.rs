//! Checks of certificates obtained over ACME: names that an authority can issue for, and a listener that
//! answers its challenges.

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Formed, HostPattern};
use crate::plan::{Challenge, ClientAuthMode, Listener, Mode, Plan};
use crate::source::Span;
use crate::table::Section;
use std::collections::HashMap;
use std::sync::Arc;

/// Most names in a certificate, the limit of Let's Encrypt.
const NAMES_MAX: usize = 100;

/// Reports names that cannot be obtained, and challenges that no listener answers.
pub(crate) fn check(root: &Section, plan: &Plan, findings: &mut Findings) {
    let acme = root.section("acme");
    if let Some(email) = acme.text("email").filter(|email| !is_email(email)) {
        findings
            .add(Code::BadAddress, acme.span_of("email"), format!("\"{email}\" is not an email address"))
            .help("write \"ops@example.com\"");
    }
    // Keyed by the first name: the whole list and its place.
    let mut lists: HashMap<String, (Vec<String>, Span)> = HashMap::new();
    let mut first = None;
    for listener in root.named("listener") {
        for certificate in listener.section.section("tls").sections("certificates") {
            let names = names_of(certificate, plan, findings);
            let Some(one) = names.first().cloned() else { continue };
            let span = certificate.span_of("acme");
            first.get_or_insert(span);
            if names.len() > NAMES_MAX {
                findings
                    .add(Code::OutOfRange, span, format!("{} names are too many for one certificate", names.len()))
                    .help(format!("at most {NAMES_MAX} are allowed; split them over several entries of certificates"));
            }
            match lists.get(&one) {
                Some((others, other)) if *others != names => {
                    let message = format!("two different lists start with \"{one}\"");
                    findings.add(Code::Contradiction, span, message).see("the other one is here", *other).help(
                        "a certificate is stored under its first name: make the lists equal, or put another name first",
                    );
                }
                _ => _ = lists.insert(one, (names, span)),
            }
        }
    }
    match first {
        Some(span) => answered(plan, span, findings),
        None if acme.span != root.span && root.has("acme") => {
            findings
                .add(Code::AtOdds, root.span_of("acme"), "no listener uses [acme]")
                .help("add names to the listener: tls = { certificates = [{ acme = [\"example.com\"] }] }; or leave [acme] out");
        }
        None => {}
    }
}

/// Names of a certificate issued over ACME.
fn names_of(certificate: &Section, plan: &Plan, findings: &mut Findings) -> Vec<String> {
    let mut names = Vec::new();
    if certificate.set("acme").is_some_and(|set| !set.is_broken()) && certificate.formed_list("acme").is_empty() {
        findings
            .add(Code::Missing, certificate.span_of("acme"), "\"acme\" has no name")
            .help("list the hosts of the certificate, as [\"www.example.com\"]");
    }
    for (formed, span) in certificate.formed_list("acme") {
        let Formed::Host(host) = formed else { continue };
        name(&host, span, plan, findings);
        let host = host.to_string();
        if names.contains(&host) {
            findings.add(Code::SameName, span, format!("\"{host}\" is listed twice")).help("remove one of them");
        }
        names.push(host);
    }
    names
}

fn name(host: &HostPattern, span: Span, plan: &Plan, findings: &mut Findings) {
    let challenge = plan.acme.challenge.name();
    match host {
        HostPattern::Wildcard(_) => {
            findings
                .add(
                    Code::NotAllowed,
                    span,
                    format!("{challenge} cannot validate \"{host}\": a wildcard has no host to connect to"),
                )
                .help("list each host; for a wildcard, have a dns-01 client write files, and set them in certificates");
        }
        HostPattern::Exact(exact) if exact.starts_with('[') || exact.parse::<std::net::IpAddr>().is_ok() => {
            findings
                .add(Code::NotAllowed, span, format!("\"{host}\" is an IP address: ACME issues certificates for names"))
                .help("write the host name, as \"www.example.com\"");
        }
        HostPattern::Exact(exact) if exact.contains('_') => {
            findings
                .add(
                    Code::NotAllowed,
                    span,
                    format!("\"{host}\" contains \"_\": no CA issues certificates for such names"),
                )
                .help("use letters, digits and - only");
        }
        HostPattern::Exact(exact) if is_private(exact) && plan.acme.directory.contains(".letsencrypt.org/") => {
            findings
                .add(
                    Code::AtOdds,
                    span,
                    format!("Let's Encrypt does not issue for \"{host}\": it is not a public name"),
                )
                .help("use a public host name, or set the directory of a private CA in [acme]");
        }
        HostPattern::Exact(_) => {}
    }
}

/// True for names that exist only within a private network.
fn is_private(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    !name.contains('.') || ["local", "localhost", "internal", "lan", "home", "test", "invalid"].contains(&last)
}

fn is_email(text: &str) -> bool {
    let plain = !text.contains(char::is_whitespace) && !text.contains([',', ':', '?']);
    plain
        && text
            .split_once('@')
            .is_some_and(|(user, host)| !user.is_empty() && host.contains('.') && !host.contains('@'))
}

/// Reports a challenge that no listener answers, or none on the port that the authority uses.
fn answered(plan: &Plan, span: Span, findings: &mut Findings) {
    let by_tls = plan.acme.challenge == Challenge::TlsAlpn01;
    let asks = |listener: &Listener| {
        let auth = listener.tls.as_ref().and_then(|tls| tls.client_auth.as_ref());
        auth.is_some_and(|auth| auth.mode == ClientAuthMode::Required)
    };
    let answers =
        |l: &&Arc<Listener>| l.mode == Mode::Http && if by_tls { l.tls.is_some() && !asks(l) } else { l.tls.is_none() };
    let port = if by_tls { 443 } else { 80 };
    let mut answering = plan.listeners.iter().filter(answers).peekable();
    let (what, other) = match by_tls {
        true => ("an HTTP listener with TLS that requires no client certificates", "http-01"),
        false => ("an HTTP listener without TLS", "tls-alpn-01"),
    };
    let challenge = plan.acme.challenge.name();
    if answering.peek().is_none() {
        findings
            .add(Code::NothingToDo, span, format!("nothing answers the {challenge} challenge, which needs {what}"))
            .help(format!("add one with bind = [\"[::]:{port}\"], or set challenge = \"{other}\" in [acme]"));
    } else if !answering.any(|listener| listener.bind.iter().any(|addr| addr.port() == port)) {
        findings
            .add(
                Code::AtOdds,
                span,
                format!("the {challenge} challenge arrives on port {port}, where no listener answers it"),
            )
            .help(format!("bind {what} there, or make sure that port {port} of these names is forwarded to one"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_told_apart() {
        for (name, private) in [
            ("example.com", false),
            ("localhost", true),
            ("web.internal", true),
            ("a.local", true),
            ("locals.org", false),
        ] {
            assert_eq!(is_private(name), private, "{name}");
        }
        for (text, is) in [
            ("ops@example.com", true),
            ("ops", false),
            ("@example.com", false),
            ("a@b", false),
            ("a b@c.d", false),
            ("mailto:a@b.c", false),
        ] {
            assert_eq!(is_email(text), is, "{text}");
        }
    }
}
