//! Services: the wishes of a listener for the kernel, in terms that all drivers share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Listener as the kernel balances it.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Name of the listener, unique among services.
    pub name: Arc<str>,
    pub pool: Arc<str>,
    pub transport: Transport,
    /// Virtual addresses, 1 or more; neither unspecified addresses nor port 0. No two services of a transport share
    /// an address.
    pub addrs: Vec<SocketAddr>,
    pub policy: Policy,
    /// Source address that endpoints see.
    pub source: Source,
    /// Time for which a client address keeps its endpoint after its latest connection; `None` = no affinity.
    pub affinity: Option<Duration>,
    /// Time without a packet after which a flow counts as ended.
    pub idle: Duration,
    /// Endpoints of the pool with an address of a family of `addrs`, in the order of the configuration.
    pub members: Arc<[Member]>,
}

impl Service {
    /// Returns the same service without members that get new flows: those are refused.
    pub fn ended(&self) -> Service {
        let ended = |member: &Member| {
            let state = if member.is_down() { State::Down } else { State::Draining };
            Member { weight: 0, state, ..member.clone() }
        };
        Service { members: self.members.iter().map(ended).collect(), ..self.clone() }
    }

    /// Members that may get new flows.
    pub fn serving(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.weight > 0)
    }
}

/// Transport protocol of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    /// Protocol number in the head of an IP packet.
    pub fn number(self) -> u8 {
        match self {
            Transport::Tcp => 6,
            Transport::Udp => 17,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
        }
    }
}

/// Choice of an endpoint for a new flow. Weights of members apply to all.
#[derive(Clone, Debug, PartialEq)]
pub enum Policy {
    /// Draws `draws` distinct members by weight, and takes the member with the fewest open flows per weight.
    Random {
        /// At least 1; 1 is random without regard to load.
        draws: u32,
    },
    /// Takes the member with the fewest open flows per weight.
    LeastConn,
    /// Gives members turns, as far apart as their weights allow.
    RoundRobin,
    /// Looks the hash of the client's address up in a table of indexes into the serving members, in their order.
    Maglev { table: Arc<[u32]> },
}

/// Source address of packets to endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// An address of this machine, so that answers come back through it.
    Own,
    /// The client's; the endpoints' route to clients leads through this machine.
    Client,
}

/// Endpoint of a service, with the treatment that its pool wants for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Number of the endpoint in the kernel, the same for all services of a pool: from 1, dense, stable while the
    /// endpoint or a flow to it exists, and below [`ID_MAX`].
    pub id: u32,
    pub addr: SocketAddr,
    /// Share of new flows, in proportion to the shares of other members; 0 = none. At most 2^24.
    pub weight: u32,
    pub state: State,
}

impl Member {
    /// True if flows of datagrams must leave it.
    pub fn is_down(&self) -> bool {
        self.state == State::Down
    }
}

/// Largest number of an endpoint.
pub const ID_MAX: u32 = 1 << 20;

/// Treatment of the flows of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Gets new flows by its weight, and keeps those that it has.
    Serving,
    /// Gets no new flows, and keeps those that it has.
    Draining,
    /// Gets no new flows. Its flows of datagrams end, so that clients get another endpoint; connections end on their
    /// own.
    Down,
}
