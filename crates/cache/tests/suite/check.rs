//! A case, played against a cache and checked.

use super::case::{Case, Content, Exchange, Source, Status, Want};
use super::dates::expand;
use super::origin::{Origin, Seen};
use super::{ANSWERED, Ask, Cache, EXCHANGE, Got, joined};

/// Plays a case. The path of its requests is `/` and its id.
///
/// # Errors
/// The first expectation that was not met.
pub fn run(case: &Case, cache: &mut impl Cache) -> Result<(), String> {
    let origin = Origin::new(case);
    let mut responses = Vec::new();
    let mut then = 0;
    for (index, exchange) in case.exchanges.iter().enumerate() {
        let number = index + 1;
        let target = format!("/{}{}", case.id, exchange.suffix);
        let mut fields: Vec<_> =
            exchange.fields.iter().map(|(name, value)| (name.clone(), expand(value, then, &target))).collect();
        fields.push((EXCHANGE.into(), number.to_string()));
        let ask = Ask { method: exchange.method.clone(), target, fields, body: exchange.body.clone() };
        let got = cache.fetch(&ask, &origin);
        then = answered(&got).unwrap_or(then);
        check_response(case, exchange, number, &got).map_err(|why| format!("exchange {number}: {why}"))?;
        responses.push(got);
        cache.wait(exchange.wait);
    }
    let seen = origin.seen();
    for (index, (exchange, got)) in case.exchanges.iter().zip(&responses).enumerate() {
        check_seen(exchange, index + 1, got, &seen).map_err(|why| format!("exchange {}: {why}", index + 1))?;
    }
    Ok(())
}

fn answered(got: &Got) -> Option<u64> {
    got.field(ANSWERED)?.parse().ok()
}

fn ensure(is_met: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if is_met { Ok(()) } else { Err(why()) }
}

fn check_response(case: &Case, exchange: &Exchange, number: usize, got: &Got) -> Result<(), String> {
    let answer: Option<usize> = got.field(EXCHANGE).and_then(|number| number.parse().ok());
    match exchange.from {
        Some(Source::Cached) => {
            let is_bare = got.status == 304 && answer.is_none();
            ensure(is_bare || answer.is_some_and(|answer| answer < number), || "not from the cache".into())?;
        }
        Some(Source::Forwarded) => ensure(answer == Some(number), || "from the cache".into())?,
        _ => {}
    }
    let status = match exchange.status {
        Status::Any => got.status,
        Status::Is(status) => status,
        Status::OfAnswer => exchange.answer.status.unwrap_or(200),
    };
    ensure(got.status == status, || format!("status {}, not {status}", got.status))?;
    exchange.wants.iter().try_for_each(|want| check_field(want, got))?;
    if let Some(interim) = &exchange.interim {
        check_interim(interim, got)?;
    }
    check_content(case, exchange, got)
}

fn check_field(want: &Want, got: &Got) -> Result<(), String> {
    let (name, is_met) = match want {
        Want::Equal(name, value) => {
            let value = expand(value, answered(got).unwrap_or(0), "");
            (name, got.field(name) == Some(value))
        }
        Want::Above(name, least) => {
            (name, got.field(name).and_then(|value| value.parse().ok()).is_some_and(|value: u64| value > *least))
        }
        Want::Present(name) => (name, got.field(name).is_some()),
        Want::Absent(name) => (name, got.field(name).is_none()),
        Want::Not(name, value) => (name, !got.field(name).is_some_and(|has| has.contains(value.as_str()))),
    };
    ensure(is_met, || format!("{name} is {:?}, expected {want:?}", got.field(name)))
}

fn check_interim(expected: &[(u16, super::FieldList)], got: &Got) -> Result<(), String> {
    let matches = expected.len() == got.interim.len()
        && expected.iter().zip(&got.interim).all(|((status, fields), (got_status, got_fields))| {
            status == got_status && fields.iter().all(|(name, value)| joined(got_fields, name).as_ref() == Some(value))
        });
    ensure(matches, || format!("interim responses {:?}, expected {expected:?}", got.interim))
}

fn check_content(case: &Case, exchange: &Exchange, got: &Got) -> Result<(), String> {
    let expected = match (&exchange.content, &exchange.answer.body) {
        (Content::Any, _) => return Ok(()),
        (Content::Is(text), _) | (Content::OfAnswer, Some(text)) => text,
        _ if matches!(got.status, 204 | 304) || exchange.method == "HEAD" => return Ok(()),
        _ => &case.id,
    };
    // A 304 to the client's own condition has none, whatever the answer would have had.
    let is_empty = got.status == 304 && exchange.content == Content::OfAnswer;
    ensure(is_empty || got.body == expected.as_bytes(), || {
        format!("content \"{}\", not \"{expected}\"", String::from_utf8_lossy(&got.body))
    })
}

fn check_seen(exchange: &Exchange, number: usize, got: &Got, seen: &[Seen]) -> Result<(), String> {
    if exchange.from == Some(Source::Cached) {
        return Ok(());
    }
    let seen = seen.iter().find(|seen| seen.exchange == number);
    let field = |name: &str| seen.and_then(|seen| joined(&seen.ask.fields, name));
    let validator = match exchange.from {
        Some(Source::ByEtag) => Some("If-None-Match"),
        Some(Source::ByDate) => Some("If-Modified-Since"),
        _ => None,
    };
    if let Some(name) = validator {
        ensure(field(name).is_some(), || format!("the endpoint got no {name}"))?;
    }
    for (name, value) in &exchange.sees {
        ensure(field(name).as_ref() == Some(value), || {
            format!("the endpoint got {name} {:?}, not {value}", field(name))
        })?;
    }
    if let Some(method) = &exchange.sees_method {
        ensure(seen.is_some_and(|seen| seen.ask.method == *method), || format!("the endpoint got no {method}"))?;
    }
    let Some(seen) = seen else { return Ok(()) };
    for (name, _) in seen.sent.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("date")) {
        let sent = joined(&seen.sent, name);
        ensure(got.field(name) == sent, || format!("{name} is {:?}, the endpoint sent {sent:?}", got.field(name)))?;
    }
    Ok(())
}
