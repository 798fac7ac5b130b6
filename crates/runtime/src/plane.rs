//! The side of a plane that the runtime sees: how it prepares for a plan, installs it, and learns of endpoints.

use crate::control::Control;
use crate::generation::Generation;
use crate::ledger::PlaneCounts;
use crate::membership::Endpoints;
use crate::pool::{Pools, SharedPool};
use evenkeel_config::{Plan, plan};
use evenkeel_net::inherit::Inherited;
use evenkeel_net::listen::{CannotListen, ListenFd};
use evenkeel_net::workers::{Applying, Threads};
use prometheus_client::collector::Collector;
use std::any::Any;
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::{Arc, MutexGuard};

/// A way for clients to reach the endpoints of pools. The runtime calls it from one thread: for a plan, [`prepare`](Self::prepare),
/// [`install`](Self::install) and [`applied`](Self::applied); for endpoints, [`endpoints`](Self::endpoints) and `applied`.
pub trait Plane: Send + Sync {
    /// Does all that can fail for a plan, and changes nothing: what it returns may be dropped. `inherited`: sockets that came
    /// with the process, to be taken before others are opened.
    ///
    /// # Errors
    /// Every reason against the plan.
    fn prepare(&self, next: &Next<'_>, inherited: &mut Inherited) -> Result<Prepared, Vec<Diagnostic>>;

    /// Sends every worker its part of the plan, to be installed in one step, and waits for nothing. Every endpoint of the plan
    /// has its slot; no worker picks one that is new before all of them have installed the plan. Until then workers may pick
    /// endpoints that leave with it.
    fn install(&mut self, prepared: Prepared, pools: &mut Pools, sending: &Sending<'_>);

    /// Sends every worker the endpoints of pools that have others now, and waits for nothing. What holds for
    /// [`install`](Self::install) holds here too.
    fn endpoints(&mut self, changes: &[Change<'_>], sending: &Sending<'_>);

    /// Lets go of what was before: every worker of every plane has applied what was sent last, and may pick by it.
    fn applied(&mut self) {}

    /// The threads of its workers.
    fn workers(&self) -> &Threads;

    /// The threads of its workers, to take one that has ended.
    fn workers_mut(&mut self) -> &mut Threads;

    /// Every listening socket with the name of its listener, for a process that takes over.
    fn sockets(&self) -> Vec<(String, ListenFd)>;

    /// Returns the metrics, now and after later plans, to be registered without a prefix.
    fn collector(&self) -> Box<dyn Collector>;

    /// Returns the plane's part of the ledger, now and after later plans.
    fn counts(&self) -> Box<dyn PlaneCounts>;

    /// Open connections of its clients.
    fn open(&self) -> u64 {
        0
    }

    /// Opens the files of its logs again, as they were moved away.
    ///
    /// # Errors
    /// A file cannot be opened; then its lines still go where they went.
    fn reopen(&self) -> Result<(), String> {
        Ok(())
    }

    /// Waits until every worker has ended and what they wrote is kept.
    fn join(self: Box<Self>);
}

/// Result of a plane's `prepare`, to be given back to it.
pub struct Prepared(Box<dyn Any>);

impl Prepared {
    /// Wraps what the plane will need.
    pub fn new<T: 'static>(prepared: T) -> Prepared {
        Prepared(Box::new(prepared))
    }

    /// Returns what the same plane has wrapped.
    ///
    /// # Panics
    /// The value is of another type.
    pub fn into<T: 'static>(self) -> T {
        *self.0.downcast().expect("a plane is given what it has prepared itself")
    }
}

/// A plan that is about to run.
pub struct Next<'n> {
    /// The plan, and its number.
    pub generation: &'n Arc<Generation>,
    /// The plan that runs; `None` at the start.
    pub before: Option<&'n Plan>,
    /// Control thread of the pools.
    pub control: &'n Control,
    /// Pools that there were not.
    pub(crate) new: &'n Pools,
}

impl Next<'_> {
    pub fn plan(&self) -> &Plan {
        &self.generation.plan
    }

    /// The pools of the plan. Hold it only briefly: the control thread needs its lock for all pools.
    pub fn pools(&self) -> NextPools<'_> {
        NextPools { known: self.control.pools(), new: self.new }
    }
}

/// The pools of a plan that is about to run.
pub struct NextPools<'p> {
    known: MutexGuard<'p, Pools>,
    new: &'p Pools,
}

impl NextPools<'_> {
    /// The pool of this name, which is in the plan.
    pub fn get(&self, name: &str) -> &SharedPool {
        self.known.get(name).or_else(|| self.new.get(name)).expect("every pool of the plan is known or new")
    }
}

/// Data that goes with everything that is sent to workers.
pub struct Sending<'s> {
    /// Generation that the workers will run.
    pub generation: &'s Arc<Generation>,
    /// Waited for, once all planes have sent what is new.
    pub applying: &'s Applying,
}

/// A pool that has other endpoints now.
#[derive(Clone, Copy)]
pub struct Change<'c> {
    pub pool: &'c plan::Pool,
    /// Index of the pool in the plan.
    pub at: usize,
    /// Endpoints that the pool has now.
    pub endpoints: &'c Endpoints,
    /// Pool that has the slots of these endpoints.
    pub shared: &'c SharedPool,
}

/// A reason why a plan cannot run on this machine.
#[derive(Debug)]
pub enum Diagnostic {
    /// An address cannot be listened on.
    Listen(CannotListen),
    /// The plan asks for what there is not.
    Plan(String),
    /// The machine does not do its part.
    Machine { problem: String, help: Option<String> },
}

impl Diagnostic {
    /// A problem with the machine that has no help.
    pub fn machine(problem: impl Into<String>) -> Diagnostic {
        Diagnostic::Machine { problem: problem.into(), help: None }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Diagnostic::Listen(error) => error.fmt(f),
            Diagnostic::Plan(problem) | Diagnostic::Machine { problem, .. } => f.write_str(problem),
        }
    }
}

/// Reasons for which a plan could not be started: all that stands in its way, in every plane.
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

/// The reason of an error without the number that the standard library puts behind it.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}
