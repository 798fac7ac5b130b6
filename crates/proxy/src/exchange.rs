//! What happens to one request? Read, routed, picked for, sent, answered, counted: the walk that ARCHITECTURE.md tells.

use crate::access_log;
use crate::attempts::{self, Opened, Reply};
use crate::buffer::Buf;
use crate::client::Client;
use crate::connection;
use crate::end::{Cause, Phase};
use crate::hash_key;
use crate::http1::chunked::{Keep, Taken};
use crate::http1::request::Forward;
use crate::http1::response::{Asked, Towards};
use crate::http1::{Body, Reject, Request, Version};
use crate::origin;
use crate::outgoing::Outgoing;
use crate::record::Record;
use crate::rules::Rules;
use crate::sidecar::{self, Reporter};
use crate::stats;
use crate::talk::take_body;
use evenkeel_balance::Clock;

/// What clients speak with us.
const SCHEME: &str = "http";

/// How a client connection goes on after a request.
pub enum After {
    /// With the next request, of which these bytes came already.
    Next(Option<Buf>),
    /// It is closed.
    Close,
    /// It is closed once the client has read our last words.
    Linger,
}

/// Serves the request whose head is at the front of `buf`, which is used up. `last`: the connection closes afterwards.
pub async fn run(client: &Client<'_>, rules: &Rules, buf: &mut Buf, last: bool) -> After {
    let mut record = Record::new(client, rules);
    // Used where it is, as it is large.
    let mut opened = open(client, &mut record, buf, last);
    let opened = match opened {
        Ok(ref mut opened) => opened,
        // Boxed, as most requests need no room for this.
        Err(refused) => return Box::pin(refuse(client, &record, refused, buf.take_out())).await,
    };
    let mut out = Outgoing::new(client.worker, std::mem::take(&mut opened.head), buf.take_out(), opened.send);
    match attempts::send(client, &mut record, opened, &mut out).await {
        Ok(answered) => {
            record.phase.set(Phase::Done);
            let whole = opened.body.is_done();
            match (answered.keep_alive, out.into_rest()) {
                (true, rest) if whole => After::Next(rest),
                // A client that asked for the close sends no more; another may, and must not be reset for it.
                (false, None) if whole && !opened.more_wanted => After::Close,
                _ => After::Linger,
            }
        }
        Err(Some(reply)) => {
            let keep_alive = opened.towards.keep_alive && opened.body.is_done();
            Box::pin(answer(client, &record, &reply, keep_alive, opened.asked.head, out.into_rest())).await
        }
        Err(None) => After::Close,
    }
}

/// A request that goes no further.
enum Refused {
    /// For its bytes.
    Malformed(Reject),
    /// Though there is nothing wrong with them.
    Answered { reply: Reply, keep_alive: bool, head_only: bool },
    /// As it asks how busy we are.
    Load { keep_alive: bool, head_only: bool },
}

impl From<Reject> for Refused {
    fn from(reject: Reject) -> Refused {
        Refused::Malformed(reject)
    }
}

/// Tells the client that its request goes no further. `buf`: what came behind it.
async fn refuse(client: &Client<'_>, record: &Record<'_>, refused: Refused, buf: Buf) -> After {
    match refused {
        Refused::Malformed(reject) => {
            connection::refuse_malformed(client, record, reject).await;
            After::Linger
        }
        Refused::Answered { reply, keep_alive, head_only } => {
            record.blame(Cause::Proxy);
            answer(client, record, &reply, keep_alive, head_only, (!buf.is_empty()).then_some(buf)).await
        }
        Refused::Load { keep_alive, head_only } => {
            tell_load(client, record, keep_alive, head_only, (!buf.is_empty()).then_some(buf)).await
        }
    }
}

/// Reads and routes: everything that needs the head's bytes, in one go, so that nothing of it is kept. If the request is
/// refused the buffer keeps what came behind it.
fn open<'r>(client: &Client<'_>, record: &mut Record<'r>, buf: &mut Buf, last: bool) -> Result<Opened<'r>, Refused> {
    let (worker, rules) = (client.worker, record.rules);
    let mut room = worker.room.borrow_mut();
    let mut read = Request::read(buf.filled(), &mut room, &rules.limits);
    // Looked at where it is: it is large, and all that is needed of it is read here.
    let request = match &mut read {
        Ok(Some(request)) => request,
        // The client was waited for until there is something to be said of its head.
        Ok(None) => return Err(Reject::Malformed.into()),
        Err(reject) => return Err((*reject).into()),
    };
    let head_len = request.head_len;
    record.version = request.version;
    record.method = stats::method_index(request.method);
    if worker.log.borrow().is_some() {
        record.asked = worker.scratch();
        let trace = request.field("traceparent");
        access_log::asked(&mut record.asked, request.method, request.host, request.target, trace);
    }
    let keep_alive = request.keep_alive && !last && !client.is_ending();
    let mut body = std::mem::replace(&mut request.body, Body::EMPTY);
    let origin = client.is_trusted.then(|| origin::believe(request, rules.edge.trusted(), client.ip, SCHEME));
    let mut ip = client.ip;
    if let Some(origin) = &origin {
        ip = origin.client;
        record.origin = (ip != client.ip).then_some(ip);
        client.listener.stats.forwarded_malformed.add(origin.malformed);
    }
    let asks_load = rules.reporter.as_ref().is_some_and(|reporter| reporter.plan.path == request.path());
    let route = rules.edge.request(ip, || worker.clock.now()).map_err(|seconds| too_many(client, seconds));
    let route = route.and_then(|()| {
        let (host, path) = (request.host, request.path());
        // Who asks for the load needs no route, but may not ask more often than others.
        if asks_load {
            return Ok(rules.unrouted());
        }
        let no_route = || {
            let host = String::from_utf8_lossy(host);
            Reply::new(404, format!("no route for host \"{host}\" and path \"{path}\""))
        };
        rules.router.find(host, path).ok_or_else(no_route)
    });
    let route = match route {
        Ok(route) if !asks_load => route,
        refused => {
            let head_only = request.is_head();
            let used = head_len + body.advance(&mut buf.filled_mut()[head_len..], Keep::Content)?.used;
            buf.consume(used);
            record.count_in(used);
            let keep_alive = keep_alive && body.is_done();
            return Err(match refused {
                Err(reply) => Refused::Answered { reply, keep_alive, head_only },
                Ok(_) => Refused::Load { keep_alive, head_only },
            });
        }
    };
    let pool = &*rules.pools[route];
    let key = pool.key.as_ref().and_then(|key| hash_key::hash(key, request, ip));
    let (retries, session) = (&*rules.retries[route], pool.session(request, worker));
    record.route = route;
    record.pool = Some(pool);
    record.working = rules.reporter.as_ref().map(Reporter::begin);

    let mut head = worker.scratch();
    let single = pool.limits.get().idle_per_endpoint == 0 || pool.announce.get().is_some();
    let close = single || request.body_may_be_overlooked();
    let origin = origin.as_ref();
    let forward = Forward {
        client: origin.map_or(client.ip_text(), |origin| origin.list.as_bytes()),
        scheme: origin.and_then(|origin| origin.scheme).unwrap_or(SCHEME),
        host: origin.and_then(|origin| origin.host),
        forwarded: origin.and_then(|origin| origin.forwarded.as_deref()),
        host_if_none: &pool.name,
        close,
    };
    request.write(&forward, &mut head);
    let more_wanted = request.keep_alive;
    let asked = Asked { head: request.is_head(), upgrade: request.upgrade };
    let towards = Towards { version: request.version, keep_alive };
    let idempotent = request.is_idempotent();
    buf.consume(head_len);
    let Taken { used, kept } = take_body(buf, 0, &mut body, Keep::Framed)?;
    record.count_in(head_len + used);
    let mut send = 0;
    if kept > 0 {
        // In one piece with what came of its body.
        if !buf.replace_front(0, &head) {
            return Err(Reject::HeadTooLarge.into());
        }
        send = head.len() + kept;
        worker.give_back(std::mem::take(&mut head));
    }
    let timeouts = rules.plan.routes[route].timeouts;
    let deadline = timeouts.request.map_or(u64::MAX, |limit| client.timer.tick_after(limit));
    Ok(Opened {
        pool,
        retries,
        key,
        session,
        towards,
        more_wanted,
        asked,
        idempotent,
        close,
        timeouts,
        deadline,
        body,
        head,
        send,
    })
}

#[cold]
fn too_many(client: &Client<'_>, seconds: u64) -> Reply {
    client.listener.stats.rate_limited.add(1);
    let why = "more requests than one address may send; try again later".to_string();
    Reply { status: 429, why, retry_after: Some(seconds) }
}

/// Answers in the endpoint's place. The connection is kept only if the request's end is known to be here.
async fn answer(
    client: &Client<'_>,
    record: &Record<'_>,
    reply: &Reply,
    keep_alive: bool,
    head_only: bool,
    rest: Option<Buf>,
) -> After {
    record.status.set(reply.status);
    // Our own replies do not say `keep-alive`, without which HTTP/1.0 means close.
    let keep_alive = keep_alive && record.version == Version::V11;
    let mut fields = Vec::new();
    if let Some(seconds) = reply.retry_after {
        fields.extend_from_slice(format!("Retry-After: {seconds}\r\n").as_bytes());
    }
    record.write_load(&mut fields);
    let fields = String::from_utf8_lossy(&fields);
    let sent = client.reply(reply.status, &reply.why, !keep_alive, head_only, &fields).await;
    record.count_out(sent as usize);
    if keep_alive && sent > 0 { After::Next(rest) } else { After::Linger }
}

/// Answers whoever asks how busy we are.
async fn tell_load(
    client: &Client<'_>,
    record: &Record<'_>,
    keep_alive: bool,
    head_only: bool,
    rest: Option<Buf>,
) -> After {
    let Some(reporter) = &record.rules.reporter else { return After::Close };
    record.status.set(200);
    let keep_alive = keep_alive && record.version == Version::V11;
    let page = sidecar::page(&reporter.load(client.worker.clock.now()), !keep_alive, head_only);
    let sent = client.say(&page).await;
    record.count_out(sent as usize);
    client.listener.stats.reports_given[2].add(1);
    if keep_alive && sent > 0 { After::Next(rest) } else { After::Linger }
}
