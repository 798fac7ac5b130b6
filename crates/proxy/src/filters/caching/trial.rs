//! Prediction for a described request: its key, the responses stored for it, and the response that serves it. Nothing
//! is counted or fetched, and nothing counts as used.

use super::cache::{Cache, Wish, stored_response};
use super::fetch::Asked;
use crate::cache::Entry;
use crate::cache::keys::user_text;
use crate::filters::exchange::Exchange;
use crate::filters::filter::{DryRun, RequestHead};
use evenkeel_cache::decide::{Decision, decide_by, is_only_if_cached, validators};
use evenkeel_cache::key::KeyParts;
use evenkeel_cache::moment::Moment;
use evenkeel_cache::store::{Item, KeyRef};
use evenkeel_cache::stored::{Stored, Terms};
use evenkeel_cache::vary;
use std::sync::Arc;

/// Maximum number of variants whose fields are listed.
const LISTED: usize = 4;

impl Cache {
    /// Predicts the decision of the cache about a request.
    pub fn trial(&self, cx: &Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> DryRun {
        let wish = match self.wish(cx, head) {
            Ok(wish) => wish,
            Err(bypass) => return DryRun::Next(format!("passes the cache by: {bypass}").into()),
        };
        if cx.facts.pool.is_none() {
            return DryRun::Next("has responses for each pool of the split apart, and the pool is drawn".into());
        }
        let now = self.responses.moment(cx.core);
        let key = key_text(&wish);
        let mut stored = self.responses.shared.store.of_url(wish.key.url());
        stored.retain(|item| *item.key == *wish.key.bytes());
        let mut asked = Asked::of(head.request, head.edits);
        let serves = |item: &&Item<Stored>| vary::serves(item.object.head(), &asked.request(), &self.responses.policy);
        // The first of equals was used last, and the store takes it, too.
        let found = stored.iter().rev().filter(serves).max_by_key(|item| item.object.head().terms.date);
        let Some(item) = found else {
            let why = match stored.is_empty() {
                true if self.responses.shared.disk.as_ref().is_some_and(|disk| disk.has((&wish.key).into())) => {
                    return DryRun::Next(format!("would look on the disk, which has something for {key}").into());
                }
                true => "nothing is stored".to_owned(),
                false => format!("what is stored is for other requests: {}", varying(&stored)),
            };
            return match is_only_if_cached(&wish.lookup) {
                true => only_if_cached(&format!("{why} for {key}")),
                false => DryRun::Next(format!("{} for {key}, as {why}", self.fetch(&wish, &mut asked)).into()),
            };
        };
        let terms = item.stale_from.map_or(item.object.head().terms, |at| item.object.head().terms.ended_at(at));
        let state = state(&terms, item.stale_from.is_some(), now);
        let answers = |how: &str| {
            let response = stored_response(cx, &item.object, head.request, now);
            DryRun::Answer(response, format!("{how}: {state}, stored for {key}").into())
        };
        match decide_by(&terms, &wish.lookup, now) {
            Decision::Fresh => answers("hit"),
            Decision::StaleAccepted => answers("stale, which the request accepts"),
            Decision::StaleWhileRevalidate => answers("stale, and a new one is fetched behind it"),
            Decision::OnlyIfCached => only_if_cached(&format!("what is stored for {key} may not be served: {state}")),
            Decision::Validate(cause) => {
                let how = match has_validator(&item.object) {
                    true => "would ask the endpoint whether the stored response still holds",
                    false => "would fetch a new response, as the stored one has no validator,",
                };
                DryRun::Next(format!("{how} for {key}: {}; {state}", cause.text()).into())
            }
        }
    }

    fn fetch(&self, wish: &Wish, asked: &mut Asked) -> &'static str {
        let flights = &self.responses.shared.flights;
        match self.collapse.is_some() && flights.is_under_way(&wish.key, |vary| vary::write(&asked.request(), vary)) {
            true => "would wait for the response that another request fetches",
            false => "would fetch the response",
        }
    }
}

/// Key in words: the URL, and the other parts that tell responses apart.
fn key_text(wish: &Wish) -> String {
    let key = KeyRef::from(&wish.key);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let Some(parts) = KeyParts::of(key.bytes(), key.url().len()) else { return text(key.url()) };
    let mut words = text(parts.url);
    if let Some(user) = parts.user {
        words += &format!(", user {}", user_text(user));
    }
    for (name, values) in &parts.fields {
        let values: Vec<String> = values.iter().map(|value| text(value)).collect();
        let values = if values.is_empty() { "none".to_owned() } else { values.join(", ") };
        words += &format!(", {}: {values}", text(name));
    }
    words
}

fn has_validator(entry: &Arc<Entry>) -> bool {
    validators(entry.head()).next().is_some()
}

fn only_if_cached(why: &str) -> DryRun {
    let response = crate::body::response::Response::new(504, "the request wants a stored response, and none is stored");
    DryRun::Answer(response, format!("the request wants a stored response, and {why}").into())
}

fn state(terms: &Terms, is_purged: bool, now: Moment) -> String {
    let age = terms.age(now);
    match terms.ttl(now) {
        left @ 1.. => format!("age {age} s, fresh for {left} s more by {}", terms.source.text()),
        over if is_purged => format!("age {age} s, stale for {} s by a soft purge", -over),
        over => format!("age {age} s, stale for {} s by {}", -over, terms.source.text()),
    }
}

/// Fields of the requests that the stored variants serve.
fn varying(stored: &[Item<Stored>]) -> String {
    let one = |item: &Item<Stored>| {
        let lines = String::from_utf8_lossy(item.object.head().varying()).into_owned();
        lines.lines().collect::<Vec<_>>().join(" and ")
    };
    let mut variants: Vec<String> = stored.iter().take(LISTED).map(one).collect();
    if stored.len() > LISTED {
        variants.push(format!("{} more", stored.len() - LISTED));
    }
    variants.join(" | ")
}
