//! Request that the cache of a route sends to an endpoint, kept for its rules until the response has arrived.

use crate::cache::Entry;
use crate::cache::flights::Lead;
use evenkeel_cache::key::Key;
use evenkeel_cache::lookup::Lookup;
use evenkeel_cache::moment::Moment;
use evenkeel_cache::status::Forward;
use evenkeel_cache::store::Sequence;
use evenkeel_wire::head::{Edits, Request, Table};
use std::sync::Arc;

/// Request to an endpoint, as the rules read it.
pub struct Question {
    pub asked: Asked,
    pub lookup: Lookup,
    pub key: Key,
    pub sent: Moment,
    /// Point in the order of purges at which the request was sent.
    pub began: Sequence,
}

/// Fetch for a client's request, whose response may be stored.
pub struct Fetch {
    pub question: Question,
    /// Stored response that is to be validated, or served if the endpoint fails.
    pub entry: Option<Arc<Entry>>,
    /// Moment of the soft purge that covers it.
    pub stale_from: Option<Moment>,
    pub forward: Forward,
    /// Duty to notify the requests that wait for the response.
    pub lead: Option<Lead>,
    /// True if the request has waited for the request of another client.
    pub is_collapsed: bool,
    /// Target, host and place of a request for a part of a response that is not stored.
    pub part: Option<Box<Part>>,
    /// Target, host and place of a request that validates a stored response: its endpoint may have another response.
    pub again: Option<Box<Part>>,
}

/// Request as the endpoint gets it, with the values that another request for the whole response needs.
pub struct Part {
    pub target: Box<str>,
    /// Host; `None` for the host of the endpoint.
    pub host: Option<Box<[u8]>>,
    /// Hash of the request for the algorithm of its pool.
    pub hash: Option<u64>,
}

/// Copy of the head of a request, with the changes to its fields, but with the target and the host of the client.
pub struct Asked {
    method: Box<str>,
    target: Box<str>,
    host: Box<[u8]>,
    fields: Table,
}

impl Asked {
    pub fn of(request: &Request<'_, '_>, edits: &Edits) -> Asked {
        let mut fields = Table::with_room(request.fields.bytes.len() + edits.added().len(), 24);
        request.fields.kept().for_each(|(name, value)| fields.push(name, value));
        fields.push_lines(edits.added());
        Asked { method: request.method.into(), target: request.target.into(), host: request.host.into(), fields }
    }

    /// Same request without some fields.
    pub fn without(&self, names: &[&str]) -> Asked {
        let is_left_out = |name: &[u8]| names.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        let fields = self.fields.iter().filter(|(name, _)| !is_left_out(name)).collect();
        Asked { method: self.method.clone(), target: self.target.clone(), host: self.host.clone(), fields }
    }

    /// Fields of the request, with the changes to them.
    pub fn fields(&self) -> &Table {
        &self.fields
    }

    pub fn request(&mut self) -> Request<'_, '_> {
        Request { method: &self.method, target: &self.target, host: &self.host, fields: self.fields.fields() }
    }
}
