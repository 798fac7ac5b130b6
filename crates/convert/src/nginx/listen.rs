//! `listen` lines: addresses, and the protocols of their servers.

use super::lexer::Directive;
use super::world::{World, single};
use crate::model::Listener;

/// A `listen` line that was read.
#[derive(Clone, Debug)]
pub(super) struct Listen {
    /// Address, with `[::]` for all addresses of any family.
    pub address: String,
    /// Families of a listener at all addresses: IPv4, IPv6.
    pub families: [bool; 2],
    pub is_tls: bool,
    pub is_default: bool,
    pub takes_proxy: bool,
    pub is_h2c: bool,
    /// True if it listens for QUIC, and true if it listens over TCP.
    pub is_quic: bool,
    pub is_stream: bool,
}

/// Reason and advice for listeners whose addresses differ between QUIC and TCP.
const OVER_BOTH: (&str, &str) =
    ("clients of HTTP/1 and HTTP/2 are served at this address, too", "close TCP at the address in a firewall");

/// Reason and advice for listeners with HTTP/3.
const ANNOUNCED: (&str, &str) =
    ("responses over TCP have Alt-Svc, by which clients find HTTP/3", "http3.max_age of the listener; 1s ends it");

impl Listen {
    /// Adds another line for the same address.
    pub fn join(&mut self, other: &Listen) {
        self.is_default |= other.is_default;
        self.families = [self.families[0] | other.families[0], self.families[1] | other.families[1]];
        self.takes_proxy |= other.takes_proxy;
        (self.is_quic, self.is_stream) = (self.is_quic | other.is_quic, self.is_stream | other.is_stream);
    }

    pub fn key(&self) -> (String, bool) {
        (self.address.clone(), self.is_tls)
    }

    /// True for the address of this key.
    pub fn is_at(&self, key: &(String, bool)) -> bool {
        (self.address.as_str(), self.is_tls) == (key.0.as_str(), key.1)
    }
}

/// Reads a `listen` line. `None` if it cannot be carried over, which has been reported.
pub(super) fn listen(directive: &Directive, world: &mut World<'_>) -> Option<Listen> {
    let text = directive.word(1);
    let line = directive.line;
    let has = |word: &str| directive.from(2).iter().any(|other| other == word);
    if text.starts_with("unix:") {
        world.ledger.changes(line, "listeners have no Unix sockets", "let clients connect over TCP");
        return None;
    }
    let is_quic = has("quic") || has("http3");
    let Some(address) = address(text) else {
        world.ledger.changes(
            line,
            format!("\"{text}\" is not an address to listen on"),
            "add it to bind of a listener",
        );
        return None;
    };
    world.ledger.carried(line);
    let machinery = ["reuseport", "deferred", "bind", "spdy", "multipath"];
    let tuned = directive.from(2).iter().find(|w| {
        machinery.contains(&w.as_str())
            || ["backlog=", "rcvbuf=", "sndbuf=", "fastopen=", "so_keepalive=", "ipv6only="]
                .iter()
                .any(|p| w.starts_with(p))
    });
    if let Some(word) = tuned {
        world.ledger.dropped(line, format!("`{word}` tunes NGINX's own sockets"));
    }
    let families = match (text.contains("[::]"), has("ipv6only=off")) {
        (true, is_dual) => [is_dual, true],
        (false, _) => [true, false],
    };
    Some(Listen {
        address: address.replace("0.0.0.0:", "[::]:"),
        families,
        is_tls: has("ssl") || is_quic,
        is_default: has("default_server") || has("default"),
        takes_proxy: has("proxy_protocol"),
        is_h2c: has("http2") && !has("ssl"),
        is_quic,
        is_stream: !is_quic,
    })
}

/// Has a listener serve HTTP/3, by the settings of a server with a `listen` line for QUIC.
pub(super) fn quic(levels: &[&[Directive]], listen: &Listen, listener: &mut Listener, world: &mut World<'_>) {
    let [http3, retry, streams] =
        ["http3", "quic_retry", "http3_max_concurrent_streams"].map(|name| single(levels, name));
    [http3, retry, streams].into_iter().flatten().for_each(|directive| world.ledger.carried(directive.line));
    if http3.is_some_and(|directive| directive.word(1) == "off") {
        return;
    }
    if let Some(line) = levels.last().into_iter().flat_map(|own| own.iter()).find(|own| is_of_quic(own)) {
        let note = if listen.is_stream { ANNOUNCED } else { OVER_BOTH };
        world.ledger.changes(line.line, note.0, note.1);
    }
    if retry.is_some_and(|directive| directive.word(1) == "on") {
        listener.set.put(key!("http3.retry_above"), 0);
    }
    if let Some(streams) = streams.and_then(|directive| directive.word(1).parse::<u64>().ok()) {
        listener.set.put(key!("http3.streams"), streams.clamp(1, 10_000));
    }
    if !listener.set.has(key!("http3")) {
        listener.set.put(key!("http3"), true);
    }
}

/// True for a `listen` line for QUIC.
pub(super) fn is_of_quic(directive: &Directive) -> bool {
    directive.name() == "listen" && directive.from(2).iter().any(|word| word == "quic" || word == "http3")
}

/// An address as evenkeel writes it: `80` and `*:80` are all addresses of IPv4.
pub(super) fn address(text: &str) -> Option<String> {
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0) || port.starts_with("${");
    let text = text.trim();
    if is_port(text) {
        return Some(format!("0.0.0.0:{text}"));
    }
    let after = text.rsplit(']').next().unwrap_or_default();
    let (host, port) = match after.rsplit_once(':') {
        Some((_, port)) if !port.is_empty() => (&text[..text.len() - port.len() - 1], port),
        _ => (text, "80"),
    };
    let host = match host {
        "*" | "" => "0.0.0.0".to_string(),
        "localhost" => "127.0.0.1".to_string(),
        host => host.to_string(),
    };
    let is_ip = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok() || host.starts_with("${");
    (is_ip && is_port(port)).then(|| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_in_one_way() {
        for (text, written) in [
            ("80", Some("0.0.0.0:80")),
            ("*:8080", Some("0.0.0.0:8080")),
            ("[::]:80", Some("[::]:80")),
            ("127.0.0.1", Some("127.0.0.1:80")),
            ("[::1]:443", Some("[::1]:443")),
            ("[::1]", Some("[::1]:80")),
            ("localhost:81", Some("127.0.0.1:81")),
            ("${PORT}", Some("0.0.0.0:${PORT}")),
            ("web.example:80", None),
            ("0", None),
        ] {
            assert_eq!(address(text).as_deref(), written, "{text}");
        }
    }
}
