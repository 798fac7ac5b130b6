//! Health checks: endpoints are checked as planned, from when they are in use until they leave.

use crate::plane::lock;
use crate::setup::{Setup, endpoints, parse, wait_until};
use evenkeel_balance::EndpointId;
use evenkeel_balance::state::State;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Endpoint that records the peers that connect.
struct Endpoint {
    addr: SocketAddr,
    peers: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Endpoint {
    fn start() -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = Endpoint { addr: listener.local_addr().expect("it is bound"), peers: Arc::default() };
        let peers = endpoint.peers.clone();
        thread::spawn(move || {
            while let Ok((_, peer)) = listener.accept() {
                lock(&peers).push(peer);
            }
        });
        endpoint
    }

    fn checks(&self) -> usize {
        lock(&self.peers).len()
    }

    /// Number of connections so far, including those that wait to be accepted.
    fn checks_so_far(&self) -> usize {
        let mine = TcpStream::connect(self.addr).and_then(|stream| stream.local_addr()).expect("it accepts");
        let mut at = None;
        wait_until("it has accepted all", || {
            at = lock(&self.peers).iter().position(|peer| *peer == mine);
            at.is_some()
        });
        at.expect("it was waited for") + 1
    }
}

fn config(of: &[SocketAddr], health: &str) -> String {
    let list = of.iter().map(|addr| format!("'{addr}'")).collect::<Vec<_>>().join(", ");
    format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = ['127.0.0.1:1']\n[pool.web]\nendpoints = [{list}]\n{health}\n"
    )
}

const OFTEN: &str = "health = { tcp = {}, interval = '100ms', timeout = '100ms', fall = 1, rise = 1 }";

fn state(setup: &Setup, addr: SocketAddr) -> Option<State> {
    setup.runtime.control().pools()["web"].state_of(&addr.to_string())
}

#[test]
fn endpoints_are_checked_as_long_as_they_are_in_the_pool() {
    let [first, second] = [Endpoint::start(), Endpoint::start()];
    let mut setup = Setup::start(parse(&config(&[first.addr], OFTEN)));
    wait_until("it is checked again and again", || first.checks() > 2);
    wait_until("it is up", || state(&setup, first.addr) == Some(State::Up));
    let found = endpoints(&[&second.addr.to_string()]);
    setup.runtime.apply_endpoints(vec![("web".into(), found)]).expect("nothing interrupts");
    wait_until("the one that came is up", || state(&setup, second.addr) == Some(State::Up));
    let at_most = first.checks_so_far() + 1; // one may have been in progress
    let until = second.checks() + 3;
    wait_until("the other is checked", || second.checks() >= until);
    assert!(first.checks() <= at_most, "the one that left is not");
}

#[test]
fn the_next_plan_may_check_otherwise_or_not_at_all() {
    let endpoint = Endpoint::start();
    let mut setup = Setup::start(parse(&config(&[endpoint.addr], "")));
    assert_eq!((state(&setup, endpoint.addr), endpoint.checks()), (Some(State::Up), 0));
    setup.runtime.reload(parse(&config(&[endpoint.addr], OFTEN))).expect("nothing fails");
    wait_until("it is checked", || endpoint.checks() > 2);
    let control = setup.runtime.control();
    let passed = || {
        let pools = control.pools();
        pools["web"].history().endpoint(EndpointId::of(&endpoint.addr.to_string())).map(|of| of.counts.passed)
    };
    wait_until("its history has them", || passed().is_some_and(|passed| passed > 2));
    setup.runtime.reload(parse(&config(&[endpoint.addr], ""))).expect("nothing fails");
    assert_eq!(state(&setup, endpoint.addr), Some(State::Up));
}

#[test]
fn one_that_does_not_answer_is_down_and_the_event_says_why() {
    let gone = evenkeel_peers::own_addr();
    let well = Endpoint::start();
    let setup = Setup::start(parse(&config(&[gone, well.addr], OFTEN)));
    wait_until("it is down", || state(&setup, gone) == Some(State::Down));
    let events = setup.runtime.control().events().since(0);
    let name = gone.to_string();
    assert!(events.iter().any(|event| event.endpoint.as_deref() == Some(&*name) && event.text.contains("-> down")));
}
