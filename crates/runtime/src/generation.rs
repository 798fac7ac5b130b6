//! A plan that runs, replaced as a whole by the next one, and what is new in that.

use crate::membership::{Endpoints, Found, Membership};
use evenkeel_config::{Plan, plan};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Weak};

/// A plan that runs. The numbers of a plane are the plane's.
#[derive(Debug)]
pub struct Generation {
    /// 0 at the start, and one more with each change.
    pub number: u64,
    /// The plan, as it was wanted.
    pub plan: Arc<Plan>,
    /// The endpoints that its pools have now.
    pub membership: Arc<Membership>,
    in_use: Arc<()>,
    older: Vec<Weak<()>>,
}

impl Generation {
    /// The first one, with endpoints that were found.
    pub fn first(plan: Arc<Plan>, found: Found) -> Generation {
        let membership = Membership::new(&plan, found).into();
        Generation { number: 0, plan, membership, in_use: Arc::default(), older: Vec::new() }
    }

    /// The one that follows, with endpoints that were found.
    pub fn next(&self, plan: Arc<Plan>, found: Found) -> Generation {
        let mut older = self.older.clone();
        older.push(Arc::downgrade(&self.in_use));
        older.retain(|generation| generation.strong_count() > 0);
        let membership = Membership::new(&plan, found).into();
        Generation { number: self.number + 1, plan, membership, in_use: Arc::default(), older }
    }

    /// The pools, each with the endpoints that it has now.
    pub fn pools(&self) -> impl Iterator<Item = (&Arc<plan::Pool>, Endpoints)> {
        self.plan.pools.iter().enumerate().map(|(at, pool)| (pool, self.membership.endpoints(at)))
    }

    /// A pool by its name, with the endpoints that it has now.
    pub fn pool(&self, name: &str) -> Option<(&Arc<plan::Pool>, Endpoints)> {
        let at = self.membership.at(name)?;
        Some((&self.plan.pools[at], self.membership.endpoints(at)))
    }

    /// The plan with the endpoints that its pools have now, for those who show both as one.
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

    /// Held by the rules of this generation, and with them by every request that is served by them.
    pub fn in_use(&self) -> Arc<()> {
        self.in_use.clone()
    }

    /// Returns the number of earlier generations that have requests, or connections of listeners that left.
    pub fn draining(&self) -> u64 {
        self.older.iter().filter(|g| g.strong_count() > 0).count() as u64
    }
}

/// Difference between two plans: kind and name of each part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The generation that runs now.
    pub generation: u64,
    /// Parts of the plan that are new.
    pub added: Vec<String>,
    /// Parts of the plan that differ.
    pub changed: Vec<String>,
    /// Parts of the plan that are gone.
    pub removed: Vec<String>,
    /// Keys that say something new, which only a restart would do.
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
        if parts.iter().all(|(_, names)| names.is_empty()) {
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

/// Restores the keys of the next plan that cannot change while the process runs; returns their names.
pub(crate) fn keep_until_restart(now: &Plan, next: &mut Plan) -> Vec<&'static str> {
    let mut kept = Vec::new();
    let mut keep = |key, differs: bool| kept.extend(differs.then_some(key));
    // Counts are sharded by worker, and histograms keep the buckets that they have.
    keep("runtime.workers", next.runtime.workers != now.runtime.workers);
    keep("telemetry.metrics.buckets", next.telemetry.metrics.buckets != now.telemetry.metrics.buckets);
    // The journal starts with its balancer: what that has learned before could not be recorded.
    keep("telemetry.journal", next.telemetry.journal != now.telemetry.journal);
    // These belong to the process around the planes, which sets them up once.
    keep("telemetry.metrics.path", next.telemetry.metrics.path != now.telemetry.metrics.path);
    keep("runtime.log", next.runtime.log != now.runtime.log);
    keep("admin", next.admin != now.admin);
    next.runtime.workers = now.runtime.workers;
    next.runtime.log = now.runtime.log;
    next.telemetry.metrics.buckets.clone_from(&now.telemetry.metrics.buckets);
    next.telemetry.metrics.path.clone_from(&now.telemetry.metrics.path);
    next.telemetry.journal.clone_from(&now.telemetry.journal);
    next.admin.clone_from(&now.admin);
    kept
}
