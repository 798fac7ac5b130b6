//! What happens on one client connection? Request after request, until one side has enough; or, where requests are not
//! read, a session ([`tcp`]).

use crate::boxed::reused;
use crate::buffer::Buf;
use crate::client::{Client, Next, Unannounced};
use crate::edge::TooMany;
use crate::end::Cause;
use crate::event_loop;
use crate::exchange::{self, After};
use crate::http1::Reject;
use crate::per_address::Place;
use crate::record::Record;
use crate::rules::Listener;
use crate::stats::Rejected;
use crate::tcp;
use crate::worker::Worker;
use rustix::fd::OwnedFd;
use std::fmt::Display;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

/// Serves a client from its accept to its end; at the latest until the time of its listener is over.
pub fn start(worker: &Rc<Worker>, listener: &Rc<Listener>, fd: OwnedFd, peer: SocketAddr) {
    let (is_tcp, worker, listener) = (listener.peek().tcp.is_some(), worker.clone(), listener.clone());
    if is_tcp {
        event_loop::spawn_made(|| async move {
            let mut open = Open::new(&worker, &listener);
            let mut client = Client::new(&worker, &listener, fd, peer);
            until_cut(&listener, pin!(tcp::serve(&mut client, &mut open.place))).await;
        });
    } else {
        event_loop::spawn_made(|| async move {
            let mut open = Open::new(&worker, &listener);
            let mut client = Client::new(&worker, &listener, fd, peer);
            until_cut(&listener, pin!(requests(&mut client, &mut open.place))).await;
        });
    }
}

async fn until_cut<F: Future<Output = ()>>(listener: &Listener, mut served: Pin<&mut F>) {
    poll_fn(|cx| if listener.cut.get() { Poll::Ready(()) } else { served.as_mut().poll(cx) }).await;
}

/// Finds out who a client is, and whether it may come in: with what it sent behind a header that says so.
///
/// # Errors
/// It may not.
pub async fn admit(client: &mut Client<'_>, place: &mut Option<Place>) -> Result<Option<Buf>, Refused> {
    let listener = client.listener;
    let mut held = None;
    if listener.peek().edge.is_announcing(client.ip) {
        // Boxed: it is over before the first request.
        match Box::pin(client.announced()).await {
            Ok(rest) => held = rest,
            Err(Unannounced) => return Err(reject(client, Rejected::ProxyProtocol)),
        }
    }
    let opened = listener.peek().edge.open(client.ip);
    match opened {
        Ok(opened) => *place = opened,
        Err(TooMany) => return Err(reject(client, Rejected::PerAddress)),
    }
    Ok(held)
}

/// A client that may not come in, which was counted.
pub struct Refused;

async fn requests(client: &mut Client<'_>, place: &mut Option<Place>) {
    let Ok(mut held) = admit(client, place).await else { return };
    let listener = client.listener;
    let mut served = 0u64;
    loop {
        let next = client.next_head(&mut held, served == 0).await;
        served += 1;
        // Boxed: while a connection is idle, which most are most of the time, it needs none of this memory.
        let after = match next {
            Next::Head(mut buf) => {
                let rules = listener.rules();
                let last = served >= rules.requests_max;
                reused(|| exchange::run(client, &rules, &mut buf, last)).await
            }
            Next::End => return,
            Next::Late => Box::pin(give_up(client)).await,
        };
        match after {
            After::Next(rest) => held = rest,
            After::Close => return,
            After::Linger => return client.linger().await,
        }
    }
}

/// Answers a client that sent no whole head in time.
async fn give_up(client: &Client<'_>) -> After {
    let rules = client.listener.rules();
    let record = Record::new(client, &rules);
    refuse(client, &record, Cause::ClientSlow, 408, &"no whole request in time").await;
    After::Linger
}

/// Closes without a word: whoever comes with too much is not worth more work.
fn reject(client: &Client<'_>, why: Rejected) -> Refused {
    client.listener.stats.rejected[why as usize].add(1);
    Refused
}

/// Tells the client why its bytes are no request.
pub async fn refuse_malformed(client: &Client<'_>, record: &Record<'_>, reject: Reject) {
    client.listener.stats.malformed.add(1);
    refuse(client, record, Cause::Proxy, reject.status(), &reject).await;
}

/// Tells the client why there is no request; its connection is to be closed.
async fn refuse(client: &Client<'_>, record: &Record<'_>, cause: Cause, status: u16, why: &dyn Display) {
    record.blame(cause);
    record.status.set(status);
    let sent = client.reply(status, why, true, false, "").await;
    record.count_out(sent as usize);
}

/// Counts a connection while it is open.
struct Open<'w> {
    worker: &'w Worker,
    listener: &'w Listener,
    /// Among those of its address, where they are limited.
    place: Option<Place>,
}

impl<'w> Open<'w> {
    fn new(worker: &'w Worker, listener: &'w Listener) -> Open<'w> {
        listener.stats.active.add(1);
        Open { worker, listener, place: None }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let Open { worker, listener, .. } = *self;
        listener.stats.active.sub(1);
        listener.open.sub();
        worker.connection_closed();
    }
}
