//! Balancers of the application. A balancer beside each service relays incoming requests to it, and balances its calls
//! over the nodes; a balancer at the edge balances the requests of clients and, as the external balancer, the calls of
//! all services.

use super::system::{EDGE, NODES, SERVICES, service_port};
use crate::balancers::{Algorithm, Balancer, Care, Front, Listener, Pool, Reuse, Route, Running, Setup, Timeouts};
use crate::error::{Error, Result};
use crate::hosts::address;
use crate::http::local;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Request path of each service.
const PATHS: [&str; 4] = ["/GetTime", "/UserAttr", "/Log", "/MyTime"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Beside a process of this service.
    Beside {
        /// Index in [`SERVICES`].
        kind: usize,
    },
    /// Between the clients and the nodes.
    Edge,
}

/// Port for outgoing calls of a service, at the balancer beside it.
pub fn outbound(kind: usize) -> u16 {
    22001 + kind as u16
}

/// Port for requests to a service, at every node and at the edge.
pub fn inbound(kind: usize) -> u16 {
    2001 + kind as u16
}

/// Balancer with its way of balancing calls.
#[derive(Clone, Copy, Debug)]
pub struct Balancing {
    pub name: &'static str,
    /// True for evenkeel, false for HAProxy.
    pub ours: bool,
    /// Algorithm that picks a node for a call.
    pub algorithm: Algorithm,
    /// True if the balancers beside services send calls to the balancer at the edge instead of spreading them.
    pub external: bool,
    /// True if balancers know each other's load.
    pub shared: bool,
}

impl Balancing {
    fn balancer<'b>(&self, balancers: &'b [Balancer]) -> Option<&'b Balancer> {
        balancers.iter().find(|balancer| self.name.starts_with(balancer.name))
    }

    /// Starts such a balancer. `at`: command prefix, for its namespace and group.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(&self, balancers: &[Balancer], place: Place, at: Vec<String>) -> Result<Running> {
        let balancer = self.balancer(balancers).ok_or_else(|| Error::Missing(self.name.into()))?;
        balancer.spawn(at, self.setup(place))
    }

    /// Builds the setup. HAProxy is set up as in the publication, without retries to other nodes and without checks of
    /// nodes.
    fn setup(&self, place: Place) -> Setup {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let mut setup = Setup {
            connections: 4000,
            timeouts: Timeouts {
                connect: seconds(4),
                response: seconds(20),
                idle: Duration::from_secs(20),
                ..Timeouts::default()
            },
            published: "  timeout queue 10s\n  option http-buffer-request\n  option tcp-smart-connect\n",
            ..Setup::default()
        };
        let care = if self.ours { Care::None } else { Care::Usual };
        let everywhere = |port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        let pool = |hosts: &mut dyn Iterator<Item = usize>, kind: usize, algorithm| {
            let endpoints = hosts.map(|host| SocketAddr::from((address(host), inbound(kind)))).collect();
            Pool { name: SERVICES[kind], endpoints, algorithm, care, ..Pool::default() }
        };
        match place {
            Place::Beside { kind } => {
                setup.reuse = Reuse::Usual;
                let service = vec![local(service_port(kind))];
                let algorithm = Algorithm::RoundRobin;
                let inbound = Listener::to("service", "inbound", everywhere(inbound(kind)), Front::Http1);
                let outbound = Listener::new("outbound", local(outbound(kind)), Front::Http1);
                setup.listeners = vec![Listener { reports_load: self.shared, ..inbound }, outbound];
                setup.pools = vec![Pool { name: "service", endpoints: service, algorithm, care, ..Pool::default() }];
                setup.routes = PATHS.into_iter().zip(SERVICES).map(|(path, name)| Route::new(path, name)).collect();
                let hosts = if self.external { EDGE..=EDGE } else { 1..=NODES };
                let called = |kind| Pool { shares_load: self.shared, ..pool(&mut hosts.clone(), kind, self.algorithm) };
                setup.pools.extend((0..SERVICES.len()).map(called));
            }
            Place::Edge => {
                let listener = |(kind, name)| Listener::to(name, name, everywhere(inbound(kind)), Front::Http1);
                setup.listeners = SERVICES.into_iter().enumerate().map(listener).collect();
                let called = |kind| pool(&mut (1..=NODES), kind, Algorithm::LeastConn);
                setup.pools = (0..SERVICES.len()).map(called).collect();
            }
        }
        setup
    }
}

/// All ways to compare: HAProxy's, if it is installed, then evenkeel's.
pub fn all(balancers: &[Balancer]) -> Vec<Balancing> {
    let [one_draw, leastconn, round_robin] = [Algorithm::OneDraw, Algorithm::LeastConn, Algorithm::RoundRobin];
    let rows = [
        ("haproxy round robin", round_robin, false, false),
        ("haproxy leastconn", leastconn, false, false),
        ("haproxy random(1)", one_draw, false, false),
        ("haproxy random(2)", Algorithm::Random, false, false),
        ("haproxy external", round_robin, true, false),
        ("evenkeel leastconn", leastconn, false, false),
        ("evenkeel shared load", leastconn, false, true),
        ("evenkeel external", round_robin, true, false),
    ];
    let row = |(name, algorithm, external, shared): (&'static str, _, _, _)| {
        let ours = name.starts_with("evenkeel");
        Balancing { name, ours, algorithm, external, shared }
    };
    rows.into_iter().map(row).filter(|row| row.balancer(balancers).is_some()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_balancer_beside_a_service_reaches_all_nodes_or_the_external_one() {
        let of = |external: bool, place: Place| {
            let algorithm = Algorithm::LeastConn;
            let setup = Balancing { name: "x", ours: true, algorithm, external, shared: true }.setup(place);
            let pools = setup.pools.into_iter().flat_map(|pool| pool.endpoints);
            (pools.collect::<Vec<_>>(), setup.listeners.iter().map(|listener| listener.bind.port()).collect::<Vec<_>>())
        };
        let ((spread, ports), (sent, _)) = (of(false, Place::Beside { kind: 3 }), of(true, Place::Beside { kind: 3 }));
        let (edge, _) = of(true, Place::Edge);
        for node in 1..=NODES {
            let user = SocketAddr::from((address(node), 2002));
            assert!(spread.contains(&user) && !sent.contains(&user) && edge.contains(&user));
        }
        assert!(sent.contains(&SocketAddr::from((address(EDGE), 2002))));
        assert!(spread.contains(&local(12004)) && ports.contains(&22004), "{spread:?} {ports:?}");
    }
}
