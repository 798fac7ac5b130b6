//! Filter that changes the fields of requests. It is the last one, so it sees what the endpoint would get.

use super::changes::{Changes, Keys, TooLong};
use crate::body::response::Response;
use crate::filters::exchange::Exchange;
use crate::filters::filter::{Filter, RequestHead, Verdict};
use crate::filters::row::Build;
use crate::filters::template::parameters::Parameters;
use crate::filters::template::source::Source;
use crate::filters::template::value::Value;
use crate::filters::template::variables::is_own;
use evenkeel_config::plan;
use std::borrow::Cow;
use std::rc::Rc;

struct RequestHeaders {
    changes: Changes,
    summary: String,
}

pub fn build(from: &Build<'_>) -> Option<Box<dyn Filter>> {
    let route = from.route.as_ref()?.plan;
    let plan::RequestHeaders { remove, rename, set, add } = &route.request_headers;
    let (keys, path) = (Keys { remove, rename, set, add }, Rc::new(Parameters::of_route(route)));
    let value = |template: &_| Value::of_request(template, &path);
    let changes = Changes::new(&keys, value);
    let summary = changes.summary();
    (!changes.is_empty()).then(|| Box::new(RequestHeaders { changes, summary }) as _)
}

impl Filter for RequestHeaders {
    fn request<'c>(&'c self, cx: &mut Exchange<'c>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        // The client's own would be renamed and then pass for others.
        let bytes = head.request.fields.bytes;
        head.request.fields.rows.iter_mut().for_each(|row| row.dropped |= is_own(row.name(bytes)));
        let (mut rendered, mut memory) = (cx.core.scratch(), cx.core.scratch());
        let source = Source { cx, request: Some(head.request), lines: head.edits.added(), status: 0 };
        let fits = self.changes.render(&source, &mut rendered);
        if fits.is_ok() {
            self.changes.apply(&mut head.request.fields, head.edits.lines(), &rendered, &mut memory);
        }
        for mut used in [rendered, memory] {
            used.clear();
            cx.core.give_back(used);
        }
        match fits {
            Ok(()) => Verdict::Next,
            Err(TooLong(name)) => {
                Verdict::Answer(Response::new(431, format!("field \"{name}\" of request_headers would be too long")))
            }
        }
    }

    fn did(&self, _: &Exchange<'_>) -> Cow<'static, str> {
        self.summary.clone().into()
    }
}
