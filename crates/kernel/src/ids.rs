//! Numbers of endpoints in the kernel: dense, and kept as long as the kernel may have flows to them.

use crate::service::ID_MAX;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

/// Name of the pool, and address in it.
pub type Key = (Arc<str>, SocketAddr);

/// Numbers in use, and those that are free.
#[derive(Debug, Default)]
pub struct Ids {
    /// By pool, so that a change costs as much as its pool has.
    of: HashMap<Arc<str>, HashMap<SocketAddr, u32>>,
    /// Numbers of endpoints that an earlier process had, not yet claimed by a pool.
    adopted: HashMap<SocketAddr, Vec<u32>>,
    /// Numbers of endpoints that left, while flows to them may be open.
    left: BTreeSet<u32>,
    free: Vec<u32>,
    /// Numbers that are not free.
    taken: HashSet<u32>,
    highest: u32,
}

impl Ids {
    /// Notes the number that an endpoint has in the kernel since an earlier process.
    pub fn adopt(&mut self, addr: SocketAddr, id: u32) {
        if id == 0 || id >= ID_MAX || !self.taken.insert(id) {
            return;
        }
        if id <= self.highest {
            self.free.retain(|free| *free != id);
        }
        self.free.extend(self.highest + 1..id);
        self.highest = self.highest.max(id);
        self.adopted.entry(addr).or_default().push(id);
    }

    /// Returns the number of an endpoint, a new number if it has none; `None` if there are too many endpoints.
    pub fn of(&mut self, key: &Key) -> Option<u32> {
        if let Some(id) = self.of.get(&key.0).and_then(|pool| pool.get(&key.1)) {
            return Some(*id);
        }
        let adopted = self.adopted.get_mut(&key.1).and_then(Vec::pop);
        let id = adopted.or_else(|| self.free.pop()).or_else(|| {
            let next = self.highest + 1;
            (next < ID_MAX).then(|| {
                self.highest = next;
                next
            })
        })?;
        self.taken.insert(id);
        self.of.entry(key.0.clone()).or_default().insert(key.1, id);
        Some(id)
    }

    /// Retires the numbers of endpoints of a pool that are not `used`, and returns them: flows to them may still be
    /// open.
    pub fn retire(&mut self, pool: &Arc<str>, used: impl Fn(SocketAddr) -> bool) -> Vec<u32> {
        let Some(known) = self.of.get_mut(pool) else { return Vec::new() };
        let left: Vec<u32> = known.extract_if(|addr, _| !used(*addr)).map(|(_, id)| id).collect();
        if known.is_empty() {
            self.of.remove(pool);
        }
        self.left.extend(&left);
        left
    }

    /// Retires the numbers of all pools but those that are `kept`, and those that were adopted and not claimed.
    pub fn retire_others(&mut self, kept: impl Fn(&Arc<str>) -> bool) -> Vec<u32> {
        let pools = self.of.extract_if(|pool, _| !kept(pool)).flat_map(|(_, known)| known.into_values());
        let left: Vec<u32> = pools.chain(self.adopted.drain().flat_map(|(_, ids)| ids)).collect();
        self.left.extend(&left);
        left
    }

    /// Frees retired numbers to which no flow is open.
    pub fn free(&mut self, is_idle: impl Fn(u32) -> bool) {
        let idle: Vec<u32> = self.left.iter().copied().filter(|id| is_idle(*id)).collect();
        for id in idle {
            self.left.remove(&id);
            self.taken.remove(&id);
            self.free.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(port: u16) -> Key {
        ("web".into(), ([127, 0, 0, 1], port).into())
    }

    #[test]
    fn numbers_are_dense_and_stay() {
        let mut ids = Ids::default();
        assert_eq!([key(1), key(2), key(1), key(3)].map(|key| ids.of(&key)), [Some(1), Some(2), Some(1), Some(3)]);
    }

    #[test]
    fn a_number_is_free_once_its_flows_have_ended() {
        let mut ids = Ids::default();
        let _ = [key(1), key(2)].map(|key| ids.of(&key));
        assert_eq!(ids.retire(&key(1).0, |addr| addr.port() == 2), [1]);
        assert_eq!(ids.of(&key(3)), Some(3));
        ids.free(|_| false);
        assert_eq!(ids.of(&key(4)), Some(4));
        ids.free(|id| id == 1);
        assert_eq!(ids.of(&key(5)), Some(1));
    }

    #[test]
    fn pools_that_end_and_endpoints_of_before_give_their_numbers_back() {
        let mut ids = Ids::default();
        ids.adopt(key(9).1, 1);
        let other: Key = ("other".into(), key(1).1);
        assert_eq!([key(1), other].map(|key| ids.of(&key)), [Some(2), Some(3)]);
        let mut left = ids.retire_others(|pool| **pool == *"web");
        left.sort_unstable();
        assert_eq!(left, [1, 3]);
        ids.free(|_| true);
        let mut free = [key(2), key(3)].map(|key| ids.of(&key));
        free.sort_unstable();
        assert_eq!(free, [Some(1), Some(3)]);
    }

    #[test]
    fn an_endpoint_keeps_its_number_over_a_restart() {
        let mut ids = Ids::default();
        ids.adopt(key(1).1, 3);
        ids.adopt(key(2).1, 1);
        ids.adopt(key(9).1, 3);
        ids.adopt(key(8).1, 0);
        assert_eq!([key(2), key(1), key(3), key(4)].map(|key| ids.of(&key)), [Some(1), Some(3), Some(2), Some(4)]);
    }
}
