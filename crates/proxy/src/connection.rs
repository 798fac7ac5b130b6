//! What happens on one client connection? Request after request, until one side has enough.

use crate::client::{Client, Next, Unannounced};
use crate::edge::TooMany;
use crate::end::Cause;
use crate::exchange::{self, After};
use crate::http1::Reject;
use crate::per_address::Place;
use crate::record::Record;
use crate::stats::Rejected;
use crate::worker::Worker;
use rustix::fd::OwnedFd;
use std::fmt::Display;
use std::net::SocketAddr;
use std::rc::Rc;

/// Serves a client from its accept to its end.
pub async fn serve(worker: Rc<Worker>, listener: usize, fd: OwnedFd, peer: SocketAddr) {
    let mut open = Open::new(&worker, listener);
    let mut client = Client::new(&worker, listener, fd, peer);
    let mut held = None;
    if client.settings().edge.is_announcing(client.ip) {
        // Boxed: it is over before the first request.
        match Box::pin(client.announced()).await {
            Ok(rest) => held = rest,
            Err(Unannounced) => return reject(&client, Rejected::ProxyProtocol),
        }
    }
    match client.settings().edge.open(client.ip) {
        Ok(place) => open.place = place,
        Err(TooMany) => return reject(&client, Rejected::PerAddress),
    }
    let requests_max = client.settings().requests_max;
    let mut served = 0u64;
    loop {
        let (buf, head_len) = match client.next_head(held.take(), served == 0).await {
            Next::Head(buf, head_len) => (buf, head_len),
            Next::End => return,
            Next::Late => {
                refuse(&client, &Record::new(&client), Cause::ClientSlow, 408, &"no whole request in time").await;
                return client.linger().await;
            }
            Next::Refused(reject) => {
                refuse_malformed(&client, &Record::new(&client), reject).await;
                return client.linger().await;
            }
        };
        served += 1;
        let last = served == requests_max;
        // Boxed: while a connection is idle, which most are most of the time, it needs none of this memory.
        match Box::pin(exchange::run(&client, buf, head_len, last)).await {
            After::Next(rest) => held = rest,
            After::Close => return,
            After::Linger => return client.linger().await,
        }
    }
}

/// Closes without a word: whoever comes with too much is not worth more work.
fn reject(client: &Client<'_>, why: Rejected) {
    client.stats().rejected[why as usize].add(1);
}

/// Tells the client why its bytes are no request.
pub async fn refuse_malformed(client: &Client<'_>, record: &Record<'_>, reject: Reject) {
    client.stats().malformed.add(1);
    refuse(client, record, Cause::Proxy, reject.status(), &reject).await;
}

/// Tells the client why there is no request; its connection is to be closed.
async fn refuse(client: &Client<'_>, record: &Record<'_>, cause: Cause, status: u16, why: &dyn Display) {
    record.blame(cause);
    record.status.set(status);
    let sent = client.reply(status, why, true, false, None).await;
    record.count_out(sent as usize);
}

/// Counts a connection while it is open.
struct Open<'w> {
    worker: &'w Worker,
    listener: usize,
    /// Among those of its address, where they are limited.
    place: Option<Place>,
}

impl<'w> Open<'w> {
    fn new(worker: &'w Worker, listener: usize) -> Open<'w> {
        worker.stats.listeners[listener].active.add(1);
        Open { worker, listener, place: None }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let Open { worker, listener, .. } = *self;
        worker.stats.listeners[listener].active.sub(1);
        worker.listeners[listener].open.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        worker.connection_closed();
    }
}
