//! Filter that changes the fields of responses, of endpoints and of this proxy. It is the last one of a route, so it sees
//! what the client would get, but for what filters of the listener add.

use super::changes::{Changes, Keys};
use crate::filters::exchange::Exchange;
use crate::filters::filter::{Filter, RequestHead, ResponseHead, Verdict};
use crate::filters::row::Build;
use crate::filters::template::lines::each;
use crate::filters::template::parameters::Parameters;
use crate::filters::template::source::Source;
use crate::filters::template::value::Value;
use evenkeel_config::plan;
use std::borrow::Cow;
use std::rc::Rc;

struct ResponseHeaders {
    security: bool,
    changes: Changes,
    /// Values of the request that templates have, which are kept when it comes.
    kept: Box<[Value]>,
    summary: String,
}

/// Fields that browsers act on, and true for those that replace the endpoint's.
const SECURITY: [(&str, &str, bool); 3] = [
    // No endpoint can mean another value: it is the only one.
    ("X-Content-Type-Options", "nosniff", true),
    ("X-Frame-Options", "SAMEORIGIN", false),
    ("Referrer-Policy", "strict-origin-when-cross-origin", false),
];

pub fn build(from: &Build<'_>) -> Option<Box<dyn Filter>> {
    let route = from.route.as_ref()?.plan;
    let &plan::ResponseHeaders { security, ref remove, ref rename, ref set, ref add } = &route.response_headers;
    let keys = Keys { remove, rename, set, add };
    let mut kept = Vec::new();
    let value = |template: &_| Value::of_response(template, &route.name, &mut kept);
    let changes = Changes::new(&keys, value);
    if changes.is_empty() && !security {
        return None;
    }
    let path = Rc::new(Parameters::of_route(route));
    let kept = kept.into_iter().map(|variable| Value::of_variable(variable, &path)).collect();
    let summary = match (security, changes.is_empty()) {
        (true, true) => "security fields".to_string(),
        (true, false) => format!("security fields; {}", changes.summary()),
        (false, _) => changes.summary(),
    };
    Some(Box::new(ResponseHeaders { security, changes, kept, summary }))
}

impl Filter for ResponseHeaders {
    /// Keeps the values of the request that responses need: its head may be gone by then.
    fn request<'c>(&'c self, cx: &mut Exchange<'c>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        if !self.kept.is_empty() {
            let mut kept = Vec::with_capacity(self.kept.len());
            let source = Source { cx, request: Some(head.request), lines: &[], status: 0 };
            for value in &self.kept {
                let mut text = Vec::new();
                // A value that does not fit makes its field unfit: the mark is a control character.
                if value.render(&source, &mut text).is_err() {
                    text.push(0);
                }
                kept.push(text);
            }
            cx.kept = kept;
        }
        Verdict::Next
    }

    fn response(&self, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        let (mut rendered, mut memory) = (cx.core.scratch(), cx.core.scratch());
        if self.security && head.status != 101 {
            add_security(head, &mut memory);
        }
        let source = Source { cx, request: None, lines: &[], status: head.status };
        // The client has to get a response: those fields that fit are sent.
        let _ = self.changes.render(&source, &mut rendered);
        self.changes.apply(head.fields, head.added, &rendered, &mut memory);
        for mut used in [rendered, memory] {
            used.clear();
            cx.core.give_back(used);
        }
    }

    fn did(&self, _: &Exchange<'_>) -> Cow<'static, str> {
        self.summary.clone().into()
    }
}

/// Adds the fields of [`SECURITY`]. `memory` is empty before and after.
fn add_security(head: &mut ResponseHead<'_, '_, '_>, memory: &mut Vec<u8>) {
    for (name, value, replaces) in SECURITY {
        if replaces {
            head.fields.leave_out(name);
        } else {
            let is_it = |(known, _): (&[u8], &[u8])| known.eq_ignore_ascii_case(name.as_bytes());
            if head.fields.kept().any(is_it) || each(head.added).any(is_it) {
                continue;
            }
        }
        evenkeel_wire::http1::fields::append(&[name.as_bytes(), b": ", value.as_bytes(), b"\r\n"], memory);
    }
    head.added.append(memory);
}
