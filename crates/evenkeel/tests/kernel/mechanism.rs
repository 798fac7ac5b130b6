//! Mechanisms of the kernel, a column each.

/// A mechanism, with the position of its clients.
pub struct Mechanism {
    pub name: &'static str,
    /// Value of `plane`.
    pub plane: &'static str,
    /// Keys of `[kernel]`.
    pub settings: &'static str,
    /// True if clients are processes of the balancer's own machine.
    pub is_local: bool,
    /// True if a connected socket keeps its endpoint until it is closed.
    pub binds_sockets: bool,
    /// Values of `balance`, the first without regard to load, that it keeps and that give shares by weight to connections that come one by one.
    pub balances: &'static [&'static str],
}

pub const MECHANISMS: &[Mechanism] = &[
    Mechanism {
        name: "nftables",
        plane: "nftables",
        settings: "",
        is_local: false,
        binds_sockets: false,
        balances: &["{ random = { draws = 1 } }", "'round_robin'"],
    },
    Mechanism {
        name: "nftables, local clients",
        plane: "nftables",
        settings: "",
        is_local: true,
        binds_sockets: false,
        balances: &["{ random = { draws = 1 } }"],
    },
    Mechanism {
        name: "ebpf, connect",
        plane: "ebpf",
        settings: "attach = 'connect'\nflows_max = 4096",
        is_local: true,
        binds_sockets: true,
        balances: &["{ random = { draws = 1 } }", "'random'", "'leastconn'", "'round_robin'"],
    },
    Mechanism {
        name: "ebpf, forward",
        plane: "ebpf",
        settings: "attach = 'forward'\nflows_max = 4096",
        is_local: false,
        binds_sockets: false,
        balances: &["{ random = { draws = 1 } }", "'random'", "'leastconn'", "'round_robin'"],
    },
];

/// Runs a scenario for each mechanism, all at once. Left out where the tests are not root.
pub fn for_each(scenario: fn(&'static Mechanism)) {
    alone(|| {
        std::thread::scope(|scope| {
            for mechanism in MECHANISMS {
                scope.spawn(move || scenario(mechanism));
            }
        });
    });
}

/// Runs a scenario, where that can be.
pub fn alone(scenario: impl FnOnce()) {
    if !evenkeel_peers::installed(&["ip", "nft"]) {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return evenkeel_peers::skip("namespaces need root");
    }
    scenario();
}
