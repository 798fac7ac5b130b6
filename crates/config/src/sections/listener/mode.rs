//! `mode` of a listener: the protocol of its clients. See [`Mode`].

use crate::table::{Words, words};

words! {
    /// Protocol of a listener's clients.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Mode {
        /// HTTP: requests are balanced.
        #[default]
        Http = "http",
        /// Any protocol over TCP: connections are balanced.
        Tcp = "tcp",
        /// Any protocol over UDP: flows are balanced.
        Udp = "udp",
        /// DNS over UDP and TCP: queries are answered.
        Dns = "dns",
    }
}

impl Mode {
    /// Name in the configuration.
    pub fn name(self) -> &'static str {
        self.word()
    }

    /// True if the proxy serves the listener, unless the kernel does. Other modes have other planes.
    pub fn is_proxied(self) -> bool {
        matches!(self, Mode::Http | Mode::Tcp | Mode::Udp)
    }

    /// True if the listener accepts TCP connections.
    pub fn is_on_tcp(self) -> bool {
        self != Mode::Udp
    }

    /// True if the listener receives UDP datagrams.
    pub fn is_on_udp(self) -> bool {
        matches!(self, Mode::Udp | Mode::Dns)
    }
}
