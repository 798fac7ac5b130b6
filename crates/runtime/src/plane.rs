//! Interface between the runtime and a plane: preparing and installing a plan, changing endpoints, and showing the plane
//! to operators.

use crate::control::Control;
use crate::generation::Generation;
use crate::ledger::PlaneCounts;
use crate::membership::Endpoints;
use crate::pool::{Pools, SharedPool};
use evenkeel_balance::Instant;
use evenkeel_config::{Plan, Subject, plan};
use evenkeel_net::inherit::Inherited;
use evenkeel_net::listen::{CannotListen, ListenFd};
use evenkeel_net::workers::{Applying, Threads};
use evenkeel_view::Status;
use evenkeel_view::served::{InKernel, Route, Zone};
use evenkeel_view::timeline::Timeline;
use prometheus_client::collector::Collector;
use std::any::Any;
use std::error::Error;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, MutexGuard};

/// Data plane by which clients reach the endpoints of pools. The runtime calls it from a single thread: for a plan,
/// [`prepare`](Self::prepare), [`install`](Self::install) and [`applied`](Self::applied); for endpoints,
/// [`endpoints`](Self::endpoints) and `applied`.
pub trait Plane: Send + Sync {
    /// Does everything for a plan that can fail, without changing anything: the result may be dropped. `inherited`:
    /// sockets passed to the process, to be used before new sockets are opened.
    ///
    /// # Errors
    /// Every reason why the plan cannot run.
    fn prepare(&self, next: &Next<'_>, inherited: &mut Inherited) -> Result<Prepared, Vec<Diagnostic>>;

    /// Sends every worker its part of the plan, to be installed in one step, without waiting. Every endpoint of the
    /// plan has a slot by now; no worker picks a new endpoint before all workers have installed the plan. Until then
    /// workers may pick endpoints that the plan removes.
    fn install(&mut self, prepared: Prepared, pools: &mut Pools, sending: &Sending<'_>);

    /// Sends every worker the new endpoints of some pools, without waiting. Gives the guarantees of
    /// [`install`](Self::install).
    fn endpoints(&mut self, changes: &[Change<'_>], sending: &Sending<'_>);

    /// Releases the previous state: every worker of every plane has applied the last message, and may pick by it.
    fn applied(&mut self) {}

    /// Threads of the workers of this plane.
    fn workers(&self) -> &Threads;

    /// Threads of its workers, to take a thread that has ended.
    fn workers_mut(&mut self) -> &mut Threads;

    /// Listening sockets, each with the name of its listener, to hand over to a new process.
    fn sockets(&self) -> Vec<(String, ListenFd)>;

    /// Returns the metrics, to be registered once and without a prefix; they follow later plans.
    fn collector(&self) -> Box<dyn Collector>;

    /// Returns the plane as operators see it, for use by other threads. The view follows later plans.
    fn view(&self) -> Arc<dyn View>;

    /// Looks after files and memory, once a second; `now` is on the workers' clock. Returns work that may take longer than a
    /// moment, for another thread.
    fn tick(&mut self, _now: Instant) -> Option<Work> {
        None
    }

    /// Number of open client connections.
    fn open(&self) -> u64 {
        0
    }

    /// Reopens its log files after they were rotated.
    ///
    /// # Errors
    /// A file cannot be opened; its lines still go to the old file.
    fn reopen(&self) -> Result<(), String> {
        Ok(())
    }

    /// Waits until every worker has ended and its logs are written.
    fn join(self: Box<Self>);
}

/// Plane as operators see it: its counts, and its part of the responses of the API.
pub trait View: PlaneCounts {
    /// Returns the reason why the plane is not ready for new requests, if any.
    fn not_ready(&self) -> Option<&'static str> {
        None
    }

    /// Adds to the state of the process, which has listeners and pools in the order of the plan.
    fn add_to(&self, _status: &mut Status) {}

    /// Returns routes in the order of the plan that runs.
    fn shown_routes(&self, _timeline: &Timeline) -> Vec<Route> {
        Vec::new()
    }

    /// Returns zones in the order of this plan, which runs.
    fn shown_zones(&self, _plan: &Plan, _timeline: &Timeline) -> Vec<Zone> {
        Vec::new()
    }

    /// Asks the kernel about a listener. `None` if this plane has no listener of that name in the kernel.
    fn in_kernel(&self, _listener: &str) -> Option<Asking> {
        None
    }
}

/// Question to the kernel, and the reason if it is not answered.
pub type Asking = Pin<Box<dyn Future<Output = Result<InKernel, String>> + Send>>;

/// Work that a thread for it does.
pub type Work = Box<dyn FnOnce() + Send>;

/// Result of a plane's `prepare`, to be passed to its `install`.
pub struct Prepared(Box<dyn Any>);

impl Prepared {
    /// Wraps a value that the plane needs in `install`.
    pub fn new<T: 'static>(prepared: T) -> Prepared {
        Prepared(Box::new(prepared))
    }

    /// Returns the value that the same plane has wrapped.
    ///
    /// # Panics
    /// The value is of another type.
    pub fn into<T: 'static>(self) -> T {
        *self.0.downcast().expect("a plane is given what it has prepared itself")
    }
}

/// Plan that is about to run.
pub struct Next<'n> {
    /// New generation: the plan and its number.
    pub generation: &'n Arc<Generation>,
    /// Plan in use; `None` at the start.
    pub before: Option<&'n Plan>,
    /// Control thread of the pools.
    pub control: &'n Control,
    /// Pools that the plan adds.
    pub(crate) new: &'n Pools,
}

impl Next<'_> {
    pub fn plan(&self) -> &Plan {
        &self.generation.plan
    }

    /// Locks the pools of the plan. Hold it only briefly: the control thread needs the lock for all pools.
    pub fn pools(&self) -> NextPools<'_> {
        NextPools { known: self.control.pools(), new: self.new }
    }
}

/// Pools of a plan that is about to run.
pub struct NextPools<'p> {
    known: MutexGuard<'p, Pools>,
    new: &'p Pools,
}

impl NextPools<'_> {
    /// Pool by name, which must be in the plan.
    pub fn get(&self, name: &str) -> &SharedPool {
        self.known.get(name).or_else(|| self.new.get(name)).expect("every pool of the plan is known or new")
    }
}

/// Context of everything that is sent to workers.
pub struct Sending<'s> {
    /// Generation that the workers will run.
    pub generation: &'s Arc<Generation>,
    /// Awaited by the runtime once all planes have sent their updates.
    pub applying: &'s Applying,
}

/// Change of the endpoints of a pool.
#[derive(Clone, Copy)]
pub struct Change<'c> {
    pub pool: &'c plan::Pool,
    /// Index of the pool in the plan.
    pub at: usize,
    /// New endpoints of the pool.
    pub endpoints: &'c Endpoints,
    /// Pool with the slots of these endpoints.
    pub shared: &'c SharedPool,
}

/// Reason why a plan cannot run on this machine.
#[derive(Debug)]
pub enum Diagnostic {
    /// An address cannot be listened on.
    Listen(CannotListen),
    /// The plan refers to something that does not exist.
    Plan { problem: String, of: Vec<Subject> },
    /// The machine lacks a resource or capability.
    Machine { problem: String, help: Option<String>, of: Vec<Subject> },
}

impl Diagnostic {
    /// Creates a problem with the machine without a help text.
    pub fn machine(problem: impl Into<String>) -> Diagnostic {
        Diagnostic::Machine { problem: problem.into(), help: None, of: Vec::new() }
    }

    /// Adds a listener, route or pool of the plan that the problem is about.
    #[must_use]
    pub fn about(mut self, subject: Subject) -> Diagnostic {
        match &mut self {
            Diagnostic::Listen(_) => {}
            Diagnostic::Plan { of, .. } | Diagnostic::Machine { of, .. } => of.push(subject),
        }
        self
    }

    /// Listeners, routes and pools of the plan that the problem is about. Without any, it is about the plan as a whole.
    pub fn subjects(&self, plan: &Plan) -> Vec<Subject> {
        match self {
            Diagnostic::Listen(error) => {
                let at = plan.listeners.iter().position(|listener| *listener.name == *error.listener);
                at.map(Subject::Listener).into_iter().collect()
            }
            Diagnostic::Plan { of, .. } | Diagnostic::Machine { of, .. } => of.clone(),
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Diagnostic::Listen(error) => error.fmt(f),
            Diagnostic::Plan { problem, .. } | Diagnostic::Machine { problem, .. } => f.write_str(problem),
        }
    }
}

/// All reasons, of every plane, why a plan cannot be started.
#[derive(Debug)]
pub struct StartError(pub Vec<Diagnostic>);

impl From<Diagnostic> for StartError {
    fn from(diagnostic: Diagnostic) -> StartError {
        StartError(vec![diagnostic])
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each: Vec<String> = self.0.iter().map(Diagnostic::to_string).collect();
        f.write_str(&each.join("; "))
    }
}

impl Error for StartError {}

/// Text of an error in lower case, without the `(os error N)` that the standard library appends.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}
