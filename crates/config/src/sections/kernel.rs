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
            help: "Name of what is made: the table of nftables, the folder of eBPF pins, the state of IPVS. A start \
                takes over what has this name. Set another one for a second evenkeel in one network namespace.",
            why: "It must be the same after a crash, so that what is left behind is recognised.",
        };
        /// Fate of rules and programs at the end of the process.
        on_exit: OnExit = Key {
            name: "on_exit",
            kind: Kind::Choice(OnExit::WORDS),
            absent: Absent::Default("\"remove\""),
            help: "At the end of the process, `remove` removes all of it, and `keep` lets the kernel balance on as it did \
                last, without health checks. A crash and an upgrade keep it either way; `evenkeel cleanup` removes it.",
            why: "Nothing should stay behind without health checks.",
        };
        /// Part of `ebpf` that is in use.
        attach: Attach = Key {
            name: "attach",
            kind: Kind::Choice(Attach::WORDS),
            absent: Absent::Default("\"both\""),
            help: "With `ebpf`: `connect` balances processes of this machine when they connect, `forward` balances packets \
                that reach this machine, `both` does both.",
            why: "With one of them alone, the other clients would get no answer.",
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
            help: "With `ebpf` and `connect`: folder of the control group whose processes are balanced.",
            why: "",
        };
        /// Most flows that `ebpf` remembers at once.
        flows_max: u32 = Key {
            name: "flows_max",
            kind: Kind::Int { min: 64, max: 16_777_216 },
            absent: Absent::Default("262_144"),
            help: "With `ebpf`: most forwarded flows at once. At the limit the one idle longest is forgotten.",
            why: "As many as connection tracking has by default on a machine with 4 GB; 140 MB of memory of the kernel.",
        };
        /// Folder of the file that names the services of IPVS.
        state: PathBuf = Key {
            name: "state",
            kind: Kind::Text(Form::File),
            absent: Absent::Default("\"/run/evenkeel\""),
            help: "With `ipvs`: folder of a file that names the services that are evenkeel's, which the kernel cannot.",
            why: "It is gone after a restart of the machine, as the services are.",
        };
        /// Base of the conntrack marks of endpoints: the upper 12 bits.
        mark: u32 = Key {
            name: "mark",
            kind: Kind::Int { min: 1, max: 4_095 },
            absent: Absent::Default("3808"),
            help: "With `nftables`: the upper 12 bits of the conntrack marks of its flows; the lower 20 are the endpoint.",
            why: "Rules of others that use marks mostly use small ones.",
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
