//! The record of a request: its events in order, each passed to the observers that want it (access log, taps and
//! traces, explanations, counters). Without an observer, an event costs one branch each. All of them read the
//! [`progress`].

mod access_line;
mod counters;
pub mod explanation;
mod export;
pub mod grpc;
mod progress;

use crate::body::response::Response;
use crate::listener::client::Client;
use crate::listener::rules::Rules;
use crate::observe::end::Cause;
use crate::observe::stats;
use crate::observe::tries::{How, TryStart, failure_text};
use crate::record::access_line::AccessLine;
use crate::record::explanation::Explanation;
use crate::record::export::Export;
use crate::record::progress::Progress;
use crate::upstream::pick::InFlight;
use crate::upstream::pool::{Endpoint, WorkerPool};
use evenkeel_balance::retry::Failure;
use evenkeel_balance::{Clock, Slot};
use evenkeel_config::plan::Errors;
use evenkeel_wire::head::{Fields, Request};
use evenkeel_wire::http1::translate::phrase;
use std::borrow::Cow;
use std::ops::{Deref, DerefMut};

/// A request: its progress, and its observers.
pub struct Record<'c> {
    progress: Progress<'c>,
    observers: Observers,
}

/// Optional observers of a request.
#[derive(Default)]
struct Observers {
    /// The access log, if it is on.
    line: Option<AccessLine>,
    /// Taps and traces, if one wants the request.
    export: Option<Box<Export>>,
    /// Explanation, if the picks are to be explained.
    explanation: Option<Box<Explanation>>,
}

impl<'c> Deref for Record<'c> {
    type Target = Progress<'c>;

    #[inline]
    fn deref(&self) -> &Progress<'c> {
        &self.progress
    }
}

impl<'c> DerefMut for Record<'c> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Progress<'c> {
        &mut self.progress
    }
}

impl<'c> Record<'c> {
    /// Begins the record of a request whose head is being read.
    pub fn new(client: &'c Client<'c>, rules: &'c Rules) -> Record<'c> {
        Record { progress: Progress::new(client, rules), observers: Observers::default() }
    }

    /// The explanation in progress; `None` unless this request is explained.
    #[inline]
    pub fn explanation(&self) -> Option<&Explanation> {
        self.observers.explanation.as_deref()
    }

    /// Notes that the head was read and has passed the filters of its listener.
    pub fn note_asked(&mut self, request: &Request<'_, '_>) {
        self.method = stats::method_index(request.method);
        self.observers.export = Export::begin(self, request);
        if let Some(log) = &*self.core.log.borrow() {
            self.observers.line = Some(AccessLine::begin(self, log, request));
        }
    }

    /// Notes the route and pool of the request.
    #[inline]
    pub fn note_routed(&mut self, request: &mut Request<'_, '_>, route: usize, pool: Option<&'c WorkerPool>) {
        self.route = route;
        self.facts.pool = pool;
        let Some(pool) = pool else { return };
        let trigger = self.core.explanations.trigger(request, &pool.name);
        self.observers.explanation = trigger.map(|trigger| Explanation::begin(trigger, request, self.core.clock.now()));
    }

    /// Notes the start of a try.
    #[inline]
    pub fn note_try_began(&mut self, pool: &WorkerPool, ticket: &InFlight<'_>, how: How) {
        self.tries += 1;
        self.current_try = TryStart { at: ticket.began(), number: self.tries, how };
        if let Some(explanation) = &self.observers.explanation {
            explanation.try_began(pool, ticket, how);
        }
    }

    /// Notes that the current try at `slot` failed, by the fault of `by`. `reply` is what the client gets if no other
    /// try follows.
    #[cold]
    pub fn note_try_failed(&mut self, slot: Slot, failure: Option<Failure>, by: Cause, reply: Option<&Response>) {
        if let Some(explanation) = &self.observers.explanation {
            let why = reply.map(Response::why);
            explanation.try_failed(slot, why.as_deref().unwrap_or(by.text()));
        }
        if let Some(endpoint) = self.facts.endpoint.clone() {
            self.note_try_ended(&endpoint, self.current_try, failure_text(failure, by));
        }
    }

    /// Notes a try that ended without a response for the client.
    #[cold]
    pub fn note_try_ended(&mut self, endpoint: &Endpoint, start: TryStart, end: impl Into<Cow<'static, str>>) {
        let is_logged = self.core.log.borrow().is_some();
        if !is_logged && self.observers.export.is_none() {
            return;
        }
        let one = self.try_of(endpoint, start, end.into());
        if let Some(export) = &mut self.observers.export {
            export.try_ended(one.clone());
        }
        if is_logged {
            self.observers.line.get_or_insert_default().try_ended(one);
        }
    }

    /// Notes the fields of the response that goes to the client.
    #[inline]
    pub fn note_response(&self, fields: &mut Fields<'_, '_>) {
        if let Some(line) = &self.observers.line {
            line.answered(self, fields);
        }
    }

    /// Passes the end of the request to the counters and observers.
    fn note_ended(&mut self) {
        counters::ended(self, &self.summary());
        let Observers { export, explanation, .. } = &self.observers;
        if explanation.is_some() || export.is_some() || self.core.log.borrow().is_some() {
            self.observers_end();
        }
    }

    /// Passes the end to the optional observers. Kept out of line for requests that have none.
    #[inline(never)]
    fn observers_end(&mut self) {
        let (core, summary) = (self.core, self.summary());
        if let Some(explanation) = self.observers.explanation.take() {
            explanation.ended(self, &summary);
        }
        if let Some(export) = self.observers.export.take() {
            export.ended(self, &summary);
        }
        if let Some(log) = &mut *core.log.borrow_mut() {
            let line = self.observers.line.take().unwrap_or_default();
            line.ended(self, log, &summary);
        }
    }
}

/// Texts of responses that this proxy generates.
impl Record<'_> {
    /// The line of text that the client reads instead of an endpoint's response. Also notes the reason for the access
    /// log.
    #[cold]
    pub fn text_of(&self, response: &Response) -> String {
        let why = response.why();
        self.note_reason(&why);
        let is_logged = self.client.core.log.borrow().is_some();
        // The client gets the id only if it can be found in the log or was passed on to others.
        let is_known = is_logged || self.rules.plan.request_id.is_some();
        let (status, phrase) = (response.status, phrase(response.status));
        match self.rules.plan.errors {
            Errors::Detailed => format!("{status} {phrase}: {why}\n"),
            Errors::Terse if is_known => format!("{status} {phrase} (request {})\n", self.request_id()),
            Errors::Terse => format!("{status} {phrase}\n"),
        }
    }

    /// Keeps the reason why no response, or only part of one, came from an endpoint. The first reason counts.
    #[cold]
    pub fn note_reason(&self, why: &str) {
        if self.core.log.borrow().is_some() || self.observers.export.is_some() {
            self.reason.get_or_init(|| why.into());
        }
    }
}

/// Counts and logs the request, even one dropped half-way because its client vanished or the process ends.
impl Drop for Record<'_> {
    fn drop(&mut self) {
        self.note_ended();
    }
}
