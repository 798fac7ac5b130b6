//! Steps from the present state of the kernel to the wanted state, and back.

use super::entry::{Entry, Key, Options};
use super::table::Table;
use crate::driver::Fault;
use crate::netlink::Error;
use crate::service::Transport;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

/// Entries by their identity.
pub(super) type Entries = BTreeMap<Key, Entry>;

/// Request that changes the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Add(Key, Options),
    Edit(Key, Options),
    Delete(Key),
    AddDest(Key, SocketAddr, u32),
    EditDest(Key, SocketAddr, u32),
    DeleteDest(Key, SocketAddr),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Add(key, options) => write!(f, "add {key} with the scheduler {} to IPVS", options.scheduler),
            Step::Edit(key, options) => write!(f, "set {key} of IPVS to the scheduler {}", options.scheduler),
            Step::Delete(key) => write!(f, "remove {key} from IPVS"),
            Step::AddDest(key, addr, weight) => write!(f, "add {addr} with weight {weight} to {key} of IPVS"),
            Step::EditDest(key, addr, weight) => write!(f, "set {addr} of {key} of IPVS to weight {weight}"),
            Step::DeleteDest(key, addr) => write!(f, "remove {addr} from {key} of IPVS"),
        }
    }
}

impl Step {
    pub(super) fn run(&self, table: &mut Table) -> Result<(), Error> {
        match self {
            Step::Add(key, options) => table.add(key, options),
            Step::Edit(key, options) => table.edit(key, options),
            Step::Delete(key) => table.delete(key),
            Step::AddDest(key, addr, weight) => table.add_dest(key, *addr, *weight),
            Step::EditDest(key, addr, weight) => table.edit_dest(key, *addr, *weight),
            Step::DeleteDest(key, addr) => table.delete_dest(key, *addr),
        }
    }

    /// Returns the fault of a step that the kernel refused.
    pub(super) fn fault(&self, error: &Error) -> Fault {
        let reason = match self {
            Step::Add(key, _) if error.is(Errno::EXIST) => {
                format!("IPVS has a service {key} already, which is not evenkeel's")
            }
            Step::Add(_, options) | Step::Edit(_, options) if error.is(Errno::NOENT) => {
                format!("this kernel has no IPVS scheduler {0}; load it with `modprobe ip_vs_{0}`", options.scheduler)
            }
            _ => error.to_string(),
        };
        Fault::new(self.to_string(), reason)
    }

    /// Appends the steps that undo this step, the last step first; `held` is the entry before.
    fn undo(&self, held: &Entries, undo: &mut Vec<Step>) {
        match self {
            Step::Add(key, _) => undo.push(Step::Delete(*key)),
            Step::AddDest(key, addr, _) => undo.push(Step::DeleteDest(*key, *addr)),
            Step::Edit(key, _) => undo.extend(held.get(key).map(|entry| Step::Edit(*key, entry.options.clone()))),
            // Destinations that come back get the connections that they had.
            Step::Delete(key) => {
                let Some(entry) = held.get(key) else { return };
                undo.extend(entry.dests.iter().map(|(addr, dest)| Step::AddDest(*key, *addr, dest.weight)));
                undo.push(Step::Add(*key, entry.options.clone()));
            }
            Step::EditDest(key, addr, _) => {
                undo.extend(weight(held, key, addr).map(|w| Step::EditDest(*key, *addr, w)))
            }
            Step::DeleteDest(key, addr) => undo.extend(weight(held, key, addr).map(|w| Step::AddDest(*key, *addr, w))),
        }
    }
}

fn weight(held: &Entries, key: &Key, addr: &SocketAddr) -> Option<u32> {
    Some(held.get(key)?.dests.get(addr)?.weight)
}

/// Returns the entry that the kernel shall have: the wanted entry, and destinations that connections of TCP keep.
pub(super) fn with_left(held: Option<&Entry>, mut wanted: Entry, key: &Key) -> Entry {
    if key.transport == Transport::Tcp
        && let Some(held) = held
    {
        for (addr, dest) in &held.dests {
            let left = super::entry::Dest { id: dest.id, weight: 0, left: true };
            wanted.dests.entry(*addr).or_insert(left);
        }
    }
    wanted
}

/// Returns the steps to entries that change; `None` is an entry that ends.
pub(super) fn between(held: &Entries, changes: &BTreeMap<Key, Option<Entry>>) -> Vec<Step> {
    let mut steps = Vec::new();
    for (key, wanted) in changes {
        let Some(wanted) = wanted else { continue };
        let had = held.get(key);
        match had {
            None => steps.push(Step::Add(*key, wanted.options.clone())),
            Some(had) if had.options != wanted.options => steps.push(Step::Edit(*key, wanted.options.clone())),
            Some(_) => {}
        }
        let had = |addr: &SocketAddr| had.and_then(|entry| entry.dests.get(addr)).map(|dest| dest.weight);
        let mut lower = Vec::new();
        for (addr, dest) in &wanted.dests {
            match had(addr) {
                None => steps.push(Step::AddDest(*key, *addr, dest.weight)),
                Some(weight) if weight < dest.weight => steps.push(Step::EditDest(*key, *addr, dest.weight)),
                Some(weight) if weight > dest.weight => lower.push(Step::EditDest(*key, *addr, dest.weight)),
                Some(_) => {}
            }
        }
        // Destinations that serve come first, or there could be none in between.
        steps.extend(lower);
        let gone = held.get(key).into_iter().flat_map(|entry| entry.dests.keys());
        steps.extend(gone.filter(|addr| !wanted.dests.contains_key(addr)).map(|addr| Step::DeleteDest(*key, *addr)));
    }
    let ended = changes.iter().filter(|(key, wanted)| wanted.is_none() && held.contains_key(key));
    steps.extend(ended.map(|(key, _)| Step::Delete(*key)));
    steps
}

/// Runs steps, all or none: after an error, those that ran are undone.
///
/// # Errors
/// The kernel refuses a step.
pub(super) fn run(table: &mut Table, held: &Entries, steps: &[Step]) -> Result<(), Fault> {
    let mut undo = Vec::new();
    for step in steps {
        if let Err(error) = step.run(table) {
            for step in undo.iter().rev() {
                if let Err(error) = Step::run(step, table) {
                    tracing::warn!("cannot undo a failed change: cannot {step}: {error}");
                }
            }
            return Err(step.fault(&error));
        }
        step.undo(held, &mut undo);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::entry::Dest;
    use super::*;
    use proptest::prelude::*;

    fn key(last: u8) -> Key {
        Key { transport: Transport::Tcp, addr: SocketAddr::from(([192, 0, 2, last], 80)) }
    }

    fn entry() -> impl Strategy<Value = Entry> {
        let dests = prop::collection::btree_map(1u8..6, 0u32..4, 0..5);
        (prop::sample::select(vec!["wrr", "wlc"]), dests).prop_map(|(scheduler, dests)| Entry {
            name: "web".into(),
            options: Options { scheduler: scheduler.to_owned(), scheduler_flags: 0, persistent_s: None },
            masqueraded: false,
            dests: dests
                .into_iter()
                .map(|(last, weight)| {
                    (SocketAddr::from(([10, 0, 0, last], 80)), Dest { id: u32::from(last), weight, left: false })
                })
                .collect(),
        })
    }

    /// Applies a step as the kernel does.
    fn play(kernel: &mut Entries, step: &Step) {
        let strict = "the kernel would refuse it";
        match step {
            Step::Add(key, options) => {
                let entry =
                    Entry { name: "web".into(), options: options.clone(), masqueraded: false, dests: BTreeMap::new() };
                assert!(kernel.insert(*key, entry).is_none(), "{strict}");
            }
            Step::Edit(key, options) => kernel.get_mut(key).expect(strict).options = options.clone(),
            Step::Delete(key) => assert!(kernel.remove(key).is_some(), "{strict}"),
            Step::AddDest(key, addr, weight) => {
                let dest = Dest {
                    id: addr.ip().to_string().split('.').next_back().unwrap().parse().unwrap(),
                    weight: *weight,
                    left: false,
                };
                assert!(kernel.get_mut(key).expect(strict).dests.insert(*addr, dest).is_none(), "{strict}");
            }
            Step::EditDest(key, addr, weight) => {
                kernel.get_mut(key).expect(strict).dests.get_mut(addr).expect(strict).weight = *weight;
            }
            Step::DeleteDest(key, addr) => {
                assert!(kernel.get_mut(key).expect(strict).dests.remove(addr).is_some(), "{strict}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_change_is_reached_and_undone_from_any_step(
            held in prop::collection::btree_map((1u8..5).prop_map(key), entry(), 0..4),
            changes in prop::collection::btree_map((1u8..5).prop_map(key), prop::option::of(entry()), 0..4),
        ) {
            let mut wanted = held.clone();
            for (key, change) in &changes {
                match change {
                    Some(entry) => { wanted.insert(*key, entry.clone()); }
                    None => { wanted.remove(key); }
                }
            }
            let steps = between(&held, &changes);
            for stop in 0..=steps.len() {
                let (mut kernel, mut undo) = (held.clone(), Vec::new());
                for step in &steps[..stop] {
                    play(&mut kernel, step);
                    step.undo(&held, &mut undo);
                }
                if stop == steps.len() {
                    prop_assert_eq!(&kernel, &wanted);
                }
                for step in undo.iter().rev() {
                    play(&mut kernel, step);
                }
                prop_assert_eq!(&kernel, &held);
            }
        }
    }

    #[test]
    fn an_endpoint_that_left_keeps_its_connections() {
        let options = Options { scheduler: "wlc".to_owned(), scheduler_flags: 0, persistent_s: None };
        let addr = SocketAddr::from(([10, 0, 0, 1], 80));
        let serving = Dest { id: 1, weight: 5, left: false };
        let held =
            Entry { name: "web".into(), options: options.clone(), masqueraded: false, dests: [(addr, serving)].into() };
        let wanted = Entry { name: "web".into(), options, masqueraded: false, dests: BTreeMap::new() };
        let entry = with_left(Some(&held), wanted.clone(), &key(1));
        assert_eq!(entry.dests[&addr], Dest { id: 1, weight: 0, left: true });
        let datagrams = Key { transport: Transport::Udp, ..key(1) };
        assert_eq!(with_left(Some(&held), wanted, &datagrams).dests, BTreeMap::new());
    }
}
