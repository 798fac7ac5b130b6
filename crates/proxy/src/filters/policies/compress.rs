//! Filter that compresses responses: the choice of the coding, and the changes to the heads of requests and responses.
//!
//! Requests pass it before all other filters of a route, so that it sees the codings that the client accepts, before
//! other filters change the fields for the endpoint. Responses pass it last: the cache stores them as they come, and
//! fields that other filters add count.

use super::compress_body::{Body, Chosen};
use super::compressed::{CompressState, Decision};
use crate::body::filter::BodyFilter;
use crate::cache::SharedCache;
use crate::cache::encodings::Form;
use crate::encoder_memory::{EncoderMemory, Lack};
use crate::filters::exchange::Exchange;
use crate::filters::filter::{Filter, Own, Pure, RequestHead, ResponseHead, Verdict};
use crate::filters::row::Build;
use crate::filters::step::Step;
use crate::observe::stats::RouteStats;
use evenkeel_compress::accept::preferred;
use evenkeel_compress::coding::{self, Coding};
use evenkeel_compress::encoder::Room;
use evenkeel_compress::media::Types;
use evenkeel_compress::refusal::Refusal;
use evenkeel_compress::response::{Response, Rules, code, is_no_transform, retag, vary};
use evenkeel_compress::tags;
use evenkeel_config::plan::{Algorithm, Compress, Effort};
use std::borrow::Cow;
use std::sync::Arc;

struct Compression {
    /// Codings in the order of preference.
    order: Vec<Coding>,
    /// Levels of [`Coding::ALL`].
    levels: [u8; Coding::ALL.len()],
    rules: Rules,
    /// Stored responses, whose bodies have encoded forms.
    cache: Arc<SharedCache>,
    memory: Arc<EncoderMemory>,
    stats: Arc<RouteStats>,
}

pub fn build(from: &Build<'_>) -> Option<Step> {
    let route = from.route.as_ref()?;
    let plan: &Compress = route.plan.filters.compress.as_ref()?;
    let effort = match plan.level.all {
        Effort::Fast => coding::Effort::Fast,
        Effort::Default => coding::Effort::Usual,
        Effort::Best => coding::Effort::Best,
    };
    let levels = Coding::ALL.map(|coding| {
        let own = match coding {
            Coding::Zstd => plan.level.zstd,
            Coding::Brotli => plan.level.br,
            Coding::Gzip => plan.level.gzip,
        };
        own.unwrap_or(coding.level(effort))
    });
    let coding = |algorithm: &Algorithm| match algorithm {
        Algorithm::Zstd => Coding::Zstd,
        Algorithm::Brotli => Coding::Brotli,
        Algorithm::Gzip => Coding::Gzip,
    };
    let types = Types::new(plan.types.iter().map(|pattern| &**pattern));
    Some(Box::new(Compression {
        order: plan.algorithms.iter().map(coding).collect(),
        levels,
        rules: Rules { types, min_length: plan.min_length },
        cache: from.resources.of::<SharedCache>().clone(),
        memory: from.resources.of::<EncoderMemory>().clone(),
        stats: route.route_stats.clone(),
    }))
}

impl Filter for Compression {
    type State = CompressState;

    fn request(
        &self,
        own: &mut Own<CompressState>,
        cx: &mut Exchange<'_>,
        head: &mut RequestHead<'_, '_, '_>,
    ) -> Verdict {
        let coding = if cx.facts.is_http10 {
            Err(Refusal::Http10)
        } else if head.request.values("cache-control").any(is_no_transform) {
            Err(Refusal::NoTransformAsked)
        } else {
            preferred(head.request.values("accept-encoding"), &self.order).ok_or(Refusal::NotAccepted)
        };
        let asked = match coding {
            Ok(coding) => tell_tags(head, "If-None-Match", &[coding]),
            Err(_) => Vec::new(),
        };
        // A range belongs to the plain response: it must not be joined with ranges of a compressed response.
        if head.request.field("range").is_none() {
            tell_tags(head, "If-Match", &self.order);
        }
        let values = || head.request.values("accept-encoding");
        let takes_gzip = coding.is_ok_and(|coding| {
            let usual = self.chosen(coding, Room::Usual);
            coding == Coding::Gzip
                || self.memory.is_tight(usual.memory(), usual.share())
                    && self.order.contains(&Coding::Gzip)
                    && preferred(values(), &[Coding::Gzip]).is_some()
        });
        cx.facts.takes_coding = coding.is_ok();
        *own = Some(Box::new(CompressState {
            coding,
            takes_gzip,
            asked,
            is_head: head.request.is_head(),
            decision: Decision::None,
            tally: Default::default(),
            stats: self.stats.clone(),
        }));
        Verdict::Next
    }

    fn response(&self, own: &mut Own<CompressState>, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        let Some(state) = own else { return };
        state.decision = Decision::None;
        match head.status {
            304 => self.not_modified(state, head),
            _ => state.decision = self.decide(state, cx.facts.switches, head),
        }
    }

    fn response_body(
        &self,
        own: &mut Own<CompressState>,
        _: &Exchange<'_>,
        head: &ResponseHead<'_, '_, '_>,
    ) -> Option<Box<dyn BodyFilter>> {
        let state = own.as_ref()?;
        let Decision::Compressed(coding, room) = state.decision else { return None };
        if state.is_head && head.length.is_none() {
            // Nothing follows, and the head states no length.
            return None;
        }
        Some(Box::new(Body::new(self.chosen(coding, room), self.memory.clone(), state.tally.clone())))
    }

    fn did(&self, own: Option<&CompressState>, _: &Exchange<'_>) -> Cow<'static, str> {
        own.map(CompressState::text).unwrap_or_default().into()
    }
}

impl Pure for Compression {}

impl Compression {
    /// Decides on the compression of a response, and changes its head. `switches`: the request wants to switch
    /// protocols.
    fn decide(&self, state: &CompressState, switches: bool, head: &mut ResponseHead<'_, '_, '_>) -> Decision {
        let response =
            Response { status: head.status, is_empty: head.ends && !state.is_head, length: head.length, switches };
        let room = match self.rules.check(&response, head.fields, head.added) {
            Ok(room) => room,
            Err(refusal) => return Decision::Refused(refusal),
        };
        vary(head.fields, head.added);
        let coding = match state.coding {
            Ok(coding) => coding,
            Err(refusal) => return Decision::Refused(refusal),
        };
        let form = head.whole.take().map_or(Form::None, |whole| self.cache.encoded(*whole, coding));
        let decision = match form {
            Form::NoSmaller => return Decision::Refused(Refusal::NoSmaller),
            Form::None => match self.fitting(state.takes_gzip, self.chosen(coding, room), head) {
                Some(chosen) => Decision::Compressed(chosen.coding, chosen.room),
                None => return Decision::Refused(Refusal::NoMemory),
            },
            Form::Encoded(body) => {
                let lengths = [head.length.unwrap_or_default(), body.len() as u64];
                head.body = Some(body);
                Decision::Stored(coding, lengths)
            }
        };
        if let Decision::Compressed(coding, _) | Decision::Stored(coding, _) = decision {
            code(head.fields, head.added, coding);
        }
        decision
    }

    fn chosen(&self, coding: Coding, room: Room) -> Chosen {
        Chosen { coding, level: self.levels[coding as usize], room }
    }

    /// Compression that fits into memory. While memory is tight, it takes no more than a body of this length needs, or
    /// is gzip with a small window. `None` if nothing fits: the response passes as it is.
    fn fitting(&self, takes_gzip: bool, chosen: Chosen, head: &ResponseHead<'_, '_, '_>) -> Option<Chosen> {
        if !self.memory.is_tight(chosen.memory(), chosen.share()) {
            return Some(chosen);
        }
        let fitted = Chosen { room: fitted(chosen.room, length_of(head)), ..chosen };
        if self.memory.has_room(fitted.memory(), fitted.share()) {
            return Some(fitted);
        }
        let small = self.chosen(Coding::Gzip, Room::Small);
        let has_room = takes_gzip && self.memory.has_room(small.memory(), small.share());
        self.memory.count(if has_room { Lack::Small } else { Lack::Identity });
        has_room.then_some(small)
    }

    /// Gives a 304 the tag of the response that the client has. A 304 without a media type gets `Vary: Accept-Encoding`
    /// in any case: the response may depend on it, and caches keep the fields of the 304.
    fn not_modified(&self, state: &CompressState, head: &mut ResponseHead<'_, '_, '_>) {
        let media_type = head.fields.kept().find(|(name, _)| name.eq_ignore_ascii_case(b"content-type"));
        if media_type.is_some_and(|(_, value)| !self.rules.types.has(value)) {
            return;
        }
        if let Ok(coding) = state.coding {
            retag(head.fields, head.added, coding, &state.asked);
        }
        vary(head.fields, head.added);
    }
}

/// Room for a body of this length, if it is known.
fn fitted(room: Room, length: Option<u64>) -> Room {
    match length {
        Some(length) if room == Room::Usual => Room::Fitted(length.clamp(1, 1 << 20).next_power_of_two().ilog2() as u8),
        _ => room,
    }
}

/// Length of a response's body, if it is known.
fn length_of(head: &ResponseHead<'_, '_, '_>) -> Option<u64> {
    let stated = || {
        let (_, value) = head.fields.kept().find(|(name, _)| name.eq_ignore_ascii_case(b"content-length"))?;
        std::str::from_utf8(value).ok()?.parse().ok()
    };
    head.length.or_else(stated)
}

/// Replaces the tags of compressed responses in a condition by the endpoint's tags. Returns the client's values,
/// joined.
fn tell_tags(head: &mut RequestHead<'_, '_, '_>, name: &str, codings: &[Coding]) -> Vec<u8> {
    let asked = head.request.values(name).collect::<Vec<_>>().join(&b", "[..]);
    if let Some(told) = tags::for_endpoint(&asked, codings) {
        head.request.fields.leave_out(name);
        head.edits.add(name, &told);
    }
    asked
}
