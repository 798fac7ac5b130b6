//! Choice of the driver for a plane.

use crate::driver::Driver;
use crate::ebpf::{Attach, Ebpf, Settings};
use crate::ipvs::Ipvs;
use crate::nftables::Nftables;
use evenkeel_config::plan::{self, Plane};

/// Mechanisms that have a driver.
pub const BUILT: &[Plane] = &[Plane::Nftables, Plane::Ebpf, Plane::Ipvs];

/// Creates the driver of a plane, without touching the kernel; `None` for the proxy.
pub fn of(plane: Plane, settings: &plan::Kernel) -> Option<Box<dyn Driver>> {
    match plane {
        Plane::Proxy => None,
        Plane::Nftables => Some(Box::new(Nftables::new(settings))),
        Plane::Ipvs => Some(Box::new(Ipvs::new(&settings.state, &settings.name))),
        Plane::Ebpf => Some(Box::new(Ebpf::new(ebpf_settings(settings)))),
    }
}

/// Endpoints of eBPF at most, over all pools: their records take 12 MB.
const ENDPOINTS_MAX: u32 = 131_072;

fn ebpf_settings(settings: &plan::Kernel) -> Settings {
    Settings {
        name: settings.name.to_string(),
        cgroup: settings.cgroup.clone(),
        interfaces: settings.interfaces.iter().map(|name| name.to_string()).collect(),
        attach: match settings.attach {
            plan::Attach::Connect => Attach::Connect,
            plan::Attach::Forward => Attach::Forward,
            plan::Attach::Both => Attach::Both,
        },
        flows_max: settings.flows_max,
        endpoints_max: ENDPOINTS_MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_drivers_is_true() {
        for plane in [Plane::Proxy, Plane::Nftables, Plane::Ebpf, Plane::Ipvs] {
            assert_eq!(of(plane, &plan::Kernel::default()).is_some(), BUILT.contains(&plane), "{}", plane.name());
        }
    }
}
