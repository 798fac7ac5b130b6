//! Request as the endpoint gets it, kept for the rules of the cache until its response has arrived.

use evenkeel_wire::head::{Edits, Request, Table};

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
