//! Sidecars: an evenkeel beside each application, that reports its load, and evenkeels in front of all of them.

use crate::balancers::{Algorithm, Balancer, Running, Setup, Timeouts};
use crate::error::Result;
use crate::http::local;
use crate::origin;
use std::net::SocketAddr;

/// Starts a sidecar beside an application.
///
/// # Errors
/// If it does not start.
pub fn beside(evenkeel: &Balancer, application: SocketAddr) -> Result<Running> {
    let mut setup = setup(Algorithm::Usual, &[application])?;
    setup.listeners[0].reports_load = true;
    evenkeel.start(Vec::new(), setup)
}

/// Starts a balancer in front of applications with sidecars. `shares_load`: true to get their load.
///
/// # Errors
/// If it does not start.
pub fn in_front(
    evenkeel: &Balancer,
    sidecars: &[Running],
    (algorithm, shares_load): (Algorithm, bool),
) -> Result<Running> {
    let endpoints: Vec<SocketAddr> = sidecars.iter().map(|sidecar| local(sidecar.port())).collect();
    let mut setup = setup(algorithm, &endpoints)?;
    setup.pools[0].shares_load = shares_load;
    evenkeel.start(Vec::new(), setup)
}

fn setup(algorithm: Algorithm, endpoints: &[SocketAddr]) -> Result<Setup> {
    let setup = Setup::of_algorithm(algorithm, endpoints, local(origin::free_ports()?[0]));
    Ok(Setup { timeouts: Timeouts::default(), ..setup })
}
