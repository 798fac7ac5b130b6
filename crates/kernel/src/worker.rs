//! Thread of the kernel planes: it follows the sets of the pools, has drivers change the kernel, and reads counts back.

use crate::blueprint::{Blueprint, Treated, numbered, treated};
use crate::driver::{Change, Driver, Reading, endpoints};
use crate::explain::Answer;
use crate::ids::Ids;
use crate::numbers::{DriverStats, EndpointStats};
use crate::service::Service;
use evenkeel_balance::Slot;
use evenkeel_balance::pool::View;
use evenkeel_config::plan::{OnExit, Plane};
use evenkeel_net::event_loop::alarm;
use evenkeel_net::workers::{Command, ControlLink};
use evenkeel_runtime::Control;
use evenkeel_runtime::ledger::Members;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Time between two looks at the sets of the pools.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Time between two readings of counts, and after a change that the kernel has refused.
const READ_EVERY: Duration = Duration::from_secs(1);

/// Update from the control side.
pub enum Update {
    /// Services of a new plan; all others end.
    Plan(Box<Parts>),
    /// Current endpoints of some pools, with their counts.
    Endpoints(Vec<(Arc<str>, Arc<Members<EndpointStats>>)>),
    /// Question for the kernel's objects of a listener.
    Explain { listener: Arc<str>, answer: Answer },
}

/// Everything that the thread needs of a plan.
pub struct Parts {
    pub blueprints: Vec<Blueprint>,
    /// Drivers that the thread does not have yet.
    pub drivers: Vec<(Plane, Box<dyn Driver>)>,
    pub stats: BTreeMap<Plane, Arc<DriverStats>>,
    pub pools: Vec<(Arc<str>, Arc<Members<EndpointStats>>)>,
    pub on_exit: OnExit,
}

/// A driver with its objects in the kernel.
struct Driven {
    driver: Box<dyn Driver>,
    stats: Arc<DriverStats>,
    services: HashMap<Arc<str>, Service>,
    /// Endpoints that left in a change that the kernel has refused.
    left: Vec<u32>,
    /// Time before which a change is not tried again.
    retry_after: Option<Instant>,
    is_readable: bool,
    /// Counts at the latest reading that did not fail.
    readings: Vec<Reading>,
}

/// A pool that services use.
struct Followed {
    members: Arc<Members<EndpointStats>>,
    /// View that the services were built from; `None` if they have to be built anew.
    view: Option<Arc<View>>,
    /// Endpoints with an address, each with its number.
    treated: Vec<(u32, Treated)>,
}

struct Worker {
    control: Control,
    blueprints: Vec<Blueprint>,
    /// Indexes of the blueprints of each pool.
    by_pool: HashMap<Arc<str>, Vec<usize>>,
    drivers: BTreeMap<Plane, Driven>,
    pools: HashMap<Arc<str>, Followed>,
    ids: Ids,
    /// Counts of endpoints by number.
    stats: HashMap<u32, Arc<EndpointStats>>,
    on_exit: OnExit,
}

/// Runs the thread until it is commanded to end.
///
/// # Errors
/// None: refusals of the kernel are logged and tried again.
pub async fn run(control: Control, link: ControlLink<Update>) -> io::Result<()> {
    let ControlLink { mut updates, mut commands } = link;
    let mut worker = Worker {
        control,
        blueprints: Vec::new(),
        by_pool: HashMap::new(),
        drivers: BTreeMap::new(),
        pools: HashMap::new(),
        ids: Ids::default(),
        stats: HashMap::new(),
        on_exit: OnExit::Remove,
    };
    let mut read_at = Instant::now();
    while *commands.borrow_and_update() == Command::Run {
        tokio::select! {
            changed = commands.changed() => if changed.is_err() { break },
            update = updates.recv() => match update {
                Some((update, _applied)) => worker.update(update),
                None => break,
            },
            () = alarm::sleep(LOOK_EVERY) => {
                worker.drivers.values_mut().for_each(|driven| driven.driver.follow());
                worker.look();
            }
        }
        // However often something else happens.
        if read_at.elapsed() >= READ_EVERY {
            read_at = Instant::now();
            worker.read();
        }
    }
    // Dropped, so that no thread waits for a plan to be applied.
    drop(updates);
    let command = *commands.borrow_and_update();
    // A process that takes over has adopted everything.
    if command == Command::Retire || worker.on_exit == OnExit::Keep {
        return Ok(());
    }
    worker.end_services();
    worker.read();
    while *commands.borrow_and_update() == Command::Drain && worker.has_flows() {
        tokio::select! {
            changed = commands.changed() => if changed.is_err() { break },
            () = alarm::sleep(LOOK_EVERY) => worker.read(),
        }
    }
    worker.remove();
    Ok(())
}

impl Worker {
    fn update(&mut self, update: Update) {
        match update {
            Update::Plan(parts) => self.install(*parts),
            Update::Endpoints(pools) => {
                for (name, members) in pools {
                    if let Some(followed) = self.pools.get_mut(&name) {
                        (followed.members, followed.view) = (members, None);
                    }
                }
            }
            Update::Explain { listener, answer } => {
                // The client that asked may have left.
                let _ = answer.send(self.explain(&listener));
                return;
            }
        }
        self.look();
    }

    fn explain(&mut self, listener: &str) -> Result<Vec<String>, String> {
        for driven in self.drivers.values_mut() {
            if let Some(service) = driven.services.get(listener) {
                return driven.driver.explain(service).map_err(|fault| fault.to_string());
            }
        }
        Err(format!("the kernel has nothing of listener \"{listener}\""))
    }

    fn install(&mut self, parts: Parts) {
        self.on_exit = parts.on_exit;
        self.blueprints = parts.blueprints;
        self.by_pool.clear();
        for (at, blueprint) in self.blueprints.iter().enumerate() {
            self.by_pool.entry(blueprint.pool.clone()).or_default().push(at);
        }
        for (plane, mut driver) in parts.drivers {
            match driver.adopt() {
                Ok(known) => {
                    if !known.is_empty() {
                        let known = endpoints(known.len());
                        tracing::info!(plane = plane.name(), "took over kernel rules of an earlier process: {known}");
                    }
                    known.into_iter().for_each(|(addr, id)| self.ids.adopt(addr, id));
                }
                Err(fault) => {
                    tracing::warn!(plane = plane.name(), %fault, "cannot take over kernel rules of an earlier process")
                }
            }
            let driven = Driven {
                driver,
                stats: Arc::default(),
                services: HashMap::new(),
                left: Vec::new(),
                retry_after: None,
                is_readable: true,
                readings: Vec::new(),
            };
            self.drivers.insert(plane, driven);
        }
        for (plane, stats) in parts.stats {
            if let Some(driven) = self.drivers.get_mut(&plane) {
                driven.stats = stats;
            }
        }
        let mut before = std::mem::take(&mut self.pools);
        self.pools = parts
            .pools
            .into_iter()
            .map(|(name, members)| {
                let treated = before.remove(&name).map(|followed| followed.treated).unwrap_or_default();
                (name, Followed { members, view: None, treated })
            })
            .collect();
        {
            let mut pools = self.control.pools();
            for (name, followed) in before {
                let Some(shared) = pools.get_mut(&name) else { continue };
                followed.treated.iter().for_each(|(_, of)| shared.pool.set_external(of.slot, 0));
            }
        }
        // Services of an unchanged pool may differ by other keys.
        self.look_at(None);
    }

    /// Follows the pools whose sets have changed.
    fn look(&mut self) {
        let changed = self.refresh();
        let is_due = |driven: &Driven| driven.retry_after.is_some_and(|after| Instant::now() >= after);
        if self.drivers.values().any(is_due) {
            self.look_at(None);
        } else if !changed.is_empty() {
            self.look_at(Some(&changed));
        }
    }

    /// Reads the sets of the pools. Returns the names of those that have changed.
    fn refresh(&mut self) -> HashSet<Arc<str>> {
        let mut changed = HashSet::new();
        let mut found = Vec::new();
        {
            let mut pools = self.control.pools();
            for (name, followed) in &self.pools {
                let Some(shared) = pools.get_mut(name) else { continue };
                let view = shared.pool.view();
                if followed.view.as_ref().is_none_or(|known| !Arc::ptr_eq(known, &view)) {
                    let treated = treated(shared, &view.set, &followed.members.endpoints);
                    // Their slots are free once nothing is in flight there.
                    let stays: HashSet<Slot> = treated.iter().map(|(_, of)| of.slot).collect();
                    let left = followed.treated.iter().filter(|(_, of)| !stays.contains(&of.slot));
                    left.for_each(|(_, of)| shared.pool.set_external(of.slot, 0));
                    found.push((name.clone(), view, treated));
                }
            }
        }
        for (name, view, treated) in found {
            let numbered = numbered(&mut self.ids, &name, treated);
            let Some(followed) = self.pools.get_mut(&name) else { continue };
            for (at, id, _) in &numbered {
                if let Some(stats) = followed.members.workers.first().and_then(|of| of.get(*at)) {
                    self.stats.insert(*id, stats.clone());
                }
            }
            followed.treated = numbered.into_iter().map(|(_, id, of)| (id, of)).collect();
            followed.view = Some(view);
            changed.insert(name);
        }
        changed
    }

    /// Has the drivers change the services of these pools; `None` for all.
    fn look_at(&mut self, pools: Option<&HashSet<Arc<str>>>) {
        if pools.is_none() {
            self.refresh();
        }
        let left = self.retire(pools);
        left.iter().for_each(|id| _ = self.stats.remove(id));
        for (plane, driven) in &mut self.drivers {
            driven.left.extend(&left);
            let table_max = driven.driver.table_max();
            let service = |it: &Blueprint| {
                let followed = self.pools.get(&it.pool)?;
                Some(it.service(&followed.view.as_ref()?.set, &followed.treated, table_max))
            };
            let is_of_plane = |it: &&Blueprint| it.plane == *plane;
            match pools {
                Some(pools) => {
                    let at = pools.iter().filter_map(|pool| self.by_pool.get(pool)).flatten();
                    let blueprints = at.map(|at| &self.blueprints[*at]).filter(is_of_plane);
                    driven.apply(blueprints.filter_map(service).collect(), None, *plane);
                }
                None => {
                    let blueprints: Vec<&Blueprint> = self.blueprints.iter().filter(is_of_plane).collect();
                    let names = blueprints.iter().map(|it| it.name()).collect();
                    let built = blueprints.iter().filter_map(|it| service(it)).collect();
                    driven.apply(built, Some(&names), *plane);
                }
            }
        }
    }

    /// Retires the numbers of endpoints that have left these pools; `None` for all pools.
    fn retire(&mut self, pools: Option<&HashSet<Arc<str>>>) -> Vec<u32> {
        let mut left = match pools {
            Some(_) => Vec::new(),
            None => self.ids.retire_others(|pool| self.pools.contains_key(pool)),
        };
        for (name, followed) in &self.pools {
            if pools.is_none_or(|pools| pools.contains(name)) {
                let addrs: HashSet<SocketAddr> = followed.treated.iter().map(|(_, of)| of.addr).collect();
                left.extend(self.ids.retire(name, |addr| addrs.contains(&addr)));
            }
        }
        left
    }

    /// Removes drivers without services, once no flow needs their objects in the kernel.
    fn drop_unused(&mut self) {
        let is_unused = |plane: &Plane, driven: &Driven| {
            !self.blueprints.iter().any(|it| it.plane == *plane) && !driven.needs_more_time()
        };
        let unused: Vec<Plane> =
            self.drivers.iter().filter(|(plane, driven)| is_unused(plane, driven)).map(|(plane, _)| *plane).collect();
        for plane in unused {
            if let Some(mut driven) = self.drivers.remove(&plane)
                && let Err(fault) = driven.driver.remove()
            {
                tracing::warn!(plane = plane.name(), %fault, "cannot remove all kernel rules");
            }
        }
    }

    fn read(&mut self) {
        let (mut is_whole, mut is_lost) = (true, false);
        for (plane, driven) in &mut self.drivers {
            if driven.driver.lost() {
                tracing::warn!(plane = plane.name(), "another program removed kernel rules; restoring them");
                driven.services.clear();
                is_lost = true;
            }
        }
        if is_lost {
            self.look_at(None);
        }
        for (plane, driven) in &mut self.drivers {
            driven.read(*plane);
            is_whole &= driven.is_readable;
        }
        let mut readings: HashMap<u32, Reading> = HashMap::new();
        for reading in self.drivers.values().flat_map(|driven| &driven.readings) {
            let sum = readings.entry(reading.id).or_insert(Reading { id: reading.id, ..Reading::default() });
            sum.active = sum.active.saturating_add(reading.active);
            sum.started = sum.started.wrapping_add(reading.started);
            sum.failed = sum.failed.wrapping_add(reading.failed);
        }
        for (id, stats) in &self.stats {
            stats.set(&readings.get(id).copied().unwrap_or_default());
        }
        self.count_in_pools(&readings);
        if is_whole {
            self.ids.free(|id| readings.get(&id).is_none_or(|reading| reading.active == 0));
        }
        self.drop_unused();
    }

    /// Has the other planes count the flows that the kernel forwards, so that their picks regard it.
    fn count_in_pools(&self, readings: &HashMap<u32, Reading>) {
        let mut pools = self.control.pools();
        for (name, followed) in &self.pools {
            let Some(shared) = pools.get_mut(name) else { continue };
            for (id, of) in &followed.treated {
                shared.pool.set_external(of.slot, readings.get(id).map_or(0, |reading| reading.active));
            }
        }
    }

    /// Ends all services: new flows are refused, and those that are open continue.
    fn end_services(&mut self) {
        self.blueprints.clear();
        for (plane, driven) in &mut self.drivers {
            let ended = driven.services.values().map(Service::ended).collect();
            driven.apply(ended, None, *plane);
        }
    }

    /// True if flows are open that would end with the objects of a driver.
    fn has_flows(&self) -> bool {
        self.drivers.values().any(Driven::needs_more_time)
    }

    fn remove(&mut self) {
        for (plane, driven) in &mut self.drivers {
            let removed = driven.driver.remove();
            if removed.is_ok() {
                tracing::info!(plane = plane.name(), "kernel rules removed");
            }
            if let Err(fault) = removed {
                let text = "cannot remove all kernel rules; run `evenkeel cleanup`";
                tracing::error!(plane = plane.name(), %fault, "{text}");
            }
        }
    }
}

impl Driven {
    /// True if flows are open that would end with the objects of the driver.
    fn needs_more_time(&self) -> bool {
        self.driver.carries_flows() && self.readings.iter().any(|reading| reading.active > 0)
    }

    /// Reads counts. Previous counts stay if the kernel refuses to answer.
    fn read(&mut self, plane: Plane) {
        let mut readings = Vec::new();
        let result = self.driver.read(&mut |reading| readings.push(reading)).and_then(|()| self.driver.totals());
        match result {
            Ok(totals) => {
                self.readings = readings;
                self.stats.set_totals(totals);
            }
            Err(fault) => {
                self.stats.failed.add(1);
                if self.is_readable {
                    tracing::warn!(plane = plane.name(), %fault, "cannot read kernel counters; keeping the last values");
                }
                self.is_readable = false;
                return;
            }
        }
        self.is_readable = true;
    }

    /// Applies the services that differ, and removes those whose names are not in `names`; `None` = none ends.
    fn apply(&mut self, built: Vec<Service>, names: Option<&HashSet<&Arc<str>>>, plane: Plane) {
        let set: Vec<&Service> =
            built.iter().filter(|service| self.services.get(&service.name) != Some(service)).collect();
        let ended =
            |names: &HashSet<&Arc<str>>| self.services.keys().filter(|name| !names.contains(name)).cloned().collect();
        let removed: Vec<Arc<str>> = names.map(ended).unwrap_or_default();
        if set.is_empty() && removed.is_empty() && self.left.is_empty() && self.retry_after.is_none() {
            return;
        }
        let change = Change { set, removed, left: std::mem::take(&mut self.left) };
        match self.driver.apply(&change) {
            Ok(()) => {
                change.removed.iter().for_each(|name| _ = self.services.remove(name));
                let set: Vec<Service> = change.set.iter().map(|service| (*service).clone()).collect();
                self.services.extend(set.into_iter().map(|service| (service.name.clone(), service)));
                self.stats.applied.add(1);
                self.stats.in_sync.store(1, Relaxed);
                if self.retry_after.take().is_some() {
                    tracing::info!(plane = plane.name(), "kernel rules are up to date again");
                }
            }
            Err(fault) => {
                if self.retry_after.is_none() {
                    tracing::error!(plane = plane.name(), %fault, "cannot change kernel rules; keeping the previous rules and retrying");
                }
                self.left = change.left;
                self.stats.failed.add(1);
                self.stats.in_sync.store(0, Relaxed);
                self.retry_after = Some(Instant::now() + READ_EVERY);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{Fault, Lack};

    /// Reports an open flow at the first reading, and fails at all others.
    struct Failing(bool);

    impl Driver for Failing {
        fn lacks(&self, _: &[Service]) -> Vec<Lack> {
            Vec::new()
        }

        fn adopt(&mut self) -> Result<Vec<(SocketAddr, u32)>, Fault> {
            Ok(Vec::new())
        }

        fn apply(&mut self, _: &Change<'_>) -> Result<(), Fault> {
            Ok(())
        }

        fn read(&mut self, readings: &mut dyn FnMut(Reading)) -> Result<(), Fault> {
            if std::mem::replace(&mut self.0, true) {
                return Err(Fault::new("read", "it fails"));
            }
            readings(Reading { id: 1, active: 7, started: 9, failed: 0 });
            Ok(())
        }

        fn carries_flows(&self) -> bool {
            true
        }

        fn remove(&mut self) -> Result<(), Fault> {
            Ok(())
        }

        fn explain(&mut self, _: &Service) -> Result<Vec<String>, Fault> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn counts_stay_while_the_kernel_refuses_to_say() {
        let mut driven = Driven {
            driver: Box::new(Failing(false)),
            stats: Arc::default(),
            services: HashMap::new(),
            left: Vec::new(),
            retry_after: None,
            is_readable: true,
            readings: Vec::new(),
        };
        for (is_readable, failed) in [(true, 0), (false, 1), (false, 2)] {
            driven.read(Plane::Nftables);
            assert_eq!((driven.is_readable, driven.stats.failed.get()), (is_readable, failed));
            assert_eq!(driven.readings, [Reading { id: 1, active: 7, started: 9, failed: 0 }]);
            assert!(driven.needs_more_time());
        }
    }
}
