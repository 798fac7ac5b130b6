//! The access log as an observer of a request: keeps the fields that its line needs, and writes the line at the end.

use crate::observe::access_log::{AccessLog, Line, NOWHERE};
use crate::observe::summary::Summary;
use crate::observe::tries::Try;
use crate::peer::address_text::AddressText;
use crate::record::progress::Progress;
use evenkeel_wire::head::{Fields, Request};
use std::cell::RefCell;

/// Parts of a log line that are kept while the request runs.
#[derive(Default)]
pub struct AccessLine {
    /// Fields of the request's head.
    asked: Vec<u8>,
    /// Fields of the response's head.
    answered: RefCell<Vec<u8>>,
    /// True if the layout contains fields of the response.
    wants_response: bool,
    /// Tries that ended without a response for the client.
    tries: Vec<Try>,
}

impl AccessLine {
    /// Begins the line of a request.
    pub fn begin(progress: &Progress<'_>, log: &AccessLog, request: &Request<'_, '_>) -> AccessLine {
        let mut asked = progress.core.scratch();
        log.layout.keep(request, progress.facts.trace.as_ref().map(|trace| trace.id_text()), &mut asked);
        AccessLine { asked, wants_response: log.layout.wants_response(), ..AccessLine::default() }
    }

    /// Adds a try that ended without a response for the client.
    pub fn try_ended(&mut self, one: Try) {
        self.tries.push(one);
    }

    /// Keeps the logged fields of the response that goes to the client.
    #[inline]
    pub fn answered(&self, progress: &Progress<'_>, fields: &Fields<'_, '_>) {
        if self.wants_response {
            self.keep_response(progress, fields);
        }
    }

    fn keep_response(&self, progress: &Progress<'_>, fields: &Fields<'_, '_>) {
        if let Some(log) = progress.core.log.borrow().as_ref().filter(|log| log.layout.wants_response()) {
            let mut answered = self.answered.borrow_mut();
            answered.clear();
            log.layout.keep_response(fields, &mut answered);
        }
    }

    /// Writes the line. The list of tries is left out if there was only one.
    pub fn ended(self, progress: &Progress<'_>, log: &mut AccessLog, summary: &Summary) {
        let AccessLine { asked, answered, mut tries, .. } = self;
        let (core, peer) = (progress.core, &progress.client.peer);
        let ip = peer.ip_text();
        let origin = progress.facts.origin.map(AddressText::of);
        let announced = peer.announced_by().map(AddressText::of);
        if summary.tries < 2 {
            tries.clear();
        } else {
            tries.extend(progress.last_try(tries.len(), summary));
        }
        let taken = progress.rules.named(progress.client.listener, progress.route);
        let client = origin.as_ref().map_or(ip, AddressText::as_bytes);
        let line = Line {
            client_port: if origin.is_some() { 0 } else { peer.port },
            peer: announced.as_ref().map(AddressText::as_bytes).or(origin.is_some().then_some(ip)),
            sent: progress.facts.pool.map_or(&NOWHERE, |pool| pool.named(progress.facts.endpoint.as_deref())),
            user: progress.facts.user.as_deref(),
            cache: progress.cache_result(),
            tls: peer.tls(),
            asked: &asked,
            answered: &answered.into_inner(),
            attempts: &tries,
            reason: progress.reason.get().map(|reason| &**reason),
            ..Line::new(progress.proto, progress.request_id(), client, taken, *summary)
        };
        log.add(&line, &core.clock);
        core.give_back(asked);
    }
}
