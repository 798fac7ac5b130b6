//! Head and tries of a request, kept if a tap may want it or its trace is recorded.

use crate::core::Core;
use crate::observe::finished::FinishedRequest;
use crate::observe::traces::Trace;
use evenkeel_wire::head::Request;

/// A request that is handed to taps or to the span exporter at its end.
pub struct Export {
    /// Ids of the taps whose filters match the head.
    pub taps: Vec<u64>,
    pub request: FinishedRequest,
}

impl Export {
    /// Begins with a request's head; `None` if no tap wants it and its trace is not recorded.
    #[inline]
    pub fn begin(core: &Core, trace: Option<&Trace>, request: &Request<'_, '_>) -> Option<Box<Export>> {
        let taps = core.taps.wanting(request);
        if taps.is_none() && !trace.is_some_and(|trace| trace.is_recorded()) {
            return None;
        }
        Some(Box::new(Export { taps: taps.unwrap_or_default(), request: FinishedRequest::begin(request) }))
    }
}
