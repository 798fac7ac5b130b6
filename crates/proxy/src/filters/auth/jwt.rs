//! Filter that accepts only requests with a valid token. Workers verify signatures themselves: a signature costs less
//! than a handshake, and a token that was verified recently costs a hash.

use super::token;
use crate::body::response::Response;
use crate::filters::exchange::Exchange;
use crate::filters::filter::{DryRun, Filter, Own, Predict, RequestHead, Verdict};
use crate::filters::row::Build;
use crate::filters::step::Step;
use crate::filters::template::lines::retain;
use crate::resource::Resource;
use evenkeel_config::plan::Jwt;
use evenkeel_config::{Plan, Subject};
use evenkeel_net::event_loop::budget::{self, SIGNATURE};
use evenkeel_runtime::Diagnostic;
use evenkeel_tokens::{Check, Checked, Refused, Tokens as Verifiers};
use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::Write;
use std::sync::Arc;

/// Seconds after which a client may try again while no keys have been fetched.
const RETRY_AFTER: &str = "5";

struct Tokens {
    check: RefCell<Check>,
    rules: Jwt,
    /// Scheme and realm of `WWW-Authenticate`.
    challenge: String,
}

impl Resource for Verifiers {
    fn next(plan: &Plan, before: Option<&Arc<Verifiers>>) -> Result<Arc<Verifiers>, Vec<Diagnostic>> {
        let next = before.map_or_else(|| Verifiers::default().next(plan), |before| before.next(plan));
        next.map(Arc::new).map_err(|errors| errors.into_iter().map(no_keys).collect())
    }

    fn has_files(&self) -> bool {
        !self.has_no_files()
    }

    fn look(&self) {
        Verifiers::look(self);
    }
}

fn no_keys((subject, problem): (Subject, String)) -> Diagnostic {
    Diagnostic::Machine {
        problem,
        help: Some(
            "keys are a JWK set, { \"keys\": [...] }; the user that runs evenkeel must be able to read the file"
                .to_string(),
        ),
        of: vec![subject],
    }
}

pub fn build(from: &Build<'_>) -> Option<Step> {
    let verifier = from.resources.of::<Verifiers>().of(&from.route.as_ref()?.plan.name)?;
    let rules = verifier.rules.clone();
    let challenge = format!("Bearer realm=\"{}\"", rules.realm.replace('\\', "\\\\").replace('"', "\\\""));
    Some(Box::new(Tokens { check: Check::new(verifier.clone()).into(), rules, challenge }))
}

impl Filter for Tokens {
    /// Kept for the response, which names it in a challenge.
    type State = Refused;

    fn request(&self, own: &mut Own<Refused>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        self.decide(own, cx, head, Check::token)
    }

    fn did(&self, own: Option<&Refused>, cx: &Exchange<'_>) -> Cow<'static, str> {
        match (&cx.facts.token, own) {
            (Some(Checked { is_known: true, .. }), _) => "accepted the token, which was verified before".into(),
            (Some(_), _) => "accepted the token".into(),
            (None, Some(refused)) => format!("refused: {refused}").into(),
            (None, None) => "".into(),
        }
    }
}

impl Predict for Tokens {
    fn dry_run(&self, own: &mut Own<Refused>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> DryRun {
        match self.decide(own, cx, head, Check::dry_run) {
            Verdict::Next => DryRun::Next("accepts the token".into()),
            verdict => verdict.into(),
        }
    }
}

/// True if servers that turn fields into variables (CGI) may confuse the names. Either name may have the underscore.
fn is_alike(name: &[u8], ours: &[u8]) -> bool {
    let plain = |b: &u8| if *b == b'_' { b'-' } else { b.to_ascii_lowercase() };
    name.len() == ours.len() && name.iter().map(plain).eq(ours.iter().map(plain))
}

impl Tokens {
    #[inline]
    fn decide(
        &self,
        own: &mut Own<Refused>,
        cx: &mut Exchange<'_>,
        head: &mut RequestHead<'_, '_, '_>,
        check: impl FnOnce(&mut Check, &[u8], i64) -> Result<Checked, Refused>,
    ) -> Verdict {
        let now_ms = cx.core.clock.unix_ms(cx.timing.get().began).cast_signed();
        let found = token::find(head.request, &self.rules.from);
        let checked = match found.and_then(|token| check(&mut self.check.borrow_mut(), token, now_ms)) {
            Ok(checked) => {
                budget::charge(if checked.is_known { 0 } else { SIGNATURE });
                checked
            }
            Err(refused) => {
                budget::charge(if refused.is_of_signed() { SIGNATURE } else { 0 });
                *own = Some(Box::new(refused));
                return Verdict::Answer(self.refuse(cx, refused));
            }
        };
        match checked.is_known {
            true => cx.stats.jwt_known.add(1),
            false => cx.stats.jwt_verified.add(1),
        }
        if !self.rules.keep {
            token::remove(head.request, head.edits, &self.rules.from);
        }
        self.forward(&checked, head);
        cx.facts.token = Some(checked);
        Verdict::Next
    }

    /// Sends claims as fields, instead of the client's fields with these names.
    fn forward(&self, checked: &Checked, head: &mut RequestHead<'_, '_, '_>) {
        if self.rules.claims_to.is_empty() {
            return;
        }
        let ours = |name: &[u8]| self.rules.claims_to.iter().any(|(field, _)| is_alike(name, field.as_bytes()));
        let bytes = head.request.fields.bytes;
        head.request.fields.rows.iter_mut().for_each(|row| row.dropped |= ours(row.name(bytes)));
        let lines = head.edits.lines();
        retain(lines, |name, _| !ours(name));
        lines.extend_from_slice(&checked.token.lines);
    }

    #[cold]
    fn refuse(&self, cx: &Exchange<'_>, refused: Refused) -> Response {
        cx.stats.jwt_refused[refused.index()].add(1);
        let response = Response::new(refused.status(), refused.to_string());
        if refused == Refused::NoKeys {
            return response.with("Retry-After", RETRY_AFTER);
        }
        let mut challenge = self.challenge.clone();
        if let Some(error) = refused.error() {
            // Writing to a string cannot fail.
            let _ = write!(challenge, ", error=\"{error}\", error_description=\"{refused}\"");
        }
        response.with("WWW-Authenticate", &challenge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_alike_in_any_case_and_with_underscores_on_either_side() {
        for (name, ours, is) in [
            ("x-user", "X-User", true),
            ("X_USER", "X-User", true),
            ("x-user", "X_User", true),
            ("x_a-b", "X-A_B", true),
            ("x-users", "X-User", false),
            ("xuser", "x-user", false),
        ] {
            assert_eq!(is_alike(name.as_bytes(), ours.as_bytes()), is, "{name} {ours}");
        }
    }
}
