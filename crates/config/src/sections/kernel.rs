//! `[kernel]`: evenkeel's objects in the kernel for listeners with a `plane` of the kernel. See [`Kernel`].

use crate::form::Form;
use crate::table::{Absent, Key, Kind, table, words};
use std::path::PathBuf;
use std::sync::Arc;

table! {
    pub(crate) static KERNEL = "[kernel]",
        "Rules and programs in the kernel, for listeners with `plane = \"nftables\"`, `\"ebpf\"` or `\"ipvs\"`. While there \
        are such listeners, only a restart changes the keys other than `on_exit`.";

    /// `[kernel]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Kernel {
        /// Name of tables, pins and states, which identifies them as objects of this evenkeel.
        name: Arc<str> = Key {
            name: "name",
            kind: Kind::Text(Form::Name),
            absent: Absent::Default("\"evenkeel\""),
            help: "Name of the nftables table, the folder of eBPF pins, and the IPVS state. At startup, evenkeel takes \
                over existing objects of this name. Set another name for a second evenkeel in the same network \
                namespace.",
            why: "The name must be the same after a crash, so that evenkeel recognises leftover objects.",
        };
        /// Fate of rules and programs at the end of the process.
        on_exit: OnExit = Key {
            name: "on_exit",
            kind: Kind::Choice(OnExit::WORDS),
            absent: Absent::Default("\"remove\""),
            help: "When the process ends, `remove` removes all rules and programs. `keep` lets the kernel continue to \
                balance with its last state, without health checks. A crash or an upgrade keeps them in any case; \
                `evenkeel cleanup` removes them.",
            why: "Nothing should forward without health checks.",
        };
        /// Part of `ebpf` that is in use.
        attach: Attach = Key {
            name: "attach",
            kind: Kind::Choice(Attach::WORDS),
            absent: Absent::Default("\"both\""),
            help: "With `ebpf`: `connect` balances connections of processes on this machine, `forward` balances \
                packets that reach this machine, and `both` does both.",
            why: "With only one of them, the other clients would get no response.",
        };
        /// Interfaces whose packets are forwarded; empty = all that are up.
        interfaces: Vec<Arc<str>> = Key {
            name: "interfaces",
            kind: Kind::List(&Kind::Text(Form::Name)),
            absent: Absent::Means("all that are up, except loopback"),
            help: "With `ebpf` and `forward`: interfaces of clients and of endpoints.",
            why: "",
        };
        /// Control group whose processes are balanced at connect; `None` = the root.
        cgroup: Option<PathBuf> = Key {
            name: "cgroup",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("the root of the cgroup2 hierarchy"),
            help: "With `ebpf` and `connect`: folder of the control group with the processes to balance.",
            why: "",
        };
        /// Most flows that `ebpf` remembers at once.
        flows_max: u32 = Key {
            name: "flows_max",
            kind: Kind::Int { min: 64, max: 16_777_216 },
            absent: Absent::Default("262_144"),
            help: "With `ebpf`: maximum forwarded flows at a time. At the limit, the flow that has been idle longest \
                is forgotten.",
            why: "The default of connection tracking on a machine with 4 GB. They take 140 MB of kernel memory.",
        };
        /// Folder of the file that names the services of IPVS.
        state: PathBuf = Key {
            name: "state",
            kind: Kind::Text(Form::File),
            absent: Absent::Default("\"/run/evenkeel\""),
            help: "With `ipvs`: folder of a file that lists the services of evenkeel. The kernel cannot mark them.",
            why: "The file is gone after a restart of the machine, like the services.",
        };
        /// Base of the conntrack marks of endpoints: the upper 12 bits.
        mark: u32 = Key {
            name: "mark",
            kind: Kind::Int { min: 1, max: 4_095 },
            absent: Absent::Default("3808"),
            help: "With `nftables`: the upper 12 bits of the conntrack marks of evenkeel's flows. The lower 20 bits \
                are the endpoint.",
            why: "Other rules mostly use small marks.",
        };
    }
}

words! {
    /// Fate of the objects in the kernel at the end of the process.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum OnExit {
        #[default]
        Remove = "remove",
        Keep = "keep",
    }
}

words! {
    /// Part of eBPF that is in use.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Attach {
        /// Connects of processes of this machine.
        Connect = "connect",
        /// Packets that reach this machine.
        Forward = "forward",
        #[default]
        Both = "both",
    }
}
