//! What of a plan can fail? Sockets, the access log, balancers, keys, pages: all of it is made before anything is changed.

use super::{Server, addresses, line_sink, probed_at};
use crate::listener::error_pages::ErrorPages;
use crate::listener::probe_answers;
use crate::observe::explaining::Wanted;
use crate::plan::secured::Secured;
use crate::plan::start_error::StartError;
use crate::upstream::sticky::Sticky;
use evenkeel_balance::Balancer;
use evenkeel_config::Plan;
use evenkeel_config::plan::{self, Pool, SpeakAs};
use evenkeel_net::dial::check_transparent;
use evenkeel_net::inherit::Inherited;
use evenkeel_net::listen::{self, CannotListen, ListenFd, Protocol};
use evenkeel_net::log_writer::Writer;
use evenkeel_runtime::{Pools, SharedPool};
use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

/// What of a plan can fail, before anything is changed.
pub(super) struct Prepared {
    /// New sockets by address and by worker.
    pub(super) sockets: HashMap<(Protocol, SocketAddr), Vec<Vec<ListenFd>>>,
    /// New sockets for probes, by address and by worker.
    pub(super) probed: HashMap<SocketAddr, Vec<UdpSocket>>,
    /// Pools that there were not.
    pub(super) pools: Pools,
    /// By pool: new balancers by worker, if it needs any.
    pub(super) balancers: Vec<Option<Vec<Balancer>>>,
    /// By pool: how clients find their endpoint again.
    pub(super) sticky: Vec<Option<Arc<Sticky>>>,
    /// What clients see when no endpoint's response goes to them.
    pub(super) error_pages: Arc<ErrorPages>,
    /// Which picks are explained.
    pub(super) explain: Wanted,
    /// Where TLS is spoken.
    pub(super) secured: Secured,
    /// The new access log, or none; `None` if that stays as it is.
    pub(super) log: Option<Option<Writer>>,
}

impl Server {
    /// Does what can fail.
    pub(super) fn prepare(
        &self,
        plan: &Plan,
        before: Option<&Plan>,
        inherited: &mut Inherited,
    ) -> Result<Prepared, StartError> {
        let workers = self.now().workers.len();
        let mut sockets = HashMap::new();
        for listener in &plan.listeners {
            for at in addresses(listener).filter(|at| !self.sockets.contains_key(at)) {
                let (given, addr) = (inherited.at(at), at.1);
                let opened = match at.0 {
                    Protocol::Tcp => listen::tcp(addr, workers, given),
                    Protocol::Udp => listen::udp(addr, workers, given, true),
                };
                let fail = |error| StartError::Listen(CannotListen { listener: listener.name.clone(), addr, error });
                sockets.insert(at, opened.map_err(fail)?);
            }
        }
        if let Some(pool) = plan.pools.iter().find(|pool| pool.source == SpeakAs::Client) {
            check_transparent().map_err(|error| StartError::Source(pool.name.clone(), error))?;
        }
        let mut probed = HashMap::new();
        for (_, addr) in probed_at(plan).filter(|(_, addr)| !self.probed.contains(addr)) {
            probed.insert(addr, probe_answers::open(addr, workers).map_err(|error| StartError::Probes(addr, error))?);
        }
        let now = plan.telemetry.access_log.as_ref();
        let log = match before.and_then(|plan| plan.telemetry.access_log.as_ref()) {
            before if before == now => None,
            _ => {
                let open = |log: &plan::AccessLog| {
                    let opened = Writer::open(&line_sink(log), "access-log");
                    opened.map_err(|error| StartError::AccessLog(log.to.clone(), error))
                };
                Some(now.map(open).transpose()?)
            }
        };
        let (mut pools, mut balancers) = (HashMap::new(), Vec::new());
        let old_pools: HashMap<&str, &Arc<Pool>> =
            before.iter().flat_map(|plan| &plan.pools).map(|pool| (&*pool.name, pool)).collect();
        let there = self.control.pools();
        for pool in &plan.pools {
            let new = || SharedPool::new(workers, self.control.orders(), self.control.events());
            let shared = match there.get(&pool.name) {
                Some(shared) => shared,
                None => pools.entry(pool.name.clone()).or_insert_with(new),
            };
            // Balancers do not know which shadows there are, only whether there are any.
            let same = old_pools
                .get(&*pool.name)
                .is_some_and(|old| old.balance == pool.balance && old.shadow.is_empty() == pool.shadow.is_empty());
            let recorded = plan.telemetry.journal.as_ref().is_some_and(|journal| *journal.pool == *pool.name);
            let journal = self.journal.as_ref().filter(|_| recorded);
            let made = (!same).then(|| shared.balancers(pool, journal)).transpose();
            balancers.push(made.map_err(|e| StartError::Balance(pool.name.clone(), e))?);
        }
        drop(there);
        let sticky = plan.pools.iter().map(|pool| {
            let made = pool.sticky.as_ref().map(|sticky| Sticky::new(sticky, &pool.name).map(Arc::new)).transpose();
            made.map_err(|error| StartError::Sticky(pool.name.clone(), error))
        });
        let sticky = sticky.collect::<Result<_, _>>()?;
        let error_pages = ErrorPages::read(plan).map_err(|(path, error)| StartError::ErrorPage(path, error))?;
        let explain =
            Wanted::read(&plan.telemetry.explain, workers).map_err(|(path, error)| StartError::Explain(path, error))?;
        let secured = self.secured.next(plan).map_err(StartError::Tls)?;
        Ok(Prepared {
            secured,
            sockets,
            probed,
            pools,
            balancers,
            sticky,
            error_pages: Arc::new(error_pages),
            log,
            explain,
        })
    }
}
