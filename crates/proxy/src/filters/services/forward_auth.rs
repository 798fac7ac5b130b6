//! Filter that asks a service about each request before an endpoint gets it. A 2xx response lets the request pass. Any
//! other response goes to the client, so that a service can ask for credentials or redirect to a login page. A second
//! filter adds fields of a 2xx response to the response for the client.

use crate::body::response::Response;
use crate::filters::exchange::Exchange;
use crate::filters::filter::{DryRun, Filter, Own, Predict, Pure, RequestHead, ResponseHead, Verdict};
use crate::filters::loop_mark::Mark;
use crate::filters::row::Build;
use crate::filters::step::Step;
use crate::filters::template::lines::{is_like, retain};
use crate::observe::stats::AuthEnd;
use crate::peer::hash_key;
use crate::side::attempt::Answer;
use crate::side::request::SideRequest;
use crate::side::send::{Destination, send};
use crate::upstream::retries::Retries;
use evenkeel_balance::Clock;
use evenkeel_config::plan;
use evenkeel_wire::endpoint_head::is_token;
use evenkeel_wire::head::{Request, Table};
use evenkeel_wire::http1::Reject;
use evenkeel_wire::http1::fields::append;
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

/// Response of the service about a request, by its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Passed(u16),
    /// The response goes to the client.
    Refused(u16),
    /// No whole response came in time.
    InVain,
}

/// Fields of a response that belong to its connection or its framing, in addition to the fields that are removed with
/// the head.
const OF_ANSWER: [&str; 6] = ["content-length", "content-type", "trailer", "keep-alive", "connection", "upgrade"];

/// Beginning of the names of fields that the route writes itself if it has `cors`.
const CORS: &[u8] = b"access-control-";

struct ForwardAuth(Rc<Auth>);

struct Auth {
    plan: plan::ForwardAuth,
    to: Destination,
    /// Mark of the route, and the reason for refusing a request that has it; `None` if loops are not detected.
    mark: Option<(Mark, Box<str>)>,
    /// Name of the field for the request's id, if the listener sends it.
    id_field: Option<Box<str>>,
    has_cors: bool,
}

pub fn build(from: &Build<'_>) -> Option<Step> {
    let route = from.route.as_ref()?;
    let plan = route.plan.filters.forward_auth.clone()?;
    let core = route.prober.core();
    let to = Destination {
        pool: route.services?.auth.clone()?,
        prober: route.prober.clone(),
        retries: Retries::new(route.plan, core.index, route.workers, core.clock.now()),
        timeout: plan.timeout,
    };
    let mark = from.listener.detect_loops.then(|| {
        let (listener, name) = (&from.listener.name, &route.plan.name);
        let why = format!(
            "loop detected: the request passed route \"{name}\" before; its pool or pool \"{}\" of its forward_auth \
             leads back here",
            plan.pool
        );
        (Mark::new(route.instance, listener, name), why.into())
    });
    let id_field = from.listener.request_id.as_ref().map(|id| id.field.to_string().into());
    let has_cors = route.plan.filters.cors.is_some();
    Some(Box::new(ForwardAuth(Rc::new(Auth { plan, to, mark, id_field, has_cors }))))
}

/// Filter that adds fields of the service's 2xx response to the response for the client.
struct ForClient;

pub fn build_for_client(from: &Build<'_>) -> Option<Step> {
    let plan = from.route.as_ref()?.plan.filters.forward_auth.as_ref()?;
    (!plan.client_headers.is_empty()).then(|| Box::new(ForClient) as _)
}

impl Filter for ForClient {
    type State = ();

    fn response(&self, _: &mut Own<()>, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        let Some(fields) = &cx.facts.of_service else { return };
        let is_cookie = |name: &[u8]| name.eq_ignore_ascii_case(b"set-cookie");
        let bytes = head.fields.bytes;
        for row in head.fields.rows.iter_mut() {
            let name = row.name(bytes);
            row.dropped |= !is_cookie(name) && fields.iter().any(|(known, _)| name.eq_ignore_ascii_case(known));
        }
        fields.iter().for_each(|(name, value)| append(&[name, b": ", value, b"\r\n"], head.added));
    }

    fn did(&self, _: Option<&()>, cx: &Exchange<'_>) -> Cow<'static, str> {
        cx.facts.of_service.as_ref().map_or("".into(), |fields| {
            let names: Vec<_> = fields.iter().map(|(name, _)| String::from_utf8_lossy(name)).collect();
            format!("gave the client {} of the service", names.join(", ")).into()
        })
    }
}

impl Pure for ForClient {}

impl Filter for ForwardAuth {
    type State = Asked;

    fn request(&self, _: &mut Own<Asked>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        let auth = self.0.clone();
        if let Some(response) = auth.loop_end(cx, head.request) {
            return Verdict::Answer(response);
        }
        let mut question = match auth.question(cx, head.request) {
            Ok(question) => question,
            Err(reject) => return Verdict::Answer(reject.into()),
        };
        let key = auth.to.pool.plan().key().and_then(|key| hash_key::hash(key, head.request, cx.client()));
        let asking = auth.clone();
        let answer = async move { send(&asking.to, &mut question, key, asking.plan.answer_max).await };
        ForwardAuth::wait(answer, move |answer, own, cx, head| {
            let (asked, verdict) = auth.decide(answer, cx, head);
            *own = Some(Box::new(asked));
            verdict
        })
    }

    fn did(&self, own: Option<&Asked>, _: &Exchange<'_>) -> Cow<'static, str> {
        let pool = &self.0.plan.pool;
        match own {
            None => "".into(),
            Some(Asked::Passed(status)) => format!("passed: pool \"{pool}\" answered {status}").into(),
            Some(Asked::Refused(status)) => format!("refused: pool \"{pool}\" answered {status}").into(),
            Some(Asked::InVain) => format!("refused: no answer of pool \"{pool}\"").into(),
        }
    }
}

impl Predict for ForwardAuth {
    fn dry_run(&self, _: &mut Own<Asked>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> DryRun {
        match self.0.loop_end(cx, head.request) {
            Some(response) => response.into(),
            None => DryRun::Next(format!("asks pool \"{}\", which decides", self.0.plan.pool).into()),
        }
    }
}

impl Auth {
    /// Response to a request that has passed the route before.
    fn loop_end(&self, cx: &Exchange<'_>, request: &Request<'_, '_>) -> Option<Response> {
        let (mark, why) = self.mark.as_ref()?;
        if !cx.facts.has_passed_proxies || !mark.is_on(request) {
            return None;
        }
        cx.stats.loops.add(1);
        Some(Response::new(508, &**why))
    }

    /// The request to the service, about a request of a client.
    fn question(&self, cx: &Exchange<'_>, request: &Request<'_, '_>) -> Result<SideRequest, Reject> {
        // HTTP/2 allows bytes in both that a line of HTTP/1 cannot have.
        if !is_token(request.method.as_bytes()) || request.target.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(Reject::Malformed);
        }
        // `*` means the server as a whole; there is no page of it.
        let own = if request.target == "*" { "/" } else { request.target };
        let mut question = SideRequest::get(self.plan.path.as_deref().unwrap_or(own));
        for (name, value) in request.fields.kept() {
            let is_named = |wanted: &Arc<str>| name.eq_ignore_ascii_case(wanted.as_bytes());
            if self.plan.request_headers.iter().any(is_named) || name.eq_ignore_ascii_case(b"cdn-loop") {
                question.fields.push(name, value);
            }
        }
        let said = cx.facts.said.as_deref();
        let list = said.map_or(cx.peer.ip_text(), |said| said.list.as_bytes());
        let scheme = said.and_then(|said| said.scheme).unwrap_or(cx.peer.scheme());
        let host = said.and_then(|said| said.host.as_deref()).unwrap_or(request.host);
        let lines = &mut question.lines;
        let (method, uri) = (request.method.as_bytes(), request.target.as_bytes());
        append(&[b"X-Forwarded-Method: ", method, b"\r\nX-Forwarded-Uri: ", uri], lines);
        append(&[b"\r\nX-Forwarded-For: ", list, b"\r\nX-Forwarded-Proto: ", scheme.as_bytes(), b"\r\n"], lines);
        if host.is_empty() {
            append(&[b"X-Forwarded-Host: ", cx.peer.authority().as_bytes(), b"\r\n"], lines);
        } else {
            append(&[b"X-Forwarded-Host: ", host, b"\r\n"], lines);
        }
        if let Some(field) = &self.id_field {
            append(&[field.as_bytes(), b": "], lines);
            cx.request_id().write(lines);
            lines.extend_from_slice(b"\r\n");
        }
        if let Some((mark, _)) = &self.mark {
            lines.extend_from_slice(mark.line());
        }
        Ok(question)
    }

    /// Lets the request pass or answers it, by the response of the service.
    fn decide(
        &self,
        answer: Result<Answer, String>,
        cx: &mut Exchange<'_>,
        head: &mut RequestHead<'_, '_, '_>,
    ) -> (Asked, Verdict) {
        let count = |end: AuthEnd| cx.stats.forward_auth[end as usize].add(1);
        match answer {
            Ok(answer) if (200..300).contains(&answer.status) => {
                count(AuthEnd::Passed);
                self.copy(&answer.fields, head);
                let is_named =
                    |name: &[u8]| self.plan.client_headers.iter().any(|one| name.eq_ignore_ascii_case(one.as_bytes()));
                let fields: Table = answer.fields.iter().filter(|(name, _)| is_named(name)).collect();
                cx.facts.of_service = (!fields.is_empty()).then(|| fields.into());
                (Asked::Passed(answer.status), Verdict::Next)
            }
            Ok(answer) if !answer.is_whole => {
                count(AuthEnd::TooLarge);
                let (pool, most) = (&self.plan.pool, self.plan.answer_max);
                let why =
                    format!("forward_auth: the answer of pool \"{pool}\" is larger than answer_max, {most} bytes");
                (Asked::Refused(answer.status), Verdict::Answer(Response::new(502, why)))
            }
            Ok(answer) => {
                count(AuthEnd::Refused);
                let status = answer.status;
                cx.facts.refusal = Some(format!("forward_auth: the service answered {status}").into());
                (Asked::Refused(status), Verdict::Answer(self.passed_on(answer)))
            }
            Err(why) => {
                count(AuthEnd::Unanswered);
                (Asked::InVain, Verdict::Answer(Response::new(503, format!("forward_auth: {why}"))))
            }
        }
    }

    /// Replaces the fields of the request that `copy_headers` names by fields of the service's response.
    fn copy(&self, answer: &Table, head: &mut RequestHead<'_, '_, '_>) {
        let copied = &self.plan.copy_headers;
        if copied.is_empty() {
            return;
        }
        // A server that turns fields into variables would take the client's X_User for X-User.
        let is_copied = |name: &[u8]| copied.iter().any(|copied| is_like(name, copied.as_bytes()));
        let bytes = head.request.fields.bytes;
        head.request.fields.rows.iter_mut().for_each(|row| row.dropped |= is_copied(row.name(bytes)));
        retain(head.edits.lines(), |name, _| !is_copied(name));
        for (name, value) in answer.iter() {
            if let Some(copied) = copied.iter().find(|copied| name.eq_ignore_ascii_case(copied.as_bytes())) {
                head.edits.add(copied, value);
            }
        }
    }

    /// Turns the response of the service into a response for the client.
    fn passed_on(&self, answer: Answer) -> Response {
        let Answer { status, fields, body, .. } = answer;
        let media_type = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(b"content-type"));
        let media_type = media_type.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).unwrap_or_default();
        let is_left_out = |name: &[u8]| {
            let is_cors = || name.get(..CORS.len()).is_some_and(|start| start.eq_ignore_ascii_case(CORS));
            OF_ANSWER.iter().any(|left| name.eq_ignore_ascii_case(left.as_bytes())) || (self.has_cors && is_cors())
        };
        let fields = fields.iter().filter(|(name, _)| !is_left_out(name)).collect();
        Response { fields, ..Response::page(media_type, body) }.status(status)
    }
}
