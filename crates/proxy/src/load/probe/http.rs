//! How is an endpoint asked over HTTP? By a request for a path, over a connection that is idle, or one of its own. The
//! answer's fields have the report, as those of any response.

use super::{End, HTTP_MAX, Prober, Question};
use crate::core::Core;
use crate::load::reports::Came;
use crate::upstream::connections::carried;
use crate::upstream::tls::secure;
use evenkeel_balance::Clock;
use evenkeel_net::buffer::Buf;
use evenkeel_net::deadline::Elapsed;
use evenkeel_net::dial::dial;
use evenkeel_net::event_loop::spawn;
use evenkeel_net::transport::Transport;
use evenkeel_wire::http1::chunked::Keep;
use evenkeel_wire::http1::response::RequestContext;
use evenkeel_wire::http1::{FIELDS_MAX, Limits, Response, Room};
use evenkeel_wire::orca;
use evenkeel_wire::proxy_protocol;
use std::io;
use std::pin::pin;
use std::rc::Rc;

const LIMITS: Limits = Limits { head: evenkeel_net::buffer::CAPACITY, fields: FIELDS_MAX };

/// Starts a probe, unless too many are under way.
pub fn start(prober: &Rc<Prober>, question: Question) {
    let under_way = &prober.http;
    if under_way.get() >= HTTP_MAX {
        return question.ends(End::Busy);
    }
    under_way.set(under_way.get() + 1);
    let prober = prober.clone();
    spawn(async move {
        let timer = prober.core.wheel.timer();
        timer.set(timer.tick_after(question.reports.timeout));
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
    let Question { pool, reports, endpoint, .. } = question;
    let addr = endpoint.addr.ok_or(io::ErrorKind::AddrNotAvailable)?;
    let request = format!("GET {} HTTP/1.1\r\nHost: {addr}\r\nUser-Agent: evenkeel-probe\r\n\r\n", reports.path);
    if let Some(idle) = pool.take_idle(endpoint, core.clock.now()) {
        // It may have been closed just now.
        if let Ok(end) = ask_over(core, question, idle, request.as_bytes()).await {
            return Ok(end);
        }
    }
    endpoint.stats.connects.add(1);
    let tls = pool.tls.borrow().clone();
    let transport = carried(dial(addr, None, true)?, tls.is_some());
    let mut first = Vec::new();
    if let Some(version) = pool.announce.get() {
        proxy_protocol::write_local(version, &mut first);
    }
    if let (Some(settings), Some(stream)) = (tls, transport.as_tls()) {
        let mut header = Buf::take();
        header.extend(&first);
        transport.write_all(&mut header).await?;
        first.clear();
        secure(&settings, stream, endpoint).await?;
    }
    first.extend_from_slice(request.as_bytes());
    ask_over(core, question, transport, &first).await
}

async fn ask_over(core: &Core, question: &Question, transport: Transport, bytes: &[u8]) -> io::Result<End> {
    let mut buf = Buf::take();
    buf.extend(bytes);
    transport.write_all(&mut buf).await?;
    loop {
        if transport.read(&mut buf).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some((end, reusable)) = on_bytes(core, question, &mut buf)? {
            if reusable && question.pool.announce.get().is_none() {
                question.pool.keep_idle(&question.endpoint, transport, core.clock.now());
            }
            return Ok(end);
        }
    }
}

/// Takes the answer, if its head has come; and whether its connection can carry another request.
fn on_bytes(core: &Core, question: &Question, buf: &mut Buf) -> io::Result<Option<(End, bool)>> {
    let mut room = Room::new();
    let read = Response::read(buf.filled(), &mut room, RequestContext::default(), &LIMITS).map_err(io::Error::other)?;
    // An endpoint that sends interim responses to a GET that asked for none is answered by the time limit.
    let Some(response) = read.filter(|response| !response.is_interim()) else { return Ok(None) };
    let Question { pool, reports, slot, endpoint, .. } = question;
    let now = core.clock.now();
    let report = orca::read(|name| response.fields.first(name), &reports.in_flight);
    let end = match report {
        None => End::NoReport,
        Some(Err(why)) => {
            pool.drop_malformed(why);
            End::Answered
        }
        Some(Ok((_, report))) => {
            pool.take_report(*slot, endpoint, Came::Http, &report, now);
            End::Answered
        }
    };
    let (keep_alive, head_len, mut body) = (response.keep_alive, response.head_len(), response.body.clone());
    // A body that has not all come is not waited for.
    let whole = buf.take_body(head_len, &mut body, Keep::Framed).is_ok_and(|taken| head_len + taken.kept == buf.len());
    Ok(Some((end, keep_alive && whole && body.is_done())))
}
