//! Request as the endpoint gets it, kept for the rules of the cache until its response has come.

use evenkeel_wire::head::{Edits, Request, Table};

/// Copy of the head of a request, with the changes to its fields, but with the target and the host of the client.
pub struct Asked {
    method: Box<str>,
    target: Box<str>,
    host: Box<[u8]>,
    fields: Table,
}

impl Asked {
    /// Copies a request. `is_by_user`: its user is part of the key, so that its credentials are no reason against storing
    /// the response.
    pub fn of(request: &Request<'_, '_>, edits: &Edits, is_by_user: bool) -> Asked {
        let mut fields = Table::with_room(request.fields.bytes.len() + edits.added().len(), 24);
        let is_left_out = |name: &[u8]| is_by_user && name.eq_ignore_ascii_case(b"authorization");
        let kept = request.fields.kept().filter(|(name, _)| !is_left_out(name));
        kept.for_each(|(name, value)| fields.push(name, value));
        fields.push_lines(edits.added());
        Asked { method: request.method.into(), target: request.target.into(), host: request.host.into(), fields }
    }

    pub fn request(&mut self) -> Request<'_, '_> {
        Request { method: &self.method, target: &self.target, host: &self.host, fields: self.fields.fields() }
    }
}
