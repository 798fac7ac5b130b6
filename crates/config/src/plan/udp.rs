//! When does a flow of datagrams end? [`UdpFlows`].

use std::time::Duration;

/// `udp` of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpFlows {
    /// Without a datagram in either direction.
    pub idle: Duration,
    /// A flow ends as soon as it has had so many answers for each datagram from its client; 0 = only when it is idle.
    pub answers: u64,
}
