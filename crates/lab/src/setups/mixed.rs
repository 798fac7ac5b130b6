//! Setup of `failure` and `reload`: clients over HTTP/1.1, HTTP/2, TLS and gRPC, and endpoints that break. Requests
//! below `/lab.Echo/` go to the same endpoints over HTTP/2; a spare pool without requests exists to be changed.

use crate::balancers::{
    Algorithm, Back, Balancer, Care, Front, Lasts, Listener, OURS, Pool, Route, Running, Setup, Timeouts,
};
use crate::certificates::{Certificate, Certificates, Files};
use crate::client::connector::Ports;
use crate::error::Result;
use crate::http::local;
use crate::origin;
use std::net::SocketAddr;
use std::time::Duration;

/// Starts a balancer, and waits until it answers.
///
/// # Errors
/// If it does not.
pub fn start(balancer: &Balancer, endpoints: &[SocketAddr], certificates: &Certificates) -> Result<(Running, Ports)> {
    run(balancer, endpoints, certificates, false)
}

/// Like [`start`], with HTTP/3 if the balancer speaks it: a build of another without it refuses the configuration.
///
/// # Errors
/// The balancer does not answer.
pub fn start_with_http3(
    balancer: &Balancer,
    endpoints: &[SocketAddr],
    certificates: &Certificates,
) -> Result<(Running, Ports)> {
    match run(balancer, endpoints, certificates, true) {
        Err(_) if balancer.name != OURS => run(balancer, endpoints, certificates, false),
        started => started,
    }
}

fn run(
    balancer: &Balancer,
    endpoints: &[SocketAddr],
    certificates: &Certificates,
    speaks_http3: bool,
) -> Result<(Running, Ports)> {
    let [clear, admin, h2c, tls, h3] = origin::held_ports()?;
    let ports = Ports { clear, h2c, tls, h3: speaks_http3.then_some(h3) };
    let running = balancer.start(Vec::new(), setup(endpoints, ports, admin, certificates.of(Certificate::P256)))?;
    running.await_answer()?;
    Ok((running, ports))
}

/// Sets the weight, 1 to 100, of the endpoint of the spare pool.
pub fn set_weight(setup: &mut Setup, weight: u32) {
    setup.pools.iter_mut().filter(|pool| pool.name == "spare").for_each(|pool| pool.weight = Some(weight));
}

fn setup(endpoints: &[SocketAddr], Ports { clear, h2c, tls, h3 }: Ports, admin: u16, files: &Files) -> Setup {
    let served = |name, back| Pool {
        name,
        endpoints: endpoints.to_vec(),
        algorithm: Algorithm::Random,
        back,
        care: Care::Full,
        ..Pool::default()
    };
    let spare = Pool { name: "spare", endpoints: vec![endpoints[0]], weight: Some(1), ..Pool::default() };
    let mut listeners = vec![
        Listener::new("web", local(clear), Front::Http1),
        Listener::new("h2c", local(h2c), Front::H2c),
        Listener::new("tls", local(tls), Front::H2),
    ];
    listeners.extend(h3.map(|h3| Listener::new("h3", local(h3), Front::H3)));
    Setup {
        connections: 9000,
        listeners,
        routes: vec![
            Route { lasts: Lasts::Endless, ..Route::new("/echo", "app") },
            Route { lasts: Lasts::Long, ..Route::new("/upload", "app") },
            Route { lasts: Lasts::Long, ..Route::new("/download/", "app") },
            Route { lasts: Lasts::Endless, ..Route::new("/lab.Echo/Stream", "grpc") },
            Route::new("/lab.Echo/", "grpc"),
            Route::new("/", "app"),
            Route { host: Some("spare.test"), ..Route::new("/", "spare") },
        ],
        pools: vec![served("app", Back::Http1), served("grpc", Back::Grpc), spare],
        certificate: Some(files.clone()),
        timeouts: Timeouts {
            connect: Some(Duration::from_millis(500)),
            response: Some(Duration::from_secs(1)),
            idle: Duration::from_secs(60),
            ..Timeouts::default()
        },
        admin: Some(admin),
        reloads: true,
        ..Setup::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_weight_changes_each_configuration_and_nothing_else_does() {
        let endpoints = [local(1001), local(1002)];
        let file = |name: &str| std::path::Path::new("folder").join(name);
        let files = Files { certificate: file("crt"), key: file("key"), both: file("pem") };
        let setup = |weight| {
            let mut setup = setup(&endpoints, Ports { clear: 1, h2c: 3, tls: 4, h3: Some(5) }, 2, &files);
            set_weight(&mut setup, weight);
            setup
        };
        for kind in ["evenkeel", "haproxy", "nginx", "envoy"] {
            let all = |weight| crate::balancers::written(kind, &setup(weight)).expect("it can do it");
            let (one, two) = (all(1), all(2));
            assert_eq!(one, all(1));
            let differing = one.lines().zip(two.lines()).filter(|(one, two)| one != two).count();
            assert_eq!(differing, 1, "{kind}");
            assert!(one.contains("1001") && one.contains("1002"), "{kind}");
        }
    }
}
