//! Rules of a route for tokens: required claims, and the parts that requests get.

use crate::claims::Claims;
use crate::keys::KeySet;
use crate::refused::Refused;
use crate::source::Source;
use crate::token::Token;
use crate::values;
use evenkeel_config::plan::{self, Jwt, LimitKey};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Longest time for which a verified token is remembered, in milliseconds. A key that an issuer takes back is of no use
/// as soon as it is gone from the set; this bounds the effect of clocks that jump.
const REMEMBERED_MS: i64 = 5 * 60 * 1000;

/// Largest time in a token, in seconds: 30,000 years. Beyond, numbers of JSON are not exact.
const TIME_MAX: f64 = 1e12;

/// Verifier of the tokens of a route.
#[derive(Debug)]
pub struct Verifier {
    pub rules: Jwt,
    pub(crate) source: Arc<Source>,
    /// Claims that are kept as text, for the keys of limits and for values.
    kept: Vec<Arc<str>>,
    /// True if the user of a token is kept, for the key of the cache.
    keeps_user: bool,
}

/// A token that was verified: the parts that a request gets.
#[derive(Debug, Default)]
pub struct Verified {
    /// Field lines for the endpoint, each with its line end.
    pub lines: Vec<u8>,
    /// Time until which it is valid and remembered, in milliseconds since 1970.
    pub until_ms: i64,
    /// Claims that are kept, by their names.
    pub(crate) kept: Vec<(Arc<str>, Box<str>)>,
    /// User, if it is kept, see [`Verified::user`].
    pub(crate) user: Option<Box<[u8]>>,
}

impl Verified {
    /// Text of a claim by which requests are counted, or that a value uses.
    pub fn claim(&self, name: &str) -> Option<&str> {
        self.kept.iter().find(|(known, _)| **known == *name).map(|(_, text)| &**text)
    }

    /// Name of the user, for comparisons: the issuer (`iss`), its name for the user (`sub`), and the parts that the
    /// endpoint gets of the token. Two tokens of the same user may differ in that: a program that acts for the user has
    /// a token with fewer rights. `None` without a name.
    pub fn user(&self) -> Option<&[u8]> {
        self.user.as_deref()
    }
}

impl Verifier {
    /// Verifier of a route with `rules`, with the keys of `source`. `claims`: those that values of the plan use.
    pub(crate) fn new(route: &plan::Route, rules: &Jwt, source: Arc<Source>, claims: &BTreeSet<Arc<str>>) -> Verifier {
        let claim = |limit: &plan::Limit| match &limit.key {
            LimitKey::Claim(name) => Some(name.as_str().into()),
            _ => None,
        };
        let kept: BTreeSet<Arc<str>> =
            route.filters.limits.iter().filter_map(claim).chain(claims.iter().cloned()).collect();
        let kept = kept.into_iter().collect();
        let keeps_user = route.filters.cache.as_ref().is_some_and(|cache| cache.by_user);
        Verifier { rules: rules.clone(), source, kept, keeps_user }
    }

    /// Place of the keys, shared with other routes.
    pub fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// Verifies a token at `now_ms`, in milliseconds since 1970: first its signature, then its claims, so that no one
    /// learns from claims that were made up.
    ///
    /// # Errors
    /// The first reason for which it is refused.
    pub fn verify(&self, token: &[u8], keys: &KeySet, now_ms: i64) -> Result<Verified, Refused> {
        let token = Token::read(token)?;
        if !self.rules.algorithms.contains(&token.algorithm) {
            return Err(Refused::Algorithm);
        }
        keys.verify(&token)?;
        let claims = token.claims()?;
        let until_ms = self.times(&claims, now_ms)?;
        if self.rules.issuer.is_some() && claims.text("iss") != self.rules.issuer.as_deref() {
            return Err(Refused::Issuer);
        }
        if !self.is_for_us(&claims) {
            return Err(Refused::Audience);
        }
        let has = |(name, any): &(Arc<str>, Vec<Arc<str>>)| {
            claims.find(name).is_some_and(|value| any.iter().any(|wanted| values::has(name, value, wanted)))
        };
        if !self.rules.require.iter().all(has) {
            return Err(Refused::Claim);
        }
        let kept = |name: &Arc<str>| Some((name.clone(), values::key(claims.find(name)?).into()));
        let lines = self.lines(&claims)?;
        let user = if self.keeps_user { user(&claims, &lines, self.rules.keep) } else { None };
        Ok(Verified { lines, until_ms, kept: self.kept.iter().filter_map(kept).collect(), user })
    }

    /// Checks the times of a token. Returns the time until which it may be remembered.
    fn times(&self, claims: &Claims, now_ms: i64) -> Result<i64, Refused> {
        let leeway_ms = i64::try_from(self.rules.leeway.as_millis()).unwrap_or(i64::MAX);
        let until_ms = match time_ms(claims, "exp")? {
            None if self.rules.require_exp => return Err(Refused::Malformed("has no exp")),
            None => i64::MAX,
            Some(exp) => exp.saturating_add(leeway_ms),
        };
        if until_ms <= now_ms {
            return Err(Refused::Expired);
        }
        match time_ms(claims, "nbf")? {
            Some(from) if from.saturating_sub(leeway_ms) > now_ms => Err(Refused::NotYet),
            _ => Ok(until_ms.min(now_ms.saturating_add(REMEMBERED_MS))),
        }
    }

    fn is_for_us(&self, claims: &Claims) -> bool {
        if self.rules.takes_any_audience() {
            return true;
        }
        let ours = |name: &str| self.rules.audience.iter().any(|audience| **audience == *name);
        match claims.find("aud") {
            Some(Value::String(name)) => ours(name),
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).any(ours),
            Some(_) => false,
            None => self.rules.audience.is_empty(),
        }
    }

    /// Field lines for the endpoint. A claim that is missing or empty gives none.
    fn lines(&self, claims: &Claims) -> Result<Vec<u8>, Refused> {
        let mut lines = Vec::new();
        for (field, name) in &self.rules.claims_to {
            let Some(value) = claims.find(name) else { continue };
            let text = values::of_field(value).map_err(|_| Refused::Unfit)?;
            if !text.is_empty() {
                [field.as_bytes(), b": ", text.as_bytes(), b"\r\n"]
                    .iter()
                    .for_each(|part| lines.extend_from_slice(part));
            }
        }
        Ok(lines)
    }
}

/// User of a token, see [`Verified::user`]. `None` unless `sub` is a text that is not empty. `lines`: the parts that
/// the endpoint gets of the claims; all of them if it gets the token (`is_kept`).
fn user(claims: &Claims, lines: &[u8], is_kept: bool) -> Option<Box<[u8]>> {
    let name = claims.text("sub").filter(|name| !name.is_empty())?;
    let mut user = Vec::with_capacity(name.len() + lines.len() + 32);
    for part in [claims.text("iss").unwrap_or_default(), name] {
        user.extend_from_slice(&(part.len() as u64).to_le_bytes());
        user.extend_from_slice(part.as_bytes());
    }
    match is_kept {
        true => user.extend_from_slice(claims.lasting().as_bytes()),
        false => user.extend_from_slice(lines),
    }
    Some(user.into())
}

/// Time in a claim, in milliseconds since 1970 (NumericDate, which may have fractions).
fn time_ms(claims: &Claims, name: &str) -> Result<Option<i64>, Refused> {
    let Some(value) = claims.find(name) else { return Ok(None) };
    match value.as_f64().filter(|seconds| seconds.abs() <= TIME_MAX) {
        Some(seconds) => Ok(Some((seconds * 1000.0) as i64)),
        None => Err(Refused::Malformed("has a time that is not a number of seconds")),
    }
}
