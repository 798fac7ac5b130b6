//! Setup of the lab's own minimal relay (`bare.rs` of the crate), the lower bound for the others.

use super::kind::{Cannot, Kind, Reload, Site, Written, counts_nothing};
use super::setup::Front;
use crate::bare;
use rustix::process::Signal;

pub const KIND: Kind = Kind {
    name: "bare",
    program: "evenkeel-lab",
    version_flag: "--version",
    files: ports,
    arguments: |_, ports| [bare::NAME, ports].map(str::to_owned).to_vec(),
    forks: false,
    logs_to_socket: false,
    reload: Reload::Signal(Signal::HUP),
    upgrades: false,
    generation: |_, _| Err(counts_nothing()),
    retries: |_| Err(counts_nothing()),
    settings: "",
};

fn ports(site: &Site) -> Written {
    let [listener] = &site.setup.listeners[..] else { return Err(Cannot("it listens once")) };
    if listener.front != Front::Tcp {
        return Err(Cannot("it passes on sessions, not requests"));
    }
    let endpoints = site.setup.pools.iter().flat_map(|pool| &pool.endpoints);
    let ports = endpoints.map(|address| format!(" {}", address.port())).collect::<String>();
    Ok(vec![("ports", format!("{}{ports}\n", listener.bind.port()))])
}
