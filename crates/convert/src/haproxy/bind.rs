//! `bind` lines: addresses of listeners, with and without TLS.

use super::lexer::Item;
use super::samples::{Context, lines};
use crate::ledger::Ledger;
use crate::model::{Draft, cert_files};
use evenkeel_config::plan::Listener;

/// Addresses of a `bind` line, and the listener's settings from its parameters.
#[derive(Debug, Default)]
pub(super) struct Bind {
    pub addresses: Vec<String>,
    pub is_tls: bool,
    pub set: Draft<Listener>,
}

/// Reads a `bind` line. `base` is put in front of relative names of certificates.
pub(super) fn read(item: &Item, base: &str, context: &Context<'_>, ledger: &mut Ledger) -> Bind {
    let mut bind = Bind::default();
    ledger.carried(item.line);
    for address in item.word(1).split(',').filter(|address| !address.is_empty()) {
        if address.starts_with("mptcp") {
            ledger.changes(item.line, MPTCP.0, MPTCP.1);
        }
        let over_udp = ["quic4@", "quic6@"].iter().find_map(|prefix| address.strip_prefix(prefix));
        if over_udp.is_some() {
            bind.set.put(key!("http3"), true);
        }
        match bind_addresses(over_udp.unwrap_or(address)) {
            Ok(addresses) => bind.addresses.extend(addresses),
            Err((reason, todo)) => ledger.changes(item.line, format!("{address}: {reason}"), todo),
        }
    }
    let words = [item.from(2), &listed(item, context, ledger)].concat();
    parameters(item, &words, base, &mut bind, ledger);
    if !bind.is_tls && bind.set.remove(key!("tls")).is_some() {
        let reason = "without `ssl` it is a listener without TLS, as in HAProxy, which ignores its certificates";
        ledger.changes(item.line, reason, "write `ssl` into the line, and convert it again, if it is for TLS");
    }
    if bind.is_tls && !bind.set.has(key!("tls.certificates")) {
        bind.set.put(key!("tls.self_signed"), true);
        let todo = "write tls = { certificates = [{ cert = \"FILE.pem\", key = \"FILE.pem\" }] }";
        ledger.decide(item.line, "its certificates were not carried over: a self-signed one is used", todo);
    }
    bind
}

/// Parameters that are left out: their words, the number of values of each, the reason, and advice if something changes
/// without them.
#[rustfmt::skip] // a row is a reason
const LEFT_OUT: &[(&[&str], usize, &str, Option<&str>)] = &[
    (&["ciphers", "ciphersuites", "curves", "ecdhe", "sigalgs", "client-sigalgs"], 1, "ciphers and curves are those of rustls, all of which are safe", None),
    (
        &[
            "name", "id", "backlog", "process", "thread", "nice", "mss", "level", "severity-output", "shards", "tcp-ut", "user", "group", "mode",
            "uid", "gid", "npn", "ca-sign-file", "expose-fd", "ssl-max-ver",
        ],
        1, "it is about HAProxy's own sockets and figures", None,
    ),
    (
        &[
            "tfo", "defer-accept", "v4v6", "transparent", "no-sslv3", "no-tlsv10", "no-tlsv11", "allow-0rtt", "no-tls-tickets",
            "prefer-client-ciphers", "force-tlsv12", "no-ca-names", "ca-ignore-err", "no-alpn",
        ],
        0, "it is the default here, or tunes the machinery", None,
    ),
    (&["v6only"], 0, "`[::]` takes IPv4 as well", Some("name the addresses of this machine")),
    (&["accept-netscaler-cip", "quic-socket", "crt-ignore-err"], 1, "it is not available", Some("see whether a key of the listener does it")),
    (&["generate-certificates"], 0, "certificates are not made for each name", Some("write tls.certificates of the listener")),
];

/// Certificates and parameters of the files behind `crt-list`, as words of the `bind` line: parameters of a certificate count
/// for all of them.
fn listed(item: &Item, context: &Context<'_>, ledger: &mut Ledger) -> Vec<String> {
    let mut words = Vec::new();
    for pair in item.words.windows(2).filter(|pair| pair[0] == "crt-list") {
        let Some(lines) = lines(&pair[1], context) else {
            let todo = "write each certificate of the list in tls.certificates, and client_auth if it has `verify`";
            ledger.decide(item.line, format!("the list {} was not read", pair[1]), todo);
            continue;
        };
        for line in lines {
            let (file, rest) = line.split_once(char::is_whitespace).unwrap_or((&line, ""));
            words.extend(["crt".to_string(), file.to_string()]);
            let inner = rest.trim_start().strip_prefix('[').and_then(|rest| rest.split_once(']'));
            let inner = inner.map_or("", |(inner, _)| inner);
            if !inner.trim().is_empty() {
                let reason = "parameters of a certificate in the list count for all certificates of the listener";
                ledger.changes(item.line, reason, "a listener for each, if they differ");
            }
            words.extend(inner.split_whitespace().map(str::to_string));
        }
    }
    words
}

fn parameters(item: &Item, words: &[String], base: &str, bind: &mut Bind, ledger: &mut Ledger) {
    let (mut at, mut authority, mut verify) = (0, None, "");
    while let Some(word) = words.get(at) {
        let value = words.get(at + 1).map_or("", String::as_str);
        if let Some((_, values, reason, todo)) = LEFT_OUT.iter().find(|(names, ..)| names.contains(&word.as_str())) {
            let reason = format!("`{word}`: {reason}");
            match todo {
                Some(todo) => ledger.changes(item.line, reason, *todo),
                None => ledger.dropped(item.line, reason),
            }
            at += 1 + values;
            continue;
        }
        let values = match word.as_str() {
            "crt-list" => 1,
            // On all interfaces, more clients could connect.
            "interface" | "namespace" => {
                bind.addresses.clear();
                let reason = format!("`{word}`: listeners have addresses only, so this one is left out");
                ledger.decide(item.line, reason, "name the addresses of the interface in bind of a listener");
                1
            }
            "ca-file" => {
                authority = Some(value);
                1
            }
            "verify" => {
                verify = value;
                1
            }
            word => parameter(word, value, base, bind, item, ledger).unwrap_or_else(|| {
                ledger.changes(
                    item.line,
                    format!("`{word}` is not known"),
                    "see whether a key of the listener does it",
                );
                0
            }),
        };
        at += 1 + values;
    }
    match (authority, verify) {
        (Some(_), "none" | "") => {
            ledger.dropped(item.line, "without `verify`, no certificate of a client is asked for")
        }
        (Some(file), mode) => {
            bind.set.put(key!("tls.client_auth.ca"), with_base(base, file));
            bind.set.put(key!("tls.client_auth.mode"), mode);
        }
        (None, _) => {}
    }
}

/// Reads a parameter. Returns the number of values that it took, or `None` if it is unknown.
fn parameter(word: &str, value: &str, base: &str, bind: &mut Bind, item: &Item, ledger: &mut Ledger) -> Option<usize> {
    let line = item.line;
    match word {
        "ssl" => bind.is_tls = true,
        "strict-sni" => drop(bind.set.put(key!("tls.unknown_name"), "reject")),
        "force-tlsv13" | "no-tlsv12" => drop(bind.set.put(key!("tls.min_version"), "1.3")),
        "accept-proxy" => {
            bind.set.put(key!("accept_proxy_protocol"), vec!["0.0.0.0/0", "::/0"]);
            let todo = "name only the networks of the balancers in front in accept_proxy_protocol";
            ledger.changes(line, "the PROXY protocol is required from every address, as there", todo);
        }
        _ => {
            match word {
                "crt" => certificate(value, base, bind, item, ledger),
                "crl-file" => drop(bind.set.put(key!("tls.client_auth.crl"), with_base(base, value))),
                "ssl-min-ver" if value == "TLSv1.3" => drop(bind.set.put(key!("tls.min_version"), "1.3")),
                "ssl-min-ver" if value == "TLSv1.2" => {}
                "ssl-min-ver" => {
                    let reason = format!("{value} is older than TLS 1.2, the oldest here");
                    ledger.changes(line, reason, "nothing, unless old clients need it");
                }
                "alpn" if value.contains("h2") || bind.set.has(key!("http3")) => {}
                "alpn" => drop(bind.set.put(key!("tls.protocols"), vec!["http/1.1"])),
                "proto" if value == "h2" && !bind.is_tls => drop(bind.set.put(key!("h2c"), true)),
                "proto" => {}
                "maxconn" => match value.parse::<u64>() {
                    Ok(most) if most > 0 => drop(bind.set.put(key!("limits.connections"), most)),
                    _ => ledger.dropped(line, "0 connections mean no limit of its own"),
                },
                _ => return None,
            }
            return Some(1);
        }
    }
    Some(0)
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
    bind.set.push(key!("tls.certificates"), cert_files(&path, &path));
}

/// A file name below the folder of `crt-base` or `ca-base`.
pub(super) fn with_base(base: &str, file: &str) -> String {
    match base.is_empty() || file.starts_with(['/', '$', '@']) {
        true => file.to_string(),
        false => format!("{}/{file}", base.trim_end_matches('/')),
    }
}

/// Prefixes of addresses of TCP. Without MPTCP, connections have a single path.
pub(super) const PREFIXES: [&str; 8] = ["ipv4@", "ipv6@", "tcp4@", "tcp6@", "tcp@", "mptcp4@", "mptcp6@", "mptcp@"];

/// Reason and advice for addresses of MPTCP.
pub(super) const MPTCP: Problem = ("connections use a single path of the network: MPTCP is not spoken", "nothing");

type Problem = (&'static str, &'static str);

/// Most ports of a range, each of which is an address.
const RANGE: u16 = 256;

/// Addresses to listen on, as evenkeel writes them: one for each port of a range.
fn bind_addresses(address: &str) -> Result<Vec<String>, Problem> {
    let range = address.rsplit_once(':').and_then(|(host, ports)| Some((host, ports.split_once('-')?)));
    let Some((host, (first, last))) = range else { return Ok(vec![bind_address(address)?]) };
    match (first.parse::<u16>(), last.parse::<u16>()) {
        (Ok(first), Ok(last)) if first <= last && last - first < RANGE => {
            (first..=last).map(|port| bind_address(&format!("{host}:{port}"))).collect()
        }
        _ => Err(("a range of ports that is wrong, or too long", "list each port in bind of the listener")),
    }
}

/// An address to listen on, as evenkeel writes it.
fn bind_address(address: &str) -> Result<String, Problem> {
    let bare = PREFIXES.iter().find_map(|p| address.strip_prefix(p)).unwrap_or(address);
    if bare.starts_with(['/', '@']) || ["unix@", "abns@", "fd@", "sockpair@"].iter().any(|p| bare.starts_with(p)) {
        return Err(("listeners have no Unix sockets or inherited descriptors", "let clients connect over TCP"));
    }
    let (host, port) = bare.rsplit_once(':').ok_or(("it has no port", "add it to bind of the listener"))?;
    if port.contains(['-', '+']) {
        return Err(("a relative port", "list each port in bind of the listener"));
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
            ("mptcp@:80", "[::]:80"),
            ("${IP}:${PORT}", "${IP}:${PORT}"),
        ] {
            assert_eq!(bind_addresses(address), Ok(vec![written.to_string()]));
        }
        let range = ["[::]:80", "[::]:81"].map(str::to_string);
        assert_eq!(bind_addresses(":80-81"), Ok(range.into()));
        for address in
            ["/run/x", "unix@x", ":90-80", ":1-9000", ":0-3", ":::-80", "web:80", "80", ":0", ":+1", "udp4@:443"]
        {
            assert!(bind_addresses(address).is_err(), "{address}");
        }
    }
}
