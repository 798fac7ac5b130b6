//! What of a request's way and of its response is noted for the log and for those who watch? Tries that came to nothing, and fields of the
//! response.

use super::record::Record;
use super::try_end::{self, Began, TryEnd};
use crate::observe::access_log::Attempt;
use crate::observe::end::Cause;
use crate::upstream::pool::Endpoint;
use evenkeel_balance::Clock;
use evenkeel_balance::retry::Failure;
use evenkeel_wire::head::Fields;
use std::borrow::Cow;
use std::rc::Rc;

impl Record<'_> {
    /// Notes how the try that began last has failed, and who ended it.
    #[cold]
    pub fn note_failed(&self, failure: Option<Failure>, by: Cause) {
        if let Some(endpoint) = &self.endpoint {
            self.note_try(endpoint, self.began_try, try_end::cause(failure, by));
        }
    }

    /// Notes how a try has ended that brought no response.
    #[cold]
    pub fn note_try(&self, endpoint: &Rc<Endpoint>, began: Began, cause: impl Into<Cow<'static, str>>) {
        if self.watched.is_some() || self.client.core.log.borrow().is_some() {
            let ns = self.client.core.clock.now().since(began.at);
            self.tried.borrow_mut().push(TryEnd { endpoint: endpoint.clone(), cause: cause.into(), began, ns });
        }
    }

    /// Each try, if there were several. `tried`: those that came to nothing.
    pub(super) fn attempts<'t>(&'t self, tried: &'t [TryEnd]) -> Vec<Attempt<'t>> {
        if self.tries < 2 {
            return Vec::new();
        }
        let mut all = Vec::with_capacity(tried.len() + 1);
        for TryEnd { endpoint, cause, ns, .. } in tried {
            all.push(Attempt { endpoint: &endpoint.name, cause: cause.clone(), ns: *ns });
        }
        if let Some((last, cause)) = self.last_try(tried) {
            let ns = self.client.core.clock.now().since(self.began_try.at);
            all.push(Attempt { endpoint: &last.name, cause: cause.into(), ns });
        }
        all
    }

    /// Where the last try went, unless it came to nothing, and how it ended.
    pub(super) fn last_try(&self, tried: &[TryEnd]) -> Option<(&Endpoint, &'static str)> {
        let last = self.endpoint.as_deref().filter(|_| (tried.len() as u64) < u64::from(self.tries))?;
        let cause = match self.cause.get() {
            Cause::Normal => "answered",
            cause => Cause::LABELS[cause as usize],
        };
        Some((last, cause))
    }

    /// Looks at the fields of the response that goes to the client: what the log is to have of them, and what is said of the
    /// request's name, which is said once.
    #[inline]
    pub fn note_response(&self, fields: &mut Fields<'_, '_>) {
        if self.notes_response {
            self.note_fields(fields);
        }
    }

    fn note_fields(&self, fields: &mut Fields<'_, '_>) {
        if let Some(log) = self.client.core.log.borrow().as_ref().filter(|log| log.lines.wants_response()) {
            let mut answered = self.answered.borrow_mut();
            answered.clear();
            log.lines.keep_response(fields, &mut answered);
        }
        if let Some(rules) = self.rules.plan.request_id.as_ref().filter(|rules| rules.respond) {
            fields.leave_out(&rules.field);
        }
    }
}
