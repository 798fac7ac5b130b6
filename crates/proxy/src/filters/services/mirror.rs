//! Filter that copies requests for another pool, as the endpoint gets them. A request without a body is copied at once; a
//! body is copied while it passes, and the copy is sent once all of it has come.

use super::copied::copied;
use crate::body::fault::Unfit;
use crate::body::filter::{BodyFilter, Ended};
use crate::filters::exchange::{Copied, Exchange};
use crate::filters::filter::{Filter, RequestHead, Verdict};
use crate::filters::row::Build;
use crate::observe::stats::MirrorDrop;
use crate::peer::hash_key;
use crate::side::copy::{Mirror, RequestCopy};
use evenkeel_net::buffer::Buf;
use evenkeel_wire::head::{Request, Table};
use evenkeel_wire::http1::fields::{Stated, append};
use std::borrow::Cow;
use std::rc::Rc;

/// Field of copies. A request that has it is not copied.
const MARK: &str = "X-Evenkeel-Mirror";

struct Mirroring {
    to: Rc<Mirror>,
    /// Draws below this number, of 64 bits, are copied; `None` = all are.
    below: Option<u64>,
}

pub fn build(from: &Build<'_>) -> Option<Box<dyn Filter>> {
    let route = from.route.as_ref()?;
    let plan = route.plan.mirror.as_ref()?;
    let to = Mirror {
        pool: route.services?.mirror.clone()?,
        prober: route.prober.clone(),
        body_max: plan.body_max,
        in_flight_max: plan.in_flight_max as usize,
        timeout: plan.timeout,
    };
    // The cast saturates.
    let below = (plan.share < 1.0).then_some((plan.share * 2f64.powi(64)) as u64);
    Some(Box::new(Mirroring { to: Rc::new(to), below }))
}

impl Filter for Mirroring {
    fn request<'c>(&'c self, cx: &mut Exchange<'c>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        if cx.switches || self.below.is_some_and(|below| cx.core.draw() >= below) {
            return Verdict::Next;
        }
        let is_too_large = matches!(cx.framing, Stated::Length(length) if length > self.to.body_max);
        let dropped = if head.request.field(MARK).is_some() {
            MirrorDrop::CameBack
        } else if is_too_large {
            MirrorDrop::TooLarge
        } else if !self.to.has_room() {
            MirrorDrop::InFlightMax
        } else {
            cx.copied = Copied::Yes;
            let copy = self.copy(cx, head);
            match cx.framing {
                Stated::Nothing | Stated::Length(0) => copy.send(),
                _ => cx.copying.set(Some(copy)),
            }
            return Verdict::Next;
        };
        cx.copied = Copied::Dropped(dropped);
        self.to.drop_for(dropped);
        Verdict::Next
    }

    fn request_body(&self, cx: &Exchange<'_>, _: &Request<'_, '_>) -> Option<Box<dyn BodyFilter>> {
        Some(Box::new(CopiedBody(Some(cx.copying.take()?))))
    }

    fn did(&self, cx: &Exchange<'_>) -> Cow<'static, str> {
        match cx.copied {
            Copied::No => "".into(),
            Copied::Yes => format!("copied for pool \"{}\"", self.to.pool.name).into(),
            Copied::Dropped(why) => format!("not copied: {}", why.name()).into(),
        }
    }
}

impl Mirroring {
    /// A copy of the head with all changes to it.
    fn copy(&self, cx: &Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Box<RequestCopy> {
        let mut copy = copied(cx, head);
        append(&[MARK.as_bytes(), b": 1\r\n"], &mut copy.lines);
        let key = self.to.pool.plan().key().and_then(|key| hash_key::hash(key, head.request, cx.client()));
        self.to.copy(copy, key)
    }
}

/// A body that is copied while it passes; `None` once it was too large, or has ended.
struct CopiedBody(Option<Box<RequestCopy>>);

impl BodyFilter for CopiedBody {
    fn keeps_length(&self) -> bool {
        true
    }

    fn data(&mut self, from: &mut Buf, to: &mut Buf) -> Result<(), Unfit> {
        self.0.take_if(|copy| !copy.push(from.filled()));
        // Passed on without a copy.
        *to = std::mem::replace(from, Buf::none());
        Ok(())
    }

    fn end(&mut self, _: &mut Buf, _: &mut Table) -> Result<Ended, Unfit> {
        if let Some(copy) = self.0.take() {
            copy.send();
        }
        Ok(Ended::Whole)
    }
}
