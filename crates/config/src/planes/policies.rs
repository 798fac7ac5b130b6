//! Settings of pools and listeners beside the algorithm, and the parts that each kind of forwarding keeps.

use super::Fidelity::{self, Approximated, Exact, Refused};

/// Setting, and the parts that each kind keeps.
#[derive(Debug)]
pub struct Row {
    pub setting: &'static str,
    /// Keys of a listener, a route and a pool that ask for it: an error if a plane of the kernel refuses it.
    pub(crate) of_listener: &'static [&'static str],
    pub(crate) of_route: &'static [&'static str],
    pub(crate) of_pool: &'static [&'static str],
    /// Fidelity of each kind, in the order of [`Forwarding::ALL`](super::Forwarding::ALL).
    pub keeps: [Fidelity; 6],
}

const NONE: &[&str] = &[];
const OLD_ANSWERS: Fidelity = Approximated("clients keep an earlier answer for its TTL");
const NOT_COUNTED: Fidelity = Refused("answers are not requests");
const ONE_POOL: Fidelity = Refused("the kernel forwards to one pool");
const UNCHANGED: Fidelity = Refused("the kernel forwards bytes unchanged");
const UNSEEN: Fidelity = Refused("evenkeel does not see the clients of the kernel");
const UNTIMED: Fidelity = Refused("the kernel forwards packets and does not time sessions");
const WITHOUT_RETURN: Fidelity =
    Approximated("the next tier serves only while the first has no usable endpoint: no limits, no retries");
const BALANCES_ON: Fidelity =
    Approximated("connections continue and new ones are balanced; endpoints are not checked until the next start");

/// Rows in the order of pages.
pub static ROWS: &[Row] = &[
    Row {
        setting: "weights, slow start",
        of_listener: NONE,
        of_route: NONE,
        of_pool: NONE,
        keeps: [Exact, Exact, Exact, Exact, Exact, Approximated("of answers, each of which may serve many clients")],
    },
    Row {
        setting: "zones, subsets, panic",
        of_listener: NONE,
        of_route: NONE,
        of_pool: NONE,
        keeps: [Exact, Exact, Exact, Exact, Exact, Exact],
    },
    Row {
        setting: "tiers",
        of_listener: NONE,
        of_route: NONE,
        of_pool: NONE,
        keeps: [Exact, Exact, WITHOUT_RETURN, WITHOUT_RETURN, WITHOUT_RETURN, Exact],
    },
    Row {
        setting: "health checks",
        of_listener: NONE,
        of_route: NONE,
        of_pool: NONE,
        keeps: [Exact, Exact, Exact, Exact, Exact, OLD_ANSWERS],
    },
    Row {
        setting: "drain",
        of_listener: NONE,
        of_route: NONE,
        of_pool: NONE,
        keeps: [Exact, Exact, Exact, Exact, Exact, OLD_ANSWERS],
    },
    Row {
        setting: "ejection by outcomes",
        of_listener: NONE,
        of_route: NONE,
        of_pool: &["outlier"],
        keeps: [
            Exact,
            Exact,
            Refused("the kernel does not report how a connection ended"),
            Refused("the kernel does not report how a connection ended"),
            Refused("the kernel does not report how a connection ended"),
            Refused("an answer has no outcome"),
        ],
    },
    Row {
        setting: "limits of endpoints",
        of_listener: NONE,
        of_route: NONE,
        of_pool: &["limits"],
        keeps: [
            Exact,
            Exact,
            Refused("the kernel has no limit for an endpoint"),
            Refused("the kernel has no limit for an endpoint"),
            Refused("the kernel has no limit for an endpoint"),
            NOT_COUNTED,
        ],
    },
    Row {
        setting: "queue",
        of_listener: NONE,
        of_route: NONE,
        of_pool: &["queue"],
        keeps: [
            Exact,
            Approximated("TCP only"),
            Refused("a packet cannot wait"),
            Refused("a packet cannot wait"),
            Refused("a packet cannot wait"),
            Refused("an answer cannot wait"),
        ],
    },
    Row {
        setting: "retries, hedging",
        of_listener: NONE,
        of_route: &["retry"],
        of_pool: &["retry"],
        keeps: [
            Exact,
            Approximated("of failed connects; a flow of datagrams moves to another endpoint"),
            Refused("a connection has one endpoint, even if that endpoint refuses it"),
            Refused("a connection has one endpoint, even if that endpoint refuses it"),
            Refused("a connection has one endpoint, even if that endpoint refuses it"),
            Refused("clients try the other addresses of an answer"),
        ],
    },
    Row {
        setting: "sessions of endpoints that go down are closed",
        of_listener: NONE,
        of_route: NONE,
        of_pool: &["on_down"],
        keeps: [
            Approximated("requests are tried again elsewhere instead"),
            Exact,
            UNTIMED,
            UNTIMED,
            UNTIMED,
            NOT_COUNTED,
        ],
    },
    Row {
        setting: "timeouts",
        of_listener: &["timeouts"],
        of_route: &["timeouts"],
        of_pool: &["timeouts", "tcp"],
        keeps: [Exact, Exact, UNTIMED, UNTIMED, UNTIMED, Approximated("of clients over TCP")],
    },
    Row {
        setting: "a client keeps its endpoint",
        of_listener: NONE,
        of_route: NONE,
        of_pool: NONE,
        keeps: [
            Exact,
            Approximated("by `maglev` with the client's address"),
            Exact,
            Exact,
            Exact,
            Approximated("by `maglev` with the network of the resolver"),
        ],
    },
    Row {
        setting: "splits between pools",
        of_listener: NONE,
        of_route: &["split"],
        of_pool: NONE,
        keeps: [
            Exact,
            Approximated("`key` can only be `client-ip`"),
            ONE_POOL,
            ONE_POOL,
            ONE_POOL,
            Refused("a record names one pool"),
        ],
    },
    Row {
        setting: "source address of evenkeel",
        of_listener: NONE,
        of_route: NONE,
        of_pool: NONE,
        keeps: [Exact, Exact, Exact, Exact, Exact, Refused("clients do not come to this machine")],
    },
    Row {
        setting: "source address of the client",
        of_listener: NONE,
        of_route: NONE,
        of_pool: NONE,
        keeps: [
            Refused("endpoints get it as `X-Forwarded-For`, or by the PROXY protocol"),
            Approximated("TCP only"),
            Exact,
            Exact,
            Exact,
            Exact,
        ],
    },
    Row {
        setting: "limits of clients",
        of_listener: &["limits"],
        of_route: NONE,
        of_pool: NONE,
        keeps: [Exact, Exact, UNSEEN, UNSEEN, UNSEEN, Approximated("responses per network")],
    },
    Row {
        setting: "TLS",
        of_listener: &["tls"],
        of_route: NONE,
        of_pool: &["tls"],
        keeps: [Exact, Approximated("TCP only"), UNCHANGED, UNCHANGED, UNCHANGED, Refused("answers are in plain text")],
    },
    Row {
        setting: "PROXY protocol",
        of_listener: &["accept_proxy_protocol"],
        of_route: NONE,
        of_pool: &["proxy_protocol"],
        keeps: [
            Exact,
            Approximated("TCP only"),
            UNCHANGED,
            UNCHANGED,
            UNCHANGED,
            Refused("clients do not come to this machine"),
        ],
    },
    Row {
        setting: "load reports",
        of_listener: NONE,
        of_route: NONE,
        of_pool: &["load_reports"],
        keeps: [
            Exact,
            Refused("reports come with HTTP responses"),
            UNCHANGED,
            UNCHANGED,
            UNCHANGED,
            Refused("reports come with HTTP responses"),
        ],
    },
    Row {
        setting: "access log, tap, explained picks",
        of_listener: NONE,
        of_route: NONE,
        of_pool: &["shadow"],
        keeps: [
            Exact,
            Approximated("of connections and flows"),
            Refused("the kernel records no picks; counts are by endpoint"),
            Refused("the kernel records no picks; counts are by endpoint"),
            Refused("the kernel records no picks; counts are by endpoint"),
            Approximated("a sample of queries"),
        ],
    },
    Row {
        setting: "exploration",
        of_listener: NONE,
        of_route: NONE,
        of_pool: &["explore"],
        keeps: [
            Exact,
            Exact,
            Refused("the kernel records no picks; counts are by endpoint"),
            Refused("the kernel records no picks; counts are by endpoint"),
            Refused("the kernel records no picks; counts are by endpoint"),
            NOT_COUNTED,
        ],
    },
    Row {
        setting: "HTTP: routes, filters, cache",
        of_listener: NONE,
        of_route: NONE,
        of_pool: NONE,
        keeps: [
            Exact,
            Approximated("routes by the server name of TLS"),
            Refused("the kernel reads no bytes"),
            Refused("the kernel reads no bytes"),
            Refused("the kernel reads no bytes"),
            Refused("clients do not come to this machine"),
        ],
    },
    Row {
        setting: "survives a crash of evenkeel",
        of_listener: NONE,
        of_route: NONE,
        of_pool: NONE,
        keeps: [
            Refused("connections end with the process"),
            Refused("connections end with the process"),
            BALANCES_ON,
            BALANCES_ON,
            BALANCES_ON,
            Approximated("clients keep an earlier answer, and other name servers answer"),
        ],
    },
];

/// Cost class of each kind on this machine, in the order of [`Forwarding::ALL`](super::Forwarding::ALL).
pub static COST: [&str; 6] =
    ["highest, by request", "high, by byte", "lowest, by packet", "low, by packet", "low, by packet", "by query only"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planes::Forwarding;

    #[test]
    fn planes_of_the_kernel_refuse_whatever_keys_ask_for() {
        for row in ROWS {
            for kind in [Forwarding::Ebpf, Forwarding::Nftables, Forwarding::Ipvs] {
                let has_keys = [row.of_listener, row.of_route, row.of_pool].iter().any(|keys| !keys.is_empty());
                let refused = matches!(row.keeps[kind as usize], Refused(_));
                assert!(refused || !has_keys, "{} by {}", row.setting, kind.name());
            }
        }
    }
}
