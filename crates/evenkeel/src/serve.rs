//! Everything that runs while evenkeel serves: the planes, the admin listeners if configured, the requests of
//! operators, and the orderly end.

use crate::asked::{Answer, Ask};
use crate::asked_at::AskedAt;
use crate::configured::reload::{self, Reloads};
use crate::configured::{Configured, possible};
use crate::failure::Failure;
use crate::in_use::InUse;
use crate::notify::Notify;
use crate::offered::Offered;
use crate::planes::{self, Connected};
use crate::registry::{Rooms, registry};
use crate::signals::{Asked, Signals};
use crate::traces::Exporter;
use crate::upgrade::Upgrade;
use crate::watchdog::Watchdog;
use crate::window::Window;
use crate::window::handed;
use crate::window::past;
use crate::window::shown::{Shown, Started};
use crate::window::state::{self, Kept, Left};
use evenkeel_acme::Issuer;
use evenkeel_admin::api::problem::Problem;
use evenkeel_admin::{Admin, Numbers, Pages, Scrapes};
use evenkeel_config::Plan;
use evenkeel_discovery::Discovery;
use evenkeel_discovery::providers::merge::Unwanted;
use evenkeel_discovery::providers::wanted::Offer;
use evenkeel_net::inherit::{self, Inherited};
use evenkeel_net::listen::Claim;
use evenkeel_net::memory;
use evenkeel_net::workers::Command;
use evenkeel_proxy::Giving;
use evenkeel_runtime::{Orders, Runtime};
use evenkeel_tokens::{Metrics as Keys, Pace};
use evenkeel_view::config::{Outcome, Wish};
use evenkeel_view::events::Kind;
use evenkeel_view::timeline;
use evenkeel_view::words::unix_ms;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior};

/// Time in which workers end when they are to stop.
const STOP_MAX: Duration = Duration::from_millis(500);

/// All planes, and the tasks that watch them.
pub struct Serving {
    runtime: Runtime,
    discovery: Discovery,
    issuer: Issuer,
    exporter: Exporter,
    admin: Option<Admin>,
    shown: Arc<Shown>,
    reloads: Arc<Reloads>,
    configured: Configured,
    /// Requests of the admin's clients, which wait for the answer.
    asked: mpsc::UnboundedReceiver<Ask>,
    /// Path of the admin's Unix socket.
    socket: Option<PathBuf>,
    /// The admin's sockets, for a successor.
    admin_sockets: Vec<OwnedFd>,
    /// Statistics of the workers, with the cache that they share.
    numbers: watch::Receiver<Arc<evenkeel_proxy::Numbers>>,
    /// Process that is to take over, until it serves.
    upgrade: Option<Upgrade>,
    /// Client of the admin that waits for it.
    answer_upgrade: Option<Answer<String>>,
    /// Handover of stored responses to it.
    giving: Option<Giving>,
    in_use: InUse,
    notify: Notify,
}

impl Serving {
    /// Starts everything. The admin starts first, so that it can report "starting" and nothing serves if its address is
    /// in use. `inherited`: sockets that came with the process. `configured`: the origin of the plan. `offered`: the
    /// admin address to offer if the plan comes from no file.
    pub async fn start(
        plan: Plan,
        mut inherited: Inherited,
        mut configured: Configured,
        offered: Option<Offered>,
    ) -> Result<Serving, Failure> {
        let (shown, reloads) = (Arc::<Shown>::default(), Arc::new(Reloads::new()));
        let (asks, asked) = mpsc::unbounded_channel();
        let (orders, lost) = orders(plan.runtime.state.as_deref())?;
        let window =
            Arc::new(Window::new(shown.clone(), (configured.revisions.clone(), configured.providers.parts()), asks));
        let pages = pages(plan.telemetry.metrics.path.clone(), &shown);
        let (of_admin, claim) = (Numbers::default(), Claim::of(plan.runtime.share_ports));
        let mut past = inherited.take_left().and_then(past::read);
        let mut asked_at = AskedAt::new(plan.admin.clone().unwrap_or_default(), claim, &mut inherited, offered)?;
        let admin = asked_at.start(pages, window, &of_admin)?;
        let merged = past.as_ref().and_then(|past| past.merged.as_deref());
        // The plan of the previous process is served at once, whatever the state of its providers.
        shown.awaits_provider.store(plan.providers.any() && merged.is_none(), Relaxed);
        let plan = configured.resume(plan, merged);
        let discovery = Discovery::after(past.as_mut().map(|past| std::mem::take(&mut past.found)).unwrap_or_default());
        configured.providers.share(&discovery);
        let following = discovery.follow(&plan).await;
        let mut runtime = Runtime::found(plan, following.lists(), inherited.instance(), orders)?;
        discovery.keep(following);
        let (all, Connected { looker, numbers, certificates, tokens, recorded }) = planes::start(&runtime)?;
        runtime.start(all, &mut inherited)?;
        let events = runtime.control().events();
        if let Some(stream) = inherited.take_cache() {
            handed::take(&stream, &runtime.plan(), numbers.clone(), runtime.control());
        }
        if let Some(past) = past {
            shown.timeline.restore(past.timeline);
            events.restore(past.events);
        }
        // Ends with the proxy, which holds the other end.
        tokio::spawn(evenkeel_tokens::follow(tokens.clone(), Pace::default()));
        let issuer = Issuer::start(&runtime.plan(), certificates.challenges().clone());
        let exporter = Exporter::start(recorded, runtime.plan().telemetry.traces.as_ref());
        let version = env!("CARGO_PKG_VERSION");
        let text = format!("evenkeel {version} serves, process {}", std::process::id());
        events.tell(Kind::Process, (None, None), text, None);
        if let Some(lost) = lost {
            events.tell(Kind::Process, (None, None), lost, None);
        }
        let registry = registry(Rooms {
            planes: runtime.collectors().collect(),
            reloads: reloads.clone(),
            discovery: &discovery,
            providers: configured.providers.parts(),
            certificates: &certificates,
            orders: issuer.shown(),
            spans: exporter.metrics(),
            tokens: Keys::new(tokens),
            admin: of_admin,
        });
        shown.start(Started {
            registry,
            control: runtime.control().clone(),
            running: runtime.running(),
            workers: runtime.workers(),
            ledger: runtime.ledger(),
            planes: runtime.views().collect(),
            looker,
            certificates: certificates.shown(),
            issued: issuer.shown(),
        });
        for addr in inherited.left() {
            tracing::warn!(addr, "a socket was passed to the process, but no listener has its address");
        }
        if inherited.serves() {
            tracing::info!("took over from the previous process");
        }
        let notify = Notify::from_environment();
        notify.ready("serving");
        Ok(Serving {
            runtime,
            discovery,
            issuer,
            exporter,
            admin,
            shown,
            reloads,
            configured,
            asked,
            socket: asked_at.path,
            admin_sockets: asked_at.sockets,
            numbers,
            upgrade: None,
            answer_upgrade: None,
            giving: None,
            in_use: InUse::default(),
            notify,
        })
    }

    /// The planes with their shared state.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Path of the Unix socket on which commands are taken.
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    /// Sources of endpoints that are followed.
    pub fn discovery(&self) -> &Discovery {
        &self.discovery
    }

    /// Serves until a signal asks it to end, then drains: accepts no more, and gives running requests their time. A second
    /// signal ends them immediately.
    pub async fn until_told(mut self, signals: Signals) -> Result<(), Failure> {
        signals.interrupts(self.runtime.interrupt());
        self.follow_file();
        memory::give_back();
        let mut watchdog = Watchdog::new(&self.notify);
        let mut second = tokio::time::interval(timeline::EVERY);
        second.set_missed_tick_behavior(MissedTickBehavior::Skip);
        // Time at which to accept no more, once that is ordered.
        let mut leave_at: Option<Instant> = None;
        let is_second = loop {
            tokio::select! {
                asked = signals.next() => if self.told(asked, &mut leave_at).await.is_break() {
                    break leave_at.is_some();
                },
                () = until(leave_at) => break false,
                Some(asked) = self.asked.recv() => self.answer(asked).await,
                _ = second.tick() => self.tick().await,
                offer = self.configured.providers.offered() => {
                    // The result is in the log.
                    let _ = self.take(offer).await;
                }
                () = self.configured.providers.contributed() => self.merge_again().await,
                served = serves(self.upgrade.as_mut()) => if self.upgraded(served).await.is_break() {
                    return self.retire(signals).await;
                },
                found = self.discovery.changed() => {
                    // Interrupted, the process ends, and nothing picks from them.
                    let _ = self.runtime.apply_endpoints(found);
                }
                () = watchdog.due() => watchdog.look(&self.notify, self.runtime.beats()),
                lost = self.runtime.worker_lost() => return Err(Failure::running(lost)),
            }
        };
        self.shown.draining.store(true, Relaxed);
        self.notify.stopping("draining");
        let socket = self.socket.clone();
        let ended = self.end(signals, Command::Drain, is_second).await;
        if let Some(path) = socket {
            // It names nothing any more; it may be gone already.
            let _ = std::fs::remove_file(path);
        }
        ended
    }

    /// Carries out the order of a signal. Breaks if the process must accept no more now; sets `leave_at` if it must later.
    async fn told(&mut self, asked: Asked, leave_at: &mut Option<Instant>) -> ControlFlow<()> {
        match asked {
            Asked::Hangup if self.configured.providers.file().is_some() => {
                // The result is in the log.
                let _ = self.configure(Wish::Reload, None, "SIGHUP").await;
            }
            Asked::Reopen => _ = self.reopen_log("SIGUSR1"),
            Asked::Upgrade if self.upgrade.is_some() => {}
            Asked::Upgrade => _ = self.upgrade("SIGUSR2"),
            Asked::Hangup | Asked::End => {
                let delay = self.runtime.plan().runtime.shutdown_delay;
                if delay.is_zero() || leave_at.is_some() {
                    return ControlFlow::Break(());
                }
                *leave_at = Some(Instant::now() + delay);
                self.shown.draining.store(true, Relaxed);
                self.notify.stopping("no longer ready");
                tracing::info!(
                    ?delay,
                    "no longer ready, serving until the delay is over; a second signal ends the process"
                );
            }
        }
        ControlFlow::Continue(())
    }

    /// Carries out an order of a client of the admin.
    async fn answer(&mut self, asked: Ask) {
        match asked {
            Ask::Configure { wish, unless, by, answer } => {
                let _ = answer.send(self.configure(wish, unless, &by).await);
            }
            Ask::Reopen { by, answer } => _ = answer.send(self.reopen_log(&by)),
            Ask::Upgrade { answer, .. } if self.upgrade.is_some() => {
                let _ = answer.send(Err(Problem::refused("an upgrade is already in progress")));
            }
            Ask::Upgrade { by, answer } => match self.upgrade(&by) {
                Ok(()) => self.answer_upgrade = Some(answer),
                Err(why) => _ = answer.send(Err(Problem::refused(why))),
            },
        }
    }

    /// Does the work of a second.
    async fn tick(&mut self) {
        if self.admin.is_some() {
            self.shown.count(unix_ms(SystemTime::now()));
        }
        self.runtime.tick();
        if self.in_use.is_over() {
            self.merge_again().await;
        }
    }

    /// Notes how the start of the process that is to take over ended: its process id, or why it failed. Breaks if this process is to
    /// leave.
    async fn upgraded(&mut self, served: Result<u32, String>) -> ControlFlow<()> {
        self.upgrade = None;
        let answer = self.answer_upgrade.take();
        let (flow, result) = match served {
            Ok(pid) => {
                self.notify.main_process(pid);
                tracing::info!(pid, "the new process serves");
                match &self.giving {
                    Some(giving) => giving.serves(),
                    // It would not learn of purges there.
                    None => self.numbers.borrow().retire_cache(),
                }
                // From now on the other process answers admin clients. Only the client that waits for this outcome
                // stays.
                if let Some(admin) = &mut self.admin {
                    admin.leave().await;
                }
                (ControlFlow::Break(()), Ok(format!("process {pid} has taken over")))
            }
            Err(why) => {
                self.giving = None;
                tracing::error!(why, "the new process did not take over; this process continues");
                let why = format!("the new process did not take over: {why}");
                (ControlFlow::Continue(()), Err(Problem::refused(why)))
            }
        };
        if let Some(answer) = answer {
            let _ = answer.send(result);
        }
        flow
    }

    /// Executes a change of the configuration. Refused if another generation than `unless` runs. `by`: the author of
    /// the change.
    async fn configure(&mut self, wish: Wish, unless: Option<u64>, by: &str) -> Result<Outcome, Problem> {
        let running = self.runtime.now().number;
        if unless.is_some_and(|unless| unless != running) {
            return Err(Problem::stale(format!("the running configuration is generation {running} now")));
        }
        let offer = match wish {
            Wish::Check(text) => return self.configured.check(&text, running),
            Wish::Save => {
                let saved = self.configured.save(running);
                self.follow_file();
                return saved;
            }
            Wish::Reload => self.configured.reload(by)?,
            Wish::Apply(text) => self.configured.providers.typed(&text, by),
            Wish::Rollback(to) => self.configured.rollback(to, running, by)?,
        };
        self.take(offer).await
    }

    /// Has a plan that a provider offers run, if it is possible here.
    async fn take(&mut self, offer: Offer) -> Result<Outcome, Problem> {
        let (wanted, by) = (offer.wanted(), offer.provenance.by);
        self.notify.reloading();
        let (providers, in_use) = (&mut self.configured.providers, &mut self.in_use);
        let (report, added) =
            possible::change(offer.outcome, providers, &mut self.runtime, &self.discovery, in_use).await;
        self.notify.ready(&report.status());
        report.log(&by);
        self.runtime.control().events().tell(Kind::Config, (None, None), report.event(), Some(&by));
        self.reloads.count(report.result);
        if report.result == reload::Result::Applied {
            self.issuer.follow(&self.runtime.plan());
            self.exporter.follow(self.runtime.plan().telemetry.traces.as_ref());
            if let (Some(wanted), Some(added)) = (wanted, added) {
                let diagnostics = report.diagnostics.clone();
                self.configured.applied((wanted, added), report.generation, &report.changes, diagnostics);
            }
        }
        self.follow_file();
        memory::give_back();
        report.answer()
    }

    /// Merges the running plan again with the current parts of other providers, and applies the result.
    async fn merge_again(&mut self) {
        let latest = self.configured.revisions.latest();
        let running = self.runtime.plan();
        let (merged, numbers) = self.configured.providers.merge(&latest.wanted.plan, &Unwanted::new(), &running);
        if merged.plan == *latest.merged {
            self.configured.providers.settle(&merged, &numbers);
            self.note_provided();
        } else {
            // The result is in the log.
            let _ = self.take(latest.again("a provider")).await;
        }
    }

    /// Starts the process that is to take over. `Err` with the reason if that fails. `by`: the origin of the order.
    fn upgrade(&mut self, by: &str) -> Result<(), String> {
        tracing::info!("{by}: starting the new process");
        let mine = self.runtime.sockets();
        let mine = mine.iter().map(|(name, socket)| (name.clone(), socket.as_fd()));
        let admin = self.admin_sockets.iter().map(|socket| ("admin".to_string(), socket.as_fd()));
        let orders = self.runtime.control().orders().all();
        let revision = Some(self.configured.revisions.latest()).filter(|revision| revision.differs);
        let revision = revision.map(|revision| revision.handed());
        let left = Left { orders: &orders, revision: revision.as_ref() };
        let merged = self.configured.revisions.latest().merged;
        let merged = merged.providers.any().then(|| merged.to_toml_with_secrets());
        let past = past::leave(&self.shown.timeline, self.runtime.control().events(), merged, self.discovery.found());
        let past = past.iter().map(|file| (inherit::LEFT.to_string(), file.as_fd()));
        let given = handed::give(&self.runtime.plan(), self.numbers.clone());
        let (giving, theirs) = given.unzip();
        let cache = theirs.iter().map(|socket| (inherit::CACHE.to_string(), socket.as_fd()));
        let handed: Vec<_> = mine.chain(admin).chain(past).chain(cache).collect();
        let upgrade = Upgrade::start(self.runtime.instance(), &handed, &left);
        match upgrade {
            Ok(upgrade) => {
                (self.upgrade, self.giving) = (Some(upgrade), giving);
                Ok(())
            }
            Err(error) => {
                tracing::error!(%error, "{by}: cannot start the new process; this process continues");
                Err(format!("the new process cannot be started: {error}"))
            }
        }
    }

    /// Leaves the sockets to another process, and ends with the last request.
    async fn retire(mut self, signals: Signals) -> Result<(), Failure> {
        self.admin_sockets.clear();
        self.end(signals, Command::Retire, false).await
    }

    /// Accepts no more, and ends when nothing runs any more, when the time is over, or by a second signal; `is_second` if that
    /// has come. Fails if a worker does not end: the process then ends without it.
    async fn end(mut self, signals: Signals, how: Command, is_second: bool) -> Result<(), Failure> {
        let (limit, open) = (self.runtime.plan().runtime.drain_timeout, self.runtime.open());
        tracing::info!(
            open,
            ?limit,
            "draining: accepting no new connections, finishing requests in flight; a second signal ends the process at once"
        );
        self.runtime.command(how);
        // An authority that asks from now on asks another process.
        self.issuer.stop();
        let told_again = async { while !is_second && signals.next().await != Asked::End {} };
        let mut told_again = std::pin::pin!(told_again);
        let is_hurried = tokio::select! {
            () = ended(|| self.runtime.has_ended(), Duration::from_millis(10)) => {
                tracing::info!("drained");
                false
            }
            () = tokio::time::sleep(limit) => {
                tracing::warn!(open = self.runtime.open(), "drain time is over: closing the remaining connections");
                false
            }
            () = &mut told_again => {
                tracing::warn!(open = self.runtime.open(), "second signal: closing the remaining connections");
                true
            }
        };
        self.runtime.command(Command::Stop);
        let all_ended = ended(|| self.runtime.has_ended(), Duration::from_millis(10));
        if tokio::time::timeout(STOP_MAX, all_ended).await.is_err() {
            let stuck: Vec<&str> = self.runtime.still_running().collect();
            return Err(Failure::running(format!("exiting, though {} did not stop", stuck.join(", "))));
        }
        self.runtime.join();
        if let Some(giving) = self.giving.take().filter(|_| !is_hurried) {
            // The handover has a time limit itself.
            tokio::select! {
                () = ended(|| giving.is_given(), Duration::from_millis(10)) => {}
                () = &mut told_again => {}
            }
        }
        if !is_hurried {
            let numbers = self.numbers.borrow().clone();
            tokio::select! {
                _ = tokio::task::spawn_blocking(move || numbers.save_cache()) => {}
                () = told_again => {}
            }
        }
        self.exporter.end();
        drop(self.admin);
        Ok(())
    }

    /// Watches the file for changes if the running plan has `watch`, and follows its other providers.
    fn follow_file(&mut self) {
        let plan = self.runtime.plan();
        self.configured.providers.follow(plan.runtime.watch);
        self.configured.providers.follow_remote(&plan);
        self.note_provided();
    }

    /// Notes whether all providers have put something, which makes the process ready.
    fn note_provided(&self) {
        if self.configured.providers.is_complete(&self.runtime.plan()) {
            self.shown.awaits_provider.store(false, Relaxed);
        }
    }

    /// Opens the logs again. `why`: who asked for it.
    fn reopen_log(&self, why: &str) -> Result<String, Problem> {
        match self.runtime.reopen() {
            Ok(()) => {
                tracing::info!("{why}: logs reopened");
                Ok("logs reopened".to_owned())
            }
            Err(error) => {
                tracing::error!(error, "{why}: cannot reopen a log; the previous file stays in use");
                Err(Problem::refused(format!("{error}; the previous file stays in use")))
            }
        }
    }
}

/// Pages of the admin for every client.
fn pages(metrics_path: String, shown: &Arc<Shown>) -> Pages {
    let (metrics, native, ready) = (shown.clone(), shown.clone(), shown.clone());
    Pages {
        metrics_path,
        metrics: Arc::new(move |to: &mut dyn std::fmt::Write| metrics.metrics(to)),
        native: Arc::new(move || native.native()),
        scrapes: Scrapes::default(),
        ready: Arc::new(move || ready.ready()),
    }
}

/// Waits until `at`; for ever without a time.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Waits until all workers have ended. By looking, as threads can be joined but not awaited.
async fn ended(all: impl Fn() -> bool, look_every: Duration) {
    while !all() {
        tokio::time::sleep(look_every).await;
    }
}

/// Reads the orders of operators that were kept; and why they were lost, if they were.
fn orders(file: Option<&Path>) -> Result<(Orders, Option<String>), Failure> {
    let Kept { given, lost } = state::read(file).map_err(|error| {
        let file = file.unwrap_or(Path::new("the environment")).display();
        Failure::running(format!("cannot read the orders of operators from {file}: {error}; repair or remove it"))
    })?;
    let orders = Orders::default();
    orders.set(given);
    if let Some(lost) = &lost {
        tracing::error!("{lost}");
    }
    Ok((orders, lost))
}

/// Waits until the process that takes over serves. Without such a process it waits for ever.
async fn serves(upgrade: Option<&mut Upgrade>) -> Result<u32, String> {
    match upgrade {
        Some(upgrade) => upgrade.serves().await,
        None => std::future::pending().await,
    }
}
