//! A proxy under test, in this process.

use super::{Client, own_addr, wait_until};
use evenkeel_balance::EndpointId;
use evenkeel_config::plan::Plan;
use evenkeel_proxy::stats::{EndpointStats, ListenerStats, PoolStats, RouteStats};
use evenkeel_proxy::{Command, Secured, Server};
use evenkeel_runtime::{StartError, Summary};
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;

/// A running proxy. Its drop asserts that no request is counted as in flight, and stops it.
pub struct Proxy {
    server: Option<Server>,
    /// Address that replaces `$BIND`.
    bind: SocketAddr,
}

impl Proxy {
    /// Starts a proxy with one worker and a pool of these endpoints.
    pub fn before(endpoints: &[SocketAddr]) -> Proxy {
        Proxy::with(endpoints, "", "", "")
    }

    /// Like [`before`](Self::before), with more lines for the listener, for the pool and after it. Errors are detailed.
    pub fn with(endpoints: &[SocketAddr], listener: &str, pool: &str, behind: &str) -> Proxy {
        let mut list = String::new();
        for addr in endpoints {
            write!(list, "\"{addr}\",").expect("a String takes everything");
        }
        Proxy::start(&format!(
            "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\nerrors = \"detailed\"\n{listener}\n\
             [pool.web]\nbalance = \"round_robin\"\nendpoints = [{list}]\n{pool}\n{behind}"
        ))
    }

    /// Starts a proxy from a whole configuration, in which `$BIND` stands for an address of its own. Workers share a
    /// port (`SO_REUSEPORT`), so two proxies at one address would each get a part of the other's clients and report
    /// nothing.
    #[track_caller]
    pub fn start(config: &str) -> Proxy {
        Proxy::start_secured(config, &Secured::default())
    }

    /// Like [`start`](Self::start), with TLS for the listeners and pools in `secured`.
    #[track_caller]
    pub fn start_secured(config: &str, secured: &Secured) -> Proxy {
        evenkeel_proxy::table::add(super::filters::FILTERS);
        let bind = own_addr();
        let server = Server::start_secured(plan(config, bind), secured.clone());
        Proxy { server: Some(server.unwrap_or_else(|error| panic!("{error}"))), bind }
    }

    /// Changes to another configuration, in which `$BIND` stands for the same address.
    #[track_caller]
    pub fn reload(&mut self, config: &str) -> Result<Summary, StartError> {
        let plan = plan(config, self.bind);
        self.server.as_mut().expect("it runs until it is dropped").reload(plan)
    }

    /// Replaces the endpoints of the pool `web`, as discovery does.
    pub fn find(&mut self, endpoints: &[SocketAddr]) {
        let list: Vec<String> = endpoints.iter().map(|addr| format!("\"{addr}\"")).collect();
        let list = evenkeel_config::endpoint_list("list.json", &format!("[{}]", list.join(", ")));
        let found = vec![("web".into(), list.expect("a good list"))];
        self.server
            .as_mut()
            .expect("it runs until it is dropped")
            .apply_endpoints(found)
            .expect("nothing interrupts it");
    }

    /// Replaces the endpoints of the pool `web` by those that discovery has found for its names.
    pub fn resolve(&mut self, endpoints: Vec<evenkeel_config::plan::Endpoint>) {
        let server = self.server.as_mut().expect("it runs until it is dropped");
        server.apply_endpoints(vec![("web".into(), endpoints)]).expect("nothing interrupts it");
    }

    pub fn server(&self) -> &Server {
        self.server.as_ref().expect("it runs until it is dropped")
    }

    pub fn addr(&self) -> SocketAddr {
        self.server().addresses()[0]
    }

    pub fn client(&self) -> Client {
        Client::connect(self.addr())
    }

    /// Waits until the worker has handled all earlier events of its sockets: it answers a new connection, which its
    /// event loop sees after them.
    #[track_caller]
    pub fn has_heard(&self) {
        assert_eq!(self.client().send("\n").response().status(), 400);
    }

    /// The metrics, as a scrape gets them.
    pub fn metrics(&self) -> String {
        let (_, running) = tokio::sync::watch::channel(self.server().numbers());
        let mut registry = prometheus_client::registry::Registry::default();
        registry.register_collector(Box::new(evenkeel_proxy::metrics::Metrics::new(running)));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("a String takes everything");
        text
    }

    /// Sum of a statistic of the first listener over all workers.
    pub fn listener(&self, what: impl Fn(&ListenerStats) -> u64) -> u64 {
        self.server().stats().iter().map(|w| what(&w.listeners[0])).sum()
    }

    /// Sum of a statistic of the first pool over all workers.
    pub fn pool(&self, what: impl Fn(&PoolStats) -> u64) -> u64 {
        self.server().stats().iter().map(|w| what(&w.pools[0])).sum()
    }

    /// Sum of a statistic of an endpoint of the first pool over all workers.
    pub fn endpoint(&self, index: usize, what: impl Fn(&EndpointStats) -> u64) -> u64 {
        self.server().numbers().members(0).stats(index).map(what).sum()
    }

    /// State of an endpoint of the pool `web`, as named in the metrics.
    pub fn state(&self, endpoint: impl ToString) -> &'static str {
        let pools = self.server().control().pools();
        pools["web"].state_of(&endpoint.to_string()).expect("an endpoint of the pool").name()
    }

    /// Number of ejections of an endpoint of the pool `web`.
    pub fn ejections(&self, endpoint: impl ToString) -> u64 {
        let pools = self.server().control().pools();
        let history = pools["web"].history().endpoint(EndpointId::of(&endpoint.to_string()));
        history.expect("an endpoint of the pool").counts.ejections
    }

    /// Waits until an endpoint of the pool `web` is in this state, as named in the metrics.
    #[track_caller]
    pub fn becomes(&self, endpoint: impl ToString, state: &str) {
        let endpoint = endpoint.to_string();
        wait_until(&format!("{endpoint} is {state}"), || self.state(&endpoint) == state);
    }

    /// Distinct bodies of the responses to `n` requests, each on a new connection, sorted.
    pub fn answers(&self, n: usize) -> Vec<String> {
        let mut answers: Vec<String> = (0..n).map(|_| self.client().get("/").body_text()).collect();
        answers.sort();
        answers.dedup();
        answers
    }

    /// Number of requests in the queue of the pool `web`.
    pub fn waiting(&self) -> u32 {
        self.server().control().pools()["web"].pool.queue().depth()
    }

    /// Number of requests in flight, over all workers, pools and endpoints.
    pub fn in_flight(&self) -> u64 {
        let members = self.server().numbers().all_members();
        let endpoints = members.iter().flat_map(|members| &members.workers).flatten();
        endpoints.map(|endpoint| endpoint.active.get()).sum()
    }

    /// Number of requests that ended with this status, over all routes and methods.
    pub fn ended(&self, status: u16) -> u64 {
        let stats = self.server().stats();
        let ended = |route: Arc<RouteStats>| {
            let by_status = route.requests.iter().flat_map(|by| by.iter());
            by_status.filter(|(s, _)| *s == status).map(|(_, n)| n).sum::<u64>()
        };
        stats.iter().flat_map(|worker| worker.routes[0].all()).map(ended).sum()
    }

    /// Begins to drain: running requests are finished.
    pub fn drain(&self) {
        self.server().command(Command::Drain);
    }

    /// Drains, and waits until the only worker, which must have something to finish, has begun to. It is given three
    /// turns: the command, the tasks that it wakes, and the tasks that those wake are handled within them.
    pub fn drain_now(&self) {
        self.drain();
        let turns = || self.server().beats().map(|(_, n)| n).sum::<u64>();
        let until = turns() + 3;
        super::wait_until("the worker has had its turns", || turns() >= until);
    }

    /// Stops the proxy, and waits until its log is written.
    pub fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.command(Command::Stop);
            server.join();
        }
    }
}

#[track_caller]
fn plan(config: &str, bind: SocketAddr) -> Plan {
    let text = config.replace("$BIND", &bind.to_string());
    let outcome = evenkeel_config::parse_str("test.toml", &text, &|_| None);
    let found = evenkeel_config::render_text(&outcome.diagnostics, false);
    outcome.plan.unwrap_or_else(|| panic!("{found}"))
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if self.server.is_some() && !std::thread::panicking() {
            wait_until("no request is in flight", || self.in_flight() == 0);
        }
        self.stop();
    }
}
