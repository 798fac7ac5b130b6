//! Picks of several endpoints at once, for planes that hand out addresses and do not see how clients use them, such as
//! DNS.

use super::Balancer;
use crate::endpoints::set::{EndpointSet, Slot};
use crate::measurement::loads::Loads;
use crate::measurement::request::Request;
use crate::seam::picker::{NoPick, PickContext, Picker};
use crate::seam::tried::{Marks, Tried};
use crate::structures::rng::Rng;
use crate::structures::time::Instant;

impl Balancer {
    /// Picks up to `k` different endpoints into `out`, or all if fewer are eligible. The first is the endpoint that a
    /// single request would get, as clients mostly use the first. Each is the algorithm's choice among those that are
    /// left, which for a weighted draw is a draw without replacement.
    ///
    /// Nothing is counted as in flight, because no end will be reported. Only the algorithm's own turn moves, once per
    /// call: the endpoint in second place has not had its turn yet.
    ///
    /// # Errors
    /// The reason why no endpoint was picked; `out` is empty then.
    pub fn choose_k(
        &mut self,
        request: &Request<'_>,
        k: usize,
        now: Instant,
        out: &mut Vec<Slot>,
    ) -> Result<(), NoPick> {
        self.refresh(now);
        let set = &self.reader.get().set;
        let overflow = set.overflow().iter().zip(&mut self.overflow);
        let levels = std::iter::once((set, &mut self.picker)).chain(overflow);
        let answer = Answer { loads: &self.loads, rng: &mut self.rng, named: &mut self.named, now, k };
        answer.fill(levels, request, out)
    }
}

/// Inputs and scratch space of an answer.
pub(super) struct Answer<'b> {
    pub loads: &'b Loads,
    pub rng: &'b mut Rng,
    /// Endpoints to leave out. Empty before and after.
    pub named: &'b mut Marks,
    pub now: Instant,
    pub k: usize,
}

impl Answer<'_> {
    /// Fills `out` from the first set that has room. The other sets are tried in turn as long as all of a set are full
    /// or tried.
    pub fn fill<'s>(
        self,
        levels: impl Iterator<Item = (&'s EndpointSet, &'s mut Box<dyn Picker>)>,
        request: &Request<'_>,
        out: &mut Vec<Slot>,
    ) -> Result<(), NoPick> {
        let Answer { loads, rng, named, now, k } = self;
        out.clear();
        request.tried.iter().for_each(|slot| named.put(*slot));
        let mut why = Ok(());
        for (set, picker) in levels {
            while out.len() < k {
                let tried = Tried::Marked(named);
                let mut cx = PickContext { set, loads, now, rng, key: request.key, tried, trace: None };
                match picker.choose(&mut cx) {
                    Ok(slot) => {
                        if out.is_empty() {
                            picker.on_start(slot, loads, now);
                        }
                        named.put(slot);
                        out.push(slot);
                    }
                    Err(refusal) => {
                        why = Err(refusal);
                        break;
                    }
                }
            }
            if !out.is_empty() || !matches!(why, Err(NoPick::AllFull | NoPick::AllTried)) {
                break;
            }
        }
        request.tried.iter().chain(&*out).for_each(|slot| named.remove(*slot));
        if out.is_empty() { why } else { Ok(()) }
    }
}
