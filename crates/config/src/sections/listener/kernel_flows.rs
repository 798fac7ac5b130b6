//! `kernel` of a listener: flows that the kernel forwards. See [`KernelFlows`].

use crate::table::{Absent, DAY, Key, Kind, S, table};
use std::time::Duration;

table! {
    pub(crate) static KERNEL_FLOWS = "kernel of [listener.NAME]",
        "Flows that the kernel forwards, with a `plane` other than `proxy`.";

    /// `kernel` of a listener.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct KernelFlows {
        /// Time for which a client address keeps its endpoint; `None` = no affinity.
        affinity: Option<Duration> = Key {
            name: "affinity",
            kind: Kind::Duration { min: S, max: DAY, off: true },
            absent: Absent::Default("\"off\""),
            help: "Keeps a client address at its endpoint until the client has opened no new connection or flow for \
                this long.",
            why: "Shares are uneven if many clients share an address.",
        };
        /// Time without a packet after which a TCP connection counts as ended, with [`Plane::Ebpf`](super::Plane::Ebpf).
        idle: Duration = Key {
            name: "idle",
            kind: Kind::Duration { min: S, max: 7 * DAY, off: false },
            absent: Absent::Default("\"1h\""),
            help: "With `ebpf`: forgets a forwarded TCP connection after this long without a packet. For flows of \
                datagrams there is `udp.idle`; connections of `nftables` and `ipvs` have the timeouts of the kernel.",
            why: "A forgotten connection fails at its next packet. Keep-alive probes come earlier.",
        };
    }
}
