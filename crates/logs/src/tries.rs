//! Tries of a request at endpoints.

use crate::time::Span;

/// Tries that a request keeps. Further tries are counted only.
pub const TRIES_MAX: usize = 8;

/// Try at an endpoint. Values that the log lacks are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Try<'a> {
    /// Address or name of the endpoint, as written.
    pub endpoint: Option<&'a [u8]>,
    /// Time from the arrival of the request to the start of the try. Waits that the log lacks count as 0: pauses between
    /// tries, and the queue if its time is not logged. `None` for hedged requests, whose tries overlap.
    pub began: Option<Span>,
    /// Time to open the connection. `None` also if an idle connection was used.
    pub connect: Option<Span>,
    /// Time from the start of the try to the head of the response.
    pub ttfb: Option<Span>,
    /// Time from the start of the try to its end.
    pub took: Option<Span>,
    /// Status of the endpoint's response; of NGINX also 502 and 504 for tries without a response.
    pub status: Option<u16>,
    pub outcome: Outcome,
    /// Number of the internal redirect that led to the try, from 0. Only NGINX logs it.
    pub redirect: u8,
}

/// End of a try at an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// The log has no value that shows it.
    #[default]
    Unknown,
    /// The client got the response of this try.
    Answered,
    /// The endpoint accepted no connection. Of NGINX without connect times also: it did not respond.
    Refused,
    /// No connection or response in time.
    TimedOut,
    /// The connection broke, or the endpoint violated the protocol.
    Broken,
    /// The response had a status that is tried again.
    Retried,
    /// Another copy of a hedged request was faster.
    Overtaken,
    /// The client closed or reset the connection.
    Left,
}

/// Tries in the order of the log, without allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tries<'a> {
    kept: [Try<'a>; TRIES_MAX],
    count: u32,
}

impl<'a> Tries<'a> {
    /// Number of tries, including those that are not kept.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The first tries, at most [`TRIES_MAX`].
    pub fn kept(&self) -> &[Try<'a>] {
        &self.kept[..(self.count as usize).min(TRIES_MAX)]
    }

    pub(crate) fn kept_mut(&mut self) -> &mut [Try<'a>] {
        &mut self.kept[..(self.count as usize).min(TRIES_MAX)]
    }

    /// Try number `at` from 0, added with those before it if missing. `None` beyond [`TRIES_MAX`]: it is counted only.
    pub(crate) fn at(&mut self, at: usize) -> Option<&mut Try<'a>> {
        self.count = self.count.max(u32::try_from(at).unwrap_or(u32::MAX).saturating_add(1));
        self.kept.get_mut(at)
    }

    pub(crate) fn clear(&mut self) {
        *self = Tries::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_beyond_those_kept_are_counted() {
        let mut tries = Tries::default();
        for at in 0..20 {
            assert_eq!(tries.at(at).is_some(), at < TRIES_MAX);
        }
        assert_eq!((tries.count(), tries.kept().len(), tries.kept_mut().len()), (20, TRIES_MAX, TRIES_MAX));
        tries.clear();
        assert!(tries.kept().is_empty());
    }
}
