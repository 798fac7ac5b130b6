//! How is the least relay set up that a session can have? It is the lab's own (`bare.rs` of the crate), to compare the others with.

use super::kind::{Kind, and};
use crate::bare;
use crate::experiments::protocol_cost::cases::Front;

pub const KIND: Kind = Kind {
    name: "bare",
    program: "evenkeel-lab",
    config_name: "ports",
    config: |site| format!("{} {} {}\n", site.port, site.endpoints[0], site.endpoints[1]),
    arguments: |command, _, ports| and(command, &[bare::NAME, &ports.display().to_string()]),
    version_flag: "--version",
    forks: false,
    logs_to_socket: false,
    cannot: |front, _| (front != Front::Tcp).then_some("it passes on sessions, not requests"),
};
