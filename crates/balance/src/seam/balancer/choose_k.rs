//! Which endpoints does an answer name? Several at once, for planes that hand out addresses and do not see how clients
//! use them, such as DNS.

use super::Balancer;
use crate::endpoints::set::Slot;
use crate::measurement::request::Request;
use crate::seam::picker::{NoPick, PickContext};
use crate::structures::time::Instant;

impl Balancer {
    /// Picks up to `k` different endpoints into `out`. First comes the one that a single request would get: clients
    /// mostly take the first. If fewer than `k` are eligible, picks all of them. Each is the algorithm's choice among
    /// those that are left, which for a weighted draw is a draw without replacement.
    ///
    /// Counts nothing as in flight, because no end will be reported. Only the algorithm's own turn moves, once for each
    /// call: the endpoint named second has not had its turn yet.
    ///
    /// # Errors
    /// Why no endpoint was picked; `out` is empty then.
    pub fn choose_k(
        &mut self,
        request: &Request<'_>,
        k: usize,
        now: Instant,
        out: &mut Vec<Slot>,
    ) -> Result<(), NoPick> {
        self.refresh(now);
        let set = &self.reader.get().set;
        let pickers = std::iter::once(&mut self.picker).chain(&mut self.overflow);
        let sets = std::iter::once(set).chain(set.overflow());
        let left_out = request.tried.len();
        out.clear();
        out.extend_from_slice(request.tried);
        let mut why = Ok(());
        for (picker, set) in pickers.zip(sets) {
            while out.len() < left_out + k {
                let (loads, key) = (&self.loads, request.key);
                let mut cx = PickContext { set, loads, now, rng: &mut self.rng, key, tried: out, trace: None };
                match picker.choose(&mut cx) {
                    Ok(slot) => {
                        if out.len() == left_out {
                            picker.on_start(slot, loads, now);
                        }
                        out.push(slot);
                    }
                    Err(refusal) => {
                        why = Err(refusal);
                        break;
                    }
                }
            }
            if out.len() > left_out || !matches!(why, Err(NoPick::AllFull | NoPick::AllTried)) {
                break;
            }
        }
        out.drain(..left_out);
        if out.is_empty() { why } else { Ok(()) }
    }
}
