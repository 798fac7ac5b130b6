//! What is spoken on a listener? [`Mode`].

use crate::table::{Words, words};

words! {
    /// What is spoken on a listener.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Mode {
        /// HTTP.
        #[default]
        Http = "http",
        /// Anything over TCP: connections are balanced.
        Tcp = "tcp",
        /// Anything over UDP: flows are balanced.
        Udp = "udp",
        /// DNS: queries are answered, over UDP and TCP.
        Dns = "dns",
    }
}

impl Mode {
    /// As the configuration calls it.
    pub fn name(self) -> &'static str {
        self.word()
    }

    /// Whether TCP connections come in.
    pub fn is_on_tcp(self) -> bool {
        self != Mode::Udp
    }

    /// Whether UDP datagrams come in.
    pub fn is_on_udp(self) -> bool {
        matches!(self, Mode::Udp | Mode::Dns)
    }
}
