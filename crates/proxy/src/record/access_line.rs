//! Parts of a line of the access log that are kept while the request runs.

use crate::core::Core;
use crate::observe::access_log::AccessLog;
use crate::observe::traces::Trace;
use crate::observe::tries::Try;
use evenkeel_wire::head::{Fields, Request};
use std::cell::RefCell;

/// Parts of a log line that are kept while the request runs.
#[derive(Default)]
pub struct AccessLine {
    /// Fields of the request's head.
    pub asked: Vec<u8>,
    /// Fields of the response's head.
    pub answered: RefCell<Vec<u8>>,
    /// True if the layout contains fields of the response.
    wants_response: bool,
    /// Tries that ended without a response for the client.
    pub tries: Vec<Try>,
}

impl AccessLine {
    /// Begins the line of a request.
    pub fn begin(core: &Core, log: &AccessLog, trace: Option<&Trace>, request: &Request<'_, '_>) -> AccessLine {
        let mut asked = core.scratch();
        log.layout.keep(request, trace.map(|trace| trace.id_text()), &mut asked);
        AccessLine { asked, wants_response: log.layout.wants_response(), ..AccessLine::default() }
    }

    /// Keeps the logged fields of the response that goes to the client.
    #[inline]
    pub fn answered(&self, core: &Core, fields: &Fields<'_, '_>) {
        if self.wants_response {
            self.keep_response(core, fields);
        }
    }

    fn keep_response(&self, core: &Core, fields: &Fields<'_, '_>) {
        if let Some(log) = core.log.borrow().as_ref().filter(|log| log.layout.wants_response()) {
            let mut answered = self.answered.borrow_mut();
            answered.clear();
            log.layout.keep_response(fields, &mut answered);
        }
    }
}
