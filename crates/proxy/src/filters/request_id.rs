//! Request id: kept from a trusted proxy or generated, and sent to the endpoint and, if configured, to the client.

use super::exchange::Exchange;
use super::filter::{DryRun, Filter, Own, Predict, RequestHead, ResponseHead, Verdict};
use super::row::Build;
use super::step::Step;
use super::template::lines::is_like;
use crate::observe::request_id::RequestId;
use evenkeel_config::plan::RequestIdField;
use evenkeel_wire::head::Fields;
use std::borrow::Cow;

struct Id(RequestIdField);

pub fn build(from: &Build<'_>) -> Option<Step> {
    let field = from.listener.request_id.clone()?;
    Some(Box::new(Id(field)))
}

impl Id {
    fn write(&self, cx: &Exchange<'_>, lines: &mut Vec<u8>) {
        lines.extend_from_slice(self.0.field.as_bytes());
        lines.extend_from_slice(b": ");
        cx.request_id().write(lines);
        lines.extend_from_slice(b"\r\n");
    }
}

impl Filter for Id {
    type State = ();

    /// Replaces the field and its lookalikes by the request's id. Only the value of a trusted proxy is kept.
    fn request(&self, _: &mut Own<()>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        let field = &self.0.field;
        let taken = head.request.field(field).filter(|_| cx.peer.is_trusted).and_then(RequestId::take);
        if let Some(taken) = taken {
            cx.facts.id.get_or_init(|| taken);
        }
        let Fields { bytes, rows } = &mut head.request.fields;
        for row in rows.iter_mut() {
            row.dropped |= is_like(row.name(bytes), field.as_bytes());
        }
        self.write(cx, head.edits.lines());
        Verdict::Next
    }

    /// Adds the id to the final response, if configured.
    fn response(&self, _: &mut Own<()>, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        if self.0.respond {
            head.fields.leave_out(&self.0.field);
            self.write(cx, head.added);
        }
    }

    fn did(&self, _: Option<&()>, cx: &Exchange<'_>) -> Cow<'static, str> {
        let told = if self.0.respond { "endpoint and client" } else { "endpoint" };
        format!("{}: {} for the {told}", self.0.field, cx.request_id()).into()
    }
}

impl Predict for Id {
    fn dry_run(&self, _: &mut Own<()>, _: &mut Exchange<'_>, _: &mut RequestHead<'_, '_, '_>) -> DryRun {
        DryRun::nothing()
    }
}
