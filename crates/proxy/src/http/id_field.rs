//! What is a request called, and who is told? Its endpoint and its client, by a field, where its listener says so.

use super::record::Record;
use crate::observe::request_id::RequestId;
use evenkeel_config::plan::RequestIdField;
use evenkeel_wire::head::{Fields, Request};

impl Record<'_> {
    /// What it is called.
    pub fn request_id(&self) -> &RequestId {
        self.id.get_or_init(|| self.client.core.next_request_id())
    }

    /// Takes the name over that a trusted proxy gave it, where the listener has a field for that. No such field of the client's
    /// goes on.
    #[inline]
    pub fn take_id(&mut self, request: &mut Request<'_, '_>) {
        if let Some(rules) = &self.rules.plan.request_id {
            self.take_id_from(&rules.field, request);
            self.notes_response |= rules.respond;
        }
    }

    fn take_id_from(&self, field: &str, request: &mut Request<'_, '_>) {
        let taken = request.field(field).filter(|_| self.client.peer.is_trusted).and_then(RequestId::take);
        if let Some(taken) = taken {
            self.id.get_or_init(|| taken);
        }
        let Fields { bytes, rows } = &mut request.fields;
        for row in rows.iter_mut() {
            row.dropped |= is_like(row.name(bytes), field.as_bytes());
        }
    }

    /// The fields for its endpoint that say what it is called, and to which trace it belongs, each with the end of its line;
    /// empty where there are none. To be given back.
    pub fn names_for_endpoint(&self) -> Vec<u8> {
        if self.rules.plan.request_id.is_none() && self.trace.is_none() {
            return Vec::new();
        }
        let mut lines = self.client.core.scratch();
        if let Some(rules) = &self.rules.plan.request_id {
            self.write_id(rules, &mut lines);
        }
        self.write_trace(&mut lines);
        lines
    }

    /// Appends the field for its client, where it is told.
    pub fn write_id_for_client(&self, out: &mut Vec<u8>) {
        if let Some(rules) = self.rules.plan.request_id.as_ref().filter(|rules| rules.respond) {
            self.write_id(rules, out);
        }
    }

    fn write_id(&self, rules: &RequestIdField, out: &mut Vec<u8>) {
        out.extend_from_slice(rules.field.as_bytes());
        out.extend_from_slice(b": ");
        self.request_id().write(out);
        out.extend_from_slice(b"\r\n");
    }

    /// Whether its client is told by a field of the response.
    pub fn tells_id(&self) -> bool {
        self.rules.plan.request_id.as_ref().is_some_and(|rules| rules.respond)
    }
}

/// Whether a field is that one, or one that servers which make variables of fields take for it (`_` for `-`).
fn is_like(name: &[u8], field: &[u8]) -> bool {
    let alike = |(a, b): (&u8, &u8)| a.eq_ignore_ascii_case(b) || (*a == b'_' && *b == b'-');
    name.len() == field.len() && name.iter().zip(field).all(alike)
}
