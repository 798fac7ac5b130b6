//! What runs while evenkeel serves? The proxy and, if configured, the admin listeners beside it; what is asked of them
//! meanwhile; and how all of it ends.

use crate::answers;
use crate::failure::Failure;
use crate::lost;
use crate::notify::Notify;
use crate::offered::Offered;
use crate::registry::registry;
use crate::reload::{self, Reloads};
use crate::signals::{Asked, Signals};
use crate::source::Source;
use crate::upgrade::Upgrade;
use crate::watch::Watch;
use crate::watchdog::Watchdog;
use crate::window::Window;
use crate::window::history;
use crate::window::shown::{self, Shown};
use crate::window::state;
use evenkeel_acme::Issuer;
use evenkeel_admin::api::access::{Rules, Token, Tokens};
use evenkeel_admin::{Admin, Changed, Pages, api, socket};
use evenkeel_config::{Plan, plan};
use evenkeel_discovery::Discovery;
use evenkeel_net::inherit::Inherited;
use evenkeel_pools::Orders;
use evenkeel_pools::events::{Kind, unix_ms};
use evenkeel_proxy::{Command, Server};
use serde_json::json;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};
use tokio::sync::{mpsc, oneshot};
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
    /// One that asked for the logs to be opened again.
    reopen: mpsc::UnboundedReceiver<oneshot::Sender<Changed>>,
    /// The same for an upgrade.
    upgrades: mpsc::UnboundedReceiver<oneshot::Sender<Result<String, String>>>,
    /// The admin's sockets, for a successor.
    admin_sockets: Vec<OwnedFd>,
    notify: Notify,
}

impl Serving {
    /// Starts all of it; the admin first, so that it can say "starting", and nothing serves if its address is in use.
    /// `inherited`: sockets that came with the process.
    /// `file`: that of the plan, if it is from one. `offered`: what it offers if not.
    pub async fn start(
        mut plan: Plan,
        mut inherited: Inherited,
        file: Option<&Path>,
        offered: Option<Offered>,
    ) -> Result<Serving, Failure> {
        let (shown, reloads) = (Arc::<Shown>::default(), Arc::new(Reloads::new()));
        let (asking, asked) = mpsc::unbounded_channel();
        let (reopening, reopen) = mpsc::unbounded_channel();
        let (asks_upgrade, upgrades) = mpsc::unbounded_channel();
        let orders = orders(plan.runtime.state.as_deref())?;
        let window = Arc::new(Window::new(shown.clone(), file.map(Path::to_path_buf), asks_upgrade));
        let (for_metrics, for_ready) = (shown.clone(), shown.clone());
        let pages = Pages {
            metrics_path: plan.telemetry.metrics.path.clone(),
            metrics: Arc::new(move || for_metrics.metrics()),
            ready: Arc::new(move || for_ready.ready()),
            reload: Arc::new(move || Box::pin(ask(asking.clone()))),
            reopen: Arc::new(move || Box::pin(ask(reopening.clone()))),
        };
        let admin = plan.admin.as_ref().map(|plan| admin(plan, pages, window, &mut inherited, offered)).transpose()?;
        let (admin, admin_sockets) = admin.unzip();
        let discovery = Discovery::default();
        discovery.keep(discovery.follow(&mut plan).await);
        let server = Server::start_with(plan, &mut inherited, orders)?;
        let dns = answers::start(&server, &mut inherited)?;
        let issuer = Issuer::start(&server.plan(), server.certificates().challenges().clone());
        // Set once, here.
        let _ = shown.looker.set(Arc::new(server.looker()));
        let _ = shown.control.set(server.control().clone());
        let _ = shown.running.set(server.running());
        let _ = shown.certificates.set(server.certificates().shown());
        let _ = shown.issued.set(issuer.shown());
        let _ = shown.answers.set(dns.numbers());
        let version = env!("CARGO_PKG_VERSION");
        let text = format!("evenkeel {version} serves, process {}", std::process::id());
        server.control().events().tell(Kind::Process, (None, None), text, None);
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
        Ok(Serving {
            server,
            dns,
            discovery,
            issuer,
            admin,
            shown,
            reloads,
            asked,
            reopen,
            upgrades,
            admin_sockets,
            notify,
        })
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
        let mut answer_upgrade: Option<oneshot::Sender<Result<String, String>>> = None;
        let mut turn = tokio::time::interval(shown::WINDOW);
        turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut count = tokio::time::interval(history::EVERY);
        count.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let mut answer = None;
            let why = tokio::select! {
                asked = signals.next() => match asked {
                    Asked::Hangup if source.is_some() => "SIGHUP",
                    Asked::Reopen => {
                        self.reopen_log("SIGUSR1");
                        continue;
                    }
                    Asked::Upgrade => {
                        upgrade = upgrade.or_else(|| self.upgrade("SIGUSR2").ok());
                        continue;
                    }
                    Asked::Hangup | Asked::End => break,
                },
                Some(asked) = self.upgrades.recv() => {
                    if upgrade.is_some() {
                        let _ = asked.send(Err("an upgrade is under way".to_owned()));
                        continue;
                    }
                    match self.upgrade("the API") {
                        Ok(started) => (upgrade, answer_upgrade) = (Some(started), Some(asked)),
                        Err(why) => _ = asked.send(Err(why)),
                    }
                    continue;
                }
                _ = turn.tick() => {
                    self.shown.turn(&self.server.now());
                    continue;
                }
                _ = count.tick() => {
                    self.shown.history.count(&self.server.now(), unix_ms(SystemTime::now()));
                    continue;
                }
                Some(asked) = self.asked.recv() => {
                    answer = Some(asked);
                    "the admin's socket"
                }
                Some(asked) = self.reopen.recv() => {
                    // The client that asked may be gone.
                    let _ = asked.send(self.reopen_log("the admin's socket"));
                    continue;
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
                        if let Some(answer) = answer_upgrade.take() {
                            let _ = answer.send(Ok(format!("process {pid} has taken over")));
                            // So that the answer is written before the admin ends.
                            tokio::time::sleep(Duration::from_millis(50)).await;
                        }
                        return self.retire(signals).await;
                    }
                    Err(why) => {
                        upgrade = None;
                        tracing::error!(why, "the new process did not take over; this one goes on");
                        if let Some(answer) = answer_upgrade.take() {
                            let _ = answer.send(Err(format!("the new process did not take over: {why}")));
                        }
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
            let text = report.event();
            self.server.control().events().tell(Kind::Config, (None, None), text, Some(why));
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

    /// Starts the process that is to take over, or says why not. `by`: what asks for it.
    fn upgrade(&self, by: &str) -> Result<Upgrade, String> {
        tracing::info!("{by}: starting the process that takes over");
        let mine = [self.server.sockets(), self.dns.sockets()].concat();
        let mine = mine.iter().map(|(name, socket)| (name.clone(), socket.as_fd()));
        let admin = self.admin_sockets.iter().map(|socket| ("admin".to_string(), socket.as_fd()));
        let orders = self.server.control().orders().all();
        let upgrade = Upgrade::start(self.server.instance(), &mine.chain(admin).collect::<Vec<_>>(), &orders);
        upgrade.map_err(|error| {
            tracing::error!(%error, "{by}: cannot start it; this one goes on");
            format!("it cannot be started: {error}")
        })
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

    /// Opens the logs again. `why`: who asked for it.
    fn reopen_log(&self, why: &str) -> Changed {
        let opened = self.server.reopen_log();
        let text = match &opened {
            Ok(()) => {
                tracing::info!("{why}: the access log was opened again");
                "the logs were opened again\n".to_string()
            }
            Err(error) => {
                tracing::error!(%error, "{why}: the access log goes on where it was");
                format!("{error}; the log goes on where it was\n")
            }
        };
        let result = if opened.is_ok() { REOPENED } else { "failed" };
        Changed { done: opened.is_ok(), json: format!("{}\n", json!({ "result": result, "text": text })) }
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
fn admin(
    plan: &plan::Admin,
    pages: Pages,
    process: api::Process,
    inherited: &mut Inherited,
    offered: Option<Offered>,
) -> Result<(Admin, Vec<OwnedFd>), Failure> {
    let (listener, token) = offered.map(|offered| (offered.listener, offered.token)).unzip();
    let rules = rules(plan, token)?;
    let listener = || listener.flatten();
    let tcp =
        plan.http.as_ref().map(|http| http.bind).map(|addr| match listener().or_else(|| listening(inherited, addr)) {
            Some(socket) => Ok(socket),
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
    Ok((Admin::start(tcp, unix, pages, process, rules).map_err(cannot)?, sockets))
}

/// One that came with the process.
fn listening(inherited: &mut Inherited, addr: SocketAddr) -> Option<TcpListener> {
    inherited.tcp(addr).pop().map(TcpListener::from)
}

/// What clients over TCP need. `offered`: the token for changes, unless the plan names one.
fn rules(plan: &plan::Admin, offered: Option<Token>) -> Result<Rules, Failure> {
    let token = |file: &Option<PathBuf>| -> Result<Option<Token>, Failure> {
        let Some(file) = file else { return Ok(None) };
        let cannot =
            |why: String| Failure::running(format!("admin: cannot use the token of {}: {why}", file.display()));
        let text = std::fs::read(file).map_err(|error| cannot(error.to_string()))?;
        let token = Token::new(&text).ok_or_else(|| cannot(format!("it has less than {} bytes", Token::MIN)))?;
        Ok(Some(token))
    };
    let Some(http) = &plan.http else { return Ok(Rules::Local) };
    let tokens = Tokens { read: token(&http.read_token)?, write: token(&http.write_token)?.or(offered) };
    Ok(Rules::Remote { tokens, hosts: http.hosts.clone().into() })
}

/// What operators want, as it was kept.
fn orders(file: Option<&Path>) -> Result<Orders, Failure> {
    let given = state::read(file).map_err(|error| {
        let file = file.unwrap_or(Path::new("the environment")).display();
        Failure::running(format!("cannot read what operators want from {file}: {error}; mend or remove it"))
    })?;
    let orders = Orders::default();
    orders.set(given);
    Ok(orders)
}

/// The result of opening the logs again, where that worked.
pub const REOPENED: &str = "reopened";

/// Asks the main loop for a change.
async fn ask(asking: mpsc::UnboundedSender<oneshot::Sender<Changed>>) -> Changed {
    let (answer, answered) = oneshot::channel();
    let _ = asking.send(answer);
    answered.await.unwrap_or_else(|_| {
        let text = "there is no file to read again, or the process ends\n";
        Changed { done: false, json: format!("{}\n", json!({ "result": "failed", "text": text })) }
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
