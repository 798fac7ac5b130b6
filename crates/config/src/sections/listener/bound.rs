//! Addresses bound by the configuration so far. [`Bound`] reports an address that Linux would refuse to bind
//! next to an earlier address.

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::source::Span;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// Addresses added so far, by port.
#[derive(Debug, Default)]
pub(super) struct Bound(HashMap<u16, Vec<(SocketAddr, On, Span)>>);

/// Transports of an address. TCP and UDP ports do not collide.
#[derive(Clone, Copy, Debug)]
pub(super) struct On {
    pub tcp: bool,
    pub udp: bool,
    /// Answers load probes over UDP, in addition to requests.
    pub probes: bool,
    /// The kernel takes packets to the address before any socket does.
    pub by_kernel: bool,
}

impl Bound {
    /// Adds an address, and reports an earlier address that would receive the same clients.
    pub fn add(&mut self, addr: SocketAddr, on: On, span: Span, findings: &mut Findings) {
        let here = self.0.entry(addr.port()).or_default();
        let overlaps = |other: SocketAddr| takes(addr.ip(), other.ip()) || takes(other.ip(), addr.ip());
        let datagrams = |on: On| on.udp || on.probes;
        let shares = |other: On| (on.tcp && other.tcp) || (datagrams(on) && datagrams(other));
        if let Some((first, other, at)) = here.iter().find(|(other, on, _)| shares(*on) && overlaps(*other)) {
            let (message, mut help) = match *first == addr {
                true => (format!("{addr} is bound twice"), "give each listener its own address or port".to_string()),
                false => {
                    let wide = if takes(first.ip(), addr.ip()) { *first } else { addr };
                    let narrow = if wide == addr { *first } else { addr };
                    let message = format!("{addr} and {first} overlap: {wide} takes what comes to {narrow} too");
                    let why = match on.by_kernel || other.by_kernel {
                        true => "the kernel would take the clients of both",
                        false => "Linux refuses the second",
                    };
                    (message, format!("leave {narrow} out, or give one of the two another port: {why}"))
                }
            };
            if (on.probes || other.probes) && !(on.tcp && other.tcp) {
                help += "; \"report_load\" answers probes by UDP, unless it says udp = false";
            }
            findings.add(Code::SameAddress, span, message).see("it is bound here first", *at).help(help);
        }
        here.push((addr, on, span));
    }
}

/// True if a socket at `wide` receives traffic for `narrow`, given equal ports.
pub fn takes(wide: IpAddr, narrow: IpAddr) -> bool {
    let (wide, narrow) = (wide.to_canonical(), narrow.to_canonical());
    match wide {
        IpAddr::V4(ip) => wide == narrow || (ip.is_unspecified() && narrow.is_ipv4()),
        // `[::]` accepts IPv4 too, as `net.ipv6.bindv6only` is 0 by default.
        IpAddr::V6(ip) => wide == narrow || ip.is_unspecified(),
    }
}
