//! TLS with clients: certificates of listeners, and certificates of clients, which each server of an address may ask for by
//! itself.

use super::lexer::Directive;
use super::world::{World, group, single};
use crate::model::{Listener, Value, cert_files};

/// Requests of a server that are refused by its own settings of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Refused {
    #[default]
    None,
    /// Refuses requests without a verified certificate of the client.
    WithoutCertificate,
    All,
}

/// Certificates and versions of a server, for its listener.
pub(super) fn read(levels: &[&[Directive]], is_default: bool, listener: &mut Listener, world: &mut World<'_>) {
    let certificates = group(levels, "ssl_certificate");
    let keys = group(levels, "ssl_certificate_key");
    for (certificate, key) in certificates.iter().zip(&keys) {
        world.ledger.carried(certificate.line);
        world.ledger.carried(key.line);
        if certificate.word(1).contains('$') && !certificate.word(1).contains("${") {
            world.ledger.changes(
                certificate.line,
                "its name comes from a variable",
                "list each certificate in tls.certificates",
            );
            continue;
        }
        let entry = cert_files(certificate.word(1), key.word(1));
        match listener.set.get(key!("tls.certificates")) {
            // The first of the list is used where no name fits.
            Some(Value::List(list)) if is_default && !list.contains(&entry) => {
                let all: Vec<Value> = std::iter::once(entry).chain(list.iter().cloned()).collect();
                listener.set.put(key!("tls.certificates"), all);
            }
            _ => listener.set.push(key!("tls.certificates"), entry),
        }
    }
    if let Some(directive) = single(levels, "ssl_reject_handshake") {
        match (directive.word(1), is_default) {
            ("on", true) => {
                listener.set.put(key!("tls.unknown_name"), "reject");
                world.ledger.changes(
                    directive.line,
                    "a connection without a server name is accepted, and its requests are refused with 403",
                    "nothing, unless clients depend on it",
                );
            }
            ("on", false) => world.ledger.decide(
                directive.line,
                "a handshake is refused for unknown names only: requests for this server are refused with 403",
                "remove the certificate with its name",
            ),
            _ => world.ledger.carried(directive.line),
        }
    }
    if let Some(directive) = single(levels, "ssl_protocols") {
        let has = |version: &str| directive.from(1).iter().any(|word| word == version);
        match (has("TLSv1.2"), has("TLSv1.3")) {
            (false, true) => drop(listener.set.put(key!("tls.min_version"), "1.3")),
            _ if has("TLSv1") || has("TLSv1.1") => world.ledger.changes(
                directive.line,
                "TLS 1.2 is the oldest version that is accepted",
                "nothing, unless clients of before 2014 matter",
            ),
            _ => {}
        }
        world.ledger.carried(directive.line);
    }
}

/// Settings of a server for certificates of clients.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Asked<'d> {
    is_required: bool,
    authority: Option<&'d str>,
    revoked: Option<&'d str>,
}

impl<'d> Asked<'d> {
    /// `None` if the server asks for no certificate.
    fn read(levels: &[&'d [Directive]], world: &mut World<'_>) -> Option<Asked<'d>> {
        let verify = single(levels, "ssl_verify_client");
        let [client, trusted, list] =
            ["ssl_client_certificate", "ssl_trusted_certificate", "ssl_crl"].map(|name| single(levels, name));
        let Some(verify) = verify.filter(|verify| verify.word(1) != "off") else {
            for line in [verify, client, trusted].into_iter().flatten() {
                world.ledger.dropped(line.line, "no certificate of a client is asked for");
            }
            return None;
        };
        [Some(verify), client.or(trusted), list].into_iter().flatten().for_each(|d| world.ledger.carried(d.line));
        world.ledger.changes(
            verify.line,
            "a client whose certificate is not valid cannot connect, where NGINX sends it a 400",
            "nothing: no such request reached an endpoint, but with optional_no_ca: mode = \"unverified\"",
        );
        if let (Some(_), Some(trusted)) = (client, trusted) {
            world.ledger.changes(
                trusted.line,
                "clients need a certificate of ssl_client_certificate",
                "add these authorities to the file of tls.client_auth.ca, if they issue certificates of clients",
            );
        }
        Some(Asked {
            is_required: verify.word(1) == "on",
            authority: client.or(trusted).map(|d| d.word(1)),
            revoked: list.map(|d| d.word(1)),
        })
    }
}

/// Sets the certificates of clients that a listener asks for, by what its servers ask for. Returns the requests that each
/// of them refuses by itself.
pub(super) fn client_certificates(
    servers: &[Vec<&[Directive]>],
    listener: &mut Listener,
    world: &mut World<'_>,
) -> Vec<Refused> {
    let asked: Vec<Option<Asked<'_>>> = servers.iter().map(|levels| Asked::read(levels, world)).collect();
    let first = asked.iter().flatten().find(|asked| asked.authority.is_some());
    let is_alike = asked.iter().all(|other| other.as_ref() == first);
    if let Some(first) = first {
        let mode = if is_alike && first.is_required { "required" } else { "optional" };
        listener.set.put(key!("tls.client_auth.mode"), mode);
        listener.set.put(key!("tls.client_auth.ca"), first.authority.unwrap_or_default());
        if let Some(list) = first.revoked {
            listener.set.put(key!("tls.client_auth.crl"), list);
        }
    }
    let each = asked.iter().zip(servers).map(|(asked, levels)| {
        let (Some(asked), Some(verify)) = (asked, single(levels, "ssl_verify_client")) else { return Refused::None };
        let is_of_first =
            first.is_some_and(|first| (first.authority, first.revoked) == (asked.authority, asked.revoked));
        if !is_of_first {
            let reason =
                "an address has the authorities of one server: all requests for this server are refused with 403";
            let todo = "a file with the authorities of all servers for tls.client_auth.ca, or an address of its own";
            world.ledger.decide(verify.line, reason, todo);
            return Refused::All;
        }
        match asked.is_required && !is_alike {
            true => Refused::WithoutCertificate,
            false => Refused::None,
        }
    });
    each.collect()
}
