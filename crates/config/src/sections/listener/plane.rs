//! `plane` of a listener: the mechanism that forwards. See [`Plane`].

use crate::table::{Words, words};

words! {
    /// Mechanism by which clients of a listener reach endpoints.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Plane {
        #[default]
        Proxy = "proxy",
        /// Rules of nftables: address translation by connection tracking.
        Nftables = "nftables",
        /// eBPF programs: the connect of local clients, and address translation of forwarded packets.
        Ebpf = "ebpf",
        Ipvs = "ipvs",
    }
}

impl Plane {
    /// Name in the configuration.
    pub fn name(self) -> &'static str {
        self.word()
    }

    /// True if the kernel forwards and this process does not see the bytes of clients.
    pub fn is_kernel(self) -> bool {
        self != Plane::Proxy
    }
}
