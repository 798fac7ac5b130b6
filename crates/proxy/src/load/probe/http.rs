//! Probes over HTTP: GET requests on an idle or a new connection. The report is in the fields of the response.

use super::{End, HTTP_MAX, Prober, Question};
use crate::body::message::Message;
use crate::body::upstream::Upstream;
use crate::core::Core;
use crate::load::reports::Came;
use crate::upstream::pool::Endpoint;
use crate::upstream::tls::carried;
use crate::upstream::tls::{Offers, secure};
use evenkeel_balance::Clock;
use evenkeel_net::buffer::Buf;
use evenkeel_net::deadline::Elapsed;
use evenkeel_net::dial::{Remote, dial};
use evenkeel_net::event_loop::spawn;
use evenkeel_net::transport::Transport;
use evenkeel_wire::endpoint_head::{Connection, EndpointHead, HeadParts};
use evenkeel_wire::head::{Fields, Request, Table};
use evenkeel_wire::http1::chunked::Keep;
use evenkeel_wire::http1::fields::Stated;
use evenkeel_wire::http1::response::RequestContext;
use evenkeel_wire::http1::{FIELDS_MAX, Limits, Response, Room};
use evenkeel_wire::orca;
use evenkeel_wire::proxy_protocol;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;

const LIMITS: Limits = Limits { head: evenkeel_net::buffer::CAPACITY, fields: FIELDS_MAX };

/// Starts a probe, unless [`HTTP_MAX`] are in progress.
pub fn start(prober: &Rc<Prober>, question: Question) {
    let under_way = &prober.http;
    if under_way.get() >= HTTP_MAX {
        return question.ends(End::Busy);
    }
    under_way.set(under_way.get() + 1);
    let prober = prober.clone();
    spawn(async move {
        let timer = prober.core.wheel.timer();
        timer.set(timer.tick_after(question.reports().timeout));
        let end = match timer.limit(pin!(ask(&prober.core, &question))).await {
            Ok(Ok(end)) => end,
            Ok(Err(_)) => End::Unsent,
            Err(Elapsed) => End::Timeout,
        };
        question.ends(end);
        prober.http.set(prober.http.get() - 1);
    });
}

async fn ask(core: &Core, question: &Question) -> io::Result<End> {
    let (Question { pool, rules, endpoint, .. }, reports) = (question, question.reports());
    if pool.takes_messages(false) {
        return ask_by_message(core, question).await;
    }
    let addr = endpoint.addr.as_ref().ok_or(io::ErrorKind::AddrNotAvailable)?;
    let host = host(endpoint, addr);
    let request = format!("GET {} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: evenkeel-probe\r\n\r\n", reports.path);
    if let Some(idle) = pool.take_idle(endpoint, core.clock.now()) {
        // The endpoint may have closed the idle connection just now; then a new connection is opened.
        if let Ok(end) = ask_over(core, question, idle, request.as_bytes()).await {
            return Ok(end);
        }
    }
    endpoint.stats.connects.add(1);
    let tls = &rules.compiled.tls;
    let transport = carried(dial(addr, None, true)?, tls.is_some());
    let mut first = Vec::new();
    if let Some(version) = rules.plan.proxy_protocol {
        proxy_protocol::write_local(version, &mut first);
    }
    if let (Some(settings), Some(stream)) = (tls, transport.as_tls()) {
        let mut header = Buf::holding(&first);
        transport.write_all(&mut header).await?;
        first.clear();
        secure(settings, stream, endpoint.proves(), Offers::Nothing).await?;
    }
    first.extend_from_slice(request.as_bytes());
    ask_over(core, question, transport, &first).await
}

/// Host of an endpoint: its own, or its address.
fn host(endpoint: &Endpoint, addr: &Remote) -> String {
    endpoint.own.host.as_ref().map_or_else(|| addr.host().to_string(), ToString::to_string)
}

async fn ask_over(core: &Core, question: &Question, transport: Transport, bytes: &[u8]) -> io::Result<End> {
    let mut buf = Buf::holding(bytes);
    transport.write_all(&mut buf).await?;
    loop {
        if transport.read(&mut buf).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some((end, reusable, kept_secs)) = on_bytes(core, question, &mut buf)? {
            if reusable && question.rules.plan.proxy_protocol.is_none() {
                question.pool.keep_idle(&question.endpoint, transport, kept_secs, core.clock.now());
            }
            return Ok(end);
        }
    }
}

/// Probes over HTTP/2.
async fn ask_by_message(core: &Core, question: &Question) -> io::Result<End> {
    let (Question { pool, endpoint, .. }, reports) = (question, question.reports());
    let addr = endpoint.addr.as_ref().ok_or(io::ErrorKind::AddrNotAvailable)?;
    let mut fields: Table = [(&b"user-agent"[..], &b"evenkeel-probe"[..])].into_iter().collect();
    let host = host(endpoint, addr);
    let request = Request { method: "GET", target: &reports.path, host: host.as_bytes(), fields: fields.fields() };
    let head = EndpointHead {
        head: HeadParts::decoded(&request, Stated::Nothing),
        added: [b"", b""],
        connection: Connection::Kept,
        scheme: pool.scheme(),
        length: "",
        wants_trailers: false,
    };
    let message = Message { content: Buf::none(), kept: Vec::new(), trailers: None, whole: true, tunnel: false };
    let begun = endpoint.sessions.stream(pool.way(endpoint), &head, &message, reports.timeout).await?;
    loop {
        let head = poll_fn(|cx| begun.stream.poll_head(cx)).await;
        let mut head = head.map_err(|_| io::ErrorKind::UnexpectedEof)?;
        if head.status >= 200 {
            return Ok(on_fields(core, question, &head.fields.fields()));
        }
    }
}

/// Applies the report in the fields of a response.
fn on_fields(core: &Core, question: &Question, fields: &Fields<'_, '_>) -> End {
    let (Question { pool, slot, endpoint, .. }, reports) = (question, question.reports());
    match orca::read(|name| fields.first(name), &reports.in_flight) {
        None => End::NoReport,
        Some(Err(why)) => {
            pool.drop_malformed(why);
            End::Answered
        }
        Some(Ok((_, report))) => {
            pool.take_report(*slot, endpoint, Came::Http, &report, core.clock.now());
            End::Answered
        }
    }
}

/// Reads the response, if its head is complete. Returns the result, true if the connection can carry another request,
/// and the seconds for which the endpoint keeps it, if it states them.
fn on_bytes(core: &Core, question: &Question, buf: &mut Buf) -> io::Result<Option<(End, bool, Option<u32>)>> {
    let mut room = Room::new();
    let read = Response::read(buf.filled(), &mut room, RequestContext::default(), &LIMITS).map_err(io::Error::other)?;
    // Interim responses are not skipped: an endpoint that answers this GET with an interim response runs into the
    // timeout.
    let Some(response) = read.filter(|response| !response.is_interim()) else { return Ok(None) };
    let end = on_fields(core, question, &response.fields);
    let (keep_alive, head_len, mut body) = (response.keep_alive, response.head_len(), response.body.clone());
    let kept_secs = response.kept_secs;
    // Does not wait for the rest of the body: the connection is then not reused.
    let whole = buf.take_body(head_len, &mut body, Keep::Framed).is_ok_and(|taken| head_len + taken.kept == buf.len());
    Ok(Some((end, keep_alive && whole && body.is_done(), kept_secs)))
}
