//! The parts of a plan that can fail: sockets, access log, balancers, keys, pages. They are made before anything is
//! changed.

use super::{Proxy, addresses, line_sink, probed_at, sticky_key};
use crate::filters::table;
use crate::listener::probe_answers;
use crate::observe::explanations::Wanted;
use crate::plan::secured::Secured;
use crate::resource::Resources;
use crate::serve::h3;
use crate::upstream::hosts::Hosts;
use crate::upstream::rules::{Compiled, PoolRules};
use crate::upstream::sticky::Sticky;
use evenkeel_balance::Balancer;
use evenkeel_config::plan::{self, LineSink, Pool, Secret, SpeakAs};
use evenkeel_config::{Plan, Subject};
use evenkeel_net::dial::check_transparent;
use evenkeel_net::inherit::Inherited;
use evenkeel_net::listen::{self, CannotListen, Claim, ListenFd, Protocol};
use evenkeel_net::log_writer::Writer;
use evenkeel_net::quic::keys::Keys;
use evenkeel_net::quic::steer;
use evenkeel_net::tls::towards::Towards;
use evenkeel_runtime::plane::reason;
use evenkeel_runtime::{Diagnostic, Next};
use evenkeel_tls::Problem;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Everything of a plan that could have failed.
pub(super) struct Prepared {
    /// New TCP and UDP sockets, by address and then by worker.
    pub(super) sockets: HashMap<(Protocol, SocketAddr), Vec<Vec<ListenFd>>>,
    /// New sockets for UDP probes, by address and then by worker.
    pub(super) probed: HashMap<SocketAddr, Vec<UdpSocket>>,
    /// New balancers by pool and then by worker; `None` for a pool that keeps its balancers.
    pub(super) balancers: Vec<Option<Vec<Balancer>>>,
    /// Rules by pool, in the order of the plan.
    pub(super) pool_rules: Vec<PoolRules>,
    /// Resources of filters, without those that take over at the installation.
    pub(super) resources: Resources,
    /// Picks that are explained.
    pub(super) explain: Wanted,
    /// TLS by listener and by pool.
    pub(super) secured: Secured,
    /// Keys of QUIC, if a listener has HTTP/3.
    pub(super) quic: Option<Keys>,
    /// New access log: `None` = unchanged, `Some(None)` = off.
    pub(super) log: Option<Option<Writer>>,
}

/// Prepares a plan.
///
/// # Errors
/// Everything that failed, not only the first problem.
pub(super) fn prepare(proxy: &Proxy, next: &Next<'_>, inherited: &mut Inherited) -> Result<Prepared, Vec<Diagnostic>> {
    let (plan, before, workers) = (next.plan(), next.before, proxy.workers.len());
    let mut wrong = Wrong::default();
    let sockets = sockets(proxy, plan, inherited, &mut wrong);
    if plan.pools.iter().any(|pool| pool.source == SpeakAs::Client)
        && let Err(error) = check_transparent()
    {
        wrong.0.extend(no_source(plan, &error));
    }
    let mut probed = HashMap::new();
    for (at, addr) in probed_at(plan).filter(|(_, addr)| !proxy.probed.contains(addr)) {
        let opened = probe_answers::open(addr, workers);
        let opened = opened.map_err(|error| {
            machine(format!("cannot receive UDP probes at {addr}: {error}")).about(Subject::Listener(at))
        });
        probed.extend(wrong.note(opened).map(|sockets| (addr, sockets)));
    }
    let now = plan.telemetry.access_log.as_ref();
    let log = match before.and_then(|plan| plan.telemetry.access_log.as_ref()) {
        before if before == now => Some(None),
        _ => wrong.note(now.map(open_log).transpose()).map(Some),
    };
    let balancers = balancers(proxy, next, &mut wrong);
    let resources = Resources::prepare(&table::makers(), plan, &proxy.now().resources);
    let resources = resources.map_err(|mut problems| wrong.0.append(&mut problems)).ok();
    let explain = Wanted::read(&plan.telemetry.explain, workers);
    let no_secret = |(path, error): (PathBuf, _)| machine(format!("telemetry.explain: {}: {error}", path.display()));
    let explain = wrong.note(explain.map_err(no_secret));
    let no_tls = |problem: Problem| machine(problem.to_string()).about(problem.of);
    let secured = proxy.secured.next(plan).map_err(|errors| wrong.0.extend(errors.into_iter().map(no_tls))).ok();
    let tls = |pool: &Pool| secured.as_ref().and_then(|secured| secured.pools.get(&pool.name)).cloned();
    let key = plan.runtime.sticky_key();
    let quic = plan.listeners.iter().any(|listener| listener.http3.is_some()).then(|| quic_keys(&key, proxy.instance));
    let rules = |(at, pool)| wrong.note(pool_rules((at, pool), tls(pool), &key));
    let pool_rules = plan.pools.iter().enumerate().filter_map(rules).collect();
    match (log, resources, explain, secured) {
        (Some(log), Some(resources), Some(explain), Some(secured)) if wrong.0.is_empty() => {
            Ok(Prepared { secured, sockets, probed, balancers, pool_rules, resources, log, explain, quic })
        }
        _ => Err(wrong.0),
    }
}

/// Keys of QUIC from the file with the secret of sticky sessions. Without it, clients of a process that was killed are not
/// told that their connections are gone, and wait.
fn quic_keys(key: &Path, instance: u64) -> Keys {
    match sticky_key::read_or_make(key) {
        Ok(secret) => Keys::of(&secret),
        Err(error) => {
            let file = key.display();
            tracing::warn!(%error, %file, "HTTP/3: no secret that outlives the process; after a crash clients wait");
            let random = RandomState::new().hash_one(instance);
            Keys::of(&[random.to_be_bytes(), instance.to_be_bytes()].concat())
        }
    }
}

/// Problems found so far, in the order of the checks.
#[derive(Default)]
struct Wrong(Vec<Diagnostic>);

impl Wrong {
    /// Unwraps `done`, or keeps its problem and returns `None`.
    fn note<T>(&mut self, done: Result<T, Diagnostic>) -> Option<T> {
        done.map_err(|diagnostic| self.0.push(diagnostic)).ok()
    }
}

/// Opens the sockets that the plan needs and the workers do not have, or takes them from `inherited`.
fn sockets(
    proxy: &Proxy,
    plan: &Plan,
    inherited: &mut Inherited,
    wrong: &mut Wrong,
) -> HashMap<(Protocol, SocketAddr), Vec<Vec<ListenFd>>> {
    let (mut sockets, workers) = (HashMap::new(), proxy.workers.len());
    let claim = Claim::of(plan.runtime.share_ports);
    for listener in &plan.listeners {
        for at in addresses(listener).filter(|at| !proxy.sockets.contains_key(at)) {
            let (given, addr) = (inherited.at(at), at.1);
            let own = proxy.sockets.keys().filter(|own| own.0 == at.0).map(|own| own.1);
            let claim = claim.beside(addr, own);
            let opened = match at.0 {
                Protocol::Tcp => listen::tcp(addr, workers, given, claim),
                Protocol::Udp => listen::udp(addr, workers, given, claim, true),
            };
            let fail = |error| Diagnostic::Listen(CannotListen { listener: listener.name.clone(), addr, error });
            if let (Protocol::Udp, Ok(opened)) = (at.0, &opened) {
                steer(opened, addr, listener.http3.is_some());
            }
            sockets.extend(wrong.note(opened.map_err(fail)).map(|opened| (at, opened)));
        }
    }
    sockets
}

/// Has the kernel distribute datagrams over workers. `opened`: sockets of an address, by worker.
fn steer(opened: &[Vec<ListenFd>], addr: SocketAddr, has_quic: bool) {
    let Some(Some(socket)) = opened.first().map(|of_worker| of_worker.first()) else { return };
    // The kernel counts the sockets in the order in which they were opened. With others among them, workers hand
    // datagrams over.
    if has_quic && opened.iter().all(|of_worker| of_worker.len() == 1) {
        h3::steer(socket, addr);
    } else {
        // A process that had HTTP/3 there may have passed the socket on.
        steer::by_addresses(socket);
    }
}

/// Creates balancers by pool and then by worker; `None` for a pool that keeps its balancers.
fn balancers(proxy: &Proxy, next: &Next<'_>, wrong: &mut Wrong) -> Vec<Option<Vec<Balancer>>> {
    let plan = next.plan();
    let old_pools: HashMap<&str, &Pool> =
        next.before.iter().flat_map(|plan| &plan.pools).map(|pool| (&*pool.name, &**pool)).collect();
    let pools = next.pools();
    let balancers = plan.pools.iter().enumerate().map(|(at, pool)| {
        // Balancers only know whether there are shadows, not which.
        let same = old_pools.get(&*pool.name).is_some_and(|old| {
            let remembers = |pool: &Pool| !pool.shadow.is_empty();
            old.balance == pool.balance && remembers(old) == remembers(pool) && old.explore == pool.explore
        });
        let recorded = plan.telemetry.journal.as_ref().is_some_and(|journal| *journal.pool == *pool.name);
        let journal = proxy.journal.as_ref().filter(|_| recorded);
        let made = (!same).then(|| pools.get(&pool.name).balancers(pool, journal)).transpose();
        let no_balancer = |error| {
            let problem = format!("pool \"{}\": {error}", pool.name);
            Diagnostic::Plan { problem, of: vec![Subject::Pool(at)] }
        };
        wrong.note(made.map_err(no_balancer)).flatten()
    });
    balancers.collect()
}

fn machine(problem: String) -> Diagnostic {
    Diagnostic::machine(problem)
}

fn open_log(log: &plan::AccessLog) -> Result<Writer, Diagnostic> {
    Writer::open(&line_sink(log), "access-log").map_err(|error| match &log.to {
        LineSink::File(path) => Diagnostic::Machine {
            problem: format!("access log: cannot open {}: {}", path.display(), reason(&error)),
            help: Some(log_help(path, &error)),
            of: Vec::new(),
        },
        _ => machine(format!("access log: {error}")),
    })
}

fn log_help(path: &Path, error: &io::Error) -> String {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    match (error.kind(), folder) {
        (ErrorKind::NotFound, Some(folder)) => {
            format!("no such folder: {}; create it, or set telemetry.access_log", folder.display())
        }
        (ErrorKind::PermissionDenied, _) => {
            "the user that runs evenkeel must be able to write there; set telemetry.access_log to another file, or to \"-\" for \
             standard output"
                .to_string()
        }
        _ => "set telemetry.access_log to another file, or to \"-\" for standard output".to_string(),
    }
}

/// Returns an error for each pool with `source = "client"`, as the process lacks the capability for it.
fn no_source(plan: &Plan, error: &io::Error) -> impl Iterator<Item = Diagnostic> {
    let needs = plan.pools.iter().enumerate().filter(|(_, pool)| pool.source == SpeakAs::Client);
    needs.map(move |(at, pool)| {
        machine(format!(
            "pool \"{}\": source = \"client\" requires CAP_NET_ADMIN or CAP_NET_RAW, which this process lacks: {error}",
            pool.name
        ))
        .about(Subject::Pool(at))
    })
}

fn pool_rules((at, plan): (usize, &Arc<Pool>), tls: Option<Towards>, key: &Path) -> Result<PoolRules, Diagnostic> {
    let sticky = plan
        .sticky
        .as_ref()
        .map(|sticky| Sticky::new(sticky, &plan.name, || sticky_key::read_or_make(key)))
        .transpose();
    let is_made = plan.sticky.as_ref().is_some_and(|sticky| sticky.secret == Secret::Made);
    let no_key = |error: io::Error| match is_made {
        true => Diagnostic::Machine {
            problem: format!(
                "pool \"{}\": the key of its sticky sessions, {}: {}",
                plan.name,
                key.display(),
                reason(&error)
            ),
            help: Some(
                "set `state` of [runtime] to a file in a folder that this user can write to, or secret_file of sticky"
                    .to_owned(),
            ),
            of: vec![Subject::Pool(at)],
        },
        false => {
            machine(format!("pool \"{}\": the key of its sticky sessions: {error}", plan.name)).about(Subject::Pool(at))
        }
    };
    let compiled = Compiled { tls, sticky: sticky.map_err(no_key)?, hosts: Hosts::of(plan) };
    Ok(PoolRules { plan: plan.clone(), compiled: Arc::new(compiled) })
}
