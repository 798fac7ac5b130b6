//! Planes, and the parts that each keeps of algorithms and of the other settings of pools and listeners. `check`, the
//! report of `check --planes` and the reference page share these rows, and the contract test of planes measures them.
//! Read the files in this order: [`algorithms`], rows by algorithm, with the figures of approximations; [`policies`],
//! rows by setting; [`report`], listeners of a plan; [`page`], all rows as Markdown.

// Order: page, report, policies, algorithms
pub mod algorithms;
pub mod page;
pub mod policies;
pub mod report;

use crate::sections::listener::{Mode, Plane};
use crate::table::Balance;

/// Kind of forwarding, as operators compare them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Forwarding {
    /// Requests in this process.
    Requests,
    /// Connections and flows in this process.
    Sessions,
    Ebpf,
    /// Connection tracking of the kernel.
    Nftables,
    Ipvs,
    Dns,
}

impl Forwarding {
    /// All kinds, in the order of columns.
    pub const ALL: [Forwarding; 6] = [
        Forwarding::Requests,
        Forwarding::Sessions,
        Forwarding::Ebpf,
        Forwarding::Nftables,
        Forwarding::Ipvs,
        Forwarding::Dns,
    ];

    /// Returns the kind that a listener with this mode and plane is of.
    pub fn of(mode: Mode, plane: Plane) -> Forwarding {
        match (mode, plane) {
            (Mode::Dns, _) => Forwarding::Dns,
            (_, Plane::Nftables) => Forwarding::Nftables,
            (_, Plane::Ebpf) => Forwarding::Ebpf,
            (_, Plane::Ipvs) => Forwarding::Ipvs,
            (Mode::Http, Plane::Proxy) => Forwarding::Requests,
            (Mode::Tcp | Mode::Udp, Plane::Proxy) => Forwarding::Sessions,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Forwarding::Requests => "proxy http",
            Forwarding::Sessions => "proxy tcp/udp",
            Forwarding::Ebpf => "ebpf",
            Forwarding::Nftables => "nftables",
            Forwarding::Ipvs => "ipvs",
            Forwarding::Dns => "dns",
        }
    }

    /// Line of a listener that chooses it.
    pub fn setting(self) -> &'static str {
        match self {
            Forwarding::Requests => "mode = \"http\"",
            Forwarding::Sessions => "plane = \"proxy\"",
            Forwarding::Ebpf => "plane = \"ebpf\"",
            Forwarding::Nftables => "plane = \"nftables\"",
            Forwarding::Ipvs => "plane = \"ipvs\"",
            Forwarding::Dns => "mode = \"dns\"",
        }
    }

    /// Fidelity to an algorithm with its parameters.
    pub fn keeps(self, balance: &Balance) -> Fidelity {
        algorithms::row(balance).map_or(Fidelity::Refused("no row describes it"), |row| row.keeps[self as usize])
    }

    /// Kinds that keep an algorithm, exactly or approximately, for connections and flows.
    pub fn that_keep(balance: &Balance) -> impl Iterator<Item = Forwarding> + '_ {
        let of_sessions = [Forwarding::Ebpf, Forwarding::Nftables, Forwarding::Ipvs, Forwarding::Sessions];
        of_sessions.into_iter().filter(|kind| !matches!(kind.keeps(balance), Fidelity::Refused(_)))
    }
}

/// Faithfulness of a plane to an algorithm or a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fidelity {
    Exact,
    /// Nearly; the text names the difference.
    Approximated(&'static str),
    /// Not at all; the text is the reason. A configuration that asks for it is an error.
    Refused(&'static str),
}

impl Fidelity {
    /// Returns `exact`, `approximated` or `refused`.
    pub fn word(self) -> &'static str {
        match self {
            Fidelity::Exact => "exact",
            Fidelity::Approximated(_) => "approximated",
            Fidelity::Refused(_) => "refused",
        }
    }

    /// Difference or reason; `None` if exact.
    pub fn why(self) -> Option<&'static str> {
        match self {
            Fidelity::Exact => None,
            Fidelity::Approximated(why) | Fidelity::Refused(why) => Some(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_kinds_in_the_order_of_their_columns() {
        for (at, kind) in Forwarding::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at, "{}", kind.name());
        }
    }
}
