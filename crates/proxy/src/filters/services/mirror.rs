//! Filter that copies requests for other pools, as the endpoint gets them. A request without a body is copied at once.
//! A body is copied while it passes, and the copy is sent once the body is complete.

use super::copied::copied;
use crate::body::fault::Unfit;
use crate::body::filter::{BodyFilter, Ended, Pace};
use crate::filters::exchange::Exchange;
use crate::filters::filter::{DryRun, Filter, Own, Predict, RequestHead, Verdict};
use crate::filters::row::Build;
use crate::filters::step::Step;
use crate::observe::stats::MirrorDrop;
use crate::peer::hash_key;
use crate::side::copy::{Coming, Mirror, RequestCopy};
use crate::upstream::pool::WorkerPool;
use evenkeel_config::plan::{self, MIRRORS_MAX};
use evenkeel_net::buffer::Buf;
use evenkeel_wire::grpc::is_grpc;
use evenkeel_wire::head::{Request, Table};
use evenkeel_wire::http1::fields::{Stated, append};
use std::borrow::Cow;
use std::rc::Rc;

/// Field of copies. A request that has it is not copied.
const MARK: &str = "X-Evenkeel-Mirror";

struct Mirrors(Box<[Mirroring]>);

/// State of a request at the mirrors of its route.
struct Copies {
    /// Decisions, in the order of the mirrors.
    copied: [Copied; MIRRORS_MAX],
    /// Copies whose body is still to come.
    coming: Vec<Rc<Coming>>,
}

/// Decision of a mirror about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copied {
    No,
    Yes,
    /// Not copied although it was drawn, for this reason.
    Dropped(MirrorDrop),
}

/// A pool that gets copies, with its share of the requests.
struct Mirroring {
    to: Rc<Mirror>,
    /// Requests with a 64-bit draw below this number are copied; `None` = all requests.
    below: Option<u64>,
}

pub fn build(from: &Build<'_>) -> Option<Step> {
    let route = from.route.as_ref()?;
    let one = |(plan, pool): (&plan::Mirror, &Rc<WorkerPool>)| {
        let to = Mirror::new(pool, &route.plan.name, route.prober, plan);
        // The cast saturates.
        let below = (plan.share < 1.0).then_some((plan.share * 2f64.powi(64)) as u64);
        Mirroring { to: to.into(), below }
    };
    let all: Box<[_]> = route.plan.filters.mirrors.iter().zip(&*route.services?.mirrors).map(one).collect();
    (!all.is_empty()).then(|| Box::new(Mirrors(all)) as _)
}

impl Filter for Mirrors {
    type State = Copies;

    fn request(&self, own: &mut Own<Copies>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        if !cx.facts.switches {
            let mut copies = Copies { copied: [Copied::No; MIRRORS_MAX], coming: Vec::new() };
            for (mirror, copied) in self.0.iter().zip(&mut copies.copied) {
                *copied = mirror.request(cx, head, &mut copies.coming);
            }
            cx.facts.wants_body |= !copies.coming.is_empty();
            *own = Some(Box::new(copies));
        }
        Verdict::Next
    }

    fn request_body(
        &self,
        own: &mut Own<Copies>,
        _: &Exchange<'_>,
        _: &Request<'_, '_>,
    ) -> Option<Box<dyn BodyFilter>> {
        let copies = std::mem::take(&mut own.as_mut()?.coming);
        (!copies.is_empty()).then(|| Box::new(CopiedBody(copies)) as _)
    }

    fn did(&self, own: Option<&Copies>, _: &Exchange<'_>) -> Cow<'static, str> {
        let copied = own.into_iter().flat_map(|copies| copies.copied);
        let each = self.0.iter().zip(copied).filter_map(|(mirror, copied)| {
            let pool = &mirror.to.pool.name;
            match copied {
                Copied::No => None,
                Copied::Yes => Some(format!("copied for pool \"{pool}\"")),
                Copied::Dropped(why) if self.0.len() == 1 => Some(format!("not copied: {}", why.name())),
                Copied::Dropped(why) => Some(format!("not copied for pool \"{pool}\": {}", why.name())),
            }
        });
        each.collect::<Vec<_>>().join("; ").into()
    }
}

impl Predict for Mirrors {
    fn dry_run(&self, _: &mut Own<Copies>, _: &mut Exchange<'_>, _: &mut RequestHead<'_, '_, '_>) -> DryRun {
        DryRun::nothing()
    }
}

impl Mirroring {
    /// Draws whether to copy the request, and does so.
    fn request(
        &self,
        cx: &mut Exchange<'_>,
        head: &mut RequestHead<'_, '_, '_>,
        coming: &mut Vec<Rc<Coming>>,
    ) -> Copied {
        if self.below.is_some_and(|below| cx.core.draw() >= below) {
            return Copied::No;
        }
        let is_too_large = matches!(cx.facts.framing, Stated::Length(length) if length > self.to.body_max);
        let dropped = if head.request.field(MARK).is_some() {
            MirrorDrop::CameBack
        } else if is_too_large {
            MirrorDrop::TooLarge
        } else if !self.to.has_room() {
            MirrorDrop::InFlightMax
        } else {
            let is_call = head.request.field("content-type").is_some_and(is_grpc);
            let copy = self.copy(cx, head);
            match cx.facts.framing {
                Stated::Nothing | Stated::Length(0) => copy.send(),
                _ => coming.push(self.to.await_body(copy, is_call)),
            }
            return Copied::Yes;
        };
        self.to.drop_for(dropped);
        Copied::Dropped(dropped)
    }

    /// A copy of the head with all changes to it.
    fn copy(&self, cx: &Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> RequestCopy {
        let mut copy = copied(cx, head);
        append(&[MARK.as_bytes(), b": 1\r\n"], &mut copy.lines);
        let key = self.to.pool.plan().key().and_then(|key| hash_key::hash(key, head.request, cx.client()));
        self.to.copy(copy, key)
    }
}

/// A body that is copied while it passes, for each mirror whose limit it has not exceeded; empty once it has ended.
struct CopiedBody(Vec<Rc<Coming>>);

impl BodyFilter for CopiedBody {
    fn keeps_length(&self) -> bool {
        true
    }

    fn data(&mut self, from: &mut Buf, to: &mut Buf) -> Result<Pace, Unfit> {
        self.0.retain(|copy| copy.push(from.filled()));
        // Passed on without a copy.
        *to = std::mem::replace(from, Buf::none());
        Ok(Pace::On)
    }

    fn end(&mut self, _: &mut Buf, _: &mut Table) -> Result<Ended, Unfit> {
        self.0.drain(..).for_each(|copy| copy.send());
        Ok(Ended::Whole)
    }
}
