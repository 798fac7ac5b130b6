//! Effect of the cache of a route on a response, as clients, counters and explanations get it.

use super::counts::{CacheCounts, CacheResult};
use super::reasons::{FURTHER, NO_RESPONSE, PART, REASONS, Reason, WHOLE};
use evenkeel_cache::refusal::{Bypass, Refusal};
use evenkeel_cache::status::{CacheStatus, Forward};
use std::cell::Cell;
use std::rc::Rc;

/// Effect of the cache on a response that has begun.
pub struct Cached {
    planned: Outcome,
    /// Fate of a response that is stored once its body is complete.
    fate: Option<Fate>,
    /// True once it was counted: a response that replaces this one passes the cache, too.
    is_counted: Cell<bool>,
}

/// Reason why a response that was to be stored is not, known at its end at the latest. Shared with its body.
pub type Fate = Rc<Cell<Option<Refusal>>>;

impl Cached {
    /// Effect on a response that is not stored, or was stored before.
    pub fn known(outcome: Outcome) -> Cached {
        Cached { planned: outcome, fate: None, is_counted: Cell::new(false) }
    }

    /// Effect on a response that is stored once its body is complete.
    pub fn storing(planned: Outcome, fate: Fate) -> Cached {
        Cached { planned, fate: Some(fate), is_counted: Cell::new(false) }
    }

    /// Counts a response whose effect is known. One whose body is still to come counts at its end.
    pub fn count(&self, counts: &CacheCounts) {
        if self.fate.is_none() && !self.is_counted.replace(true) {
            self.outcome().count(counts);
        }
    }

    /// Effect on the response, as far as it is known.
    pub fn outcome(&self) -> Outcome {
        self.planned.but(self.fate.as_ref().and_then(|fate| fate.get()))
    }
}

/// Effect of the cache on a response, as clients, counters and explanations get it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Reason why the endpoint was asked; `None` for a hit.
    pub forward: Option<Forward>,
    /// Status of the endpoint, if the client gets another status.
    pub forward_status: Option<u16>,
    /// Seconds of freshness that are left, negative if it is stale.
    pub ttl: Option<i64>,
    /// True if the response is stored, or will be once its body is complete.
    pub is_stored: bool,
    pub is_collapsed: bool,
    /// Bytes of the body that the cache served.
    pub bytes: usize,
    /// Reason why nothing was stored or looked up.
    pub why: Option<Why>,
}

/// Reason why a response was not stored, or not looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    Bypass(Bypass),
    Refusal(Refusal),
    /// The request wants a stored response, and none is stored.
    OnlyIfCached,
    /// The endpoint has failed, and a stale response is served.
    Stale,
    /// The request is for a part, and the whole is not stored.
    Part,
    /// The request is for a part, and the whole is fetched behind it.
    Whole,
    /// The endpoint validates another response than the stored response.
    Mismatch,
}

impl Why {
    /// Place among [`super::reasons::reasons`] of a response that is not stored.
    fn place(self) -> Option<usize> {
        let further =
            |reason: &Reason| FURTHER.iter().position(|known| known == reason).map(|at| Refusal::ALL.len() + at);
        match self {
            Why::Refusal(refusal) => Refusal::ALL.iter().position(|known| *known == refusal),
            Why::Part => further(&PART),
            Why::Whole => further(&WHOLE),
            Why::Bypass(_) | Why::OnlyIfCached | Why::Stale | Why::Mismatch => None,
        }
    }

    pub fn text(self) -> &'static str {
        match self {
            Why::Bypass(bypass) => bypass.text(),
            Why::Refusal(refusal) => refusal.text(),
            Why::OnlyIfCached => "nothing stored for only-if-cached",
            Why::Stale => "stale, as the endpoint failed",
            Why::Part => PART.1,
            Why::Whole => WHOLE.1,
            Why::Mismatch => "the endpoint validated another response",
        }
    }
}

impl Outcome {
    /// Class of the outcome, of which each has a counter.
    pub fn result(&self) -> CacheResult {
        match (self.forward, self.why) {
            (None, Some(_)) | (_, Some(Why::Bypass(_))) => CacheResult::Passed,
            (None, None) if self.ttl.is_some_and(|ttl| ttl > 0) => CacheResult::Hit,
            (None, None) | (_, Some(Why::Stale)) => CacheResult::Stale,
            _ if self.forward_status == Some(304) => CacheResult::Renewed,
            _ if self.is_stored => CacheResult::Stored,
            _ => CacheResult::NotStored,
        }
    }

    /// Outcome if the response is not stored for this reason.
    pub fn but(self, refused: Option<Refusal>) -> Outcome {
        match refused {
            None => self,
            Some(refusal) => Outcome { ttl: None, is_stored: false, why: Some(Why::Refusal(refusal)), ..self },
        }
    }

    /// Counts a request with this outcome.
    pub fn count(&self, counts: &CacheCounts) {
        let CacheCounts { results, refused, collapsed, bytes, whole: _ } = counts;
        bytes.add(self.bytes as u64);
        results[self.result() as usize].add(1);
        collapsed.add(u64::from(self.is_collapsed));
        if self.result() == CacheResult::NotStored {
            refused[self.why.and_then(Why::place).unwrap_or(REASONS - 1)].add(1);
        }
    }

    /// Adds the line `Cache-Status` with its line end (RFC 9211).
    pub fn write(&self, out: &mut Vec<u8>) {
        let &Outcome { forward, forward_status, ttl, is_stored, is_collapsed, why, .. } = self;
        let detail = why.map(Why::text);
        out.extend_from_slice(b"Cache-Status: ");
        CacheStatus { forward, forward_status, ttl, is_stored, is_collapsed, key: None, detail }.write("evenkeel", out);
        out.extend_from_slice(b"\r\n");
    }

    /// Effect of the cache in a few words, for explanations.
    pub fn text(&self) -> String {
        let why = self.why.map_or(NO_RESPONSE.1, Why::text);
        let freshness = match self.ttl {
            Some(left @ 1..) => format!("fresh for {left} s more"),
            Some(over) => format!("stale for {} s", -over),
            None => "without a lifetime".to_owned(),
        };
        let asked = self.forward.map_or("", Forward::text);
        let did = match (self.result(), self.why) {
            (CacheResult::Hit, _) => format!("answered from the cache: {freshness}"),
            (CacheResult::Stale, Some(_)) => format!("answered from the cache, as the endpoint failed: {freshness}"),
            (CacheResult::Stale, None) => format!("answered from the cache, and validated behind it: {freshness}"),
            (CacheResult::Renewed, None) => format!("validated by the endpoint: {freshness}"),
            (CacheResult::Renewed, Some(_)) => format!("validated by the endpoint, and not stored again: {why}"),
            (CacheResult::Stored, _) => format!("{asked}; stored: {freshness}"),
            (CacheResult::NotStored, _) => format!("{asked}; not stored: {why}"),
            (CacheResult::Passed, _) => format!("passed the cache by: {why}"),
        };
        if self.is_collapsed { format!("waited for another request; {did}") } else { did }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::reasons::reasons;

    #[test]
    fn every_response_that_is_not_stored_has_one_reason() {
        let miss = Outcome { forward: Some(Forward::UriMiss), ..Outcome::default() };
        let refusals = Refusal::ALL.map(|refusal| Some(Why::Refusal(refusal)));
        for why in refusals.into_iter().chain([None, Some(Why::Part), Some(Why::Whole)]) {
            let counts = CacheCounts::default();
            Outcome { why, ..miss }.count(&counts);
            // A validated response does not count as not stored.
            Outcome { why, forward_status: Some(304), ..miss }.count(&counts);
            let refused: Vec<u64> = counts.refused.iter().map(|reason| reason.get()).collect();
            assert_eq!((counts.results[CacheResult::NotStored as usize].get(), refused.iter().sum::<u64>()), (1, 1));
            let at = refused.iter().position(|count| *count == 1).expect("a reason");
            assert_eq!(reasons()[at].1, why.map_or(NO_RESPONSE.1, Why::text));
        }
        let mut labels = reasons().map(|(label, _)| label);
        labels.sort_unstable();
        assert!(labels.windows(2).all(|pair| pair[0] != pair[1]), "{labels:?}");
    }

    #[test]
    fn explanations_are_in_words() {
        let hit = Outcome { ttl: Some(58), ..Outcome::default() };
        let miss = Outcome { forward: Some(Forward::UriMiss), ..hit };
        let why = |why| Outcome { why: Some(why), ttl: None, ..miss };
        for (outcome, text) in [
            (hit, "answered from the cache: fresh for 58 s more"),
            (Outcome { ttl: Some(-3), ..hit }, "answered from the cache, and validated behind it: stale for 3 s"),
            (Outcome { is_stored: true, ..miss }, "nothing was stored; stored: fresh for 58 s more"),
            (why(Why::Refusal(Refusal::Private)), "nothing was stored; not stored: private"),
            (why(Why::Bypass(Bypass::Method)), "passed the cache by: method is neither GET nor HEAD"),
            (
                Outcome { is_collapsed: true, ..hit },
                "waited for another request; answered from the cache: fresh for 58 s more",
            ),
            (
                Outcome { forward_status: Some(304), is_stored: true, ..miss },
                "validated by the endpoint: fresh for 58 s more",
            ),
        ] {
            assert_eq!(outcome.text(), text);
        }
    }
}
