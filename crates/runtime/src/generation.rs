//! Plan in use, replaced as a whole by the next plan, and the differences between two plans.

use crate::membership::{Endpoints, Found, Membership};
use crate::splits::Splits;
use evenkeel_config::{Plan, plan};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Weak};

/// Plan in use, with the current endpoints of its pools.
#[derive(Debug)]
pub struct Generation {
    /// Number of the plan: 0 at the start, incremented with each change.
    pub number: u64,
    /// Plan as configured, with its own endpoints.
    pub plan: Arc<Plan>,
    /// Current endpoints of its pools.
    pub membership: Arc<Membership>,
    /// Current weights of its splits.
    pub splits: Arc<Splits>,
    in_use: Arc<()>,
    older: Vec<Weak<()>>,
}

impl Generation {
    /// Creates the first generation, with discovered endpoints.
    pub fn first(plan: Arc<Plan>, found: Found) -> Generation {
        let (membership, splits) = (Membership::new(&plan, found).into(), Splits::new(&plan).into());
        Generation { number: 0, plan, membership, splits, in_use: Arc::default(), older: Vec::new() }
    }

    /// Creates the next generation, with discovered endpoints.
    pub fn next(&self, plan: Arc<Plan>, found: Found) -> Generation {
        let mut older = self.older.clone();
        older.push(Arc::downgrade(&self.in_use));
        older.retain(|generation| generation.strong_count() > 0);
        let (membership, splits) = (Membership::new(&plan, found).into(), Splits::new(&plan).into());
        Generation { number: self.number + 1, plan, membership, splits, in_use: Arc::default(), older }
    }

    /// Pools, each with its current endpoints.
    pub fn pools(&self) -> impl Iterator<Item = (&Arc<plan::Pool>, Endpoints)> {
        self.plan.pools.iter().enumerate().map(|(at, pool)| (pool, self.membership.endpoints(at)))
    }

    /// Pool by name, with its current endpoints.
    pub fn pool(&self, name: &str) -> Option<(&Arc<plan::Pool>, Endpoints)> {
        let at = self.membership.at(name)?;
        Some((&self.plan.pools[at], self.membership.endpoints(at)))
    }

    /// Copy of the plan with the current endpoints of its pools, for display.
    pub fn plan_as_found(&self) -> Plan {
        let mut plan = Plan::clone(&self.plan);
        for (at, pool) in plan.pools.iter_mut().enumerate() {
            let endpoints = self.membership.endpoints(at);
            if pool.endpoints != *endpoints {
                Arc::make_mut(pool).endpoints = endpoints.to_vec();
            }
        }
        plan
    }

    /// Marker of use, held by the rules of this generation and so by every request served under them.
    pub fn in_use(&self) -> Arc<()> {
        self.in_use.clone()
    }

    /// Returns the number of earlier generations that still have requests, or connections of removed listeners.
    pub fn draining(&self) -> u64 {
        self.older.iter().filter(|g| g.strong_count() > 0).count() as u64
    }
}

/// Differences between two plans: kind and name of each part that differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of the new generation.
    pub generation: u64,
    /// Parts of the plan that are new.
    pub added: Vec<String>,
    /// Parts of the plan that differ.
    pub changed: Vec<String>,
    /// Parts of the plan that are gone.
    pub removed: Vec<String>,
    /// Keys whose new value takes effect only after a restart.
    pub at_restart: Vec<&'static str>,
}

impl Summary {
    pub(crate) fn new(old: &Plan, new: &Plan, generation: u64, at_restart: Vec<&'static str>) -> Summary {
        let mut summary = Summary { generation, at_restart, ..Summary::default() };
        summary.compare("listener", &old.listeners, &new.listeners, |l| &l.name);
        summary.compare("route", &old.routes, &new.routes, |r| &r.name);
        summary.compare("pool", &old.pools, &new.pools, |p| &p.name);
        if old.runtime != new.runtime {
            summary.changed.push("runtime".into());
        }
        if old.resolver != new.resolver {
            summary.changed.push("resolver".into());
        }
        if old.telemetry != new.telemetry {
            summary.changed.push("telemetry".into());
        }
        summary
    }

    fn compare<T: PartialEq>(&mut self, what: &str, old: &[T], new: &[T], name: impl Fn(&T) -> &Arc<str>) {
        let say = |one: &T| format!("{what} {}", name(one));
        let before: HashMap<&str, &T> = old.iter().map(|one| (&**name(one), one)).collect();
        for now in new {
            match before.get(&**name(now)) {
                None => self.added.push(say(now)),
                Some(before) if *before != now => self.changed.push(say(now)),
                Some(_) => {}
            }
        }
        let stays: HashSet<&str> = new.iter().map(|one| &**name(one)).collect();
        self.removed.extend(old.iter().filter(|before| !stays.contains(&**name(before))).map(say));
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "generation {}", self.generation)?;
        let parts = [("added", &self.added), ("changed", &self.changed), ("removed", &self.removed)];
        if parts.iter().all(|(_, names)| names.is_empty()) && self.at_restart.is_empty() {
            f.write_str("; no differences")?;
        }
        for (how, names) in parts.iter().filter(|(_, names)| !names.is_empty()) {
            write!(f, "; {how}: {}", names.join(", "))?;
        }
        if !self.at_restart.is_empty() {
            write!(f, "; only a restart changes {}", self.at_restart.join(", "))?;
        }
        Ok(())
    }
}

/// Restores those keys of the next plan that cannot change while the process runs. Returns the names of those that
/// differed.
pub(crate) fn keep_until_restart(now: &Plan, next: &mut Plan) -> Vec<&'static str> {
    let mut kept = Vec::new();
    let mut keep = |key, differs: bool| kept.extend(differs.then_some(key));
    // Counters are sharded by worker, and histograms keep their buckets.
    keep("runtime.workers", next.runtime.workers != now.runtime.workers);
    keep("telemetry.metrics.buckets", next.telemetry.metrics.buckets != now.telemetry.metrics.buckets);
    // A journal starts with its balancer: earlier state of the balancer could not be recorded.
    keep("telemetry.journal", next.telemetry.journal != now.telemetry.journal);
    // These belong to the process around the planes, which reads them once at the start.
    keep("telemetry.metrics.path", next.telemetry.metrics.path != now.telemetry.metrics.path);
    keep("runtime.log", next.runtime.log != now.runtime.log);
    keep("admin", next.admin != now.admin);
    // Rules and programs that are in the kernel were made by these.
    if now.listeners.iter().any(|listener| listener.plane.is_kernel()) {
        let (old, new) = (&now.kernel, &next.kernel);
        keep("kernel.name", new.name != old.name);
        keep("kernel.attach", new.attach != old.attach);
        keep("kernel.interfaces", new.interfaces != old.interfaces);
        keep("kernel.cgroup", new.cgroup != old.cgroup);
        keep("kernel.flows_max", new.flows_max != old.flows_max);
        keep("kernel.state", new.state != old.state);
        keep("kernel.mark", new.mark != old.mark);
        next.kernel = plan::Kernel { on_exit: new.on_exit, ..old.clone() };
    }
    next.runtime.workers = now.runtime.workers;
    next.runtime.log = now.runtime.log;
    next.telemetry.metrics.buckets.clone_from(&now.telemetry.metrics.buckets);
    next.telemetry.metrics.path.clone_from(&now.telemetry.metrics.path);
    next.telemetry.journal.clone_from(&now.telemetry.journal);
    next.admin.clone_from(&now.admin);
    kept
}
