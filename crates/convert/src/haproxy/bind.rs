//! `bind` lines: addresses of listeners, with and without TLS.

use super::lexer::Item;
use crate::ledger::Ledger;
use crate::model::Table;

/// Addresses of one `bind` line, and what its parameters set of the listener.
#[derive(Debug, Default)]
pub(super) struct Bind {
    pub addresses: Vec<String>,
    pub is_tls: bool,
    pub set: Table,
}

/// Reads a `bind` line. `base` is put in front of relative names of certificates.
pub(super) fn read(item: &Item, base: &str, ledger: &mut Ledger) -> Bind {
    let mut bind = Bind::default();
    ledger.carried(item.line);
    for address in item.word(1).split(',').filter(|address| !address.is_empty()) {
        match bind_address(address) {
            Ok(address) => bind.addresses.push(address),
            Err((reason, todo)) => ledger.changes(item.line, format!("{address}: {reason}"), todo),
        }
    }
    parameters(item, base, &mut bind, ledger);
    if bind.is_tls && bind.set.table("tls").get("certificates").is_none() {
        bind.set.put("tls.self_signed", true);
        let todo = "write tls = { certificates = [{ cert = \"FILE.pem\", key = \"FILE.pem\" }] }";
        ledger.changes(item.line, "its certificates were not carried over: a self-signed one is used", todo);
    }
    bind
}

fn parameters(item: &Item, base: &str, bind: &mut Bind, ledger: &mut Ledger) {
    let mut words = item.from(2).iter().map(String::as_str);
    let mut authority = None;
    let mut verify = "";
    while let Some(word) = words.next() {
        match word {
            "ssl" => bind.is_tls = true,
            "crt" => certificate(words.next().unwrap_or_default(), base, bind, item, ledger),
            "ca-file" => authority = words.next(),
            "crl-file" => drop(bind.set.put("tls.client_auth.crl", with_base(base, words.next().unwrap_or_default()))),
            "verify" => verify = words.next().unwrap_or_default(),
            "ssl-min-ver" => match words.next().unwrap_or_default() {
                "TLSv1.3" => drop(bind.set.put("tls.min_version", "1.3")),
                "TLSv1.2" => {}
                version => ledger.changes(
                    item.line,
                    format!("{version} is older than TLS 1.2, the oldest here"),
                    "nothing, unless old clients need it",
                ),
            },
            "alpn" => {
                let protocols = words.next().unwrap_or_default();
                if !protocols.contains("h2") {
                    bind.set.put("tls.protocols", vec!["http/1.1"]);
                }
            }
            "proto" => match words.next().unwrap_or_default() {
                "h2" if !bind.is_tls => drop(bind.set.put("h2c", true)),
                _ => {}
            },
            "accept-proxy" => {
                bind.set.put("accept_proxy_protocol", vec!["0.0.0.0/0", "::/0"]);
                let reason = "the PROXY protocol is required from every address, as there";
                ledger.changes(
                    item.line,
                    reason,
                    "name only the networks of the balancers in front in accept_proxy_protocol",
                );
            }
            "maxconn" => {
                if let Some(most) = words.next().and_then(|n| n.parse::<u64>().ok()).filter(|n| *n > 0) {
                    bind.set.put("limits.connections", most);
                }
            }
            "strict-sni" => drop(bind.set.put("tls.unknown_name", "reject")),
            "ciphers" | "ciphersuites" | "curves" | "ecdhe" | "sigalgs" | "client-sigalgs" => {
                words.next();
                ledger.dropped(item.line, "ciphers and curves are those of rustls, all of which are safe");
            }
            "crt-list" => {
                let todo = "write each certificate of the list in tls.certificates";
                ledger.changes(item.line, format!("the list {} was not read", words.next().unwrap_or_default()), todo);
            }
            "name" | "id" | "backlog" | "process" | "thread" | "nice" | "mss" | "level" | "severity-output"
            | "shards" | "tcp-ut" | "user" | "group" | "mode" | "uid" | "gid" | "npn" | "ca-sign-file"
            | "expose-fd" | "ssl-max-ver" => {
                words.next();
                ledger.dropped(item.line, format!("`{word}` is about HAProxy's own sockets and figures"));
            }
            "tfo"
            | "defer-accept"
            | "v4v6"
            | "transparent"
            | "no-sslv3"
            | "no-tlsv10"
            | "no-tlsv11"
            | "allow-0rtt"
            | "no-tls-tickets"
            | "prefer-client-ciphers"
            | "force-tlsv12"
            | "no-ca-names"
            | "ca-ignore-err"
            | "no-alpn" => {
                ledger.dropped(item.line, format!("`{word}` is the default here, or tunes the machinery"));
            }
            "force-tlsv13" | "no-tlsv12" => drop(bind.set.put("tls.min_version", "1.3")),
            "v6only" => ledger.changes(item.line, "`[::]` takes IPv4 as well", "name the addresses of this machine"),
            "interface"
            | "namespace"
            | "accept-netscaler-cip"
            | "generate-certificates"
            | "quic-socket"
            | "crt-ignore-err" => {
                let value = words.next().unwrap_or_default();
                ledger.changes(
                    item.line,
                    format!("`{word} {value}` is not available"),
                    "name the addresses to listen on",
                );
            }
            other => ledger.changes(
                item.line,
                format!("`{other}` is not known"),
                "see whether a key of the listener does it",
            ),
        }
    }
    if let Some(file) = authority {
        match verify {
            "none" | "" => ledger.dropped(item.line, "without `verify`, no certificate of a client is asked for"),
            mode => {
                bind.set.put("tls.client_auth.ca", with_base(base, file));
                bind.set.put("tls.client_auth.mode", mode);
            }
        }
    }
}

fn certificate(file: &str, base: &str, bind: &mut Bind, item: &Item, ledger: &mut Ledger) {
    let path = with_base(base, file);
    if file.ends_with('/') || !file.contains('.') && !file.contains("${") {
        let todo = format!(
            "list each certificate of {path} in tls.certificates, as {{ cert = \"FILE.pem\", key = \"FILE.pem\" }}"
        );
        return ledger.changes(item.line, format!("{path} looks like a folder, and folders are not read"), todo);
    }
    // The key may stand in the same file as the certificate, as it does for HAProxy.
    let entry = Table::one("cert", path.as_str()).with("key", path.as_str());
    bind.set.push("tls.certificates", entry);
}

/// A file name below the folder of `crt-base` or `ca-base`.
pub(super) fn with_base(base: &str, file: &str) -> String {
    match base.is_empty() || file.starts_with(['/', '$', '@']) {
        true => file.to_string(),
        false => format!("{}/{file}", base.trim_end_matches('/')),
    }
}

type Problem = (&'static str, &'static str);

/// An address to listen on, as evenkeel writes it.
pub(super) fn bind_address(address: &str) -> Result<String, Problem> {
    let bare =
        ["ipv4@", "ipv6@", "tcp4@", "tcp6@", "tcp@"].iter().find_map(|p| address.strip_prefix(p)).unwrap_or(address);
    if bare.starts_with(['/', '@']) || ["unix@", "abns@", "fd@", "sockpair@"].iter().any(|p| bare.starts_with(p)) {
        return Err(("listeners have no Unix sockets or inherited descriptors", "let clients connect over TCP"));
    }
    if bare.starts_with("quic") || bare.starts_with("udp") {
        return Err(("HTTP/3 and UDP are not spoken by this listener", "leave it out: clients use HTTP/2 over TCP"));
    }
    let (host, port) = bare.rsplit_once(':').ok_or(("it has no port", "add it to bind of the listener"))?;
    if port.contains('-') {
        return Err(("a range of ports", "list each port in bind of the listener"));
    }
    let host = match host.trim_start_matches('[').trim_end_matches(']') {
        "" | "*" | "0.0.0.0" | "::" => "[::]".to_string(),
        host if host.contains(':') => format!("[{host}]"),
        host => host.to_string(),
    };
    let is_address = host.contains("${") || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
    if !is_address {
        return Err(("a name cannot be listened on", "write the address of this machine"));
    }
    let is_port = port.contains("${") || port.parse::<u16>().is_ok_and(|port| port > 0);
    if is_port { Ok(format!("{host}:{port}")) } else { Err(("it has no valid port", "add it to bind of the listener")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_in_one_way() {
        for (address, written) in [
            ("*:80", "[::]:80"),
            (":80", "[::]:80"),
            (":::80", "[::]:80"),
            ("[::1]:80", "[::1]:80"),
            ("10.0.0.1:80", "10.0.0.1:80"),
            ("ipv6@[::]:80", "[::]:80"),
            ("${IP}:${PORT}", "${IP}:${PORT}"),
        ] {
            assert_eq!(bind_address(address), Ok(written.to_string()));
        }
        for address in ["/run/x", "unix@x", ":80-90", "web:80", "80", ":0", "quic4@:443"] {
            assert!(bind_address(address).is_err(), "{address}");
        }
    }
}
