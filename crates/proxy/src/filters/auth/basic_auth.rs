//! Filter that answers 401 to requests without the name and password of a user. Separate threads verify passwords, and
//! the request waits for them.

use super::passwords::credentials::Credentials;
use super::passwords::users::{UserList, UserLists, Users};
use super::passwords::verifier::{Checked, Verification, Verified};
use crate::body::response::Response;
use crate::filters::exchange::Exchange;
use crate::filters::filter::{DryRun, Filter, Own, Predict, RequestHead, Verdict};
use crate::filters::row::Build;
use crate::filters::step::Step;
use evenkeel_balance::Clock;
use evenkeel_balance::published::Reader;
use evenkeel_wire::head::Request;
use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

const WRONG: &str = "the name or the password is wrong";

struct BasicAuth(Rc<Settings>);

/// Settings of a route, which requests that wait share.
struct Settings {
    list: Arc<UserList>,
    users: RefCell<Reader<Users>>,
    /// Value of `WWW-Authenticate`.
    challenge: Box<str>,
    /// True if the endpoint gets the credentials too.
    keeps: bool,
}

pub fn build(from: &Build<'_>) -> Option<Step> {
    let route = from.route.as_ref()?;
    let plan = route.plan.filters.basic_auth.as_ref()?;
    // Without the filter, the route would be open.
    let list = from.resources.of::<UserLists>().of(&plan.users).expect("the file of each route is read with its plan");
    let settings = Settings {
        users: list.reader().into(),
        list: list.clone(),
        challenge: challenge(&plan.realm).into(),
        keeps: plan.keep,
    };
    Some(Box::new(BasicAuth(settings.into())))
}

/// Value of `WWW-Authenticate` (RFC 7617 section 2), with the realm as a quoted string.
fn challenge(realm: &str) -> String {
    let realm = realm.replace('\\', "\\\\").replace('"', "\\\"");
    format!("Basic realm=\"{realm}\", charset=\"UTF-8\"")
}

impl Filter for BasicAuth {
    /// Decision about the credentials, in words.
    type State = &'static str;

    fn request(
        &self,
        own: &mut Own<&'static str>,
        cx: &mut Exchange<'_>,
        head: &mut RequestHead<'_, '_, '_>,
    ) -> Verdict {
        let settings = &self.0;
        let credentials = match credentials(head.request) {
            Ok(credentials) => credentials,
            Err(why) => return settings.refuse(own, cx, why),
        };
        let mut users = settings.users.borrow_mut();
        users.refresh();
        let (client, now) = (cx.client(), cx.core.clock.now());
        match settings.list.verifier.check(users.get(), &credentials, client, now) {
            Checked::Remembered(true) => settings.admit(own, cx, head, credentials.name().into(), "remembered"),
            Checked::Remembered(false) => settings.refuse(own, cx, WRONG),
            Checked::Waits(verification) => {
                cx.stats.passwords_verified.add(u64::from(verification.is_new));
                wait(settings.clone(), verification, credentials.name().into())
            }
            Checked::TooMany => too_many(own, cx),
        }
    }

    fn did(&self, own: Option<&&'static str>, cx: &Exchange<'_>) -> Cow<'static, str> {
        match (own, &cx.facts.user) {
            (Some(how), Some(user)) => format!("{}, {how}", String::from_utf8_lossy(user)).into(),
            (Some(why), None) => (*why).into(),
            (None, _) => "".into(),
        }
    }
}

impl Predict for BasicAuth {
    fn dry_run(
        &self,
        own: &mut Own<&'static str>,
        cx: &mut Exchange<'_>,
        head: &mut RequestHead<'_, '_, '_>,
    ) -> DryRun {
        match credentials(head.request) {
            Ok(credentials) => DryRun::Next(
                format!("verifies the password of \"{}\"", String::from_utf8_lossy(credentials.name())).into(),
            ),
            Err(why) => self.0.refuse(own, cx, why).into(),
        }
    }
}

fn credentials(request: &Request<'_, '_>) -> Result<Credentials, &'static str> {
    let mut values = request.values("authorization");
    match (values.next(), values.next()) {
        (Some(value), None) => Credentials::read(value),
        (None, _) => Err("the request has no credentials"),
        (Some(_), Some(_)) => Err("the request has more than one Authorization"),
    }
}

#[cold]
fn wait(settings: Rc<Settings>, verification: Verification, user: Box<[u8]>) -> Verdict {
    BasicAuth::wait(verification, move |verified, own, cx, head| match verified {
        Verified::Right => settings.admit(own, cx, head, user, "verified"),
        Verified::Wrong => settings.refuse(own, cx, WRONG),
        Verified::GaveWay => {
            cx.stats.passwords_gave_way.add(1);
            too_many(own, cx)
        }
    })
}

impl Settings {
    fn admit(
        &self,
        own: &mut Own<&'static str>,
        cx: &mut Exchange<'_>,
        head: &mut RequestHead<'_, '_, '_>,
        user: Box<[u8]>,
        how: &'static str,
    ) -> Verdict {
        if !self.keeps {
            head.request.fields.leave_out("authorization");
        }
        (cx.facts.user, *own) = (Some(user), Some(Box::new(how)));
        Verdict::Next
    }

    #[cold]
    fn refuse(&self, own: &mut Own<&'static str>, cx: &mut Exchange<'_>, why: &'static str) -> Verdict {
        cx.stats.passwords_refused.add(1);
        *own = Some(Box::new(why));
        Verdict::Answer(Response::new(401, why).with("WWW-Authenticate", &self.challenge))
    }
}

#[cold]
fn too_many(own: &mut Own<&'static str>, cx: &mut Exchange<'_>) -> Verdict {
    cx.stats.passwords_waiting.add(1);
    *own = Some(Box::new("too many passwords wait to be verified"));
    let why = "too many passwords wait to be verified; try again later";
    Verdict::Answer(Response::new(503, why).with("Retry-After", "1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_realm_is_a_quoted_string() {
        assert_eq!(challenge("shop"), "Basic realm=\"shop\", charset=\"UTF-8\"");
        assert_eq!(challenge("The \"b\\a\""), r#"Basic realm="The \"b\\a\"", charset="UTF-8""#);
    }
}
