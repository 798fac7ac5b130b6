//! What runs while evenkeel serves? The proxy and, if configured, the admin listeners beside it; what is asked of them
//! meanwhile; and how all of it ends.

use crate::answers;
use crate::failure::Failure;
use crate::lost;
use crate::notify::Notify;
use crate::reload::{self, Reloads};
use crate::signals::{Asked, Signals};
use crate::source::Source;
use crate::upgrade::Upgrade;
use crate::watch::Watch;
use crate::watchdog::Watchdog;
use evenkeel_acme::{Issuer, Metrics as Orders, issuer};
use evenkeel_admin::{Admin, Changed, Pages, Process, Ready, socket};
use evenkeel_config::{Plan, plan};
use evenkeel_discovery::{Discovery, Numbers as Found};
use evenkeel_dns::metrics::{Metrics as Answers, Numbers};
use evenkeel_net::inherit::Inherited;
use evenkeel_pools::control::Control;
use evenkeel_proxy::metrics::Metrics;
use evenkeel_proxy::{Command, Generation, Server};
use evenkeel_tls::{Metrics as Certificates, Store};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::MissedTickBehavior;

/// How often the files of certificates are looked at: one that was renewed is used before its operator looks whether it is.
const LOOK_EVERY: Duration = Duration::from_secs(3);

/// A running proxy, and the tasks that watch it.
pub struct Serving {
    server: Server,
    dns: evenkeel_dns::Server,
    discovery: Discovery,
    issuer: Issuer,
    admin: Option<Admin>,
    shown: Arc<Shown>,
    reloads: Arc<Reloads>,
    /// The client of the admin's socket that asked for a reload, and waits for the answer.
    asked: mpsc::UnboundedReceiver<oneshot::Sender<Changed>>,
    /// The admin's sockets, for a successor.
    admin_sockets: Vec<OwnedFd>,
    notify: Notify,
}

/// What the admin listener shows.
#[derive(Default)]
struct Shown {
    /// Empty until the workers run.
    registry: OnceLock<Registry>,
    control: OnceLock<Control>,
    /// Whether every endpoint was checked once. One that a reload brings is no reason to be taken out of service.
    checked: AtomicBool,
    draining: AtomicBool,
}

impl Shown {
    fn ready(&self) -> Ready {
        let is_checking = |control: &Control| {
            let checking = !self.checked.load(Relaxed) && control.is_checking_first();
            self.checked.store(!checking, Relaxed);
            checking
        };
        let checking = self.control.get().is_some_and(is_checking);
        let reasons = [
            (self.control.get().is_none(), "starting"),
            (checking, "checking endpoints"),
            (self.draining.load(Relaxed), "draining"),
        ];
        Ready { reasons: reasons.into_iter().filter(|(holds, _)| *holds).map(|(_, text)| text.to_string()).collect() }
    }

    fn metrics(&self) -> String {
        self.registry.get().map(render).unwrap_or_default()
    }
}

/// Every metric there is: those of the proxy, of the DNS plane, of what is discovered, of its configuration, of the process,
/// and which build it is.
pub fn registry(
    running: watch::Receiver<Arc<Generation>>,
    control: Control,
    dns: watch::Receiver<Arc<Numbers>>,
    reloads: Arc<Reloads>,
    discovery: &Discovery,
    certificates: &Store,
    orders: Arc<issuer::Shown>,
) -> Registry {
    let mut registry = Registry::default();
    let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("evenkeel_build", "Which evenkeel this is", build);
    registry.register_collector(Box::new(Metrics::new(running, control)));
    registry.register_collector(Box::new(Answers::new(dns)));
    registry.register_collector(Box::new(Found::new(discovery)));
    registry.register_collector(Box::new(reload::Numbers(reloads)));
    registry.register_collector(Box::new(Certificates::new(certificates)));
    registry.register_collector(Box::new(Orders::new(orders)));
    registry.register_collector(Box::new(Process));
    registry
}

/// The metrics as text.
pub fn render(registry: &Registry) -> String {
    let mut text = String::new();
    // A String takes everything, and no collector of ours fails.
    let _ = prometheus_client::encoding::text::encode(&mut text, registry);
    text
}

impl Serving {
    /// Starts all of it; the admin first, so that it can say "starting", and nothing serves if its address is in use.
    /// `inherited`: sockets that came with the process.
    pub async fn start(mut plan: Plan, mut inherited: Inherited) -> Result<Serving, Failure> {
        let (shown, reloads) = (Arc::<Shown>::default(), Arc::new(Reloads::new()));
        let (asking, asked) = mpsc::unbounded_channel();
        let (for_metrics, for_ready) = (shown.clone(), shown.clone());
        let pages = Pages {
            metrics_path: plan.telemetry.metrics.path.clone(),
            metrics: Arc::new(move || for_metrics.metrics()),
            ready: Arc::new(move || for_ready.ready()),
            reload: Arc::new(move || Box::pin(ask(asking.clone()))),
        };
        let admin = plan.admin.as_ref().map(|plan| admin(plan, pages, &mut inherited)).transpose()?;
        let (admin, admin_sockets) = admin.unzip();
        let discovery = Discovery::default();
        discovery.keep(discovery.follow(&mut plan).await);
        let server = Server::start_with(plan, &mut inherited)?;
        let dns = answers::start(&server, &mut inherited)?;
        let issuer = Issuer::start(&server.plan(), server.certificates().challenges().clone());
        // Set once, here.
        let _ = shown.control.set(server.control().clone());
        let numbers = registry(
            server.running(),
            server.control().clone(),
            dns.numbers(),
            reloads.clone(),
            &discovery,
            server.certificates(),
            issuer.shown(),
        );
        let _ = shown.registry.set(numbers);
        for addr in inherited.left() {
            tracing::warn!(addr, "a socket came with the process, but the configuration listens nowhere there");
        }
        if inherited.serves() {
            tracing::info!("took over from the process before");
        }
        let notify = Notify::from_environment();
        notify.ready("serving");
        let admin_sockets = admin_sockets.unwrap_or_default();
        Ok(Serving { server, dns, discovery, issuer, admin, shown, reloads, asked, admin_sockets, notify })
    }

    /// The proxy.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// What is followed to find endpoints.
    pub fn discovery(&self) -> &Discovery {
        &self.discovery
    }

    /// Serves until a signal asks it to end, then drains: accepts no more, and gives what runs its time. A second signal
    /// ends that at once. `source`: where its configuration comes from, if that can be read again.
    pub async fn until_told(mut self, mut signals: Signals, mut source: Option<Source>) -> Result<(), Failure> {
        let mut watch = source.as_ref().and_then(|source| self.watch(None, source));
        let mut upgrade: Option<Upgrade> = None;
        let mut watchdog = Watchdog::new(&self.notify);
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let mut answer = None;
            let why = tokio::select! {
                asked = signals.next() => match asked {
                    Asked::Hangup if source.is_some() => "SIGHUP",
                    Asked::Reopen => {
                        self.reopen_log();
                        continue;
                    }
                    Asked::Upgrade => {
                        upgrade = upgrade.or_else(|| self.upgrade());
                        continue;
                    }
                    Asked::Hangup | Asked::End => break,
                },
                Some(asked) = self.asked.recv() => {
                    answer = Some(asked);
                    "the admin's socket"
                }
                () = touched(watch.as_mut()) => {
                    if !source.as_ref().is_some_and(Source::has_changed) {
                        continue;
                    }
                    "the file changed"
                }
                served = serves(upgrade.as_mut()) => match served {
                    Ok(pid) => {
                        self.notify.main_process(pid);
                        tracing::info!(pid, "the new process serves");
                        return self.retire(signals).await;
                    }
                    Err(why) => {
                        upgrade = None;
                        tracing::error!(why, "SIGUSR2: the new process did not take over; this one goes on");
                        continue;
                    }
                },
                () = self.discovery.changed() => {
                    answers::apply_endpoints(&mut self.server, &self.dns, self.discovery.lists());
                    continue;
                }
                _ = look.tick(), if !self.server.certificates().is_empty() => {
                    self.server.certificates().look();
                    continue;
                }
                () = watchdog.due() => {
                    watchdog.look(&self.notify, self.server.beats().chain(self.dns.beats()));
                    continue;
                }
                failure = lost::worker(&mut self.server, &mut self.dns) => return Err(failure),
            };
            // Without a file, the question is answered by dropping it.
            let Some(source) = &mut source else { continue };
            self.notify.reloading();
            let report = reload::reload(source, &mut self.server, &mut self.dns, &self.discovery).await;
            self.notify.ready(&report.status());
            report.log(why);
            self.issuer.follow(&self.server.plan());
            self.reloads.count(report.result);
            watch = self.watch(watch, source);
            // The client that asked may be gone.
            let _ = answer.map(|answer| answer.send(report.changed()));
        }
        self.shown.draining.store(true, Relaxed);
        self.notify.stopping("draining");
        let socket = self.server.plan().admin.as_ref().and_then(|admin| admin.socket.clone());
        self.end(signals, Command::Drain).await;
        if let Some(path) = socket {
            // It names nothing any more; it may be gone already.
            let _ = std::fs::remove_file(path);
        }
        Ok(())
    }

    /// Starts the process that is to take over.
    fn upgrade(&self) -> Option<Upgrade> {
        tracing::info!("SIGUSR2: starting the process that takes over");
        let mine = [self.server.sockets(), self.dns.sockets()].concat();
        let mine = mine.iter().map(|(name, socket)| (name.clone(), socket.as_fd()));
        let admin = self.admin_sockets.iter().map(|socket| ("admin".to_string(), socket.as_fd()));
        let upgrade = Upgrade::start(self.server.instance(), &mine.chain(admin).collect::<Vec<_>>());
        upgrade.inspect_err(|error| tracing::error!(%error, "SIGUSR2: cannot start it; this one goes on")).ok()
    }

    /// Leaves the sockets to another process, and ends with the last request.
    async fn retire(mut self, signals: Signals) -> Result<(), Failure> {
        // From now on the other process answers admin clients.
        self.admin = None;
        self.admin_sockets.clear();
        self.end(signals, Command::Retire).await;
        Ok(())
    }

    /// Accepts no more, and ends when nothing runs any more, when the time is over, or when told again.
    async fn end(self, mut signals: Signals, how: Command) {
        let (limit, open) = (self.server.plan().runtime.drain_timeout, self.open());
        tracing::info!(
            open,
            ?limit,
            "draining: accepting no more, finishing what runs; a second signal ends it at once"
        );
        self.server.command(how);
        self.dns.command(how);
        // An authority that asks from now on asks another process.
        self.issuer.stop();
        let told_again = async { while signals.next().await != Asked::End {} };
        tokio::select! {
            () = ended(|| self.server.has_ended() && self.dns.has_ended(), Duration::from_millis(10)) => tracing::info!("drained"),
            () = tokio::time::sleep(limit) => tracing::warn!(open = self.open(), "the time to drain is over: closing the rest"),
            () = told_again => tracing::warn!(open = self.open(), "told again: closing the rest"),
        }
        self.server.command(Command::Stop);
        self.dns.command(Command::Stop);
        self.server.join();
        self.dns.join();
        drop(self.admin);
    }

    /// Watches the files if the configuration that runs says so.
    fn watch(&self, watch: Option<Watch>, source: &Source) -> Option<Watch> {
        if !self.server.plan().runtime.watch {
            return None;
        }
        let start = || {
            let watch = Watch::start();
            watch.inspect_err(|error| tracing::error!(%error, "cannot watch the files of the configuration")).ok()
        };
        let watch = watch.or_else(start)?;
        watch.add(&source.folders());
        Some(watch)
    }

    fn reopen_log(&self) {
        match self.server.reopen_log() {
            Ok(()) => tracing::info!("SIGUSR1: the access log was opened again"),
            Err(error) => tracing::error!(%error, "SIGUSR1: the access log goes on where it was"),
        }
    }

    /// Client connections.
    fn open(&self) -> u64 {
        let now = self.server.now();
        let listeners = now.workers.iter().flat_map(|worker| &worker.listeners);
        listeners.fold(0, |sum, listener| sum.wrapping_add(listener.active.get()))
    }
}

/// Waits until all workers have ended. By looking, as threads can be joined but not awaited.
async fn ended(all: impl Fn() -> bool, look_every: Duration) {
    while !all() {
        tokio::time::sleep(look_every).await;
    }
}

/// Listens where the plan says; the sockets too, for a successor.
fn admin(plan: &plan::Admin, pages: Pages, inherited: &mut Inherited) -> Result<(Admin, Vec<OwnedFd>), Failure> {
    let tcp = plan.bind.map(|addr| match inherited.tcp(addr).pop() {
        Some(socket) => Ok(TcpListener::from(socket)),
        None => TcpListener::bind(addr).map_err(|e| Failure::listen("admin", addr, &e)),
    });
    let unix = plan.socket.as_ref().map(|path| match inherited.unix(path) {
        Some(socket) => Ok(UnixListener::from(socket)),
        None => socket::listen(path).map_err(|e| Failure::socket(path, &e)),
    });
    let (tcp, unix) = (tcp.transpose()?, unix.transpose()?);
    let cannot = |e: std::io::Error| Failure::running(format!("admin: cannot start: {e}"));
    let mut sockets = Vec::new();
    if let Some(tcp) = &tcp {
        sockets.push(tcp.try_clone().map_err(cannot)?.into());
    }
    if let Some(unix) = &unix {
        sockets.push(unix.try_clone().map_err(cannot)?.into());
    }
    Ok((Admin::start(tcp, unix, pages).map_err(cannot)?, sockets))
}

/// Asks the main loop for a reload.
async fn ask(asking: mpsc::UnboundedSender<oneshot::Sender<Changed>>) -> Changed {
    let (answer, answered) = oneshot::channel();
    let _ = asking.send(answer);
    answered.await.unwrap_or_else(|_| {
        let text = "there is no file to read again, or the process ends\n";
        Changed { done: false, json: format!("{}\n", serde_json::json!({ "result": "failed", "text": text })) }
    })
}

/// Waits until a watched folder was touched.
async fn touched(watch: Option<&mut Watch>) {
    match watch {
        Some(watch) => watch.touched().await,
        None => std::future::pending().await,
    }
}

/// Waits for the process that is to take over, if there is one.
async fn serves(upgrade: Option<&mut Upgrade>) -> Result<u32, String> {
    match upgrade {
        Some(upgrade) => upgrade.serves().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_balance::{EndpointId, Instant};

    #[test]
    fn is_ready_once_every_endpoint_was_checked_and_stays_so() {
        let text = "[listener.web]\nbind = ['127.0.0.1:1']\n[pool.web]\nendpoints = ['127.0.0.1:2', '127.0.0.1:3']\n\
                    health = { tcp = {} }";
        let plan = evenkeel_config::parse_str("test.toml", text, &|_| None).plan.expect("a good plan");
        let shown = Shown::default();
        assert_eq!(shown.ready().reasons, ["starting"]);
        let control = Control::unattended(&plan, 1);
        let _ = shown.control.set(control.clone());
        let check = |endpoint: &str, passed| {
            let mut pools = control.pools();
            let pool = pools.get_mut("web").expect("the pool of the plan");
            pool.pool.on_check(EndpointId::of(endpoint), passed, Instant(0));
        };
        assert_eq!(shown.ready().reasons, ["checking endpoints"]);
        check("127.0.0.1:2", true);
        assert_eq!(shown.ready().reasons, ["checking endpoints"]);
        check("127.0.0.1:3", false);
        assert_eq!(shown.ready(), Ready::default());
        // As a reload does that brings new endpoints.
        *control.pools() = std::mem::take(&mut *Control::unattended(&plan, 1).pools());
        assert_eq!(shown.ready(), Ready::default());
        shown.draining.store(true, Relaxed);
        assert_eq!(shown.ready().reasons, ["draining"]);
    }
}
